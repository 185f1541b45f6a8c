// Chunks of chains that the target has no part in any more: they go, in the background, so that a
// disk that hands over chains has room again.
#pragma once

#include "shared.h"

#include <deque>

namespace penstock::chain {

// Of one target. Owned by its loop.
class Remains {
 public:
  explicit Remains(Shared& host) : host_(host) {}
  ~Remains() { *alive_ = false; }

  // By the newest version of the chain the target has no part in it.
  void clear(ChainId chain);
  // It has one again. `then` runs when nothing goes any more, at once or later: what is there then
  // stays.
  void stop(ChainId chain, std::function<void()> then);
  void close() {
    waiting_.clear();
    due_.clear();
    is_last_ = true;
  }

 private:
  void next();
  void take_list(const std::vector<store::ListEntry>& entries);
  void drop_some();
  void drop(ChunkId chunk);
  void go_on();

  // An operation whose end matters only as long as this lives.
  template <class T>
  Task<T>& task(std::function<void(Task<T>&)> then) {
    ++host_.under_way->count;
    return Task<T>::make(
        [alive = alive_, under_way = host_.under_way, then = std::move(then)](Task<T>& done) {
          if (*alive) then(done);
          if (--under_way->count == 0 && under_way->none_left) under_way->none_left();
        });
  }

  Shared& host_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::deque<ChainId> waiting_;
  std::optional<ChainId> current_;
  bool is_listing_ = false;
  bool is_last_ = false;  // the list had all that is there
  std::deque<ChunkId> due_;
  size_t under_way_ = 0;
  std::vector<std::function<void()>> stopped_;  // wait for its end; nothing more is begun then
};

}  // namespace penstock::chain
