// Lists of new files, with an agent in a process of its own.
#include "client.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <thread>

#include "penstock/testing_node.h"

namespace penstock::api {
namespace {

class NewFiles : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(agent.start());
    ASSERT_EQ(client.connect(scratch.store()), 0) << penstock_last_error();
    client.prepare(4 * kMiB);
    ASSERT_EQ(penstock_mkdir(client.session, "/d", 0755), 0);
  }
  penstock_new_file file(const char* path, uint64_t offset, uint64_t length) const {
    penstock_new_file out{};
    out.path = path;
    out.region = client.region;
    out.region_offset = offset;
    out.length = length;
    out.mode = 0644;
    out.uid = static_cast<uid_t>(-1);
    out.gid = static_cast<gid_t>(-1);
    out.times[0].tv_nsec = out.times[1].tv_nsec = UTIME_OMIT;
    return out;
  }
  ssize_t create(std::vector<penstock_new_file>& files) const {
    return penstock_create_files(client.session, files.data(), files.size());
  }

  test::ScratchDirectory scratch;
  test::AgentProcess agent{scratch.store()};
  Client client;
};

TEST_F(NewFiles, have_their_content_and_what_is_known_of_them) {
  constexpr size_t kFiles = 1300;
  test::fill({client.memory(), 4 * kMiB}, 5);
  std::vector<std::string> names;
  for (size_t i = 0; i < kFiles; ++i) names.push_back("/d/" + std::to_string(i));
  std::vector<penstock_new_file> files;
  for (size_t i = 0; i < kFiles; ++i)
    files.push_back(file(names[i].c_str(), i * 3000, i * 7 % 5000));
  files[10].path = "/missing/x";
  files[11].path = "relative";
  files[12].region_offset = 4 * kMiB;
  files[12].length = 1;
  files[13].path = "/d";
  files[14].times[1] = {-7, 5};
  ASSERT_EQ(create(files), static_cast<ssize_t>(kFiles - 4)) << penstock_last_error();
  EXPECT_EQ(files[10].result, -ENOENT);
  EXPECT_EQ(files[11].result, -EINVAL);
  EXPECT_EQ(files[12].result, -EINVAL);
  EXPECT_EQ(files[13].result, -EEXIST);
  struct stat st {};
  ASSERT_EQ(penstock_stat(client.session, "/d/14", &st), 0);
  EXPECT_EQ(st.st_mtim.tv_sec, -7);
  EXPECT_EQ(st.st_mtim.tv_nsec, 5);
  EXPECT_EQ(st.st_size, 14 * 7);

  std::vector<std::byte> expected(4 * kMiB);
  test::fill({expected.data(), expected.size()}, 5);
  std::vector<std::byte> memory(kFiles * 5000);
  std::vector<penstock_file_read> reads(kFiles);
  for (size_t i = 0; i < kFiles; ++i) {
    reads[i].path = names[i].c_str();
    reads[i].buffer = memory.data() + i * 5000;
    reads[i].length = 5000;
  }
  penstock_read_files(client.session, reads.data(), kFiles);
  for (size_t i = 0; i < kFiles; ++i) {
    if (i >= 10 && i <= 13) continue;
    ASSERT_EQ(reads[i].result, static_cast<int64_t>(i * 7 % 5000)) << i;
    ASSERT_EQ(std::memcmp(reads[i].buffer, expected.data() + i * 3000, i * 7 % 5000), 0) << i;
  }
  ASSERT_EQ(create(files), 0) << "all are there";
  EXPECT_EQ(files[0].result, -EEXIST);
}

TEST_F(NewFiles, survive_the_agent_once_they_are_synced) {
  test::fill({client.memory(), 4096}, 1);
  std::vector<penstock_new_file> files{file("/d/a", 0, 4096)};
  ASSERT_EQ(create(files), 1);
  ASSERT_EQ(penstock_sync(client.session), 0);
  agent.kill();
  ASSERT_TRUE(agent.start());
  const penstock_file a = client.open("/d/a", O_RDWR);
  ASSERT_GE(a, 0) << penstock_last_error();
  std::fill_n(client.memory(), 4096, std::byte{0});
  ASSERT_EQ(client.run(client.io(PENSTOCK_READ, a, 0, 4096)), 4096);
  EXPECT_TRUE(test::is_content({client.memory(), 4096}, 1));
}

TEST_F(NewFiles, take_the_place_of_others_where_that_is_asked_for) {
  test::fill({client.memory(), 4096}, 1);
  test::fill({client.memory() + 4096, 5000}, 2);
  std::vector<penstock_new_file> files{file("/d/a", 0, 4096), file("/d/b", 0, 4096)};
  ASSERT_EQ(create(files), 2);
  const penstock_file old = client.open("/d/a", O_RDONLY);
  ASSERT_EQ(penstock_symlink(client.session, "b", "/d/link"), 0);
  ASSERT_EQ(penstock_mkdir(client.session, "/d/directory", 0755), 0);
  files = {file("/d/a", 4096, 5000), file("/d/link", 4096, 5000), file("/d/directory", 4096, 5000),
           file("/d/new", 4096, 5000), file("/d/b", 4096, 5000)};
  for (penstock_new_file& one : files) one.flags = PENSTOCK_REPLACE;
  files[4].flags = 0x80;
  ASSERT_EQ(create(files), 3);
  EXPECT_EQ(files[2].result, -EISDIR);
  EXPECT_EQ(files[4].result, -EINVAL);
  std::byte* const memory = client.memory() + 16'384;
  const auto content_of = [&](penstock_file which) {
    penstock_io io = client.io(PENSTOCK_READ, which, 0, 8192);
    io.region_offset = 16'384;
    return client.run(io);
  };
  for (const char* path : {"/d/a", "/d/link", "/d/new"}) {
    ASSERT_EQ(content_of(client.open(path, O_RDONLY)), 5000) << path;
    EXPECT_TRUE(test::is_content({memory, 5000}, 2));
  }
  EXPECT_EQ(content_of(client.open("/d/b", O_RDONLY)), 4096) << "the link was followed";
  EXPECT_EQ(content_of(old), 4096) << "who has it open keeps it";
  EXPECT_TRUE(test::is_content({memory, 4096}, 1));
}

TEST_F(NewFiles, are_whole_or_the_old_ones_when_the_agent_dies) {
  constexpr uint64_t kBytes = 100'000;
  std::vector<std::string> names;
  for (int i = 0; i < 20; ++i) names.push_back("/d/" + std::to_string(i));
  std::vector<penstock_new_file> files;
  for (const std::string& name : names) files.push_back(file(name.c_str(), 0, kBytes));
  for (penstock_new_file& one : files) one.flags = PENSTOCK_REPLACE;
  for (uint64_t life = 0; life < 3; ++life) {
    test::fill({client.memory(), kBytes}, life);
    ASSERT_EQ(create(files), 20);
    agent.kill();
    ASSERT_TRUE(agent.start());
    for (const std::string& name : names) {
      const penstock_file found = client.open(name, O_RDONLY);
      ASSERT_GE(found, 0) << name;
      std::fill_n(client.memory(), kBytes, std::byte{0});
      ASSERT_EQ(client.run(client.io(PENSTOCK_READ, found, 0, kBytes)),
                static_cast<int64_t>(kBytes));
      // The first list took nobody's place.
      if (life > 0) {
        ASSERT_TRUE(test::is_content({client.memory(), kBytes}, life) ||
                    test::is_content({client.memory(), kBytes}, life - 1))
            << name;
      }
      ASSERT_EQ(penstock_file_close(client.session, found), 0);
    }
  }
}

TEST_F(NewFiles, are_durable_by_an_fsync_of_their_own) {
  test::fill({client.memory(), 4096}, 1);
  std::vector<penstock_new_file> files{file("/d/a", 0, 4096)};
  ASSERT_EQ(create(files), 1);
  const penstock_file a = client.open("/d/a", O_RDONLY);
  ASSERT_EQ(penstock_fsync(client.session, a), 0);
  agent.kill();
  ASSERT_TRUE(agent.start());
  std::fill_n(client.memory(), 4096, std::byte{0});
  ASSERT_EQ(client.run(client.io(PENSTOCK_READ, a, 0, 4096)), 4096);
  EXPECT_TRUE(test::is_content({client.memory(), 4096}, 1));
}

}  // namespace
}  // namespace penstock::api
