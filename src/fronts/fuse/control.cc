// ioctl: what programs ask of the mount beside reading and writing.
#include "control_3fs.h"
#include "operations.h"

namespace penstock::fuse {

void control(Call& call, fuse_ino_t inode, unsigned command, void*, fuse_file_info* info,
             unsigned flags, const void* in, size_t in_bytes, size_t out_bytes) {
  const bool is_directory = (flags & FUSE_IOCTL_DIR) != 0;
  const ControlRequest request{inode, command, info, is_directory, in, in_bytes, out_bytes};
  if (control_as_3fs(call, request)) return;
  call.error(ENOTTY);
}

}  // namespace penstock::fuse
