// A file system that shows a folder, and can be made slow: for so long as a file beside the folder
// says a number of milliseconds, each read, write and sync takes that much longer. For ./dev
// cluster, whose nodes keep their disks behind it. It runs until it is unmounted.
//
//   slow_disk FOLDER MOUNT_POINT DELAY_FILE
#define FUSE_USE_VERSION 312
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <fuse.h>
#include <string>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <thread>
#include <unistd.h>

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{100};

std::string folder;      // NOLINT(cert-err58-cpp): set once, by main()
std::string delay_file;  // NOLINT(cert-err58-cpp): set once, by main()
std::atomic<int> delay_ms{0};

std::string real(const char* path) {
  return folder + path;
}

int answer(ssize_t result) {
  return result < 0 ? -errno : static_cast<int>(result);
}

// Ends when the delay is taken away, too.
void delay() {
  const auto begun = std::chrono::steady_clock::now();
  for (milliseconds left{delay_ms}; left > milliseconds::zero();) {
    std::this_thread::sleep_for(std::min(left, kLook));
    const auto waited = std::chrono::steady_clock::now() - begun;
    left = milliseconds(delay_ms) - std::chrono::duration_cast<milliseconds>(waited);
  }
}

// Until the process ends.
void watch_delay() {
  while (true) {
    int ms = 0;
    if (std::FILE* const file = std::fopen(delay_file.c_str(), "r"); file != nullptr) {
      if (std::fscanf(file, "%d", &ms) != 1) ms = 0;
      std::fclose(file);
    }
    delay_ms = ms;
    std::this_thread::sleep_for(kLook);
  }
}

int descriptor(const fuse_file_info* info) {
  return static_cast<int>(info->fh);
}

void* init(fuse_conn_info* connection, fuse_config* config) {
  config->use_ino = 1;
  // A file that is open is reached by its descriptor, so it may have lost its name.
  config->nullpath_ok = 1;
  config->hard_remove = 1;
  connection->max_write = 1 << 20;
  connection->max_background = 1000;
  // A thread would not live through the fork of a daemon.
  std::thread(watch_delay).detach();
  return nullptr;
}

int get_attributes(const char* path, struct stat* st, fuse_file_info* info) {
  if (info != nullptr) return answer(::fstat(descriptor(info), st));
  return answer(::lstat(real(path).c_str(), st));
}

int open_file(const char* path, fuse_file_info* info) {
  const int fd = ::open(real(path).c_str(), info->flags & ~(O_DIRECT | O_NOFOLLOW | O_APPEND));
  if (fd < 0) return -errno;
  info->fh = static_cast<uint64_t>(fd);
  // Nothing stays in the kernel's cache, so that everything comes here.
  info->direct_io = 1;
  return 0;
}

int create_file(const char* path, mode_t mode, fuse_file_info* info) {
  const int fd = ::open(real(path).c_str(), (info->flags & ~(O_DIRECT | O_APPEND)) | O_CREAT, mode);
  if (fd < 0) return -errno;
  info->fh = static_cast<uint64_t>(fd);
  info->direct_io = 1;
  return 0;
}

int release(const char*, fuse_file_info* info) {
  return answer(::close(descriptor(info)));
}

int read_file(const char*, char* buffer, size_t size, off_t offset, fuse_file_info* info) {
  delay();
  return answer(::pread(descriptor(info), buffer, size, offset));
}

int write_file(const char*, const char* buffer, size_t size, off_t offset, fuse_file_info* info) {
  delay();
  return answer(::pwrite(descriptor(info), buffer, size, offset));
}

int sync_file(const char*, int only_data, fuse_file_info* info) {
  delay();
  return answer(only_data != 0 ? ::fdatasync(descriptor(info)) : ::fsync(descriptor(info)));
}

int open_folder(const char* path, fuse_file_info* info) {
  const int fd = ::open(real(path).c_str(), O_RDONLY | O_DIRECTORY);
  if (fd < 0) return -errno;
  info->fh = static_cast<uint64_t>(fd);
  return 0;
}

int allocate(const char*, int mode, off_t offset, off_t length, fuse_file_info* info) {
  return answer(::fallocate(descriptor(info), mode, offset, length));
}

int truncate_file(const char* path, off_t size, fuse_file_info* info) {
  return answer(info != nullptr ? ::ftruncate(descriptor(info), size)
                                : ::truncate(real(path).c_str(), size));
}

int list(const char*, void* buffer, fuse_fill_dir_t fill, off_t, fuse_file_info* info,
         fuse_readdir_flags) {
  // From its beginning, whatever was read of it before.
  const int fd = ::openat(descriptor(info), ".", O_RDONLY | O_DIRECTORY);
  if (fd < 0) return -errno;
  DIR* const directory = ::fdopendir(fd);
  if (directory == nullptr) {
    ::close(fd);
    return -ENOMEM;
  }
  while (const dirent* const entry = ::readdir(directory)) {
    struct stat st {};
    st.st_ino = entry->d_ino;
    st.st_mode = static_cast<mode_t>(entry->d_type) << 12;
    if (fill(buffer, entry->d_name, &st, 0, fuse_fill_dir_flags{}) != 0) break;
  }
  ::closedir(directory);
  return 0;
}

int rename_entry(const char* from, const char* to, unsigned flags) {
  return answer(::renameat2(AT_FDCWD, real(from).c_str(), AT_FDCWD, real(to).c_str(), flags));
}

int set_times(const char* path, const timespec times[2], fuse_file_info* info) {
  if (info != nullptr) return answer(::futimens(descriptor(info), times));
  return answer(::utimensat(AT_FDCWD, real(path).c_str(), times, AT_SYMLINK_NOFOLLOW));
}

int lock(const char*, fuse_file_info* info, int operation) {
  return answer(::flock(descriptor(info), operation));
}

fuse_operations operations() {
  fuse_operations all{};
  all.init = init;
  all.getattr = get_attributes;
  all.open = open_file;
  all.create = create_file;
  all.release = release;
  all.read = read_file;
  all.write = write_file;
  all.fsync = sync_file;
  all.opendir = open_folder;
  all.releasedir = release;
  all.fsyncdir = sync_file;
  all.fallocate = allocate;
  all.truncate = truncate_file;
  all.readdir = list;
  all.rename = rename_entry;
  all.utimens = set_times;
  all.flock = lock;
  all.mkdir = [](const char* path, mode_t mode) {
    return answer(::mkdir(real(path).c_str(), mode));
  };
  all.rmdir = [](const char* path) { return answer(::rmdir(real(path).c_str())); };
  all.unlink = [](const char* path) { return answer(::unlink(real(path).c_str())); };
  all.link = [](const char* from, const char* to) {
    return answer(::link(real(from).c_str(), real(to).c_str()));
  };
  all.symlink = [](const char* target, const char* path) {
    return answer(::symlink(target, real(path).c_str()));
  };
  all.readlink = [](const char* path, char* buffer, size_t size) {
    const ssize_t length = ::readlink(real(path).c_str(), buffer, size - 1);
    if (length < 0) return -errno;
    buffer[length] = '\0';
    return 0;
  };
  all.chmod = [](const char* path, mode_t mode, fuse_file_info* info) {
    if (info != nullptr) return answer(::fchmod(descriptor(info), mode));
    return answer(::chmod(real(path).c_str(), mode));
  };
  all.chown = [](const char* path, uid_t uid, gid_t gid, fuse_file_info* info) {
    if (info != nullptr) return answer(::fchown(descriptor(info), uid, gid));
    return answer(::lchown(real(path).c_str(), uid, gid));
  };
  all.mknod = [](const char* path, mode_t mode, dev_t device) {
    return answer(::mknod(real(path).c_str(), mode, device));
  };
  all.statfs = [](const char* path, struct statvfs* st) {
    return answer(::statvfs(real(path).c_str(), st));
  };
  return all;
}

}  // namespace

int main(int count, char** words) {
  if (count != 4) {
    std::fprintf(stderr, "usage: slow_disk FOLDER MOUNT_POINT DELAY_FILE\n");
    return 2;
  }
  folder = words[1];
  delay_file = words[3];
  const fuse_operations all = operations();
  // Threads as many as there are requests: one that is delayed holds up no other.
  std::string options =
      "fsname=slow_disk,default_permissions,allow_other,max_threads=1000,max_idle_threads=64";
  char* arguments[] = {words[0], words[2], const_cast<char*>("-o"), options.data(), nullptr};
  return fuse_main(4, arguments, &all, nullptr);
}
