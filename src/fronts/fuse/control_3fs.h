// The ioctls of 3FS's mount, which its tools and its Python package use.
#pragma once

#include "call.h"

#include <cstddef>

namespace penstock::fuse {

struct ControlRequest {
  fuse_ino_t inode = 0;
  unsigned command = 0;
  fuse_file_info* info = nullptr;
  bool is_directory = false;
  const void* in = nullptr;
  size_t in_bytes = 0;
  size_t out_bytes = 0;
};

// Answers the request if it is one of those; else false, and nothing has happened.
//
// Some of them name a directory by its inode number, which every user can guess: the caller must be
// able to reach it from the root of the mount, and every right is checked as for a path.
bool control_as_3fs(Call& call, const ControlRequest& request);

}  // namespace penstock::fuse
