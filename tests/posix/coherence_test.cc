// What others change (here: this program, past the mount) is seen through the mount at once,
// whatever the kernel has cached.
#include "mounted_node.h"
#include "twin.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace penstock::posix {
namespace {

class CoherenceTest : public PosixTest {
 protected:
  client::FileSystem& files() { return node().files(); }

  // A directory of the test, by both ways.
  void make(const std::string& name) {
    path_ = directory(name);
    const auto found = files().resolve({}, "/" + name, true);
    ASSERT_TRUE(found);
    parent_ = found->inode;
  }
  const std::string& path() const { return path_; }
  InodeId parent() const { return parent_; }

  client::FileRef open(const std::string& name) {
    client::OpenFlags flags;
    flags.write = flags.create = true;
    auto file = files().open_name({}, parent_, name, flags, 0644, {}, false, nullptr, nullptr);
    EXPECT_TRUE(file);
    return file ? *file : nullptr;
  }
  void write(const client::FileRef& file, uint64_t offset, const std::string& bytes) {
    std::vector<char> copy(bytes.begin(), bytes.end());
    const auto put =
        files().write(file, offset, {reinterpret_cast<std::byte*>(copy.data()), copy.size()}, false,
                      nullptr, nullptr);
    ASSERT_TRUE(put);
    ASSERT_EQ(*put, bytes.size());
  }
  std::string read_through_mount(const std::string& name) {
    const UniqueFd fd(::open((path_ + "/" + name).c_str(), O_RDONLY));
    return read_all(fd.get()).data;
  }
  off_t size_through_mount(const std::string& name) {
    struct stat stat {};
    return ::stat((path_ + "/" + name).c_str(), &stat) == 0 ? stat.st_size : -errno;
  }

 private:
  std::string path_;
  InodeId parent_;
};

TEST_F(CoherenceTest, written_bytes_replace_cached_pages) {
  make("pages");
  const client::FileRef file = open("f");
  std::string expected(200'000, 'a');
  write(file, 0, expected);
  for (int i = 0; i < 200; i++) {
    ASSERT_EQ(read_through_mount("f"), expected) << i;
    const auto offset = static_cast<size_t>(i) * 7919 % 190'000;
    const std::string bytes(static_cast<size_t>(i) * 37 % 9000 + 1,
                            static_cast<char>('b' + i % 20));
    write(file, offset, bytes);
    expected.replace(offset, bytes.size(), bytes);
  }
  ASSERT_TRUE(files().close_file(file).ok());
}

TEST_F(CoherenceTest, a_mapping_shows_what_was_written_by_others) {
  make("mapping");
  const client::FileRef file = open("f");
  write(file, 0, std::string(8192, 'a'));
  const UniqueFd fd(::open((path() + "/f").c_str(), O_RDONLY));
  auto* bytes = static_cast<const char*>(::mmap(nullptr, 8192, PROT_READ, MAP_SHARED, fd.get(), 0));
  ASSERT_NE(bytes, MAP_FAILED);
  ASSERT_EQ(bytes[4100], 'a');
  write(file, 4096, std::string(100, 'b'));
  EXPECT_EQ(bytes[4100], 'b');
  EXPECT_EQ(bytes[4095], 'a');
  ::munmap(const_cast<char*>(bytes), 8192);
}

TEST_F(CoherenceTest, length_and_times_follow_others_writes) {
  make("length");
  const client::FileRef file = open("f");
  const UniqueFd fd(::open((path() + "/f").c_str(), O_RDONLY));
  for (off_t length = 1; length < 100; length++) {
    write(file, static_cast<uint64_t>(length - 1), "x");
    struct stat stat {};
    ASSERT_EQ(::fstat(fd.get(), &stat), 0);
    ASSERT_EQ(stat.st_size, length);
    ASSERT_EQ(size_through_mount("f"), length);
  }
  meta::SetAttributes shorter;
  shorter.length = 10;
  ASSERT_TRUE(files().set_attributes({}, client::inode_of(*file), shorter, nullptr));
  EXPECT_EQ(size_through_mount("f"), 10);
  EXPECT_EQ(read_through_mount("f"), std::string(10, 'x'));
  meta::SetAttributes mode;
  mode.mode = 0600;
  ASSERT_TRUE(files().set_attributes({}, client::inode_of(*file), mode, nullptr));
  struct stat stat {};
  ASSERT_EQ(::stat((path() + "/f").c_str(), &stat), 0);
  EXPECT_EQ(stat.st_mode & 07777, 0600u);
}

TEST_F(CoherenceTest, many_small_writes_in_a_row_are_all_seen) {
  // Enough of them that the mount gives up telling the kernel of each.
  make("many");
  const client::FileRef file = open("f");
  write(file, 0, std::string(100'000, 'a'));
  ASSERT_EQ(read_through_mount("f").size(), 100'000u);
  for (int round = 0; round < 20; round++) {
    for (uint64_t i = 0; i < 100; i++) {
      write(file, i * 1000, std::string(1, static_cast<char>('b' + round)));
    }
    const std::string seen = read_through_mount("f");
    for (size_t i = 0; i < 100; i++) ASSERT_EQ(seen[i * 1000], 'b' + round) << round << " " << i;
  }
}

TEST_F(CoherenceTest, names_appear_and_vanish_at_once) {
  make("names");
  const client::Credentials root;
  for (int i = 0; i < 100; i++) {
    const std::string name = fmt::format("n{}", i % 3);
    ASSERT_EQ(size_through_mount(name), -ENOENT);
    const client::FileRef file = open(name);
    write(file, 0, "12345");
    ASSERT_EQ(size_through_mount(name), 5) << i;
    ASSERT_TRUE(files().close_file(file).ok());
    ASSERT_TRUE(files().rename(root, parent(), name, parent(), "moved", {}, nullptr).ok());
    ASSERT_EQ(size_through_mount(name), -ENOENT) << i;
    ASSERT_EQ(size_through_mount("moved"), 5) << i;
    ASSERT_TRUE(files().unlink(root, parent(), "moved", nullptr).ok());
    ASSERT_EQ(size_through_mount("moved"), -ENOENT) << i;
  }
}

TEST_F(CoherenceTest, a_replaced_file_is_the_new_one) {
  make("replaced");
  const client::Credentials root;
  for (int i = 0; i < 50; i++) {
    const std::string content = fmt::format("version {}", i);
    const client::FileRef file = open("new");
    write(file, 0, content);
    ASSERT_TRUE(files().close_file(file).ok());
    ASSERT_TRUE(files().rename(root, parent(), "new", parent(), "current", {}, nullptr).ok());
    ASSERT_EQ(read_through_mount("current"), content);
  }
}

TEST_F(CoherenceTest, a_links_count_and_a_directorys_entries_follow_others) {
  make("counts");
  const client::FileRef file = open("f");
  struct stat stat {};
  const std::string f = path() + "/f";
  ASSERT_EQ(::stat(f.c_str(), &stat), 0);
  ASSERT_EQ(stat.st_nlink, 1u);
  ASSERT_TRUE(files().link({}, client::inode_of(*file), parent(), "g", nullptr));
  ASSERT_EQ(::stat(f.c_str(), &stat), 0);
  EXPECT_EQ(stat.st_nlink, 2u);
  ASSERT_TRUE(files().unlink({}, parent(), "g", nullptr).ok());
  ASSERT_EQ(::stat(f.c_str(), &stat), 0);
  EXPECT_EQ(stat.st_nlink, 1u);
  ASSERT_EQ(::stat(path().c_str(), &stat), 0);
  const auto links = stat.st_nlink;
  ASSERT_TRUE(files().make_directory({}, parent(), "d", 0755, nullptr));
  ASSERT_EQ(::stat(path().c_str(), &stat), 0);
  EXPECT_EQ(stat.st_nlink, links + 1);
  EXPECT_NE(names_in(path()).data.find("d type"), std::string::npos);
}

TEST_F(CoherenceTest, an_append_goes_to_the_end_that_others_have_moved) {
  make("append");
  const UniqueFd fd(::open((path() + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644));
  ASSERT_EQ(::write(fd.get(), "one ", 4), 4);
  const client::FileRef file = open("log");
  write(file, 4, "two ");
  ASSERT_EQ(::write(fd.get(), "three", 5), 5);
  EXPECT_EQ(read_through_mount("log"), "one two three");
}

TEST_F(CoherenceTest, changes_under_load_neither_deadlock_nor_show_stale_bytes) {
  make("load");
  constexpr size_t kSlots = 64;
  constexpr size_t kSlot = 4096;
  const client::FileRef file = open("f");
  write(file, 0, std::string(kSlots * kSlot, 'a'));
  std::atomic<uint64_t> changes{0}, reads{0};
  const auto begun = std::chrono::steady_clock::now();
  const auto goes_on = [&] {
    const auto time = std::chrono::steady_clock::now() - begun;
    // Longer on a machine that is busy with other things.
    const bool is_enough = changes > 200 && reads > 200;
    return time < std::chrono::seconds(4) || (!is_enough && time < test::kPatience);
  };
  // What each slot is known to hold at least: readers must never see less. Release on the way up
  // pairs with the readers' acquire.
  std::vector<std::atomic<uint64_t>> versions(kSlots);
  std::vector<std::thread> threads;
  for (size_t w = 0; w < 2; w++) {
    threads.emplace_back([&, w] {
      for (uint64_t version = 1; goes_on(); version++) {
        for (size_t slot = w; slot < kSlots; slot += 2) {
          std::string bytes(kSlot, '\0');
          std::memcpy(bytes.data(), &version, sizeof(version));
          write(file, slot * kSlot, bytes);
          versions[slot].store(version, std::memory_order_release);
          changes++;
        }
      }
    });
  }
  for (int r = 0; r < 3; r++) {
    threads.emplace_back([&, r] {
      const UniqueFd fd(::open((path() + "/f").c_str(), O_RDONLY | (r == 2 ? O_DIRECT : 0)));
      alignas(4096) static thread_local char page[kSlot];
      for (size_t i = 0; goes_on(); i++) {
        const size_t slot = i * 13 % kSlots;
        const uint64_t least = versions[slot].load(std::memory_order_acquire);
        ASSERT_EQ(::pread(fd.get(), page, kSlot, static_cast<off_t>(slot * kSlot)),
                  static_cast<ssize_t>(kSlot));
        uint64_t seen = 0;
        std::memcpy(&seen, page, sizeof(seen));
        reads++;
        if (least == 0) continue;
        ASSERT_GE(seen, least) << "slot " << slot;
      }
    });
  }
  // Programs that write other parts of the same file through the mount, and make and remove names.
  threads.emplace_back([&] {
    const UniqueFd fd(::open((path() + "/f").c_str(), O_RDWR));
    while (goes_on()) {
      ASSERT_EQ(::pwrite(fd.get(), "mount", 5, kSlots * kSlot + 100), 5);
    }
  });
  threads.emplace_back([&] {
    for (uint64_t i = 0; goes_on(); i++) {
      const std::string name = fmt::format("n{}", i % 5);
      const client::FileRef made = open(name);
      struct stat stat {};
      ASSERT_EQ(::stat((path() + "/" + name).c_str(), &stat), 0);
      ASSERT_TRUE(files().unlink({}, parent(), name, nullptr).ok());
      ASSERT_EQ(::stat((path() + "/" + name).c_str(), &stat), -1);
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(changes.load(), 200u);
  EXPECT_GT(reads.load(), 200u);
  // Nobody had to be let go without the kernel having dropped what was stale.
  for (const metrics::Sample& sample : metrics::snapshot()) {
    if (sample.name != "fuse.invalidations.late") continue;
    EXPECT_EQ(sample.value, 0u);
  }
}

}  // namespace
}  // namespace penstock::posix
