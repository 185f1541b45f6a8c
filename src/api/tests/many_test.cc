// Lists of files, with an agent in a process of its own.
#include "client.h"

#include <algorithm>
#include <atomic>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>

#include "penstock/testing_node.h"

namespace penstock::api {
namespace {

constexpr uint64_t kRoom = 40'000;

class ManyFiles : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(agent.start());
    ASSERT_EQ(client.connect(scratch.store()), 0) << penstock_last_error();
    client.prepare(8 * kMiB);
    ASSERT_EQ(penstock_mkdir(client.session, "/d", 0755), 0);
  }
  // A file whose bytes tell `seed`.
  void make(const std::string& path, uint64_t size, uint64_t seed, mode_t mode = 0644) {
    const penstock_file file = client.open(path, O_WRONLY | O_CREAT, mode);
    ASSERT_GE(file, 0) << path << ": " << penstock_last_error();
    test::fill({client.memory(), size}, seed);
    if (size > 0) {
      ASSERT_EQ(client.run(client.io(PENSTOCK_WRITE, file, 0, size)), static_cast<int64_t>(size));
    }
    ASSERT_EQ(penstock_file_close(client.session, file), 0);
  }
  static std::string name(uint64_t number) { return "/d/" + std::to_string(number); }
  static uint64_t size_of(uint64_t number) { return mix64(number) % 20'000; }
  void make_files(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) ASSERT_NO_FATAL_FAILURE(make(name(i), size_of(i), i));
  }

  // Room for `count` files in plain memory.
  struct List {
    explicit List(size_t count, uint64_t room = kRoom) : memory(count * room), files(count) {
      names.resize(count);
      for (size_t i = 0; i < count; ++i) {
        files[i].buffer = memory.data() + i * room;
        files[i].length = room;
      }
    }
    void put(size_t at, std::string path) {
      names[at] = std::move(path);
      files[at].path = names[at].c_str();
    }
    std::vector<std::byte> memory;
    std::vector<std::string> names;
    std::vector<penstock_file_read> files;
  };
  static ssize_t read(const Client& through, List& list) {
    return penstock_read_files(through.session, list.files.data(), list.files.size());
  }
  static void expect_all_good(const List& list, const std::vector<uint64_t>& numbers) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      const uint64_t size = size_of(numbers[i]);
      ASSERT_EQ(list.files[i].result, static_cast<int64_t>(size)) << list.names[i];
      ASSERT_EQ(list.files[i].size, size);
      ASSERT_TRUE(
          test::is_content({static_cast<std::byte*>(list.files[i].buffer), size}, numbers[i]));
    }
  }

  test::ScratchDirectory scratch;
  test::AgentProcess agent{scratch.store(), 32 * kMiB};
  Client client;
};

TEST_F(ManyFiles, have_a_result_each) {
  make("/d/good", 5000, 1);
  make("/d/large", 100'000, 2);
  make("/d/empty", 0, 0);
  ASSERT_EQ(penstock_symlink(client.session, "good", "/d/link"), 0);
  ASSERT_EQ(penstock_symlink(client.session, "nowhere", "/d/dangling"), 0);
  ASSERT_EQ(penstock_symlink(client.session, "/d/loop", "/d/loop"), 0);
  ASSERT_EQ(penstock_symlink(client.session, "d", "/e"), 0);
  const std::vector<std::pair<std::string, int64_t>> expected{
      {"/d/good", 5000},
      {"/d/large", kRoom},
      {"/d/empty", 0},
      {"/d/link", 5000},
      {"/d/dangling", -ENOENT},
      {"/d/loop", -ELOOP},
      {"/d", -EISDIR},
      {"/", -EISDIR},
      {"/d/", -EISDIR},
      {"/d/good/", -ENOTDIR},
      {"/d/good/x", -ENOTDIR},
      {"/d/missing", -ENOENT},
      {"/missing/x", -ENOENT},
      {"/e/good", 5000},
      {"//d//../d/./good", 5000},
      {"relative", -EINVAL},
      {"", -ENOENT},
      {"/d/good", 5000},
      {"/" + std::string(5000, 'x'), -ENAMETOOLONG},
      {"/" + std::string(300, 'x'), -ENAMETOOLONG},
  };
  List list(expected.size() + 1);
  for (size_t i = 0; i < expected.size(); ++i) list.put(i, expected[i].first);
  const auto good = std::count_if(expected.begin(), expected.end(),
                                  [](const auto& one) { return one.second >= 0; });
  for (const bool again : {false, true}) {
    ASSERT_EQ(read(client, list), good) << again << penstock_last_error();
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(list.files[i].result, expected[i].second) << expected[i].first;
    }
    EXPECT_EQ(list.files.back().result, -EINVAL) << "no path";
    EXPECT_EQ(list.files[1].size, 100'000u) << "there is more than its room holds";
    EXPECT_TRUE(test::is_content({list.memory.data(), 5000}, 1));
    EXPECT_TRUE(test::is_content({list.memory.data() + kRoom, kRoom}, 2));
    EXPECT_TRUE(test::is_content({list.memory.data() + 3 * kRoom, 5000}, 1));
    EXPECT_TRUE(test::is_content({list.memory.data() + 13 * kRoom, 5000}, 1));
  }
  EXPECT_EQ(penstock_read_files(client.session, nullptr, 0), 0);
  EXPECT_EQ(penstock_read_files(client.session, nullptr, 1), -EINVAL);
  EXPECT_EQ(penstock_read_files(nullptr, list.files.data(), 1), -EINVAL);
}

TEST_F(ManyFiles, are_looked_at_together) {
  ASSERT_NO_FATAL_FAILURE(make_files(40));
  ASSERT_EQ(penstock_symlink(client.session, "0", "/d/link"), 0);
  ASSERT_EQ(penstock_symlink(client.session, "d", "/e"), 0);
  std::vector<std::string> paths{"/",
                                 "/d",
                                 "/d/",
                                 "/d/link",
                                 "/e",
                                 "/e/",
                                 "/e/7",
                                 "/d/missing",
                                 "/d/7/x",
                                 "/d/7/",
                                 "",
                                 "relative",
                                 "/d/../d/./7",
                                 "/missing/",
                                 "/" + std::string(300, 'x'),
                                 "/" + std::string(5000, 'x')};
  const std::vector<int> expected{0,
                                  0,
                                  0,
                                  0,
                                  0,
                                  0,
                                  0,
                                  -ENOENT,
                                  -ENOTDIR,
                                  -ENOTDIR,
                                  -ENOENT,
                                  -EINVAL,
                                  0,
                                  -ENOENT,
                                  -ENAMETOOLONG,
                                  -ENAMETOOLONG};
  // More than a trip takes, by their number and by their length.
  for (int i = 0; i < 1500; ++i) {
    const std::string dots(i % 100 == 0 ? 3000 : 0, '/');
    paths.push_back("/d" + dots + "/" + std::to_string(i % 40));
  }
  std::vector<penstock_file_stat> list(paths.size() + 1);
  for (size_t i = 0; i < paths.size(); ++i) list[i].path = paths[i].c_str();
  const auto good = static_cast<ssize_t>(1500 + std::count(expected.begin(), expected.end(), 0));
  ASSERT_EQ(penstock_lstat_files(client.session, list.data(), list.size()), good)
      << penstock_last_error();
  EXPECT_EQ(list.back().result, -EINVAL) << "no path";
  for (size_t i = 0; i < paths.size(); ++i) {
    SCOPED_TRACE(paths[i].substr(0, 40));
    ASSERT_EQ(list[i].result, i < expected.size() ? expected[i] : 0);
    struct stat alone {};
    ASSERT_EQ(penstock_lstat(client.session, list[i].path, &alone), list[i].result);
    if (list[i].result == 0) {
      const struct stat& seen = list[i].st;
      ASSERT_EQ(seen.st_ino, alone.st_ino);
      ASSERT_EQ(seen.st_mode, alone.st_mode);
      ASSERT_EQ(seen.st_nlink, alone.st_nlink);
      ASSERT_EQ(seen.st_size, alone.st_size);
      ASSERT_EQ(seen.st_blocks, alone.st_blocks);
      ASSERT_EQ(seen.st_mtim.tv_nsec, alone.st_mtim.tv_nsec);
    }
  }
  EXPECT_TRUE(S_ISLNK(list[3].st.st_mode));
  EXPECT_TRUE(S_ISLNK(list[4].st.st_mode));
  EXPECT_TRUE(S_ISDIR(list[5].st.st_mode)) << "a slash makes it lead on";
  EXPECT_EQ(list[6].st.st_size, static_cast<off_t>(size_of(7)));
  EXPECT_EQ(penstock_lstat_files(client.session, nullptr, 0), 0);
  EXPECT_EQ(penstock_lstat_files(client.session, nullptr, 1), -EINVAL);
  EXPECT_EQ(penstock_lstat_files(nullptr, list.data(), 1), -EINVAL);

  // What is written and not closed counts.
  const penstock_file open = client.open("/d/7", O_WRONLY);
  ASSERT_EQ(client.run(client.io(PENSTOCK_WRITE, open, 50'000, 1000)), 1000);
  ASSERT_EQ(penstock_lstat_files(client.session, &list[6], 1), 1);
  EXPECT_EQ(list[6].st.st_size, 51'000);
}

TEST_F(ManyFiles, are_looked_at_by_those_who_may_go_there) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else";
  ASSERT_EQ(penstock_mkdir(client.session, "/closed", 0700), 0);
  make("/closed/all", 100, 3, 0644);
  make("/d/mine", 100, 1, 0600);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::setgid(12345) != 0 || ::setuid(12345) != 0) ::_exit(1);
    Client other;
    if (other.connect(scratch.store()) != 0) ::_exit(2);
    penstock_file_stat list[2]{};
    list[0].path = "/closed/all";
    list[1].path = "/d/mine";
    if (penstock_lstat_files(other.session, list, 2) != 1) ::_exit(3);
    ::_exit(list[0].result == -EACCES && list[1].st.st_size == 100 ? 0 : 4);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(ManyFiles, go_into_regions_and_no_further) {
  make("/d/a", 10'000, 1);
  penstock_file_read files[4]{};
  for (auto& file : files) {
    file.path = "/d/a";
    file.region = client.region;
    file.length = 4096;
  }
  files[0].region_offset = 8 * kMiB - 4096;
  files[1].region_offset = 8 * kMiB - 4095;  // leaves the region
  files[2].region_offset = 100;
  files[3].region = nullptr;
  std::fill_n(client.memory(), 8 * kMiB, std::byte{0xee});
  ASSERT_EQ(penstock_read_files(client.session, files, 4), 2);
  EXPECT_EQ(files[0].result, 4096);
  EXPECT_EQ(files[1].result, -EINVAL);
  EXPECT_EQ(files[2].result, 4096);
  EXPECT_EQ(files[3].result, -EINVAL) << "no memory at all";
  EXPECT_TRUE(test::is_content({client.memory() + 8 * kMiB - 4096, 4096}, 1));
  EXPECT_TRUE(test::is_content({client.memory() + 100, 4096}, 1));
  EXPECT_EQ(client.memory()[99], std::byte{0xee});
  EXPECT_EQ(client.memory()[100 + 4096], std::byte{0xee}) << "written to behind the room";

  Client other;
  ASSERT_EQ(other.connect(scratch.store()), 0);
  EXPECT_EQ(penstock_read_files(other.session, files, 1), 0);
  EXPECT_EQ(files[0].result, -EINVAL) << "the region of another session";
}

TEST_F(ManyFiles, come_in_any_number_and_order) {
  constexpr uint64_t kFiles = 300;
  ASSERT_NO_FATAL_FAILURE(make_files(kFiles));
  for (const size_t count : {1ul, 2ul, 513ul, 2000ul}) {
    List list(count, 20'000);
    std::vector<uint64_t> numbers(count);
    for (size_t i = 0; i < count; ++i) {
      numbers[i] = mix64(i + count) % kFiles;
      list.put(i, name(numbers[i]));
    }
    ASSERT_EQ(read(client, list), static_cast<ssize_t>(count)) << penstock_last_error();
    ASSERT_NO_FATAL_FAILURE(expect_all_good(list, numbers));
  }
}

TEST_F(ManyFiles, may_be_larger_than_the_staging_memory) {
  constexpr uint64_t kSize = 21 * kMiB + 77;
  const penstock_file file = client.open("/d/huge", O_WRONLY | O_CREAT);
  for (uint64_t at = 0; at < kSize; at += 7 * kMiB) {
    const uint64_t length = std::min(7 * kMiB, kSize - at);
    test::fill({client.memory(), length}, at);
    ASSERT_EQ(client.run(client.io(PENSTOCK_WRITE, file, at, length)),
              static_cast<int64_t>(length));
  }
  ASSERT_EQ(penstock_file_close(client.session, file), 0);
  List list(2, kSize);
  list.put(0, "/d/huge");
  list.put(1, "/d/huge");
  list.files[1].length = 8 * kMiB + 1;
  ASSERT_EQ(read(client, list), 2);
  EXPECT_EQ(list.files[0].result, static_cast<int64_t>(kSize));
  EXPECT_EQ(list.files[1].result, static_cast<int64_t>(8 * kMiB + 1));
  EXPECT_TRUE(test::is_content({list.memory.data() + 14 * kMiB, 7 * kMiB}, 14 * kMiB));
  EXPECT_TRUE(test::is_content({list.memory.data() + 21 * kMiB, 77}, 21 * kMiB));
  EXPECT_TRUE(test::is_content({list.memory.data() + kSize, 7 * kMiB}, 0));
  EXPECT_EQ(list.memory[kSize + 8 * kMiB + 1], std::byte{0});
}

TEST_F(ManyFiles, are_packed_one_behind_the_other) {
  ASSERT_NO_FATAL_FAILURE(make_files(20));
  make("/d/big", 2 * kMiB, 99);
  std::vector<std::string> names;
  for (uint64_t i = 0; i < 20; ++i) names.push_back(name(i));
  names.insert(names.begin() + 5, "/d/missing");
  names.insert(names.begin() + 10, "/d/big");
  std::vector<penstock_file_read> files(names.size());
  for (size_t i = 0; i < names.size(); ++i) files[i].path = names[i].c_str();
  constexpr uint64_t kFrom = 4096;
  std::fill_n(client.memory(), 8 * kMiB, std::byte{0xee});
  ASSERT_EQ(penstock_read_files_packed(client.session, files.data(), files.size(), client.region,
                                       kFrom, kMiB, 512),
            20)
      << penstock_last_error();
  uint64_t end = kFrom;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == "/d/missing") {
      EXPECT_EQ(files[i].result, -ENOENT);
    } else if (names[i] == "/d/big") {
      EXPECT_EQ(files[i].result, -ENOSPC) << "the smaller ones behind it still fit";
      EXPECT_EQ(files[i].size, 2 * kMiB);
    } else {
      const uint64_t number = std::stoull(names[i].substr(3));
      EXPECT_EQ(files[i].result, static_cast<int64_t>(size_of(number)));
      EXPECT_EQ(files[i].region, client.region);
      EXPECT_EQ(files[i].region_offset, align_up(end, 512));
      end = files[i].region_offset + files[i].length;
      EXPECT_TRUE(
          test::is_content({client.memory() + files[i].region_offset, files[i].length}, number));
    }
  }
  EXPECT_EQ(client.memory()[end], std::byte{0xee});
  EXPECT_EQ(penstock_read_files_packed(client.session, files.data(), files.size(), client.region,
                                       8 * kMiB, 1, 0),
            -EINVAL);
}

TEST_F(ManyFiles, are_those_that_others_wrote_last) {
  ASSERT_NO_FATAL_FAILURE(make_files(50));
  List list(50);
  std::vector<uint64_t> numbers(50);
  for (uint64_t i = 0; i < 50; ++i) {
    list.put(i, name(i));
    numbers[i] = i;
    // Into the node cache.
    const penstock_file file = client.open(name(i), O_RDONLY);
    EXPECT_EQ(client.run(client.io(PENSTOCK_WARM, file, 0, kMiB)),
              static_cast<int64_t>(size_of(i)));
    ASSERT_EQ(penstock_file_close(client.session, file), 0);
  }
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(read(client, list), 50);
    ASSERT_NO_FATAL_FAILURE(expect_all_good(list, numbers));
  }
  Client other;
  ASSERT_EQ(other.connect(scratch.store()), 0);
  other.prepare();
  for (uint64_t round = 0; round < 50; ++round) {
    const penstock_file file = other.open(name(round), O_WRONLY | O_TRUNC);
    const uint64_t size = 1 + size_of(round + 1000);
    test::fill({other.memory(), size}, round + 1000);
    ASSERT_EQ(other.run(other.io(PENSTOCK_WRITE, file, 0, size)), static_cast<int64_t>(size));
    ASSERT_EQ(read(client, list), 50);
    ASSERT_EQ(list.files[round].result, static_cast<int64_t>(size));
    ASSERT_TRUE(
        test::is_content({static_cast<std::byte*>(list.files[round].buffer), size}, round + 1000));
    ASSERT_EQ(penstock_file_close(other.session, file), 0);
  }
}

TEST_F(ManyFiles, are_for_those_who_may_read_them) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else";
  make("/d/mine", 100, 1, 0600);
  make("/d/all", 100, 2, 0644);
  ASSERT_EQ(penstock_mkdir(client.session, "/closed", 0700), 0);
  make("/closed/all", 100, 3, 0644);
  ASSERT_EQ(penstock_symlink(client.session, "/closed/all", "/d/link"), 0);
  const std::string store = scratch.store();
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(12345) != 0 || ::setuid(12345) != 0) ::_exit(10);
    Client nobody;
    if (nobody.connect(store) != 0) ::_exit(11);
    List list(4);
    list.put(0, "/d/mine");
    list.put(1, "/d/all");
    list.put(2, "/closed/all");
    list.put(3, "/d/link");
    if (penstock_read_files(nobody.session, list.files.data(), 4) != 1) ::_exit(12);
    if (list.files[0].result != -EACCES || list.files[0].size != 0) ::_exit(13);
    if (list.files[1].result != 100) ::_exit(14);
    if (list.files[2].result != -EACCES || list.files[3].result != -EACCES) ::_exit(15);
    if (list.memory[0] != std::byte{0}) ::_exit(16);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(ManyFiles, go_on_with_the_agents_successor) {
  ASSERT_NO_FATAL_FAILURE(make_files(40));
  ASSERT_EQ(penstock_sync(client.session), 0);
  std::vector<uint64_t> numbers(600);
  List list(numbers.size(), 20'000);
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = i % 40;
    list.put(i, name(numbers[i]));
  }
  std::atomic<int> lists{0};
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop) {
      ASSERT_EQ(read(client, list), 600) << penstock_last_error();
      ASSERT_NO_FATAL_FAILURE(expect_all_good(list, numbers));
      ++lists;
    }
  });
  for (int life = 0; life < 3; ++life) {
    const int before = lists;
    EXPECT_TRUE(test::eventually([&] { return lists > before; }));
    agent.kill();
    ASSERT_TRUE(agent.start());
  }
  stop = true;
  reader.join();
  EXPECT_GE(lists, 3);
}

TEST(ManyFilesOfADeadAgent, end_with_its_connection) {
  test::ScratchDirectory scratch;
  test::AgentProcess agent(scratch.store());
  ASSERT_TRUE(agent.start());
  ::setenv("PENSTOCK_RECONNECT_SECONDS", "0", 1);
  Client client;
  const int connected = client.connect(scratch.store());
  ::unsetenv("PENSTOCK_RECONNECT_SECONDS");
  ASSERT_EQ(connected, 0);
  agent.kill();
  std::byte memory[16];
  std::vector<penstock_file_read> files(200);
  for (auto& file : files) {
    file.path = "/a";
    file.buffer = memory;
    file.length = sizeof memory;
  }
  files[7].path = "bad";
  EXPECT_EQ(penstock_read_files(client.session, files.data(), files.size()), -ECONNRESET);
  EXPECT_EQ(files[0].result, -ECONNRESET);
  EXPECT_EQ(files[199].result, -ECONNRESET);
  std::vector<penstock_file_stat> looks(600);
  for (auto& look : looks) look.path = "/a";
  looks[7].path = "bad";
  EXPECT_EQ(penstock_lstat_files(client.session, looks.data(), looks.size()), -ECONNRESET);
  EXPECT_EQ(looks[0].result, -ECONNRESET);
  EXPECT_EQ(looks[7].result, -EINVAL);
  EXPECT_EQ(looks[599].result, -ECONNRESET);
}

}  // namespace
}  // namespace penstock::api
