#include "task.h"

#include <cstring>

#include "penstock/job/limits.h"

namespace penstock::job {
namespace {

constexpr size_t kAddressesOfTasksMax = 64;

// Arguments may be longer than what ByteWriter::text() takes.
void write_long(ByteWriter& to, std::string_view text) {
  to.number(static_cast<uint32_t>(text.size()));
  to.raw(std::as_bytes(std::span(text.data(), text.size())));
}

std::string read_long(ByteReader& from) {
  const Bytes bytes = from.raw(from.number<uint32_t>());
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// For the kernel a text ends at its first zero.
bool has_zero(const std::string& text) {
  return text.find('\0') != std::string::npos;
}

}  // namespace

std::vector<std::byte> encode(const Task& task) {
  ByteWriter to;
  to.number(kMagic);
  to.number(kTaskVersion);
  to.text(task.version);
  to.number(static_cast<uint8_t>(task.addresses.size()));
  for (const HostAddress& address : task.addresses) {
    to.number(address.family);
    to.raw(address.bytes);
  }
  to.number(task.port);
  to.raw(task.secret);
  to.text(task.host);
  for (const uint32_t number : {task.node, task.size, task.first, task.count}) to.number(number);
  to.number<uint8_t>(task.label ? 1 : 0);
  to.number(static_cast<uint32_t>(task.command.size()));
  for (const std::string& word : task.command) write_long(to, word);
  to.number(static_cast<uint32_t>(task.environment.size()));
  for (const auto& [name, value] : task.environment) {
    write_long(to, name);
    write_long(to, value);
  }
  write_long(to, task.directory);
  return std::move(to.bytes());
}

std::optional<TaskVersion> decode_task_version(Bytes body) {
  ByteReader from(body);
  if (from.number<uint32_t>() != kMagic) return std::nullopt;
  TaskVersion version;
  version.number = from.number<uint16_t>();
  version.program = from.text();
  if (!from.good()) return std::nullopt;
  return version;
}

std::optional<Task> decode_task(Bytes body) {
  ByteReader from(body);
  if (from.number<uint32_t>() != kMagic || from.number<uint16_t>() != kTaskVersion) {
    return std::nullopt;
  }
  Task task;
  task.version = from.text();
  const auto addresses = from.number<uint8_t>();
  if (addresses == 0 || addresses > kAddressesOfTasksMax) return std::nullopt;
  for (uint8_t i = 0; i < addresses && from.good(); ++i) {
    HostAddress address;
    address.family = from.number<uint8_t>();
    const Bytes bytes = from.raw(address.bytes.size());
    if (!from.good() || (address.family != 4 && address.family != 6)) return std::nullopt;
    std::memcpy(address.bytes.data(), bytes.data(), bytes.size());
    task.addresses.push_back(address);
  }
  task.port = from.number<uint16_t>();
  const Bytes secret = from.raw(kSecretBytes);
  if (!from.good()) return std::nullopt;
  std::memcpy(task.secret.data(), secret.data(), kSecretBytes);
  task.host = from.text();
  for (uint32_t* number : {&task.node, &task.size, &task.first, &task.count}) {
    *number = from.number<uint32_t>();
  }
  const auto label = from.number<uint8_t>();
  task.label = label == 1;
  if (!from.good() || label > 1 || task.size == 0 || task.size > limits::kRanksMax ||
      task.node >= task.size || task.first >= task.size || task.count == 0 ||
      task.count > task.size - task.first) {
    return std::nullopt;
  }
  const auto words = from.number<uint32_t>();
  for (uint32_t i = 0; i < words && from.good(); ++i) {
    task.command.push_back(read_long(from));
    if (has_zero(task.command.back())) return std::nullopt;
  }
  const auto variables = from.number<uint32_t>();
  for (uint32_t i = 0; i < variables && from.good(); ++i) {
    std::string name = read_long(from);
    std::string value = read_long(from);
    if (name.empty() || name.find('=') != std::string::npos || has_zero(name) || has_zero(value)) {
      return std::nullopt;
    }
    task.environment.emplace_back(std::move(name), std::move(value));
  }
  task.directory = read_long(from);
  if (!from.complete() || task.command.empty() || has_zero(task.directory)) return std::nullopt;
  return task;
}

std::vector<std::byte> encode_number(uint32_t value) {
  ByteWriter to;
  to.number(value);
  return std::move(to.bytes());
}

std::optional<uint32_t> decode_number(Bytes body) {
  ByteReader from(body);
  const auto value = from.number<uint32_t>();
  if (!from.complete()) return std::nullopt;
  return value;
}

}  // namespace penstock::job
