// One operation commits between another's body and its commit: the pairs that would break the tree
// if they did not conflict.
#include <gtest/gtest.h>

#include "penstock/testing_meta.h"

namespace penstock::meta {
namespace {

// Runs `between` once, after the next body.
class InterruptedKv final : public engine::Kv {
 public:
  explicit InterruptedKv(engine::Kv& kv) : kv_(kv) {}

  std::function<void()> between;
  int attempts = 0;

  void submit(engine::KvOp& op) override { kv_.submit(op); }
  using engine::Kv::run;
  Status run(engine::KvOp& op) override {
    return kv_.run(op.mode, [&](engine::KvTransaction& transaction) -> Status {
      TRY(op.body(transaction));
      ++attempts;
      if (const auto interrupt = std::exchange(between, nullptr))
        engine::Thread("between", interrupt).join();
      return {};
    });
  }
  Status sync() override { return kv_.sync(); }

 private:
  engine::Kv& kv_;
};

class MetaInterleaving : public testing::Test {
 protected:
  MetaInterleaving() {
    plain_ = open_meta(storage_.kv(), clock_);
    // Batches of ids are reserved before anything is interrupted.
    EXPECT_TRUE(plain_->make_directory({}, kRootInode, "p", 0755).has_value());
    p_ = plain_->lookup({}, kRootInode, "p")->inode;
    q_ = plain_->make_directory({}, kRootInode, "q", 0755)->inode;
    f_ = plain_->create({}, kRootInode, "f", 0644, true)->inode;
    interrupted_ = open_meta(kv_, clock_);
    EXPECT_TRUE(interrupted_->create({}, kRootInode, "g", 0644, true).has_value());
  }

  // Runs `first`, and `second` before `first` commits. Returns how often `first` was tried.
  int interleave(const std::function<void(Meta&)>& first,
                 const std::function<void(Meta&)>& second) {
    kv_.attempts = 0;
    kv_.between = [&] { second(*plain_); };
    first(*interrupted_);
    EXPECT_EQ(kv_.between, nullptr);
    return kv_.attempts;
  }

  TickingClock clock_;
  RocksDbStorage storage_;
  InterruptedKv kv_{storage_.kv()};
  std::unique_ptr<Meta> plain_;
  std::unique_ptr<Meta> interrupted_;
  InodeId p_, q_, f_;
};

TEST_F(MetaInterleaving, remove_directory_notices_what_is_added_meanwhile) {
  const std::function<void(Meta&)> additions[] = {
      [&](Meta& meta) { EXPECT_TRUE(meta.create({}, p_, "a", 0644, true).has_value()); },
      [&](Meta& meta) { EXPECT_TRUE(meta.link({}, f_, p_, "a").has_value()); },
      [&](Meta& meta) { EXPECT_TRUE(meta.make_directory({}, p_, "a", 0755).has_value()); },
      [&](Meta& meta) { EXPECT_TRUE(meta.rename({}, kRootInode, "f", p_, "a", {}, nullptr).ok()); },
  };
  for (const auto& add : additions) {
    interleave(
        [&](Meta& meta) {
          EXPECT_EQ(meta.remove_directory({}, kRootInode, "p", nullptr).code(), Code::not_empty);
        },
        add);
    if (!plain_->unlink({}, p_, "a", nullptr).ok()) {
      EXPECT_TRUE(plain_->remove_directory({}, p_, "a", nullptr).ok());
    }
    ASSERT_TRUE(plain_->lookup({}, kRootInode, "p").has_value());
  }
}

TEST_F(MetaInterleaving, rename_over_a_directory_notices_what_is_added_meanwhile) {
  interleave(
      [&](Meta& meta) {
        EXPECT_EQ(meta.rename({}, kRootInode, "q", kRootInode, "p", {}, nullptr).code(),
                  Code::not_empty);
      },
      [&](Meta& meta) { EXPECT_TRUE(meta.create({}, p_, "a", 0644, true).has_value()); });
}

TEST_F(MetaInterleaving, create_notices_that_its_directory_goes) {
  interleave(
      [&](Meta& meta) {
        EXPECT_EQ(code_of(meta.create({}, p_, "a", 0644, true)), Code::not_found);
      },
      [&](Meta& meta) { EXPECT_TRUE(meta.remove_directory({}, kRootInode, "p", nullptr).ok()); });
}

TEST_F(MetaInterleaving, two_renames_do_not_make_a_loop) {
  // Deeper down, so that no directory but those in the middle joins the two.
  const InodeId below_p = plain_->make_directory({}, p_, "x", 0755)->inode;
  const InodeId below_q = plain_->make_directory({}, q_, "y", 0755)->inode;
  interleave(
      [&](Meta& meta) {
        EXPECT_EQ(meta.rename({}, kRootInode, "p", below_q, "p", {}, nullptr).code(),
                  Code::not_found);
      },
      [&](Meta& meta) {
        EXPECT_TRUE(meta.rename({}, kRootInode, "p", kRootInode, "r", {}, nullptr).ok());
      });
  interleave(
      [&](Meta& meta) {
        EXPECT_EQ(meta.rename({}, kRootInode, "r", below_q, "r", {}, nullptr).code(),
                  Code::invalid_argument);
      },
      [&](Meta& meta) {
        EXPECT_TRUE(meta.rename({}, kRootInode, "q", below_p, "q", {}, nullptr).ok());
      });
  EXPECT_TRUE(plain_->resolve({}, "/r/x/q/y", false).has_value());
}

TEST_F(MetaInterleaving, link_notices_that_the_last_name_goes) {
  interleave([&](Meta& meta) { EXPECT_EQ(code_of(meta.link({}, f_, p_, "a")), Code::not_found); },
             [&](Meta& meta) { EXPECT_TRUE(meta.unlink({}, kRootInode, "f", nullptr).ok()); });
}

TEST_F(MetaInterleaving, exclusive_create_notices_the_other) {
  interleave(
      [&](Meta& meta) {
        EXPECT_EQ(code_of(meta.create({}, p_, "a", 0644, true)), Code::already_exists);
      },
      [&](Meta& meta) { EXPECT_TRUE(meta.create({}, p_, "a", 0644, true).has_value()); });
}

TEST_F(MetaInterleaving, new_xattrs_are_both_counted) {
  EXPECT_EQ(interleave(
                [&](Meta& meta) {
                  EXPECT_TRUE(meta.set_xattr({}, f_, "user.a", "1", XattrMode::any).ok());
                },
                [&](Meta& meta) {
                  EXPECT_TRUE(meta.set_xattr({}, f_, "user.b", "2", XattrMode::any).ok());
                }),
            2);
  EXPECT_TRUE(plain_->remove_xattr({}, f_, "user.a").ok());
  EXPECT_EQ(*plain_->get_xattr({}, f_, "user.b"), "2");
}

TEST_F(MetaInterleaving, creates_in_one_directory_do_not_conflict) {
  EXPECT_EQ(interleave(
                [&](Meta& meta) { EXPECT_TRUE(meta.create({}, p_, "a", 0644, true).has_value()); },
                [&](Meta& meta) { EXPECT_TRUE(meta.create({}, p_, "b", 0644, true).has_value()); }),
            1);
}

}  // namespace
}  // namespace penstock::meta
