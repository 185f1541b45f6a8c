#include "authorities.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "penstock/testing.h"

namespace penstock::cluster {
namespace {

namespace fs = std::filesystem;
using test::ScratchDirectory;
using testing::HasSubstr;

constexpr std::array<std::byte, 16> kSome{std::byte{7}};

tls::Authority made(uint64_t number) {
  return tls::Authority::make(kSome, engine::system_clock().wall(), number);
}

class Authorities : public testing::Test {
 protected:
  AuthorityFiles opened() const {
    auto files = open_authorities(scratch_.path());
    EXPECT_TRUE(files) << files.error().message;
    return files ? std::move(*files) : AuthorityFiles();
  }
  std::string place(const char* file) const { return path_of_private(scratch_.path(), file); }
  Change change_to(const tls::Authority& next, Stage stage) const {
    return {stage, {5}, next, first_.certificate(), first_.cross_sign(next.certificate())};
  }

  const ScratchDirectory scratch_;
  const tls::Authority first_ = made(1);
};

TEST_F(Authorities, are_not_there_before_they_are_made) {
  const AuthorityFiles files = opened();
  EXPECT_FALSE(files.own || files.root || files.change);
  EXPECT_EQ(files.lost, "");
}

TEST_F(Authorities, are_found_as_they_were_kept) {
  ASSERT_TRUE(keep(scratch_.path(), first_));
  AuthorityFiles files = opened();
  ASSERT_TRUE(files.own && files.root);
  EXPECT_EQ(files.own->certificate().fingerprint(), first_.certificate().fingerprint());
  EXPECT_TRUE(files.shown.empty());
  const tls::Authority next = made(2);
  for (const Stage stage : {Stage::trusted, Stage::signs}) {
    ASSERT_TRUE(keep(scratch_.path(), change_to(next, stage)));
    files = opened();
    ASSERT_TRUE(files.own && files.change);
    EXPECT_EQ(files.change->stage, stage);
    EXPECT_EQ(files.change->signs_since.nanoseconds, 5);
    EXPECT_EQ(files.change->next.key().pem(), next.key().pem());
    EXPECT_EQ(files.change->before.pem(), first_.certificate().pem());
    EXPECT_EQ(way_to(*files.change).size(), 2U);
    EXPECT_EQ(files.own->key().pem(), first_.key().pem()) << "it is not replaced before the end";
  }
  struct stat found {};
  ASSERT_EQ(::stat(place(kNextAuthorityFile).c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0600U);
}

TEST_F(Authorities, go_on_with_an_end_that_a_process_did_not_come_to) {
  const tls::Authority next = made(2);
  const Change over = change_to(next, Stage::ended);
  const auto expect_over = [&] {
    const AuthorityFiles files = opened();
    ASSERT_TRUE(files.own);
    EXPECT_FALSE(files.change);
    EXPECT_EQ(files.own->key().pem(), next.key().pem());
    EXPECT_EQ(files.shown.size(), 2U);
    EXPECT_EQ(test::read_file(place(kAuthorityKeyFile)), next.key().pem()) << "the old one is gone";
    EXPECT_FALSE(fs::exists(place(kNextAuthorityFile)));
  };
  // It had kept that it is over, and nothing else;
  ASSERT_TRUE(keep(scratch_.path(), first_));
  ASSERT_TRUE(keep(scratch_.path(), over));
  expect_over();
  // or the new certificate beside the old key;
  ASSERT_TRUE(keep(scratch_.path(), first_));
  ASSERT_TRUE(keep(scratch_.path(), over));
  test::write_file(place(kAuthorityFile), next.certificate().pem());
  expect_over();
  // or both, or there was no old one.
  ASSERT_TRUE(keep(scratch_.path(), over));
  expect_over();
}

TEST_F(Authorities, say_what_became_of_their_key) {
  ASSERT_TRUE(keep(scratch_.path(), first_));
  fs::remove(place(kAuthorityKeyFile));
  AuthorityFiles files = opened();
  EXPECT_FALSE(files.own);
  EXPECT_THAT(files.lost, HasSubstr("ca.key: is not there"));
  ASSERT_TRUE(files.root);
  EXPECT_EQ(files.root->pem(), first_.certificate().pem());
  const auto lost_with = [&](const std::string& key) {
    ASSERT_TRUE(keep(scratch_.path(), first_));
    test::write_file(place(kAuthorityKeyFile), key);
    files = opened();
    EXPECT_FALSE(files.own);
  };
  lost_with("nonsense");
  EXPECT_THAT(files.lost, HasSubstr("is damaged"));
  lost_with(made(1).key().pem());
  EXPECT_THAT(files.lost, HasSubstr("do not belong together"));
  ASSERT_TRUE(keep(scratch_.path(), first_));
  fs::remove(place(kAuthorityFile));
  EXPECT_THAT(opened().lost, HasSubstr("ca.pem: is not there"));
  // What others can read is a secret no more: that is not passed over.
  ASSERT_TRUE(keep(scratch_.path(), first_));
  ASSERT_EQ(::chmod(place(kAuthorityKeyFile).c_str(), 0644), 0);
  const auto open_to_all = open_authorities(scratch_.path());
  ASSERT_FALSE(open_to_all);
  EXPECT_THAT(open_to_all.error().message, HasSubstr("others than the user"));
}

TEST_F(Authorities, name_the_file_that_is_damaged) {
  ASSERT_TRUE(keep(scratch_.path(), first_));
  ASSERT_TRUE(keep(scratch_.path(), change_to(made(2), Stage::signs)));
  const std::string good = test::read_file(place(kNextAuthorityFile));
  // Wherever it was cut.
  for (size_t length = 0; length + 1 < good.size(); length += 97) {
    const bool is_without_cross = length > good.rfind("-----BEGIN") - 30;
    if (is_without_cross) break;
    test::write_file(place(kNextAuthorityFile), good.substr(0, length));
    const auto cut = open_authorities(scratch_.path());
    ASSERT_FALSE(cut) << length;
    EXPECT_THAT(cut.error().message, HasSubstr("ca.next: is damaged"));
  }
  test::write_file(place(kNextAuthorityFile), good);
  ASSERT_TRUE(open_authorities(scratch_.path()));
  test::write_file(place(kAuthorityFile), "-----BEGIN nothing");
  const auto damaged = open_authorities(scratch_.path());
  ASSERT_FALSE(damaged);
  EXPECT_THAT(damaged.error().message, HasSubstr("ca.pem: is damaged"));
}

}  // namespace
}  // namespace penstock::cluster
