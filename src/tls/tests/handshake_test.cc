#include "pair.h"

#include <unistd.h>

namespace penstock::tls {
namespace {

using Step = Handshake::Step;

class HandshakeTest : public testing::Test {
 protected:
  void shake_as(Credentials::Config caller, Credentials::Config server) {
    caller_.emplace(Cluster::use(std::move(caller)), Part::caller, sockets_.caller.get());
    server_.emplace(Cluster::use(std::move(server)), Part::server, sockets_.server.get());
    shake(*caller_, *server_);
  }
  // What the server has against the caller, who knows it by an alert only.
  void expect_refused(Credentials::Config caller, std::string_view why) {
    sockets_ = Sockets();
    shake_as(std::move(caller), cluster_.node(1));
    EXPECT_EQ(server_->step(), Step::failed);
    EXPECT_EQ(server_->failure().status, Code::not_permitted);
    EXPECT_NE(server_->failure().message.find(why), std::string::npos)
        << server_->failure().message;
  }

  Sockets sockets_;
  Cluster cluster_;
  std::optional<Handshake> caller_;
  std::optional<Handshake> server_;
};

TEST_F(HandshakeTest, both_know_who_the_other_is) {
  shake_as(cluster_.node(7, "storage,agent"), cluster_.node(1, "controller"));
  ASSERT_EQ(caller_->step(), Step::done) << caller_->failure().message;
  ASSERT_EQ(server_->step(), Step::done) << server_->failure().message;
  EXPECT_EQ(caller_->secured().peer, (NodeName{kCluster, NodeId{1}, "controller"}));
  EXPECT_EQ(server_->secured().peer, (NodeName{kCluster, NodeId{7}, "storage,agent"}));
}

TEST_F(HandshakeTest, and_share_secrets_that_nobody_had_before) {
  const auto secrets = [this] {
    sockets_ = Sockets();
    shake_as(cluster_.node(7), cluster_.node(1));
    const auto text = [](const TrafficSecret& secret) {
      return std::string(reinterpret_cast<const char*>(secret.bytes().data()),
                         secret.bytes().size());
    };
    EXPECT_EQ(text(caller_->secured().sends), text(server_->secured().receives));
    EXPECT_EQ(text(caller_->secured().receives), text(server_->secured().sends));
    EXPECT_NE(text(caller_->secured().sends), text(caller_->secured().receives));
    return text(caller_->secured().sends);
  };
  EXPECT_NE(secrets(), secrets());
}

TEST_F(HandshakeTest, leaves_the_stream_to_its_owner) {
  shake_as(cluster_.node(7), cluster_.node(1));
  char byte = 0;
  EXPECT_EQ(::read(sockets_.caller.get(), &byte, 1), -1) << "something of OpenSSL's came behind";
  EXPECT_EQ(::read(sockets_.server.get(), &byte, 1), -1);
}

TEST_F(HandshakeTest, refuses_certificates_that_do_not_hold) {
  Cluster other({std::byte{9}});
  Credentials::Config foreign = other.node(7);
  foreign.authorities.push_back(cluster_.authority.certificate());
  expect_refused(std::move(foreign), "certificate in certificate chain");
  expect_refused(cluster_.node(7, "storage", kToday - 2 * kDay, kToday - kDay), "expired");
  expect_refused(cluster_.node(7, "storage", kToday + kDay, kToday + 2 * kDay), "not yet valid");
}

TEST_F(HandshakeTest, tells_both_times_where_a_clock_is_wrong) {
  expect_refused(
      cluster_.node(7, "storage", kToday + kDay, kToday + 2 * kDay),
      "good from 2024-10-05 00:00:00 UTC to 2024-10-06 00:00:00 UTC, and here it is 2024-10-04");
}

TEST_F(HandshakeTest, a_caller_refuses_a_server_of_another_cluster) {
  Cluster other({std::byte{9}});
  shake_as(cluster_.node(7), other.node(1));
  EXPECT_EQ(caller_->step(), Step::failed);
  EXPECT_EQ(caller_->failure().status, Code::not_permitted);
  EXPECT_EQ(server_->step(), Step::failed);
  EXPECT_EQ(server_->failure().status, Code::access_denied) << server_->failure().message;
}

TEST_F(HandshakeTest, guests_get_in_only_where_they_may) {
  expect_refused(cluster_.guest(), "no certificate");
  sockets_ = Sockets();
  Credentials::Config open = cluster_.node(1);
  open.admit_guests = true;
  shake_as(cluster_.guest(), std::move(open));
  ASSERT_EQ(caller_->step(), Step::done) << caller_->failure().message;
  ASSERT_EQ(server_->step(), Step::done);
  EXPECT_EQ(caller_->secured().peer->node, NodeId{1});
  EXPECT_FALSE(server_->secured().peer);
}

TEST_F(HandshakeTest, guests_know_the_cluster_by_its_fingerprint) {
  Cluster other({std::byte{9}});
  Credentials::Config open = other.node(1);
  open.admit_guests = true;
  shake_as(cluster_.guest(), std::move(open));
  EXPECT_EQ(caller_->step(), Step::failed);
  EXPECT_EQ(caller_->failure().status, Code::not_permitted);
}

TEST_F(HandshakeTest, what_is_not_tls_is_told_in_words) {
  server_.emplace(Cluster::use(cluster_.node(1)), Part::server, sockets_.server.get());
  const std::string plain(200, 'P');
  ASSERT_EQ(::write(sockets_.caller.get(), plain.data(), plain.size()), 200);
  EXPECT_EQ(server_->step(), Step::failed);
  EXPECT_EQ(server_->failure().status, Code::wrong_version);
  EXPECT_NE(server_->failure().message.find("--insecure"), std::string::npos)
      << server_->failure().message;
}

TEST_F(HandshakeTest, a_side_that_goes_away_ends_it) {
  server_.emplace(Cluster::use(cluster_.node(1)), Part::server, sockets_.server.get());
  EXPECT_EQ(server_->step(), Step::wants_to_read);
  sockets_.caller.reset();
  EXPECT_EQ(server_->step(), Step::failed);
  EXPECT_EQ(server_->failure().status, Code::peer_gone);
}

}  // namespace
}  // namespace penstock::tls
