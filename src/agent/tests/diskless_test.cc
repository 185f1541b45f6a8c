// An agent without disks: its namespace is given to it, and its targets are served elsewhere.
#include "raw_session.h"

#include <array>
#include <memory>
#include <thread>

#include "penstock/chunks.h"
#include "penstock/kv.h"
#include "penstock/net.h"
#include "penstock/store_fake.h"

namespace penstock::agent {
namespace {

// What the agent is a client of: targets on loops of their own, and a namespace.
class Elsewhere {
 public:
  Elsewhere() {
    for (uint32_t i = 0; i < homes_.size(); ++i) {
      Home& home = homes_[i];
      home.target = std::make_unique<store::FakeTarget>(home.loop);
      home.service = chunks::make_service(*home.target);
      home.net = std::make_unique<net::LocalNet>(network, home.loop);
      home.net->serve(address(i), *home.service);
      home.thread = std::thread([&home] { home.loop.run(); });
    }
    meta::MetaOptions options;
    options.default_layout.chunk_bytes_log2 = 16;
    options.default_layout.chain_count = static_cast<uint32_t>(homes_.size());
    options.root_uid = ::geteuid();
    meta = std::move(*meta::Meta::open(*kv_, engine::system_clock(), options));
  }
  ~Elsewhere() {
    for (Home& home : homes_) {
      home.loop.stop();
      home.thread.join();
      home.net.reset();
    }
  }

  DisklessConfig client() {
    DisklessConfig config;
    config.listen = false;
    config.shards = 2;
    config.spin = std::chrono::microseconds(0);
    config.meta = meta.get();
    std::vector<engine::Address> addresses;
    for (uint32_t i = 0; i < homes_.size(); ++i) addresses.push_back(address(i));
    config.chains = inodes::ChainAddresses::dense(addresses);
    config.make_net = [this](engine::Loop& loop) {
      return std::make_unique<net::LocalNet>(network, loop);
    };
    config.space = [] { return engine::DiskSpace{kGiB, kGiB}; };
    return config;
  }

  net::LocalNetwork network;
  std::unique_ptr<meta::Meta> meta;

 private:
  struct Home {
    engine::SeededRandom random{1};
    engine::FutexParker parker{engine::system_clock()};
    engine::Loop loop{engine::system_clock(), random, parker};
    std::unique_ptr<store::FakeTarget> target;
    std::unique_ptr<engine::Service> service;
    std::unique_ptr<net::LocalNet> net;
    std::thread thread;
  };
  // Other than those of any shard of the agent.
  static engine::Address address(uint32_t target) { return {NodeId{1}, target}; }

  std::unique_ptr<engine::Kv> kv_ = kv::make_memory_kv();
  std::array<Home, 2> homes_;
};

constexpr uint32_t kAll = wire::kOpenRead | wire::kOpenWrite | wire::kOpenCreate;
constexpr uint64_t kBytes = 256 * kKiB;  // several chunks, on both targets

int64_t run(RawRing& ring, uint8_t operation, uint64_t length) {
  ring::Submission entry{};
  entry.operation = operation;
  entry.length = length;
  return ring.run(entry);
}

TEST(DisklessAgent, reads_and_writes_a_file_through_a_ring) {
  Elsewhere elsewhere;
  auto agent = Agent::start(elsewhere.client());
  ASSERT_TRUE(agent) << agent.error().message;
  const AgentStatus status = (*agent)->status();
  EXPECT_TRUE(status.directory.empty());
  ASSERT_EQ(status.shards.size(), 2u);
  EXPECT_EQ(status.shards[0].target_capacity_bytes, 0u) << "it has no target of its own";
  {
    RawSession session(std::move(*(*agent)->connect_local()));
    const SharedMemory region(kBytes, F_SEAL_SHRINK);
    EXPECT_EQ(session.ask(wire::RegisterRegion{0, 0, kBytes}, {region.fd()}).status, Code::ok);
    RawRing ring(session, 0);
    ASSERT_EQ(ring.created.status, Code::ok) << ring.created.text;
    ASSERT_EQ(session.ask(wire::OpenPath{0, "/file", kAll, 0644}).status, Code::ok);
    for (uint64_t i = 0; i < kBytes; ++i) {
      region.bytes()[i] = static_cast<std::byte>(mix64(i));
    }
    EXPECT_EQ(run(ring, ring::kOperationWrite, kBytes), static_cast<int64_t>(kBytes));
    EXPECT_EQ(run(ring, ring::kOperationSync, 0), 0);
    std::memset(region.bytes().data(), 0, kBytes);
    EXPECT_EQ(run(ring, ring::kOperationRead, kBytes), static_cast<int64_t>(kBytes));
    for (uint64_t i = 0; i < kBytes; ++i) {
      ASSERT_EQ(region.bytes()[i], static_cast<std::byte>(mix64(i))) << i;
    }
    EXPECT_EQ(session.ask(wire::CloseFile{0}).status, Code::ok);
  }
  EXPECT_TRUE((*agent)->scrub(nullptr).complete) << "there is nothing of its own to scrub";
  (*agent)->stop();

  // What it wrote is elsewhere: another agent finds it.
  auto other = Agent::start(elsewhere.client());
  ASSERT_TRUE(other) << other.error().message;
  const auto attributes = (*other)->files().resolve({}, "/file", true);
  ASSERT_TRUE(attributes);
  EXPECT_EQ(attributes->length, kBytes);
}

TEST(DisklessAgent, has_a_node_cache_and_a_socket_in_a_directory_of_its_own) {
  Elsewhere elsewhere;
  const ScratchDirectory scratch;
  DisklessConfig config = elsewhere.client();
  config.directory = scratch.path();
  config.listen = true;
  config.cache_bytes = 32 * kMiB;
  auto agent = Agent::start(config);
  ASSERT_TRUE(agent) << agent.error().message;
  EXPECT_TRUE(std::filesystem::exists(scratch.path() + "/" + wire::kSessionSocketName));
  RawSession session(std::move(*(*agent)->connect_local()));
  EXPECT_EQ(session.ask(wire::MapCache{}).status, Code::ok);
  const SharedMemory region(kBytes, F_SEAL_SHRINK);
  EXPECT_EQ(session.ask(wire::RegisterRegion{0, 0, kBytes}, {region.fd()}).status, Code::ok);
  RawRing ring(session, 0);
  ASSERT_EQ(session.ask(wire::OpenPath{0, "/file", kAll, 0644}).status, Code::ok);
  EXPECT_EQ(run(ring, ring::kOperationWrite, kBytes), static_cast<int64_t>(kBytes));
  EXPECT_EQ(run(ring, ring::kOperationFill, kBytes), static_cast<int64_t>(kBytes));
}

TEST(DisklessAgent, refuses_to_listen_without_a_directory) {
  Elsewhere elsewhere;
  DisklessConfig config = elsewhere.client();
  config.listen = true;
  const auto agent = Agent::start(config);
  ASSERT_FALSE(agent);
  EXPECT_EQ(agent.error().status, Code::invalid_argument);
}

}  // namespace
}  // namespace penstock::agent
