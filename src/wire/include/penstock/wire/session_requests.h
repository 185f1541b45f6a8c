// What an application asks of an agent. Ids of regions, rings and files are chosen by the
// application, so that after the death of an agent the same ids can be made again and operations
// resubmitted as they were.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "penstock/wire/fields.h"
#include "penstock/wire/session_limits.h"
#include "penstock/wire/session_version.h"

namespace penstock::wire {

// The first request: what the application speaks.
struct Hello {
  uint32_t lowest = kProtocol.lowest;
  uint32_t highest = kProtocol.highest;  // 0, as version 2 had it: the same
  uint64_t features = kProtocol.features;

  static constexpr Kind kKind{2};
  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.lowest, between(1, UINT32_MAX)), field<2>(m.highest),
                      field<3>(m.features));
  }
  bool fits() const { return highest == 0 || lowest <= highest; }
  Protocol protocol() const { return {lowest, std::max(lowest, highest), features}; }
};
// Descriptor 0 is the memory: [offset, offset + size) of it becomes the region. With a `link`, a
// link of this name to `path` is made in the virtual directory, as by symlink(2) there.
struct RegisterRegion {
  uint32_t region = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  std::string link = {};  // so that what has none need not say so
  std::string path = {};

  static constexpr Kind kKind{3, 1};
  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.region, below(kRegionsMax)), field<2>(m.offset),
                      field<3>(m.size, between(1, kRegionBytesMax)),
                      field<4>(m.link, sized(0, limits::kNameBytesMax)),
                      field<5>(m.path, sized(0, 2 * limits::kNameBytesMax)));
  }
  bool fits() const { return offset <= INT64_MAX - size && link.empty() == path.empty(); }
};
// Memory that was linked in a mount's virtual directory, by its id there.
struct AttachRegion {
  uint32_t region = 0;
  std::string name;

  static constexpr Kind kKind{4};
  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.region, below(kRegionsMax)),
                      field<2>(m.name, sized(1, limits::kNameBytesMax)));
  }
};
struct ReleaseRegion {
  uint32_t region = 0;

  static constexpr Kind kKind{5};
  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.region, below(kRegionsMax)));
  }
};
// Descriptor 0 is the ring's memory of `size` bytes, 1 the eventfd that wakes the agent.
struct CreateRing {
  uint32_t ring = 0;
  uint64_t size = 0;

  static constexpr Kind kKind{6, 2};
  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.ring, below(kRingsMax)), field<2>(m.size, between(1, UINT64_MAX)));
  }
};
struct DestroyRing {
  uint32_t ring = 0;

  static constexpr Kind kKind{7};
  static constexpr auto fields(auto& m) { return std::tuple(field<1>(m.ring, below(kRingsMax))); }
};
struct CancelOperation {
  uint32_t ring = 0;
  uint32_t lane = 0;
  uint32_t slot = 0;
  uint32_t sequence = 0;

  static constexpr Kind kKind{8};
  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.ring, below(kRingsMax)), field<2>(m.lane), field<3>(m.slot),
                      field<4>(m.sequence));
  }
};
struct OpenPath {
  uint32_t file = 0;
  std::string path;
  uint32_t flags = 0;  // OpenFlag
  uint32_t mode = 0;   // permission bits, umask applied

  static constexpr Kind kKind{9};
  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.file, below(kFilesMax)), field<2>(m.path),
                      field<3>(m.flags, only_bits(kOpenFlagsAll)),
                      field<4>(m.mode, only_bits(kModeBits)));
  }
};
// Descriptor 0 is a file of a mount.
struct OpenDescriptor {
  uint32_t file = 0;

  static constexpr Kind kKind{10, 1};
  static constexpr auto fields(auto& m) { return std::tuple(field<1>(m.file, below(kFilesMax))); }
};
struct Reopen {
  uint32_t file = 0;
  std::string token;  // from Opened

  static constexpr Kind kKind{11};
  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.file, below(kFilesMax)),
                      field<2>(m.token, sized(0, kTokenBytesMax)));
  }
};
struct CloseFile {
  uint32_t file = 0;

  static constexpr Kind kKind{12};
  static constexpr auto fields(auto& m) { return std::tuple(field<1>(m.file, below(kFilesMax))); }
};
struct FileAttributes {
  uint32_t file = 0;

  static constexpr Kind kKind{13};
  static constexpr auto fields(auto& m) { return std::tuple(field<1>(m.file, below(kFilesMax))); }
};
struct TruncateFile {
  uint32_t file = 0;
  uint64_t length = 0;

  static constexpr Kind kKind{14};
  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.file, below(kFilesMax)), field<2>(m.length));
  }
};
struct SyncFile {
  uint32_t file = 0;

  static constexpr Kind kKind{15};
  static constexpr auto fields(auto& m) { return std::tuple(field<1>(m.file, below(kFilesMax))); }
};
struct PathAttributes {
  std::string path;
  bool follow = true;

  static constexpr Kind kKind{16};
  static constexpr auto fields(auto& m) { return std::tuple(field<1>(m.path), field<2>(m.follow)); }
};
struct ChangeAttributes {
  std::string path;
  bool follow = true;
  std::optional<uint32_t> mode, uid, gid;
  std::optional<Time> accessed, modified;
  bool accessed_now = false;
  bool modified_now = false;

  static constexpr Kind kKind{17};
  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.path), field<2>(m.follow), field<3>(m.mode, only_bits(kModeBits)),
                      field<4>(m.uid), field<5>(m.gid), field<6>(m.accessed_now),
                      field<7>(m.modified_now), field<8>(m.accessed), field<9>(m.modified));
  }
};
struct MakeDirectory {
  std::string path;
  uint32_t mode = 0;

  static constexpr Kind kKind{18};
  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.path), field<2>(m.mode, only_bits(kModeBits)));
  }
};
struct Remove {
  std::string path;
  bool directory = false;

  static constexpr Kind kKind{19};
  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.path), field<2>(m.directory));
  }
};
struct Rename {
  std::string from, to;

  static constexpr Kind kKind{20};
  static constexpr auto fields(auto& m) { return std::tuple(field<1>(m.from), field<2>(m.to)); }
};
struct MakeLink {
  std::string from, to;

  static constexpr Kind kKind{21};
  static constexpr auto fields(auto& m) { return std::tuple(field<1>(m.from), field<2>(m.to)); }
};
struct MakeSymlink {
  std::string target, path;

  static constexpr Kind kKind{22};
  static constexpr auto fields(auto& m) { return std::tuple(field<1>(m.target), field<2>(m.path)); }
};
struct ReadSymlink {
  std::string path;

  static constexpr Kind kKind{23};
  static constexpr auto fields(auto& m) { return std::tuple(field<1>(m.path)); }
};
struct ListDirectory {
  std::string path;
  uint64_t after = 0;  // cookie of the last entry seen; 0: from the start

  static constexpr Kind kKind{24};
  static constexpr auto fields(auto& m) { return std::tuple(field<1>(m.path), field<2>(m.after)); }
};
struct SyncAll {
  static constexpr Kind kKind{25};
  static constexpr auto fields(auto&) { return std::tuple(); }
};
// The index of the node cache's segment for this session's class (docs/formats/arena.md).
struct MapCache {
  static constexpr Kind kKind{26};
  static constexpr auto fields(auto&) { return std::tuple(); }
};
// One slab of it.
struct MapSlab {
  uint32_t slab = 0;

  static constexpr Kind kKind{27};
  static constexpr auto fields(auto& m) { return std::tuple(field<1>(m.slab)); }
};
// Descriptor 0 is the memory of the session's touch log.
struct KeepTouchLog {
  static constexpr Kind kKind{28, 1};
  static constexpr auto fields(auto&) { return std::tuple(); }
};

struct PublishDevice {
  DeviceMemoryId id{};
  DeviceHandle handle;

  static constexpr Kind kKind{29};
  static constexpr auto fields(auto& m) { return std::tuple(field<1>(m.id), field<2>(m.handle)); }
  size_t descriptors() const { return handle.descriptors(); }
};
struct WithdrawDevice {
  DeviceMemoryId id{};

  static constexpr Kind kKind{30};
  static constexpr auto fields(auto& m) { return std::tuple(field<1>(m.id)); }
};
struct OpenDevice {
  DeviceMemoryId id{};

  static constexpr Kind kKind{31};
  static constexpr auto fields(auto& m) { return std::tuple(field<1>(m.id)); }
};

// Opens, reads and closes. Each file has a result of its own, in the same order.
struct FileToRead {
  std::string path;
  uint64_t offset = 0;
  uint64_t length = 0;  // up to limits::kIoBytesMax; where to: the region
  uint32_t region = kNoRegion;
  uint64_t region_offset = 0;
  // Reads nothing when the node cache has all of it, for the application to take it from there.
  bool unless_cached = false;

  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.path), field<2>(m.offset), field<3>(m.length), field<4>(m.region),
                      field<5>(m.region_offset), field<6>(m.unless_cached));
  }
  bool fits() const {
    return is_place(length, region) && range_within(offset, length, limits::kFileBytesMax);
  }
};
struct ReadFiles {
  std::vector<FileToRead> files;

  static constexpr Kind kKind{32};
  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.files, sized(1, kFilesAtOnceMax)));
  }
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

  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.path), field<2>(m.mode, only_bits(kModeBits)), field<3>(m.length),
                      field<4>(m.region), field<5>(m.region_offset), field<6>(m.uid),
                      field<7>(m.gid), field<8>(m.accessed), field<9>(m.modified),
                      field<10>(m.replace));
  }
  bool fits() const { return is_place(length, region); }
};
struct CreateFiles {
  std::vector<NewFile> files;

  static constexpr Kind kKind{33};
  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.files, sized(1, kFilesAtOnceMax)));
  }
};
// The attributes of each; a link at the end of a path is not followed.
struct LookAtFiles {
  std::vector<std::string> paths;

  static constexpr Kind kKind{34};
  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.paths, sized(1, kLooksAtOnceMax)));
  }
};

// Memory of a GPU, for the node's network cards: descriptor 0 is a dma-buf of it, in which the
// region begins at `offset`. A region as all others for the ring, but that checksums of what is
// read go to another one; released as they are. Only with kFeatureDeviceRegions.
struct RegisterDevice {
  uint32_t region = 0;
  uint64_t offset = 0;
  uint64_t size = 0;

  static constexpr Kind kKind{35, 1};
  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.region, below(kRegionsMax)), field<2>(m.offset),
                      field<3>(m.size, between(1, kRegionBytesMax)));
  }
  bool fits() const { return offset <= INT64_MAX - size; }
};

using RequestBody =
    std::variant<std::monostate, Hello, RegisterRegion, AttachRegion, ReleaseRegion, CreateRing,
                 DestroyRing, CancelOperation, OpenPath, OpenDescriptor, Reopen, CloseFile,
                 FileAttributes, TruncateFile, SyncFile, PathAttributes, ChangeAttributes,
                 MakeDirectory, Remove, Rename, MakeLink, MakeSymlink, ReadSymlink, ListDirectory,
                 SyncAll, MapCache, MapSlab, KeepTouchLog, PublishDevice, WithdrawDevice,
                 OpenDevice, ReadFiles, CreateFiles, LookAtFiles, RegisterDevice>;

struct Request {
  uint64_t id = 0;
  RequestBody body;

  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.id, between(1, UINT64_MAX)));
  }
  bool fits() const { return body.index() != 0; }
};

}  // namespace penstock::wire
