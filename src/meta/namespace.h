// The implementation of Meta, spread over files by what the operations do.
#pragma once

#include "permissions.h"
#include "quota_table.h"
#include "record_cache.h"
#include "trash_table.h"
#include "view.h"

#include <memory>
#include <string>
#include <unordered_map>

#include "penstock/meta/keys.h"

namespace penstock::meta {

// What is kept in memory: ids reserved by a durable transaction, so that none is ever given twice,
// not even after a power cut, and the number of inodes. Thread safe.
class Counters {
 public:
  Counters(engine::Kv& kv, const Keys& keys) : kv_(kv), keys_(keys) {}

  // A number that was never given before: an inode id, a cookie, a token.
  Result<uint64_t> new_id();
  // None of the numbers that were given is greater. Not known without set_next(): the greatest.
  uint64_t newest_id() const;
  // Before the first new_id(): where the next batch begins.
  void set_next(uint64_t next);
  void set_inodes(uint64_t count);
  void add_inodes(int64_t change);
  uint64_t inodes() const;

 private:
  engine::Kv& kv_;
  const Keys& keys_;
  mutable engine::Mutex mutex_;
  uint64_t next_ = 0;
  uint64_t end_ = 0;
  uint64_t inodes_ = 0;
};

// A directory's own name and its "." are 2 links, each subdirectory's ".." is one more. A damaged
// count must not overflow.
inline void drop_subdirectory(Inode& directory) {
  if (directory.attributes.links > 2) --directory.attributes.links;
}

class Namespace final : public Meta {
 public:
  Namespace(engine::Kv& kv, const engine::Clock& clock, MetaOptions options);
  // Verifies the format or makes a new file system, and finds the count of inodes.
  Outcome<bool> start();
  Status close() override;

  Result<Attributes> lookup(const Credentials& credentials, InodeId parent,
                            std::string_view name) override;
  Result<Attributes> resolve(const Credentials& credentials, std::string_view path,
                             bool follow_last) override;
  Result<std::vector<Result<Attributes>>> resolve_many(const Credentials& credentials,
                                                       const std::vector<std::string_view>& paths,
                                                       bool follow_last) override;
  Result<ResolvedParent> resolve_parent(const Credentials& credentials,
                                        std::string_view path) override;
  Result<Attributes> attributes(InodeId inode) override;
  Status look(std::span<Look> looks) override;
  Result<std::string> read_symlink(InodeId inode) override;
  Result<Attributes> set_attributes(const Credentials& credentials, InodeId inode,
                                    const SetAttributes& changes) override;
  Result<PrivilegesTaken> drop_privileges(const FileWriter& writer, InodeId inode) override;
  Result<Attributes> create(const Credentials& credentials, InodeId parent, std::string_view name,
                            uint32_t mode, bool exclusive, std::optional<Layout> layout,
                            bool* created, Creation how) override;
  Status record_accessed(const std::vector<Accessed>& accesses) override;
  Result<InodeId> unused_id() override;
  Result<Attributes> create_unnamed(const Credentials& credentials, InodeId parent, uint32_t mode,
                                    InodeId id) override;
  Result<Attributes> make_directory(const Credentials& credentials, InodeId parent,
                                    std::string_view name, uint32_t mode) override;
  Result<Attributes> make_node(const Credentials& credentials, InodeId parent,
                               std::string_view name, FileType type, uint32_t mode,
                               uint64_t device) override;
  Result<Attributes> make_symlink(const Credentials& credentials, InodeId parent,
                                  std::string_view name, std::string_view target) override;
  Result<Attributes> link(const Credentials& credentials, InodeId inode, InodeId new_parent,
                          std::string_view new_name) override;
  Result<std::vector<Result<NewFile>>> place_files(const Credentials& credentials,
                                                   const std::vector<WantedPlace>& wanted) override;
  Status create_files(const Credentials& credentials, const std::vector<CompleteFile>& files,
                      std::vector<Result<MadeFile>>* made) override;
  Status unlink(const Credentials& credentials, InodeId parent, std::string_view name,
                Removed* removed) override;
  Status remove_directory(const Credentials& credentials, InodeId parent, std::string_view name,
                          Removed* removed) override;
  Status rename(const Credentials& credentials, InodeId parent, std::string_view name,
                InodeId new_parent, std::string_view new_name, RenameFlags flags,
                Removed* removed) override;
  Status read_directory(InodeId directory, uint64_t after_cookie, size_t max_entries,
                        bool with_attributes, const DirectoryVisitor& visit) override;
  uint64_t newest_cookie() const override { return counters_.newest_id(); }
  Result<std::string> get_xattr(const Credentials& credentials, InodeId inode,
                                std::string_view name) override;
  Result<Attributes> set_layout(const Credentials& credentials, InodeId directory,
                                const LayoutEdit& change) override;
  Status set_xattr(const Credentials& credentials, InodeId inode, std::string_view name,
                   std::string_view value, XattrMode mode) override;
  Result<std::vector<std::string>> list_xattrs(const Credentials& credentials,
                                               InodeId inode) override;
  Status remove_xattr(const Credentials& credentials, InodeId inode,
                      std::string_view name) override;
  Result<uint64_t> begin_write(InodeId inode) override;
  Status settle(InodeId inode, const Settled& settled, bool durable) override;
  Status end_write(InodeId inode) override;
  Result<std::vector<InodeId>> unsettled() override;
  Result<bool> is_unsettled(InodeId inode) override;
  Status sync() override;
  Result<std::vector<InodeId>> orphans(size_t limit, InodeId after) override;
  Status forget(InodeId inode) override { return forget_many({&inode, 1}); }
  Status forget_many(std::span<const InodeId> inodes) override;
  Result<FileSystemCounts> counts() override;
  Status set_quota(QuotaSubject subject, const QuotaLimits& limits, std::string_view path) override;
  Status delete_quota(QuotaSubject subject) override;
  Result<std::vector<Quota>> quotas(std::optional<QuotaSubject> after, size_t limit) override;
  Result<QuotaCheck> check_quota(QuotaSubject subject, bool repair) override;
  Result<std::optional<Quota>> quota_of(InodeId inode) override;
  Result<uint64_t> reserve(InodeId inode, uint64_t length) override;
  Status set_trash(InodeId directory, std::optional<uint32_t> days, std::string_view path) override;
  bool has_trash() const override { return trash_.top() != InodeId(); }
  Result<TrashDays> trash_of(InodeId inode) override;
  Result<std::vector<TrashSetting>> trash_settings(InodeId after, size_t limit) override;
  Result<TrashEmptied> empty_trash(InodeId hour, uint64_t after, size_t limit) override;

 private:
  // The two shapes of every operation: body(View&) returns a Result or a Status; of a Result the
  // value of the attempt that committed is returned.
  template <class Body>
  auto transact(engine::KvMode mode, const Body& body);

  // The same for what changes what is counted: body(View&, Charges&), which begins anew each time.
  template <class Body>
  auto charged(engine::KvMode mode, const Body& body, Charges::Gate gate = Charges::Gate::shared,
               bool always = false);

  struct NewInode {
    FileType type = FileType::regular;
    uint32_t mode = 0;
    uint64_t device = 0;
    std::string_view target;
    std::optional<Layout> layout;
    InodeId id;                      // 0: any
    std::optional<uint64_t> writer;  // the token of a write session
  };
  struct Made {
    Attributes attributes;
    bool created = true;
  };
  Result<Made> make(const Credentials& credentials, InodeId parent, std::string_view name,
                    const NewInode& what, bool existing_is_fine);
  // Directories of a transaction, each looked up once.
  using Parents = std::unordered_map<InodeId, Result<Inode>>;
  Result<MadeFile> make_complete(View& view, const Credentials& credentials,
                                 const CompleteFile& file, Parents& parents, TrashIds& ids,
                                 Charges& charges) const;
  // What set_attributes() does to them.
  Status change(const Credentials& credentials, const SetAttributes& changes,
                Attributes& attributes) const;
  Inode build(const Credentials& credentials, const Inode& parent, uint64_t id,
              const NewInode& what) const;

  // Whether a file can be made with it.
  Status check_reach(const Layout& layout) const {
    return options_.reaches && !options_.reaches(layout) ? Code::not_serving : Code::ok;
  }

  // The name that something loses.
  struct Leaving {
    InodeId parent;
    std::string_view name;
    FileTime now;
    TrashIds& ids;
  };
  // Takes one link from `inode`, whose entry is gone; puts the record. When that was the last it is
  // an orphan, or in the trash.
  Result<Removed> drop_link(View& view, Inode& inode, const Leaving& from, Charges& charges) const;
  // False if there was nothing left of it.
  static Result<bool> forget_in(View& view, InodeId inode);
  Outcome<bool> count_inodes();

  // trash.cc
  Status load_trash();
  // For so many things that a transaction may remove; none where nothing is kept.
  Result<TrashIds> trash_ids(size_t entries);
  Result<Removed> move_to_trash(View& view, Inode& inode, const Leaving& from, uint32_t days) const;
  Result<InodeId> trash_hour_of(View& view, const std::string& name, FileTime now, TrashIds& ids,
                                KeptInTrash& kept) const;
  Status make_trash(View& view, InodeId id) const;
  Result<TrashEmptied> empty_some(View& view, InodeId hour, uint64_t after, size_t limit,
                                  Charges& charges) const;
  // `name`: what it was called.
  Result<Removed> remove_empty_hour(InodeId hour, std::string& name);
  // What has happened.
  void note_removed(const Removed& removed) {
    if (removed.kept && removed.kept->is_new_hour) counters_.add_inodes(1);
  }

  // quotas.cc
  Status load_quotas();
  struct Counted {
    UsageRecord found;
    UsageRecord before;
    struct Unplaced {
      InodeId inode;
      InodeId directory;
      std::string name;
    };
    std::vector<Unplaced> unplaced;  // files that name no directory, by a name of theirs
  };
  static Result<Counted> count(View& view, QuotaSubject subject);
  Status adopt(const std::vector<Counted::Unplaced>& unplaced);
  Result<Counted> count_all(QuotaSubject subject);
  Status correct(QuotaSubject subject, const Counted& counted);

  engine::Kv& kv_;
  const engine::Clock& clock_;
  const MetaOptions options_;
  const Keys keys_;
  const std::unique_ptr<RecordCache> cache_;  // null: there is none
  Counters counters_;
  QuotaTable quotas_;
  // What it remembers of directories is right whoever asks.
  mutable TrashTable trash_;
  engine::Mutex counting_{engine::Held::across_calls};  // one at a time corrects
};

// A directory of the trash itself, not what lies in it.
inline bool is_trash(const Inode& inode) {
  return inode.trash == TrashPart::top || inode.trash == TrashPart::hour;
}
// Whether anything may get that name there, for whomever: not_permitted in the trash, and for the
// trash's own name; not_found where the directory has been removed and is kept.
Status require_addable(const Inode& directory, std::string_view name);
// not_permitted for the trash's own directories: they stay as they are.
Status require_own(const Inode& inode);

// Takes an extended attribute from an inode, whose record is the caller's to put; false if it has
// none of that name.
Result<bool> take_xattr(View& view, Inode& inode, std::string_view name);

// Runs the body as a transaction and hands its result on.
template <class Body>
auto Namespace::transact(engine::KvMode mode, const Body& body) {
  using Returned = decltype(body(std::declval<View&>()));
  const bool reads = mode == engine::KvMode::read;
  RecordCache::Changes changes(reads ? nullptr : cache_.get());
  CacheUse use;
  if (cache_ != nullptr) {
    use = reads ? CacheUse{cache_.get(), cache_->now(), nullptr} : CacheUse{nullptr, 0, &changes};
  }
  std::optional<Returned> returned;
  const Status status = kv_.run(mode, [&](engine::KvTransaction& transaction) -> Status {
    View view(transaction, keys_, use);
    if constexpr (std::is_same_v<Returned, Status>) {
      return body(view);
    } else {
      returned.emplace(body(view));
      return returned->has_value() ? Status() : returned->error();
    }
  });
  // A store that is opened again after that may turn out to have it.
  if (status.code() == Code::may_have_happened || status.code() == Code::io_error) {
    changes.stay_open();
  }
  if constexpr (std::is_same_v<Returned, Status>) {
    return status;
  } else {
    if (!status.ok()) return Returned(status);
    // Of the attempt that has committed.
    ASSERT(returned.has_value() && returned->has_value());
    return std::move(*returned);
  }
}

template <class Body>
auto Namespace::charged(engine::KvMode mode, const Body& body, Charges::Gate gate, bool always) {
  Charges charges(quotas_, gate);
  auto result = transact(mode, [&](View& view) -> decltype(body(view, charges)) {
    charges.begin();
    auto done = body(view, charges);
    if constexpr (std::is_same_v<decltype(done), Status>) {
      if (done.ok()) done = charges.finish(view, always);
    } else {
      if (const Status status = done.has_value() ? charges.finish(view, always) : Status();
          !status.ok()) {
        return status;
      }
    }
    return done;
  });
  if constexpr (std::is_same_v<decltype(result), Status>) {
    charges.end(result);
  } else {
    charges.end(result.has_value() ? Status() : result.error());
  }
  return result;
}

}  // namespace penstock::meta
