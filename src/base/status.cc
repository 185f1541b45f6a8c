#include "penstock/base/status.h"

#include <cerrno>

namespace penstock {
namespace {

struct Entry {
  Code code;
  int error;
  std::string_view name;
};

// For from_errno() the first row with the errno wins.
constexpr Entry kEntries[] = {
    {Code::ok, 0, "ok"},
    {Code::invalid_argument, EINVAL, "invalid argument"},
    {Code::not_found, ENOENT, "not found"},
    {Code::already_exists, EEXIST, "already exists"},
    {Code::access_denied, EACCES, "access denied"},
    {Code::not_permitted, EPERM, "not permitted"},
    {Code::not_directory, ENOTDIR, "not a directory"},
    {Code::is_directory, EISDIR, "is a directory"},
    {Code::not_empty, ENOTEMPTY, "directory not empty"},
    {Code::name_too_long, ENAMETOOLONG, "name too long"},
    {Code::too_large, EFBIG, "too large"},
    {Code::too_many_links, EMLINK, "too many links"},
    {Code::too_many_symlinks, ELOOP, "too many symbolic links"},
    {Code::bad_handle, EBADF, "bad handle"},
    {Code::no_data, ENODATA, "no data"},
    {Code::cross_device, EXDEV, "on another device"},
    {Code::result_too_large, ERANGE, "result too large"},
    {Code::not_supported, EOPNOTSUPP, "not supported"},
    {Code::cancelled, ECANCELED, "cancelled"},
    {Code::timed_out, ETIMEDOUT, "timed out"},
    {Code::busy, EAGAIN, "busy"},
    {Code::in_use, EBUSY, "in use"},
    {Code::stale, ESTALE, "stale"},
    {Code::io_error, EIO, "input/output error"},
    {Code::corrupt, EIO, "corrupt"},
    {Code::conflict, EAGAIN, "conflict"},
    {Code::may_have_happened, EIO, "may have happened"},
    {Code::peer_gone, ECONNRESET, "peer gone"},
    {Code::closed, ESHUTDOWN, "shutting down"},
    {Code::bad_message, EPROTO, "bad message"},
    {Code::moved, EAGAIN, "moved"},
    {Code::not_serving, EIO, "not serving"},
    {Code::no_space, ENOSPC, "no space"},
    {Code::no_memory, ENOMEM, "out of memory"},
    {Code::read_only, EROFS, "read-only"},
    {Code::wrong_version, EPROTONOSUPPORT, "wrong version"},
    {Code::over_quota, EDQUOT, "over quota"},
};

const Entry* find(Code code) {
  for (const Entry& entry : kEntries) {
    if (entry.code == code) return &entry;
  }
  return nullptr;
}

}  // namespace

Status Status::from_errno(int error) {
  if (error == EDQUOT) return Status(Code::no_space, EDQUOT);
  if (error == ENOTSUP || error == ENOSYS) return Status(Code::not_supported, error);
  if (error == EPIPE || error == ENOTCONN) return Status(Code::peer_gone, error);
  for (const Entry& entry : kEntries) {
    if (entry.error == error) return Status(entry.code, static_cast<uint32_t>(error));
  }
  return Status(Code::io_error, static_cast<uint32_t>(error));
}

int Status::to_errno() const {
  const Entry* entry = find(code_);
  return entry != nullptr ? entry->error : EIO;
}

std::string_view Status::name() const {
  const Entry* entry = find(code_);
  return entry != nullptr ? entry->name : "unknown status";
}

}  // namespace penstock
