// One file under random reads, writes, truncation, mapping and punching, by cached and direct
// descriptors at once, against a copy in memory.
#include "mounted_node.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "penstock/engine.h"

namespace penstock::posix {
namespace {

constexpr size_t kLengthMax = 600'000;  // ten chunks of the test's node
constexpr size_t kPage = 4096;

// Memory that direct I/O takes at any address modulo a page.
class AlignedBuffer {
 public:
  AlignedBuffer() : memory_(static_cast<char*>(std::aligned_alloc(kPage, kBytes))) {}
  ~AlignedBuffer() { std::free(memory_); }
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  char* get() { return memory_; }

 private:
  // More than the longest file, so that reading it whole shows if it is longer.
  static constexpr size_t kBytes = align_up(kLengthMax + kPage, kPage);
  char* memory_;
};

class Exerciser {
 public:
  Exerciser(const std::string& path, uint64_t seed) : path_(path), random_(seed) { reopen(); }
  ~Exerciser() { close(); }

  bool step();
  bool compare_all();
  const std::string& fault() const { return fault_; }

 private:
  struct Range {
    size_t offset, length;
  };
  size_t below(size_t bound) { return random_.below(bound); }
  Range some_range() {
    const size_t offset = below(kLengthMax);
    const size_t longest = std::min<size_t>(kLengthMax - offset, below(3) == 0 ? 200'000 : 9000);
    return {offset, longest == 0 ? 0 : below(longest)};
  }
  // Direct I/O on the host's file systems wants whole blocks; here anything goes, and both are
  // tried.
  int some_fd() { return below(3) == 0 ? direct_ : cached_; }
  bool expect(bool good, const std::string& what) {
    if (!good) fault_ = fmt::format("{} (length {}, errno {})", what, model_.size(), errno);
    return good;
  }
  bool same(const char* got, size_t offset, size_t length, const std::string& what);

  void open_files();
  void close();
  bool reopen() {
    close();
    open_files();
    return expect(cached_ >= 0 && direct_ >= 0, "open");
  }
  bool read();
  bool write();
  bool append();
  bool truncate();
  bool punch();
  bool map(bool change);
  bool drop_pages();

  const std::string path_;
  engine::SeededRandom random_;
  std::string model_;
  int cached_ = -1;
  int direct_ = -1;
  int appending_ = -1;
  AlignedBuffer buffer_;
  std::string fault_;
};

void Exerciser::open_files() {
  cached_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  direct_ = ::open(path_.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC);
  appending_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
}

void Exerciser::close() {
  for (int* fd : {&cached_, &direct_, &appending_}) {
    if (*fd >= 0) ::close(*fd);
    *fd = -1;
  }
}

bool Exerciser::same(const char* got, size_t offset, size_t length, const std::string& what) {
  const auto [first, second] = std::mismatch(got, got + length, model_.data() + offset);
  if (first == got + length) return true;
  return expect(
      false, fmt::format("{}: at {} is {:02x}, should be {:02x}", what,
                         offset + static_cast<size_t>(first - got),
                         static_cast<unsigned char>(*first), static_cast<unsigned char>(*second)));
}

bool Exerciser::read() {
  const auto [offset, length] = some_range();
  const size_t there = offset >= model_.size() ? 0 : std::min(length, model_.size() - offset);
  const int fd = some_fd();
  const ssize_t got = ::pread(fd, buffer_.get(), length, static_cast<off_t>(offset));
  const std::string what =
      fmt::format("read{} {} at {}", fd == direct_ ? " direct" : "", length, offset);
  return expect(got == static_cast<ssize_t>(there), fmt::format("{}: got {}", what, got)) &&
         same(buffer_.get(), offset, there, what);
}

bool Exerciser::write() {
  const auto [offset, length] = some_range();
  const char letter = static_cast<char>(random_.next() | 1);
  for (size_t i = 0; i < length; i++) buffer_.get()[i] = static_cast<char>(letter + i % 251);
  const ssize_t put = ::pwrite(some_fd(), buffer_.get(), length, static_cast<off_t>(offset));
  if (!expect(put == static_cast<ssize_t>(length), fmt::format("write {} at {}", length, offset))) {
    return false;
  }
  if (length == 0) return true;
  if (model_.size() < offset + length) model_.resize(offset + length);
  std::memcpy(model_.data() + offset, buffer_.get(), length);
  return true;
}

bool Exerciser::append() {
  const size_t length = std::min(below(5000), kLengthMax - std::min(kLengthMax, model_.size()));
  const std::string bytes(length, static_cast<char>('A' + below(26)));
  model_ += bytes;
  return expect(::write(appending_, bytes.data(), length) == static_cast<ssize_t>(length),
                fmt::format("append {}", length));
}

bool Exerciser::truncate() {
  const size_t length = below(2) == 0 ? below(kLengthMax) : below(model_.size() + 1);
  model_.resize(length);
  return expect(::ftruncate(cached_, static_cast<off_t>(length)) == 0,
                fmt::format("truncate to {}", length));
}

bool Exerciser::punch() {
  const auto [offset, length] = some_range();
  if (length == 0) return true;
  if (offset < model_.size()) {
    const size_t count = std::min(length, model_.size() - offset);
    std::memset(model_.data() + offset, 0, count);
  }
  return expect(::fallocate(cached_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                            static_cast<off_t>(offset), static_cast<off_t>(length)) == 0,
                fmt::format("punch {} at {}", length, offset));
}

bool Exerciser::map(bool change) {
  if (model_.empty()) return true;
  const size_t length = model_.size();
  const int protection = PROT_READ | (change ? PROT_WRITE : 0);
  void* mapping = ::mmap(nullptr, length, protection, MAP_SHARED, cached_, 0);
  if (!expect(mapping != MAP_FAILED, "mmap")) return false;
  auto* bytes = static_cast<char*>(mapping);
  const size_t offset = below(length);
  const size_t count = below(std::min<size_t>(length - offset, 30'000) + 1);
  bool good = same(bytes + offset, offset, count, fmt::format("mapped read at {}", offset));
  if (good && change) {
    const auto letter = static_cast<char>('a' + below(26));
    std::memset(bytes + offset, letter, count);
    std::memset(model_.data() + offset, letter, count);
    // Direct reads must see it, so it goes out now; without it the kernel chooses when.
    good = expect(::msync(mapping, length, MS_SYNC) == 0, "msync");
  }
  ::munmap(mapping, length);
  return good;
}

bool Exerciser::drop_pages() {
  return expect(::posix_fadvise(cached_, 0, 0, POSIX_FADV_DONTNEED) == 0, "fadvise");
}

bool Exerciser::step() {
  switch (below(20)) {
    case 0:
      return truncate();
    case 1:
      return punch();
    case 2:
      return append();
    case 3:
    case 4:
      return map(true);
    case 5:
    case 6:
      return map(false);
    case 7:
      return drop_pages();
    case 8:
      return below(10) != 0 || reopen();
    case 9:
      return below(10) != 0 || expect(::fsync(cached_) == 0, "fsync");
    case 10:
    case 11:
    case 12:
    case 13:
    case 14:
      return write();
    default:
      return read();
  }
}

bool Exerciser::compare_all() {
  struct stat stat {};
  if (!expect(::fstat(cached_, &stat) == 0 && stat.st_size == static_cast<off_t>(model_.size()),
              fmt::format("size is {}", stat.st_size))) {
    return false;
  }
  const ssize_t got = ::pread(cached_, buffer_.get(), kLengthMax + kPage, 0);
  return expect(got == static_cast<ssize_t>(model_.size()), "whole read") &&
         same(buffer_.get(), 0, model_.size(), "whole read");
}

class FsxTest : public PosixTest, public ::testing::WithParamInterface<int> {};

TEST_P(FsxTest, holds_what_was_written_by_every_way) {
  SCOPED_TRACE(fmt::format("PENSTOCK_SEED={} case {}", seed(), GetParam()));
  const std::string path = directory("fsx") + fmt::format("/file{}", GetParam());
  Exerciser exerciser(path, seed() * 100 + static_cast<uint64_t>(GetParam()));
  for (int i = 0; i < 5200; i++) {
    ASSERT_TRUE(exerciser.step()) << "step " << i << ": " << exerciser.fault();
    if (i % 250 != 249) continue;
    ASSERT_TRUE(exerciser.compare_all()) << "after step " << i << ": " << exerciser.fault();
  }
}

INSTANTIATE_TEST_SUITE_P(seeds, FsxTest, ::testing::Range(0, 4));

}  // namespace
}  // namespace penstock::posix
