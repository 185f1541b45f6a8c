#include "device.h"

#include "limits.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/fuse.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace penstock::fuse {
namespace {

using AccessMode = client::AccessTimes::Mode;

// MOVE_MOUNT_BENEATH, in linux/mount.h since Linux 6.5.
constexpr unsigned kBeneath = 0x200;

// Environment variable by which fusermount3 learns where to send the device.
constexpr const char* kHandoverVariable = "_FUSE_COMMFD";

Failure failure(Status status, const std::string& path, const std::string& reason) {
  return {status, fmt::format("{}: {}", path, reason)};
}

std::string common_options(const MountConfig& config) {
  std::string options = fmt::format("default_permissions,max_read={}", kRequestBytesMax);
  if (config.options.allow_other) options += ",allow_other";
  return options;
}

const char* type_of(const MountOptions& options) {
  return options.like_3fs ? kMountTypeOf3fs : kMountType;
}

unsigned long flags_of(const MountOptions& options) {
  unsigned long flags = 0;
  const auto add = [&flags](bool said, unsigned long flag) { flags |= said ? flag : 0; };
  add(options.read_only, MS_RDONLY);
  add(!options.set_ids, MS_NOSUID);
  add(!options.devices, MS_NODEV);
  add(!options.programs, MS_NOEXEC);
  add(options.synchronous, MS_SYNCHRONOUS);
  add(options.directory_synchronous, MS_DIRSYNC);
  add(!options.access_times.directories, MS_NODIRATIME);
  switch (options.access_times.mode) {
    case AccessMode::relative:
      return flags | MS_RELATIME;
    case AccessMode::strict:
      return flags | MS_STRICTATIME;
    case AccessMode::none:
      break;
  }
  return flags | MS_NOATIME;
}

// In the words that fusermount3 knows. Those it does not know concern times of access, which the
// node keeps and not the kernel.
std::string helper_options(const MountOptions& options) {
  std::string text = fmt::format("{},nosuid,nodev", options.read_only ? "ro" : "rw");
  if (!options.programs) text += ",noexec";
  if (options.access_times.mode == AccessMode::none) text += ",noatime";
  if (options.synchronous) text += ",sync";
  if (options.directory_synchronous) text += ",dirsync";
  return text;
}

Outcome<UniqueFd> mount_as_root(const MountConfig& config) {
  UniqueFd device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!device) {
    return failure(Status::from_errno(errno), config.mount_point,
                   fmt::format("/dev/fuse cannot be opened: {}", std::strerror(errno)));
  }
  const std::string options =
      fmt::format("fd={},rootmode=40000,user_id={},group_id={},{}", device.get(), ::getuid(),
                  ::getgid(), common_options(config));
  if (::mount(config.source.c_str(), config.mount_point.c_str(), type_of(config.options),
              flags_of(config.options), options.c_str()) == 0) {
    return device;
  }
  const int error = errno;
  if (error == EPERM) {
    return failure(Code::not_permitted, config.mount_point,
                   "the kernel forbids mounting (containers need the capability SYS_ADMIN)");
  }
  if (error == ENODEV) {
    return failure(Code::not_supported, config.mount_point,
                   "this kernel has no FUSE (load the module: modprobe fuse)");
  }
  return failure(Status::from_errno(error), config.mount_point,
                 fmt::format("the kernel refuses: {}", std::strerror(error)));
}

// Puts the mount at `path` beneath the dead one that it is on top of, which is then removed. Before
// Linux 6.5 the new one stays on top.
Outcome<void> replace_mount_below(const std::string& path) {
  const UniqueFd ours(::open_tree(AT_FDCWD, path.c_str(),
                                  OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW));
  if (!ours) return {};
  const auto attach = [&](unsigned how) {
    return ::move_mount(ours.get(), "", AT_FDCWD, path.c_str(), MOVE_MOUNT_F_EMPTY_PATH | how) == 0;
  };
  Status removed = unmount_once(path, true);
  if (!removed.ok()) return {};
  if (attach(kBeneath)) {
    removed = unmount_once(path, true);
    if (removed.ok()) return {};
    return failure(removed, path, "the mount of a process that has died cannot be removed");
  }
  if (attach(0)) return {};
  return failure(Status::from_errno(errno), path,
                 fmt::format("the kernel refuses: {}", std::strerror(errno)));
}

Result<UniqueFd> receive_device(int socket) {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  const cmsghdr* header = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
    return Code::not_permitted;
  }
  int device = -1;
  std::memcpy(&device, CMSG_DATA(header), sizeof(device));
  return UniqueFd(device);
}

// What the helper said on its standard error, on one line, without its name in front.
std::string read_complaint(int pipe) {
  std::string text;
  char buffer[512];
  for (ssize_t got = 0; text.size() < 4096 && (got = ::read(pipe, buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<size_t>(got));
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  const std::string prefix = "fusermount3: ";
  if (text.starts_with(prefix)) text.erase(0, prefix.size());
  return text.empty() ? "fusermount3 failed without saying why" : text;
}

// A comma ends an option and a backslash quotes.
std::string quoted(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == ',' || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
  return out;
}

struct HelperPipes {
  UniqueFd handover_ours, handover_theirs;
  UniqueFd complaint_ours, complaint_theirs;
};

Result<HelperPipes> make_pipes() {
  int sockets[2];
  int pipes[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return Status::from_errno(errno);
  }
  HelperPipes all;
  all.handover_ours.reset(sockets[0]);
  all.handover_theirs.reset(sockets[1]);
  if (::pipe2(pipes, O_CLOEXEC) != 0) return Status::from_errno(errno);
  all.complaint_ours.reset(pipes[0]);
  all.complaint_theirs.reset(pipes[1]);
  return all;
}

Result<pid_t> start_helper(const MountConfig& config, HelperPipes& pipes) {
  const std::string options = fmt::format(
      "{},fsname={},subtype={},{}", helper_options(config.options), quoted(config.source),
      config.options.like_3fs ? "hf3fs" : "penstock", common_options(config));
  std::vector<const char*> arguments{
      "fusermount3", "-o", options.c_str(), "--", config.mount_point.c_str(), nullptr};
  // In the child the socket's end gets the number 3 and standard error goes to the pipe.
  const std::string variable = fmt::format("{}=3", kHandoverVariable);
  std::vector<const char*> environment;
  for (char** each = environ; *each; each++) environment.push_back(*each);
  environment.push_back(variable.c_str());
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipes.complaint_theirs.get(), STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions, pipes.handover_theirs.get(), 3);
  pid_t child = 0;
  // The interface is older than const; nothing is changed.
  const int error = ::posix_spawnp(&child, "fusermount3", &actions, nullptr,
                                   const_cast<char* const*>(arguments.data()),
                                   const_cast<char* const*>(environment.data()));
  posix_spawn_file_actions_destroy(&actions);
  pipes.handover_theirs.reset();
  pipes.complaint_theirs.reset();
  if (error != 0) return Status::from_errno(error);
  return child;
}

Outcome<UniqueFd> mount_with_helper(const MountConfig& config) {
  auto pipes = make_pipes();
  if (!pipes) {
    return failure(pipes.error(), config.mount_point, std::strerror(pipes.error().to_errno()));
  }
  const auto child = start_helper(config, *pipes);
  if (!child) {
    return failure(
        child.error(), config.mount_point,
        fmt::format("fusermount3 cannot be started: {}", std::strerror(child.error().to_errno())));
  }
  auto device = receive_device(pipes->handover_ours.get());
  const std::string complaint = device ? "" : read_complaint(pipes->complaint_ours.get());
  int status = 0;
  while (::waitpid(*child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!device) return failure(device.error(), config.mount_point, complaint);
  const int flags = ::fcntl(device->get(), F_GETFL);
  ::fcntl(device->get(), F_SETFL, flags & ~O_NONBLOCK);
  return std::move(*device);
}

}  // namespace

Outcome<UniqueFd> mount_device(const MountConfig& config, DeadMount dead) {
  if (::geteuid() != 0) return mount_with_helper(config);
  TRY_ASSIGN(UniqueFd device, mount_as_root(config));
  if (dead == DeadMount::stands) TRY(replace_mount_below(config.mount_point));
  return device;
}

Outcome<void> change_mount(const MountConfig& config, const MountOptions& options) {
  if (::mount(config.source.c_str(), config.mount_point.c_str(), nullptr,
              MS_REMOUNT | flags_of(options), nullptr) == 0) {
    return {};
  }
  const int error = errno;
  if (error == EPERM) {
    return failure(Code::not_permitted, config.mount_point,
                   "only root may change a mount that is there (unmount it and mount it again, or "
                   "as root: mount -i -o remount,...)");
  }
  if (error == EBUSY) {
    return failure(Code::in_use, config.mount_point,
                   fmt::format("files are open for writing there (find them with 'fuser -m {}')",
                               config.mount_point));
  }
  return failure(Status::from_errno(error), config.mount_point,
                 fmt::format("the kernel refuses the change: {}", std::strerror(error)));
}

Result<UniqueFd> clone_device(int device) {
  UniqueFd clone(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!clone) return Status::from_errno(errno);
  auto original = static_cast<uint32_t>(device);
  if (::ioctl(clone.get(), FUSE_DEV_IOC_CLONE, &original) != 0) return Status::from_errno(errno);
  return clone;
}

}  // namespace penstock::fuse
