// A chain of simulated targets, the controller's step over messages, and clients.
#pragma once

#include "history.h"

#include <array>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "penstock/chain.h"
#include "penstock/chain_store_fake.h"
#include "penstock/controller.h"
#include "penstock/sim.h"
#include "penstock/wire.h"

namespace penstock::chain {

inline constexpr ChainId kChain{1};

// A process with one target. It tells the controller how it is, over messages that take their time.
class Node {
 public:
  Node(sim::SimWorld& world, sim::SimNetwork& network, uint32_t number)
      : world_(world), network_(network), number_(number) {}
  ~Node() { ASSERT(host == nullptr && net_ == nullptr); }

  // A process begins, which has nothing open.
  void start();
  // Its target has got that incarnation, and is served.
  void open(controller::Incarnation incarnation);
  // Killed, or without power. What was under way comes to its end without effect.
  void die(bool power_cut);
  bool is_up() const { return is_up_; }

  uint32_t number() const { return number_; }
  engine::Address address() const { return {NodeId{number_}, 0}; }
  TargetId target() const { return TargetId{number_}; }
  controller::Uuid uuid() const;
  // The incarnation that the target keeps.
  controller::Incarnation incarnation() const { return incarnation_; }
  const store::FakeChainImage& image() const { return image_; }

  std::unique_ptr<Host> host;
  // Of the next prepares and replaces: this share fails.
  uint32_t store_fault_permille = 0;

  // What it will say of itself next, and what it was told.
  controller::Uuid process;
  uint64_t opening = 0;
  controller::NodeIncarnation admitted;
  uint64_t sequence = 0;
  uint64_t answered = 0;
  controller::MapVersion applied;
  std::map<uint64_t, engine::Time> sent;  // heartbeats, until they are answered
  std::vector<controller::ChainReport> reports;
  struct Accused {
    engine::Time first{};
    engine::Time last{};
  };
  std::map<uint32_t, Accused> unreachable;
  // Called when there is something to report.
  std::function<void(Node&)> speak;

  std::vector<NodeId> accused() const;

 private:
  void on_report(const Report& report);

  sim::SimWorld& world_;
  sim::SimNetwork& network_;
  const uint32_t number_;
  bool is_up_ = false;
  controller::Incarnation incarnation_;
  store::FakeChainImage image_;
  std::unique_ptr<sim::SimLoop> loop_;
  std::unique_ptr<sim::SimNet> net_;
  std::unique_ptr<store::FakeChainStore> store_;
};

// The controller of one chain: its step, and messages that take their time and may be lost.
class Table {
 public:
  Table(sim::SimWorld& world, std::vector<std::unique_ptr<Node>>& nodes);

  // Lets all nodes in, makes the chain, and begins the loop of all that it does.
  void start();
  void stop() { stopped_ = true; }

  // What a client would hear, some time ago at most.
  View view() const;
  bool all_serve() const;

  // Nodes that do not reach the controller.
  std::set<uint32_t> cut_off;
  uint32_t lost_permille = 0;

 private:
  void tick();
  void beat(Node& node);
  controller::Event next_word(Node& node);
  controller::Event heartbeat(Node& node);
  controller::Actions handle(const controller::Event& event);
  void send(const controller::Actions& actions);
  void send(uint32_t number, const std::function<void(Node&)>& message);
  void give(Node& node, const controller::Grant& grant, const View& view);
  bool hears(uint32_t number);

  sim::SimWorld& world_;
  std::vector<std::unique_ptr<Node>>& nodes_;
  controller::State state_;
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
