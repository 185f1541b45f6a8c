// Session messages: what an application's library asks of an agent over its UNIX socket
// (SOCK_SEQPACKET; one message a datagram, one reply a request, in any order). Bulk data never goes
// this way. Format: docs/formats/session.md.
//
// Ids of regions, rings and files are chosen by the application, so that after the death of an
// agent the same ids can be made again and operations resubmitted as they were.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "penstock/base.h"

namespace penstock::wire {

inline constexpr uint32_t kSessionVersion = 2;
// The socket's name in the directory of a store.
inline constexpr const char* kSessionSocketName = "agent.sock";

// One datagram. Large enough for a path twice and for a page of directory entries.
inline constexpr size_t kSessionMessageMax = 64 * kKiB;
// Descriptors that may come with one request, or with one reply.
inline constexpr size_t kSessionDescriptorsMax = 2;
inline constexpr size_t kReplyDescriptorsMax = 1;

// Of one session. Tables grow with use, to arrays of this size at most. The kernel lets a process
// map about as many regions as this (vm.max_map_count); a ring has 64 lanes, each of which is as
// good as a ring to a program that wants many.
inline constexpr uint32_t kRegionsMax = 65536;
inline constexpr uint32_t kRingsMax = 512;
inline constexpr uint32_t kFilesMax = 65536;
inline constexpr uint64_t kRegionBytesMax = kTiB;  // one region, and all of a session together

// What a process needs to map another one's GPU memory, beside a descriptor.
inline constexpr size_t kDeviceHandleBytesMax = 128;

enum OpenFlag : uint32_t {
  kOpenRead = 1,
  kOpenWrite = 2,
  kOpenCreate = 4,
  kOpenExclusive = 8,
  kOpenTruncate = 16,
};
inline constexpr uint32_t kOpenFlagsAll = 31;

struct Hello {
  uint32_t version = kSessionVersion;
};
// Descriptor 0 is the memory: [offset, offset + size) of it becomes the region. With a `link`, a
// link of this name to `path` is made in the virtual directory, as by symlink(2) there.
struct RegisterRegion {
  uint32_t region = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  std::string link = {};  // so that what has none need not say so
  std::string path = {};
};
// Memory that was linked in a mount's virtual directory, by its id there.
struct AttachRegion {
  uint32_t region = 0;
  std::string name;
};
struct ReleaseRegion {
  uint32_t region = 0;
};
// Descriptor 0 is the ring's memory of `size` bytes, 1 the eventfd that wakes the agent.
struct CreateRing {
  uint32_t ring = 0;
  uint64_t size = 0;
};
struct DestroyRing {
  uint32_t ring = 0;
};
struct CancelOperation {
  uint32_t ring = 0;
  uint32_t lane = 0;
  uint32_t slot = 0;
  uint32_t sequence = 0;
};
struct OpenPath {
  uint32_t file = 0;
  std::string path;
  uint32_t flags = 0;  // OpenFlag
  uint32_t mode = 0;   // permission bits, umask applied
};
// Descriptor 0 is a file of a mount.
struct OpenDescriptor {
  uint32_t file = 0;
};
struct Reopen {
  uint32_t file = 0;
  std::string token;  // from Opened
};
struct CloseFile {
  uint32_t file = 0;
};
struct FileAttributes {
  uint32_t file = 0;
};
struct TruncateFile {
  uint32_t file = 0;
  uint64_t length = 0;
};
struct SyncFile {
  uint32_t file = 0;
};
struct PathAttributes {
  std::string path;
  bool follow = true;
};
// Since 1970, with nanoseconds of the second.
struct Time {
  int64_t seconds = 0;
  uint32_t nanoseconds = 0;
  friend bool operator==(const Time&, const Time&) = default;
};
struct ChangeAttributes {
  std::string path;
  bool follow = true;
  std::optional<uint32_t> mode, uid, gid;
  std::optional<Time> accessed, modified;
  bool accessed_now = false;
  bool modified_now = false;
};
struct MakeDirectory {
  std::string path;
  uint32_t mode = 0;
};
struct Remove {
  std::string path;
  bool directory = false;
};
struct Rename {
  std::string from, to;
};
struct MakeLink {
  std::string from, to;
};
struct MakeSymlink {
  std::string target, path;
};
struct ReadSymlink {
  std::string path;
};
struct ListDirectory {
  std::string path;
  uint64_t after = 0;  // cookie of the last entry seen; 0: from the start
};
struct SyncAll {};
// The index of the node cache's segment for this session's class (docs/formats/arena.md).
struct MapCache {};
// One slab of it.
struct MapSlab {
  uint32_t slab = 0;
};
// Descriptor 0 is the memory of the session's touch log.
struct KeepTouchLog {};

// What GPU memory is published under; any value.
using DeviceMemoryId = std::array<uint8_t, 16>;
// GPU memory as another process maps it. What the bytes and the descriptor mean is between the
// processes that use the GPU.
struct DeviceHandle {
  std::string bytes;              // 1 to kDeviceHandleBytesMax
  uint64_t size = 0;              // of the memory
  std::array<uint8_t, 16> gpu{};  // the GPU's UUID; zeros: not known
  bool descriptor = false;        // one comes along
};
struct PublishDevice {
  DeviceMemoryId id{};
  DeviceHandle handle;
};
struct WithdrawDevice {
  DeviceMemoryId id{};
};
struct OpenDevice {
  DeviceMemoryId id{};
};

// Of one request for many files: their paths and answers fit a datagram, and nothing that others
// wait for becomes long.
inline constexpr uint32_t kFilesAtOnceMax = 512;
// Instead of a region's id: none, the file is only looked at.
inline constexpr uint32_t kNoRegion = UINT32_MAX;

// Opens, reads and closes. Each file has a result of its own, in the same order.
struct FileToRead {
  std::string path;
  uint64_t offset = 0;
  uint64_t length = 0;  // up to limits::kIoBytesMax; where to: the region
  uint32_t region = kNoRegion;
  uint64_t region_offset = 0;
  // Reads nothing when the node cache has all of it, for the application to take it from there.
  bool unless_cached = false;
};
struct ReadFiles {
  std::vector<FileToRead> files;
};
// Makes a file with its content (out of the region), mode, owner and times.
struct NewFile {
  std::string path;
  uint32_t mode = 0;    // permission bits, umask applied
  uint64_t length = 0;  // up to limits::kIoBytesMax
  uint32_t region = kNoRegion;
  uint64_t region_offset = 0;
  std::optional<uint32_t> uid = {}, gid = {};
  std::optional<Time> accessed = {}, modified = {};
  bool replace = false;  // takes the place of what is there; otherwise nothing may be
};
struct CreateFiles {
  std::vector<NewFile> files;
};
// The attributes of each; a link at the end of a path is not followed. Answers are longer than
// those above, so fewer fit.
inline constexpr uint32_t kLooksAtOnceMax = 256;
struct LookAtFiles {
  std::vector<std::string> paths;
};

using RequestBody =
    std::variant<std::monostate, Hello, RegisterRegion, AttachRegion, ReleaseRegion, CreateRing,
                 DestroyRing, CancelOperation, OpenPath, OpenDescriptor, Reopen, CloseFile,
                 FileAttributes, TruncateFile, SyncFile, PathAttributes, ChangeAttributes,
                 MakeDirectory, Remove, Rename, MakeLink, MakeSymlink, ReadSymlink, ListDirectory,
                 SyncAll, MapCache, MapSlab, KeepTouchLog, PublishDevice, WithdrawDevice,
                 OpenDevice, ReadFiles, CreateFiles, LookAtFiles>;

struct Request {
  uint64_t id = 0;
  RequestBody body;
};

struct Welcome {
  uint32_t version = 0;
  uint64_t session = 0;
};
struct Opened {
  uint64_t inode = 0;
  uint32_t access = 0;  // kOpenRead, kOpenWrite
  std::string token;
};
struct Attributes {
  uint64_t inode = 0;
  uint32_t type = 0;  // the type bits of st_mode
  uint32_t mode = 0;  // 07777
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t links = 0;
  uint64_t length = 0;
  uint64_t device = 0;
  Time accessed, modified, changed, created;
  uint64_t allocated = 0;  // bytes that the file takes up
  uint64_t chunk_bytes = 0;
};
struct Target {
  std::string text;
};
struct Entry {
  std::string name;
  uint64_t inode = 0;
  uint32_t type = 0;  // as d_type
  uint64_t cookie = 0;
};
struct Page {
  std::vector<Entry> entries;
  bool end = false;
};

// Descriptor 0 is memory of `size` bytes, to be mapped for reading.
struct Mapping {
  uint64_t size = 0;
};

struct FileRead {
  Status status;  // busy: more than one request may read; to be asked for again
  uint64_t inode = 0;
  uint64_t size = 0;    // of the file
  uint64_t bytes = 0;   // that were read
  bool cached = false;  // nothing was read, as the node cache has it
};
struct FilesRead {
  std::vector<FileRead> files;
};
struct FilesCreated {
  std::vector<Status> files;
};
struct FileSeen {
  Status status;
  Attributes attributes;  // only with ok
};
struct FilesSeen {
  std::vector<FileSeen> files;
};

using ReplyBody = std::variant<std::monostate, Welcome, Opened, Attributes, Target, Page, Mapping,
                               DeviceHandle, FilesRead, FilesCreated, FilesSeen>;

struct Reply {
  uint64_t id = 0;
  Status status;
  std::string text;  // why, for people; only with a status that is not ok
  ReplyBody body;    // only with ok
};

// Descriptors that must come with this request, or this reply: exactly so many.
size_t descriptors_of(const RequestBody& body);
size_t descriptors_of(const ReplyBody& body);

// too_large when the message would not fit a datagram.
Result<std::string> encode(const Request& request);
Result<std::string> encode(const Reply& reply);

// Foreign input: bad_message for anything but one well-formed message whose ids, flags and sizes
// are within the limits above. Paths and names are bounded by the size of the message only: what
// they mean is for the file system to judge.
Result<Request> decode_request(Bytes message);
Result<Reply> decode_reply(Bytes message);

// Bytes that an entry takes in a Page, at most; for filling one.
constexpr size_t page_bytes_of(const Entry& entry) {
  return entry.name.size() + 48;
}
inline constexpr size_t kPageBytesMax = kSessionMessageMax - 256;

// The same for many files: with the longest path a request has room for one.
constexpr size_t request_bytes_of(const FileToRead& file) {
  return file.path.size() + 48;
}
constexpr size_t request_bytes_of(const NewFile& file) {
  return file.path.size() + 96;
}
// Of a path in LookAtFiles.
constexpr size_t request_bytes_of(std::string_view path) {
  return path.size() + 8;
}
inline constexpr size_t kFilesBytesMax = kSessionMessageMax - 256;
// An answer takes at most 56 bytes.
static_assert(kFilesAtOnceMax * 56 <= kFilesBytesMax);
// One with attributes 208.
static_assert(kLooksAtOnceMax * 208 <= kFilesBytesMax);

}  // namespace penstock::wire
