// A file whose close hangs: the only file of a FUSE file system that never answers a flush.
#pragma once

#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <linux/fuse.h>
#include <string>
#include <sys/mount.h>
#include <thread>
#include <unistd.h>

#include "penstock/base.h"

namespace penstock::resources {

class HangingFile {
 public:
  // `path` is made, and covered with the file.
  explicit HangingFile(std::string path) : path_(std::move(path)) {
    std::ofstream made(path_);
    device_.reset(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    const std::string options = "fd=" + std::to_string(device_.get()) +
                                ",rootmode=100644,user_id=" + std::to_string(::getuid()) +
                                ",group_id=" + std::to_string(::getgid());
    mounted_ = device_ && ::mount("hanging", path_.c_str(), "fuse", MS_NOSUID | MS_NODEV,
                                  options.c_str()) == 0;
    if (mounted_) thread_ = std::thread([this] { serve(); });
  }
  ~HangingFile() { let_go(); }

  // False where mounting is not allowed.
  bool is_there() const { return mounted_; }
  UniqueFd open() const { return UniqueFd(::open(path_.c_str(), O_RDWR | O_CLOEXEC)); }
  // In a child process, which must not keep the file system alive when this process has ended.
  void forget_in_child() { device_.reset(); }
  // Closes that hang.
  int hanging() const { return hanging_.load(); }

  // All that hang end with an error.
  void let_go() {
    if (!mounted_) return;
    mounted_ = false;
    // The connection ends: the thread's read, too.
    ::umount2(path_.c_str(), MNT_FORCE);
    ::umount2(path_.c_str(), MNT_DETACH);
    thread_.join();
    device_.reset();
  }

 private:
  void serve() {
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

  void answer(const fuse_in_header& in) {
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

  void reply(const fuse_in_header& in, int error, const void* body, size_t bytes) {
    char out[512];
    fuse_out_header header{};
    header.len = static_cast<uint32_t>(sizeof header + bytes);
    header.error = error;
    header.unique = in.unique;
    std::memcpy(out, &header, sizeof header);
    if (bytes > 0) std::memcpy(out + sizeof header, body, bytes);
    (void)!::write(device_.get(), out, header.len);
  }

  const std::string path_;
  UniqueFd device_;
  std::atomic<bool> mounted_{false};
  std::atomic<int> hanging_{0};
  std::thread thread_;
};

}  // namespace penstock::resources
