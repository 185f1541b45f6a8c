#include "store_directory.h"

#include "raw_session.h"

#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <sys/stat.h>

namespace penstock::agent {
namespace {

namespace fs = std::filesystem;

// Names, sizes, contents and times of everything below a directory.
std::map<std::string, std::string> snapshot(const std::string& path) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    std::string facts = std::to_string(entry.last_write_time().time_since_epoch().count());
    if (entry.is_regular_file()) {
      std::ifstream file(entry.path());
      facts += std::string(std::istreambuf_iterator<char>(file), {});
    }
    all[entry.path()] = facts;
  }
  return all;
}

class Directory : public testing::Test {
 protected:
  AgentConfig config() const {
    AgentConfig out;
    out.directory = scratch.store();
    return out;
  }
  Outcome<std::unique_ptr<StoreDirectory>> open() const { return StoreDirectory::open(config()); }
  // A complete store.
  void make() const {
    auto store = open();
    ASSERT_TRUE(store) << store.error().message;
    ASSERT_TRUE((*store)->finish_making());
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(scratch.store() + "/" + name) << text;
  }
  // It is refused with `code`, the message names the directory and contains `words`, and nothing
  // has changed.
  void expect_refusal(Code code, const std::string& words) const {
    const auto before = snapshot(scratch.path());
    const auto store = open();
    ASSERT_FALSE(store);
    EXPECT_EQ(store.error().status, code) << store.error().message;
    EXPECT_NE(store.error().message.find(scratch.store()), std::string::npos)
        << store.error().message;
    EXPECT_NE(store.error().message.find(words), std::string::npos) << store.error().message;
    EXPECT_EQ(snapshot(scratch.path()), before);
  }

  ScratchDirectory scratch;
};

TEST_F(Directory, is_made_and_opened_again) {
  make();
  const auto again = open();
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_FALSE((*again)->fresh());
  EXPECT_EQ((*again)->superblock().shards, 1u);
  EXPECT_EQ((*again)->superblock().chunk_bytes, limits::kChunkBytesDefault);
  EXPECT_EQ((*again)->superblock().uuid.size(), 32u);
  EXPECT_NE((*again)->secret()[0], 0u);
  struct stat facts {};
  ASSERT_EQ(::stat((scratch.store() + "/secret").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  ASSERT_EQ(::stat((scratch.store() + "/meta").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700u);
}

TEST_F(Directory, keeps_what_the_store_was_made_with) {
  AgentConfig first = config();
  first.shards = 2;
  first.chunk_bytes = 64 * kKiB;
  first.capacity_bytes = kGiB;
  {
    auto store = StoreDirectory::open(first);
    ASSERT_TRUE(store);
    ASSERT_TRUE((*store)->finish_making());
  }
  const auto again = open();
  ASSERT_TRUE(again);
  EXPECT_EQ((*again)->superblock().shards, 2u);
  EXPECT_EQ((*again)->superblock().chunk_bytes, 64 * kKiB);
  EXPECT_EQ((*again)->superblock().capacity_bytes, kGiB);
}

TEST_F(Directory, is_refused_when_another_version_made_it) {
  make();
  write("penstock.store", "penstock-store 99\nuuid x\n");
  expect_refusal(Code::wrong_version, "format 99");
}

TEST_F(Directory, is_made_anew_when_its_making_was_cut_short) {
  for (const bool with_sign : {true, false}) {
    {
      const auto store = open();
      ASSERT_TRUE(store);
      ASSERT_TRUE((*store)->fresh());
    }
    write("meta/MANIFEST-000001", "of a database that was never finished");
    // The very first file, before it has its name.
    if (!with_sign) {
      fs::remove_all(scratch.store());
      fs::create_directory(scratch.store());
      write("penstock.making.new", "pensto");
    }
    make();
    EXPECT_FALSE(fs::exists(scratch.store() + "/meta/MANIFEST-000001"));
    EXPECT_FALSE(fs::exists(scratch.store() + "/penstock.making"));
    EXPECT_FALSE(fs::exists(scratch.store() + "/penstock.making.new"));
    fs::remove_all(scratch.store());
  }
}

TEST_F(Directory, is_refused_when_there_is_more_than_its_making_left) {
  {
    const auto store = open();
    ASSERT_TRUE(store);
  }
  write("letter.txt", "dear reader");
  expect_refusal(Code::not_empty, "letter.txt");
  fs::remove(scratch.store() + "/letter.txt");
  // Without the sign of a making they may be any program's.
  fs::remove(scratch.store() + "/penstock.making");
  expect_refusal(Code::not_empty, "meta");
}

TEST_F(Directory, forgets_the_making_of_a_store_that_is_complete) {
  make();
  write("penstock.making", "left by a maker that was killed after the last step but one");
  ASSERT_TRUE(open());
  EXPECT_FALSE(fs::exists(scratch.store() + "/penstock.making"));
  // So that a lost superblock never lets the store be made anew.
  fs::remove(scratch.store() + "/penstock.store");
  expect_refusal(Code::not_empty, "meta");
}

TEST_F(Directory, of_an_earlier_release_is_closed_to_others) {
  make();
  const std::string meta = scratch.store() + "/meta";
  write("meta/000042.sst", "names of private files");
  const auto mode_of = [](const std::string& path) {
    struct stat facts {};
    EXPECT_EQ(::stat(path.c_str(), &facts), 0) << path;
    return facts.st_mode & 0777;
  };
  ASSERT_EQ(::chmod((meta + "/000042.sst").c_str(), 0644), 0);
  ASSERT_EQ(::chmod(meta.c_str(), 0755), 0);
  ASSERT_EQ(::chmod((scratch.store() + "/LOCK").c_str(), 0644), 0);
  ASSERT_EQ(::chmod((scratch.store() + "/secret").c_str(), 0644), 0);
  ASSERT_EQ(::chmod((scratch.store() + "/targets").c_str(), 0755), 0);
  ASSERT_TRUE(open());
  EXPECT_EQ(mode_of(scratch.store() + "/secret"), 0600u);
  EXPECT_EQ(mode_of(scratch.store() + "/targets"), 0700u);
  EXPECT_EQ(mode_of(meta), 0700u);
  EXPECT_EQ(mode_of(meta + "/000042.sst"), 0600u);
  EXPECT_EQ(mode_of(scratch.store() + "/LOCK"), 0600u);
  // The socket is for all users.
  EXPECT_EQ(mode_of(scratch.store()) & 0055, 0055u);
}

TEST_F(Directory, is_left_as_it_was_when_making_fails) {
  {
    auto store = open();
    ASSERT_TRUE(store);
    (*store)->undo_making();
  }
  EXPECT_FALSE(fs::exists(scratch.store()));
  fs::create_directory(scratch.store());
  {
    auto store = open();
    ASSERT_TRUE(store);
    (*store)->undo_making();
  }
  EXPECT_TRUE(fs::is_empty(scratch.store()));
}

TEST_F(Directory, is_refused_while_another_has_it) {
  make();
  const auto first = open();
  ASSERT_TRUE(first);
  expect_refusal(Code::in_use, std::to_string(::getpid()));
}

TEST_F(Directory, is_refused_when_it_is_something_else) {
  fs::create_directory(scratch.store());
  write("letter.txt", "dear reader");
  expect_refusal(Code::not_empty, "letter.txt");
  fs::remove_all(scratch.store());
  std::ofstream(scratch.store()) << "a file";
  const auto store = open();
  ASSERT_FALSE(store);
  EXPECT_NE(store.error().message.find("not a directory"), std::string::npos)
      << store.error().message;
}

TEST_F(Directory, is_refused_when_its_parent_is_missing) {
  AgentConfig deep = config();
  deep.directory = scratch.store() + "/a/b";
  const auto store = StoreDirectory::open(deep);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().status, Code::not_found);
}

TEST_F(Directory, is_refused_when_it_is_damaged) {
  make();
  const std::string good = [&] {
    std::ifstream file(scratch.store() + "/penstock.store");
    return std::string(std::istreambuf_iterator<char>(file), {});
  }();
  for (const char* bad : {"", "nonsense", "penstock-store 1\n", "penstock-store 1\nuuid x\n",
                          "penstock-store one\n"}) {
    write("penstock.store", bad);
    expect_refusal(Code::corrupt, "damaged");
  }
  write("penstock.store", good);
  fs::rename(scratch.store() + "/meta", scratch.store() + "/meta.away");
  expect_refusal(Code::corrupt, "meta");
  fs::rename(scratch.store() + "/meta.away", scratch.store() + "/meta");
  fs::remove_all(scratch.store() + "/targets/0/kv");
  expect_refusal(Code::corrupt, "targets/0");
}

TEST_F(Directory, is_refused_without_its_secret) {
  make();
  fs::remove(scratch.store() + "/secret");
  const auto store = open();
  ASSERT_FALSE(store);
  EXPECT_NE(store.error().message.find("secret"), std::string::npos);
}

TEST_F(Directory, is_not_made_unless_asked_to) {
  AgentConfig opening = config();
  opening.create = false;
  EXPECT_FALSE(StoreDirectory::open(opening));
  EXPECT_FALSE(fs::exists(scratch.store()));
  fs::create_directory(scratch.store());
  const auto store = StoreDirectory::open(opening);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().status, Code::not_found);
  EXPECT_TRUE(fs::is_empty(scratch.store()));
}

}  // namespace
}  // namespace penstock::agent
