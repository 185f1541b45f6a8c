#include "side.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include "penstock/base.h"

namespace penstock::differential {

Side::Side(std::vector<int> tops, Fault fault, bool beside_others)
    : tops_(std::move(tops)), fault_(fault), beside_others_(beside_others) {}

Side::~Side() {
  for (Stream& stream : streams_) {
    if (stream.listing != nullptr) ::closedir(stream.listing);
  }
  for (Mapping& map : maps_) {
    if (map.memory == nullptr) continue;
    ::munmap(map.memory, map.length);
    ::close(map.file);
  }
  for (const File& file : files_) {
    if (file.descriptor >= 0) ::close(file.descriptor);
  }
  for (const int top : tops_) ::close(top);
}

int Side::put(int slot, int descriptor, bool direct, int mount) {
  File& file = files_[index(slot)];
  const int result = file.descriptor >= 0 ? ::close(file.descriptor) : 0;
  file = {descriptor, direct, mount};
  return result;
}

int Side::enter(int at, int mount) {
  mount_ = at < 0 ? mount : mount_of(at);
  return ::fchdir(at < 0 ? top(mount) : file(at)) == 0 ? 0 : errno;
}

void Side::replace_top(int mount, int top) {
  int& here = tops_[static_cast<size_t>(mount) % tops_.size()];
  ::close(here);
  here = top;
}

void Side::Free::operator()(char* memory) const {
  std::free(memory);
}

char* Side::memory(size_t length) {
  if (length > capacity_) {
    capacity_ = (length + 65535) / 65536 * 65536;
    memory_.reset(static_cast<char*>(std::aligned_alloc(65536, capacity_)));
    if (!memory_) std::abort();
  }
  return memory_.get();
}

Answer answer_of(int64_t result) {
  return {result < 0 ? -1 : result, result < 0 ? errno : 0, {}};
}

Answer answer_of(int64_t result, const char* bytes) {
  Answer answer = answer_of(result);
  if (result > 0) answer.data.assign(bytes, static_cast<size_t>(result));
  return answer;
}

std::string to_text(const Answer& answer) {
  std::string text = answer.error != 0 ? fmt::format("{} ({})", ::strerrorname_np(answer.error),
                                                     std::strerror(answer.error))
                                       : std::to_string(answer.value);
  if (answer.data.empty()) return text;
  bool printable = answer.data.size() < 300;
  for (const char byte : answer.data) printable = printable && byte >= ' ' && byte < 127;
  if (printable) return text + " [" + answer.data + "]";
  const Bytes bytes(reinterpret_cast<const std::byte*>(answer.data.data()), answer.data.size());
  return text + fmt::format(" [{} bytes, crc {:08x}]", bytes.size(), crc32c(bytes));
}

void fill(char* bytes, size_t length, int64_t seed) {
  uint64_t word = static_cast<uint64_t>(seed) * 0x9e3779b97f4a7c15ULL + 1;
  for (size_t i = 0; i < length; i += sizeof(word)) {
    word = word * 6364136223846793005ULL + 1442695040888963407ULL;
    std::memcpy(bytes + i, &word, std::min(sizeof(word), length - i));
  }
}

uint32_t plain_mode(uint32_t mode) {
  const bool idle = S_ISREG(mode) && (mode & S_IXGRP) == 0;
  return idle ? mode & ~uint32_t{S_ISGID} : mode;
}

void ask_for_group(int directory, const char* name) {
  struct statx stat {};
  ::statx(directory, name, AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &stat);
}

Answer run_on(Side& side, const Operation& operation) {
  if (side.fault() == Fault::rename_keeps_the_target && operation.kind == Kind::rename &&
      operation.numbers[0] == 0 && ::faccessat(AT_FDCWD, operation.path.c_str(), F_OK, 0) == 0 &&
      ::faccessat(AT_FDCWD, operation.path2.c_str(), F_OK, 0) == 0) {
    return {};
  }
  if (operation.kind <= Kind::open) return run_on_file_state(side, operation);
  if (operation.kind == Kind::link_file) return run_on_file_state(side, operation);
  if (operation.kind <= Kind::mknod) return run_on_names(side, operation);
  if (operation.kind <= Kind::statfs) return run_on_attributes(side, operation);
  if (operation.kind < Kind::fchmod && operation.kind != Kind::close && operation.kind != Kind::dup)
    return run_on_file(side, operation);
  if (operation.kind == Kind::copy_range || operation.kind == Kind::send_file)
    return run_on_file(side, operation);
  if (operation.kind < Kind::map) return run_on_file_state(side, operation);
  if (operation.kind < Kind::open_stream) return run_on_mapping(side, operation);
  return run_on_stream(side, operation);
}

}  // namespace penstock::differential
