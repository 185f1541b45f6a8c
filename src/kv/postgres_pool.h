// The connections of a Kv: each has a place, a row in the database that tells which of its commits
// happened.
#pragma once

#include "postgres_address.h"
#include "postgres_link.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "penstock/kv.h"

namespace penstock::kv::postgres {

// Thread safe.
class Pool {
 public:
  struct Place {
    std::unique_ptr<Link> link;
    // Its row. Of the commits on it: the last that was tried, and the last that the database said
    // it has. Whoever changes the row takes `known` back first: pairs with expectations().
    std::atomic<uint32_t> row{0};
    uint64_t tried = 0;
    std::atomic<uint64_t> known{0};
    std::atomic<engine::Time> known_at{engine::Time{}};

    bool connected() const { return link != nullptr && link->usable(); }
  };
  // The use of one place.
  class Use {
   public:
    Use(Pool& pool, Place& place) : pool_(&pool), place_(&place) {}
    Use(Use&& other) noexcept : pool_(other.pool_), place_(std::exchange(other.place_, nullptr)) {}
    Use& operator=(Use&&) = delete;
    ~Use() {
      if (place_ != nullptr) pool_->put_back(*place_);
    }
    Place& operator*() const { return *place_; }
    Place* operator->() const { return place_; }

   private:
    Pool* pool_;
    Place* place_;
  };

  // `process`: its number in the database.
  Pool(Address address, const PostgresOptions& options, std::string process);

  // A place with a connection. busy when there is none until the deadline, peer_gone or what the
  // server said when it cannot be reached, io_error when what was committed is lost.
  Result<Use> take(engine::Time deadline);
  // Of the place's last commit it is not known whether it happened. Finds out, and sees to it that
  // it does not happen later. may_have_happened if nobody could be asked until the deadline.
  Result<bool> happened(Place& place, engine::Time deadline);
  // Who waits ends with closed.
  void close();
  // After close(), when no place is in use: removes the rows of all places, if that can be done
  // until the deadline.
  void forget(engine::Time deadline);

  const Address& address() const { return address_; }
  const std::string& process() const { return process_; }

 private:
  Place* take_free();  // under the mutex
  Result<Place*> wait_for_free(engine::Time deadline);
  bool is_closed();
  void put_back(Place& place);
  // One attempt.
  Link::Outcome<bool> connect(Place& place, engine::Time deadline);
  Link::Outcome<bool> greet(Place& place, Link& link, engine::Time deadline);
  // What the database has of a place, as it said.
  struct Expectation {
    uint32_t row = 0;
    uint64_t known = 0;
  };
  std::vector<Expectation> expectations() const;
  Fault taken_over();
  Link::Outcome<bool> compare(const std::vector<Expectation>& expected, const Answer& rows);
  // Gives a place another row when many versions of the one that it has may lie about: each commit
  // leaves one, which the server keeps as long as anybody reads from an older snapshot. False if
  // the connection did not do it.
  bool renew(Place& place);
  // Tell people, once for each change.
  void reached();
  void not_reached(const Fault& fault);
  // Longer each time. False when it is to be closed, or the deadline is too near.
  enum class Until : uint8_t { time, any_is_free };
  bool pause(std::chrono::milliseconds& length, engine::Time deadline, Until until);

  const Address address_;
  const PostgresOptions options_;
  const std::string process_;
  std::atomic<uint32_t> rows_{0};  // that were given
  std::atomic<size_t> host_{0};    // the one that answered last
  // Commits that were acknowledged are gone, or another process has the names: only a new start
  // works with what is there.
  std::atomic<bool> lost_{false};
  metrics::Counter stopped_{"kv.stopped"};
  metrics::Counter connections_{"kv.connections"};  // that were made
  metrics::Counter in_use_{"kv.connections.in_use"};
  // Operations that found none free, and how long they were waiting.
  metrics::Counter waited_{"kv.connections.waited"};
  metrics::Counter waited_nanoseconds_{"kv.connections.waited.nanoseconds"};

  std::mutex mutex_;
  std::condition_variable freed_;
  bool closed_ = false;
  bool told_ = false;                           // that it cannot be reached
  std::vector<std::unique_ptr<Place>> places_;  // not changed
  std::vector<Place*> free_;
};

}  // namespace penstock::kv::postgres
