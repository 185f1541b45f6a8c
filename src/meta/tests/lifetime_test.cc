// Listings under change, removed files, restarts, power cuts and damage.
#include "fixture.h"

#include <map>
#include <set>

namespace penstock::meta {
namespace {

constexpr FileTime kFirst(0, 1);
constexpr FileTime kSecond(0, 2);
constexpr FileTime kThird(0, 3);

TEST_F(MetaTest, rename_keeps_cookies_so_that_listings_stay_whole) {
  for (const char* name : {"a", "b", "c", "d"}) file(kRootInode, name);
  const auto cookie = [&](const std::string& name) {
    uint64_t found = 0;
    EXPECT_TRUE(meta_
                    ->read_directory(kRootInode, 0, SIZE_MAX, false,
                                     [&](const DirectoryEntry& entry, const Attributes*) {
                                       if (entry.name != name) return true;
                                       EXPECT_EQ(found, 0u) << "listed twice";
                                       found = entry.cookie;
                                       return true;
                                     })
                    .ok());
    return found;
  };
  const uint64_t a = cookie("a");
  const uint64_t b = cookie("b");
  const uint64_t d = cookie("d");
  ASSERT_TRUE(meta_->rename(root_, kRootInode, "a", kRootInode, "x", {}, nullptr).ok());
  EXPECT_EQ(cookie("x"), a) << "the file stays where it is in the listing";
  ASSERT_TRUE(meta_->rename(root_, kRootInode, "x", kRootInode, "d", {}, nullptr).ok());
  EXPECT_EQ(cookie("d"), d) << "the name was there all the time";
  RenameFlags exchange{.no_replace = false, .exchange = true};
  ASSERT_TRUE(meta_->rename(root_, kRootInode, "b", kRootInode, "d", exchange, nullptr).ok());
  EXPECT_EQ(cookie("b"), b);
  EXPECT_EQ(cookie("d"), d);
}

TEST_F(MetaTest, listing_shows_what_stays_once_while_others_come_and_go) {
  constexpr int kStaying = 300;
  for (int i = 0; i < kStaying; ++i) {
    file(kRootInode, "stays" + std::to_string(i));
    file(kRootInode, "goes" + std::to_string(i));
  }
  engine::SeededRandom random(9);
  std::map<std::string, int> seen;
  uint64_t last = 0;
  for (bool more = true; more;) {
    more = false;
    ASSERT_TRUE(meta_
                    ->read_directory(kRootInode, last, 1 + random.below(9), false,
                                     [&](const DirectoryEntry& entry, const Attributes*) {
                                       ++seen[entry.name];
                                       last = entry.cookie;
                                       more = true;
                                       return random.chance(7, 8);  // a full buffer
                                     })
                    .ok());
    const std::string number = std::to_string(random.below(kStaying));
    (void)meta_->unlink(root_, kRootInode, "goes" + number, nullptr);
    file(kRootInode, "comes" + std::to_string(last));
    (void)meta_->rename(root_, kRootInode, "goes" + std::to_string(random.below(kStaying)),
                        kRootInode, "stays" + number, {}, nullptr);
    if (seen.size() > 3 * kStaying) break;  // new entries come after all others
  }
  for (int i = 0; i < kStaying; ++i) EXPECT_EQ(seen["stays" + std::to_string(i)], 1) << i;
  for (const auto& [name, count] : seen) EXPECT_EQ(count, 1) << name;
}

TEST_F(MetaTest, a_file_is_made_with_its_write_session_where_that_is_wanted) {
  const InodeId id = *meta_->unused_id();
  const auto make = [&](bool exclusive, bool* created, Creation how) {
    return meta_->create(root_, kRootInode, "f", 0644, exclusive, {}, created, how);
  };
  bool created = false;
  const auto made = make(true, &created, {.id = id, .begin_write = true});
  ASSERT_TRUE(made.has_value());
  EXPECT_TRUE(created);
  EXPECT_EQ(made->inode, id);
  EXPECT_EQ(*meta_->unsettled(), std::vector<InodeId>{id});
  ASSERT_TRUE(meta_->end_write(id).ok());
  const auto again = make(false, &created, {.id = *meta_->unused_id(), .begin_write = true});
  ASSERT_TRUE(again.has_value());
  EXPECT_FALSE(created);
  EXPECT_EQ(again->inode, id);
  EXPECT_TRUE(meta_->unsettled()->empty()) << "that is for the client that opens it";
}

TEST_F(MetaTest, several_are_forgotten_together_or_not_at_all) {
  const InodeId kept = file(kRootInode, "kept");
  std::vector<InodeId> gone;
  for (const char* name : {"a", "b", "c"}) {
    gone.push_back(file(kRootInode, name));
    ASSERT_TRUE(meta_->unlink(root_, kRootInode, name, nullptr).ok());
  }
  std::vector<InodeId> all = gone;
  all.push_back(kept);
  EXPECT_EQ(meta_->forget_many(all), Status(Code::in_use));
  EXPECT_EQ(*meta_->orphans(10), gone);
  EXPECT_TRUE(meta_->forget_many(gone).ok());
  EXPECT_TRUE(meta_->orphans(10)->empty());
  EXPECT_EQ(meta_->counts()->inodes, 2u) << "the root and one file";
  EXPECT_TRUE(meta_->forget_many(gone).ok()) << "gone already";
  EXPECT_EQ(meta_->counts()->inodes, 2u);
}

TEST_F(MetaTest, orphans_live_until_forgotten) {
  const InodeId f = file(kRootInode, "f");
  ASSERT_TRUE(meta_->set_xattr(root_, f, "user.a", "v", XattrMode::any).ok());
  EXPECT_EQ(meta_->forget(f).code(), Code::in_use);
  ASSERT_TRUE(meta_->begin_write(f).has_value());
  Removed removed;
  ASSERT_TRUE(meta_->unlink(root_, kRootInode, "f", &removed).ok());
  EXPECT_TRUE(removed.last_link);
  EXPECT_EQ(removed.inode, f);
  EXPECT_EQ(get(f).links, 0u);
  EXPECT_EQ(code_of(meta_->link(root_, f, kRootInode, "g")), Code::not_found);
  ASSERT_TRUE(meta_->settle(f, {.length = 9, .modified = kThird}, false).ok());
  EXPECT_EQ(get(f).length, 9u);
  reopen();
  EXPECT_EQ(*meta_->orphans(10), std::vector<InodeId>{f});
  EXPECT_EQ(meta_->counts()->inodes, 2u);
  EXPECT_TRUE(meta_->forget(f).ok());
  EXPECT_TRUE(meta_->forget(f).ok()) << "again";
  EXPECT_TRUE(meta_->orphans(10)->empty());
  EXPECT_TRUE(meta_->unsettled()->empty());
  EXPECT_EQ(code_of(meta_->attributes(f)), Code::not_found);
  EXPECT_EQ(meta_->counts()->inodes, 1u);
}

TEST_F(MetaTest, nothing_is_made_in_a_removed_directory) {
  const InodeId d = directory(kRootInode, "d");
  const InodeId f = file(kRootInode, "f");
  ASSERT_TRUE(meta_->remove_directory(root_, kRootInode, "d", nullptr).ok());
  EXPECT_EQ(code_of(meta_->create(root_, d, "x", 0644, true)), Code::not_found);
  EXPECT_EQ(code_of(meta_->link(root_, f, d, "x")), Code::not_found);
  EXPECT_EQ(meta_->rename(root_, kRootInode, "f", d, "x", {}, nullptr).code(), Code::not_found);
  EXPECT_EQ(get(d).links, 0u);
  EXPECT_TRUE(list(d).empty());
}

TEST_F(MetaTest, names_that_come_later_have_greater_cookies) {
  file(kRootInode, "f");
  uint64_t newest = 0;
  const auto comes_later = [&](std::string_view name) {
    bool later = false;
    const Status status =
        meta_->read_directory(kRootInode, newest, SIZE_MAX, false, [&](const auto& entry, auto*) {
          later = later || entry.name == name;
          return true;
        });
    return status.ok() && later;
  };
  newest = meta_->newest_cookie();
  EXPECT_FALSE(comes_later("f"));
  file(kRootInode, "g");
  EXPECT_TRUE(comes_later("g"));
  // Also before the first name since a restart.
  reopen();
  newest = meta_->newest_cookie();
  EXPECT_FALSE(comes_later("g"));
  file(kRootInode, "h");
  EXPECT_TRUE(comes_later("h"));
  EXPECT_FALSE(comes_later("g"));
}

TEST_F(MetaTest, write_sessions_are_found_after_a_restart) {
  const InodeId f = file(kRootInode, "f");
  const InodeId g = file(kRootInode, "g");
  const InodeId h = file(kRootInode, "h");
  for (const InodeId inode : {f, g, h}) ASSERT_TRUE(meta_->begin_write(inode).has_value());
  EXPECT_NE(*meta_->begin_write(f), *meta_->begin_write(f));
  ASSERT_TRUE(meta_->settle(g, {.length = 5, .modified = kFirst, .end_session = true}, true).ok());
  ASSERT_TRUE(meta_->end_write(h).ok());
  reopen();
  EXPECT_EQ(*meta_->unsettled(), std::vector<InodeId>{f});
  EXPECT_EQ(get(g).length, 5u);
  ASSERT_TRUE(meta_->settle(g, {.length = 3, .modified = kFirst, .only_grow = true}, false).ok());
  EXPECT_EQ(get(g).length, 5u);
  ASSERT_TRUE(meta_->settle(g, {.length = 3, .modified = kSecond}, false).ok());
  EXPECT_EQ(get(g).length, 3u);
  EXPECT_EQ(get(g).modified, kSecond);
  EXPECT_EQ(meta_->settle(InodeId(7777), {}, false).code(), Code::not_found);
}

TEST_F(MetaTest, format_of_another_version_is_refused) {
  meta_.reset();
  ASSERT_TRUE(storage_->kv()
                  .run(engine::KvMode::write,
                       [](engine::KvTransaction& transaction) -> Status {
                         transaction.put("Sversion", "\x01\x63");
                         return {};
                       })
                  .ok());
  const auto opened = Meta::open(storage_->kv(), clock_, {});
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().status.code(), Code::wrong_version);
  EXPECT_NE(opened.error().message.find("99"), std::string::npos) << opened.error().message;
}

TEST_F(MetaTest, database_with_other_content_is_refused) {
  const auto other = make_storage("memory");
  ASSERT_TRUE(other->kv()
                  .run(engine::KvMode::write,
                       [](engine::KvTransaction& transaction) -> Status {
                         transaction.put("something", "else");
                         return {};
                       })
                  .ok());
  EXPECT_EQ(Meta::open(other->kv(), clock_, {}).error().status.code(), Code::corrupt);
  MetaOptions options;
  options.key_prefix = "m/";
  EXPECT_NE(open_meta(other->kv(), clock_, options), nullptr) << "beside it there is room";
}

TEST_F(MetaTest, damaged_records_end_with_corrupt) {
  log::set_level(log::Level::off);
  file(kRootInode, "f");
  directory(kRootInode, "d");
  std::vector<std::pair<std::string, std::string>> records;
  ASSERT_TRUE(storage_->kv()
                  .run(engine::KvMode::read,
                       [&](engine::KvTransaction& transaction) -> Status {
                         return transaction.scan("", "", [&](auto key, auto value) {
                           records.emplace_back(key, value);
                           return true;
                         });
                       })
                  .ok());
  const auto put = [&](const std::string& key, const std::optional<std::string>& value) {
    EXPECT_TRUE(storage_->kv()
                    .run(engine::KvMode::write,
                         [&](engine::KvTransaction& transaction) -> Status {
                           if (value) {
                             transaction.put(key, *value);
                           } else {
                             transaction.erase(key);
                           }
                           return {};
                         })
                    .ok());
  };
  const auto use_everything = [&] {
    bool corrupt = false;
    const auto note = [&](Code code) { corrupt = corrupt || code == Code::corrupt; };
    note(code_of(meta_->attributes(kRootInode)));
    note(code_of(meta_->resolve(root_, "/f", true)));
    note(code_of(meta_->resolve(root_, "/d/x", true)));
    note(code_of(meta_->lookup(root_, kRootInode, "d")));
    note(
        code_of(meta_->read_directory(kRootInode, 0, 99, true, [](auto&, auto*) { return true; })));
    return corrupt;
  };
  EXPECT_FALSE(use_everything());
  for (const auto& [key, value] : records) {
    if (key[0] == 'S') continue;
    put(key, value + "x");
    EXPECT_TRUE(use_everything()) << key;
    put(key, "");
    EXPECT_TRUE(use_everything()) << key;
    put(key, value);
  }
  EXPECT_FALSE(use_everything());
  log::set_level(log::Level::warning);
}

TEST(MetaSimulation, ids_are_not_given_twice_when_power_is_cut) {
  const Credentials root;
  TickingClock clock;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SimStorage storage(seed);
    std::set<uint64_t> given;
    for (int life = 0; life < 4; ++life) {
      auto meta = open_meta(storage.kv(), clock);
      ASSERT_NE(meta, nullptr);
      for (int i = 0; i < 20; ++i) {
        const std::string name = "f" + std::to_string(life) + "-" + std::to_string(i);
        const auto made = meta->create(root, kRootInode, name, 0644, true);
        ASSERT_TRUE(made.has_value());
        EXPECT_TRUE(given.insert(made->inode.value).second) << "seed " << seed;
      }
      meta.reset();
      storage.power_cut();
    }
  }
}

TEST(MetaSimulation, durable_settle_saves_everything_before_it_from_a_power_cut) {
  const Credentials root;
  TickingClock clock;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SimStorage storage(seed);
    auto meta = open_meta(storage.kv(), clock);
    const InodeId d = meta->make_directory(root, kRootInode, "d", 0755)->inode;
    const InodeId f = meta->create(root, d, "f", 0644, true)->inode;
    ASSERT_TRUE(meta->rename(root, d, "f", kRootInode, "g", {}, nullptr).ok());
    ASSERT_TRUE(meta->settle(f, {.length = 42, .modified = kFirst}, true).ok());
    meta.reset();
    storage.power_cut();
    meta = open_meta(storage.kv(), clock);
    const auto found = meta->resolve(root, "/g", true);
    ASSERT_TRUE(found.has_value()) << "seed " << seed;
    EXPECT_EQ(found->length, 42u);
    EXPECT_TRUE(meta->resolve(root, "/d", true).has_value());
  }
}

}  // namespace
}  // namespace penstock::meta
