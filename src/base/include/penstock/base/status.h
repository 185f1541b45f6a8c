// Status: how an operation ended, in 8 bytes that cross process and network borders as they are.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace penstock {

// A code exists only where some caller reacts differently to it. Codes are grouped by reach: how
// much is broken when one is seen. The numbers travel on the wire and never change meaning.
enum class Code : uint16_t {
  ok = 0,

  // Reach: this operation. Its input or the state of what it names does not allow it.
  invalid_argument = 1,    // EINVAL
  not_found = 2,           // ENOENT
  already_exists = 3,      // EEXIST
  access_denied = 4,       // EACCES: the mode bits, or how the file was opened, forbid it
  not_permitted = 5,       // EPERM: only the owner or root may
  not_directory = 6,       // ENOTDIR
  is_directory = 7,        // EISDIR
  not_empty = 8,           // ENOTEMPTY
  name_too_long = 9,       // ENAMETOOLONG
  too_large = 10,          // EFBIG
  too_many_links = 11,     // EMLINK
  too_many_symlinks = 12,  // ELOOP
  bad_handle = 13,         // EBADF
  no_data = 14,            // ENODATA: a hole where holes are refused, a missing xattr
  cross_device = 15,       // EXDEV
  result_too_large = 16,   // ERANGE: the caller's buffer is too small
  not_supported = 17,      // EOPNOTSUPP
  cancelled = 18,          // ECANCELED
  timed_out = 19,          // ETIMEDOUT: the deadline passed
  busy = 20,               // EAGAIN: a stated limit is reached; try again later
  in_use = 21,             // EBUSY: another process or operation holds it
  stale = 22,              // ESTALE: the handle, version or session is of an earlier life
  corrupt = 23,            // EIO: a checksum or a structure does not verify

  // Reach: the transaction. It had no effect and may be tried again.
  conflict = 40,  // EAGAIN

  // Reach: unknown. The operation may or may not have happened.
  may_have_happened = 50,  // EIO

  // Reach: the link. The peer or its connection is gone.
  peer_gone = 60,    // ECONNRESET
  closed = 61,       // ESHUTDOWN: this side is shutting down
  bad_message = 62,  // EPROTO: the peer broke the protocol

  // Reach: the chain. Nothing was done: ask again when its table is known anew.
  moved = 70,        // EAGAIN: by the table of one side the other has another part in the chain
  not_serving = 71,  // EIO: the replica may not answer now, or none of the chain may

  // Reach: the node.
  no_space = 80,       // ENOSPC
  no_memory = 81,      // ENOMEM
  io_error = 82,       // EIO: the device or the file system below failed
  read_only = 83,      // EROFS
  wrong_version = 84,  // EPROTONOSUPPORT: written by another, incompatible version
  over_quota = 85,     // EDQUOT: of a directory or a user; there may be room
};

class [[nodiscard]] Status {
 public:
  constexpr Status() = default;
  // `detail` is for people and logs (the errno that caused this, or a count); no code branches on
  // it.
  constexpr Status(Code code, uint32_t detail = 0)  // NOLINT: a Code is a Status
      : code_(code), detail_(detail) {}

  // The nearest Status for an errno value (positive); 0 is ok.
  static Status from_errno(int error);

  constexpr bool ok() const { return code_ == Code::ok; }
  constexpr Code code() const { return code_; }
  constexpr uint32_t detail() const { return detail_; }
  // The positive errno value that a POSIX caller expects; 0 when ok.
  int to_errno() const;
  // "no space", "corrupt", ...
  std::string_view name() const;

  friend constexpr bool operator==(Status a, Status b) { return a.code_ == b.code_; }

 private:
  Code code_ = Code::ok;
  [[maybe_unused]] uint16_t reserved_ = 0;
  uint32_t detail_ = 0;
};

static_assert(sizeof(Status) == 8 && std::is_trivially_copyable_v<Status>);

}  // namespace penstock
