// Names that move from one database to another while they are used
// (docs/decisions/0064-where-names-live.md).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "penstock/engine.h"

namespace penstock::kv {

// What a database says of itself, in a record that is never copied.
inline constexpr std::string_view kPlaceKey = "~place";

struct Place {
  enum class State : uint8_t {
    filling,  // a copy that is not complete
    here,     // the truth
    moved,    // was the truth
  };
  State state = State::here;
  std::string store;    // whose names: 32 hexadecimal digits
  std::string copy;     // which database: likewise, drawn when it was made
  std::string to_copy;  // of one that was moved: to which
  std::string to;       // and where that is, for people

  friend bool operator==(const Place&, const Place&) = default;
};

std::string encode(const Place& place);
std::optional<Place> decode_place(std::string_view bytes);
// Nothing where there is no such record. corrupt: not one.
Result<std::optional<Place>> place_of(engine::Kv& kv);
// Durable when it returns.
Status set_place(engine::Kv& kv, const Place& place);

struct MoveProgress {
  uint64_t records = 0;  // that were copied so far, those of rounds included
  uint64_t bytes = 0;
  uint64_t rounds = 0;  // over what had changed meanwhile
};

struct MoveReport {
  uint64_t records = 0;
  uint64_t bytes = 0;
  uint64_t rounds = 0;
  engine::Duration pause{};  // how long changes waited
  uint64_t pauses = 0;       // that were begun; more than one: the first took too long
};

// A Kv in front of another one, which can be exchanged for a third with the same content. Ends with
// io_error where the one behind says peer_gone. Thread safe. Destroyed as the one behind it.
class MovableKv final : public engine::Kv {
 public:
  // Where it stands first, and threads for submit().
  MovableKv(std::shared_ptr<engine::Kv> kv, int worker_threads);
  ~MovableKv() override;

  void submit(engine::KvOp& op) override;
  using engine::Kv::run;
  Status run(engine::KvOp& op) override;
  Status sync() override;

  // The one that it stands in front of now. Whoever changes something there, past this one, keeps
  // it from moves.
  std::shared_ptr<engine::Kv> behind() const;

  struct Move {
    std::shared_ptr<engine::Kv> to;  // says that it is being filled, and has nothing else
    Place moved;                     // what the old one says from the switch on
    Place here;                      // what the new one says then
    // A key without which nobody uses a database: copied last, and erased from the old one by the
    // commit that is the switch. Empty: there is none.
    std::string last_key;
    // Told now and then, by the thread that moves; false gives up, as long as that is possible.
    std::function<bool(const MoveProgress&)> progress;
    // A switch whose answer did not come is asked for again so long.
    engine::Duration patience = std::chrono::seconds(30);
  };
  // Copies all to `move.to`, while others go on, and puts that in the place of the one behind.
  // Blocks; changes of others wait for less than 5 s at the end. When it returns nobody uses the
  // old one any more. With a failure all is as before, and what is in `move.to` is of no use: busy
  // (another move; changes come too fast), cancelled, what either database said. But with
  // may_have_happened nobody knows which is the truth, and all operations end with io_error from
  // now on.
  Outcome<MoveReport> move(const Move& move);

 private:
  struct Home;
  class Mover;
  class Use;
  class Pool;

  Status run_behind(engine::KvOp& op);
  // Under the mutex, which it waits with.
  void wait_to_write(std::unique_lock<std::mutex>& lock);
  void note(const std::set<std::string>& keys);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Home> home_;  // null: nobody knows
  bool is_moving_ = false;
  bool is_paused_ = false;
  bool is_switching_ = false;  // in a pause, which nobody ends now but who moves
  // Noting: keys that changed since. A writer that began before it is of the other generation.
  bool is_noting_ = false;
  bool has_too_many_ = false;  // changes were not noted any more
  unsigned generation_ = 0;
  uint64_t writers_[2] = {};
  std::set<std::string> noted_;
  std::unique_ptr<Pool> pool_;  // last: its threads use everything above
};

}  // namespace penstock::kv
