// Sessions without sockets: packets in, packets out, in a simulation.
#include "simulated.h"

#include <cstring>
#include <sys/eventfd.h>

#include "penstock/chunks.h"
#include "penstock/net.h"
#include "penstock/store_fake.h"

namespace penstock::sessions {
namespace {

class PacketSessions : public testing::Test {
 protected:
  PacketSessions() {
    net.serve({NodeId{1}, 0}, *service);
    meta::MetaOptions options;
    options.default_layout.chunk_bytes_log2 = 16;
    options.default_layout.chain_count = 1;
    meta = std::move(*meta::Meta::open(kv, world.clock(), options));
    client::FileSystemConfig config;
    config.shards.push_back({&loop, &net});
    config.chains = inodes::ChainAddresses::dense({{engine::Address{NodeId{1}, 0}}});
    files = std::move(*client::FileSystem::open(*meta, std::move(config)));
    sessions = std::make_unique<SimSessions>(loop, *files);
  }
  ~PacketSessions() override {
    sessions = nullptr;
    files->close();
    EXPECT_TRUE(meta->close().ok());
    net.withdraw({NodeId{1}, 0});
  }

  sim::SimWorld world{1};
  sim::SimLoop loop{world};
  net::LocalNetwork network;
  net::LocalNet net{network, loop};
  store::FakeTarget target{loop};
  std::unique_ptr<engine::Service> service = chunks::make_service(target);
  sim::SimKvImage records{world};
  sim::SimKv kv{records};
  std::unique_ptr<meta::Meta> meta;
  std::unique_ptr<client::FileSystem> files;
  std::unique_ptr<SimSessions> sessions;
};

TEST_F(PacketSessions, read_and_write_a_file_through_a_ring) {
  std::shared_ptr<resources::Account> account;
  {
    SimApplication application(world, *sessions);
    account = application.session().account();
    ASSERT_TRUE(application.introduce().ok());
    EXPECT_EQ(sessions->host.watched.size(), 1u)
        << "this parker waits for no eventfd: the host does";
    ASSERT_TRUE(application.open("/file").ok());

    std::memset(application.region().data(), 'x', 8192);
    ring::Submission entry{};
    entry.operation = ring::kOperationWrite;
    entry.length = 8192;
    EXPECT_EQ(application.run(entry), 8192);
    std::memset(application.region().data(), 0, 8192);
    entry.operation = ring::kOperationRead;
    EXPECT_EQ(application.run(entry), 8192);
    EXPECT_EQ(static_cast<char>(application.region()[8191]), 'x');

    const SessionStatus status = application.session().status();
    EXPECT_EQ(status.regions, 1u);
    EXPECT_EQ(status.rings, 1u);
    EXPECT_EQ(status.open_files, 1u);
    EXPECT_EQ(status.operations, 2u);
  }
  EXPECT_EQ(sessions->host.watched.begin()->second, 0);
  EXPECT_EQ(account->held(resources::Resource::mappings), 0u);
}

TEST_F(PacketSessions, are_named_in_the_order_in_which_they_came) {
  for (const uint64_t number : {1U, 2U}) {
    SimApplication application(world, *sessions);
    const wire::Reply greeting = application.ask(wire::Hello{});
    ASSERT_EQ(greeting.status, Code::ok);
    EXPECT_EQ(std::get<wire::Welcome>(greeting.body).session, number);
  }
}

TEST_F(PacketSessions, speak_the_highest_common_version_with_older_and_newer_applications) {
  sessions->node.protocol = {3, 5, 0b0110};
  struct Case {
    wire::Hello hello;
    wire::Agreement agreed;
  };
  for (const Case& one : {Case{{2, 4, 0b0011}, {4, 0b0010}},      // an older application
                          Case{{4, 9, UINT64_MAX}, {5, 0b0110}},  // a newer one
                          Case{{5, 5, 0}, {5, 0}},                // with no features
                          Case{{3, 0, 0b1000}, {3, 0}}}) {        // as version 2 wrote its hello
    SimApplication application(world, *sessions);
    const wire::Reply reply = application.ask(one.hello);
    ASSERT_EQ(reply.status, Code::ok) << reply.text;
    const auto& welcome = std::get<wire::Welcome>(reply.body);
    EXPECT_EQ(welcome.agreement(), one.agreed);
    EXPECT_EQ(welcome.lowest, 3u);
    EXPECT_EQ(welcome.highest, 5u);
    EXPECT_EQ(welcome.agent_features, 0b0110u);
    EXPECT_EQ(application.session().agreement(), one.agreed);
    EXPECT_EQ(application.ask(wire::PathAttributes{"/", true}).status, Code::ok);
  }
}

TEST_F(PacketSessions, say_what_is_wrong_where_there_is_no_common_version) {
  sessions->node.protocol = {3, 5, 0};
  for (const wire::Hello& hello : {wire::Hello{1, 2, 0}, wire::Hello{6, 7, 0}}) {
    SimApplication application(world, *sessions);
    const ReplyPacket packet = application.send(hello);
    EXPECT_TRUE(packet.ends_session);
    const auto reply = wire::decode_reply(std::as_bytes(std::span(packet.bytes)));
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->status, Code::wrong_version);
    EXPECT_NE(reply->text.find("versions 3 to 5"), std::string::npos) << reply->text;
    const char* const who = hello.highest < 3 ? "agent is newer" : "agent is older";
    EXPECT_NE(reply->text.find(who), std::string::npos) << reply->text;
    EXPECT_EQ(application.session().agreement().version, 0u);
  }
}

TEST_F(PacketSessions, answer_nothing_before_the_greeting) {
  SimApplication application(world, *sessions);
  const ReplyPacket packet = application.send(wire::PathAttributes{"/", true});
  EXPECT_TRUE(packet.ends_session);
  EXPECT_EQ(wire::decode_reply(std::as_bytes(std::span(packet.bytes)))->status, Code::bad_message);
}

TEST_F(PacketSessions, end_at_a_second_greeting) {
  SimApplication application(world, *sessions);
  ASSERT_EQ(application.ask(wire::Hello{}).status, Code::ok);
  const ReplyPacket packet = application.send(wire::Hello{});
  EXPECT_TRUE(packet.ends_session);
  EXPECT_EQ(wire::decode_reply(std::as_bytes(std::span(packet.bytes)))->status, Code::bad_message);
}

TEST_F(PacketSessions, take_no_packet_that_is_no_message_or_has_other_descriptors) {
  const auto account = sessions->node.accounts->open(::geteuid());
  const std::string good = *wire::encode(wire::Request{1, wire::RegisterRegion{0, 0, 4096}});
  const auto bytes = std::as_bytes(std::span(good));
  EXPECT_EQ(message_of(bytes, {}).error(), Code::bad_message) << "its memory is missing";
  std::vector<resources::ForeignFd> one;
  one.emplace_back(::eventfd(0, EFD_CLOEXEC), account);
  EXPECT_EQ(message_of(bytes.first(3), std::move(one)).error(), Code::bad_message);
  std::vector<resources::ForeignFd> right;
  right.emplace_back(::eventfd(0, EFD_CLOEXEC), account);
  EXPECT_TRUE(message_of(bytes, std::move(right)));
}

}  // namespace
}  // namespace penstock::sessions
