// What an agent keeps of names and attributes while others may change them.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "penstock/engine.h"
#include "penstock/holds.h"
#include "penstock/meta.h"
#include "penstock/meta_passed_on.h"

namespace penstock::kept_names {

struct KeptNamesConfig {
  // What is kept is kept under its holds, and found while its lease runs. Both outlive the names.
  holds::Holding* holding = nullptr;
  const engine::Clock* clock = nullptr;
  // Names and attributes, together.
  size_t kept_max = size_t{1} << 20;
  // Nothing is to be kept at the moment, as `meta` judges each question by whom it is for. Empty:
  // that never is so. Any thread; does not block.
  std::function<bool()> is_off = {};
};

// The names of another process, of which this one keeps what it was told under a shared hold of the
// inode: for a directory entries, and names that are not there; attributes of anything. What it
// changes itself it forgets before it asks. `meta` says what is steady (GuardedNames, over a net).
//
// Thread safe, for threads that may block. Rights are checked here as Meta would, where what they
// are checked against is kept.
class KeptNames final : public meta::PassedOn, public holds::KeptEntries {
 public:
  KeptNames(meta::Meta& meta, const KeptNamesConfig& config);
  ~KeptNames() override;

  // ---- the hold of an inode goes, or a change of it is told: from any thread, without blocking
  // ----

  void drop(InodeId inode);
  // Of a directory; the empty name for the attributes, which go with any.
  void drop_names(InodeId inode, const std::vector<std::string>& names);
  void drop_all();

  // ---- KeptEntries ----

  // Not where others have changed the directory lately.
  bool give(InodeId directory, std::string_view name, InodeId inode, engine::Time until) override;
  engine::Time given(InodeId directory, std::string_view name) override;
  void give_renamed(InodeId directory, std::string_view name, engine::Time until) override;
  bool is_kept(InodeId directory, std::string_view name, InodeId inode) override;
  Given take_given(InodeId directory, const std::vector<std::string>* names) override;
  void told(InodeId directory, const Given& given) override;
  engine::Time given_until() override { return given_until_.load(); }

  // ---- Meta ----

  Result<meta::Attributes> lookup(const meta::Credentials& who, InodeId parent,
                                  std::string_view name) override;
  Result<meta::Attributes> resolve(const meta::Credentials& who, std::string_view path,
                                   bool follow_last) override;
  // As many questions as the longest path has components, for all of them together.
  Result<std::vector<Result<meta::Attributes>>> resolve_many(
      const meta::Credentials& who, const std::vector<std::string_view>& paths,
      bool follow_last) override;
  Result<meta::Attributes> attributes(InodeId inode) override;
  Status look(std::span<meta::Look> looks) override;
  Result<std::string> get_xattr(const meta::Credentials& who, InodeId inode,
                                std::string_view name) override;
  Result<std::vector<std::string>> list_xattrs(const meta::Credentials& who,
                                               InodeId inode) override;

  Result<meta::Attributes> set_attributes(const meta::Credentials& who, InodeId inode,
                                          const meta::SetAttributes& changes) override;
  Result<meta::Attributes> set_layout(const meta::Credentials& who, InodeId directory,
                                      const LayoutEdit& change) override;
  Result<meta::PrivilegesTaken> drop_privileges(const meta::FileWriter& writer,
                                                InodeId inode) override;
  Status record_accessed(const std::vector<Accessed>& accesses) override;
  Result<meta::Attributes> create(const meta::Credentials& who, InodeId parent,
                                  std::string_view name, uint32_t mode, bool exclusive,
                                  std::optional<meta::Layout> layout, bool* created,
                                  meta::Creation how) override;
  Result<meta::Attributes> make_directory(const meta::Credentials& who, InodeId parent,
                                          std::string_view name, uint32_t mode) override;
  Result<meta::Attributes> make_node(const meta::Credentials& who, InodeId parent,
                                     std::string_view name, meta::FileType type, uint32_t mode,
                                     uint64_t device) override;
  Result<meta::Attributes> make_symlink(const meta::Credentials& who, InodeId parent,
                                        std::string_view name, std::string_view target) override;
  Result<meta::Attributes> link(const meta::Credentials& who, InodeId inode, InodeId new_parent,
                                std::string_view new_name) override;
  Status create_files(const meta::Credentials& who, const std::vector<meta::CompleteFile>& files,
                      std::vector<Result<meta::MadeFile>>* made) override;
  Status unlink(const meta::Credentials& who, InodeId parent, std::string_view name,
                meta::Removed* removed) override;
  Status remove_directory(const meta::Credentials& who, InodeId parent, std::string_view name,
                          meta::Removed* removed) override;
  Status rename(const meta::Credentials& who, InodeId parent, std::string_view name,
                InodeId new_parent, std::string_view new_name, meta::RenameFlags flags,
                meta::Removed* removed) override;
  Status set_xattr(const meta::Credentials& who, InodeId inode, std::string_view name,
                   std::string_view value, meta::XattrMode mode) override;
  Status remove_xattr(const meta::Credentials& who, InodeId inode, std::string_view name) override;
  Status settle(InodeId inode, const meta::Settled& settled, bool durable) override;

  Status set_trash(InodeId directory, std::optional<uint32_t> days, std::string_view path) override;
  Result<meta::TrashEmptied> empty_trash(InodeId hour, uint64_t after, size_t limit) override;

  struct Figures {
    uint64_t found = 0;  // here
    uint64_t asked = 0;  // of `meta`
    size_t kept = 0;
  };
  Figures figures() const;

 private:
  struct NameHash;
  struct Kept;
  struct Shard;
  class Walk;
  class Own;
  class Entered;

  // With the shard's lock.
  void note_given(Kept& kept, std::string_view name, engine::Time until);
  Shard& shard_of(InodeId inode);
  std::optional<InodeId> kept_entry(InodeId directory, std::string_view name);
  // Null: they are not known.
  std::shared_ptr<const meta::Attributes> kept_attributes(InodeId inode);
  bool is_off() const { return config_.is_off && config_.is_off(); }
  bool may_find() const { return config_.holding->lease_left() > engine::Duration::zero(); }
  // Asks, and keeps what may be kept.
  Status fetch(std::span<meta::Look> looks);
  bool keep(const meta::Look& look, holds::Changes::Moment since, engine::Time asked);
  bool keep_attributes(const meta::Attributes& found, holds::Changes::Moment since,
                       engine::Time asked);
  void want(InodeId inode);
  void forget_names(InodeId inode, const std::vector<std::string>& names, engine::Time calm_after);
  // not_supported: `meta` judges each question, and it is not known here yet.
  Status walk_all(std::vector<Walk>& walks);
  void make_room(Shard& shard);
  template <class Body>
  auto changing(std::vector<std::pair<InodeId, std::string_view>> parts, const Body& change)
      -> decltype(change());
  void add_target(std::vector<std::pair<InodeId, std::string_view>>& parts, InodeId parent,
                  std::string_view name);
  void note_removed(const meta::Removed& removed);

  const KeptNamesConfig config_;
  const size_t kept_of_shard_;
  holds::Changes changes_;  // own ones, and those that are told
  std::atomic<uint64_t> found_{0};
  std::atomic<uint64_t> asked_{0};
  std::atomic<engine::Time> given_until_{};  // of all
  std::atomic<uint64_t> gives_{0};
  static constexpr size_t kShards = 64;
  std::array<std::unique_ptr<Shard>, kShards> shards_;
};

}  // namespace penstock::kept_names
