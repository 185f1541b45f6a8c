// The directory of a store: what is in it, whose it is, and when it is refused.
//
//   LOCK             held (flock) by the process that serves the store; its number is in it
//                    (`store_lock.h`)
//   penstock.store   the superblock: text, written last when the store is made
//   penstock.making  there while the store is being made
//   secret           the key of reopen tokens
//   agent.sock       the socket of sessions
//   meta/            the namespace's database
//   meta.checkpoint/ a copy of it, while a command reads that (penstock/meta_copy.h)
//   meta.loading/    another one, while a dump is loaded into it
//   targets/N/data   chunks; targets/N/kv their block maps
//   disks/N          where other targets lie (disks.h)
//   records          the file system's own block, where there is no target here
#pragma once

#include <array>
#include <memory>
#include <set>
#include <string>

#include "penstock/agent.h"
#include "penstock/wire.h"

namespace penstock::agent {

inline constexpr uint32_t kStoreVersion = 1;

struct Superblock {
  std::string uuid;
  uint32_t shards = 1;
  uint64_t chunk_bytes = 0;
  uint64_t capacity_bytes = 0;
};

class StoreDirectory {
 public:
  // Takes the directory for this process, makes it if that is what `config` leads to, and reads or
  // prepares its superblock. Refuses, having changed nothing, with a message that names the
  // directory and says what to do: another version, in use, read-only, full, not empty and not a
  // store, damaged. What a making left that was cut short is removed, and the store made anew.
  // Without `needs_meta` the namespace's database may be missing.
  static Outcome<std::unique_ptr<StoreDirectory>> open(const AgentConfig& config,
                                                       bool needs_meta = true);
  ~StoreDirectory() = default;

  const std::string& path() const { return path_; }
  // True while the store is being made: the databases are to be created.
  bool fresh() const { return fresh_; }
  const Superblock& superblock() const { return superblock_; }
  const std::array<uint64_t, 2>& secret() const { return secret_; }
  std::string meta_path() const { return path_ + "/meta"; }
  // Of a target, with what belongs to it.
  std::string target_path(uint32_t target) const {
    return path_ + "/targets/" + std::to_string(target);
  }
  std::string data_path(uint32_t target) const { return target_path(target) + "/data"; }
  std::string kv_path(uint32_t target) const { return target_path(target) + "/kv"; }
  std::string socket_path() const { return path_ + "/" + wire::kSessionSocketName; }

  // Everything is in place and on stable storage: from now on this is a store.
  Outcome<void> finish_making();
  // Removes what was made, after a failure while fresh(); an empty directory is left, or none if
  // there was none.
  void undo_making();

 private:
  Outcome<void> inspect(const AgentConfig& config);
  Outcome<void> refuse_what_is_no_store(const AgentConfig& config,
                                        const std::set<std::string>& names) const;
  Outcome<void> lock();
  Outcome<void> take_over(const std::set<std::string>& names);
  Outcome<void> read_superblock();
  Outcome<void> begin_making(const AgentConfig& config);
  Outcome<void> read_secret();
  Failure failure(Status status, const std::string& why) const;

  std::string path_;
  bool needs_meta_ = true;
  bool made_directory_ = false;
  bool fresh_ = false;
  Superblock superblock_;
  std::array<uint64_t, 2> secret_{};
  UniqueFd lock_;
};

}  // namespace penstock::agent
