// From records to text: one snapshot, and nothing damaged.
#include "../cursor.h"
#include "../limits.h"
#include "../structure.h"
#include "fixture.h"

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <regex>

#include "penstock/sim.h"

namespace penstock::meta_text {
namespace {

using testing::HasSubstr;

class DumpTest : public TextTest {};

TEST_F(DumpTest, of_a_new_namespace_is_short) {
  const std::string text = dump_of(*kv_);
  const std::regex form(
      "penstock-metadata 1\nnext 1024\n"
      "inode 1 directory mode=755 uid=0 gid=0 links=2 generation=1 flags=0 accessed=\\S+ "
      "modified=\\S+ changed=\\S+ created=\\S+ parent=1 chunk=4194304 chain=0 chains=1 seed=0\n"
      "end inodes=1 xattrs=0 entries=0 sessions=0 crc=[0-9a-f]{8}\n");
  EXPECT_TRUE(std::regex_match(text, form)) << text;
}

TEST_F(DumpTest, has_one_of_everything_in_its_place) {
  make_one_of_everything();
  const std::string text = dump_of(*kv_);
  const auto at = [&](const std::string& part) {
    EXPECT_THAT(text, HasSubstr(part));
    return text.find(part);
  };
  const std::string below = std::to_string(below_.value), file = std::to_string(file_.value);
  EXPECT_LT(at("inode " + below + " directory"),
            at("xattr " + below + " name=user.empty value=\n"));
  EXPECT_LT(at("xattr " + below), at("entry " + below + " cookie="));
  EXPECT_LT(at("xattr " + file + " name=trusted.c value=v\\x00\\x20\\xff\n"),
            at("xattr " + file + " name=user.a"));
  EXPECT_LT(at("xattr " + file + " name=user.a"), at("xattr " + file + " name=user.b"));
  at("name=\\xc3\\xa9\\x20again\\x0a\n");
  at(" links=0 nameable=0 ");
  at(" links=0 nameable=1 ");
  at("target=../where\\x20to\\x5cgo\n");
  at(" device=2049\n");
  EXPECT_LT(at("session " + file + " token="), at("end inodes=10 xattrs=5 entries=7 sessions=1 "));
  const size_t end = text.find("end ");
  ASSERT_NE(end, std::string::npos);
  const uint32_t crc = crc32c(std::as_bytes(std::span(text).first(end)));
  EXPECT_EQ(text.substr(text.size() - 9, 8), fmt::format("{:08x}", crc));
}

TEST_F(DumpTest, of_one_state_is_the_same_text_also_after_a_close) {
  make_one_of_everything();
  const std::string text = dump_of(*kv_);
  EXPECT_EQ(dump_of(*kv_, 2), text);
  ASSERT_TRUE(meta_->close().ok());
  EXPECT_EQ(dump_of(*kv_, 3), text);
}

TEST_F(DumpTest, takes_a_directory_of_more_entries_than_are_read_at_a_time) {
  for (int i = 0; i < 5000; ++i) {
    ASSERT_TRUE(meta_->create({}, meta::kRootInode, std::to_string(i), 0600, true).has_value());
  }
  EXPECT_THAT(dump_of(*kv_), HasSubstr("end inodes=5001 xattrs=0 entries=5000 sessions=0"));
}

TEST_F(DumpTest, keeps_few_records_at_a_time_however_many_there_are) {
  for (int i = 0; i < 3000; ++i) {
    ASSERT_TRUE(meta_->make_directory({}, meta::kRootInode, std::to_string(i), 0700).has_value());
  }
  // Attributes of 40 KB: their bytes bound what is read, not their number.
  const std::string value(40'000, 'v');
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(meta_
                    ->set_xattr({}, meta::kRootInode, "trusted." + std::to_string(i), value,
                                meta::XattrMode::any)
                    .ok());
  }
  WatchedKv watched(*kv_);
  const std::string text = dump_of(watched);
  EXPECT_EQ(watched.scanned_most, kScanRecords);
  // The same of attributes alone.
  size_t most = 0;
  ASSERT_TRUE(watched
                  .run(engine::KvMode::read,
                       [&](engine::KvTransaction& transaction) -> Status {
                         watched.scanned_most = 0;
                         Cursor xattrs(transaction, keys_.begin('X'), keys_.end('X'));
                         TRY_ASSIGN(const Cursor::Record* first, xattrs.peek());
                         EXPECT_NE(first, nullptr);
                         most = watched.scanned_most;
                         return {};
                       })
                  .ok());
  EXPECT_EQ(most, (kScanBytes + value.size() - 1) / value.size());
  const auto other = kv::make_memory_kv();
  WatchedKv filled(*other);
  engine::SeededRandom random(1);
  StringSource source(text);
  ASSERT_TRUE(load(filled, random, source, {}).has_value());
  EXPECT_GT(filled.put_most, 1000u);
  EXPECT_LE(filled.put_most, kBatchRecords);
}

TEST_F(DumpTest, ends_when_its_sink_does) {
  class BrokenSink final : public Sink {
   public:
    Outcome<void> begin() override { return {}; }
    Outcome<void> write(std::string_view) override {
      return Failure{Code::no_space, "the disk is full"};
    }
  } sink;
  engine::SeededRandom random(1);
  const auto counts = dump(*kv_, random, sink);
  ASSERT_FALSE(counts.has_value());
  EXPECT_EQ(counts.error().status.code(), Code::no_space);
  EXPECT_EQ(counts.error().message, "the disk is full");
}

TEST_F(DumpTest, refuses_what_is_no_namespace) {
  put(*kv_, keys_.system(meta::kVersionName), std::nullopt);
  EXPECT_EQ(failure_of_dump().status.code(), Code::corrupt);
  put(*kv_, keys_.system(meta::kVersionName), meta::encode_number(meta::kFormatVersion + 1));
  EXPECT_EQ(failure_of_dump().status.code(), Code::wrong_version);
}

// Each damage alone, and what the failure says of it.
TEST_F(DumpTest, finds_damage_of_every_record) {
  make_one_of_everything();
  const auto directory_record = [&](const std::function<void(meta::Inode&)>& change) {
    auto inode = *meta::decode_inode(deeper_, *get(*kv_, keys_.inode(deeper_)));
    change(inode);
    return meta::encode(inode);
  };
  const auto file_record = [&](const std::function<void(meta::Inode&)>& change) {
    auto inode = *meta::decode_inode(file_, *get(*kv_, keys_.inode(file_)));
    change(inode);
    return meta::encode(inode);
  };
  const auto dentry = *meta::decode_dentry(*get(*kv_, keys_.dentry(below_, "file")));
  auto other = dentry;
  other.inode = deeper_;
  const InodeId nobody(3000);
  struct Case {
    std::string key;
    std::optional<std::string> value;
    const char* told;
  };
  const std::string entry = meta::encode(meta::CookieEntry{"file", file_, {}});
  const Case cases[] = {
      {keys_.system(meta::kNextIdName), std::nullopt, "the next id is missing"},
      {keys_.system(meta::kNextIdName), "x", "not a number"},
      {keys_.system(meta::kNextIdName), meta::encode_number(file_.value), "beyond the next"},
      {keys_.inode(meta::kRootInode), std::nullopt, "belongs to no inode"},
      {keys_.inode(file_), "junk", "not an inode"},
      {keys_.inode(file_), std::nullopt, "belongs to no inode"},
      {keys_.inode(file_) + "x", "junk", "not an inode"},
      {keys_.inode(file_), file_record([](auto& inode) { inode.attributes.links = 3; }),
       "entries do not name"},
      {keys_.inode(file_), file_record([](auto& inode) { inode.attributes.links = 0; }),
       "has no links"},
      {keys_.inode(file_), file_record([](auto& inode) { inode.xattr_bytes = 7; }),
       "does not say what extended attributes"},
      {keys_.inode(file_),
       file_record([](auto& inode) { inode.attributes.type = meta::FileType::fifo; }),
       "a session of what is no file"},
      {keys_.inode(deeper_), directory_record([](auto& inode) { inode.parent = InodeId(1); }),
       "entries do not name"},
      {keys_.inode(deeper_), directory_record([](auto& inode) { inode.attributes.links = 3; }),
       "says 3 links, and has 0 subdirectories"},
      {keys_.times(deeper_), std::nullopt, "times are missing"},
      {keys_.times(deeper_), "x", "times are missing"},
      {keys_.times(file_), *get(*kv_, keys_.times(deeper_)), "belongs to no inode"},
      {keys_.times(nobody), *get(*kv_, keys_.times(deeper_)), "belongs to no inode"},
      {keys_.orphan(file_), meta::encode_number(0), "belongs to no inode"},
      {keys_.orphan(nobody), meta::encode_number(0), "belongs to no inode"},
      {keys_.xattr(file_, "user.zz"), "v", "does not say what extended attributes"},
      {keys_.xattr(file_, "user.a"), std::nullopt, "does not say what extended attributes"},
      {keys_.xattr(nobody, "user.a"), "v", "belongs to no inode"},
      {keys_.xattr(file_, "user.a"), std::string(70'000, 'v'), "not an extended attribute"},
      {keys_.cookie(below_, dentry.cookie), std::nullopt, "by cookie do not agree"},
      {keys_.cookie(below_, dentry.cookie), "x", "not a directory entry"},
      {keys_.cookie(file_, dentry.cookie), entry, "an entry of what is no directory"},
      {keys_.cookie(nobody, dentry.cookie), entry, "belongs to no inode"},
      {keys_.dentry(below_, "file"), std::nullopt, "by cookie do not agree"},
      {keys_.dentry(below_, "file"), meta::encode(other), "by cookie do not agree"},
      {keys_.dentry(below_, "more"), meta::encode(dentry), "by cookie do not agree"},
      {keys_.dentry(nobody, "more"), meta::encode(dentry), "by cookie do not agree"},
      {keys_.dentry(below_, "file"), "x", "not a directory entry"},
      {keys_.write_session(file_), "x", "not a session"},
      {keys_.write_session(deeper_), meta::encode_number(5), "a session of what is no file"},
      {keys_.write_session(nobody), meta::encode_number(5), "a session of what is no file"},
      {keys_.write_session(file_), meta::encode_number(meta::kIdMax), "a token beyond"},
  };
  for (const Case& each : cases) {
    const std::optional<std::string> before = get(*kv_, each.key);
    ASSERT_NE(before, each.value) << meta::printable(each.key);
    put(*kv_, each.key, each.value);
    const Failure failure = failure_of_dump();
    EXPECT_EQ(failure.status.code(), Code::corrupt) << meta::printable(each.key);
    EXPECT_THAT(failure.message, HasSubstr(each.told)) << meta::printable(each.key);
    put(*kv_, each.key, before);
  }
  EXPECT_THAT(dump_of(*kv_), HasSubstr("end inodes=10"));
}

// Changes beside a dump, in a simulation where transactions are repeated: the text is of one
// moment.
TEST(DumpInSimulation, is_of_one_moment_while_others_change_names) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    sim::SimWorld world(seed);
    sim::SimKvImage image(world);
    image.faults.conflict_permille = 50;
    sim::SimKv kv(image);
    const auto opened = meta::Meta::open(kv, engine::system_clock(), {});
    ASSERT_TRUE(opened.has_value());
    meta::Meta& meta = **opened;
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(meta.create({}, meta::kRootInode, std::to_string(i), 0600, true).has_value());
    }
    // Another client moves a file on while the text is written, the first three times.
    class Meddler final : public Sink {
     public:
      explicit Meddler(meta::Meta& meta) : meta_(meta) {}
      Outcome<void> begin() override { return inner.begin(); }
      Outcome<void> write(std::string_view text) override {
        if (inner.begun <= 3 && inner.text.empty()) {
          EXPECT_TRUE(meta_
                          .rename({}, meta::kRootInode, name(inner.begun - 1), meta::kRootInode,
                                  name(inner.begun), {}, nullptr)
                          .ok());
        }
        return inner.write(text);
      }
      StringSink inner;

     private:
      static std::string name(int moved) {
        return moved == 0 ? "7" : "moved " + std::to_string(moved);
      }

      meta::Meta& meta_;
    } sink(meta);
    engine::SeededRandom random(seed);
    const auto counts = dump(kv, random, sink);
    ASSERT_TRUE(counts.has_value()) << counts.error().message;
    EXPECT_EQ(counts->entries, 50u);
    EXPECT_EQ(sink.inner.text, dump_of(kv));
    EXPECT_EQ(sink.inner.begun, 4);
  }
}

}  // namespace
}  // namespace penstock::meta_text
