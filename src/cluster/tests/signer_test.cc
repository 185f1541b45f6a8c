#include "signer.h"

#include "identity.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/testing.h"

namespace penstock::cluster {
namespace {

namespace fs = std::filesystem;
using controller::KeyPrint;
using membership::MemberSeen;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr NodeId kFirst{1}, kSecond{2}, kThird{3};
const std::vector<MemberSeen> kAll = {{kFirst}, {kSecond}, {kThird}};

class Signer : public testing::Test {
 protected:
  Signer() {
    const controller::Uuid cluster{{7}};
    EXPECT_TRUE(keep(scratch_.path(),
                     tls::Authority::make(bytes_of(cluster), engine::system_clock().wall())));
    start();
  }
  // As a process that ended and starts again.
  void start() {
    auto files = open_authorities(scratch_.path());
    ASSERT_TRUE(files) << files.error().message;
    signer_.emplace(ClusterSigner::Config{scratch_.path(), controller::Uuid{{7}},
                                          std::chrono::hours(1), std::move(*files)});
  }
  void renew() {
    const auto begun = signer_->begin_change(engine::system_clock().wall());
    ASSERT_TRUE(begun) << begun.error().message;
    const auto told = signer_->authorities();
    ASSERT_EQ(told.certificates.size(), 2U);
    before_ = print_of(*tls::Certificate::parse(told.certificates[0]));
    next_ = print_of(*tls::Certificate::parse(told.certificates[1]));
  }
  void says_that_it_believes_both(NodeId node, const std::vector<MemberSeen>& members = kAll) {
    signer_->hear(node, {{before_, next_}, before_}, members);
  }
  void says_that_it_has_the_next(NodeId node, const std::vector<MemberSeen>& members = kAll) {
    signer_->hear(node, {{next_, before_}, next_}, members);
  }
  // Which authority has signed a certificate that is made now; zeros: none.
  KeyPrint signs() {
    const auto papers = signer_->sign(key_.request(), kSecond, engine::kRoleStorage);
    if (!papers) return {};
    return print_of(*tls::Certificate::parse(papers->authorities.front()));
  }
  std::string key_file() const {
    return test::read_file(path_of_private(scratch_.path(), kAuthorityKeyFile));
  }

  const test::ScratchDirectory scratch_;
  const tls::PrivateKey key_ = tls::PrivateKey::make();
  std::optional<ClusterSigner> signer_;
  KeyPrint before_;
  KeyPrint next_;
};

TEST_F(Signer, goes_over_to_the_next_authority_when_all_believe_it) {
  const std::string old_key = key_file();
  renew();
  EXPECT_EQ(signs(), before_);
  says_that_it_believes_both(kFirst);
  says_that_it_believes_both(kSecond);
  EXPECT_EQ(signs(), before_);
  EXPECT_THAT(signer_->status().waiting, ElementsAre(kThird));
  says_that_it_believes_both(kThird);
  EXPECT_EQ(signs(), next_);
  EXPECT_TRUE(signer_->status().signs);
  EXPECT_FALSE(signer_->tokens_end()) << "nobody has a certificate by it";
  says_that_it_has_the_next(kFirst);
  says_that_it_has_the_next(kThird);
  EXPECT_THAT(signer_->status().waiting, ElementsAre(kSecond));
  EXPECT_FALSE(signer_->tokens_end());
  says_that_it_has_the_next(kSecond);
  ASSERT_TRUE(signer_->tokens_end());
  EXPECT_EQ(key_file(), old_key) << "tokens end first";
  signer_->finish();
  EXPECT_EQ(signer_->authorities().certificates.size(), 1U);
  EXPECT_EQ(signer_->authorities().signs, next_);
  EXPECT_FALSE(signer_->status().next);
  EXPECT_NE(key_file(), old_key);
  EXPECT_EQ(signer_->shown().size(), 2U) << "who was off finds the way from the one before";
  start();
  EXPECT_EQ(signs(), next_);
  EXPECT_EQ(signer_->shown().size(), 2U);
}

TEST_F(Signer, goes_on_where_a_process_before_was) {
  renew();
  says_that_it_believes_both(kFirst);
  says_that_it_believes_both(kSecond);
  start();
  EXPECT_EQ(signer_->authorities().certificates.size(), 2U);
  says_that_it_believes_both(kThird);
  EXPECT_EQ(signs(), before_) << "what members said is said again";
  says_that_it_believes_both(kFirst);
  says_that_it_believes_both(kSecond);
  EXPECT_EQ(signs(), next_);
  start();
  EXPECT_EQ(signs(), next_);
  for (const NodeId node : {kFirst, kSecond, kThird}) says_that_it_has_the_next(node);
  EXPECT_TRUE(signer_->tokens_end());
  start();
  EXPECT_FALSE(signer_->tokens_end());
  for (const NodeId node : {kThird, kSecond, kFirst}) says_that_it_has_the_next(node);
  signer_->finish();
  start();
  EXPECT_EQ(signer_->authorities().signs, next_);
  EXPECT_EQ(signer_->authorities().certificates.size(), 1U);
}

TEST_F(Signer, waits_again_for_a_member_that_has_forgotten) {
  renew();
  says_that_it_believes_both(kFirst);
  says_that_it_believes_both(kSecond);
  // Its file is of an earlier time.
  signer_->hear(kSecond, {{before_}, before_}, kAll);
  says_that_it_believes_both(kThird);
  EXPECT_EQ(signs(), before_);
  EXPECT_THAT(signer_->status().waiting, ElementsAre(kSecond));
}

TEST_F(Signer, waits_for_nobody_who_was_removed) {
  renew();
  says_that_it_believes_both(kFirst);
  EXPECT_EQ(signs(), before_);
  says_that_it_believes_both(kSecond, {{kFirst}, {kSecond}});
  EXPECT_EQ(signs(), next_);
}

TEST_F(Signer, leaves_behind_only_who_is_down) {
  EXPECT_THAT(signer_->leave_behind().error().message, HasSubstr("without --force begins"));
  renew();
  says_that_it_believes_both(kFirst);
  EXPECT_THAT(signer_->leave_behind().error().message, HasSubstr("is up, and hears of it"));
  const std::vector<MemberSeen> some = {{kFirst}, {kSecond, true}, {kThird}};
  says_that_it_believes_both(kFirst, some);
  ASSERT_TRUE(signer_->leave_behind());
  EXPECT_THAT(signer_->status().left, ElementsAre(kSecond));
  EXPECT_THAT(signer_->status().waiting, ElementsAre(kThird));
  EXPECT_EQ(signs(), before_);
  says_that_it_believes_both(kThird, some);
  EXPECT_EQ(signs(), next_);
  says_that_it_has_the_next(kFirst, some);
  says_that_it_has_the_next(kThird, some);
  EXPECT_TRUE(signer_->tokens_end()) << "who was left behind is not waited for any more";
  // It may come back before the end.
  says_that_it_has_the_next(kSecond);
  EXPECT_THAT(signer_->status().left, IsEmpty());
}

TEST_F(Signer, refuses_a_second_order_while_the_first_is_under_way) {
  renew();
  const auto told = signer_->authorities();
  const auto second = signer_->begin_change(engine::system_clock().wall());
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("follows already"));
  EXPECT_EQ(signer_->authorities().certificates, told.certificates);
}

TEST_F(Signer, stays_where_it_is_while_a_stage_cannot_be_kept) {
  const std::string in_the_way = path_of_private(scratch_.path(), kNextAuthorityFile) + ".new/file";
  fs::create_directories(in_the_way);
  EXPECT_FALSE(signer_->begin_change(engine::system_clock().wall()));
  EXPECT_EQ(signer_->authorities().certificates.size(), 1U) << "nobody heard of it";
  fs::remove_all(fs::path(in_the_way).parent_path());
  renew();
  fs::create_directories(in_the_way);
  for (const NodeId node : {kFirst, kSecond, kThird}) says_that_it_believes_both(node);
  EXPECT_EQ(signs(), before_);
  fs::remove_all(fs::path(in_the_way).parent_path());
  says_that_it_believes_both(kFirst);
  EXPECT_EQ(signs(), next_);
  fs::create_directories(in_the_way);
  for (const NodeId node : {kFirst, kSecond, kThird}) says_that_it_has_the_next(node);
  signer_->finish();
  EXPECT_EQ(signer_->authorities().certificates.size(), 2U) << "both are believed still";
  fs::remove_all(fs::path(in_the_way).parent_path());
  signer_->finish();
  EXPECT_EQ(signer_->authorities().certificates.size(), 1U);
}

TEST_F(Signer, goes_over_although_its_key_is_lost) {
  fs::remove(path_of_private(scratch_.path(), kAuthorityKeyFile));
  start();
  EXPECT_EQ(signs(), KeyPrint());
  EXPECT_FALSE(signer_->key_of(key_.request())) << "nor is a token used up for nothing";
  EXPECT_EQ(signer_->authorities().signs, KeyPrint()) << "members do not ask for certificates";
  EXPECT_THAT(signer_->fingerprint().error().message, HasSubstr("ca.key: is not there"));
  renew();
  EXPECT_FALSE(signer_->status().is_crossed);
  EXPECT_EQ(signs(), KeyPrint());
  for (const NodeId node : {kFirst, kSecond, kThird}) says_that_it_believes_both(node);
  EXPECT_EQ(signs(), next_);
  EXPECT_TRUE(signer_->key_of(key_.request()));
  EXPECT_TRUE(signer_->fingerprint());
  for (const NodeId node : {kFirst, kSecond, kThird}) says_that_it_has_the_next(node);
  signer_->finish();
  EXPECT_EQ(signer_->status().lost, "");
  EXPECT_THAT(signer_->shown(), IsEmpty()) << "there is no way from the one before";
  start();
  EXPECT_EQ(signs(), next_);
}

TEST_F(Signer, may_be_followed_again_and_again) {
  for (uint64_t number = 2; number < 5; ++number) {
    renew();
    for (const NodeId node : {kFirst, kSecond, kThird}) says_that_it_believes_both(node);
    for (const NodeId node : {kFirst, kSecond, kThird}) says_that_it_has_the_next(node);
    signer_->finish();
    const auto root = tls::Certificate::parse(signer_->authorities().certificates.at(0));
    EXPECT_EQ(root->serial(), number);
    start();
    EXPECT_EQ(signs(), next_);
  }
}

}  // namespace
}  // namespace penstock::cluster
