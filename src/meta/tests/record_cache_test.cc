// Records that are kept in memory: nothing stale is ever found there.
#include "../record_cache.h"

#include <gtest/gtest.h>
#include <thread>

#include "penstock/testing_meta.h"

namespace penstock::meta {
namespace {

Inode inode_of(uint64_t id, uint32_t mode = 0644) {
  Inode inode;
  inode.attributes.inode = InodeId(id);
  inode.attributes.mode = mode;
  inode.attributes.links = 1;
  return inode;
}

TEST(RecordCache, keeps_what_was_read) {
  RecordCache cache(64);
  EXPECT_EQ(cache.inode(InodeId(7)), nullptr);
  cache.keep(inode_of(7), cache.now());
  cache.keep(InodeId(7), "a", {InodeId(8), FileType::regular, 9}, cache.now());
  ASSERT_NE(cache.inode(InodeId(7)), nullptr);
  EXPECT_EQ(cache.inode(InodeId(7))->attributes.mode, 0644u);
  EXPECT_EQ(cache.entry(InodeId(7), "a")->inode, InodeId(8));
  EXPECT_FALSE(cache.entry(InodeId(7), "b").has_value());
  EXPECT_FALSE(cache.entry(InodeId(8), "a").has_value());
}

TEST(RecordCache, what_changes_is_found_by_nobody_until_it_has_changed) {
  RecordCache cache(64);
  cache.keep(inode_of(7), cache.now());
  cache.keep(InodeId(7), "a", {InodeId(8), FileType::regular, 9}, cache.now());
  {
    RecordCache::Changes changes(&cache);
    changes.of(InodeId(7));
    changes.of(InodeId(7), "a");
    EXPECT_EQ(cache.inode(InodeId(7)), nullptr);
    EXPECT_FALSE(cache.entry(InodeId(7), "a").has_value());
    // Whether this one read it before the commit or after is not known.
    cache.keep(inode_of(7), cache.now());
    cache.keep(InodeId(7), "a", {InodeId(8), FileType::regular, 9}, cache.now());
    EXPECT_EQ(cache.inode(InodeId(7)), nullptr);
    EXPECT_FALSE(cache.entry(InodeId(7), "a").has_value());
  }
  cache.keep(inode_of(7, 0600), cache.now());
  EXPECT_EQ(cache.inode(InodeId(7))->attributes.mode, 0600u);
}

TEST(RecordCache, what_was_read_before_a_change_is_not_kept_after_it) {
  RecordCache cache(64);
  const uint64_t before = cache.now();
  uint64_t meanwhile = 0;
  {
    RecordCache::Changes changes(&cache);
    changes.of(InodeId(7));
    changes.of(InodeId(7), "a");
    meanwhile = cache.now();
  }
  for (const uint64_t began : {before, meanwhile}) {
    cache.keep(inode_of(7), began);
    cache.keep(InodeId(7), "a", {InodeId(8), FileType::regular, 9}, began);
    EXPECT_EQ(cache.inode(InodeId(7)), nullptr);
    EXPECT_FALSE(cache.entry(InodeId(7), "a").has_value());
  }
}

TEST(RecordCache, what_may_have_changed_is_never_kept_again) {
  RecordCache cache(64);
  {
    RecordCache::Changes changes(&cache);
    changes.of(InodeId(7));
    changes.stay_open();
  }
  cache.keep(inode_of(7), cache.now());
  EXPECT_EQ(cache.inode(InodeId(7)), nullptr);
}

TEST(RecordCache, has_room_for_so_many) {
  RecordCache cache(64);
  for (uint64_t i = 1; i <= 1000; ++i) cache.keep(inode_of(i), cache.now());
  int kept = 0;
  for (uint64_t i = 1; i <= 1000; ++i) kept += cache.inode(InodeId(i)) != nullptr ? 1 : 0;
  EXPECT_GT(kept, 0);
  EXPECT_LE(kept, 64);
}

// Counts transactions, and lets a test do something behind the reads of the next one.
class WatchedKv final : public engine::Kv {
 public:
  explicit WatchedKv(engine::Kv& kv) : kv_(kv) {}

  int runs = 0;
  std::function<void()> behind_reads;

  void submit(engine::KvOp& op) override { kv_.submit(op); }
  using engine::Kv::run;
  Status run(engine::KvOp& op) override {
    ++runs;
    return kv_.run(op.mode, [&](engine::KvTransaction& transaction) -> Status {
      TRY(op.body(transaction));
      if (const auto act = std::exchange(behind_reads, nullptr)) std::thread(act).join();
      return {};
    });
  }
  Status sync() override { return kv_.sync(); }

 private:
  engine::Kv& kv_;
};

class CachedMeta : public testing::Test {
 protected:
  CachedMeta() {
    MetaOptions options;
    options.cached_records = 1024;
    meta_ = open_meta(kv_, clock_, options);
    directory_ = meta_->make_directory({}, kRootInode, "d", 0755)->inode;
    file_ = meta_->create({}, directory_, "f", 0644, true)->inode;
  }
  int runs_of(const std::function<void()>& work) {
    kv_.runs = 0;
    work();
    return kv_.runs;
  }

  TickingClock clock_;
  RocksDbStorage storage_;
  WatchedKv kv_{storage_.kv()};
  std::unique_ptr<Meta> meta_;
  InodeId directory_, file_;
};

TEST_F(CachedMeta, what_was_found_once_is_found_without_a_transaction) {
  const auto look = [this] {
    EXPECT_EQ(meta_->resolve({}, "/d/f", true)->inode, file_);
    EXPECT_EQ(meta_->lookup({}, directory_, "f")->inode, file_);
    EXPECT_EQ(meta_->attributes(file_)->inode, file_);
    const auto all = meta_->resolve_many({}, {"/d/f", "//d//f"}, true);
    ASSERT_TRUE(all.has_value());
    for (const auto& one : *all) EXPECT_EQ(one->inode, file_);
  };
  look();
  EXPECT_EQ(runs_of(look), 0);
  // Only what is not known is asked for.
  EXPECT_EQ(runs_of([this] {
              const auto all = meta_->resolve_many({}, {"/d/f", "/d/none", "/d/f"}, true);
              ASSERT_TRUE(all.has_value());
              EXPECT_EQ((*all)[0]->inode, file_);
              EXPECT_EQ(code_of((*all)[1]), Code::not_found);
              EXPECT_EQ((*all)[2]->inode, file_);
            }),
            1);
}

TEST_F(CachedMeta, every_change_is_seen_at_once) {
  const auto mode = [this] { return meta_->resolve({}, "/d/f", true)->mode; };
  EXPECT_EQ(mode(), 0644u);
  SetAttributes changes;
  changes.mode = 0600;
  ASSERT_TRUE(meta_->set_attributes({}, file_, changes).has_value());
  EXPECT_EQ(mode(), 0600u);
  ASSERT_TRUE(meta_->settle(file_, {5, {}}, false).ok());
  EXPECT_EQ(meta_->resolve({}, "/d/f", true)->length, 5u);
  ASSERT_TRUE(meta_->rename({}, directory_, "f", directory_, "g", {}, nullptr).ok());
  EXPECT_EQ(code_of(meta_->resolve({}, "/d/f", true)), Code::not_found);
  EXPECT_EQ(meta_->resolve({}, "/d/g", true)->inode, file_);
  ASSERT_TRUE(meta_->unlink({}, directory_, "g", nullptr).ok());
  EXPECT_EQ(code_of(meta_->resolve({}, "/d/g", true)), Code::not_found);
  EXPECT_EQ(meta_->attributes(file_)->links, 0u);
  ASSERT_TRUE(meta_->forget(file_).ok());
  EXPECT_EQ(code_of(meta_->attributes(file_)), Code::not_found);
}

TEST_F(CachedMeta, what_lists_make_and_replace_is_seen_at_once) {
  const auto make = [this](bool replace) {
    const auto places = meta_->place_files({}, {{"/d/n", replace}});
    EXPECT_TRUE(places && places->front());
    std::vector<Result<MadeFile>> made;
    EXPECT_TRUE(meta_->create_files({}, {{*places->front(), 0644, 0, {}, false}}, &made).ok());
    EXPECT_TRUE(made.front().has_value());
    return made.front()->attributes.inode;
  };
  const auto found = [this] {
    const auto all = meta_->resolve_many({}, {"/d/n"}, true);
    return (*all)[0] ? (*all)[0]->inode : InodeId();
  };
  EXPECT_EQ(found(), InodeId());
  const InodeId first = make(false);
  EXPECT_EQ(found(), first);
  const InodeId second = make(true);
  EXPECT_EQ(found(), second);
  EXPECT_EQ(meta_->attributes(first)->links, 0u);
  // A cache that has read the name keeps it neither when it goes nor when another one comes.
  (void)make(true);
  InodeId third;
  kv_.behind_reads = [&] {
    ASSERT_TRUE(meta_->unlink({}, directory_, "n", nullptr).ok());
    third = make(false);
  };
  EXPECT_NE(found(), InodeId()) << "as it was";
  EXPECT_EQ(found(), third);
  ASSERT_TRUE(meta_->unlink({}, directory_, "n", nullptr).ok());
  EXPECT_EQ(found(), InodeId());
  const InodeId fourth = make(false);
  EXPECT_EQ(found(), fourth);
}

TEST_F(CachedMeta, rights_are_those_of_who_asks) {
  EXPECT_TRUE(meta_->resolve({}, "/d/f", true).has_value());
  const Credentials bob{.uid = 200, .gid = 200, .groups = {}};
  EXPECT_TRUE(meta_->resolve(bob, "/d/f", true).has_value());
  SetAttributes changes;
  changes.mode = 0700;
  ASSERT_TRUE(meta_->set_attributes({}, directory_, changes).has_value());
  EXPECT_TRUE(meta_->resolve({}, "/d/f", true).has_value());
  EXPECT_EQ(code_of(meta_->resolve(bob, "/d/f", true)), Code::access_denied);
  EXPECT_EQ(code_of(meta_->lookup(bob, directory_, "f")), Code::access_denied);
}

TEST_F(CachedMeta, links_and_long_paths_are_what_they_are_without) {
  ASSERT_TRUE(meta_->make_symlink({}, directory_, "l", "f").has_value());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(meta_->resolve({}, "/d/l", true)->inode, file_);
    EXPECT_EQ(meta_->resolve({}, "/d/l", false)->type, FileType::symlink);
    EXPECT_EQ(meta_->resolve({}, "/d/../d/./f", true)->inode, file_);
    EXPECT_EQ(code_of(meta_->resolve({}, "/d/f/", true)), Code::not_directory);
    EXPECT_EQ(code_of(meta_->resolve({}, "/d/f/f", true)), Code::not_directory);
    const std::string longer = std::string(limits::kPathBytesMax, '/') + "d/f";
    EXPECT_EQ(code_of(meta_->resolve({}, longer, true)), Code::name_too_long);
    EXPECT_EQ(meta_->resolve({}, "/d", true)->inode, directory_);
  }
}

TEST_F(CachedMeta, a_change_behind_the_reads_of_another_is_not_lost) {
  kv_.behind_reads = [this] {
    SetAttributes changes;
    changes.mode = 0600;
    ASSERT_TRUE(meta_->set_attributes({}, file_, changes).has_value());
  };
  EXPECT_EQ(meta_->attributes(file_)->mode, 0644u);
  EXPECT_EQ(meta_->attributes(file_)->mode, 0600u);
}

TEST_F(CachedMeta, nobody_finds_an_older_state_than_was_found_before) {
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t length = 1; length <= 2000; ++length) {
      EXPECT_TRUE(meta_->settle(file_, {length, {}}, false).ok());
      EXPECT_EQ(meta_->attributes(file_)->length, length) << "its own change";
    }
    stop = true;
  });
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      uint64_t last = 0;
      while (!stop) {
        const auto found = meta_->resolve_many({}, {"/d/f"}, true);
        ASSERT_TRUE(found && (*found)[0]);
        EXPECT_GE((*found)[0]->length, last);
        last = (*found)[0]->length;
      }
    });
  }
  writer.join();
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace penstock::meta
