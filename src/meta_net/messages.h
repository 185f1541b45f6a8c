// What is asked of a Meta over a net, and what it answers (docs/formats/meta-calls.md). Each call
// is a struct: `kKind` is its number, `Answer` what comes back where it ends well, `kChanges` that
// it must not happen twice. `fields` names what it consists of, for both directions (io.h).
#pragma once

#include "limits.h"

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "penstock/meta.h"

namespace penstock::meta_net {

using meta::Attributes;
using meta::Credentials;

// ---- answers that Meta has no type for ----

struct Nothing {
  static void fields(auto&, auto&) {}
};
struct Number {
  uint64_t value = 0;
  static void fields(auto& io, auto& m) { io(m.value); }
};
struct Count {
  uint64_t value = 0;
  static void fields(auto& io, auto& m) { io(m.value); }
};
struct Text {
  std::string bytes = {};
  static void fields(auto& io, auto& m) { io(m.bytes); }
};
struct Flag {
  bool holds = false;
  static void fields(auto& io, auto& m) { io(m.holds); }
};
struct Created {
  Attributes attributes = {};
  bool created = false;
  static void fields(auto& io, auto& m) { io(m.attributes, m.created); }
};
struct Found {
  std::vector<Result<Attributes>> each = {};
  static void fields(auto& io, auto& m) { io.list(m.each, limits::kPathsMax); }
};
struct Looked {
  Result<Attributes> found = Code::corrupt;
  bool is_steady = false;
  static void fields(auto& io, auto& m) { io(m.found, m.is_steady); }
};
struct Looks {
  std::vector<Looked> each = {};
  static void fields(auto& io, auto& m) { io.list(m.each, limits::kPathsMax); }
};
struct Places {
  std::vector<Result<meta::NewFile>> each = {};
  static void fields(auto& io, auto& m) { io.list(m.each, limits::kPathsMax); }
};
// With results also where the whole has failed, or may have happened.
struct FilesMade {
  Status status = {};
  std::vector<Result<meta::MadeFile>> each = {};
  static void fields(auto& io, auto& m) {
    io(m.status);
    io.list(m.each, limits::kFilesMax);
  }
};
struct Listed {
  meta::DirectoryEntry entry = {};
  std::optional<Attributes> attributes = {};
  static void fields(auto& io, auto& m) { io(m.entry, m.attributes); }
};
struct Page {
  std::vector<Listed> entries = {};
  bool last = false;  // nothing is behind it
  static void fields(auto& io, auto& m) {
    io(m.last);
    io.list(m.entries, limits::kEntriesPerPage);
  }
};
struct Names {
  std::vector<std::string> each = {};
  static void fields(auto& io, auto& m) { io.list(m.each, limits::kXattrNamesMax); }
};
struct Inodes {
  std::vector<InodeId> each = {};
  bool last = false;
  static void fields(auto& io, auto& m) {
    io(m.last);
    io.list(m.each, limits::kInodesMax);
  }
};

struct Quotas {
  std::vector<meta::Quota> each = {};
  bool last = false;
  static void fields(auto& io, auto& m) {
    io(m.last);
    io.list(m.each, limits::kQuotasPerAnswer);
  }
};
struct Trash {
  std::vector<meta::TrashSetting> each = {};
  bool last = false;
  static void fields(auto& io, auto& m) {
    io(m.last);
    io.list(m.each, limits::kQuotasPerAnswer);
  }
};
struct Least {
  std::optional<meta::Quota> quota = {};
  static void fields(auto& io, auto& m) { io(m.quota); }
};

// ---- calls ----

namespace ask {

struct Lookup {
  using Answer = Attributes;
  static constexpr uint8_t kKind = 0;
  static constexpr bool kChanges = false;
  Credentials who = {};
  InodeId parent = {};
  std::string name = {};
  static void fields(auto& io, auto& m) { io(m.who, m.parent, m.name); }
};
struct Resolve {
  using Answer = Attributes;
  static constexpr uint8_t kKind = 1;
  static constexpr bool kChanges = false;
  Credentials who = {};
  std::string path = {};
  bool follow_last = false;
  static void fields(auto& io, auto& m) { io(m.who, m.path, m.follow_last); }
};
struct ResolveMany {
  using Answer = Found;
  static constexpr uint8_t kKind = 2;
  static constexpr bool kChanges = false;
  Credentials who = {};
  std::vector<std::string> paths = {};
  bool follow_last = false;
  static void fields(auto& io, auto& m) {
    io(m.who, m.follow_last);
    io.list(m.paths, limits::kPathsMax);
  }
};
struct ResolveParent {
  using Answer = meta::ResolvedParent;
  static constexpr uint8_t kKind = 3;
  static constexpr bool kChanges = false;
  Credentials who = {};
  std::string path = {};
  static void fields(auto& io, auto& m) { io(m.who, m.path); }
};
struct GetAttributes {
  using Answer = Attributes;
  static constexpr uint8_t kKind = 4;
  static constexpr bool kChanges = false;
  InodeId inode = {};
  static void fields(auto& io, auto& m) { io(m.inode); }
};
struct ReadSymlink {
  using Answer = Text;
  static constexpr uint8_t kKind = 5;
  static constexpr bool kChanges = false;
  InodeId inode = {};
  static void fields(auto& io, auto& m) { io(m.inode); }
};
struct SetAttributes {
  using Answer = Attributes;
  static constexpr uint8_t kKind = 6;
  static constexpr bool kChanges = true;
  Credentials who = {};
  InodeId inode = {};
  meta::SetAttributes changes = {};
  static void fields(auto& io, auto& m) { io(m.who, m.inode, m.changes); }
};
// Ends with conflict where the layout is another one than was expected.
struct SetLayout {
  using Answer = Attributes;
  static constexpr uint8_t kKind = 7;
  static constexpr bool kChanges = true;
  Credentials who = {};
  InodeId directory = {};
  meta::Layout expected = {};
  meta::Layout wanted = {};
  static void fields(auto& io, auto& m) { io(m.who, m.directory, m.expected, m.wanted); }
};
struct DropPrivileges {
  using Answer = meta::PrivilegesTaken;
  static constexpr uint8_t kKind = 8;
  static constexpr bool kChanges = true;
  meta::FileWriter writer = {};
  InodeId inode = {};
  static void fields(auto& io, auto& m) { io(m.writer, m.inode); }
};
struct RecordAccessed {
  using Answer = Nothing;
  static constexpr uint8_t kKind = 9;
  static constexpr bool kChanges = true;
  std::vector<meta::Meta::Accessed> each = {};
  static void fields(auto& io, auto& m) { io.list(m.each, limits::kAccessesMax); }
};
struct Create {
  using Answer = Created;
  static constexpr uint8_t kKind = 10;
  static constexpr bool kChanges = true;
  Credentials who = {};
  InodeId parent = {};
  std::string name = {};
  uint32_t mode = 0;
  bool exclusive = false;
  std::optional<meta::Layout> layout = {};
  meta::Creation how = {};
  static void fields(auto& io, auto& m) {
    io(m.who, m.parent, m.name, m.mode, m.exclusive, m.layout, m.how);
  }
};
struct MakeDirectory {
  using Answer = Attributes;
  static constexpr uint8_t kKind = 11;
  static constexpr bool kChanges = true;
  Credentials who = {};
  InodeId parent = {};
  std::string name = {};
  uint32_t mode = 0;
  static void fields(auto& io, auto& m) { io(m.who, m.parent, m.name, m.mode); }
};
struct UnusedId {
  using Answer = Number;
  static constexpr uint8_t kKind = 12;
  static constexpr bool kChanges = true;
  static void fields(auto&, auto&) {}
};
struct CreateUnnamed {
  using Answer = Attributes;
  static constexpr uint8_t kKind = 13;
  static constexpr bool kChanges = true;
  Credentials who = {};
  InodeId parent = {};
  uint32_t mode = 0;
  InodeId id = {};
  static void fields(auto& io, auto& m) { io(m.who, m.parent, m.mode, m.id); }
};
struct MakeNode {
  using Answer = Attributes;
  static constexpr uint8_t kKind = 14;
  static constexpr bool kChanges = true;
  Credentials who = {};
  InodeId parent = {};
  std::string name = {};
  meta::FileType type = {};
  uint32_t mode = 0;
  uint64_t device = 0;
  static void fields(auto& io, auto& m) { io(m.who, m.parent, m.name, m.type, m.mode, m.device); }
};
struct MakeSymlink {
  using Answer = Attributes;
  static constexpr uint8_t kKind = 15;
  static constexpr bool kChanges = true;
  Credentials who = {};
  InodeId parent = {};
  std::string name = {};
  std::string target = {};
  static void fields(auto& io, auto& m) { io(m.who, m.parent, m.name, m.target); }
};
struct Link {
  using Answer = Attributes;
  static constexpr uint8_t kKind = 16;
  static constexpr bool kChanges = true;
  Credentials who = {};
  InodeId inode = {};
  InodeId parent = {};
  std::string name = {};
  static void fields(auto& io, auto& m) { io(m.who, m.inode, m.parent, m.name); }
};
struct Wanted {
  std::string path = {};
  bool replace = false;
  static void fields(auto& io, auto& m) { io(m.path, m.replace); }
};
struct PlaceFiles {
  using Answer = Places;
  static constexpr uint8_t kKind = 17;
  static constexpr bool kChanges = true;
  Credentials who = {};
  std::vector<Wanted> wanted = {};
  static void fields(auto& io, auto& m) {
    io(m.who);
    io.list(m.wanted, limits::kPathsMax);
  }
};
struct CreateFiles {
  using Answer = FilesMade;
  static constexpr uint8_t kKind = 18;
  static constexpr bool kChanges = true;
  Credentials who = {};
  std::vector<meta::CompleteFile> files = {};
  static void fields(auto& io, auto& m) {
    io(m.who);
    io.list(m.files, limits::kFilesMax);
  }
};
struct Unlink {
  using Answer = meta::Removed;
  static constexpr uint8_t kKind = 19;
  static constexpr bool kChanges = true;
  Credentials who = {};
  InodeId parent = {};
  std::string name = {};
  static void fields(auto& io, auto& m) { io(m.who, m.parent, m.name); }
};
struct RemoveDirectory {
  using Answer = meta::Removed;
  static constexpr uint8_t kKind = 20;
  static constexpr bool kChanges = true;
  Credentials who = {};
  InodeId parent = {};
  std::string name = {};
  static void fields(auto& io, auto& m) { io(m.who, m.parent, m.name); }
};
struct Rename {
  using Answer = meta::Removed;
  static constexpr uint8_t kKind = 21;
  static constexpr bool kChanges = true;
  Credentials who = {};
  InodeId parent = {};
  std::string name = {};
  InodeId new_parent = {};
  std::string new_name = {};
  meta::RenameFlags flags = {};
  static void fields(auto& io, auto& m) {
    io(m.who, m.parent, m.name, m.new_parent, m.new_name, m.flags);
  }
};
struct ReadDirectory {
  using Answer = Page;
  static constexpr uint8_t kKind = 22;
  static constexpr bool kChanges = false;
  InodeId directory = {};
  uint64_t after = 0;
  uint64_t entries_max = 0;
  bool with_attributes = false;
  static void fields(auto& io, auto& m) {
    io(m.directory, m.after, m.entries_max, m.with_attributes);
  }
};
struct NewestCookie {
  using Answer = Number;
  static constexpr uint8_t kKind = 23;
  static constexpr bool kChanges = false;
  static void fields(auto&, auto&) {}
};
struct GetXattr {
  using Answer = Text;
  static constexpr uint8_t kKind = 24;
  static constexpr bool kChanges = false;
  Credentials who = {};
  InodeId inode = {};
  std::string name = {};
  static void fields(auto& io, auto& m) { io(m.who, m.inode, m.name); }
};
struct SetXattr {
  using Answer = Nothing;
  static constexpr uint8_t kKind = 25;
  static constexpr bool kChanges = true;
  Credentials who = {};
  InodeId inode = {};
  std::string name = {};
  std::string value = {};
  meta::XattrMode mode = {};
  static void fields(auto& io, auto& m) { io(m.who, m.inode, m.name, m.value, m.mode); }
};
struct ListXattrs {
  using Answer = Names;
  static constexpr uint8_t kKind = 26;
  static constexpr bool kChanges = false;
  Credentials who = {};
  InodeId inode = {};
  static void fields(auto& io, auto& m) { io(m.who, m.inode); }
};
struct RemoveXattr {
  using Answer = Nothing;
  static constexpr uint8_t kKind = 27;
  static constexpr bool kChanges = true;
  Credentials who = {};
  InodeId inode = {};
  std::string name = {};
  static void fields(auto& io, auto& m) { io(m.who, m.inode, m.name); }
};
struct BeginWrite {
  using Answer = Number;
  static constexpr uint8_t kKind = 28;
  static constexpr bool kChanges = true;
  InodeId inode = {};
  static void fields(auto& io, auto& m) { io(m.inode); }
};
struct Settle {
  using Answer = Nothing;
  static constexpr uint8_t kKind = 29;
  static constexpr bool kChanges = true;
  InodeId inode = {};
  meta::Settled settled = {};
  bool durable = false;
  static void fields(auto& io, auto& m) { io(m.inode, m.settled, m.durable); }
};
struct EndWrite {
  using Answer = Nothing;
  static constexpr uint8_t kKind = 30;
  static constexpr bool kChanges = true;
  InodeId inode = {};
  static void fields(auto& io, auto& m) { io(m.inode); }
};
// Those with greater numbers.
struct Unsettled {
  using Answer = Inodes;
  static constexpr uint8_t kKind = 31;
  static constexpr bool kChanges = false;
  InodeId after = {};
  static void fields(auto& io, auto& m) { io(m.after); }
};
struct IsUnsettled {
  using Answer = Flag;
  static constexpr uint8_t kKind = 32;
  static constexpr bool kChanges = false;
  InodeId inode = {};
  static void fields(auto& io, auto& m) { io(m.inode); }
};
struct Sync {
  using Answer = Nothing;
  static constexpr uint8_t kKind = 33;
  static constexpr bool kChanges = false;
  static void fields(auto&, auto&) {}
};
struct Orphans {
  using Answer = Inodes;
  static constexpr uint8_t kKind = 34;
  static constexpr bool kChanges = false;
  uint64_t limit = 0;
  InodeId after = {};
  static void fields(auto& io, auto& m) { io(m.limit, m.after); }
};
struct Forget {
  using Answer = Nothing;
  static constexpr uint8_t kKind = 35;
  static constexpr bool kChanges = true;
  std::vector<InodeId> inodes = {};
  static void fields(auto& io, auto& m) { io.list(m.inodes, limits::kInodesMax); }
};
struct Counts {
  using Answer = meta::FileSystemCounts;
  static constexpr uint8_t kKind = 36;
  static constexpr bool kChanges = false;
  static void fields(auto&, auto&) {}
};
// Of the service's node.
struct OwnChains {
  using Answer = Count;
  static constexpr uint8_t kKind = 37;
  static constexpr bool kChanges = false;
  static void fields(auto&, auto&) {}
};

struct WantedLook {
  InodeId inode = {};
  std::string name = {};
  static void fields(auto& io, auto& m) { io(m.inode, m.name); }
};
struct Look {
  using Answer = Looks;
  static constexpr uint8_t kKind = 38;
  static constexpr bool kChanges = false;
  std::vector<WantedLook> wanted = {};
  static void fields(auto& io, auto& m) { io.list(m.wanted, limits::kPathsMax); }
};
struct SetQuota {
  using Answer = Nothing;
  static constexpr uint8_t kKind = 39;
  static constexpr bool kChanges = true;
  meta::QuotaSubject subject = {};
  meta::QuotaLimits limits = {};
  std::string path = {};
  static void fields(auto& io, auto& m) { io(m.subject, m.limits, m.path); }
};
struct DeleteQuota {
  using Answer = Nothing;
  static constexpr uint8_t kKind = 40;
  static constexpr bool kChanges = true;
  meta::QuotaSubject subject = {};
  static void fields(auto& io, auto& m) { io(m.subject); }
};
// Those behind it.
struct ListQuotas {
  using Answer = Quotas;
  static constexpr uint8_t kKind = 41;
  static constexpr bool kChanges = false;
  std::optional<meta::QuotaSubject> after = {};
  static void fields(auto& io, auto& m) { io(m.after); }
};
struct CheckQuota {
  using Answer = meta::QuotaCheck;
  static constexpr uint8_t kKind = 42;
  static constexpr bool kChanges = true;
  meta::QuotaSubject subject = {};
  bool repair = false;
  static void fields(auto& io, auto& m) { io(m.subject, m.repair); }
};
struct QuotaOf {
  using Answer = Least;
  static constexpr uint8_t kKind = 43;
  static constexpr bool kChanges = false;
  InodeId directory = {};
  static void fields(auto& io, auto& m) { io(m.directory); }
};
// Twice is as once: what is promised is in memory.
struct Reserve {
  using Answer = Count;
  static constexpr uint8_t kKind = 44;
  static constexpr bool kChanges = false;
  InodeId inode = {};
  uint64_t length = 0;
  static void fields(auto& io, auto& m) { io(m.inode, m.length); }
};
// Whether that user may have the file open so (a sum of meta::Access). A node that is restricted
// asks before it reads or writes bytes, or lists names, by numbers: it is remembered for its
// session. Of others nothing is. The answer is what its session may do with the file's chunks, as
// Capability has it, or empty where nobody signs or the node may do all.
struct Access {
  using Answer = Text;
  static constexpr uint8_t kKind = 45;
  static constexpr bool kChanges = false;
  Credentials who = {};
  InodeId inode = {};
  uint32_t wanted = 0;
  static void fields(auto& io, auto& m) { io(m.who, m.inode, m.wanted); }
};

// What the caller's session may do with the file's chunks, or with all: a wire::Capability, as
// bytes. Of a node that is restricted what it has proven.
struct Capability {
  using Answer = Text;
  static constexpr uint8_t kKind = 46;
  static constexpr bool kChanges = false;
  InodeId inode = {};
  static void fields(auto& io, auto& m) { io(m.inode); }
};

// A node that is restricted shows what it was given in an earlier life of the service, for a file
// that it has open: what that says counts as proven again.
struct Prove {
  using Answer = Nothing;
  static constexpr uint8_t kKind = 47;
  static constexpr bool kChanges = false;
  std::string capability = {};
  static void fields(auto& io, auto& m) { io(m.capability); }
};

// Days that nothing says: what is above the directory says them again.
struct SetTrash {
  using Answer = Nothing;
  static constexpr uint8_t kKind = 48;
  static constexpr bool kChanges = true;
  InodeId directory = {};
  std::optional<uint32_t> days = {};
  std::string path = {};
  static void fields(auto& io, auto& m) { io(m.directory, m.days, m.path); }
};
struct TrashOf {
  using Answer = meta::TrashDays;
  static constexpr uint8_t kKind = 49;
  static constexpr bool kChanges = false;
  InodeId inode = {};
  static void fields(auto& io, auto& m) { io(m.inode); }
};
// Those of directories behind it.
struct ListTrash {
  using Answer = Trash;
  static constexpr uint8_t kKind = 50;
  static constexpr bool kChanges = false;
  InodeId after = {};
  static void fields(auto& io, auto& m) { io(m.after); }
};
struct EmptyTrash {
  using Answer = meta::TrashEmptied;
  static constexpr uint8_t kKind = 51;
  static constexpr bool kChanges = true;
  InodeId hour = {};
  uint64_t after = 0;
  uint64_t limit = 0;
  static void fields(auto& io, auto& m) { io(m.hour, m.after, m.limit); }
};

}  // namespace ask

// In the order of their numbers. A later version adds to the end.
using Request = std::variant<
    ask::Lookup, ask::Resolve, ask::ResolveMany, ask::ResolveParent, ask::GetAttributes,
    ask::ReadSymlink, ask::SetAttributes, ask::SetLayout, ask::DropPrivileges, ask::RecordAccessed,
    ask::Create, ask::MakeDirectory, ask::UnusedId, ask::CreateUnnamed, ask::MakeNode,
    ask::MakeSymlink, ask::Link, ask::PlaceFiles, ask::CreateFiles, ask::Unlink,
    ask::RemoveDirectory, ask::Rename, ask::ReadDirectory, ask::NewestCookie, ask::GetXattr,
    ask::SetXattr, ask::ListXattrs, ask::RemoveXattr, ask::BeginWrite, ask::Settle, ask::EndWrite,
    ask::Unsettled, ask::IsUnsettled, ask::Sync, ask::Orphans, ask::Forget, ask::Counts,
    ask::OwnChains, ask::Look, ask::SetQuota, ask::DeleteQuota, ask::ListQuotas, ask::CheckQuota,
    ask::QuotaOf, ask::Reserve, ask::Access, ask::Capability, ask::Prove, ask::SetTrash,
    ask::TrashOf, ask::ListTrash, ask::EmptyTrash>;

bool changes(const Request& request);
// Whether it changes what others are shown, or count on after a power cut.
bool is_shown(const Request& request);

// Whether an agent may ask for it under an exclusive hold of the inode only: late, it would undo
// what another one has changed since.
bool needs_hold(const Request& request);

// Whether it may be asked before sessions of an earlier life have claimed what they have: what
// those wait for who have a hold from before, and what looks at names and attributes, which nobody
// changes meanwhile.
bool may_come_early(const Request& request);

// Whether it changes names, and so may have to wait for other agents that keep them; or counts a
// whole tree.
bool waits_for_others(const Request& request);

// What is too long for Meta in any case is the caller's to refuse before: within the limits of
// limits.h all can be said.
std::string encode(const Request& request);
// Foreign bytes: bad_message for anything that encode() does not make.
Result<Request> decode_request(std::string_view bytes);

}  // namespace penstock::meta_net
