#include "penstock/base/fd.h"

#include <unistd.h>

namespace penstock {

void UniqueFd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

}  // namespace penstock
