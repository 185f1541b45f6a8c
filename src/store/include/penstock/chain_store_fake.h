// A ChainStore in memory, for tests of chains: it takes its time, may be killed, and may lose
// power.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "penstock/chain_store.h"
#include "penstock/store.h"

namespace penstock::store {

// What is on the disk, and what is on its way there. Outlives the stores that work on it, one after
// the other.
class FakeChainImage {
 public:
  // What was not made durable is gone, but for what happens to be written: a part of it from the
  // oldest on.
  void power_cut(engine::Random& random) {
    const size_t kept = random.below(steps_.size() + 1);
    for (size_t i = 0; i < kept; ++i) steps_[i](durable_);
    steps_.clear();
    durable_number_ = applied_;
    now_ = durable_;
  }

  struct Chunk {
    UpdateName committed;
    bool removed = false;
    std::string bytes;
    std::optional<PendingUpdate> pending;
    std::string pending_bytes;
  };
  const std::map<ChainChunk, Chunk>& chunks() const { return now_.chunks; }

 private:
  friend class FakeChainStore;
  using SlotKey = std::tuple<ChainId, uint32_t, uint32_t>;
  struct Content {
    std::map<ChainChunk, Chunk> chunks;
    std::map<SlotKey, SlotRecord> slots;
  };
  using Step = std::function<void(Content&)>;

  void apply(Step step) {
    step(now_);
    steps_.push_back(std::move(step));
    ++applied_;
  }
  // Everything up to the step with this number is on the disk.
  void make_durable(uint64_t number) {
    for (; durable_number_ < number && !steps_.empty(); ++durable_number_) {
      steps_.front()(durable_);
      steps_.pop_front();
    }
  }

  Content now_, durable_;
  std::deque<Step> steps_;
  uint64_t applied_ = 0;
  uint64_t durable_number_ = 0;
};

class FakeChainStore final : public ChainStore {
 public:
  FakeChainStore(FakeChainImage& image, engine::Loop& loop) : image_(image), loop_(loop) {}
  ~FakeChainStore() override { ASSERT(waiting_.empty()); }

  // How long an operation takes.
  engine::Duration delay_max = std::chrono::microseconds(300);
  // Decides the fate of the next prepare or replace.
  std::function<Status()> fault = [] { return Status(Code::ok); };

  // The process dies: what is under way ends with closed, and nothing has an effect any more. What
  // is asked for later ends so, too.
  void die() {
    dead_ = true;
    for (const auto& [op, waiting] : std::exchange(waiting_, {})) {
      loop_.cancel(waiting->timer);
      loop_.complete(*op, Code::closed);
    }
  }

  void submit(PrepareOp& op) override {
    if (dead_) return loop_.complete(op, Code::closed);
    if (const Status status = fault(); !status.ok()) return later(op, [status] { return status; });
    PendingUpdate update{op.at, op.name, {op.parts.begin(), op.parts.end()}};
    std::string bytes(reinterpret_cast<const char*>(op.bytes.data), op.bytes.length);
    ASSERT(bytes.size() == update_bytes(update.parts));
    ASSERT(!image_.now_.chunks[op.at].pending.has_value());
    change(op, [update, bytes](FakeChainImage::Content& content) {
      FakeChainImage::Chunk& chunk = content.chunks[update.at];
      chunk.pending = update;
      chunk.pending_bytes = bytes;
    });
  }

  void submit(LookOp& op) override {
    const auto found = image_.now_.chunks.find(op.at);
    op.state = found == image_.now_.chunks.end() ? ChunkState{} : state_of(found->second);
    later(op, [] { return Status(Code::ok); });
  }

  void submit(CopyReadOp& op) override {
    const auto found = image_.now_.chunks.find(op.at);
    std::string bytes = found == image_.now_.chunks.end() ? "" : found->second.bytes;
    const uint64_t end = op.begin + op.destination.length;
    const bool has_hole = bytes.size() < end;
    if (has_hole && op.refuse_holes) return later(op, [] { return Status(Code::no_data); });
    bytes.resize(std::max<uint64_t>(bytes.size(), end));
    later(op, [&op, bytes] {
      std::memcpy(op.destination.data, bytes.data() + op.begin, op.destination.length);
      return Status(Code::ok);
    });
  }

  void submit(PendingReadOp& op) override {
    const auto found = image_.now_.chunks.find(op.at);
    if (found == image_.now_.chunks.end() || !found->second.pending) {
      return later(op, [] { return Status(Code::not_found); });
    }
    const std::string& bytes = found->second.pending_bytes;
    ASSERT(bytes.size() == op.destination.length);
    if (!bytes.empty()) std::memcpy(op.destination.data, bytes.data(), bytes.size());
    later(op, [] { return Status(Code::ok); });
  }

  void submit(ListOp& op) override {
    op.entries.clear();
    const auto& chunks = image_.now_.chunks;
    for (auto it = chunks.lower_bound(op.from); it != chunks.end(); ++it) {
      if (it->first.chain != op.from.chain || op.entries.size() == op.limit) break;
      op.entries.push_back({it->first.chunk, state_of(it->second)});
    }
    later(op, [] { return Status(Code::ok); });
  }

  void submit(ReplaceOp& op) override {
    if (dead_) return loop_.complete(op, Code::closed);
    if (const Status status = fault(); !status.ok()) return later(op, [status] { return status; });
    ASSERT(op.bytes.length == op.state.length);
    std::string bytes(reinterpret_cast<const char*>(op.bytes.data), op.bytes.length);
    std::vector<SlotRecord> slots(op.slots.begin(), op.slots.end());
    change(op, [at = op.at, state = op.state, bytes, slots](FakeChainImage::Content& content) {
      if (state.committed == UpdateName{}) {
        content.chunks.erase(at);
      } else {
        content.chunks[at] = {state.committed, state.removed, bytes, std::nullopt, ""};
      }
      for (const SlotRecord& slot : slots) keep(content, slot);
    });
  }

  void commit(const ChainChunk& at) override {
    if (dead_) return;
    ASSERT(image_.now_.chunks.at(at).pending.has_value());
    image_.apply([at](FakeChainImage::Content& content) {
      FakeChainImage::Chunk& chunk = content.chunks[at];
      const PendingUpdate update = *std::exchange(chunk.pending, std::nullopt);
      size_t taken = 0;
      for (const UpdatePart& part : update.parts) {
        perform(chunk, part, chunk.pending_bytes, taken);
        keep(content, {part.request, at, update.name});
      }
      chunk.pending_bytes.clear();
      chunk.committed = update.name;
    });
  }

  void forget(const ChainChunk& at) override {
    if (dead_) return;
    image_.apply([at](FakeChainImage::Content& content) {
      content.chunks[at].pending.reset();
      content.chunks[at].pending_bytes.clear();
    });
  }

  std::vector<PendingUpdate> pending(ChainId chain) const override {
    std::vector<PendingUpdate> all;
    for (const auto& [at, chunk] : image_.now_.chunks) {
      if (at.chain == chain && chunk.pending) all.push_back(*chunk.pending);
    }
    return all;
  }
  std::optional<SlotRecord> slot(ChainId chain, NodeId node, uint32_t slot) const override {
    const auto found = image_.now_.slots.find({chain, node.value, slot});
    if (found == image_.now_.slots.end()) return std::nullopt;
    return found->second;
  }
  std::vector<SlotRecord> slots_of(const ChainChunk& at) const override {
    std::vector<SlotRecord> found;
    for (const auto& [key, record] : image_.now_.slots) {
      if (record.at == at) found.push_back(record);
    }
    return found;
  }

 private:
  struct Waiting {
    engine::Timer timer;
    std::function<Status()> then;
    FakeChainStore* store = nullptr;
    engine::Op* op = nullptr;
  };

  static ChunkState state_of(const FakeChainImage::Chunk& chunk) {
    return {chunk.committed, chunk.removed, static_cast<uint32_t>(chunk.bytes.size())};
  }

  static void keep(FakeChainImage::Content& content, const SlotRecord& record) {
    const RequestId& request = record.request;
    SlotRecord& known = content.slots[{record.at.chain, request.node, request.slot}];
    const std::pair age(request.incarnation, request.sequence);
    if (std::pair(known.request.incarnation, known.request.sequence) < age) known = record;
  }

  static void perform(FakeChainImage::Chunk& chunk, const UpdatePart& part,
                      const std::string& bytes, size_t& taken) {
    if (part.kind == UpdateKind::remove) {
      chunk.bytes.clear();
      chunk.removed = true;
      return;
    }
    chunk.removed = false;
    if (part.kind == UpdateKind::write) {
      chunk.bytes.resize(std::max<size_t>(chunk.bytes.size(), part.end));
      chunk.bytes.replace(part.begin, part.end - part.begin, bytes, taken, part.end - part.begin);
      taken += part.end - part.begin;
    } else if (part.begin < chunk.bytes.size()) {
      if (part.end == kWholeChunk) return chunk.bytes.resize(part.begin);
      const size_t end = std::min<size_t>(part.end, chunk.bytes.size());
      std::fill(chunk.bytes.begin() + part.begin, chunk.bytes.begin() + static_cast<ptrdiff_t>(end),
                '\0');
    }
  }

  // On its way at once, and durable after a while.
  void change(engine::Op& op, FakeChainImage::Step step) {
    image_.apply(std::move(step));
    later(op, [this, number = image_.applied_] {
      image_.make_durable(number);
      return Status(Code::ok);
    });
  }

  void later(engine::Op& op, std::function<Status()> then) {
    if (dead_) return loop_.complete(op, Code::closed);
    auto waiting = std::make_unique<Waiting>();
    waiting->then = std::move(then);
    waiting->store = this;
    waiting->op = &op;
    waiting->timer.owner = waiting.get();
    waiting->timer.completion = [](engine::Op& due) {
      auto& self = due.owner_as<Waiting>();
      const auto mine = self.store->waiting_.extract(self.op);
      mine.mapped()->op->status = mine.mapped()->then();
      mine.mapped()->op->completion(*mine.mapped()->op);
    };
    const int64_t most = delay_max.count();
    const engine::Duration delay(loop_.random().below(static_cast<uint64_t>(most) + 1));
    loop_.start(waiting->timer, loop_.now() + delay);
    waiting_.emplace(&op, std::move(waiting));
  }

  FakeChainImage& image_;
  engine::Loop& loop_;
  std::map<engine::Op*, std::unique_ptr<Waiting>> waiting_;
  bool dead_ = false;
};

}  // namespace penstock::store
