// Sessions without sockets and without threads: packets in, packets out, and one loop that the test
// polls.
#include "test_memory.h"

#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <map>
#include <sys/eventfd.h>
#include <unistd.h>

#include "penstock/chunks.h"
#include "penstock/kv.h"
#include "penstock/net.h"
#include "penstock/sessions.h"
#include "penstock/store_fake.h"

namespace penstock::sessions {
namespace {

using resources::TestMemory;

// Carries nothing: the test is the application, too.
struct FakeHost final : SessionHost {
  void end_session(uint64_t id) override { ended.push_back(id); }
  Status watch(int eventfd, uint32_t) override {
    ++watched[eventfd];
    return Code::ok;
  }
  void forget(int eventfd) override { --watched[eventfd]; }

  std::vector<uint64_t> ended;
  std::map<int, int> watched;
};

class PacketSessions : public testing::Test {
 protected:
  PacketSessions() {
    net.serve({0, 0}, *service);
    meta::MetaOptions options;
    options.default_layout.chunk_bytes_log2 = 16;
    options.default_layout.chain_count = 1;
    meta = std::move(*meta::Meta::open(*kv, engine::system_clock(), options));
    client::FileSystemConfig config;
    config.shards.push_back({&loop, &net});
    config.targets.push_back({0, 0});
    config.caller = &caller;
    config.threads = false;
    files = std::move(*client::FileSystem::open(*meta, std::move(config)));
    node.files = files.get();
    node.caller = &caller;
    node.accounts = resources::Accounts::make(resources::bounds_of_process(), ::geteuid());
    node.user_terms = [this](uint32_t) -> client::Terms& { return terms; };
    auto shard = std::make_unique<SessionShard>();
    shard->loop = &loop;
    shard->client = &files->client(0);
    shard->parker = &parker;
    node.buffers.add_disk(loop, nullptr);
    loop.add(shard->rings);
    node.shards.push_back(std::move(shard));
  }
  ~PacketSessions() override {
    loop.remove(node.shards[0]->rings);
    files->close();
    net.withdraw({0, 0});
  }

  std::unique_ptr<Session> session() {
    Peer peer;
    peer.credentials.uid = ::geteuid();
    return std::make_unique<Session>(node, host, ++last_session, std::move(peer),
                                     node.accounts->open(::geteuid()));
  }
  // One packet with its descriptors, and the one that answers it.
  ReplyPacket send(Session& to, wire::RequestBody body, const std::vector<int>& fds = {}) {
    const std::string bytes = *wire::encode(wire::Request{++last_request, std::move(body)});
    std::vector<resources::ForeignFd> descriptors;
    for (const int fd : fds) {
      descriptors.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0), to.account());
    }
    Result<Message> message = message_of(std::as_bytes(std::span(bytes)), std::move(descriptors));
    EXPECT_TRUE(message);
    return to.answer(std::move(*message));
  }
  wire::Reply ask(Session& to, wire::RequestBody body, const std::vector<int>& fds = {}) {
    const ReplyPacket packet = send(to, std::move(body), fds);
    Result<wire::Reply> reply = wire::decode_reply(std::as_bytes(std::span(packet.bytes)));
    EXPECT_TRUE(reply && reply->id == last_request);
    return std::move(*reply);
  }
  int64_t run(ring::AppLane& lane, const ring::Submission& entry) {
    lane.push(entry);
    lane.publish();
    while (lane.ready() == 0) loop.poll();
    ring::Completion completion;
    EXPECT_EQ(lane.take(&completion, 1), 1u);
    return completion.result;
  }

  engine::SeededRandom random{1};
  engine::FutexParker parker{engine::system_clock()};
  engine::Loop loop{engine::system_clock(), random, parker};
  engine::PollingCaller caller;
  net::LocalNetwork network;
  net::LocalNet net{network, loop};
  store::FakeTarget target{loop};
  std::unique_ptr<engine::Service> service = chunks::make_service(target);
  std::unique_ptr<engine::Kv> kv = kv::make_memory_kv();
  std::unique_ptr<meta::Meta> meta;
  std::unique_ptr<client::FileSystem> files;
  client::Terms terms;
  SessionNode node;
  FakeHost host;
  uint64_t last_session = 0;
  uint64_t last_request = 0;
};

TEST_F(PacketSessions, read_and_write_a_file_through_a_ring) {
  const auto session = this->session();
  const wire::Reply greeting = ask(*session, wire::Hello{});
  ASSERT_EQ(greeting.status, Code::ok);
  EXPECT_EQ(std::get<wire::Welcome>(greeting.body).session, 1u);

  const TestMemory region(64 * kKiB, F_SEAL_SHRINK);
  EXPECT_EQ(ask(*session, wire::RegisterRegion{0, 0, region.size()}, {region.fd()}).status,
            Code::ok);
  const ring::Geometry geometry{8, 1};
  const TestMemory ring(align_up(geometry.total_bytes(), 4096), F_SEAL_SHRINK);
  const ring::Memory layout = ring::Memory::format(ring.bytes(), geometry);
  const UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  ring::AppLane lane(layout, 0);
  lane.announce();
  EXPECT_EQ(ask(*session, wire::CreateRing{0, ring.size()}, {ring.fd(), wake.get()}).status,
            Code::ok);
  EXPECT_EQ(host.watched.size(), 1u) << "this parker waits for no eventfd: the host does";
  constexpr uint32_t kFlags = wire::kOpenRead | wire::kOpenWrite | wire::kOpenCreate;
  EXPECT_EQ(ask(*session, wire::OpenPath{0, "/file", kFlags, 0644}).status, Code::ok);

  std::memset(region.bytes().data(), 'x', 8192);
  ring::Submission entry{};
  entry.operation = ring::kOperationWrite;
  entry.length = 8192;
  EXPECT_EQ(run(lane, entry), 8192);
  std::memset(region.bytes().data(), 0, 8192);
  entry.operation = ring::kOperationRead;
  EXPECT_EQ(run(lane, entry), 8192);
  EXPECT_EQ(static_cast<char>(region.bytes()[8191]), 'x');

  const SessionStatus status = session->status();
  EXPECT_EQ(status.regions, 1u);
  EXPECT_EQ(status.rings, 1u);
  EXPECT_EQ(status.open_files, 1u);
  EXPECT_EQ(status.operations, 2u);
  session->finish();
  EXPECT_EQ(host.watched.begin()->second, 0);
  EXPECT_EQ(session->status().rings, 0u);
  EXPECT_EQ(session->account()->held(resources::Resource::mappings), 0u);
}

TEST_F(PacketSessions, speak_the_highest_common_version_with_older_and_newer_applications) {
  node.protocol = {3, 5, 0b0110};
  struct Case {
    wire::Hello hello;
    wire::Agreement agreed;
  };
  for (const Case& one : {Case{{2, 4, 0b0011}, {4, 0b0010}},      // an older application
                          Case{{4, 9, UINT64_MAX}, {5, 0b0110}},  // a newer one
                          Case{{5, 5, 0}, {5, 0}},                // with no features
                          Case{{3, 0, 0b1000}, {3, 0}}}) {        // as version 2 wrote its hello
    const auto session = this->session();
    const wire::Reply reply = ask(*session, one.hello);
    ASSERT_EQ(reply.status, Code::ok) << reply.text;
    const auto& welcome = std::get<wire::Welcome>(reply.body);
    EXPECT_EQ(welcome.agreement(), one.agreed);
    EXPECT_EQ(welcome.lowest, 3u);
    EXPECT_EQ(welcome.highest, 5u);
    EXPECT_EQ(welcome.agent_features, 0b0110u);
    EXPECT_EQ(session->agreement(), one.agreed);
    EXPECT_EQ(ask(*session, wire::PathAttributes{"/", true}).status, Code::ok);
    session->finish();
  }
}

TEST_F(PacketSessions, say_what_is_wrong_where_there_is_no_common_version) {
  node.protocol = {3, 5, 0};
  for (const wire::Hello& hello : {wire::Hello{1, 2, 0}, wire::Hello{6, 7, 0}}) {
    const auto session = this->session();
    const ReplyPacket packet = send(*session, hello);
    EXPECT_TRUE(packet.ends_session);
    const auto reply = wire::decode_reply(std::as_bytes(std::span(packet.bytes)));
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->status, Code::wrong_version);
    EXPECT_NE(reply->text.find("versions 3 to 5"), std::string::npos) << reply->text;
    const char* const who = hello.highest < 3 ? "agent is newer" : "agent is older";
    EXPECT_NE(reply->text.find(who), std::string::npos) << reply->text;
    EXPECT_EQ(session->agreement().version, 0u);
    session->finish();
  }
}

TEST_F(PacketSessions, answer_nothing_before_the_greeting) {
  const auto session = this->session();
  const ReplyPacket packet = send(*session, wire::PathAttributes{"/", true});
  EXPECT_TRUE(packet.ends_session);
  EXPECT_EQ(wire::decode_reply(std::as_bytes(std::span(packet.bytes)))->status, Code::bad_message);
  session->finish();
}

TEST_F(PacketSessions, take_no_packet_that_is_no_message_or_has_other_descriptors) {
  const auto account = node.accounts->open(::geteuid());
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
