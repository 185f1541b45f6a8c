// Random removals, restores and expiries, over a store that conflicts, is killed and loses power,
// beside a model of what is to be in the trash.
#include "hours_clock.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <set>

#include "penstock/testing_meta.h"

namespace penstock::meta {
namespace {

// By hour's name and entry's.
using Kept = std::set<std::pair<std::string, std::string>>;

class TrashModel {
 public:
  TrashModel(const std::string& backend, uint64_t seed)
      : random_(seed), storage_(make_storage(backend, seed)), is_sim_(backend == "sim") {
    options_.cached_records = seed % 2 == 0 ? 16 : 0;
    meta_ = open_meta(storage_->kv(), clock_, options_);
    users_ = {100, 101};
    for (const uint32_t uid : users_) {
      while (!meta_->set_quota(QuotaSubject::of_user(uid), {}, "").ok()) {
      }
    }
  }

  void step() {
    switch (random_.below(12)) {
      case 0:
      case 1:
      case 2:
        return make();
      case 3:
      case 4:
        return remove();
      case 5:
      case 6:
        return rename();
      case 7:
        return restore();
      case 8:
        return set();
      case 9:
        return random_.chance(1, 3) ? empty() : link();
      case 10:
        if (random_.chance(1, 4)) clock_.hour += static_cast<int64_t>(random_.below(5));
        return;
      default:
        return collect();
    }
  }

  void restart() {
    if (random_.chance(1, 3)) {
      EXPECT_TRUE(meta_->close().ok());
    }
    // Nothing that the model knows goes.
    EXPECT_TRUE(meta_->sync().ok());
    meta_.reset();
    if (is_sim_ && random_.chance(1, 2)) {
      static_cast<SimStorage&>(*storage_).power_cut();
    } else {
      storage_->restart();
    }
    meta_ = open_meta(storage_->kv(), clock_, options_);
  }

  void check() {
    ASSERT_EQ(kept_now(), kept_);
    // Every inode has a place, or waits to be collected.
    std::map<InodeId, uint32_t> names;
    std::map<InodeId, Attributes> found;
    walk(kRootInode, found, names);
    if (top() != InodeId()) {
      walk(top(), found, names);
      names[top()] = 1;
      found[top()] = *meta_->attributes(top());
    }
    const auto orphans = meta_->orphans(SIZE_MAX, {});
    ASSERT_EQ(meta_->counts()->inodes, 1 + found.size() + orphans->size());
    for (const auto& [inode, attributes] : found) {
      const bool is_directory = attributes.type == FileType::directory;
      ASSERT_EQ(names[inode], is_directory ? 1 : attributes.links) << inode.value;
    }
    for (const uint32_t uid : users_) {
      const auto counted = meta_->check_quota(QuotaSubject::of_user(uid), false);
      ASSERT_EQ(counted->found, counted->quota.used) << uid;
      const auto owned = std::count_if(found.begin(), found.end(),
                                       [uid](const auto& one) { return one.second.uid == uid; });
      ASSERT_EQ(counted->found.inodes, static_cast<uint64_t>(owned));
    }
  }

 private:
  InodeId top() {
    const auto found = meta_->lookup(root_, kRootInode, kTrashName);
    return found ? found->inode : InodeId();
  }
  std::vector<DirectoryEntry> list(InodeId directory) {
    std::vector<DirectoryEntry> all;
    EXPECT_TRUE(meta_
                    ->read_directory(directory, 0, SIZE_MAX, false,
                                     [&](const DirectoryEntry& entry, const Attributes*) {
                                       all.push_back(entry);
                                       return true;
                                     })
                    .ok());
    return all;
  }
  Kept kept_now() {
    Kept kept;
    if (top() == InodeId()) return kept;
    for (const DirectoryEntry& hour : list(top())) {
      for (const DirectoryEntry& entry : list(hour.inode)) kept.emplace(hour.name, entry.name);
    }
    return kept;
  }
  void walk(InodeId directory, std::map<InodeId, Attributes>& found,
            std::map<InodeId, uint32_t>& names) {
    for (const DirectoryEntry& entry : list(directory)) {
      found[entry.inode] = *meta_->attributes(entry.inode);
      ++names[entry.inode];
      if (entry.type == FileType::directory) walk(entry.inode, found, names);
    }
  }

  InodeId any_directory() {
    InodeId here = kRootInode;
    while (random_.chance(2, 3)) {
      std::vector<InodeId> below;
      for (const DirectoryEntry& entry : list(here)) {
        if (entry.type == FileType::directory) below.push_back(entry.inode);
      }
      if (below.empty()) break;
      here = below[random_.below(below.size())];
    }
    return here;
  }
  std::string any_name() { return std::string(1, static_cast<char>('a' + random_.below(5))); }
  Credentials any_user() {
    Credentials who;
    who.uid = users_[random_.below(users_.size())];
    who.enforce = false;
    return who;
  }
  // As the rule says it, from the directory up.
  uint32_t days_in(InodeId directory) {
    while (true) {
      const auto days = days_.find(directory);
      if (days != days_.end()) return days->second;
      if (directory == kRootInode) return 0;
      directory = meta_->lookup(root_, directory, "..")->inode;
    }
  }

  // What is expected of a removal of this, before it happens.
  struct Leaving {
    std::optional<Attributes> what;
    std::pair<std::string, std::string> kept;
    bool is_kept = false;
  };
  Leaving leaving(InodeId parent, const std::string& name) {
    Leaving leaving;
    const auto found = meta_->lookup(root_, parent, name);
    if (!found) return leaving;
    leaving.what = *found;
    const uint32_t days = days_in(parent);
    const bool is_last = found->type == FileType::directory || found->links == 1;
    leaving.is_kept = days > 0 && is_last;
    leaving.kept = {name_of(trash_hour(clock_.wall(), days)),
                    name_of(TrashEntry{parent, found->inode, name})};
    return leaving;
  }
  // A store that says it may have happened is asked.
  void note(Status status, const Leaving& leaving, InodeId parent, const std::string& name) {
    if (!leaving.what) return;
    bool happened = status.ok();
    if (status == Code::may_have_happened) {
      const auto there = meta_->lookup(root_, parent, name);
      happened = !there || there->inode != leaving.what->inode;
    }
    if (happened && leaving.is_kept) kept_.insert(leaving.kept);
  }
  static void expect_sane(Status status) {
    EXPECT_NE(status.code(), Code::corrupt);
    EXPECT_NE(status.code(), Code::busy);
  }

  void make() {
    const InodeId parent = any_directory();
    const auto status = [](const auto& made) { return made ? Status() : made.error(); };
    const Status done = random_.chance(1, 3)
                            ? status(meta_->make_directory(any_user(), parent, any_name(), 0755))
                            : status(meta_->create(any_user(), parent, any_name(), 0644, true));
    expect_sane(done);
    if (random_.chance(1, 20)) {
      EXPECT_EQ(meta_->create(root_, kRootInode, ".trash", 0644, true).error().code(),
                top() == InodeId() ? Code::not_permitted : Code::already_exists);
    }
  }
  void link() {
    const auto found = meta_->lookup(root_, any_directory(), any_name());
    if (!found || found->type == FileType::directory) return;
    const auto linked = meta_->link(root_, found->inode, any_directory(), any_name());
    expect_sane(linked ? Status() : linked.error());
  }
  void remove() {
    const InodeId parent = any_directory();
    const std::string name = any_name();
    const Leaving what = leaving(parent, name);
    if (!what.what) return;
    const Status status = what.what->type == FileType::directory
                              ? meta_->remove_directory(root_, parent, name, nullptr)
                              : meta_->unlink(root_, parent, name, nullptr);
    expect_sane(status);
    note(status, what, parent, name);
  }
  void rename() {
    const InodeId from = any_directory();
    const InodeId to = any_directory();
    const std::string name = any_name();
    const std::string new_name = any_name();
    const auto moved = meta_->lookup(root_, from, name);
    Leaving what = leaving(to, new_name);
    // Two names of one file: nothing happens.
    if (!moved || (what.what && what.what->inode == moved->inode)) return;
    const Status status = meta_->rename(root_, from, name, to, new_name, {}, nullptr);
    expect_sane(status);
    note(status, what, to, new_name);
  }
  void restore() {
    if (kept_.empty()) return;
    auto one = kept_.begin();
    std::advance(one, static_cast<int64_t>(random_.below(kept_.size())));
    const auto hour = meta_->lookup(root_, top(), one->first);
    ASSERT_TRUE(hour.has_value());
    const auto parsed = parse_trash_entry(one->second);
    ASSERT_TRUE(parsed.has_value());
    const bool there = random_.chance(2, 3);
    const InodeId to = there ? parsed->parent : any_directory();
    RenameFlags flags;
    flags.no_replace = true;
    const std::string name = there ? parsed->name : any_name();
    const Status status = meta_->rename(root_, hour->inode, one->second, to, name, flags, nullptr);
    expect_sane(status);
    const auto left = meta_->lookup(root_, hour->inode, one->second);
    if (status != Code::may_have_happened) {
      EXPECT_EQ(left.has_value(), !status.ok());
    }
    if (!left) kept_.erase(one);
  }
  void set() {
    const InodeId directory = any_directory();
    std::optional<uint32_t> days;
    if (random_.chance(2, 3)) days = static_cast<uint32_t>(random_.below(3));
    const Status status = meta_->set_trash(directory, days, "/path");
    expect_sane(status);
    if (status == Code::may_have_happened) {
      // Neither this process nor the model may go by what nobody knows.
      restart();
      days = std::nullopt;
      const auto settings = meta_->trash_settings({}, SIZE_MAX);
      for (const TrashSetting& setting : *settings) {
        if (setting.directory == directory) days = setting.days;
      }
    } else if (!status.ok()) {
      return;
    }
    if (days) {
      days_[directory] = *days;
    } else {
      days_.erase(directory);
    }
  }
  // What is over, as the node with the names removes it: a part.
  void empty() {
    if (top() == InodeId()) return;
    for (const DirectoryEntry& hour : list(top())) {
      const auto parsed = parse_trash_hour(hour.name);
      ASSERT_TRUE(parsed.has_value());
      if (random_.chance(1, 2)) continue;
      const auto done = meta_->empty_trash(hour.inode, 0, 1 + random_.below(4));
      expect_sane(done ? Status() : done.error());
      // These and no others went.
      const Kept now = kept_now();
      std::erase_if(kept_,
                    [&](const auto& one) { return one.first == hour.name && now.count(one) == 0; });
      if (done) {
        EXPECT_LE(done->removed, 4u);
      }
    }
  }
  void collect() {
    const auto orphans = meta_->orphans(SIZE_MAX, {});
    for (const InodeId orphan : *orphans) {
      // Its number never comes again.
      days_.erase(orphan);
      expect_sane(meta_->forget(orphan));
    }
  }

  const Credentials root_;
  engine::SeededRandom random_;
  HoursClock clock_;
  MetaOptions options_;
  std::unique_ptr<Storage> storage_;
  const bool is_sim_;
  std::unique_ptr<Meta> meta_;
  std::vector<uint32_t> users_;
  std::map<InodeId, uint32_t> days_;
  Kept kept_;
};

void run_trash(const std::string& backend, uint64_t seed, int steps, int check_every) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  TrashModel model(backend, seed);
  for (int i = 1; i <= steps; ++i) {
    model.step();
    if (i % check_every == 0) model.check();
    if (i % (5 * check_every) == 0) {
      model.restart();
      model.check();
    }
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << "at step " << i;
      return;
    }
  }
}

TEST(TrashModelTest, has_what_was_removed_in_memory) {
  for (uint64_t seed = 1; seed <= 10; seed += one_run_in()) run_trash("memory", seed, 2'000, 10);
}

TEST(TrashModelTest, has_what_was_removed_after_kills_and_power_cuts) {
  for (uint64_t seed = 1; seed <= 20; seed += one_run_in()) run_trash("sim", seed, 600, 10);
}

TEST(TrashModelTest, has_what_was_removed_on_rocksdb) {
  run_trash("rocksdb", 1, 1'000, 50);
}

}  // namespace
}  // namespace penstock::meta
