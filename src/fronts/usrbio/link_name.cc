#include "link_name.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <random>
#include <sys/random.h>

#include "penstock/base.h"

namespace penstock::usrbio {

namespace {

constexpr std::string_view kSharedMemoryDirectory = "/dev/shm/";

std::string hex(const Uuid& id, bool hyphens) {
  std::string text;
  text.reserve(36);
  for (size_t i = 0; i < id.size(); ++i) {
    if (hyphens && (i == 4 || i == 6 || i == 8 || i == 10)) text += '-';
    text += fmt::format("{:02x}", id[i]);
  }
  return text;
}

}  // namespace

Uuid uuid_of(const void* id) {
  Uuid uuid;
  std::memcpy(uuid.data(), id, uuid.size());
  return uuid;
}

Uuid random_uuid() {
  Uuid id{};
  size_t filled = 0;
  while (filled < id.size()) {
    const ssize_t n = ::getrandom(id.data() + filled, id.size() - filled, 0);
    if (n > 0) {
      filled += static_cast<size_t>(n);
    } else if (errno != EINTR) {
      // Only a kernel without the call comes here.
      std::random_device device;
      for (uint8_t& byte : id) byte = static_cast<uint8_t>(device());
      break;
    }
  }
  id[6] = static_cast<uint8_t>((id[6] & 0x0f) | 0x40);  // RFC 9562, version 4
  id[8] = static_cast<uint8_t>((id[8] & 0x3f) | 0x80);
  return id;
}

std::string hyphenated(const Uuid& id) {
  return hex(id, true);
}

std::string plain_hex(const Uuid& id) {
  return hex(id, false);
}

std::string link_directory(std::string_view mount) {
  while (mount.size() > 1 && mount.ends_with('/')) mount.remove_suffix(1);
  return fmt::format("{}/3fs-virt/iovs", mount == "/" ? std::string_view() : mount);
}

std::string link_path(std::string_view mount, const Uuid& id, size_t block_size) {
  const std::string suffix = block_size != 0 ? fmt::format(".b{}", block_size) : std::string();
  return fmt::format("{}/{}{}", link_directory(mount), hyphenated(id), suffix);
}

std::vector<LinkCandidate> link_candidates(std::string_view mount, const Uuid& id,
                                           size_t block_size, bool any_block_size) {
  const std::string directory = link_directory(mount);
  std::vector<LinkCandidate> candidates;
  for (const std::string& name : {hyphenated(id), plain_hex(id)}) {
    if (block_size != 0) {
      candidates.push_back({fmt::format("{}/{}.b{}", directory, name, block_size), block_size});
    }
    if (block_size == 0 || any_block_size) {
      candidates.push_back({fmt::format("{}/{}", directory, name), 0});
    }
  }
  return candidates;
}

std::optional<std::string> shared_memory_name(std::string_view link_target) {
  if (!link_target.starts_with(kSharedMemoryDirectory)) return std::nullopt;
  const std::string_view name = link_target.substr(kSharedMemoryDirectory.size());
  if (name.empty() || name == "." || name == ".." || name.size() > limits::kNameBytesMax ||
      name.find('/') != std::string_view::npos || name.find('\0') != std::string_view::npos) {
    return std::nullopt;
  }
  return std::string(name);
}

}  // namespace penstock::usrbio
