// A kernel with a mount of a process: it keeps names of the root directory, and attributes, as long
// as it is told that it may, also while the process is stopped.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "penstock/client.h"
#include "penstock/sim.h"

namespace penstock::client {

// In a simulation: nothing else runs while it does not wait for the file system.
class KernelModel final : public Observer {
 public:
  KernelModel(FileSystem& files, holds::KeptEntries& kept, sim::SimWorld& world)
      : files_(files), kept_(kept), world_(world) {
    files_.add_observer(*this);
    files_.watch(meta::kRootInode, *this);
  }
  ~KernelModel() override { files_.remove_observer(*this); }

  // What it knows without asking; none: it has to ask.
  std::optional<Result<Attributes>> known(const std::string& name) {
    const auto entry = entries_.find(name);
    if (entry == entries_.end() || world_.now() >= entry->second.until) return std::nullopt;
    const InodeId inode = entry->second.inode;
    if (inode == InodeId()) return Result<Attributes>(Code::not_found);
    const auto attributes = attributes_.find(inode);
    // Which inode it is, it needs no attributes to know.
    if (attributes == attributes_.end() || world_.now() >= attributes->second.until) {
      return Result<Attributes>(entry->second.seen);
    }
    ++found;
    return Result<Attributes>(attributes->second.value);
  }
  Result<Attributes> ask(const Credentials& who, const std::string& name) {
    const uint64_t before = drops_of_entries_;
    const uint64_t attributes_before = drops_of_attributes_;
    Result<Attributes> found_now = files_.lookup(who, meta::kRootInode, name);
    if (!found_now && found_now.error() != Code::not_found) return found_now;
    const InodeId inode = found_now ? found_now->inode : InodeId();
    const engine::Duration keep =
        std::clamp<engine::Duration>(files_.lease_left(), {}, std::chrono::seconds(1));
    const engine::Time until = world_.now() + keep;
    // Who drops an entry waits for those who are looking it up.
    const bool is_given = kept_.give(meta::kRootInode, name, inode, until);
    if (is_given && before == drops_of_entries_) {
      entries_[name] = {inode, until, found_now ? *found_now : Attributes()};
    }
    if (!found_now) return found_now;
    // Watched from before it is read.
    if (watched_.insert(inode).second) {
      files_.watch(inode, *this);
    } else if (found_now->kept && attributes_before == drops_of_attributes_) {
      attributes_[inode] = {*found_now, until};
    }
    return found_now;
  }

  // Moves a name, with the directory locked. What it knew of it goes along, for as long as it was
  // given.
  Status rename(const Credentials& who, const std::string& from, const std::string& to) {
    ++renames_;
    const Status status =
        files_.rename(who, meta::kRootInode, from, meta::kRootInode, to, {}, this);
    --renames_;
    if (status.ok()) move(from, to);
    return status;
  }

  void data_changed(InodeId inode, uint64_t, uint64_t, std::function<void()> done) override {
    ++drops_of_attributes_;
    attributes_.erase(inode);
    done();
  }
  void entry_changed(InodeId, std::string_view name) override {
    ++drops_of_entries_;
    entries_.erase(std::string(name));
  }
  // Another program has the directory locked, perhaps.
  void entry_recalled(InodeId inode, std::string_view name, engine::Time until) override {
    const bool is_locked = world_.random().chance(1, 2);
    while (!is_locked && renames_ > 0 && until > world_.now()) {
      world_.run_for(std::chrono::milliseconds(1));
    }
    if (!is_locked && renames_ == 0) return entry_changed(inode, name);
    if (until > world_.now()) world_.run_for(until - world_.now());
  }

  uint64_t found = 0;

 private:
  // What moves is there, also where somebody has asked for its old name since: a kernel lets
  // nobody, as it has the directory locked until the answer is there.
  void move(const std::string& from, const std::string& to) {
    entries_.erase(to);
    if (auto entry = entries_.extract(from); !entry.empty() && entry.mapped().inode != InodeId()) {
      entry.key() = to;
      entries_.insert(std::move(entry));
    }
  }

  struct Entry {
    InodeId inode;
    engine::Time until{};
    Attributes seen;  // what does not change of them
  };
  struct Known {
    Attributes value;
    engine::Time until{};
  };

  FileSystem& files_;
  holds::KeptEntries& kept_;  // also where the file system does not ask it, on purpose
  sim::SimWorld& world_;
  std::map<std::string, Entry> entries_;
  std::map<InodeId, Known> attributes_;
  std::set<InodeId> watched_;
  // All of them: one that is dropped while another is asked for is asked for again.
  uint64_t drops_of_entries_ = 0;
  uint64_t drops_of_attributes_ = 0;
  uint64_t renames_ = 0;  // under way
};

}  // namespace penstock::client
