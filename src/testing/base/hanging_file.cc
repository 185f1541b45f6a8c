#include "penstock/testing/hanging_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <linux/fuse.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::test {

HangingFile::HangingFile(std::string path) : path_(std::move(path)) {
  std::ofstream made(path_);
  device_.reset(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  const std::string options = "fd=" + std::to_string(device_.get()) +
                              ",rootmode=100644,user_id=" + std::to_string(::getuid()) +
                              ",group_id=" + std::to_string(::getgid());
  mounted_ = device_ &&
             ::mount("hanging", path_.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) == 0;
  if (mounted_) thread_ = std::thread([this] { serve(); });
}

UniqueFd HangingFile::open() const {
  return UniqueFd(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
}

void HangingFile::let_go() {
  if (!mounted_) return;
  mounted_ = false;
  // The connection ends: the thread's read, too.
  ::umount2(path_.c_str(), MNT_FORCE);
  ::umount2(path_.c_str(), MNT_DETACH);
  thread_.join();
  device_.reset();
}

void HangingFile::serve() {
  alignas(fuse_in_header) char request[FUSE_MIN_READ_BUFFER + 4096];
  while (true) {
    const ssize_t length = ::read(device_.get(), request, sizeof request);
    if (length < 0 && errno == ENODEV) return;
    if (length < static_cast<ssize_t>(sizeof(fuse_in_header))) continue;
    fuse_in_header in;
    std::memcpy(&in, request, sizeof in);
    answer(in);
  }
}

void HangingFile::answer(const fuse_in_header& in) {
  if (in.opcode == FUSE_INIT) {
    fuse_init_out out{};
    out.major = FUSE_KERNEL_VERSION;
    out.minor = FUSE_KERNEL_MINOR_VERSION;
    out.max_write = 4096;
    return reply(in, 0, &out, sizeof out);
  }
  if (in.opcode == FUSE_GETATTR) {
    fuse_attr_out out{};
    out.attr.ino = FUSE_ROOT_ID;
    out.attr.mode = S_IFREG | 0644;
    out.attr.nlink = 1;
    return reply(in, 0, &out, sizeof out);
  }
  if (in.opcode == FUSE_OPEN) {
    const fuse_open_out out{};
    return reply(in, 0, &out, sizeof out);
  }
  if (in.opcode == FUSE_FLUSH) {
    ++hanging_;
    return;
  }
  if (in.opcode != FUSE_FORGET && in.opcode != FUSE_INTERRUPT) reply(in, -ENOSYS, nullptr, 0);
}

void HangingFile::reply(const fuse_in_header& in, int error, const void* body, size_t bytes) {
  char out[512];
  fuse_out_header header{};
  header.len = static_cast<uint32_t>(sizeof header + bytes);
  header.error = error;
  header.unique = in.unique;
  std::memcpy(out, &header, sizeof header);
  if (bytes > 0) std::memcpy(out + sizeof header, body, bytes);
  (void)!::write(device_.get(), out, header.len);
}

}  // namespace penstock::test
