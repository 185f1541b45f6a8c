// What is kept, under which hold, and until when.
#include "penstock/kept_names.h"

#include <gtest/gtest.h>
#include <set>

#include "penstock/testing_meta.h"

namespace penstock::kept_names {
namespace {

using holds::Hold;
using meta::Attributes;
using meta::Credentials;
using meta::kRootInode;
using std::chrono::seconds;

// Has what the test says.
class FakeHolding final : public holds::Holding {
 public:
  bool enter(InodeId inode, Hold hold, holds::Ticket& ticket) override {
    if (!held.contains(inode) || hold > Hold::shared) return false;
    ticket.inode = inode;
    ++out;
    return true;
  }
  void leave(const holds::Ticket&) override { --out; }
  void wait(Waiter&) override { ASSERT(false); }
  bool cancel(Waiter&) override { return false; }
  bool is_good(const holds::Ticket&) override { return true; }
  void want(InodeId inode) override { wanted.push_back(inode); }
  void use(InodeId) override {}
  void unuse(InodeId) override {}
  engine::Duration lease_left() override { return lease; }
  holds::AgentId session() override { return {NodeId(1), 1}; }

  std::set<InodeId> held;
  std::vector<InodeId> wanted;
  engine::Duration lease = seconds(5);
  int out = 0;
};

class FakeClock final : public engine::Clock {
 public:
  engine::Time now() const override { return time; }
  engine::Time lease_now() const override { return time; }
  engine::WallTime wall() const override { return {}; }
  engine::Time time{seconds(100)};
};

// Counts questions, and says whether what they find is steady.
class AskedMeta final : public meta::PassedOn {
 public:
  using PassedOn::PassedOn;
  Status look(std::span<meta::Look> looks) override {
    ++questions;
    TRY(inner_.look(looks));
    for (meta::Look& look : looks) look.is_steady = is_steady;
    if (meanwhile) std::exchange(meanwhile, nullptr)();
    return Code::ok;
  }
  Result<Attributes> create(const Credentials& who, InodeId parent, std::string_view name,
                            uint32_t mode, bool exclusive, std::optional<meta::Layout> layout,
                            bool* created, meta::Creation how) override {
    if (is_lost) return Code::may_have_happened;
    return PassedOn::create(who, parent, name, mode, exclusive, std::move(layout), created, how);
  }

  Status unlink(const Credentials& who, InodeId parent, std::string_view name,
                meta::Removed* removed) override {
    if (is_lost) return Code::may_have_happened;
    return PassedOn::unlink(who, parent, name, removed);
  }

  int questions = 0;
  bool is_steady = true;
  bool is_lost = false;
  std::function<void()> meanwhile;
};

class KeptNamesTest : public testing::Test {
 protected:
  KeptNamesTest() {
    directory_ = meta_->make_directory({}, kRootInode, "d", 0755)->inode;
    file_ = meta_->create({}, directory_, "f", 0644, true)->inode;
    holding_.held = {kRootInode, directory_, file_};
  }
  // How often that asks.
  int asks(const std::function<void()>& what) {
    const int before = asked_.questions;
    what();
    EXPECT_EQ(holding_.out, 0);
    return asked_.questions - before;
  }
  int asks_for(std::string_view path) {
    return asks([&] { found_ = names_.resolve({}, path, true); });
  }

  meta::TickingClock meta_clock_;
  std::unique_ptr<meta::Storage> storage_ = meta::make_storage("memory");
  std::unique_ptr<meta::Meta> meta_ = meta::open_meta(storage_->kv(), meta_clock_);
  AskedMeta asked_{*meta_};
  FakeHolding holding_;
  FakeClock clock_;
  KeptNames names_{asked_, {.holding = &holding_, .clock = &clock_}};
  InodeId directory_, file_;
  Result<Attributes> found_ = Code::not_found;
};

TEST_F(KeptNamesTest, what_was_found_once_is_found_without_asking) {
  EXPECT_GT(asks_for("/d/f"), 0);
  EXPECT_GT(asks_for("/d/f"), 0);  // attributes of what an entry led to
  EXPECT_EQ(asks_for("/d/f"), 0);
  EXPECT_EQ(found_->inode, file_);
  EXPECT_EQ(asks_for("//d//f"), 0);
  EXPECT_EQ(asks([&] { EXPECT_EQ(names_.lookup({}, directory_, "f")->inode, file_); }), 0);
  EXPECT_EQ(asks([&] { EXPECT_EQ(names_.attributes(file_)->mode, 0644U); }), 0);
  EXPECT_GT(names_.figures().found, 0U);
}

TEST_F(KeptNamesTest, so_is_that_there_is_nothing) {
  asks_for("/d/none");
  asks_for("/d/none");
  EXPECT_EQ(asks_for("/d/none"), 0);
  EXPECT_EQ(found_.error(), Code::not_found);
  // Until it is made, here or elsewhere.
  ASSERT_TRUE(names_.create({}, directory_, "none", 0644, true, {}, nullptr, {}).has_value());
  asks_for("/d/none");
  EXPECT_TRUE(found_.has_value());
  asks_for("/d/other");
  ASSERT_TRUE(meta_->create({}, directory_, "other", 0644, true).has_value());
  names_.drop_names(directory_, {"other"});
  asks_for("/d/other");
  EXPECT_TRUE(found_.has_value());
}

TEST_F(KeptNamesTest, without_a_hold_nothing_is_kept_and_one_is_wanted_the_second_time) {
  holding_.held.clear();
  for (int i = 0; i < 3; ++i) EXPECT_GT(asks_for("/d/f"), 0);
  // Of files whoever opens them has it.
  EXPECT_EQ(holding_.wanted, (std::vector<InodeId>{kRootInode, directory_}));
  clock_.time += seconds(2);
  asks_for("/d/f");
  EXPECT_EQ(holding_.wanted.size(), 4U);
}

TEST_F(KeptNamesTest, what_was_being_changed_is_not_kept) {
  asked_.is_steady = false;
  for (int i = 0; i < 3; ++i) EXPECT_GT(asks_for("/d/f"), 0);
  asked_.is_steady = true;
  // Told while the answer was on its way.
  asked_.meanwhile = [&] { names_.drop_names(directory_, {"f"}); };
  names_.lookup({}, directory_, "f").value();
  EXPECT_EQ(asks([&] { names_.lookup({}, directory_, "f").value(); }), 1);
  asked_.meanwhile = [&] { names_.drop(file_); };
  names_.attributes(file_).value();
  EXPECT_EQ(asks([&] { names_.attributes(file_).value(); }), 1);
  EXPECT_EQ(asks([&] { names_.attributes(file_).value(); }), 0);
}

TEST_F(KeptNamesTest, what_a_name_leads_to_is_kept_with_it_where_that_was_known_before) {
  names_.attributes(directory_).value();
  meta::Look look{directory_, "f"};
  look.leads_to = file_;
  EXPECT_FALSE(names_.is_kept(directory_, "f", file_));
  EXPECT_EQ(asks([&] { ASSERT_TRUE(names_.look({&look, 1}).ok()); }), 1);
  EXPECT_TRUE(look.found->kept);
  EXPECT_TRUE(names_.is_kept(directory_, "f", file_));
  EXPECT_FALSE(names_.is_kept(directory_, "f", directory_));
  EXPECT_EQ(asks([&] { names_.lookup({}, directory_, "f").value(); }), 0);
  // Without a hold of the file, or where it is another one, only the name.
  names_.drop(file_);
  holding_.held.erase(file_);
  ASSERT_TRUE(names_.look({&look, 1}).ok());
  EXPECT_FALSE(look.found->kept);
  EXPECT_EQ(asks([&] { names_.attributes(file_).value(); }), 1);
  holding_.held.insert(file_);
  look.leads_to = directory_;
  ASSERT_TRUE(names_.look({&look, 1}).ok());
  EXPECT_FALSE(look.found->kept);
  EXPECT_EQ(asks([&] { names_.attributes(file_).value(); }), 1);
  // Nor where it was told of, or being changed, meanwhile.
  names_.drop(file_);
  look.leads_to = file_;
  asked_.meanwhile = [&] { names_.drop(file_); };
  ASSERT_TRUE(names_.look({&look, 1}).ok());
  EXPECT_FALSE(names_.is_kept(directory_, "f", file_));
  asked_.is_steady = false;
  ASSERT_TRUE(names_.look({&look, 1}).ok());
  EXPECT_FALSE(names_.is_kept(directory_, "f", file_));
}

TEST_F(KeptNamesTest, extended_attributes_that_are_not_there_are_known_by_the_others) {
  const auto get = [&](std::string_view name) { return names_.get_xattr({}, file_, name); };
  EXPECT_EQ(get("user.x").error(), Code::no_data);
  names_.attributes(file_).value();
  // What asks goes by another way than look().
  ASSERT_TRUE(meta_->set_xattr({}, file_, "user.x", "1", meta::XattrMode::any).ok());
  EXPECT_EQ(get("user.x").error(), Code::no_data) << "nobody has told of it";
  EXPECT_TRUE(names_.list_xattrs({}, file_)->empty());
  names_.drop_names(file_, {""});
  EXPECT_EQ(*get("user.x"), "1");
  names_.attributes(file_).value();
  EXPECT_EQ(*get("user.x"), "1");
  EXPECT_EQ(get("user.y").error(), Code::no_data);
  EXPECT_EQ(names_.list_xattrs({}, file_)->size(), 1U);
  ASSERT_TRUE(names_.set_xattr({}, file_, "user.y", "2", meta::XattrMode::any).ok());
  EXPECT_EQ(*get("user.y"), "2");
  EXPECT_EQ(get("odd.name").error(), Code::not_supported);
  Credentials other;
  other.uid = other.gid = 1000;
  meta::SetAttributes changes;
  changes.mode = 0600;
  ASSERT_TRUE(names_.set_attributes({}, file_, changes).has_value());
  ASSERT_TRUE(names_.remove_xattr({}, file_, "user.x").ok());
  ASSERT_TRUE(names_.remove_xattr({}, file_, "user.y").ok());
  names_.attributes(file_).value();
  EXPECT_EQ(names_.get_xattr(other, file_, "user.x").error(), Code::access_denied);
}

TEST_F(KeptNamesTest, nothing_is_found_when_the_lease_is_over) {
  for (int i = 0; i < 3; ++i) asks_for("/d/f");
  holding_.lease = {};
  EXPECT_EQ(asks([&] { names_.attributes(file_).value(); }), 1);
  asks([&] { EXPECT_EQ(names_.lookup({}, directory_, "f")->inode, file_); });
  ASSERT_TRUE(meta_->unlink({}, directory_, "f", nullptr).ok());
  asks_for("/d/f");
  EXPECT_EQ(found_.error(), Code::not_found);
}

TEST_F(KeptNamesTest, own_changes_are_seen_at_once) {
  for (int i = 0; i < 3; ++i) asks_for("/d/f");
  meta::SetAttributes changes;
  changes.mode = 0600;
  ASSERT_TRUE(names_.set_attributes({}, file_, changes).has_value());
  EXPECT_EQ(names_.attributes(file_)->mode, 0600U);
  ASSERT_TRUE(names_.link({}, file_, directory_, "g").has_value());
  EXPECT_EQ(names_.attributes(file_)->links, 2U);
  ASSERT_TRUE(names_.rename({}, directory_, "g", kRootInode, "h", {}, nullptr).ok());
  EXPECT_EQ(names_.lookup({}, directory_, "g").error(), Code::not_found);
  EXPECT_EQ(names_.resolve({}, "/h", true)->inode, file_);
  // Also where the entry was not known.
  const auto before = names_.attributes(file_)->changed;
  names_.drop_names(kRootInode, {"h"});
  ASSERT_TRUE(names_.rename({}, kRootInode, "h", kRootInode, "i", {}, nullptr).ok());
  EXPECT_GT(names_.attributes(file_)->changed, before);
  ASSERT_TRUE(names_.rename({}, kRootInode, "i", kRootInode, "h", {}, nullptr).ok());
  ASSERT_TRUE(names_.unlink({}, kRootInode, "h", nullptr).ok());
  EXPECT_EQ(names_.attributes(file_)->links, 1U);
  meta::Settled settled;
  settled.length = 77;
  ASSERT_TRUE(names_.settle(file_, settled, false).ok());
  EXPECT_EQ(names_.attributes(file_)->length, 77U);
}

TEST_F(KeptNamesTest, what_may_still_happen_is_not_kept_any_more) {
  for (int i = 0; i < 3; ++i) asks_for("/d/new");
  asked_.is_lost = true;
  EXPECT_EQ(names_.create({}, directory_, "new", 0644, true, {}, nullptr, {}).error(),
            Code::may_have_happened);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(asks([&] { (void)names_.lookup({}, directory_, "new"); }), 1);
  }
}

TEST_F(KeptNamesTest, nor_is_what_may_still_lose_a_name) {
  ASSERT_TRUE(meta_->link({}, file_, directory_, "g").has_value());
  for (int i = 0; i < 3; ++i) asks_for("/d/f");
  for (int i = 0; i < 3; ++i) asks_for("/d/g");
  asked_.is_lost = true;
  EXPECT_EQ(names_.unlink({}, directory_, "f", nullptr), Code::may_have_happened);
  EXPECT_EQ(names_.attributes(file_)->links, 2U);
  // Nobody tells of it who made it.
  ASSERT_TRUE(meta_->unlink({}, directory_, "f", nullptr).ok());
  EXPECT_EQ(names_.attributes(file_)->links, 1U);
  EXPECT_EQ(names_.resolve({}, "/d/g", true)->links, 1U);
}

TEST_F(KeptNamesTest, what_kernels_were_given_is_noted_though_all_is_dropped) {
  asks_for("/d/f");
  const engine::Time until = clock_.time + seconds(1);
  ASSERT_TRUE(names_.give(directory_, "f", file_, until));
  names_.drop_all();
  EXPECT_GT(asks_for("/d/f"), 0);
  EXPECT_EQ(names_.take_given(directory_, nullptr).names, std::vector<std::string>{"f"});
  clock_.time = until;
  names_.drop_all();
  EXPECT_EQ(names_.figures().kept, 0U);
}

TEST_F(KeptNamesTest, without_a_lease_nothing_says_that_it_is_kept) {
  names_.attributes(file_).value();
  names_.drop(file_);
  EXPECT_TRUE(names_.attributes(file_)->kept);
  names_.drop(file_);
  asked_.meanwhile = [&] { holding_.lease = {}; };
  EXPECT_FALSE(names_.attributes(file_)->kept);
}

TEST_F(KeptNamesTest, rights_are_checked_as_elsewhere) {
  for (int i = 0; i < 3; ++i) asks_for("/d/f");
  meta::SetAttributes changes;
  changes.mode = 0700;
  ASSERT_TRUE(names_.set_attributes({}, directory_, changes).has_value());
  Credentials other;
  other.uid = other.gid = 1000;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(names_.resolve(other, "/d/f", true).error(), Code::access_denied);
    EXPECT_EQ(names_.lookup(other, directory_, "f").error(), Code::access_denied);
    EXPECT_EQ(names_.resolve(other, "/d", true)->inode, directory_);
  }
  other.enforce = false;
  EXPECT_EQ(names_.lookup(other, directory_, "f")->inode, file_);
}

// Paths of all kinds lead where they lead without it.
TEST_F(KeptNamesTest, paths_lead_where_meta_says) {
  ASSERT_TRUE(meta_->make_symlink({}, kRootInode, "link", "d").has_value());
  const InodeId below = meta_->make_directory({}, directory_, "d2", 0755)->inode;
  for (const auto& [where, name] : std::vector<std::pair<InodeId, const char*>>{
           {directory_, "d2x"}, {below, "x"}, {below, "y"}, {kRootInode, "df"}}) {
    ASSERT_TRUE(meta_->create({}, where, name, 0644, true).has_value());
  }
  ASSERT_TRUE(meta_->make_symlink({}, directory_, "up", "../d/f").has_value());
  const std::vector<std::string> texts = {"/",
                                          "//",
                                          "/d",
                                          "/d/",
                                          "/d/f",
                                          "/d/f/",
                                          "/d/f/x",
                                          "/link",
                                          "/link/",
                                          "/link/f",
                                          "/d/up",
                                          "/d/up/",
                                          "/d/../d/f",
                                          "/d/.",
                                          "/d/none/x",
                                          "/none",
                                          "",
                                          "d",
                                          "/d/./f",
                                          "/..",
                                          "/d",
                                          "/d",
                                          "/d/f",
                                          "/df",
                                          "/d/f",
                                          "/d/d2",
                                          "/d/d2x",
                                          "/d/d2/",
                                          "/d/d2/x",
                                          "/d/d2/y",
                                          "/d/f",
                                          "/d/" + std::string(255, 'n'),
                                          "/d/" + std::string(256, 'n'),
                                          "/" + std::string(5000, 'p')};
  const std::vector<std::string_view> paths(texts.begin(), texts.end());
  for (const bool follow : {false, true}) {
    for (int round = 0; round < 3; ++round) {
      const auto all = names_.resolve_many({}, paths, follow);
      ASSERT_TRUE(all.has_value());
      for (size_t i = 0; i < paths.size(); ++i) {
        const auto right = meta_->resolve({}, paths[i], follow);
        ASSERT_EQ(all->at(i).has_value(), right.has_value()) << paths[i];
        if (right) {
          EXPECT_EQ(all->at(i)->inode, right->inode) << paths[i];
        } else {
          EXPECT_EQ(all->at(i).error(), right.error()) << paths[i];
        }
      }
    }
  }
}

TEST_F(KeptNamesTest, many_paths_ask_as_often_as_the_longest_has_names) {
  std::vector<std::string> texts;
  for (int i = 0; i < 200; ++i) {
    texts.push_back("/d/" + std::to_string(i));
    holding_.held.insert(meta_->create({}, directory_, std::to_string(i), 0644, true)->inode);
  }
  const std::vector<std::string_view> paths(texts.begin(), texts.end());
  const auto all = [&] { ASSERT_TRUE(names_.resolve_many({}, paths, true).has_value()); };
  EXPECT_LE(asks(all), 3);
  EXPECT_LE(asks(all), 3);
  EXPECT_EQ(asks(all), 0);
}

TEST_F(KeptNamesTest, it_takes_no_more_memory_than_it_may) {
  KeptNames few(asked_, {.holding = &holding_, .clock = &clock_, .kept_max = 64});
  for (int i = 0; i < 5000; ++i) {
    (void)few.lookup({}, directory_, "no" + std::to_string(i));
    EXPECT_LE(few.figures().kept, 128U);
  }
}

TEST_F(KeptNamesTest, what_a_kernel_was_given_moves_with_the_name) {
  asks_for("/d/f");
  const engine::Time until = clock_.time + seconds(1);
  ASSERT_TRUE(names_.give(directory_, "f", file_, until));
  EXPECT_EQ(names_.given(directory_, "f"), until);
  EXPECT_LT(names_.given(directory_, "g"), clock_.time);
  EXPECT_LT(names_.given(kRootInode, "f"), clock_.time);
  // Told once; who renames it at this moment has to know of it still.
  const std::vector<std::string> told{"f"};
  // While one tells the kernel, another one who is to wait for it tells it, too.
  const auto first = names_.take_given(directory_, &told);
  EXPECT_EQ(first.names, told);
  EXPECT_EQ(names_.take_given(directory_, &told).names, told);
  // Given anew meanwhile.
  ASSERT_TRUE(names_.give(directory_, "f", file_, until));
  names_.told(directory_, first);
  EXPECT_EQ(names_.take_given(directory_, &told).names, told);
  names_.told(directory_, names_.take_given(directory_, &told));
  EXPECT_TRUE(names_.take_given(directory_, &told).names.empty());
  EXPECT_EQ(names_.given(directory_, "f"), until);
  // Into a directory of which nothing else is known here.
  names_.give_renamed(kRootInode, "g", until);
  EXPECT_GE(names_.given_until(), until);
  const auto all = names_.take_given(kRootInode, nullptr);
  EXPECT_EQ(all.names, std::vector<std::string>{"g"});
  EXPECT_EQ(all.until, until);
  clock_.time = until;
  names_.give_renamed(kRootInode, "h", until + seconds(1));
  EXPECT_EQ(names_.take_given(kRootInode, nullptr).names, std::vector<std::string>{"h"});
  names_.take_given(directory_, nullptr);
  EXPECT_LT(names_.given(directory_, "f"), clock_.time) << "it is over";
}

TEST_F(KeptNamesTest, times_of_access_are_asked_for_again) {
  names_.attributes(file_).value();
  EXPECT_EQ(asks([&] { names_.attributes(file_).value(); }), 0);
  clock_.time += seconds(10);
  EXPECT_EQ(asks([&] { names_.attributes(file_).value(); }), 1);
}

}  // namespace
}  // namespace penstock::kept_names
