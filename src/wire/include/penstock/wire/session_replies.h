// What an agent answers.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "penstock/wire/fields.h"
#include "penstock/wire/session_limits.h"
#include "penstock/wire/session_version.h"

namespace penstock::wire {

// To a hello: the version and the features that are spoken from now on, and what the agent speaks.
struct Welcome {
  uint32_t version = 0;
  uint64_t session = 0;
  uint64_t features = 0;
  uint32_t lowest = 0;
  uint32_t highest = 0;
  uint64_t agent_features = 0;

  static constexpr Kind kKind{5};
  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.version), field<2>(m.session), field<3>(m.features),
                      field<4>(m.lowest), field<5>(m.highest), field<6>(m.agent_features));
  }
  Agreement agreement() const { return {version, features}; }
};
struct Opened {
  uint64_t inode = 0;
  uint32_t access = 0;  // kOpenRead, kOpenWrite
  std::string token;

  static constexpr Kind kKind{6};
  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.inode), field<2>(m.access), field<3>(m.token));
  }
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

  static constexpr Kind kKind{7};
  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.inode), field<2>(m.type), field<3>(m.mode), field<4>(m.uid),
                      field<5>(m.gid), field<6>(m.links), field<7>(m.length), field<8>(m.device),
                      field<9>(m.chunk_bytes), field<10>(m.accessed), field<11>(m.modified),
                      field<12>(m.changed), field<13>(m.created), field<14>(m.allocated));
  }
};
struct Target {
  std::string text;

  static constexpr Kind kKind{8};
  static constexpr auto fields(auto& m) { return std::tuple(field<1>(m.text)); }
};
struct Entry {
  std::string name;
  uint64_t inode = 0;
  uint32_t type = 0;  // as d_type
  uint64_t cookie = 0;

  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.name), field<2>(m.inode), field<3>(m.type), field<4>(m.cookie));
  }
};
struct Page {
  std::vector<Entry> entries;
  bool end = false;

  static constexpr Kind kKind{9};
  static constexpr auto fields(auto& m) { return std::tuple(field<1>(m.entries), field<2>(m.end)); }
};

// Descriptor 0 is memory of `size` bytes, to be mapped for reading.
struct Mapping {
  uint64_t size = 0;

  static constexpr Kind kKind{10, 1};
  static constexpr auto fields(auto& m) { return std::tuple(field<1>(m.size)); }
};

struct FileRead {
  Status status;  // busy: more than one request may read; to be asked for again
  uint64_t inode = 0;
  uint64_t size = 0;    // of the file
  uint64_t bytes = 0;   // that were read
  bool cached = false;  // nothing was read, as the node cache has it

  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.status), field<2>(m.inode), field<3>(m.size), field<4>(m.bytes),
                      field<5>(m.cached));
  }
};
struct FilesRead {
  std::vector<FileRead> files;

  static constexpr Kind kKind{12};
  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.files, sized(1, kFilesAtOnceMax)));
  }
};
struct FilesCreated {
  std::vector<Status> files;

  static constexpr Kind kKind{13};
  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.files, sized(1, kFilesAtOnceMax)));
  }
};
struct FileSeen {
  Status status;
  Attributes attributes;  // only with ok

  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.status), field<2>(m.attributes));
  }
};
struct FilesSeen {
  std::vector<FileSeen> files;

  static constexpr Kind kKind{14};
  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.files, sized(1, kLooksAtOnceMax)));
  }
};

using ReplyBody = std::variant<std::monostate, Welcome, Opened, Attributes, Target, Page, Mapping,
                               DeviceHandle, FilesRead, FilesCreated, FilesSeen>;

struct Reply {
  uint64_t id = 0;
  Status status;
  std::string text;  // why, for people; only with a status that is not ok
  ReplyBody body;    // only with ok

  static constexpr auto fields(auto& m) {
    return std::tuple(field<1>(m.id, between(1, UINT64_MAX)), field<2>(m.status), field<4>(m.text));
  }
};

}  // namespace penstock::wire
