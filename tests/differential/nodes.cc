// Nodes that go and come back while programs run.
#include "actor.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "penstock/base.h"

namespace penstock::differential {
namespace {

constexpr int64_t kStopped = 2;          // as tools/differential_cluster.sh has it
constexpr int64_t kLeaseAtLeast = 3000;  // milliseconds from any moment on, with room for slowness

void order(const Settings& settings, const std::string& words) {
  if (std::system((settings.nodes + " " + words).c_str()) == 0) return;
  fmt::print(stderr, "differential: {} {}: failed\n", settings.nodes, words);
  std::abort();
}

bool has_no_name(int file) {
  struct stat stat {};
  return file >= 0 && ::fstat(file, &stat) == 0 && stat.st_nlink == 0;
}

// By the node of this directory itself.
void sync_files(int directory, const char* name) {
  const UniqueFd file(
      ::openat(directory, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOATIME | O_CLOEXEC));
  struct stat stat {};
  if (!file || ::fstat(file.get(), &stat) != 0) return;
  if (S_ISREG(stat.st_mode)) ::fsync(file.get());
  if (!S_ISDIR(stat.st_mode)) return;
  DIR* listing = ::fdopendir(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
  if (listing == nullptr) return;
  while (const dirent* entry = ::readdir(listing)) {
    const std::string_view each = entry->d_name;
    if (each != "." && each != "..") sync_files(file.get(), entry->d_name);
  }
  ::closedir(listing);
}

}  // namespace

void lose_node(const Settings& settings, const Operation& operation) {
  order(settings,
        fmt::format("lose {} {} {}", operation.mount, operation.numbers[0], operation.numbers[1]));
}

void restore_node(const Settings& settings, int mount) {
  order(settings, fmt::format("restore {}", mount));
}

bool Actor::needs_what_is_away(const Operation& operation, int mount) const {
  const Side& side = *sides_[0];
  const Kind kind = operation.kind;
  const int from = operation.at < 0 ? mount : side.mount_of(operation.at);
  const bool on_file =
      (kind >= Kind::close && kind <= Kind::map) || kind == Kind::open || kind == Kind::link_file;
  const bool on_other = kind == Kind::dup || kind == Kind::copy_range || kind == Kind::send_file;
  const bool on_stream = kind >= Kind::open_stream && kind <= Kind::close_stream;
  // Between mounts there are no links ("links between mounts" in intended.cc).
  if (kind == Kind::link_file && from != side.mount_of(operation.slot)) return true;
  // "sendfile() and copy_file_range() ..." in intended.cc.
  if (kind == Kind::copy_range && side.mount_of(operation.slot) != side.mount_of(operation.other))
    return true;
  return is_lost(from) || (on_file && is_lost(side.mount_of(operation.slot))) ||
         (on_other && is_lost(side.mount_of(operation.other))) ||
         (on_stream && is_lost(sides_[0]->stream(operation.slot).mount));
}

Found Actor::lose(const Operation& operation) {
  const auto mount = static_cast<size_t>(operation.mount);
  if (mount == 0 || mount >= settings_.mounts.size() || is_lost(operation.mount))
    return std::nullopt;
  // What a node loses that nobody has synced or seen cannot be told. Either it syncs all, or others
  // look at all.
  if (operation.numbers[2] != 0) {
    sync_files(sides_[0]->top(operation.mount), ".");
  } else if (Found found = compare_trees(operation)) {
    return found;
  }
  lose_node(settings_, operation);
  shared_.lost[mount] = true;
  // Longer than its lease is as if it were another process: what it has open and others remove
  // before it is used again is gone (docs/posix.md).
  shared_.stopped[mount] = operation.numbers[0] == kStopped && operation.numbers[1] < kLeaseAtLeast;
  return std::nullopt;
}

void Actor::restore(const Operation& operation) {
  const auto mount = static_cast<size_t>(operation.mount);
  if (mount >= settings_.mounts.size() || !is_lost(operation.mount)) return;
  restore_node(settings_, operation.mount);
  shared_.lost[mount] = false;
  shared_.came[mount]++;
  if (!shared_.stopped[mount]) shared_.killed[mount]++;
}

// Of a node that was stopped all goes on but files without names, which are gone where its session
// has ended. `mount` -1: none was killed.
void Actor::close_files(int mount) {
  for (int slot = 0; slot < kFiles; slot++) {
    if (sides_[0]->mount_of(slot) != mount && !has_no_name(sides_[1]->file(slot))) continue;
    for (const auto& side : sides_) side->put(slot, -1, false, 0);
  }
  for (int slot = 0; slot < kStreams; slot++) {
    if (sides_[0]->stream(slot).mount != mount) continue;
    for (const auto& side : sides_) {
      Stream& stream = side->stream(slot);
      if (stream.listing != nullptr) ::closedir(stream.listing);
      stream = {};
    }
  }
}

void Actor::renew() {
  for (size_t i = 1; i < settings_.mounts.size(); i++) {
    if (came_[i] == shared_.came[i] || shared_.lost[i]) continue;
    came_[i] = shared_.came[i];
    const bool was_killed = std::exchange(killed_[i], shared_.killed[i]) != shared_.killed[i];
    const int mount = static_cast<int>(i);
    close_files(was_killed ? mount : -1);
    if (!was_killed) continue;
    const uid_t user = ::geteuid();
    if (user != 0 && ::seteuid(0) != 0) std::abort();
    const std::string path = top_in(settings_.mounts[i]);
    const int top = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (top < 0) {
      fmt::print(stderr, "differential: {}: {}\n", path, std::strerror(errno));
      std::abort();
    }
    sides_[0]->replace_top(mount, top);
    if (user != 0 && ::seteuid(user) != 0) std::abort();
  }
}

}  // namespace penstock::differential
