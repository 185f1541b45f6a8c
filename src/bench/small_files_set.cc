#include "small_files_set.h"

#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

extern char** environ;

namespace penstock::bench {
namespace {

Failure set_failed(const std::string& what) {
  return {Status::from_errno(errno), "bench: " + what + ": " + std::strerror(errno)};
}

bool write_all(int fd, Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

// False with errno, also where the file is shorter.
bool read_whole(const std::string& path, uint64_t bytes, std::vector<std::byte>* buffer) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return false;
  uint64_t got = 0;
  while (got < bytes) {
    const ssize_t n = ::read(fd.get(), buffer->data() + got, bytes - got);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = ENODATA;
    if (n <= 0) return false;
    got += static_cast<uint64_t>(n);
  }
  return true;
}

double took_since(engine::Time begin) {
  return std::chrono::duration<double>(engine::system_clock().now() - begin).count();
}

}  // namespace

SmallFilesSet SmallFilesSet::of_sizes(uint64_t least, uint64_t most, uint64_t total) {
  SmallFilesSet set;
  engine::SeededRandom random(4);
  const double ratio = static_cast<double>(most) / static_cast<double>(least);
  while (set.bytes_ < total) {
    const double part = static_cast<double>(random.below(1'000'000)) / 1e6;
    const auto bytes = static_cast<uint64_t>(static_cast<double>(least) * std::pow(ratio, part));
    const size_t number = set.files_.size();
    set.files_.push_back(
        {"/d" + std::to_string(number / kFilesInDirectory) + "/file" + std::to_string(number),
         bytes});
    set.bytes_ += bytes;
  }
  return set;
}

Outcome<void> SmallFilesSet::make(const std::string& root) const {
  std::vector<std::byte> content(limits::kIoBytesMax / 64);
  engine::SeededRandom random(6);
  for (std::byte& byte : content) byte = static_cast<std::byte>(random.next());
  std::error_code error;
  std::filesystem::create_directories(root, error);
  for (const SmallFile& file : files_) {
    const std::string path = root + file.path;
    const UniqueFd there(::open(path.substr(0, path.rfind('/')).c_str(), O_PATH | O_CLOEXEC));
    if (!there && ::mkdir(path.substr(0, path.rfind('/')).c_str(), 0755) != 0)
      return set_failed(path);
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    const size_t from = random.below(content.size() - file.bytes);
    if (!fd || !write_all(fd.get(), Bytes(content).subspan(from, file.bytes)))
      return set_failed(path);
  }
  return {};
}

std::vector<const SmallFile*> SmallFilesSet::shuffled() {
  std::vector<const SmallFile*> order;
  order.reserve(files_.size());
  for (const SmallFile& file : files_) order.push_back(&file);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.below(i)]);
  return order;
}

Outcome<double> read_by_threads(const std::string& root, const std::vector<const SmallFile*>& files,
                                uint32_t threads) {
  std::atomic<size_t> next{0};
  std::atomic<int> error{0};
  const auto work = [&] {
    std::vector<std::byte> buffer(kMiB);
    for (size_t i = next.fetch_add(1); i < files.size() && error == 0; i = next.fetch_add(1)) {
      if (!read_whole(root + files[i]->path, files[i]->bytes, &buffer)) error = errno;
    }
  };
  const engine::Time begin = engine::system_clock().now();
  std::vector<std::thread> running;
  for (uint32_t i = 0; i < threads; ++i) running.emplace_back(work);
  for (std::thread& thread : running) thread.join();
  if (error != 0) {
    errno = error;
    return set_failed(root);
  }
  return took_since(begin);
}

bool drop_kernel_caches() {
  ::sync();
  const UniqueFd fd(::open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC));
  return fd && ::write(fd.get(), "3", 1) == 1;
}

Outcome<double> run_program(const std::vector<std::string>& arguments) {
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) {
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  const engine::Time begin = engine::system_clock().now();
  pid_t pid = 0;
  errno = ::posix_spawnp(&pid, pointers[0], &actions, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (errno != 0) return set_failed(arguments.front());
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return Failure{Code::io_error, "bench: " + arguments.front() + " failed"};
  }
  return took_since(begin);
}

}  // namespace penstock::bench
