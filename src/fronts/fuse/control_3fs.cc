#include "control_3fs.h"

#include "remove_tree.h"
#include "virtual_directory.h"

#include <climits>
#include <cstring>
#include <optional>
#include <string>
#include <sys/ioctl.h>

namespace penstock::fuse {
namespace {

constexpr uint32_t kMagic = 0x8f3f5fff;
constexpr uint32_t kVersion = 1;
constexpr int kHolesMax = 1000;

// As callers lay them out on x86-64.
struct MountName {
  char name[32];
};
struct Hardlink {
  uint64_t parent;
  char name[NAME_MAX];
};
struct PunchHole {
  int32_t count;
  uint64_t flags;
  uint64_t start[kHolesMax];
  uint64_t end[kHolesMax];
};
struct Move {
  uint64_t parent;
  char name[NAME_MAX + 1];
  uint64_t new_parent;
  char new_name[NAME_MAX + 1];
  bool to_trash;
};
struct Remove {
  uint64_t parent;
  char name[NAME_MAX + 1];
  bool recursive;
};
static_assert(sizeof(Hardlink) == 264 && sizeof(PunchHole) == 16016);
static_assert(sizeof(Move) == 536 && sizeof(Remove) == 272);

constexpr unsigned kGetMountName = _IOR('h', 0, MountName);
constexpr unsigned kGetPathOffset = _IOR('h', 1, uint32_t);
constexpr unsigned kGetMagic = _IOR('h', 2, uint32_t);
constexpr unsigned kGetVersion = _IOR('h', 3, uint32_t);
constexpr unsigned kRemoveRecursively = _IOR('h', 10, uint32_t);
constexpr unsigned kFsync = _IOR('h', 11, uint32_t);
constexpr unsigned kHardlink = _IOW('h', 12, Hardlink);
constexpr unsigned kPunchHole = _IOW('h', 13, PunchHole);
constexpr unsigned kMove = _IOW('h', 14, Move);
constexpr unsigned kRemove = _IOW('h', 15, Remove);

template <class T>
void reply_with(Call& call, const ControlRequest& request, const T& value) {
  if (request.out_bytes < sizeof value) return call.error(EINVAL);
  call.controlled(&value, sizeof value);
}

void reply_status(Call& call, Status status) {
  if (!status.ok()) return call.status(status);
  call.controlled(nullptr, 0);
}

// A copy of the argument; nothing where it is too short.
template <class T>
std::optional<T> argument_of(const ControlRequest& request) {
  if (request.in == nullptr || request.in_bytes < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, request.in, sizeof value);
  return value;
}

// One name in a directory.
template <size_t kSize>
Result<std::string> name_in(const char (&text)[kSize]) {
  std::string name(text, ::strnlen(text, kSize));
  if (name.empty() || name == "." || name == "..") return Code::invalid_argument;
  if (name.find('/') != std::string::npos) return Code::invalid_argument;
  return name;
}

// Whether a user may come to the directory by its path: x on it and on all above.
Status check_reachable(Front& front, const client::Credentials& who, InodeId directory) {
  if (is_virtual(directory.value)) return Code::not_permitted;
  TRY_ASSIGN(auto here, front.files.attributes(directory));
  if (here.type != meta::FileType::directory) return Code::not_directory;
  while (here.inode != meta::kRootInode) {
    TRY_ASSIGN(here, front.files.lookup(who, here.inode, ".."));
  }
  return meta::check_access(who, here, meta::kAccessExecute);
}

// No observer is named as the maker of these changes: this mount's kernel must be told of them, as
// it has not made them itself.
Status link_file(Front& front, const client::Credentials& who, InodeId inode,
                 const Hardlink& wanted) {
  TRY_ASSIGN(const std::string name, name_in(wanted.name));
  TRY(check_reachable(front, who, InodeId{wanted.parent}));
  const auto linked = front.files.link(who, inode, InodeId{wanted.parent}, name, nullptr);
  return linked ? Status() : linked.error();
}

Status move_file(Front& front, const client::Credentials& who, const Move& wanted) {
  // There is no trash here; a program that asks for it must not find the file removed instead.
  if (wanted.to_trash) return Code::not_supported;
  TRY_ASSIGN(const std::string name, name_in(wanted.name));
  TRY_ASSIGN(const std::string new_name, name_in(wanted.new_name));
  TRY(check_reachable(front, who, InodeId{wanted.parent}));
  TRY(check_reachable(front, who, InodeId{wanted.new_parent}));
  return front.files.rename(who, InodeId{wanted.parent}, name, InodeId{wanted.new_parent}, new_name,
                            {}, nullptr);
}

Status remove_file(Front& front, const client::Credentials& who, const Remove& wanted) {
  TRY_ASSIGN(const std::string name, name_in(wanted.name));
  const InodeId parent{wanted.parent};
  TRY(check_reachable(front, who, parent));
  if (wanted.recursive) return remove_tree_in(front, who, parent, name);
  TRY_ASSIGN(const auto found, front.files.lookup(who, parent, name));
  return found.type == meta::FileType::directory
             ? front.files.remove_directory(who, parent, name, nullptr)
             : front.files.unlink(who, parent, name, nullptr);
}

Status punch(Front& front, const client::FileWriter& writer, const client::FileRef& file,
             const PunchHole& wanted) {
  if (wanted.flags != 0 || wanted.count < 0 || wanted.count > kHolesMax) {
    return Code::invalid_argument;
  }
  // The kernel has not looked at how the file was opened, as it does for fallocate().
  if (!client::may_write(*file)) return Code::bad_handle;
  for (int i = 0; i < wanted.count; ++i) {
    const uint64_t begin = wanted.start[i], end = wanted.end[i];
    if (begin >= end || end > limits::kFileBytesMax) return Code::invalid_argument;
    TRY(front.files.punch(file, begin, end - begin, nullptr, &writer));
  }
  return {};
}

Status sync_all_of(Front& front, const ControlRequest& request) {
  if (is_virtual(request.inode)) return {};
  if (request.is_directory) return front.files.meta().sync();
  return front.files.sync_file(HandleTable::get(request.info->fh).file);
}

// Of the mount as such, so that any file or directory in it will do.
bool answer_about_mount(Call& call, const ControlRequest& request) {
  switch (request.command) {
    case kGetMountName:
      reply_with(call, request, MountName{"penstock"});
      return true;
    case kGetPathOffset:
      reply_with(call, request, static_cast<uint32_t>(call.front().mount_point.size()));
      return true;
    case kGetMagic:
      reply_with(call, request, kMagic);
      return true;
    case kGetVersion:
      reply_with(call, request, kVersion);
      return true;
    default:
      return false;
  }
}

// A change, which a mount that is read only refuses.
template <class T, class Work>
void change_with(Call& call, const ControlRequest& request, Work&& work) {
  const std::optional<T> argument = argument_of<T>(request);
  if (!argument) return call.error(EINVAL);
  if (call.front().options.read_only()) return call.error(EROFS);
  reply_status(call, work(*argument));
}

}  // namespace

bool control_as_3fs(Call& call, const ControlRequest& request) {
  if (answer_about_mount(call, request)) return true;
  Front& front = call.front();
  const bool is_file = !request.is_directory && !is_virtual(request.inode);
  switch (request.command) {
    case kFsync:
      reply_status(call, sync_all_of(front, request));
      return true;
    case kHardlink:
      change_with<Hardlink>(call, request, [&](const Hardlink& wanted) -> Status {
        if (!is_file) return Code::not_permitted;
        return link_file(front, call.enforced_credentials(), InodeId{request.inode}, wanted);
      });
      return true;
    case kPunchHole:
      change_with<PunchHole>(call, request, [&](const PunchHole& wanted) -> Status {
        if (!is_file) return Code::invalid_argument;
        // The kernel knows nothing of this change, and so takes no privileges from the file: the
        // node does.
        const client::Credentials who = call.enforced_credentials();
        return punch(front, {who, who.uid == 0}, HandleTable::get(request.info->fh).file, wanted);
      });
      return true;
    case kMove:
      change_with<Move>(call, request, [&](const Move& wanted) {
        return move_file(front, call.enforced_credentials(), wanted);
      });
      return true;
    case kRemove:
      change_with<Remove>(call, request, [&](const Remove& wanted) {
        return remove_file(front, call.enforced_credentials(), wanted);
      });
      return true;
    case kRemoveRecursively:
      // Names the directory by the descriptor; kRemove says what is meant.
      call.error(EOPNOTSUPP);
      return true;
    default:
      return false;
  }
}

}  // namespace penstock::fuse
