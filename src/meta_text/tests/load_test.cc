// From text to records: what is loaded is what was dumped, and nothing else is loaded.
#include "fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::meta_text {
namespace {

using testing::HasSubstr;

// The text with a last line that fits what stands before it.
std::string with_checksum(std::string text) {
  const size_t last = text.rfind("\nend ") + 1;
  const size_t crc = text.rfind(" crc=");
  if (last == 0 || crc == std::string::npos || crc < last) return text;
  const uint32_t checksum = crc32c(std::as_bytes(std::span(text).first(last)));
  return text.substr(0, crc) + fmt::format(" crc={:08x}\n", checksum);
}

struct Loaded {
  std::unique_ptr<engine::Kv> kv = kv::make_memory_kv();
  Outcome<Counts> counts = Failure{};
};

Loaded load_text(std::string_view text, const LoadOptions& options = {}, size_t piece = SIZE_MAX) {
  Loaded loaded;
  engine::SeededRandom random(7);
  StringSource source(text, piece);
  loaded.counts = load(*loaded.kv, random, source, options);
  return loaded;
}

bool is_empty(engine::Kv& kv) {
  bool empty = true;
  EXPECT_TRUE(kv.run(engine::KvMode::read, [&](engine::KvTransaction& transaction) {
                  return transaction.scan("", "", [&](std::string_view, std::string_view) {
                    empty = false;
                    return false;
                  });
                }).ok());
  return empty;
}

class LoadTest : public TextTest {
 protected:
  // The text is refused with these words, and nothing is left that Meta opens.
  static void expect_refusal(const std::string& text, const std::string& told) {
    const Loaded loaded = load_text(text);
    ASSERT_FALSE(loaded.counts.has_value()) << told;
    EXPECT_THAT(loaded.counts.error().message, HasSubstr(told));
    if (is_empty(*loaded.kv)) return;
    EXPECT_FALSE(meta::Meta::open(*loaded.kv, engine::system_clock(), {}).has_value());
  }
  // The same with a part replaced, where the last line says what stands there then.
  void expect_refusal_of(const std::string& from, const std::string& to, const std::string& told) {
    std::string text = dump_of(*kv_);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    expect_refusal(with_checksum(text.replace(at, from.size(), to)), told);
  }
  std::string id(InodeId inode) const { return std::to_string(inode.value); }
};

TEST_F(LoadTest, brings_back_what_was_dumped) {
  make_one_of_everything();
  const std::string text = dump_of(*kv_);
  for (const size_t piece : {size_t{1}, size_t{7}, SIZE_MAX}) {
    const Loaded loaded = load_text(text, {}, piece);
    ASSERT_TRUE(loaded.counts.has_value()) << loaded.counts.error().message;
    EXPECT_EQ(loaded.counts->inodes, 10u);
    EXPECT_EQ(dump_of(*loaded.kv), text);
  }
  const Loaded loaded = load_text(text);
  const auto meta = meta::Meta::open(*loaded.kv, engine::system_clock(), {});
  ASSERT_TRUE(meta.has_value()) << meta.error().message;
  EXPECT_EQ((*meta)->counts()->inodes, 10u);
  EXPECT_EQ((*meta)->resolve({}, "/below/dee per\\/\xc3\xa9 again\n", false)->inode, file_);
  EXPECT_EQ(*(*meta)->get_xattr({}, file_, "user.a"), std::string("v\0 \xff", 4));
  EXPECT_EQ((*meta)->unsettled()->size(), 1u);
  EXPECT_EQ((*meta)->orphans(10)->size(), 3u);
}

TEST_F(LoadTest, gives_no_number_that_something_may_have) {
  const Loaded loaded = load_text(dump_of(*kv_), {.next_min = InodeId(1'000'000)});
  ASSERT_TRUE(loaded.counts.has_value());
  const auto meta = meta::Meta::open(*loaded.kv, engine::system_clock(), {});
  ASSERT_TRUE(meta.has_value());
  const auto made = (*meta)->create({}, meta::kRootInode, "a", 0600, true);
  ASSERT_TRUE(made.has_value());
  EXPECT_GE(made->inode.value, 1'000'000u);
  const Loaded apart = load_text(dump_of(*kv_), {.next_gap = 2'000'000});
  ASSERT_TRUE(apart.counts.has_value());
  const auto later = meta::Meta::open(*apart.kv, engine::system_clock(), {});
  EXPECT_GE((*later)->create({}, meta::kRootInode, "a", 0600, true)->inode.value, 2'000'000u);
  for (const LoadOptions& options :
       {LoadOptions{.next_min = InodeId(meta::kIdMax)}, LoadOptions{.next_gap = meta::kIdMax},
        LoadOptions{.next_gap = UINT64_MAX}}) {
    const Loaded beyond = load_text(dump_of(*kv_), options);
    ASSERT_FALSE(beyond.counts.has_value());
    EXPECT_THAT(beyond.counts.error().message, HasSubstr("no file may have a number"));
  }
}

TEST_F(LoadTest, refuses_chains_of_a_cluster_whose_records_are_lost) {
  std::string text = dump_of(*kv_);
  text.replace(text.find("chain=0"), 7, "chain=1024");
  text = with_checksum(text);
  EXPECT_TRUE(load_text(text, {.chains = 1}).counts.has_value());
  const Loaded loaded = load_text(text, {.chains = 1, .has_cluster = false});
  ASSERT_FALSE(loaded.counts.has_value());
  EXPECT_EQ(loaded.counts.error().status, Code::not_supported);
  EXPECT_THAT(loaded.counts.error().message, HasSubstr("1 files and directories"));
  // What is on own chains only is loaded.
  EXPECT_TRUE(load_text(dump_of(*kv_), {.has_cluster = false}).counts.has_value());
}

TEST_F(LoadTest, refuses_layouts_of_chains_that_are_not_there) {
  EXPECT_TRUE(load_text(dump_of(*kv_), {.chains = 1}).counts.has_value());
  std::string text = dump_of(*kv_);
  text.replace(text.find("chains=1"), 8, "chains=3");
  text = with_checksum(text);
  EXPECT_TRUE(load_text(text, {.chains = 3}).counts.has_value());
  const Loaded loaded = load_text(text, {.chains = 2});
  ASSERT_FALSE(loaded.counts.has_value());
  EXPECT_THAT(loaded.counts.error().message, HasSubstr("3 chains, and there are 2"));
  EXPECT_FALSE(meta::Meta::open(*loaded.kv, engine::system_clock(), {}).has_value());
}

TEST_F(LoadTest, goes_into_an_empty_store_only) {
  const std::string text = dump_of(*kv_);
  engine::SeededRandom random(1);
  StringSource source(text);
  const auto counts = load(*kv_, random, source, {});
  ASSERT_FALSE(counts.has_value());
  EXPECT_EQ(counts.error().status.code(), Code::not_empty);
  EXPECT_EQ(dump_of(*kv_), text);
}

TEST_F(LoadTest, hands_on_what_its_source_says) {
  class BrokenSource final : public Source {
   public:
    Outcome<size_t> read(std::span<char>) override {
      return Failure{Code::io_error, "the disk does not answer"};
    }
  } source;
  engine::SeededRandom random(1);
  const auto kv = kv::make_memory_kv();
  const auto counts = load(*kv, random, source, {});
  ASSERT_FALSE(counts.has_value());
  EXPECT_EQ(counts.error().message, "the disk does not answer");
}

TEST_F(LoadTest, refuses_another_version_and_what_is_no_dump) {
  expect_refusal("", "this is no dump");
  expect_refusal("hello\n", "line 1: this is no dump");
  expect_refusal("penstock-metadata 1", "ends too early");
  expect_refusal("penstock-metadata 2\nwhatever\n", "the dump has format 2");
  expect_refusal("penstock-metadata 1\n", "the last line is missing");
  expect_refusal("penstock-metadata 1\nnext 1024\n", "the last line is missing");
  expect_refusal(std::string(1 << 20, 'x'), "line 1: is too long");
  expect_refusal(dump_of(*kv_) + "\n", "something behind the last line");
  expect_refusal(dump_of(*kv_) + dump_of(*kv_), "something behind the last line");
}

TEST_F(LoadTest, refuses_a_text_that_was_cut_anywhere) {
  make_one_of_everything();
  const std::string text = dump_of(*kv_);
  for (size_t length = 0; length < text.size(); ++length) {
    ASSERT_FALSE(load_text(text.substr(0, length)).counts.has_value()) << length;
  }
  for (size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1) {
    const size_t end = text.find('\n', begin) + 1;
    const std::string line = text.substr(begin, end - begin);
    std::string without = text;
    ASSERT_FALSE(load_text(without.erase(begin, line.size())).counts.has_value()) << line;
    std::string twice = text;
    ASSERT_FALSE(load_text(twice.insert(begin, line)).counts.has_value()) << line;
    // Whoever writes the last line anew has changed the text, which is found as well.
    ASSERT_FALSE(load_text(with_checksum(without)).counts.has_value()) << line;
    ASSERT_FALSE(load_text(with_checksum(twice)).counts.has_value()) << line;
  }
}

TEST_F(LoadTest, refuses_a_text_with_any_byte_changed) {
  make_one_of_everything();
  const std::string text = dump_of(*kv_);
  engine::SeededRandom random(3);
  for (size_t at = 0; at < text.size(); ++at) {
    std::string flipped = text, lost = text, added = text;
    flipped[at] = static_cast<char>(flipped[at] ^ 1 << random.below(8));
    ASSERT_FALSE(load_text(flipped).counts.has_value()) << at;
    ASSERT_FALSE(load_text(lost.erase(at, 1)).counts.has_value()) << at;
    ASSERT_FALSE(
        load_text(added.insert(at, 1, static_cast<char>(random.below(256)))).counts.has_value())
        << at;
  }
}

// Somebody who writes the last line anew: what is taken is a namespace, and dumped as it was read.
TEST_F(LoadTest, takes_a_changed_text_only_if_it_is_another_namespace) {
  make_one_of_everything();
  const std::string text = dump_of(*kv_);
  engine::SeededRandom random(5);
  int taken = 0;
  for (int i = 0; i < 6000; ++i) {
    std::string changed = text;
    for (uint64_t changes = 1 + random.below(3); changes > 0; --changes) {
      const size_t at = random.below(changed.size());
      if (random.chance(1, 2)) {
        // Digits and letters for one another come further than any byte does.
        changed[at] = changed[random.below(changed.size())];
      } else {
        changed[at] = static_cast<char>(random.below(256));
      }
    }
    changed = with_checksum(changed);
    const Loaded loaded = load_text(changed);
    if (!loaded.counts) continue;
    ++taken;
    ASSERT_EQ(dump_of(*loaded.kv), changed);
    ASSERT_TRUE(meta::Meta::open(*loaded.kv, engine::system_clock(), {}).has_value());
  }
  EXPECT_GT(taken, 100);
  EXPECT_LT(taken, 5000);
}

TEST_F(LoadTest, refuses_what_breaks_a_rule_of_order) {
  make_one_of_everything();
  expect_refusal_of("next 5120\n", "", "an inode out of order");
  expect_refusal_of("next 5120\n", "next 5120\nnext 5120\n", "a second next id");
  expect_refusal_of("next 5120\n", "next 1023\n", "no possible next id");
  expect_refusal_of("next 5120\n", "next 1034\n", "an id beyond the next one");
  expect_refusal_of("next 5120\n", "next 5120\npenstock-metadata 1\n", "a second first line");
  expect_refusal_of("inode 1 ", "inode 2 ", "the first inode is not the root");
  expect_refusal_of("parent=1 ", "parent=1024 ", "the first inode is not the root");
  expect_refusal_of("inode " + id(below_) + " ", "inode 5 ", "an id that is reserved");
  expect_refusal_of("inode " + id(file_) + " regular", "inode " + id(below_) + " regular",
                    "inodes are not in order");
  expect_refusal_of("inode " + id(file_) + " regular", "inode 5119 regular",
                    "does not stand behind its inode");
  expect_refusal_of("name=user.b", "name=user.a", "attributes are not in order");
  expect_refusal_of("xattr " + id(file_) + " name=trusted.c", "xattr 5000 name=trusted.c",
                    "does not stand behind its inode");
  expect_refusal_of("entry 1 ", "entry 5000 ", "does not stand behind its directory");
  expect_refusal_of("cookie=1025 ", "cookie=1027 ", "entries are not in order");
  expect_refusal_of("cookie=1030 ", "cookie=5120 ", "a cookie beyond");
  expect_refusal_of("token=", "token=9", "a token beyond");
  expect_refusal_of("session " + id(file_), "session " + id(below_), "what is no file");
  expect_refusal_of("session " + id(file_), "session 5000", "what is no file");
}

TEST_F(LoadTest, refuses_what_does_not_hold_together) {
  make_one_of_everything();
  const std::string file = id(file_);
  expect_refusal_of("inode=" + file + " type=regular name=file",
                    "inode=1028 type=regular name=file", "entries do not name");
  expect_refusal_of("inode=" + file + " type=regular name=file",
                    "inode=" + file + " type=fifo name=file", "entries do not name");
  expect_refusal_of("name=file", "name=link", "do not agree");
  expect_refusal_of("parent=" + id(below_), "parent=1", "entries do not name");
  expect_refusal_of("inode=" + id(below_) + " type=directory", "inode=1 type=directory",
                    "an entry that names the root");
  expect_refusal_of("inode 1 directory mode=755 uid=0 gid=0 links=3",
                    "inode 1 directory mode=755 uid=0 gid=0 links=4", "says 4 links");
  // As many links as before, of others.
  std::string text = dump_of(*kv_);
  const auto replace = [&](const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  };
  replace("inode " + file + " regular mode=640 uid=0 gid=0 links=2",
          "inode " + file + " regular mode=640 uid=0 gid=0 links=1");
  replace("inode 1030 fifo mode=600 uid=0 gid=0 links=1",
          "inode 1030 fifo mode=600 uid=0 gid=0 links=2");
  expect_refusal(with_checksum(text), "entries do not name");
}

TEST_F(LoadTest, refuses_directories_that_do_not_lead_to_the_root) {
  const meta::Credentials root;
  const InodeId a = meta_->make_directory(root, meta::kRootInode, "a", 0755)->inode;
  const InodeId b = meta_->make_directory(root, a, "b", 0755)->inode;
  // Each of the two in the other, and every link counted right.
  std::string text = dump_of(*kv_);
  const auto replace = [&](const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  };
  replace("entry 1 cookie=1024 inode=1024 type=directory name=a\n", "");
  replace("links=3", "links=2");
  const size_t of_a = text.find("inode 1024");
  text.replace(text.find("parent=1 ", of_a), 9, "parent=" + id(b) + " ");
  const size_t of_b = text.find("inode 1025 directory");
  text.replace(text.find("links=2", of_b), 7, "links=3");
  replace("end ", "entry 1025 cookie=1024 inode=1024 type=directory name=a\nend ");
  expect_refusal(with_checksum(text), "2 directories do not lead to the root");
}

}  // namespace
}  // namespace penstock::meta_text
