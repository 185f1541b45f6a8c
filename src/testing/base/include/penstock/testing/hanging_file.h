// A file whose close hangs: the only file of a FUSE file system that never answers a flush.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <thread>

#include "penstock/base.h"

struct fuse_in_header;

namespace penstock::test {

class HangingFile {
 public:
  // `path` is made, and covered with the file.
  explicit HangingFile(std::string path);
  ~HangingFile() { let_go(); }
  HangingFile(const HangingFile&) = delete;
  HangingFile& operator=(const HangingFile&) = delete;

  // False where mounting is not allowed.
  bool is_there() const { return mounted_; }
  UniqueFd open() const;
  // In a child process, which must not keep the file system alive when this process has ended.
  void forget_in_child() { device_.reset(); }
  // Closes that hang.
  int hanging() const { return hanging_.load(); }

  // All that hang end with an error.
  void let_go();

 private:
  void serve();
  void answer(const fuse_in_header& in);
  void reply(const fuse_in_header& in, int error, const void* body, size_t bytes);

  const std::string path_;
  UniqueFd device_;
  std::atomic<bool> mounted_{false};
  std::atomic<int> hanging_{0};
  std::thread thread_;
};

}  // namespace penstock::test
