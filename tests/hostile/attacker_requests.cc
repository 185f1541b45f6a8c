// Requests of every kind, right, wrong and torn.
#include "attacker.h"

#include <fcntl.h>
#include <sys/stat.h>

namespace penstock::test {

std::string Attacker::some_path() {
  static const char* const kNames[] = {"a", "b", "c", "link", "dir", "dir/a", "dir/dir", "loop"};
  switch (below(12)) {
    case 0:
      return some_bytes(below(300));
    case 1:
      return "/" + std::string(below(5000), 'x');
    case 2: {
      std::string deep = "/public";
      for (uint64_t i = below(3000); i > 0; --i) deep += "/..";
      return deep;
    }
    case 3:
      return "/3fs-virt/iovs/" + some_link_name();
    case 4:
      return std::string("/public/a\0b", 11);
    default:
      return std::string("/public/") + kNames[below(std::size(kNames))];
  }
}

wire::RequestBody Attacker::body_of_file() {
  const uint32_t file = some_id();
  switch (below(8)) {
    case 0:
      return wire::OpenDescriptor{file};
    case 1: {
      std::string token = token_;
      if (!token.empty() && chance(50))
        token[below(token.size())] ^= static_cast<char>(1 + below(255));
      return wire::Reopen{file, chance(80) ? token : some_bytes(below(100))};
    }
    case 2:
      return wire::CloseFile{file};
    case 3:
      return wire::FileAttributes{file};
    case 4:
      return wire::TruncateFile{file, some_number()};
    case 5:
      return wire::SyncFile{file};
    default:
      return wire::OpenPath{file, some_path(), static_cast<uint32_t>(below(32)),
                            static_cast<uint32_t>(below(010000))};
  }
}

wire::RequestBody Attacker::body_of_changes() {
  wire::ChangeAttributes change;
  change.path = some_path();
  change.follow = chance(50);
  if (chance(30)) change.mode = static_cast<uint32_t>(below(010000));
  if (chance(30)) change.uid = static_cast<uint32_t>(some_number());
  if (chance(30)) change.gid = static_cast<uint32_t>(some_number());
  if (chance(30)) {
    change.modified = wire::Time{static_cast<int64_t>(some_number()),
                                 static_cast<uint32_t>(below(1'000'000'000))};
  }
  change.accessed_now = chance(30);
  return change;
}

wire::RequestBody Attacker::body_of_path() {
  switch (below(9)) {
    case 0:
      return wire::PathAttributes{some_path(), chance(50)};
    case 1:
      return body_of_changes();
    case 2:
      return wire::MakeDirectory{some_path(), static_cast<uint32_t>(below(010000))};
    case 3:
      return wire::Remove{some_path(), chance(50)};
    case 4:
      return wire::Rename{some_path(), some_path()};
    case 5:
      return wire::MakeLink{some_path(), some_path()};
    case 6:
      return wire::MakeSymlink{chance(50) ? "loop" : some_path(), some_path()};
    case 7:
      return wire::ReadSymlink{some_path()};
    default:
      return wire::ListDirectory{chance(50) ? "/public" : some_path(), some_number()};
  }
}

wire::RequestBody Attacker::body_of_memory() {
  const auto number = [this] { return static_cast<uint32_t>(below(4)); };
  switch (below(9)) {
    case 0:
      return wire::RegisterRegion{some_id(), below(kMiB), 1 + below(kTiB)};
    case 1:
      return wire::AttachRegion{some_id(), chance(90) ? some_link_name() + "x" : some_bytes(40)};
    case 2: {
      const uint32_t region = some_id();
      regions_[region] = 0;
      return wire::ReleaseRegion{region};
    }
    case 3:
      return wire::RegisterRegion{some_id(), 0, 4096, "name", shared_name()};
    case 4:
      return wire::DestroyRing{number()};
    default:
      return wire::CancelOperation{number(), number(), static_cast<uint32_t>(random_.next()),
                                   number()};
  }
}

wire::RequestBody Attacker::body_of_many() {
  wire::ReadFiles many;
  for (uint64_t i = 1 + below(chance(5) ? wire::kFilesAtOnceMax : 8); i > 0; --i) {
    wire::FileToRead& file = many.files.emplace_back();
    file.path = chance(80) ? some_path().substr(0, 60) : "/public/many-" + std::to_string(below(9));
    file.region = chance(20) ? wire::kNoRegion : static_cast<uint32_t>(below(6));
    file.length = 1 + below(16 * kKiB);
    if (chance(5)) file.offset = some_number();
    if (chance(10)) file.region_offset = some_number();
    file.unless_cached = chance(30);
  }
  return many;
}

wire::RequestBody Attacker::body_of_new_files() {
  wire::CreateFiles many;
  for (uint64_t i = 1 + below(8); i > 0; --i) {
    wire::NewFile& file = many.files.emplace_back();
    file.path = chance(70) ? "/public/many-" + std::to_string(below(9)) : some_path().substr(0, 60);
    file.mode = static_cast<uint32_t>(below(01000));
    file.length = below(8 * kKiB);
    file.region = static_cast<uint32_t>(below(6));
    if (chance(10)) file.region_offset = some_number();
    if (chance(10)) file.uid = static_cast<uint32_t>(some_number());
  }
  return many;
}

wire::RequestBody Attacker::body_of_the_rest() {
  wire::DeviceMemoryId id{};
  id[0] = static_cast<uint8_t>(below(4));
  switch (below(10)) {
    case 0:
      return wire::SyncAll{};
    case 1:
      return wire::MapCache{};
    case 2:
      return wire::MapSlab{static_cast<uint32_t>(below(20))};
    case 3:
      return wire::KeepTouchLog{};
    case 4: {
      wire::DeviceHandle handle;
      handle.bytes = some_bytes(1 + below(wire::kDeviceHandleBytesMax));
      handle.size = 1 + below(kTiB);
      handle.descriptor = chance(50);
      return wire::PublishDevice{id, handle};
    }
    case 5:
      return wire::WithdrawDevice{id};
    case 6:
      return wire::OpenDevice{id};
    case 7:
      return body_of_new_files();
    default:
      return body_of_many();
  }
}

wire::RequestBody Attacker::some_body() {
  switch (below(4)) {
    case 0:
      return body_of_file();
    case 1:
      return body_of_path();
    case 2:
      return body_of_memory();
    default:
      return body_of_the_rest();
  }
}

// Not owned by the caller.
int Attacker::some_descriptor() {
  const uint64_t which = below(10);
  if (which == 0 && socket_) return socket_.get();
  if (which < 3 && !rings_.empty()) {
    const Ring& ring = rings_[below(rings_.size())];
    return chance(50) ? ring.memory.get() : ring.wake.get();
  }
  if (which < 6) {
    const std::lock_guard lock(mutex_);
    if (!memories_.empty()) return memories_[below(memories_.size())].fd.get();
  }
  return odd_descriptors_[below(odd_descriptors_.size())].get();
}

void Attacker::send(const wire::RequestBody& body, bool rightly) {
  const Result<std::string> bytes = wire::encode(wire::Request{++last_id_, body});
  if (!bytes) return;
  std::vector<int> fds;
  UniqueFd mounted;
  if (std::holds_alternative<wire::OpenDescriptor>(body) && !victim_.mount.empty() && rightly) {
    const int flags = chance(90) ? O_RDWR : O_PATH;
    mounted.reset(::open((victim_.mount + "/public/a").c_str(), flags | O_CLOEXEC | O_NONBLOCK));
  }
  size_t wanted = wire::descriptors_of(body);
  if (!rightly && wanted > 0 && chance(5)) wanted = chance(95) ? below(5) : 253;
  for (size_t i = 0; i < wanted; ++i) fds.push_back(mounted ? mounted.get() : some_descriptor());
  if (send_bytes(*bytes, fds)) asked_[last_id_] = body.index();
}

void Attacker::send_garbage() {
  std::string bytes;
  switch (below(5)) {
    case 0:
      bytes = some_bytes(below(200));
      break;
    case 1:
      bytes = some_bytes(wire::kSessionMessageMax - 2 + below(4));
      break;
    default: {
      // A request with some of its bytes changed, cut off or repeated.
      Result<std::string> request = wire::encode(wire::Request{++last_id_, some_body()});
      if (!request || request->empty()) return;
      bytes = std::move(*request);
      for (uint64_t i = 1 + below(4); i > 0; --i)
        bytes[below(bytes.size())] = static_cast<char>(below(256));
      if (chance(30)) bytes.resize(below(bytes.size() + 1));
      if (chance(20)) bytes += bytes;
    }
  }
  std::vector<int> fds;
  for (uint64_t i = below(3); i > 0; --i) fds.push_back(some_descriptor());
  send_bytes(bytes, fds);
}

}  // namespace penstock::test
