// What a launcher and its part on another node say to one another (docs/formats/job.md), as bytes.
// Knows no sockets; nothing that was read is believed.
#pragma once

#include "frame.h"
#include "sockets.h"
#include "spawn.h"

#include <optional>
#include <string>
#include <vector>

namespace penstock::job {

// What a node's part is to do. It comes over the part's standard input, which other users of the
// two machines cannot read.
struct Task {
  std::string version;                 // of the launcher's program: both must be of one
  std::vector<HostAddress> addresses;  // of the launcher
  uint16_t port = 0;
  Secret secret{};
  std::string host;  // of this node, as the user named it
  uint32_t node = 0;
  uint32_t size = 1;   // of the job
  uint32_t first = 0;  // rank of this node, which has `count` in a row
  uint32_t count = 1;
  bool label = false;
  std::vector<std::string> command;
  Environment environment;
  std::string directory;
};

// What stands first in every version, so that one program can tell another that it is too old.
struct TaskVersion {
  uint16_t number = 0;
  std::string program;
};

inline constexpr uint16_t kTaskVersion = 1;

std::vector<std::byte> encode(const Task& task);
std::optional<TaskVersion> decode_task_version(Bytes body);
std::optional<Task> decode_task(Bytes body);

// Streams as `serial` of frames output, took and closed names them.
enum class Stream : uint64_t { input = 0, output = 1, errors = 2 };
inline constexpr size_t kStreams = 3;

std::vector<std::byte> encode_number(uint32_t value);
std::optional<uint32_t> decode_number(Bytes body);

}  // namespace penstock::job
