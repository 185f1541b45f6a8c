// The mount's virtual directory, by names of every shape, and the mount's ioctls.
#include "attacker.h"

#include <algorithm>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace penstock::test {
namespace {

constexpr uint64_t kVirtualBit = uint64_t{1} << 63;

}  // namespace

std::string Attacker::some_link_name() {
  std::string name = fmt::format("5b2d6d1c-2a0f-4f52-9a52-8b2b6c8f{:04x}", below(8));
  if (chance(20)) name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
  static const char* const kSuffixes[] = {".b4096", ".b",  ".r",   ".w64", ".r0",     ".ph", ".pl",
                                          ".t100",  ".f3", ".gdr", ".d0",  ".gdr.d0", "."};
  for (uint64_t i = below(4); i > 0; --i) {
    name += kSuffixes[below(std::size(kSuffixes))];
    if (chance(30)) name += std::to_string(some_number());
  }
  switch (below(10)) {
    case 0:
      return some_bytes(below(256));
    case 1:
      return std::string(1 + below(300), 'f');
    case 2:
      name[below(name.size())] = static_cast<char>(below(256));
      return name;
    case 3:
      return name.substr(0, below(name.size()));
    default:
      return name;
  }
}

std::string Attacker::shared_name() {
  return fmt::format("/dev/shm/{}{}", victim_.shared, below(8));
}

void Attacker::make_shared_file() {
  const std::string path = shared_name();
  ::unlink(path.c_str());
  switch (below(6)) {
    case 0:
      (void)::mkfifo(path.c_str(), 0666);
      return;
    case 1:
      (void)!::symlink("/etc/passwd", path.c_str());
      return;
    case 2:
      (void)!::symlink(shared_name().c_str(), path.c_str());
      return;
    default:
      break;
  }
  const UniqueFd fd(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0600));
  if (fd) (void)!::ftruncate(fd.get(), static_cast<off_t>(below(1 * kMiB)));
}

std::string Attacker::some_target() {
  switch (below(8)) {
    case 0:
      return some_bytes(1 + below(400));
    case 1:
      return "/dev/shm/../etc/passwd";
    case 2:
      return "/dev/shm/" + std::string(below(4000), 'y');
    case 3:
      return "gdr://v1/device/0";
    default:
      return shared_name();
  }
}

void Attacker::make_link(const std::string& place) {
  const std::string path = place + some_link_name();
  make_shared_file();
  const bool removing = place.ends_with("rm-rf/");
  const std::string target = removing && chance(50) ? victim_.mount + "/public/dir" : some_target();
  if (::symlink(target.c_str(), path.c_str()) != 0) return;
  tally_.add(Feat::links);
  // What is linked is used, too, by its full name.
  if (!removing) send(wire::AttachRegion{some_id(), path.substr(place.size())}, true);
}

void Attacker::use_names() {
  if (victim_.mount.empty()) return;
  static const char* const kPlaces[] = {"/iovs/",  "/iovs/",     "/iovs/",     "/iovs/",
                                        "/rm-rf/", "/get-conf/", "/set-conf/", "/"};
  const std::string place = victim_.mount + "/3fs-virt" + kPlaces[below(std::size(kPlaces))];
  const std::string path = place + some_link_name();
  switch (below(12)) {
    case 0:
    case 1:
    case 2:
      return make_link(place);
    case 3:
    case 4:
      (void)::unlink(path.c_str());
      return;
    case 5: {
      char target[5000];
      (void)!::readlink(path.c_str(), target, sizeof target);
      return;
    }
    case 6:
      (void)::rename(path.c_str(), (place + some_link_name()).c_str());
      return;
    case 7: {
      if (DIR* directory = ::opendir(place.c_str())) {
        while (::readdir(directory) != nullptr) {
        }
        ::closedir(directory);
      }
      return;
    }
    case 8:
      (void)::mkdir(path.c_str(), 0777);
      return;
    case 9:
      (void)::lsetxattr(path.c_str(), "user.x", "y", 1, 0);
      return;
    case 10:
      (void)!::truncate(path.c_str(), 10);
      return;
    default: {
      const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666));
      struct stat facts {};
      (void)::lstat(path.c_str(), &facts);
    }
  }
}

// Commands of 3FS's mount with the sizes that they have, and others; and arguments that say little.
void Attacker::use_ioctl() {
  if (victim_.mount.empty()) return;
  static const char* const kWhere[] = {"/",         "/public",        "/public/a",
                                       "/3fs-virt", "/3fs-virt/iovs", "/public/dir"};
  const std::string path = victim_.mount + kWhere[below(std::size(kWhere))];
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return;
  std::string argument = chance(50) ? some_bytes(20'000) : std::string(20'000, '\0');
  for (size_t at = 0; at < 1024; at += 8) {
    uint64_t word = chance(50) ? below(40) : some_number();
    if (chance(10)) word |= kVirtualBit;
    if (chance(40)) argument.replace(at, 8, reinterpret_cast<const char*>(&word), 8);
  }
  struct Command {
    unsigned direction, number, size;
  };
  static constexpr Command kCommands[] = {
      {_IOC_READ, 0, 32},    {_IOC_READ, 1, 4},    {_IOC_READ, 2, 4},     {_IOC_READ, 3, 4},
      {_IOC_READ, 10, 4},    {_IOC_READ, 11, 4},   {_IOC_WRITE, 12, 264}, {_IOC_WRITE, 13, 16016},
      {_IOC_WRITE, 14, 536}, {_IOC_WRITE, 15, 272}};
  Command command = kCommands[below(std::size(kCommands))];
  if (chance(20)) command.direction = static_cast<unsigned>(1 + below(3));
  if (chance(20)) command.number = static_cast<unsigned>(below(20));
  if (chance(20)) command.size = static_cast<unsigned>(below(16'000));
  const unsigned number =
      _IOC(command.direction, chance(95) ? 'h' : 'f', command.number, command.size);
  if (::ioctl(fd.get(), number, argument.data()) >= 0) tally_.add(Feat::ioctls);
}

}  // namespace penstock::test
