#include "pair.h"

namespace penstock::tls {
namespace {

TEST(NodeNames, are_uris) {
  const NodeName name{kCluster, NodeId{7}, "storage,agent"};
  EXPECT_EQ(uri_of(name), "penstock://07000000000000000000000000000000/node/7?roles=storage,agent");
  EXPECT_EQ(parse_uri(uri_of(name)), name);
  EXPECT_EQ(parse_uri("penstock://07000000000000000000000000000000/node/7?roles=")->roles, "");
}

TEST(NodeNames, are_written_in_one_way_only) {
  const std::string cluster = "penstock://07000000000000000000000000000000";
  for (const std::string& wrong :
       {std::string(), std::string("https://example.org/"), cluster, cluster + "/node/7",
        cluster + "/node/0?roles=agent", cluster + "/node/07?roles=agent",
        cluster + "/node/4294967295?roles=agent", cluster + "/node/-1?roles=agent",
        cluster + "/node/7?roles=Agent", cluster + "/node/7?roles=agent&more",
        cluster + "/node/7?roles=" + std::string(1000, 'a'),
        std::string("penstock://0700000000000000000000000000000G/node/7?roles=agent")}) {
    EXPECT_FALSE(parse_uri(wrong)) << wrong;
  }
}

TEST(Certificates, say_what_the_authority_decided) {
  Cluster cluster;
  const PrivateKey key = PrivateKey::make();
  const NodeName name{kCluster, NodeId{3}, "meta,agent"};
  const auto made = cluster.authority.sign(key.request(), name, 99, {kToday}, {kToday + kDay});
  ASSERT_TRUE(made) << made.error().message;
  const auto again = Certificate::parse(made->pem());
  ASSERT_TRUE(again);
  EXPECT_EQ(*again->name(), name);
  EXPECT_EQ(again->serial(), 99U);
  EXPECT_EQ(again->begins().nanoseconds, kToday);
  EXPECT_EQ(again->ends().nanoseconds, kToday + kDay);
}

TEST(Certificates, are_not_given_for_requests_that_prove_nothing) {
  Cluster cluster;
  std::string request = PrivateKey::make().request();
  const auto sign = [&cluster](const std::string& what) {
    return cluster.authority.sign(what, {kCluster, NodeId{3}, "agent"}, 5, {kToday},
                                  {kToday + kDay});
  };
  ASSERT_TRUE(sign(request));
  EXPECT_FALSE(sign(""));
  EXPECT_FALSE(
      sign("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"));
  EXPECT_FALSE(sign(std::string(5000, 'A')));
  // Any of its bits: the signature holds no more, or it is no request.
  const size_t first = request.find('\n') + 1;
  const size_t end = request.rfind("\n-----END");
  int refused = 0;
  for (size_t at = first; at < end; at += 7) {
    std::string changed = request;
    if (changed[at] == '\n') continue;
    changed[at] = changed[at] == 'A' ? 'B' : 'A';
    if (!sign(changed))
      ++refused;
    else
      EXPECT_EQ(changed[at], request[at]);
  }
  EXPECT_GT(refused, 10);
}

TEST(Certificates, name_one_node_and_nothing_else) {
  Cluster cluster;
  EXPECT_FALSE(cluster.authority.certificate().name()) << "an authority is no node";
}

TEST(Authorities, are_found_again_in_their_files) {
  const Cluster cluster;
  const auto key = PrivateKey::parse(cluster.authority.key().pem());
  const auto certificate = Certificate::parse(cluster.authority.certificate().pem());
  ASSERT_TRUE(key && certificate);
  ASSERT_TRUE(Authority::open(*key, *certificate));
  EXPECT_EQ(certificate->fingerprint(), cluster.authority.certificate().fingerprint());
  const auto other = Authority::open(PrivateKey::make(), *certificate);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().status, Code::corrupt);
}

TEST(Authorities, are_no_nodes_with_a_certificate) {
  Cluster cluster;
  const Credentials::Config node = cluster.node(2);
  EXPECT_FALSE(Authority::open(*node.key, *node.certificate));
}

TEST(Keys, of_other_kinds_are_refused) {
  EXPECT_FALSE(PrivateKey::parse("no key"));
  // Ed25519.
  EXPECT_FALSE(
      PrivateKey::parse("-----BEGIN PRIVATE KEY-----\n"
                        "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
                        "-----END PRIVATE KEY-----\n"));
}

}  // namespace
}  // namespace penstock::tls
