// Where the names of a store are, with the database open: RocksDB in its directory, or a database
// of a PostgreSQL server (docs/decisions/0064-where-names-live.md).
#pragma once

#include "kept_names.h"
#include "store_directory.h"
#include "turn.h"

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "penstock/agent.h"
#include "penstock/kv_move.h"

namespace penstock::agent {

inline kv::Place place_here(const std::string& store, const std::string& copy) {
  return {.state = kv::Place::State::here, .store = store, .copy = copy, .to_copy = {}, .to = {}};
}

// Made and ended by one thread; the rest is thread safe.
class NamesHome {
 public:
  // Opens them, or makes them where the store is fresh. `config.names`: where they are, as the
  // operator says, with a password perhaps; empty: as the directory says. What a move that was cut
  // short has left is settled first. Where other directories of the node may have them it waits for
  // its turn, as `config` says.
  static Outcome<std::unique_ptr<NamesHome>> open(const StoreDirectory& directory,
                                                  const AgentConfig& config);
  // Nobody uses the Kv any more. Of a store that is fresh still, a database on a server is removed.
  ~NamesHome();

  engine::Kv& kv() { return *movable_; }
  NamesStatus status() const;
  // Of names on a server when they were opened: for those who wait for a turn. None: of RocksDB.
  std::optional<TurnConfig> turn() const;
  // They were taken from a process that may still run as long as its lease.
  bool predecessor_may_run() const { return predecessor_may_run_; }
  // They are on a server that could not be reached when that was last tried. By what all databases
  // of this process say, so that another one may be meant.
  bool is_away() const;
  // See Agent::move_names().
  Outcome<NamesMoved> move(const std::string& to, const NamesProgress& progress);
  // Only of RocksDB: see Storage::checkpoint_meta().
  Outcome<void> checkpoint(const std::string& path);
  // Before the store is finished: its names stay from now on.
  Outcome<void> finish_making();

 private:
  // A place of names. With a password only in memory.
  struct Spot {
    std::string url;  // empty: RocksDB
    std::string secret_url;
    bool is_rocksdb() const { return url.empty(); }
  };
  using Database = std::shared_ptr<engine::Kv>;
  using State = kv::Place::State;
  class Moving;

  NamesHome(const StoreDirectory& directory, const AgentConfig& config);
  Outcome<void> find_own(const AgentConfig& config);
  Outcome<void> keep_own(const Spot& spot) const;
  Outcome<Database> open_in_turn(const Spot& spot);
  Outcome<void> begin(const std::string& wanted);
  Outcome<void> make(const Spot& spot);
  void use(const Spot& spot, const kv::Place& place, Database database);
  Outcome<void> find(const KeptNames& kept, const Spot& wanted);
  Outcome<void> find_settled(const KeptNames& kept, const Spot& at);
  Outcome<void> refuse_other_copy(const KeptNames& kept, const Spot& at,
                                  const kv::Place& place) const;
  Outcome<void> settle(const KeptNames& kept, const Spot& at);
  Outcome<void> settle_with(const KeptNames& kept, const Spot& at, Database from);
  Outcome<void> settle_without(const KeptNames& kept, const Failure& reason);
  Outcome<void> use_new(const KeptNames& kept, const Spot& from, Database to, kv::Place place);
  Outcome<Database> open_at(const Spot& spot, bool create) const;
  Outcome<kv::Place> read_place(const Spot& spot, engine::Kv& kv) const;
  Outcome<void> refuse_unless_here(const Spot& spot, const kv::Place& place) const;
  Outcome<NamesMoved> copy_and_switch(const Spot& to, Database made, const std::string& copy,
                                      const NamesProgress& progress);
  Outcome<Database> make_empty(const Spot& spot, const std::string& copy);
  // Removes what is there.
  Outcome<void> clear(const Spot& spot) const;
  Outcome<void> clear_rest(const Spot& spot) const;
  Outcome<Database> open_to_look(const Spot& spot) const;
  static Result<bool> is_rest(engine::Kv& kv);
  Outcome<void> write_settled(const Spot& spot, const std::string& copy) const;
  Outcome<void> remove_rests() const;
  void tidy() const;
  std::string text_of(const Spot& spot) const;
  std::string new_copy() const;
  static Outcome<Spot> parse(const std::string& text);
  Failure failure(Status status, const std::string& why) const {
    return {status, path_ + ": " + why};
  }

  const std::string path_;       // of the store
  const std::string meta_path_;  // of RocksDB in it
  const std::string store_;      // whose names
  Holder own_;                   // what others are told of this process
  const std::function<bool(const StandbyStatus&)> stands_by_;
  const std::function<void(const std::string&)> taken_over_;
  std::optional<kv::PostgresOptions::Lost> lost_;  // from whom they are to be taken
  bool predecessor_may_run_ = false;
  bool is_fresh_ = false;
  std::mutex copying_mutex_;  // a copy of RocksDB is made, or what was moved is put away
  mutable std::mutex mutex_;  // of what follows, but the last
  Spot spot_;
  kv::Place place_;
  bool is_moving_ = false;
  Spot moving_to_;
  uint64_t copied_ = 0;
  std::unique_ptr<kv::MovableKv> movable_;
};

}  // namespace penstock::agent
