// What the parts of a Kv that can be moved share.
#pragma once

#include "workers.h"

#include "penstock/kv_move.h"

namespace penstock::kv {

// One that it stands in front of, or stood.
struct MovableKv::Home {
  std::shared_ptr<engine::Kv> kv;
  uint64_t uses = 0;  // under the mutex: operations under way
};

class MovableKv::Pool : public Workers {
 public:
  using Workers::Workers;
};

// An operation's use of the one behind. Waits while changes are held back, if it changes something.
class MovableKv::Use {
 public:
  Use(MovableKv& owner, bool writes);
  ~Use();
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  // Null: nobody knows which it is.
  engine::Kv* kv() const { return home_ == nullptr ? nullptr : home_->kv.get(); }
  bool is_noted() const { return is_noted_; }

 private:
  MovableKv& owner_;
  const bool writes_;
  bool is_noted_ = false;
  unsigned generation_ = 0;
  std::shared_ptr<Home> home_;
};

// One move. Used by the thread that moves.
class MovableKv::Mover {
 public:
  Mover(MovableKv& owner, const Move& move);
  Outcome<MoveReport> run();

 private:
  void begin_noting();
  Outcome<void> copy_all();
  Outcome<void> catch_up();
  // Sets is_switched_, or comes back for another round.
  Outcome<void> try_switch();
  Outcome<void> switch_over();
  Outcome<void> mark_old();
  void end();

  using Records = std::vector<std::pair<std::string, std::string>>;
  // From `at` on, which is then where the next ones begin; false: there are no more.
  Result<bool> read_records(std::string& at, Records& records) const;
  // Takes from `keys` those that are copied; those that are left when the deadline passes stay.
  Status copy_keys(std::set<std::string>& keys, engine::Time deadline);
  Status copy_last_key();
  Status put(const Records& records, const std::vector<std::string>& erased);
  std::set<std::string> take_noted();
  void give_back(std::set<std::string> keys);
  bool pause(engine::Time deadline);
  void resume();
  // Whether the pause has lasted, which nobody ends from now on.
  bool begin_switching();
  Outcome<void> may_go_on() const;
  bool is_own(std::string_view key) const { return key == kPlaceKey || key == move_.last_key; }
  MoveProgress progress() const { return {report_.records, report_.bytes, report_.rounds}; }

  MovableKv& owner_;
  const Move& move_;
  std::shared_ptr<Home> from_;
  MoveReport report_;
  bool is_switched_ = false;
};

}  // namespace penstock::kv
