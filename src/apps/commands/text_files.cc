#include "text_files.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::apps {
namespace {

constexpr mode_t kOwnerOnly = 0600;  // names and attributes of all users are in it

// Of the call that has just failed.
Failure failure_at(const std::string& path, const char* what) {
  const int error = errno;
  return {Status::from_errno(error), fmt::format("{}: {}: {}", path, what, std::strerror(error))};
}

Outcome<void> write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failure_at(path, "cannot be written");
    text.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

class NamedDump final : public DumpFile {
 public:
  explicit NamedDump(std::string path) : path_(std::move(path)), making_(path_ + ".part") {}
  ~NamedDump() override {
    if (fd_) ::unlink(making_.c_str());
  }

  Outcome<void> open() {
    // What an earlier attempt left is of no use.
    ::unlink(making_.c_str());
    fd_.reset(::open(making_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerOnly));
    if (!fd_) return failure_at(making_, "cannot be made");
    return {};
  }
  Outcome<void> begin() override {
    if (::ftruncate(fd_.get(), 0) != 0 || ::lseek(fd_.get(), 0, SEEK_SET) != 0) {
      return failure_at(making_, "cannot be written");
    }
    return {};
  }
  Outcome<void> write(std::string_view text) override {
    return write_all(fd_.get(), text, making_);
  }
  Outcome<void> finish() override {
    if (::fsync(fd_.get()) != 0) return failure_at(making_, "cannot be written");
    if (::rename(making_.c_str(), path_.c_str()) != 0) return failure_at(path_, "cannot be made");
    fd_.reset();
    const size_t slash = path_.rfind('/');
    const std::string above = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
    const UniqueFd directory(::open(above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory || ::fsync(directory.get()) != 0) return failure_at(above, "cannot be synced");
    return {};
  }

 private:
  const std::string path_;
  const std::string making_;
  UniqueFd fd_;
};

class StreamedDump final : public DumpFile {
 public:
  Outcome<void> begin() override {
    if (std::exchange(begun_, true)) {
      return Failure{Code::busy,
                     "the store changed meanwhile, and what was written cannot be taken back (give "
                     "a FILE)"};
    }
    return {};
  }
  Outcome<void> write(std::string_view text) override {
    return write_all(STDOUT_FILENO, text, "standard output");
  }
  Outcome<void> finish() override { return {}; }

 private:
  bool begun_ = false;
};

class DumpReader final : public meta_text::Source {
 public:
  explicit DumpReader(std::string path) : path_(std::move(path)) {}

  Outcome<void> open() {
    const bool standard = path_.empty() || path_ == "-";
    fd_.reset(standard ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                       : ::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (standard) path_ = "standard input";
    if (!fd_) return failure_at(path_, "cannot be read");
    return {};
  }
  Outcome<size_t> read(std::span<char> to) override {
    while (true) {
      const ssize_t count = ::read(fd_.get(), to.data(), to.size());
      if (count >= 0) return static_cast<size_t>(count);
      if (errno != EINTR) return failure_at(path_, "cannot be read");
    }
  }

 private:
  std::string path_;
  UniqueFd fd_;
};

}  // namespace

Outcome<std::unique_ptr<DumpFile>> DumpFile::open(const std::string& path) {
  if (path.empty()) return std::unique_ptr<DumpFile>(std::make_unique<StreamedDump>());
  auto named = std::make_unique<NamedDump>(path);
  TRY(named->open());
  return std::unique_ptr<DumpFile>(std::move(named));
}

Outcome<std::unique_ptr<meta_text::Source>> open_dump(const std::string& path) {
  auto reader = std::make_unique<DumpReader>(path);
  TRY(reader->open());
  return std::unique_ptr<meta_text::Source>(std::move(reader));
}

}  // namespace penstock::apps
