#include "actor.h"

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <grp.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "penstock/base.h"

namespace penstock::differential {
namespace {

constexpr gid_t kSharedGroup = 1003;

// The tester itself looks as root; operations run as their actor.
class AsRoot {
 public:
  explicit AsRoot(uid_t user) : user_(user) {
    if (user_ != 0) become(0);
  }
  ~AsRoot() {
    if (user_ != 0) become(user_);
  }
  AsRoot(const AsRoot&) = delete;
  AsRoot& operator=(const AsRoot&) = delete;

 private:
  static void become(uid_t user) {
    if (::seteuid(user) != 0) std::abort();
  }
  const uid_t user_;
};

// access() asks for the real user; the saved one stays root, to come back.
void act_as(uid_t user) {
  if (user == 0 || ::geteuid() != 0) return;
  if (::setgroups(1, &kSharedGroup) != 0 || ::setresgid(user, user, user) != 0 ||
      ::setresuid(user, user, 0) != 0)
    std::abort();
}

void futex(std::atomic<uint32_t>& word, int operation, uint32_t value) {
  ::syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
}

// Everybody may go where the tree's usual directories are, and nothing is immutable.
void open_up(int directory, const char* name) {
  const UniqueFd file(::openat(directory, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  if (!file) return;
  int flags = 0;
  constexpr int kStubborn = FS_IMMUTABLE_FL | FS_APPEND_FL;
  if (::ioctl(file.get(), FS_IOC_GETFLAGS, &flags) == 0 && (flags & kStubborn) != 0) {
    flags &= ~kStubborn;
    ::ioctl(file.get(), FS_IOC_SETFLAGS, &flags);
  }
  struct stat stat {};
  if (::fstat(file.get(), &stat) == 0 && S_ISDIR(stat.st_mode)) ::fchmod(file.get(), 0777);
}

bool changes_bytes(Kind kind) {
  switch (kind) {
    case Kind::write:
    case Kind::pwrite:
    case Kind::pwritev2:
    case Kind::ftruncate:
    case Kind::fallocate:
    case Kind::copy_range:
    case Kind::send_file:
    case Kind::map_write:
    case Kind::map_sync:
    case Kind::advise:
      return true;
    default:
      return false;
  }
}

bool on_a_file(Kind kind) {
  return (kind >= Kind::close && kind <= Kind::map) || kind == Kind::open ||
         kind == Kind::link_file;
}

}  // namespace

Actor::Actor(uint8_t number, const Program& program, const Settings& settings, Shared& shared,
             const Tops& tops)
    : number_(number), program_(program), settings_(settings), shared_(shared), look_(shared) {
  std::signal(SIGPIPE, SIG_IGN);
  ::umask(0);
  const bool several = tops[0].size() > 1;
  sides_[0] = std::make_unique<Side>(tops[0], settings.fault, several);
  sides_[1] = std::make_unique<Side>(tops[1], Fault::none, several);
  act_as(kUsers[number]);
}

void Actor::wait_for_turn() {
  for (;;) {
    const uint32_t rung = shared_.bells[number_].load(std::memory_order_acquire);
    const uint32_t now = shared_.step.load(std::memory_order_acquire);
    if (shared_.ended.load(std::memory_order_acquire) != 0 || now >= program_.size()) return;
    if (program_[now].actor == number_) return;
    futex(shared_.bells[number_], FUTEX_WAIT, rung);
  }
}

void Actor::wake_next(uint32_t step) {
  const bool over = shared_.ended.load(std::memory_order_acquire) != 0 || step >= program_.size();
  for (uint8_t actor = 0; actor < kActors; actor++) {
    if (actor == number_ || (!over && program_[step].actor != actor)) continue;
    shared_.bells[actor].fetch_add(1, std::memory_order_release);
    futex(shared_.bells[actor], FUTEX_WAKE, INT_MAX);
  }
}

void Actor::run() {
  for (;;) {
    wait_for_turn();
    const uint32_t step = shared_.step.load(std::memory_order_acquire);
    if (shared_.ended.load(std::memory_order_acquire) != 0 || step >= program_.size()) return;
    perform(program_[step]);
    if (shared_.ended.load(std::memory_order_relaxed) == 0)
      shared_.step.store(step + 1, std::memory_order_release);
    wake_next(step + 1);
  }
}

Pair Actor::files(int slot) const {
  return {sides_[0]->file(slot), sides_[1]->file(slot)};
}

Pair Actor::tops(int mount) const {
  return {sides_[0]->top(mount), sides_[1]->top(mount)};
}

int Actor::mount_of(const Operation& operation) const {
  const auto count = static_cast<int>(settings_.mounts.size());
  int mount = operation.mount % count;
  // A link by a descriptor is made in the mount of that.
  if (operation.kind == Kind::link_file && operation.at < 0)
    mount = sides_[0]->mount_of(operation.slot);
  while (is_lost(mount)) mount = (mount + 1) % count;  // The first one's node is never away.
  return mount;
}

void Actor::perform(const Operation& operation) {
  renew();
  Found found;
  switch (operation.kind) {
    case Kind::umask:
      ::umask(static_cast<mode_t>(operation.numbers[0]));
      return;
    case Kind::relax: {
      const AsRoot root(::geteuid());
      return relax();
    }
    case Kind::compare: {
      const AsRoot root(::geteuid());
      found = compare_trees(operation);
      break;
    }
    case Kind::lose:
      found = lose(operation);
      break;
    case Kind::restore:
      return restore(operation);
    default:
      if (needs_what_is_away(operation, mount_of(operation))) return;
      found = both(operation);
      if (!found) {
        const AsRoot root(::geteuid());
        found = look(operation);
      }
  }
  if (found) report(operation, *found);
}

// "'..' of an open directory ..." in intended.cc: at the place where the host has it.
void Actor::look_at_place(const Operation& operation) {
  if (operation.at < 0 || settings_.mounts.size() < 2) return;
  const auto path_of = [](int file) {
    std::array<char, PATH_MAX> path{};
    const std::string link = fmt::format("/proc/self/fd/{}", file);
    const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
    return std::string(path.data(), static_cast<size_t>(std::max<ssize_t>(length, 0)));
  };
  const int mount = sides_[0]->mount_of(operation.at);
  const std::string top = path_of(tops(mount)[1]) + "/";
  const std::string place = path_of(sides_[1]->file(operation.at));
  if (place.compare(0, top.size(), top) != 0) return;
  const AsRoot root(::geteuid());
  struct stat stat {};
  ::fstatat(tops(mount)[0], place.c_str() + top.size(), &stat, 0);
}

Found Actor::both(const Operation& operation) {
  look_at_place(operation);
  Answer answers[2];
  for (size_t side = 0; side < 2; side++) {
    const int error = sides_[side]->enter(operation.at, mount_of(operation));
    answers[side] = error != 0 ? Answer{-1, error, {}} : run_on(*sides_[side], operation);
  }
  const AsRoot root(::geteuid());
  const int from = operation.at < 0 ? -1 : sides_[1]->file(operation.at);
  const int file = on_a_file(operation.kind) ? sides_[1]->file(operation.slot) : -1;
  return look_.at_answers(operation, from, file, answers[0], answers[1]);
}

// Remembers what the rules of intended.cc ask for.
void Actor::note_effects(const Operation& operation) {
  const bool reserves = operation.kind == Kind::fallocate && (operation.numbers[0] & 2) == 0;
  const bool maps = operation.kind == Kind::map_write;
  if (!reserves && !maps) return;
  uint32_t mode = 0;
  const int file =
      maps ? sides_[1]->mapping(operation.other).file : sides_[1]->file(operation.slot);
  Note* note = look_.note_of(file, mode);
  if (note == nullptr) return;
  note->reserved = note->reserved || reserves;
  if (maps) note->mapped = true;
}

Found Actor::look(const Operation& operation) {
  note_effects(operation);
  if (operation.kind == Kind::lock) look_.has_locks();
  const int mount = mount_of(operation);
  const Pair from = operation.at < 0 ? tops(mount) : files(operation.at);
  if (Found found = look_at_names(operation, from)) return found;
  // Now and then by the other nodes, too: not always, as what they ask for is taken back then.
  const bool by_all = operation.at < 0 && one_in(operation, settings_.thorough ? 3 : 9);
  for (int other = 0; by_all && other < static_cast<int>(settings_.mounts.size()); other++) {
    if (other == mount || is_lost(other)) continue;
    Found found = look_at_names(operation, tops(other));
    if (found) found->text += fmt::format("\n  by mount {}", other);
    if (found) return found;
  }
  Pair file = files(operation.slot);
  if (operation.kind >= Kind::map_write && operation.kind <= Kind::unmap) {
    file = {sides_[0]->mapping(operation.other).file, sides_[1]->mapping(operation.other).file};
  } else if (!on_a_file(operation.kind)) {
    return std::nullopt;
  }
  if (Found found = look_.at_file(operation, file)) return found;
  const bool copies = operation.kind == Kind::copy_range || operation.kind == Kind::send_file;
  const Pair changed = copies ? files(operation.other) : file;
  if (copies || operation.kind == Kind::dup) {
    if (Found found = look_.at_file(operation, files(operation.other))) return found;
  }
  const bool looked_at = settings_.thorough || one_in(operation, 8);
  if (!changes_bytes(operation.kind) || !looked_at) return std::nullopt;
  return look_.at_bytes(operation, changed);
}

Found Actor::look_at_names(const Operation& operation, Pair from) {
  if (from[0] < 0 || operation.path.size() >= PATH_MAX) return std::nullopt;
  if (Found found = look_.at_name(operation, from, operation.path)) return found;
  if (operation.kind != Kind::rename && operation.kind != Kind::link) return std::nullopt;
  return look_.at_name(operation, from, operation.path2);
}

Found Actor::compare_trees(const Operation& operation) {
  const auto count = static_cast<int>(settings_.mounts.size());
  for (int i = 0; i < count; i++) {
    const int mount = (operation.mount + i) % count;
    if (is_lost(mount)) continue;
    Found found = look_.at_tree(operation, tops(mount), ".");
    if (found && count > 1) found->text += fmt::format("\n  by mount {}", mount);
    if (found) return found;
  }
  return std::nullopt;
}

void Actor::relax() {
  static constexpr const char* kDirectories[] = {".",   "k",   "l",   "m",   "k/k", "k/l", "k/m",
                                                 "l/k", "l/l", "l/m", "m/k", "m/l", "m/m"};
  // By the first mount.
  for (const auto& side : sides_) {
    std::string up = ".";
    for (int i = 0; i < 3; i++) {
      open_up(side->top(0), up.c_str());
      up += "/..";
    }
    for (const char* directory : kDirectories) open_up(side->top(0), directory);
    for (const char* name : {"a", "b", "c"}) {
      for (const char* in : {".", "k", "l", "m"})
        open_up(side->top(0), fmt::format("{}/{}", in, name).c_str());
    }
  }
}

void Actor::report(const Operation& operation, const Finding& finding) {
  const auto put = [](auto& to, const std::string& text) {
    const size_t length = std::min(text.size(), to.size() - 1);
    std::memcpy(to.data(), text.data(), length);
    to[length] = '\0';
  };
  put(shared_.signature, fmt::format("{} {}", name_of(operation.kind), finding.field));
  put(shared_.difference, fmt::format("{}\n{}", to_text(operation), finding.text));
  shared_.ended.store(1, std::memory_order_release);
}

}  // namespace penstock::differential
