// Trash: what goes there, by which days, who may what in it, and what it counts for.
#include "hours_clock.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <thread>

#include "penstock/meta_records.h"
#include "penstock/testing_meta.h"

namespace penstock::meta {
namespace {

class TrashTest : public testing::Test {
 protected:
  TrashTest() { reopen(); }
  void reopen() {
    meta_.reset();
    meta_ = open_meta(storage_->kv(), clock_, options_);
  }

  InodeId directory(InodeId parent, const std::string& name, const Credentials& who = {}) {
    const auto made = meta_->make_directory(who, parent, name, 0755);
    EXPECT_TRUE(made.has_value()) << name;
    return made ? made->inode : InodeId();
  }
  InodeId file(InodeId parent, const std::string& name, const Credentials& who = {}) {
    const auto made = meta_->create(who, parent, name, 0644, true);
    EXPECT_TRUE(made.has_value()) << name;
    return made ? made->inode : InodeId();
  }
  void set(InodeId directory, std::optional<uint32_t> days) {
    ASSERT_EQ(meta_->set_trash(directory, days, "/somewhere").code(), Code::ok);
  }
  std::vector<std::string> list(InodeId inode) {
    std::vector<std::string> names;
    EXPECT_TRUE(meta_
                    ->read_directory(inode, 0, SIZE_MAX, false,
                                     [&](const DirectoryEntry& entry, const Attributes*) {
                                       names.push_back(entry.name);
                                       return true;
                                     })
                    .ok());
    std::sort(names.begin(), names.end());
    return names;
  }
  InodeId top() {
    const auto found = meta_->lookup(root_, kRootInode, kTrashName);
    return found ? found->inode : InodeId();
  }
  std::vector<std::string> hours() { return top() == InodeId() ? Names() : list(top()); }
  InodeId hour(const std::string& name) {
    const auto found = meta_->lookup(root_, top(), name);
    EXPECT_TRUE(found.has_value()) << name;
    return found ? found->inode : InodeId();
  }
  // All that is in the trash.
  std::vector<std::string> kept() {
    std::vector<std::string> all;
    for (const std::string& one : hours()) {
      for (const std::string& name : list(hour(one))) all.push_back(one + "/" + name);
    }
    return all;
  }
  static std::string entry(InodeId parent, InodeId inode, const std::string& name) {
    return name_of(TrashEntry{parent, inode, name});
  }
  Status unlink(InodeId parent, const std::string& name, Removed* removed = nullptr) {
    return meta_->unlink(root_, parent, name, removed);
  }
  Code rename(InodeId from, const std::string& name, InodeId to, const std::string& new_name,
              RenameFlags flags = {}) {
    return meta_->rename(root_, from, name, to, new_name, flags, nullptr).code();
  }
  Attributes get(InodeId inode) {
    const auto found = meta_->attributes(inode);
    EXPECT_TRUE(found.has_value());
    return found ? *found : Attributes();
  }
  uint64_t version() {
    uint64_t found = 0;
    EXPECT_TRUE(storage_->kv()
                    .run(engine::KvMode::read,
                         [&](engine::KvTransaction& transaction) -> Status {
                           const auto value = transaction.get(Keys("").system(kVersionName));
                           found = *decode_number(**value);
                           return {};
                         })
                    .ok());
    return found;
  }

  using Names = std::vector<std::string>;
  const Credentials root_;
  const Credentials alice_{.uid = 100, .gid = 100, .groups = {}};
  const std::string now_ = "2026-11-26-08.7d";
  HoursClock clock_;
  MetaOptions options_;
  std::unique_ptr<Storage> storage_ = make_storage("memory");
  std::unique_ptr<Meta> meta_;
};

TEST_F(TrashTest, is_not_there_and_costs_no_format_before_it_is_wanted) {
  const InodeId a = file(kRootInode, "a");
  Removed removed;
  ASSERT_TRUE(unlink(kRootInode, "a", &removed).ok());
  EXPECT_TRUE(removed.last_link);
  EXPECT_EQ(get(a).links, 0u);
  EXPECT_EQ(top(), InodeId());
  EXPECT_EQ(version(), kFormatWithoutTrash);
  EXPECT_EQ(meta_->make_directory(root_, kRootInode, kTrashName, 0755).error(),
            Code::not_permitted);
  set(kRootInode, 1);
  EXPECT_EQ(version(), kFormatVersion);
  reopen();
  EXPECT_EQ(version(), kFormatVersion);
  EXPECT_NE(top(), InodeId());
}

TEST_F(TrashTest, takes_what_loses_its_last_name) {
  set(kRootInode, 7);
  const uint64_t inodes = meta_->counts()->inodes;
  const InodeId at = directory(kRootInode, "at");
  const InodeId a = file(at, "a");
  ASSERT_TRUE(meta_->link(root_, a, at, "b").has_value());
  Removed removed;
  ASSERT_TRUE(unlink(at, "a", &removed).ok());
  EXPECT_FALSE(removed.last_link);
  EXPECT_EQ(kept(), Names());
  ASSERT_TRUE(unlink(at, "b", &removed).ok());
  EXPECT_FALSE(removed.last_link);
  // Known only in the process that has the names.
  if (removed.kept) {
    EXPECT_TRUE(removed.kept->is_new_hour);
    EXPECT_EQ(removed.kept->hour_name, now_);
    EXPECT_EQ(removed.kept->name, entry(at, a, "b"));
  }
  EXPECT_EQ(get(a).links, 1u);
  EXPECT_TRUE(meta_->orphans(10, {})->empty());

  // Replaced, imported over, a link, and the directory itself.
  const InodeId old = file(at, "c");
  file(at, "d");
  EXPECT_EQ(rename(at, "d", at, "c"), Code::ok);
  const auto id = meta_->unused_id();
  NewFile place{*id, at, "c", options_.default_layout, true};
  settle_layout(place.layout, place.inode);
  const InodeId replaced = meta_->lookup(root_, at, "c")->inode;
  std::vector<Result<MadeFile>> made;
  ASSERT_TRUE(meta_->create_files(root_, {{place, 0644, 100, {}, false}}, &made).ok());
  ASSERT_TRUE(made.front().has_value());
  EXPECT_FALSE(made.front()->replaced.last_link);
  const InodeId link = meta_->make_symlink(root_, at, "link", "to")->inode;
  ASSERT_TRUE(unlink(at, "link").ok());
  ASSERT_TRUE(unlink(at, "c").ok());
  const FileTime before = get(at).modified;
  ASSERT_TRUE(meta_->remove_directory(root_, kRootInode, "at", &removed).ok());
  EXPECT_FALSE(removed.last_link);
  EXPECT_EQ(get(at).modified, before);
  EXPECT_EQ(get(at).links, 2u);
  Names wanted{entry(at, a, "b"),       entry(at, old, "c"), entry(at, replaced, "c"),
               entry(at, link, "link"), entry(at, *id, "c"), entry(kRootInode, at, "at")};
  std::sort(wanted.begin(), wanted.end());
  EXPECT_EQ(list(hour(now_)), wanted);
  EXPECT_EQ(hours(), Names{now_});
  // All of these, and the hour.
  EXPECT_EQ(meta_->counts()->inodes, inodes + 7);
  ASSERT_TRUE(meta_->close().ok());
  reopen();
  EXPECT_EQ(meta_->counts()->inodes, inodes + 7);
  EXPECT_EQ(list(hour(now_)), wanted);
}

TEST_F(TrashTest, days_are_those_of_the_nearest_directory) {
  const InodeId a = directory(kRootInode, "a");
  const InodeId b = directory(a, "b");
  const InodeId c = directory(b, "c");
  set(kRootInode, 7);
  set(b, 0);
  set(c, 30);
  const auto days = [&](InodeId inode) { return meta_->trash_of(inode)->days; };
  EXPECT_EQ(days(kRootInode), 7u);
  EXPECT_EQ(days(a), 7u);
  EXPECT_EQ(days(b), 0u);
  EXPECT_EQ(meta_->trash_of(c)->set_at, c);
  EXPECT_EQ(meta_->trash_of(file(c, "x"))->days, 30u);
  EXPECT_EQ(meta_->trash_of(file(a, "x"))->set_at, kRootInode);
  Removed removed;
  file(b, "y");
  ASSERT_TRUE(unlink(b, "y", &removed).ok());
  EXPECT_TRUE(removed.last_link);
  ASSERT_TRUE(unlink(c, "x").ok());
  EXPECT_EQ(hours(), Names{"2026-11-26-08.30d"});
  // What moves goes by where it is.
  EXPECT_EQ(rename(b, "c", a, "c"), Code::ok);
  set(c, std::nullopt);
  EXPECT_EQ(days(c), 7u);
  EXPECT_EQ(rename(a, "c", b, "c"), Code::ok);
  EXPECT_EQ(days(c), 0u);
  reopen();
  EXPECT_EQ(days(c), 0u);
  EXPECT_EQ(days(a), 7u);
  const auto settings = meta_->trash_settings({}, 10);
  ASSERT_EQ(settings->size(), 2u);
  EXPECT_EQ(settings->front().directory, kRootInode);
  EXPECT_EQ(settings->front().path, "/somewhere");
  EXPECT_EQ(meta_->trash_settings(kRootInode, 10)->front().directory, b);
  EXPECT_EQ(meta_->set_trash(kRootInode, kTrashDaysMax + 1, "/").code(), Code::invalid_argument);
  EXPECT_EQ(meta_->set_trash(top(), 1, "/").code(), Code::invalid_argument);
  EXPECT_EQ(meta_->set_trash(meta_->lookup(root_, a, "x")->inode, 1, "/").code(),
            Code::not_directory);
  EXPECT_EQ(meta_->set_trash(InodeId(5), 1, "/").code(), Code::not_found);
}

TEST_F(TrashTest, of_a_directory_that_is_gone_is_said_nothing_any_more) {
  const InodeId a = directory(kRootInode, "a");
  set(a, 3);
  set(kRootInode, 0);
  ASSERT_TRUE(meta_->remove_directory(root_, kRootInode, "a", nullptr).ok());
  ASSERT_TRUE(meta_->forget(a).ok());
  reopen();
  EXPECT_EQ(meta_->trash_settings({}, 10)->size(), 1u);
  EXPECT_EQ(meta_->trash_settings({}, 10)->front().directory, kRootInode);
}

TEST_F(TrashTest, is_hidden_and_nothing_is_made_in_it) {
  set(kRootInode, 7);
  const InodeId at = directory(kRootInode, "at");
  const InodeId a = file(at, "a");
  const InodeId b = file(at, "b");
  const InodeId gone = directory(at, "gone");
  ASSERT_TRUE(unlink(at, "a").ok());
  ASSERT_TRUE(meta_->remove_directory(root_, at, "gone", nullptr).ok());
  EXPECT_EQ(list(kRootInode), Names{"at"});
  const InodeId in = hour(now_);
  Credentials kernel;
  kernel.enforce = false;
  for (const Credentials& who : {root_, kernel}) {
    for (const InodeId parent : {top(), in}) {
      EXPECT_EQ(meta_->create(who, parent, "x", 0644, false).error(), Code::not_permitted);
      EXPECT_EQ(meta_->make_directory(who, parent, "x", 0755).error(), Code::not_permitted);
      EXPECT_EQ(meta_->make_symlink(who, parent, "x", "y").error(), Code::not_permitted);
      EXPECT_EQ(meta_->link(who, b, parent, "x").error(), Code::not_permitted);
      EXPECT_EQ(meta_->rename(who, at, "b", parent, "x", {}, nullptr), Code::not_permitted);
      EXPECT_EQ(meta_->create_unnamed(who, parent, 0644, *meta_->unused_id()).error(),
                Code::not_permitted);
      SetAttributes changes;
      changes.mode = 0777;
      EXPECT_EQ(meta_->set_attributes(who, parent, changes).error(), Code::not_permitted);
      EXPECT_EQ(meta_->set_xattr(who, parent, "user.x", "y", XattrMode::any), Code::not_permitted);
      EXPECT_EQ(meta_->set_layout(who, parent, [](Layout&) { return Status(); }).error(),
                Code::not_permitted);
    }
    // As if it were gone.
    EXPECT_EQ(meta_->create(who, gone, "x", 0644, false).error(), Code::not_found);
    EXPECT_EQ(meta_->rename(who, at, "b", gone, "x", {}, nullptr), Code::not_found);
    EXPECT_EQ(meta_->rename(who, kRootInode, kTrashName, at, "x", {}, nullptr),
              Code::not_permitted);
    EXPECT_EQ(meta_->rename(who, top(), now_, at, "x", {}, nullptr), Code::not_permitted);
    EXPECT_EQ(meta_->rename(who, in, entry(at, a, "a"), in, "x", {}, nullptr), Code::not_permitted);
    RenameFlags exchange;
    exchange.exchange = true;
    EXPECT_EQ(meta_->rename(who, in, entry(at, a, "a"), at, "b", exchange, nullptr),
              Code::not_permitted);
    EXPECT_EQ(meta_->rename(who, at, "b", in, entry(at, a, "a"), {}, nullptr), Code::not_permitted);
    EXPECT_EQ(meta_->remove_directory(who, kRootInode, kTrashName, nullptr), Code::not_permitted);
    EXPECT_EQ(meta_->remove_directory(who, top(), now_, nullptr), Code::not_empty);
    EXPECT_EQ(meta_->create(who, kRootInode, kTrashName, 0644, false).error(), Code::is_directory);
  }
  // Others see hours, and nothing in them.
  EXPECT_TRUE(meta_->lookup(alice_, top(), now_).has_value());
  EXPECT_EQ(meta_->lookup(alice_, in, entry(at, a, "a")).error(), Code::access_denied);
  EXPECT_EQ(meta_->unlink(alice_, in, entry(at, a, "a"), nullptr), Code::access_denied);
}

TEST_F(TrashTest, what_somebody_named_like_it_before_stays) {
  const auto made = meta_->make_directory(root_, kRootInode, "mine", 0755);
  ASSERT_TRUE(storage_->kv()
                  .run(engine::KvMode::write,
                       [&](engine::KvTransaction& transaction) -> Status {
                         // As an older release would have made it.
                         const Keys keys("");
                         transaction.put(
                             keys.dentry(kRootInode, kTrashName),
                             encode(Dentry{made->inode, FileType::directory, made->inode.value}));
                         transaction.put(keys.cookie(kRootInode, made->inode.value),
                                         encode(CookieEntry{std::string(kTrashName), made->inode,
                                                            FileType::directory}));
                         transaction.erase(keys.dentry(kRootInode, "mine"));
                         return {};
                       })
                  .ok());
  reopen();
  EXPECT_EQ(meta_->set_trash(kRootInode, 1, "/"), Code::already_exists);
  EXPECT_EQ(list(kRootInode), Names{std::string(kTrashName)});
  file(top(), "a");
  ASSERT_TRUE(unlink(top(), "a").ok());
  EXPECT_EQ(rename(kRootInode, std::string(kTrashName), kRootInode, "mine"), Code::ok);
  set(kRootInode, 1);
  EXPECT_EQ(list(kRootInode), Names{"mine"});
}

TEST_F(TrashTest, gives_back_what_is_moved_out) {
  set(kRootInode, 7);
  const InodeId at = directory(kRootInode, "at");
  const InodeId sub = directory(at, "sub");
  const InodeId a = file(sub, "a");
  ASSERT_TRUE(unlink(sub, "a").ok());
  ASSERT_TRUE(meta_->remove_directory(root_, at, "sub", nullptr).ok());
  EXPECT_EQ(get(at).links, 2u);
  const InodeId in = hour(now_);
  EXPECT_EQ(rename(in, entry(sub, a, "a"), sub, "a"), Code::not_found) << "its place is removed";
  EXPECT_EQ(rename(in, entry(at, sub, "sub"), at, "sub"), Code::ok);
  EXPECT_EQ(get(at).links, 3u);
  EXPECT_EQ(get(in).links, 2u);
  EXPECT_EQ(rename(in, entry(sub, a, "a"), sub, "a"), Code::ok);
  EXPECT_EQ(meta_->lookup(root_, sub, "a")->inode, a);
  EXPECT_EQ(meta_->lookup(root_, sub, "..")->inode, at);
  file(sub, "b");
  EXPECT_EQ(kept(), Names());
  // Once more within the hour.
  ASSERT_TRUE(unlink(sub, "a").ok());
  EXPECT_EQ(kept(), Names{now_ + "/" + entry(sub, a, "a")});
  // Elsewhere, over something else, that goes there itself.
  const InodeId b = meta_->lookup(root_, sub, "b")->inode;
  EXPECT_EQ(rename(in, entry(sub, a, "a"), sub, "b"), Code::ok);
  EXPECT_EQ(kept(), Names{now_ + "/" + entry(sub, b, "b")});
  // A second name outside: then it is one of two.
  ASSERT_TRUE(meta_->link(root_, b, at, "b").has_value());
  ASSERT_TRUE(unlink(in, entry(sub, b, "b")).ok());
  EXPECT_EQ(get(b).links, 1u);
}

TEST_F(TrashTest, what_is_removed_there_is_gone) {
  set(kRootInode, 7);
  const InodeId a = file(kRootInode, "a");
  const InodeId d = directory(kRootInode, "d");
  ASSERT_TRUE(unlink(kRootInode, "a").ok());
  ASSERT_TRUE(meta_->remove_directory(root_, kRootInode, "d", nullptr).ok());
  const InodeId in = hour(now_);
  Removed removed;
  ASSERT_TRUE(unlink(in, entry(kRootInode, a, "a"), &removed).ok());
  EXPECT_TRUE(removed.last_link);
  ASSERT_TRUE(meta_->remove_directory(root_, in, entry(kRootInode, d, "d"), &removed).ok());
  EXPECT_TRUE(removed.last_link);
  ASSERT_TRUE(meta_->remove_directory(root_, top(), now_, &removed).ok());
  EXPECT_TRUE(removed.last_link);
  EXPECT_EQ(hours(), Names());
  ASSERT_TRUE(meta_->forget_many(*meta_->orphans(10, {})).ok());
  EXPECT_EQ(meta_->counts()->inodes, 2u);
  // The hour again.
  file(kRootInode, "b");
  ASSERT_TRUE(unlink(kRootInode, "b", &removed).ok());
  EXPECT_FALSE(removed.last_link);
  EXPECT_EQ(hours(), Names{now_});
}

TEST_F(TrashTest, hours_are_emptied_in_steps) {
  set(kRootInode, 7);
  for (int i = 0; i < 5; ++i) {
    file(kRootInode, std::to_string(i));
    ASSERT_TRUE(unlink(kRootInode, std::to_string(i)).ok());
  }
  clock_.hour += 1;
  file(kRootInode, "later");
  ASSERT_TRUE(unlink(kRootInode, "later").ok());
  const InodeId in = hour(now_);
  const auto first = meta_->empty_trash(in, 0, 2);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->removed, 2u);
  EXPECT_EQ(first->orphans.size(), 2u);
  EXPECT_FALSE(first->finished);
  EXPECT_EQ(list(in).size(), 3u);
  const auto rest = meta_->empty_trash(in, first->last, 100);
  EXPECT_EQ(rest->removed, 3u);
  EXPECT_TRUE(rest->finished);
  EXPECT_EQ(rest->orphans.size(), 4u) << "and the hour";
  EXPECT_EQ(hours(), Names{"2026-11-26-09.7d"});
  EXPECT_EQ(kept().size(), 1u);
  EXPECT_TRUE(meta_->empty_trash(in, 0, 10)->finished);
  EXPECT_EQ(meta_->empty_trash(top(), 0, 10).error(), Code::invalid_argument);
  EXPECT_EQ(meta_->empty_trash(kRootInode, 0, 10).error(), Code::invalid_argument);
  EXPECT_TRUE(meta_->empty_trash(InodeId(7), 0, 10)->finished);
}

TEST_F(TrashTest, counts_for_its_owner_and_for_no_directory) {
  const InodeId at = directory(kRootInode, "at");
  set(kRootInode, 7);
  const QuotaSubject user = QuotaSubject::of_user(alice_.uid);
  for (const QuotaSubject subject :
       {user, QuotaSubject::of_directory(at), QuotaSubject::of_directory(kRootInode)}) {
    ASSERT_TRUE(meta_->set_quota(subject, {.bytes = 0, .inodes = 3}, "/").ok());
  }
  const auto inodes = [&](QuotaSubject subject) {
    const auto check = meta_->check_quota(subject, false);
    EXPECT_EQ(check->found, check->quota.used);
    const auto quotas = meta_->quotas({}, 10);
    for (const Quota& quota : *quotas) {
      if (quota.subject == subject) {
        EXPECT_EQ(quota.used, check->found);
      }
    }
    return check->found.inodes;
  };
  Credentials kernel = alice_;
  kernel.enforce = false;
  const InodeId a = file(at, "a", kernel);
  const InodeId d = directory(at, "d", kernel);
  EXPECT_EQ(inodes(user), 2u);
  ASSERT_TRUE(unlink(at, "a").ok());
  ASSERT_TRUE(meta_->remove_directory(root_, at, "d", nullptr).ok());
  EXPECT_EQ(inodes(user), 2u);
  EXPECT_EQ(inodes(QuotaSubject::of_directory(at)), 0u);
  EXPECT_EQ(inodes(QuotaSubject::of_directory(kRootInode)), 1u);
  // Also at the limit, and beyond it.
  file(at, "b", kernel);
  EXPECT_EQ(meta_->create(kernel, at, "c", 0644, true).error(), Code::over_quota);
  ASSERT_TRUE(meta_->set_quota(user, {.bytes = 1, .inodes = 1}, "/").ok());
  ASSERT_TRUE(unlink(at, "b").ok());
  EXPECT_EQ(inodes(user), 3u);
  // Back into its directory, if that has room.
  ASSERT_TRUE(
      meta_->set_quota(QuotaSubject::of_directory(at), {.bytes = 0, .inodes = 1}, "/").ok());
  const InodeId in = hour(now_);
  EXPECT_EQ(rename(in, entry(at, d, "d"), at, "d"), Code::ok);
  EXPECT_EQ(rename(in, entry(at, a, "a"), at, "a"), Code::over_quota);
  EXPECT_EQ(inodes(QuotaSubject::of_directory(at)), 1u);
  ASSERT_TRUE(meta_->empty_trash(in, 0, 100).has_value());
  EXPECT_EQ(inodes(user), 1u);
}

TEST_F(TrashTest, an_hour_that_was_emptied_meanwhile_is_made_anew) {
  set(kRootInode, 7);
  file(kRootInode, "a");
  file(kRootInode, "b");
  ASSERT_TRUE(unlink(kRootInode, "a").ok());
  ASSERT_TRUE(meta_->empty_trash(hour(now_), 0, 10).has_value());
  ASSERT_TRUE(unlink(kRootInode, "b").ok());
  EXPECT_EQ(kept().size(), 1u);
}

// Threads that remove in one directory, one that empties the hour all the time: every file is an
// orphan in the end, or in the trash, and nothing failed.
TEST_F(TrashTest, removals_and_emptying_by_many_threads_lose_nothing) {
  storage_ = make_storage("rocksdb");
  options_.cached_records = 64;
  reopen();
  set(kRootInode, 7);
  constexpr int kThreads = 4;
  constexpr int kFiles = 100;
  const uint64_t before = meta_->counts()->inodes;
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kFiles; ++i) {
        const std::string name = std::to_string(t) + "-" + std::to_string(i);
        if (i % 4 == 0) {
          EXPECT_TRUE(meta_->make_directory(root_, kRootInode, name, 0755).has_value());
          EXPECT_TRUE(meta_->remove_directory(root_, kRootInode, name, nullptr).ok());
        } else {
          EXPECT_TRUE(meta_->create(root_, kRootInode, name, 0644, true).has_value());
          EXPECT_TRUE(unlink(kRootInode, name).ok());
        }
      }
      --running;
    });
  }
  uint64_t emptied = 0;
  uint64_t hours_made = 0;
  std::vector<InodeId> gone;
  do {
    for (const std::string& name : hours()) {
      const auto found = meta_->lookup(root_, top(), name);
      if (!found) continue;
      const auto done = meta_->empty_trash(found->inode, 0, 16);
      ASSERT_TRUE(done.has_value());
      emptied += done->removed;
      hours_made += done->orphans.size() - done->removed;
      gone.insert(gone.end(), done->orphans.begin(), done->orphans.end());
    }
  } while (running > 0);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(list(kRootInode), Names());
  EXPECT_EQ(emptied + kept().size(), static_cast<uint64_t>(kThreads * kFiles));
  std::sort(gone.begin(), gone.end());
  EXPECT_EQ(*meta_->orphans(10'000, {}), gone);
  EXPECT_EQ(meta_->counts()->inodes, before + kThreads * kFiles + hours_made + hours().size());
}

}  // namespace
}  // namespace penstock::meta
