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
    if (attributes == attributes_.end() || world_.now() >= attributes->second.until) {
      return std::nullopt;
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
    if (is_given && before == drops_of_entries_) entries_[name] = {inode, until};
    if (!found_now) return found_now;
    // Watched from before it is read.
    if (watched_.insert(inode).second) {
      files_.watch(inode, *this);
    } else if (found_now->kept && attributes_before == drops_of_attributes_) {
      attributes_[inode] = {*found_now, until};
    }
    return found_now;
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
    if (world_.random().chance(1, 2)) return entry_changed(inode, name);
    if (until > world_.now()) world_.run_for(until - world_.now());
  }

  uint64_t found = 0;

 private:
  struct Entry {
    InodeId inode;
    engine::Time until{};
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
};

}  // namespace penstock::client
