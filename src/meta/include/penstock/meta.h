// The namespace: inodes, directory entries, attributes, links, xattrs, write sessions and the
// records of removed files, kept in a transactional key-value store.
//
// Meta holds no state but a batch of unused ids, a count and, if it is asked to, records that were
// read lately: everything else is read from the store, and each call that reads or changes it is
// one transaction. Nothing here touches file data: lengths are what
// clients settle, chunks are removed by the client that collects orphans.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "penstock/engine.h"
#include "penstock/meta/layout.h"
#include "penstock/meta/quota.h"
#include "penstock/meta/trash.h"

namespace penstock::meta {

inline constexpr InodeId kRootInode{1};

// The user that asks. uid 0 passes every check, except that executing a regular file needs some x
// bit.
struct Credentials {
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<uint32_t> groups;  // supplementary
  // False when another has checked already (the kernel under default_permissions, or an open
  // handle that gives the right): then permissions, ownership and sticky bits are not checked and
  // the ids only say which user owns what is created.
  bool enforce = true;
  // Taken from the modes of what is created, unless the directory's default ACL decides.
  uint32_t umask = 0;
};

enum class FileType : uint8_t { regular, directory, symlink, fifo, socket, character, block };
// The same as the S_IFMT bits of st_mode.
mode_t type_bits(FileType type);

// A time of a file, to the nanosecond, in the range that ext4 has for it: from 1901-12-13 to
// 2446-05-10. What is set outside of it becomes the nearest whole second within, as there. Eight
// bytes, so that it can be atomic.
class FileTime {
 public:
  static constexpr int64_t kSecondsMin = -(int64_t{1} << 31);
  static constexpr int64_t kSecondsMax = (int64_t{1} << 34) + kSecondsMin - 1;
  static constexpr int64_t kNanoseconds = 1'000'000'000;
  static_assert(kSecondsMax > INT64_MAX / kNanoseconds, "a clock of 64 bits ends before");

  constexpr FileTime() = default;  // 1970-01-01
  // Implicit: a reading of a clock is a time.
  constexpr FileTime(engine::WallTime time)  // NOLINT(google-explicit-constructor)
      : since_first_(time.nanoseconds < (kSecondsMin + 1) * kNanoseconds
                         ? 0
                         : static_cast<uint64_t>(time.nanoseconds) + kEpoch) {}
  // Since 1970; `nanoseconds` are those of the second, below kNanoseconds.
  constexpr FileTime(int64_t seconds, int64_t nanoseconds) {
    if (seconds <= kSecondsMin || seconds >= kSecondsMax) {
      seconds = seconds <= kSecondsMin ? kSecondsMin : kSecondsMax;
      nanoseconds = 0;
    }
    since_first_ = static_cast<uint64_t>(seconds - kSecondsMin) * uint64_t{kNanoseconds} +
                   static_cast<uint64_t>(nanoseconds);
  }

  constexpr int64_t seconds() const {
    return static_cast<int64_t>(since_first_ / uint64_t{kNanoseconds}) + kSecondsMin;
  }
  constexpr int64_t nanoseconds() const {
    return static_cast<int64_t>(since_first_ % uint64_t{kNanoseconds});
  }
  // Nanoseconds since the first moment: how it is stored. Values above kRawMax are no times.
  static constexpr uint64_t kRawMax =
      static_cast<uint64_t>(kSecondsMax - kSecondsMin) * uint64_t{kNanoseconds};
  constexpr uint64_t raw() const { return since_first_; }
  static constexpr FileTime from_raw(uint64_t raw) {
    FileTime time;
    time.since_first_ = raw;
    return time;
  }
  friend constexpr auto operator<=>(const FileTime&, const FileTime&) = default;

 private:
  static constexpr uint64_t kEpoch =
      static_cast<uint64_t>(-kSecondsMin) * static_cast<uint64_t>(kNanoseconds);

  uint64_t since_first_ = kEpoch;
};
static_assert(sizeof(FileTime) == 8);

// Flags of inodes, with the numbers that FS_IOC_SETFLAGS has for them.
enum InodeFlag : uint32_t {
  kInodeImmutable = 0x10,   // nothing about it changes, no name of it goes, none is added
  kInodeAppendOnly = 0x20,  // only grows; names in such a directory are only added
  kInodeNoDump = 0x40,      // kept for backup programs
  kInodeNoAtime = 0x80,     // reading it leaves no trace
};
inline constexpr uint32_t kInodeFlags =
    kInodeImmutable | kInodeAppendOnly | kInodeNoDump | kInodeNoAtime;

struct Attributes {
  InodeId inode;
  FileType type = FileType::regular;
  uint32_t mode = 0;  // permission bits with suid, sgid and sticky (07777); no type bits
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t links = 0;   // 0: an orphan, removed but perhaps open
  uint64_t length = 0;  // regular: as last settled; symlink: of the target; directory: 4096
  uint64_t device = 0;  // rdev of character and block nodes
  FileTime accessed, modified, changed, created;
  Layout layout;  // of directories: what files created in them get
  uint64_t generation = 0;
  uint32_t flags = 0;  // a sum of InodeFlag
  bool has_xattrs = false;
  // Regular files: some block below the length may be a hole, or blocks may lie beyond it. While it
  // is false every block of the length is there, and no other.
  bool sparse = false;
  uint64_t allocated = 0;  // bytes that it takes up; only client::FileSystem fills it in
  // They stay so until this process is told of a change; only who keeps them says so.
  bool kept = false;
  std::string acl;  // the POSIX access ACL, as system.posix_acl_access has it; empty: there is none
};

struct SetAttributes {
  std::optional<uint32_t> mode;
  std::optional<uint32_t> uid;
  std::optional<uint32_t> gid;
  std::optional<uint64_t> length;
  std::optional<FileTime> accessed;
  std::optional<FileTime> modified;
  std::optional<uint32_t> flags;
  // Whether a new length leaves set-id bits; where it does not say, user id 0 does.
  std::optional<bool> keeps_set_ids;
  bool accessed_now = false;  // these two win over the explicit times
  bool modified_now = false;
  // chown() without a new owner, (-1, -1): for every user where no set-id bit goes by it, else the
  // owner.
  bool chown_to_nobody = false;
  // With a length: blocks may lie beyond it for now, so the file counts as sparse.
  bool leaves_blocks = false;
};

// Cookies are stable for the life of the entry, at least kCookieMin and below 2^63. Smaller values
// are free for "." and "..", which read_directory() does not return.
inline constexpr uint64_t kCookieMin = 1024;
struct DirectoryEntry {
  std::string name;
  InodeId inode;
  FileType type = FileType::regular;
  uint64_t cookie = 0;
};

// Where the trash has taken something, that names its hour.
struct KeptInTrash {
  InodeId hour;
  std::string name;  // in that
  InodeId top;
  std::string hour_name;     // in that
  bool is_new_hour = false;  // was made for it
};

// What an unlink, remove_directory or replacing rename took a link from.
struct Removed {
  InodeId inode;           // 0: nothing was removed
  bool last_link = false;  // it is an orphan now: to be given to forget() when no open uses it
  Attributes attributes;   // after the operation
  // Its last name went, and it has another one there. Only in the process that has the names.
  std::optional<KeptInTrash> kept = {};
};

struct RenameFlags {
  bool no_replace = false;
  bool exchange = false;
};

struct Settled {
  uint64_t length = 0;
  FileTime modified;
  bool only_grow = false;  // keep the recorded length if it is larger
  std::optional<bool> sparse = {};
  bool end_session = false;  // also does what end_write() does
};

// The extended attribute that gives a program capabilities; a write takes it away.
inline constexpr std::string_view kCapabilityXattr = "security.capability";

// The program that changes the bytes of a file, which takes from it what lets it run as another
// user.
struct FileWriter {
  Credentials who;             // whether it is enforced does not matter
  bool keeps_set_ids = false;  // as CAP_FSETID says
};
struct PrivilegesTaken {
  bool any = false;           // there was something to take
  bool set_ids_left = false;  // others may lose more
};
enum class XattrMode : uint8_t { any, create, replace };

struct ResolvedParent {
  Attributes parent;
  std::string name;                // the last component, perhaps "." or ".."; "." for the root
  bool must_be_directory = false;  // the path ended in a slash
};

// Where a regular file is to be made, by create_files().
struct NewFile {
  InodeId inode;  // given to this caller only, and of no file yet
  InodeId parent;
  std::string name;
  Layout layout;
  // Takes the place of what has the name by then, as rename() does.
  bool replace = false;
};
struct CompleteFile {
  NewFile place;
  uint32_t mode = 0;  // umask applied
  uint64_t length = 0;
  SetAttributes changes;  // no length; as if made afterwards, by the same user
  bool sparse = false;
};
struct MadeFile {
  Attributes attributes;
  Removed replaced;  // what had its name
};
// A path for a regular file. With `replace` another file may have that name, or a link.
struct WantedPlace {
  std::string_view path;
  bool replace = false;
};

// What somebody asks for who keeps the answer: an entry of a directory, or an inode.
struct Look {
  InodeId inode;                               // the directory, where there is a name
  std::string name;                            // neither "." nor ".."; empty: the inode itself
  Result<Attributes> found = Code::not_found;  // out; of a link itself
  // Out: nothing of it was being changed meanwhile, so that whoever is told of changes may keep it.
  bool is_steady = false;
  // Of a name: which inode it leads to, as who asks has heard; for those on the way who keep
  // answers.
  InodeId leads_to = {};
};

struct Capacity {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
};

// For statfs.
struct FileSystemCounts {
  uint64_t inodes = 0;  // including orphans
  Capacity capacity;
};

struct MetaOptions {
  Layout default_layout;
  // Where statfs gets its bytes from; may be empty. Called on the thread that asks.
  std::function<Capacity()> capacity;
  // The root directory of a new file system belongs to these.
  uint32_t root_uid = 0;
  uint32_t root_gid = 0;
  uint32_t root_mode = 0755;
  // Whether the chains of a layout can be reached; where it says no, no file is made with it: the
  // call ends with not_serving. From any thread, without blocking. Empty: all can.
  std::function<bool(const Layout&)> reaches;
  // So many inodes and entries that were read are kept, so that finding them again reads nothing.
  // Only where no other changes the store: no other Meta, here or elsewhere.
  size_t cached_records = 0;
  // Comes before every key, for a database shared with others. Part of the format.
  std::string key_prefix;
};

enum Access : uint32_t { kAccessExecute = 1, kAccessWrite = 2, kAccessRead = 4 };
// access_denied unless the mode bits, or the ACL, grant all that is in `wanted` (a sum of Access).
Status check_access(const Credentials& credentials, const Attributes& attributes, uint32_t wanted);
// What Meta answers for an extended attribute where the inode says of itself that it has none, or
// has it; nothing: only Meta knows.
std::optional<Result<std::string>> xattr_of(const Credentials& credentials,
                                            const Attributes& attributes, std::string_view name);
// How a file is to be opened, as far as its flags allow it or not.
struct OpenKind {
  bool write = false;
  bool append = false;  // bytes go to the end only
  bool truncate = false;
};
// not_permitted when kInodeImmutable or kInodeAppendOnly forbid it, to root too.
Status check_open(const Attributes& attributes, OpenKind kind);

// How create() makes a file.
struct Creation {
  InodeId id = {};           // from unused_id(), whether it is used or not; 0: any
  bool begin_write = false;  // as begin_write() in the same transaction, if the file is made
};

// Thread safe. All calls may block on the key-value store (in simulations it is inline). Besides
// what is said below every call can end with io_error, no_space, corrupt (a record does not decode;
// logged with its key), or busy (too many conflicts; nothing happened).
//
// Changes survive the death of the process when the call returns, and a power cut after the next
// sync() or durable settle().
class Meta {
 public:
  // Creates the root in an empty database; refuses one of another format version or that is not a
  // namespace. `kv` and `clock` outlive the Meta.
  static Outcome<std::unique_ptr<Meta>> open(engine::Kv& kv, const engine::Clock& clock,
                                             MetaOptions options);
  virtual ~Meta() = default;
  // Records the count of inodes and syncs. Without it the next open() counts again.
  virtual Status close() = 0;

  // Looking. The parent needs x. "." and ".." are understood.
  virtual Result<Attributes> lookup(const Credentials& credentials, InodeId parent,
                                    std::string_view name) = 0;
  // An absolute path inside the file system; symbolic links on the way are followed, absolute ones
  // from this root. The last component is followed too if `follow_last`, or if a slash follows it.
  virtual Result<Attributes> resolve(const Credentials& credentials, std::string_view path,
                                     bool follow_last) = 0;
  // The same for many paths, in their order, in one transaction. A directory that several of them
  // go through is looked up once.
  virtual Result<std::vector<Result<Attributes>>> resolve_many(
      const Credentials& credentials, const std::vector<std::string_view>& paths,
      bool follow_last) = 0;
  // Everything but the last component, which need not exist: for creating and removing by path.
  virtual Result<ResolvedParent> resolve_parent(const Credentials& credentials,
                                                std::string_view path) = 0;
  virtual Result<Attributes> attributes(InodeId inode) = 0;
  // Many things at once, in one transaction, with no right checked. Where nobody is told of changes
  // all of it is steady.
  virtual Status look(std::span<Look> looks) = 0;
  virtual Result<std::string> read_symlink(InodeId inode) = 0;

  // POSIX rules for chmod, chown, utimes and truncate, with clearing of suid and sgid. A new length
  // is only recorded: the caller truncates the chunks, before if it shrinks.
  virtual Result<Attributes> set_attributes(const Credentials& credentials, InodeId inode,
                                            const SetAttributes& changes) = 0;

  // What files that are made in a directory get from now on, by its owner. `change` sees what they
  // have got so far, perhaps several times, and may refuse. not_directory, invalid_argument if the
  // layout is not good then.
  using LayoutEdit = std::function<Status(Layout&)>;
  virtual Result<Attributes> set_layout(const Credentials& credentials, InodeId directory,
                                        const LayoutEdit& change) = 0;

  // What a write takes from a regular file before its bytes change: security.capability, and from
  // a writer that does not keep them the set-id bits, as chown does.
  virtual Result<PrivilegesTaken> drop_privileges(const FileWriter& writer, InodeId inode) = 0;

  struct Accessed {
    InodeId inode;
    FileTime when;
  };
  // Records times of access, all in one transaction; of inodes that are gone it records none.
  virtual Status record_accessed(const std::vector<Accessed>& accesses) = 0;

  // Making. The umask is that of the credentials. The parent needs w and x; a set-group-id parent
  // gives its group. already_exists if the name is taken.
  //
  // A regular file. If the name exists and `exclusive` is not set, the existing inode is returned
  // (is_directory if it is a directory; a symbolic link as it is) and *created says false.
  virtual Result<Attributes> create(const Credentials& credentials, InodeId parent,
                                    std::string_view name, uint32_t mode, bool exclusive,
                                    std::optional<Layout> layout = {}, bool* created = nullptr,
                                    Creation how = {}) = 0;
  virtual Result<Attributes> make_directory(const Credentials& credentials, InodeId parent,
                                            std::string_view name, uint32_t mode) = 0;
  // A regular file without a name: an orphan that link() may give one. Its id comes from
  // unused_id(), so that the collector of orphans can be told of it before it exists.
  virtual Result<InodeId> unused_id() = 0;
  virtual Result<Attributes> create_unnamed(const Credentials& credentials, InodeId parent,
                                            uint32_t mode, InodeId id) = 0;
  // fifo, socket, character, block (devices: root only), or regular.
  virtual Result<Attributes> make_node(const Credentials& credentials, InodeId parent,
                                       std::string_view name, FileType type, uint32_t mode,
                                       uint64_t device) = 0;
  virtual Result<Attributes> make_symlink(const Credentials& credentials, InodeId parent,
                                          std::string_view name, std::string_view target) = 0;
  // As Linux with fs.protected_hardlinks: others' files only if one may read and write them and
  // they do not run as another user.
  virtual Result<Attributes> link(const Credentials& credentials, InodeId inode, InodeId new_parent,
                                  std::string_view new_name) = 0;

  // Many regular files, each with all that is known of it. First their places, where they could be
  // made now: the checks are those of create(), or of a rename to a name that exists. A place says
  // `replace` only when there is something to be replaced. Nothing is changed but that numbers are
  // used up.
  virtual Result<std::vector<Result<NewFile>>> place_files(
      const Credentials& credentials, const std::vector<WantedPlace>& wanted) = 0;
  // Then, in one transaction, the files; with all checks again, as time has passed. Those that fail
  // do so alone. `made` gets a result for each, also when it is not known whether the whole has
  // happened (may_have_happened, io_error): then it says what would have.
  virtual Status create_files(const Credentials& credentials,
                              const std::vector<CompleteFile>& files,
                              std::vector<Result<MadeFile>>* made) = 0;

  // Removing. `removed` may be null. An inode whose last link goes, of any type, becomes an orphan:
  // it keeps its record, attributes() shows 0 links, and orphans() lists it until forget().
  virtual Status unlink(const Credentials& credentials, InodeId parent, std::string_view name,
                        Removed* removed) = 0;
  virtual Status remove_directory(const Credentials& credentials, InodeId parent,
                                  std::string_view name, Removed* removed) = 0;
  virtual Status rename(const Credentials& credentials, InodeId parent, std::string_view name,
                        InodeId new_parent, std::string_view new_name, RenameFlags flags,
                        Removed* removed) = 0;

  // Visits entries after `after_cookie` (0: from the start) in cookie order until `visit` returns
  // false or `max_entries` were visited. An entry that exists throughout a series of calls, each
  // with the last cookie of the one before, is visited exactly once. Attributes are null unless
  // asked for. `visit` runs outside of any transaction. The right to read is the caller's to check.
  using DirectoryVisitor = std::function<bool(const DirectoryEntry&, const Attributes*)>;
  virtual Status read_directory(InodeId directory, uint64_t after_cookie, size_t max_entries,
                                bool with_attributes, const DirectoryVisitor& visit) = 0;
  // No entry has a greater cookie; names that are made later have (but for files whose numbers were
  // taken before), and those moved here from elsewhere. A listing that goes no further than this
  // was at its beginning ends.
  virtual uint64_t newest_cookie() const = 0;

  // Extended attributes: user. (regular files and directories, by mode bits), trusted. (root only,
  // invisible to others), security. (written by root only), and the two POSIX ACLs of system.
  // (written by the owner; the access ACL and the mode follow each other). not_supported for
  // anything else. no_data if there is none of that name.
  virtual Result<std::string> get_xattr(const Credentials& credentials, InodeId inode,
                                        std::string_view name) = 0;
  virtual Status set_xattr(const Credentials& credentials, InodeId inode, std::string_view name,
                           std::string_view value, XattrMode mode) = 0;
  virtual Result<std::vector<std::string>> list_xattrs(const Credentials& credentials,
                                                       InodeId inode) = 0;
  virtual Status remove_xattr(const Credentials& credentials, InodeId inode,
                              std::string_view name) = 0;

  // Write sessions: while a file is open for writing its recorded length may be behind.
  //
  // Records that this file is being written; call it before the first byte is. Again for the same
  // inode replaces the record. Returns a token, unique in the life of the file system.
  virtual Result<uint64_t> begin_write(InodeId inode) = 0;
  // At fsync and close: records length and modification time. When `durable`, this and everything
  // before is on stable storage on return.
  virtual Status settle(InodeId inode, const Settled& settled, bool durable) = 0;
  virtual Status end_write(InodeId inode) = 0;
  // Files with a write session: called at start, before any begin_write(), these are what a dead
  // process left behind. The caller finds their lengths in the store, settles and ends them.
  virtual Result<std::vector<InodeId>> unsettled() = 0;
  // Whether this one is among them.
  virtual Result<bool> is_unsettled(InodeId inode) = 0;

  // Everything returned before is on stable storage.
  virtual Status sync() = 0;

  // Orphans with an id above `after`, in order. Their removal is on stable storage on return, so
  // that their chunks may be removed; programs may still have them open. A client that removes
  // chunks of an orphan known from Removed calls sync() first.
  virtual Result<std::vector<InodeId>> orphans(size_t limit, InodeId after = {}) = 0;
  // Erases an orphan's record, after its chunks are removed and no open uses it. ok if it is
  // gone already; in_use if the inode has links.
  virtual Status forget(InodeId inode) = 0;
  // Several in one transaction; nothing happens when one of them has links.
  virtual Status forget_many(std::span<const InodeId> inodes) = 0;

  virtual Result<FileSystemCounts> counts() = 0;

  // Quotas: docs/decisions/0065-quotas.md. Every call that makes something, gives it another place
  // or owner, or lets it grow, can end with over_quota; settle() does not. The right to set them
  // is the caller's to check.
  //
  // Sets the limits, and counts what is there if that was not done: all of a directory's tree, or
  // all inodes for a user. Blocks for as long as that takes; counts for nobody until it has
  // returned. not_directory, not_found; not_supported where there are too many.
  virtual Status set_quota(QuotaSubject subject, const QuotaLimits& limits,
                           std::string_view path) = 0;
  virtual Status delete_quota(QuotaSubject subject) = 0;
  // Those behind `after`, in order.
  virtual Result<std::vector<Quota>> quotas(std::optional<QuotaSubject> after, size_t limit) = 0;
  // Counts anew beside all changes. With `repair` what was counted before is corrected.
  virtual Result<QuotaCheck> check_quota(QuotaSubject subject, bool repair) = 0;
  // Of the quotas of directories that bind what is made in a directory, or bind a file, the one
  // that leaves the fewest bytes; nothing where there is none.
  virtual Result<std::optional<Quota>> quota_of(InodeId inode) = 0;
  // Trash: docs/decisions/0068-trash.md. unlink(), remove_directory(), rename() and create_files()
  // move what loses its last name there, where days are set; it is no orphan then. The right to
  // set them, and to empty the trash, is the caller's to check.
  //
  // For all below the directory, where none says otherwise; nothing: what is above says it again.
  // not_directory, not_found; invalid_argument for too many days, and in the trash itself;
  // already_exists where something else has the trash's name; not_supported where there are too
  // many.
  virtual Status set_trash(InodeId directory, std::optional<uint32_t> days,
                           std::string_view path) = 0;
  // Whether there may be anything in the trash: days were set once. From memory.
  virtual bool has_trash() const = 0;
  // What holds in a directory, or for a file where it is counted.
  virtual Result<TrashDays> trash_of(InodeId inode) = 0;
  // Those of directories behind `after`, in order.
  virtual Result<std::vector<TrashSetting>> trash_settings(InodeId after, size_t limit) = 0;
  // Removes entries of an hour for good, in one transaction, at most kTrashStepMax: the first
  // behind the cookie `after`. invalid_argument if it is none; finished if there is none such.
  virtual Result<TrashEmptied> empty_trash(InodeId hour, uint64_t after, size_t limit) = 0;

  // Before a file's bytes grow to `length`: up to which length it may grow without asking again, at
  // least that. What is promised counts as used until the file's write session ends, at the latest
  // until this Meta does; without a session nothing is.
  virtual Result<uint64_t> reserve(InodeId inode, uint64_t length) = 0;
};

}  // namespace penstock::meta
