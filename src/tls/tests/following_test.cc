// An authority that follows another: who believes whom while a cluster goes over, and afterwards.
#include "pair.h"

namespace penstock::tls {
namespace {

using Step = Handshake::Step;

class FollowingTest : public testing::Test {
 protected:
  FollowingTest() {
    second_.authority = Authority::make(kCluster, {kToday - kDay}, 2);
    third_.authority = Authority::make(kCluster, {kToday - kDay}, 3);
  }

  static Certificate root_of(const Cluster& cluster) { return cluster.authority.certificate(); }
  // The controller's, by the second authority; it shows the way to it from the first.
  Credentials::Config server(bool is_crossed = true) {
    Credentials::Config config = second_.node(1, "controller");
    config.admit_guests = true;
    if (is_crossed) {
      config.shown = {first_.authority.cross_sign(root_of(second_)), root_of(first_)};
    }
    return config;
  }
  // Empty: both are content; else what the first that is not has to say.
  static std::string shake_as(Credentials::Config as_caller, Credentials::Config as_server) {
    const Sockets sockets;
    Handshake caller(Cluster::use(std::move(as_caller)), Part::caller, sockets.caller.get());
    Handshake server(Cluster::use(std::move(as_server)), Part::server, sockets.server.get());
    shake(caller, server);
    if (caller.step() == Step::failed) return "caller: " + caller.failure().message;
    return server.step() == Step::failed ? "server: " + server.failure().message : "";
  }
  static Credentials::Config guest_who_knows(const Cluster& cluster,
                                             std::vector<Certificate> authorities = {}) {
    Credentials::Config config;
    config.expected = root_of(cluster).fingerprint();
    config.authorities = std::move(authorities);
    static TestClock clock;
    config.clock = &clock;
    return config;
  }

  Cluster first_;
  Cluster second_;
  Cluster third_;
};

TEST_F(FollowingTest, has_a_name_and_a_number_of_its_own) {
  EXPECT_EQ(root_of(first_).serial(), 1U);
  EXPECT_EQ(root_of(second_).serial(), 2U);
  const Certificate cross = first_.authority.cross_sign(root_of(second_));
  EXPECT_EQ(cross.fingerprint(), root_of(second_).fingerprint());
  EXPECT_EQ(cross.serial(), root_of(second_).serial());
  EXPECT_FALSE(cross.name()) << "it is no node";
}

TEST_F(FollowingTest, is_believed_by_who_knows_only_the_first) {
  Credentials::Config both = server();
  both.authorities.push_back(root_of(first_));
  EXPECT_EQ(shake_as(first_.node(7), both), "");
  // Also once the caller knows it, whatever is shown.
  Credentials::Config knows_both = first_.node(7);
  knows_both.authorities.push_back(root_of(second_));
  EXPECT_EQ(shake_as(knows_both, both), "");
  EXPECT_EQ(shake_as(second_.node(7), both), "");
  EXPECT_EQ(shake_as(second_.node(7), server()), "");
}

TEST_F(FollowingTest, is_believed_by_nobody_else_where_the_first_could_not_sign_it) {
  Credentials::Config both = server(false);
  both.authorities.push_back(root_of(first_));
  EXPECT_NE(shake_as(first_.node(7), both).find("an authority that is not believed here"),
            std::string::npos);
  Credentials::Config knows_both = first_.node(7);
  knows_both.authorities.push_back(root_of(second_));
  EXPECT_EQ(shake_as(knows_both, both), "");
}

TEST_F(FollowingTest, takes_the_place_of_the_first) {
  EXPECT_NE(shake_as(first_.node(7), server()).find("server: "), std::string::npos)
      << "a certificate of the first counts no more";
  // Who has one comes as a guest, by what it knows, or what a token says.
  EXPECT_EQ(shake_as(guest_who_knows(first_), server()), "");
  EXPECT_EQ(shake_as(guest_who_knows(second_), server()), "");
  EXPECT_NE(shake_as(guest_who_knows(third_), server()), "");
  EXPECT_NE(shake_as(guest_who_knows(first_), server(false)), "");
  EXPECT_EQ(shake_as(guest_who_knows(first_, {root_of(first_), root_of(second_)}), server(false)),
            "")
      << "it had heard of the second, and went";
}

TEST_F(FollowingTest, is_followed_itself_but_the_first_leads_no_further) {
  Credentials::Config last = third_.node(1, "controller");
  last.admit_guests = true;
  const Certificate to_third = second_.authority.cross_sign(root_of(third_));
  last.shown = {to_third, root_of(second_)};
  EXPECT_EQ(shake_as(guest_who_knows(second_), last), "");
  last.shown = {to_third, first_.authority.cross_sign(root_of(second_)), root_of(first_)};
  EXPECT_NE(shake_as(guest_who_knows(first_), last).find("path length"), std::string::npos);
}

TEST_F(FollowingTest, is_not_made_by_somebody_who_knows_its_name_and_its_public_key) {
  // A certificate with the second one's key, by somebody else: it is believed for its key, with
  // which that somebody can sign nothing.
  Cluster false_one;
  false_one.authority = Authority::make(kCluster, {kToday - kDay}, 2);
  Credentials::Config config = false_one.node(1, "controller");
  config.admit_guests = true;
  config.shown = {false_one.authority.cross_sign(root_of(second_)), root_of(false_one)};
  EXPECT_NE(shake_as(guest_who_knows(second_), config), "");
  EXPECT_NE(shake_as(guest_who_knows(first_), config), "");
}

}  // namespace
}  // namespace penstock::tls
