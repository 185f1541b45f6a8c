// Operations on mappings and on listings that stay open.
#include "side.h"

#include <algorithm>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace penstock::differential {
namespace {

// Reading or writing memory beyond the end of its file is a signal, which is an answer like others.
sigjmp_buf touched;
volatile sig_atomic_t touching = 0;

void no_such_memory(int signal) {
  if (touching == 0) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);
    return;
  }
  siglongjmp(touched, 1);
}

// Copies page by page, so that what arrives before the signal is the same on both sides.
bool copy_pages(char* to, const char* from, size_t length) {
  static const bool once = [] {
    std::signal(SIGBUS, no_such_memory);
    return true;
  }();
  (void)once;
  if (sigsetjmp(touched, 1) != 0) {
    touching = 0;
    return false;
  }
  touching = 1;
  for (size_t at = 0; at < length; at += 4096) {
    std::memcpy(to + at, from + at, std::min<size_t>(4096, length - at));
  }
  touching = 0;
  return true;
}

Answer map_file(Side& side, const Operation& operation) {
  Mapping& map = side.mapping(operation.other);
  const bool writable = operation.numbers[2] != 0;
  const auto length = static_cast<size_t>(operation.numbers[1]);
  if (length == 0) return {-1, EINVAL, {}};
  const int file = side.file(operation.slot);
  void* memory = ::mmap(nullptr, length, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, file,
                        operation.numbers[0] & ~int64_t{4095});
  if (memory == MAP_FAILED) return answer_of(-1);
  if (map.memory != nullptr) {
    ::munmap(map.memory, map.length);
    ::close(map.file);
  }
  map = {static_cast<char*>(memory), length, writable, ::fcntl(file, F_DUPFD_CLOEXEC, 0),
         operation.numbers[0] & ~int64_t{4095}};
  return {};
}

Answer touch(Side& side, const Operation& operation) {
  const Mapping& map = side.mapping(operation.other);
  const bool writes = operation.kind == Kind::map_write;
  if (map.memory == nullptr || (writes && !map.writable)) return {-1, EBADF, {}};
  const auto offset = static_cast<size_t>(operation.numbers[0]) % map.length;
  size_t length = std::min(static_cast<size_t>(operation.numbers[1]), map.length - offset);
  struct stat stat {};
  if (writes && ::fstat(map.file, &stat) == 0) {
    // What is stored behind the end is nobody's ("stored behind the end" in intended.cc).
    const auto start = map.offset + static_cast<int64_t>(offset);
    length = std::min(length, static_cast<size_t>(std::max<int64_t>(stat.st_size - start, 0)));
  }
  char* bytes = side.memory(length + 8);
  if (writes) {
    fill(bytes, length, operation.numbers[2]);
    return copy_pages(map.memory + offset, bytes, length) ? Answer{} : Answer{-1, EFAULT, {}};
  }
  if (!copy_pages(bytes, map.memory + offset, length)) return {-1, EFAULT, {}};
  return answer_of(static_cast<int64_t>(length), bytes);
}

Answer unmap(Side& side, const Operation& operation) {
  Mapping& map = side.mapping(operation.other);
  if (map.memory == nullptr) return {-1, EBADF, {}};
  const Answer answer = answer_of(::munmap(map.memory, map.length));
  ::close(map.file);
  map = {};
  return answer;
}

// What is in the directory that is being listed, by another listing of it.
bool look_around(int directory, std::map<std::string, Stream::Entry>& found) {
  found.clear();
  const int again = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (again < 0) return false;
  DIR* listing = ::fdopendir(again);
  if (listing == nullptr) {
    ::close(again);
    return false;
  }
  while (const dirent* entry = ::readdir(listing)) {
    struct stat stat {};
    if (::fstatat(again, entry->d_name, &stat, AT_SYMLINK_NOFOLLOW) != 0) continue;
    found[entry->d_name] = {stat.st_ino,
                            stat.st_ctim.tv_sec * 1'000'000'000 + stat.st_ctim.tv_nsec};
  }
  ::closedir(listing);
  found.erase(".");
  found.erase("..");
  return true;
}

void begin(Stream& stream) {
  stream.seen.clear();
  stream.places.clear();
  stream.known_before = look_around(::dirfd(stream.listing), stream.before);
}

Answer open_stream(Side& side, const Operation& operation) {
  DIR* listing = ::opendir(operation.path.c_str());
  if (listing == nullptr) return answer_of(-1);
  Stream& stream = side.stream(operation.slot);
  if (stream.listing != nullptr) ::closedir(stream.listing);
  stream.listing = listing;
  stream.mount = side.mount();
  begin(stream);
  return {};
}

// What was there all the time, and was not touched, must have been listed once.
std::string wrongly_listed(const Stream& stream) {
  std::map<std::string, Stream::Entry> now;
  if (!stream.known_before || !look_around(::dirfd(stream.listing), now)) return {};
  std::string wrong;
  for (const auto& [name, entry] : stream.before) {
    const auto still = now.find(name);
    if (still == now.end() || still->second != entry) continue;
    const auto times = std::count(stream.seen.begin(), stream.seen.end(), name);
    if (times != 1) wrong += name + " was listed " + std::to_string(times) + " times;";
  }
  return wrong;
}

Answer read_stream(Side& side, const Operation& operation) {
  Stream& stream = side.stream(operation.slot);
  if (stream.listing == nullptr) return {-1, EBADF, {}};
  for (int64_t i = 0; i < operation.numbers[0]; i++) {
    const long place = ::telldir(stream.listing);
    errno = 0;
    const dirent* entry = ::readdir(stream.listing);
    if (entry == nullptr) {
      if (errno != 0) return answer_of(-1);
      // Where a listing ends while names come and go is not promised: only what it left out.
      return {0, 0, wrongly_listed(stream)};
    }
    stream.places.push_back(place);
    stream.seen.emplace_back(entry->d_name);
  }
  return {};
}

Answer seek_stream(Side& side, const Operation& operation) {
  Stream& stream = side.stream(operation.slot);
  if (stream.listing == nullptr) return {-1, EBADF, {}};
  const auto to = static_cast<size_t>(operation.numbers[0]);
  if (to == 0) {
    ::rewinddir(stream.listing);
    begin(stream);
  } else if (to < stream.seen.size()) {
    ::seekdir(stream.listing, stream.places[to]);
    stream.seen.resize(to);
    stream.places.resize(to);
  }
  return {};
}

}  // namespace

Answer run_on_mapping(Side& side, const Operation& operation) {
  const Mapping& map = side.mapping(operation.other);
  switch (operation.kind) {
    case Kind::map:
      return map_file(side, operation);
    case Kind::map_write:
    case Kind::map_read:
      return touch(side, operation);
    case Kind::map_sync:
      if (map.memory == nullptr) return {-1, EBADF, {}};
      return answer_of(::msync(map.memory, map.length, static_cast<int>(operation.numbers[0])));
    default:
      return unmap(side, operation);
  }
}

Answer run_on_stream(Side& side, const Operation& operation) {
  switch (operation.kind) {
    case Kind::open_stream:
      return open_stream(side, operation);
    case Kind::read_stream:
      return read_stream(side, operation);
    case Kind::seek_stream:
      return seek_stream(side, operation);
    default: {
      Stream& stream = side.stream(operation.slot);
      if (stream.listing == nullptr) return {-1, EBADF, {}};
      const Answer answer = answer_of(::closedir(stream.listing));
      stream = {};
      return answer;
    }
  }
}

}  // namespace penstock::differential
