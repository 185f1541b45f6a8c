// One session of a node that is restricted: what it was shown, what it has proven, and how its
// calls are judged.
#pragma once

#include "fields.h"
#include "limits.h"
#include "messages.h"

#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "penstock/engine.h"
#include "penstock/meta_net/node_rights.h"

namespace penstock::meta_net {

// Bits of what is known of a file's number.
enum Proven : uint8_t {
  kProvenName = 1,  // an answer has shown it
  kProvenRead = 2,  // of a directory: its names may be listed
  kProvenWrite = 4,
  kProvenEnter = 8,  // of a directory: its names may be looked up
};

// Those that were used last: the half that is older goes when the newer one is full.
class ProvenFiles {
 public:
  void add(InodeId inode, uint8_t bits) { newer(inode) |= bits; }
  bool has(InodeId inode, uint8_t bits) {
    const auto found = newer_.find(inode.value);
    if (found == newer_.end() && !older_.contains(inode.value)) return false;
    return (newer(inode) & bits) == bits;
  }
  size_t size() const { return newer_.size() + older_.size(); }

 private:
  uint8_t& newer(InodeId inode);

  std::unordered_map<uint64_t, uint8_t> newer_;
  std::unordered_map<uint64_t, uint8_t> older_;
};

// Thread safe; may block on Meta, and holds no lock meanwhile.
class Limited {
 public:
  Limited(meta::Meta& meta, const engine::Clock& clock, std::shared_ptr<const Limits> limits,
          uint64_t session)
      : meta_(meta), clock_(clock), limits_(std::move(limits)), session_(session) {}

  const Limits& limits() const { return *limits_; }
  uint64_t session() const { return session_; }

  // ok: it may be carried out, as it stands then, in the node's name.
  Status admit(Request& request);
  // What a path leads to is found here, by the subtree's own root.
  bool has_subtree() const { return !limits_->what.subtree.empty(); }
  Result<Attributes> run(const ask::Resolve& asked);
  Result<Found> run(const ask::ResolveMany& asked);
  Result<meta::ResolvedParent> run(const ask::ResolveParent& asked);
  Result<Places> run(const ask::PlaceFiles& asked);
  // Remembers what an answer shows, and says it in the node's words. One that it must not see
  // becomes a failure.
  template <class Call>
  void take(const Call& asked, Result<typename Call::Answer>& answer);

  bool has(InodeId inode, uint8_t bits);
  // Which inode the node means by that number, as it was found last; 0: it was not. Does not block.
  InodeId number_of(InodeId said);
  void prove(InodeId inode, uint8_t bits);

 private:
  friend class Judge;
  friend class Subtree;

  struct Inside {
    bool is = false;
    engine::Time until{};
  };

  Result<InodeId> root();
  Status require_inside(InodeId directory);
  Result<bool> is_inside(InodeId directory, InodeId root);
  std::optional<bool> known_inside(InodeId directory);
  void note_inside(const std::vector<InodeId>& directories, bool is);
  Status require_named(InodeId inode);
  Status require_proven(InodeId inode, uint8_t bits);
  Status admit_user(meta::Credentials& who);
  Result<meta::ResolvedParent> walk(const Credentials& who, std::string path, bool follow_last,
                                    std::string* canonical);

  meta::Meta& meta_;
  const engine::Clock& clock_;
  const std::shared_ptr<const Limits> limits_;
  const uint64_t session_;
  engine::Mutex mutex_;
  // Under the mutex.
  ProvenFiles proven_;
  InodeId root_;
  engine::Time root_until_{};
  std::unordered_map<uint64_t, Inside> inside_;  // directories
};

// Visits the fields of a message that name inodes, users or attributes, in it and in what it has.
template <class Visitor>
class Fields {
 public:
  explicit Fields(Visitor& visitor) : visitor_(visitor) {}

  template <class... T>
  void operator()(T&... values) {
    (one(values), ...);
  }
  template <class T>
  void list(std::vector<T>& list, size_t) {
    for (T& each : list) one(each);
  }
  template <class Choice>
  void plain(Choice&) {}

  template <class T>
  void one(T& value) {
    if constexpr (requires { visitor_.on(value); }) visitor_.on(value);
    if constexpr (kIsOptional<T>) {
      if (value) one(*value);
    } else if constexpr (kIsResult<T>) {
      if (value) one(*value);
    } else if constexpr (std::is_class_v<T> && !kIsId<T> && !std::is_same_v<T, std::string> &&
                         !std::is_same_v<T, Status> && !std::is_same_v<T, meta::FileTime>) {
      if constexpr (requires { T::fields(*this, value); }) {
        T::fields(*this, value);
      } else {
        fields(*this, value);
      }
    }
  }

 private:
  Visitor& visitor_;
};

}  // namespace penstock::meta_net
