// A chain of simulated targets, a controller that keeps the promises of decision 0044, and clients.
#pragma once

#include "history.h"

#include <array>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "penstock/chain.h"
#include "penstock/chain_store_fake.h"
#include "penstock/sim.h"
#include "penstock/wire.h"

namespace penstock::chain {

inline constexpr ChainId kChain{1};
// Of a lease, and how much longer the controller waits.
inline constexpr auto kLease = std::chrono::milliseconds(400);
inline constexpr auto kLeaseMargin = std::chrono::milliseconds(100);

// A process with one target.
class Node {
 public:
  Node(sim::SimWorld& world, sim::SimNetwork& network, uint32_t number)
      : world_(world), network_(network), number_(number) {}
  ~Node() { ASSERT(host == nullptr); }

  void start(std::function<void(const Report&)> report);
  // Killed, or without power. What was under way comes to its end without effect.
  void die(bool power_cut);
  bool is_up() const { return host != nullptr; }

  uint32_t number() const { return number_; }
  engine::Address address() const { return {NodeId{number_}, 0}; }
  TargetId target() const { return TargetId{number_}; }
  uint64_t incarnation() const { return incarnation_; }
  const store::FakeChainImage& image() const { return image_; }

  std::unique_ptr<Host> host;
  // Of the next prepares and replaces: this share fails.
  uint32_t store_fault_permille = 0;

 private:
  sim::SimWorld& world_;
  sim::SimNetwork& network_;
  const uint32_t number_;
  uint64_t incarnation_ = 0;
  store::FakeChainImage image_;
  std::unique_ptr<sim::SimLoop> loop_;
  std::unique_ptr<sim::SimNet> net_;
  std::unique_ptr<store::FakeChainStore> store_;
};

// What the controller does for one chain. Heartbeats and answers take their time and may be lost.
class Table {
 public:
  Table(sim::SimWorld& world, std::vector<std::unique_ptr<Node>>& nodes);

  // The loop of all that it does.
  void start();
  void stop() { stopped_ = true; }
  void on_report(uint32_t number, const Report& report);

  // What a client would hear, some time ago at most.
  const View& view() const { return view_; }
  bool all_serve() const { return view_.serving() == nodes_.size(); }

  // Nodes that do not reach the controller.
  std::set<uint32_t> cut_off;
  uint32_t lost_permille = 0;

 private:
  struct Known {
    uint64_t incarnation = 0;   // of the newest heartbeat
    engine::Time heard{};       // when that arrived
    engine::Time lease_ends{};  // no later, by any clock
    engine::Time accused{};     // since when neighbours do not reach it
    bool stopping = false;      // gets no leases until it has left
  };

  void tick();
  void heartbeat(Node& node);
  void on_heartbeat(uint32_t number, uint64_t incarnation, engine::Time sent);
  void answer(uint32_t number, uint64_t incarnation, engine::Time until);
  void let_go();
  void take_back();
  void publish();
  size_t index_of(uint32_t number) const;
  bool has_left(const Member& member) const;
  void set(std::vector<Member> members);
  bool hears(uint32_t number);

  sim::SimWorld& world_;
  std::vector<std::unique_ptr<Node>>& nodes_;
  std::map<uint32_t, Known> known_;
  View view_;
  std::set<uint32_t> failed_;  // said so of the present version
  bool stopped_ = false;
};

// A client: registers of chunks, read and written until it knows the end or gives up.
class Client {
 public:
  Client(sim::SimWorld& world, sim::SimNetwork& network, Table& table, History& history,
         uint32_t number);

  // Both block the calling thread of the simulation; false if the end is unknown.
  bool write(History::Register which);
  bool read(History::Register which);
  // Its process ends. Nothing is under way.
  void close() { net_.kill(); }

 private:
  Status call(wire::ChunkMethod method, History::Register which, engine::Exposure memory);

  sim::SimWorld& world_;
  Table& table_;
  History& history_;
  const uint32_t number_;
  sim::SimLoop loop_;
  sim::SimNet net_;
  KnownChains chains_;
  std::unique_ptr<ChainNet> chain_net_;
  uint64_t values_ = 0;
};

}  // namespace penstock::chain
