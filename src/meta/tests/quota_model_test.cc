// Random operations with quotas, over a store that conflicts, is killed and loses power: what is
// counted is always what there is.
#include <gtest/gtest.h>
#include <map>
#include <set>

#include "penstock/testing_meta.h"

namespace penstock::meta {
namespace {

using Links = std::map<InodeId, std::vector<InodeId>>;  // by file: the directories of its names

class QuotaModel {
 public:
  QuotaModel(const std::string& backend, uint64_t seed)
      : random_(seed), storage_(make_storage(backend, seed)), is_sim_(backend == "sim") {
    options_.cached_records = seed % 2 == 0 ? 16 : 0;
    meta_ = open_meta(storage_->kv(), clock_, options_);
  }

  void step() {
    switch (random_.below(20)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return make();
      case 4:
        return make_many();
      case 5:
      case 6:
        return link();
      case 7:
      case 8:
        return remove();
      case 9:
      case 10:
      case 11:
      case 12:
        return rename();
      case 13:
      case 14:
        return settle();
      case 15:
        return change();
      case 16:
        return set();
      case 17:
        return unnamed();
      default:
        return reserve();
    }
  }

  void restart() {
    const uint64_t how = random_.below(3);
    if (how == 0) {
      ASSERT_TRUE(meta_->close().ok());
    }
    meta_.reset();
    if (how == 2 && is_sim_) {
      static_cast<SimStorage&>(*storage_).power_cut();
    } else {
      storage_->restart();
    }
    meta_ = open_meta(storage_->kv(), clock_, options_);
  }

  void check() {
    const auto all = meta_->quotas({}, SIZE_MAX);
    ASSERT_TRUE(all.has_value());
    for (const Quota& quota : *all) {
      const auto check = meta_->check_quota(quota.subject, false);
      if (!check) {
        // The directory is gone.
        ASSERT_EQ(check.error().code(), Code::not_found);
        ASSERT_TRUE(meta_->delete_quota(quota.subject).ok());
        continue;
      }
      ASSERT_EQ(check->found, quota.used) << "of " << quota.subject.id;
      ASSERT_EQ(check->quota.used, quota.used) << "of " << quota.subject.id;
      ASSERT_TRUE(quota.counted);
      check_by_names(quota);
      if (HasFailure()) return;
    }
  }

  bool HasFailure() const { return testing::Test::HasFailure(); }

 private:
  // What names alone say: between what counts in any case, and what may.
  void check_by_names(const Quota& quota) {
    std::map<InodeId, Attributes> found;
    std::map<InodeId, uint32_t> names;
    const bool user = quota.subject.kind == QuotaSubject::Kind::user;
    walk(user ? kRootInode : InodeId(quota.subject.id), found, names);
    QuotaUsage least;
    QuotaUsage most;
    for (const auto& [id, attributes] : found) {
      if (user && attributes.uid != quota.subject.id) continue;
      const uint64_t length = attributes.type == FileType::regular ? attributes.length : 0;
      const bool all_here = attributes.type == FileType::directory || names[id] == attributes.links;
      most.bytes += quota_bytes(length);
      ++most.inodes;
      least.bytes += all_here ? quota_bytes(length) : 0;
      least.inodes += all_here ? 1 : 0;
    }
    ASSERT_GE(quota.used.inodes, least.inodes);
    ASSERT_LE(quota.used.inodes, most.inodes);
    ASSERT_GE(quota.used.bytes, least.bytes);
    ASSERT_LE(quota.used.bytes, most.bytes);
  }

  void walk(InodeId directory, std::map<InodeId, Attributes>& found,
            std::map<InodeId, uint32_t>& names) {
    std::vector<InodeId> below;
    ASSERT_TRUE(meta_
                    ->read_directory(directory, 0, SIZE_MAX, true,
                                     [&](const DirectoryEntry& entry, const Attributes* its) {
                                       found[entry.inode] = *its;
                                       ++names[entry.inode];
                                       if (entry.type == FileType::directory) {
                                         below.push_back(entry.inode);
                                       }
                                       return true;
                                     })
                    .ok());
    for (const InodeId one : below) walk(one, found, names);
  }

  InodeId any_directory() {
    std::map<InodeId, Attributes> found;
    std::map<InodeId, uint32_t> names;
    walk(kRootInode, found, names);
    std::vector<InodeId> all{kRootInode};
    for (const auto& [id, attributes] : found) {
      if (attributes.type == FileType::directory) all.push_back(id);
    }
    return all[random_.below(all.size())];
  }
  std::string any_name() { return std::string(1, static_cast<char>('a' + random_.below(6))); }
  std::optional<Attributes> any_entry() {
    const auto found = meta_->lookup(root_, any_directory(), any_name());
    return found ? std::optional(*found) : std::nullopt;
  }
  Credentials any_user() {
    Credentials who;
    who.uid = static_cast<uint32_t>(100 + random_.below(3));
    who.enforce = false;
    return who;
  }

  template <class T>
  static void expect_sane(const Result<T>& result) {
    if (!result) expect_sane(result.error());
  }
  static void expect_sane(Status status) {
    EXPECT_NE(status.code(), Code::corrupt);
    EXPECT_NE(status.code(), Code::busy);
  }

  void make() {
    const InodeId parent = any_directory();
    const std::string name = any_name();
    if (random_.chance(1, 3)) {
      expect_sane(meta_->make_directory(any_user(), parent, name, 0755));
    } else if (random_.chance(1, 5)) {
      expect_sane(meta_->make_symlink(any_user(), parent, name, "target"));
    } else {
      expect_sane(meta_->create(any_user(), parent, name, 0644, true));
    }
  }

  void make_many() {
    const InodeId parent = any_directory();
    std::vector<CompleteFile> files;
    for (int i = 0; i < 3; ++i) {
      const std::string name = any_name();
      const auto existing = meta_->lookup(root_, parent, name);
      if (existing && existing->type == FileType::directory) continue;
      const auto id = meta_->unused_id();
      NewFile place{*id, parent, name, options_.default_layout, existing.has_value()};
      settle_layout(place.layout, place.inode);
      files.push_back({place, 0644, random_.below(50'000), {}, false});
    }
    std::vector<Result<MadeFile>> made;
    expect_sane(meta_->create_files(any_user(), files, &made));
  }

  void link() {
    const auto entry = any_entry();
    if (entry) expect_sane(meta_->link(root_, entry->inode, any_directory(), any_name()));
  }

  void remove() {
    const InodeId parent = any_directory();
    const std::string name = any_name();
    expect_sane(random_.chance(1, 2) ? meta_->unlink(root_, parent, name, nullptr)
                                     : meta_->remove_directory(root_, parent, name, nullptr));
  }

  void rename() {
    RenameFlags flags;
    flags.exchange = random_.chance(1, 4);
    expect_sane(meta_->rename(root_, any_directory(), any_name(), any_directory(), any_name(),
                              flags, nullptr));
  }

  void settle() {
    const auto entry = any_entry();
    if (!entry || entry->type != FileType::regular) return;
    expect_sane(meta_->settle(entry->inode,
                              {.length = random_.below(100'000),
                               .modified = FileTime(1, 0),
                               .only_grow = random_.chance(1, 3),
                               .end_session = random_.chance(1, 2)},
                              random_.chance(1, 4)));
  }

  void change() {
    const auto entry = any_entry();
    if (!entry) return;
    SetAttributes changes;
    if (random_.chance(1, 2)) changes.uid = any_user().uid;
    if (entry->type == FileType::regular && random_.chance(1, 2)) {
      changes.length = random_.below(100'000);
    }
    expect_sane(meta_->set_attributes(root_, entry->inode, changes));
  }

  void set() {
    const QuotaSubject subject = random_.chance(1, 3) ? QuotaSubject::of_user(any_user().uid)
                                                      : QuotaSubject::of_directory(any_directory());
    if (random_.chance(1, 4)) return expect_sane(meta_->delete_quota(subject));
    QuotaLimits limits;
    if (random_.chance(1, 3)) limits.bytes = random_.below(400'000);
    if (random_.chance(1, 3)) limits.inodes = 1 + random_.below(20);
    expect_sane(meta_->set_quota(subject, limits, "/path"));
  }

  void unnamed() {
    const auto id = meta_->unused_id();
    const auto made = meta_->create_unnamed(any_user(), any_directory(), 0644, *id);
    if (!made) return expect_sane(made);
    expect_sane(
        meta_->settle(*id, {.length = random_.below(50'000), .modified = FileTime(1, 0)}, false));
    if (random_.chance(1, 2)) expect_sane(meta_->link(root_, *id, any_directory(), any_name()));
  }

  void reserve() {
    const auto entry = any_entry();
    if (!entry || entry->type != FileType::regular) return;
    const uint64_t wanted = entry->length + random_.below(100'000);
    const auto promised = meta_->reserve(entry->inode, wanted);
    if (promised) {
      EXPECT_GE(*promised, wanted);
    }
    if (random_.chance(1, 2)) expect_sane(meta_->end_write(entry->inode));
  }

  const Credentials root_;
  engine::SeededRandom random_;
  TickingClock clock_;
  MetaOptions options_;
  std::unique_ptr<Storage> storage_;
  const bool is_sim_;
  std::unique_ptr<Meta> meta_;
};

void run(const std::string& backend, uint64_t seed, int steps, int check_every) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  QuotaModel model(backend, seed);
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

TEST(QuotaModel, usage_is_what_there_is_in_memory) {
  for (uint64_t seed = 1; seed <= 10; seed += one_run_in()) run("memory", seed, 2'000, 20);
}

TEST(QuotaModel, usage_is_what_there_is_after_kills_and_power_cuts) {
  for (uint64_t seed = 1; seed <= 20; seed += one_run_in()) run("sim", seed, 600, 10);
}

TEST(QuotaModel, usage_is_what_there_is_on_rocksdb) {
  run("rocksdb", 1, 1'000, 50);
}

}  // namespace
}  // namespace penstock::meta
