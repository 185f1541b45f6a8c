// Three replicas over stores in memory, without a controller, and a client.
#pragma once

#include <deque>
#include <gtest/gtest.h>

#include "penstock/chain.h"
#include "penstock/chain_store_fake.h"
#include "penstock/sim.h"
#include "penstock/wire.h"

namespace penstock::chain {

inline constexpr ChainId kFirstChain{1};
inline constexpr NodeId kReader{9};
inline constexpr uint64_t kFile = 7;
inline constexpr uint32_t kBlock = limits::kBlockBytes;

class ThreeReplicas : public testing::Test {
 protected:
  struct Replica {
    Replica(sim::SimWorld& world, sim::SimNetwork& network, uint32_t its_number,
            engine::Duration lease)
        : number(its_number),
          loop(world, sim::LoopDriver::world_when_called),
          net(network, loop, NodeId{number}),
          store(image, loop) {
      host = Host::make({.target = TargetId{number},
                         .incarnation = 1,
                         .loop = &loop,
                         .net = &net,
                         .store = &store,
                         .report = [this](const Report& report) { reports.push_back(report); }});
      net.serve({NodeId{number}, 0}, host->service());
      host->lease(world.now() + lease);
    }
    const uint32_t number;
    sim::SimLoop loop;
    sim::SimNet net;
    store::FakeChainImage image;
    store::FakeChainStore store;
    std::vector<Report> reports;
    std::unique_ptr<Host> host;
  };

  explicit ThreeReplicas(engine::Duration lease = std::chrono::hours(1)) {
    for (uint32_t i = 1; i <= 3; ++i) {
      replicas_.push_back(std::make_unique<Replica>(world_, network_, i, lease));
    }
    chain_net_ = ChainNet::make({.loop = &loop_,
                                 .net = &client_,
                                 .chains = &chains_,
                                 .node = kReader,
                                 .incarnation = 1,
                                 .first_slot = 0,
                                 .slots = 8,
                                 .session = [this] { return session_; }});
    adopt({Standing::serving, Standing::serving, Standing::serving});
  }
  ~ThreeReplicas() override {
    client_.kill();
    for (const auto& one : replicas_) {
      one->net.kill();
      one->store.die();
      one->host = nullptr;
    }
    world_.run_for(std::chrono::seconds(30));
  }

  Replica& replica(uint32_t number) { return *replicas_[number - 1]; }
  store::ChainChunk at(uint32_t chunk) const { return {kFirstChain, {InodeId{kFile}, chunk}}; }
  void damage(uint32_t number, uint32_t chunk, uint32_t block) {
    replica(number).image.damage(at(chunk), block);
  }
  const std::set<uint32_t>& damaged(uint32_t number, uint32_t chunk) {
    return replica(number).image.chunks().at(at(chunk)).damaged;
  }
  const std::string& bytes(uint32_t number, uint32_t chunk) {
    return replica(number).image.chunks().at(at(chunk)).bytes;
  }

  void adopt(const std::vector<Standing>& standings) {
    View view{kFirstChain, ++version_, {}};
    for (uint32_t i = 0; i < standings.size(); ++i) {
      view.members.push_back({TargetId{i + 1}, 1, {NodeId{i + 1}, 0}, standings[i]});
    }
    for (const auto& one : replicas_) one->host->adopt(view);
    chains_.learn(view);
  }

  Status call(wire::ChunkMethod method, uint32_t chunk, uint32_t begin, std::string& memory) {
    const wire::ChunkRequest words{.inode = kFile,
                                   .chunk = chunk,
                                   .begin = begin,
                                   .length = static_cast<uint32_t>(memory.size())};
    std::array<std::byte, 64> answer{};
    engine::CallOp op;
    bool ended = false;
    op.to = address_of(kFirstChain);
    op.method = static_cast<uint16_t>(method);
    op.request = wire::as_wire(words);
    op.response = answer;
    op.deadline = world_.now() + std::chrono::seconds(10);
    op.exposures[0] = {
        {reinterpret_cast<std::byte*>(memory.data()), memory.size()},
        method == wire::ChunkMethod::read ? engine::Access::place : engine::Access::fetch};
    op.exposure_count = 1;
    op.owner = &ended;
    op.completion = [](engine::Op& done) { done.owner_as<bool>() = true; };
    chain_net_->call(op);
    EXPECT_TRUE(world_.run_until([&] { return ended; }, std::chrono::seconds(60)));
    return op.status;
  }
  // One that the test starts, with memory of its own.
  struct Call : engine::CallOp {
    wire::ChunkRequest words;
    std::string memory;
    std::array<std::byte, 64> answer{};
    bool ended = false;
  };
  void start(Call& call, ChainId chain, wire::ChunkMethod method) {
    call.to = address_of(chain);
    call.method = static_cast<uint16_t>(method);
    call.request = wire::as_wire(call.words);
    call.response = call.answer;
    call.deadline = world_.now() + std::chrono::seconds(15);
    if (!call.memory.empty()) {
      call.exposures[0] = {{reinterpret_cast<std::byte*>(call.memory.data()), call.memory.size()},
                           engine::Access::fetch};
      call.exposure_count = 1;
    }
    call.completion = [](engine::Op& done) { static_cast<Call&>(done).ended = true; };
    chain_net_->call(call);
  }
  // What somebody says to a replica, with this memory exposed.
  struct Said : engine::CallOp {
    std::vector<std::byte> message;
    std::vector<std::string> memory;
    std::array<std::byte, 64> answer{};
    bool ended = false;
  };
  template <class Words>
  Said& begin_to_say(engine::Net& from, uint32_t to, wire::ChainMethod what, const Words& words,
                     std::vector<std::string> memory = {}) {
    Said& said = said_.emplace_back();
    const Bytes bytes = wire::as_wire(words);
    said.message.assign(bytes.begin(), bytes.end());
    said.memory = std::move(memory);
    said.to = {NodeId{to}, 0};
    said.method = static_cast<uint16_t>(what);
    said.request = said.message;
    said.response = said.answer;
    said.deadline = world_.now() + std::chrono::seconds(5);
    for (std::string& part : said.memory) {
      said.exposures[said.exposure_count++] = {
          {reinterpret_cast<std::byte*>(part.data()), part.size()}, engine::Access::fetch};
    }
    said.completion = [](engine::Op& done) { static_cast<Said&>(done).ended = true; };
    from.call(said);
    return said;
  }
  Status end_of(Said& said) {
    EXPECT_TRUE(world_.run_until([&said] { return said.ended; }, std::chrono::seconds(60)));
    return said.status;
  }
  Status write(uint32_t chunk, uint32_t begin, std::string content) {
    return call(wire::ChunkMethod::write, chunk, begin, content);
  }
  std::string read(uint32_t chunk, uint32_t begin, uint32_t length) {
    std::string memory(length, '?');
    const Status status = call(wire::ChunkMethod::read, chunk, begin, memory);
    return status.ok() ? memory : std::string(status.name());
  }
  void scrub(uint32_t number) {
    bool over = false;
    replica(number).store.scrub([&over] { over = true; });
    EXPECT_TRUE(world_.run_until([&over] { return over; }, std::chrono::seconds(60)));
  }
  void expect_nobody_left() {
    for (const auto& one : replicas_) {
      for (const Report& report : one->reports) EXPECT_NE(report.kind, Report::Kind::failed);
    }
  }

  sim::SimWorld world_{1};
  sim::SimNetwork network_{world_};
  sim::SimLoop loop_{world_, sim::LoopDriver::world_when_called};
  sim::SimNet client_{network_, loop_, kReader};
  std::vector<std::unique_ptr<Replica>> replicas_;
  uint64_t session_ = 0;  // for which calls change something
  KnownChains chains_{[](ChainId) {}};
  std::unique_ptr<ChainNet> chain_net_;
  uint64_t version_ = 0;
  std::deque<Said> said_;
};

}  // namespace penstock::chain
