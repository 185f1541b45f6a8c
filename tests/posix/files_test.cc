// What programs rely on, one thing at a time.
#include "mounted_node.h"
#include "twin.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <functional>
#include <set>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace penstock::posix {
namespace {

class FilesTest : public PosixTest {
 protected:
  static UniqueFd open_file(const std::string& path, int flags = O_RDWR | O_CREAT) {
    UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0644));
    EXPECT_TRUE(fd) << path << ": " << std::strerror(errno);
    return fd;
  }
  static void write_file(const std::string& path, const std::string& content) {
    const UniqueFd fd = open_file(path, O_WRONLY | O_CREAT | O_TRUNC);
    ASSERT_EQ(::write(fd.get(), content.data(), content.size()),
              static_cast<ssize_t>(content.size()));
  }
  static std::string read_file(const std::string& path) {
    return read_all(open_file(path, O_RDONLY).get()).data;
  }
};

TEST_F(FilesTest, names_and_paths_are_as_long_as_linux_allows) {
  const std::string top = directory("long");
  EXPECT_EQ(::mkdir((top + "/" + std::string(255, 'n')).c_str(), 0755), 0);
  EXPECT_EQ(::mkdir((top + "/" + std::string(256, 'n')).c_str(), 0755), -1);
  EXPECT_EQ(errno, ENAMETOOLONG);
  struct stat stat {};
  EXPECT_EQ(::stat((top + "/" + std::string(256, 'n')).c_str(), &stat), -1);
  EXPECT_EQ(errno, ENAMETOOLONG);
  EXPECT_EQ(::stat((top + "/" + std::string(4096, '/')).c_str(), &stat), -1);
  EXPECT_EQ(errno, ENAMETOOLONG);
  // As long as a symbolic link may be.
  const std::string target(4095, 't');
  EXPECT_EQ(::symlink(target.c_str(), (top + "/link").c_str()), 0);
  char buffer[5000];
  EXPECT_EQ(::readlink((top + "/link").c_str(), buffer, sizeof(buffer)), 4095);
}

TEST_F(FilesTest, an_open_file_outlives_its_last_name) {
  const std::string path = directory("orphan") + "/f";
  const std::string content(200'000, 'z');
  write_file(path, content);
  const UniqueFd fd = open_file(path);
  ASSERT_EQ(::unlink(path.c_str()), 0);
  // Longer than whoever removes chunks in the background needs to be woken.
  for (int i = 0; i < 20; i++) {
    ASSERT_EQ(read_all(fd.get()).data, content);
    ASSERT_EQ(::pwrite(fd.get(), "y", 1, 100'000), 1);
    ASSERT_EQ(::pwrite(fd.get(), "z", 1, 100'000), 1);
    ASSERT_EQ(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  }
  struct stat stat {};
  ASSERT_EQ(::fstat(fd.get(), &stat), 0);
  EXPECT_EQ(stat.st_nlink, 0u);
}

TEST_F(FilesTest, a_large_directory_is_listed_completely) {
  constexpr int kCount = 10'000;
  const std::string top = directory("large");
  for (int i = 0; i < kCount; i++) {
    ASSERT_EQ(::mknod(fmt::format("{}/entry-{}", top, i).c_str(), S_IFREG | 0644, 0), 0);
  }
  DIR* list = ::opendir(top.c_str());
  ASSERT_NE(list, nullptr);
  std::set<std::string> names;
  long middle = 0;
  std::string after_middle;
  while (const dirent* entry = ::readdir(list)) {
    EXPECT_TRUE(names.insert(entry->d_name).second) << entry->d_name << " twice";
    if (names.size() == kCount / 2) middle = ::telldir(list);
    if (names.size() == kCount / 2 + 1) after_middle = entry->d_name;
  }
  EXPECT_EQ(names.size(), kCount + 2u);
  // A position means the same later, also when what stood before it has gone.
  for (int i = 0; i < 100; i++) {
    const std::string name = fmt::format("entry-{}", i);
    if (name == after_middle) continue;
    ASSERT_EQ(::unlink((top + "/" + name).c_str()), 0);
  }
  ::seekdir(list, middle);
  const dirent* entry = ::readdir(list);
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->d_name, after_middle);
  ::closedir(list);
  EXPECT_EQ(::rmdir(top.c_str()), -1);
  EXPECT_EQ(errno, ENOTEMPTY);
}

TEST_F(FilesTest, removing_entries_while_listing_meets_every_one) {
  const std::string top = directory("removing");
  for (int i = 0; i < 3000; i++) {
    ASSERT_EQ(::mknod(fmt::format("{}/{}", top, i).c_str(), S_IFREG | 0644, 0), 0);
  }
  DIR* list = ::opendir(top.c_str());
  ASSERT_NE(list, nullptr);
  while (const dirent* entry = ::readdir(list)) {
    if (entry->d_name[0] != '.') {
      ASSERT_EQ(::unlink((top + "/" + entry->d_name).c_str()), 0);
    }
  }
  ::closedir(list);
  EXPECT_EQ(::rmdir(top.c_str()), 0) << std::strerror(errno);
}

// The names in it, as far as the listing goes on from where it stands; `each` sees them.
template <typename Each>
size_t list_on(DIR* list, Each each) {
  size_t count = 0;
  while (const dirent* entry = ::readdir(list)) {
    if (entry->d_name[0] == '.') continue;
    each(std::string(entry->d_name));
    if (++count > 20'000) break;  // it would never end
  }
  return count;
}

TEST_F(FilesTest, making_files_while_listing_ends) {
  const std::string top = directory("renaming") + "/";
  constexpr size_t kCount = 4000;  // several replies of the mount
  for (size_t i = 0; i < kCount; i++) {
    ASSERT_EQ(::mknod((top + std::to_string(i)).c_str(), S_IFREG | 0644, 0), 0);
  }
  DIR* list = ::opendir(top.c_str());
  ASSERT_NE(list, nullptr);
  size_t made = 0;
  const size_t renamed = list_on(list, [&](const std::string& name) {
    ASSERT_EQ(::rename((top + name).c_str(), (top + "to" + name).c_str()), 0);
    ASSERT_EQ(::mknod((top + "new" + std::to_string(made++)).c_str(), S_IFREG | 0644, 0), 0);
  });
  EXPECT_EQ(renamed, kCount);
  // From the beginning, all of them are there.
  ::rewinddir(list);
  long middle = 0;
  size_t at = 0;
  EXPECT_EQ(list_on(list,
                    [&](const std::string&) {
                      if (++at == kCount) middle = ::telldir(list);
                    }),
            2 * kCount);
  ::closedir(list);
  // A place means the same to one that has just been opened.
  list = ::opendir(top.c_str());
  ASSERT_NE(list, nullptr);
  ::seekdir(list, middle);
  EXPECT_EQ(list_on(list, [](const std::string&) {}), kCount);
  ::closedir(list);
}

TEST_F(FilesTest, direct_io_takes_any_offset_and_length) {
  const std::string path = directory("direct") + "/f";
  const UniqueFd fd = open_file(path, O_RDWR | O_CREAT | O_DIRECT);
  std::vector<char> memory(300'000);
  for (size_t i = 0; i < memory.size(); i++) memory[i] = static_cast<char>(i * 31);
  const struct {
    size_t address, length;
    off_t offset;
  } cases[] = {{0, 4096, 0}, {1, 4096, 4096}, {513, 100'001, 777}, {0, 1, 299'999}};
  for (const auto& [address, length, offset] : cases) {
    ASSERT_EQ(::pwrite(fd.get(), memory.data() + address, length, offset),
              static_cast<ssize_t>(length));
    std::vector<char> back(length + 3);
    ASSERT_EQ(::pread(fd.get(), back.data() + 3, length, offset), static_cast<ssize_t>(length));
    EXPECT_EQ(std::memcmp(back.data() + 3, memory.data() + address, length), 0);
  }
}

TEST_F(FilesTest, appenders_do_not_overwrite_each_other) {
  const std::string path = directory("append") + "/log";
  constexpr int kWriters = 4;
  constexpr int kLines = 200;
  std::vector<std::thread> writers;
  for (int w = 0; w < kWriters; w++) {
    writers.emplace_back([&, w] {
      const UniqueFd fd = open_file(path, O_WRONLY | O_CREAT | O_APPEND);
      for (int i = 0; i < kLines; i++) {
        const std::string line = fmt::format("{:03}-{:05}\n", w, i);
        EXPECT_EQ(::write(fd.get(), line.data(), line.size()), 10);
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  const std::string content = read_file(path);
  ASSERT_EQ(content.size(), size_t{kWriters} * kLines * 10);
  std::set<std::string> lines;
  for (size_t i = 0; i < content.size(); i += 10) lines.insert(content.substr(i, 10));
  EXPECT_EQ(lines.size(), size_t{kWriters} * kLines);
}

TEST_F(FilesTest, readers_see_whole_writes_while_writers_write) {
  const std::string path = directory("concurrent") + "/f";
  // Whole blocks by direct writes: a page that is written in place may be read half way, on any
  // file system.
  constexpr size_t kRecord = 4096;
  constexpr size_t kRecords = 64;
  write_file(path, std::string(kRecord * kRecords, 'a'));
  std::atomic<bool> ends{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; t++) {
    threads.emplace_back([&] {
      const UniqueFd fd = open_file(path, O_RDWR | O_DIRECT);
      alignas(4096) static thread_local char record[kRecord];
      for (int i = 0; i < 400; i++) {
        std::memset(record, 'a' + i % 26, kRecord);
        EXPECT_EQ(::pwrite(fd.get(), record, kRecord, static_cast<off_t>(i * 7 % 64 * kRecord)),
                  static_cast<ssize_t>(kRecord));
      }
    });
    threads.emplace_back([&, t] {
      const UniqueFd fd = open_file(path, O_RDONLY | (t == 0 ? 0 : O_DIRECT));
      alignas(4096) static thread_local char record[kRecord];
      for (size_t i = 0; !ends.load(); i++) {
        ASSERT_EQ(::pread(fd.get(), record, kRecord, static_cast<off_t>(i % kRecords * kRecord)),
                  static_cast<ssize_t>(kRecord));
        for (const char c : record) ASSERT_EQ(c, record[0]);
      }
    });
  }
  threads[0].join();
  threads[2].join();
  ends.store(true);
  threads[1].join();
  threads[3].join();
}

TEST_F(FilesTest, a_shared_mapping_reaches_the_file_and_other_mappings) {
  const std::string path = directory("mapped") + "/f";
  constexpr size_t kLength = 300'000;
  const UniqueFd fd = open_file(path);
  ASSERT_EQ(::ftruncate(fd.get(), kLength), 0);
  const auto map = [&](int protection) {
    return static_cast<char*>(::mmap(nullptr, kLength, protection, MAP_SHARED, fd.get(), 0));
  };
  char* writer = map(PROT_READ | PROT_WRITE);
  char* reader = map(PROT_READ);
  ASSERT_NE(writer, MAP_FAILED);
  for (size_t i = 0; i < kLength; i += 1000) writer[i] = static_cast<char>(i / 1000);
  for (size_t i = 0; i < kLength; i += 1000) ASSERT_EQ(reader[i], static_cast<char>(i / 1000));
  ASSERT_EQ(::msync(writer, kLength, MS_SYNC), 0);
  // Through the file system itself: no page of the kernel's is in between.
  const auto opened = node().files().open_path({}, "/mapped/f", {}, 0, {}, nullptr);
  ASSERT_TRUE(opened);
  std::vector<std::byte> bytes(kLength);
  const auto got = node().files().read(*opened, 0, {bytes.data(), bytes.size()});
  ASSERT_TRUE(got);
  EXPECT_EQ(std::memcmp(bytes.data(), writer, kLength), 0);
  ::munmap(writer, kLength);
  ::munmap(reader, kLength);
}

TEST_F(FilesTest, a_program_runs_from_the_mount) {
  const std::string path = directory("program") + "/true";
  std::string program = read_all(UniqueFd(::open("/bin/true", O_RDONLY)).get()).data;
  write_file(path, program);
  ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  EXPECT_EQ(::system(path.c_str()), 0);
}

TEST_F(FilesTest, locks_exclude_others) {
  const std::string path = directory("locks") + "/f";
  const UniqueFd first = open_file(path);
  const UniqueFd second = open_file(path);
  ASSERT_EQ(::flock(first.get(), LOCK_EX), 0);
  EXPECT_EQ(::flock(second.get(), LOCK_EX | LOCK_NB), -1);
  EXPECT_EQ(errno, EWOULDBLOCK);
  ASSERT_EQ(::flock(first.get(), LOCK_UN), 0);
  EXPECT_EQ(::flock(second.get(), LOCK_EX | LOCK_NB), 0);
}

TEST_F(FilesTest, statfs_shows_space_and_the_longest_name) {
  struct statvfs stat {};
  ASSERT_EQ(::statvfs(node().mount().c_str(), &stat), 0);
  EXPECT_GT(stat.f_blocks, 0u);
  EXPECT_LE(stat.f_bavail, stat.f_blocks);
  EXPECT_GT(stat.f_bavail, 0u);
  EXPECT_EQ(stat.f_namemax, 255u);
}

TEST_F(FilesTest, set_user_id_goes_when_somebody_else_truncates_or_writes) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may act as others";
  const std::string top = directory("setuid");
  const auto mode_after = [&](const std::function<void(const std::string&)>& act) {
    const std::string path = top + "/program";
    write_file(path, "content");
    EXPECT_EQ(::chmod(path.c_str(), 06777), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setgid(1001) != 0 || ::setuid(1001) != 0) ::_exit(1);
      act(path);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    struct stat stat {};
    EXPECT_EQ(::stat(path.c_str(), &stat), 0);
    ::unlink(path.c_str());
    return stat.st_mode & 07777;
  };
  EXPECT_EQ(mode_after([](const std::string& p) { ::open(p.c_str(), O_RDONLY); }), 06777u);
  EXPECT_EQ(mode_after([](const std::string& p) { ::open(p.c_str(), O_WRONLY | O_TRUNC); }), 0777u);
  EXPECT_EQ(mode_after([](const std::string& p) { (void)!::truncate(p.c_str(), 3); }), 0777u);
  EXPECT_EQ(
      mode_after([](const std::string& p) { (void)!::write(::open(p.c_str(), O_WRONLY), "x", 1); }),
      0777u);
}

TEST_F(FilesTest, a_file_handle_finds_its_file_again) {
  // What an NFS server keeps instead of a name.
  const std::string top = directory("handles");
  write_file(top + "/f", "found");
  alignas(file_handle) char memory[sizeof(file_handle) + MAX_HANDLE_SZ];
  auto* handle = reinterpret_cast<file_handle*>(memory);
  handle->handle_bytes = MAX_HANDLE_SZ;
  int mount_id = 0;
  ASSERT_EQ(::name_to_handle_at(AT_FDCWD, (top + "/f").c_str(), handle, &mount_id, 0), 0);
  const UniqueFd root(::open(node().mount().c_str(), O_RDONLY | O_DIRECTORY));
  for (int i = 0; i < 2; i++) {
    const UniqueFd fd(::open_by_handle_at(root.get(), handle, O_RDONLY));
    if (!fd && errno == EPERM) GTEST_SKIP() << "only root may open by handle";
    ASSERT_TRUE(fd) << std::strerror(errno);
    EXPECT_EQ(read_all(fd.get()).data, "found");
    ASSERT_EQ(::rename((top + "/f").c_str(), (top + "/g").c_str()), i == 0 ? 0 : -1);
  }
  ASSERT_EQ(::unlink((top + "/g").c_str()), 0);
  EXPECT_EQ(::open_by_handle_at(root.get(), handle, O_RDONLY), -1);
  EXPECT_EQ(errno, ESTALE);
}

TEST_F(FilesTest, everything_is_there_after_the_node_was_restarted) {
  const std::string top = directory("restarted");
  write_file(top + "/f", std::string(150'000, 'r'));
  ASSERT_EQ(::symlink("f", (top + "/link").c_str()), 0);
  ASSERT_EQ(::setxattr((top + "/f").c_str(), "user.x", "1", 1, 0), 0);
  const std::string before = picture_of(top);
  node().restart();
  EXPECT_EQ(picture_of(top), before);
}

}  // namespace
}  // namespace penstock::posix
