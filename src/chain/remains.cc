#include "remains.h"

#include <algorithm>

namespace penstock::chain {

void Remains::clear(ChainId chain) {
  const bool is_known = current_ == chain && stopped_.empty();
  if (is_known || std::find(waiting_.begin(), waiting_.end(), chain) != waiting_.end()) return;
  waiting_.push_back(chain);
  next();
}

void Remains::stop(ChainId chain, std::function<void()> then) {
  std::erase(waiting_, chain);
  if (current_ != chain) return then();
  due_.clear();
  stopped_.push_back(std::move(then));
}

void Remains::next() {
  if (current_ || waiting_.empty()) return;
  current_ = waiting_.front();
  waiting_.pop_front();
  is_listing_ = true;
  auto& list = task<store::ListOp>([this](Task<store::ListOp>& done) {
    is_listing_ = false;
    // A target that cannot list fails by what it serves.
    is_last_ = !done.status.ok() || done.entries.size() < limits::kRemainsList;
    if (done.status.ok() && stopped_.empty()) take_list(done.entries);
    go_on();
  });
  list.from = {*current_, {}};
  list.limit = limits::kRemainsList;
  host_.store().submit(list);
}

void Remains::take_list(const std::vector<store::ListEntry>& entries) {
  for (const store::ListEntry& entry : entries) due_.push_back(entry.chunk);
  drop_some();
}

void Remains::drop_some() {
  while (!due_.empty() && under_way_ < limits::kDropsAtOnce) {
    const ChunkId chunk = due_.front();
    due_.pop_front();
    drop(chunk);
  }
}

void Remains::drop(ChunkId chunk) {
  ++under_way_;
  auto& op = task<store::ReplaceOp>([this](Task<store::ReplaceOp>& done) {
    ASSERT(under_way_ > 0);
    --under_way_;
    if (done.status.ok()) {
      host_.cleared.add();
      drop_some();
    } else {
      due_.clear();
      is_last_ = true;
    }
    go_on();
  });
  op.at = {*current_, chunk};
  host_.store().submit(op);
}

// When nothing is under way: the rest of the chain, or the next one.
void Remains::go_on() {
  if (is_listing_ || under_way_ > 0 || !due_.empty()) return;
  const ChainId chain = *std::exchange(current_, std::nullopt);
  const auto stopped = std::exchange(stopped_, {});
  if (stopped.empty() && !is_last_) waiting_.push_front(chain);
  for (const auto& then : stopped) then();
  next();
}

}  // namespace penstock::chain
