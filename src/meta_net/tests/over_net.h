// A Meta that is asked over a net, both sides in this process, as tests of Meta open one.
#pragma once

#include <memory>
#include <thread>

#include "penstock/meta_net.h"
#include "penstock/net.h"
#include "penstock/testing_meta.h"

namespace penstock::meta_net {

inline constexpr NodeId kAgent{1};
inline constexpr NodeId kServer{2};
inline constexpr engine::Address kService{kServer, 7};

// A loop and the thread that runs it.
class LoopThread {
 public:
  explicit LoopThread(net::LocalNetwork& network)
      : random_(7),
        parker_(engine::system_clock()),
        loop(engine::system_clock(), random_, parker_),
        net(network, loop) {}
  ~LoopThread() { stop(); }

  void start() {
    thread_ = std::thread([this] { loop.run(); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    loop.stop();
    thread_.join();
  }

 private:
  engine::SeededRandom random_;
  engine::FutexParker parker_;

 public:
  engine::Loop loop;
  net::LocalNet net;

 private:
  std::thread thread_;
};

// One service and what asks it, each with a loop of its own.
class LocalHost {
 public:
  explicit LocalHost(meta::Meta& meta, MetaServiceConfig config = {});
  ~LocalHost();

  RemoteMetaConfig asking();
  MetaService& service() { return *service_; }
  LoopThread& serving() { return serving_; }
  LoopThread& agent() { return asking_; }
  // The service ends; what asks stays.
  void stop();

 private:
  net::LocalNetwork network_{kAgent};
  LoopThread serving_{network_};
  LoopThread asking_{network_};
  std::unique_ptr<MetaService> service_;
  uint64_t callers_ = 0;
};

// The same between two machines of a simulation, over a network that loses, delays and repeats.
class SimHost {
 public:
  SimHost(sim::SimWorld& world, meta::Meta& meta);
  ~SimHost();

  RemoteMetaConfig asking();
  MetaService& service() { return *service_; }
  sim::SimNetwork network;
  // The process of the agent dies in the middle of what it asks.
  void kill_agent() { asking_net_->kill(); }
  // The service's process ends, and another one begins.
  void stop();
  void start(meta::Meta& meta);

 private:
  sim::SimWorld& world_;
  sim::SimLoop serving_;
  sim::SimLoop asking_;
  std::unique_ptr<sim::SimNet> serving_net_;
  std::unique_ptr<sim::SimNet> asking_net_;
  std::unique_ptr<MetaService> service_;
  uint64_t callers_ = 0;
};

// As meta::Opener: over a LocalNet, or in a simulation a SimNet with faults.
Outcome<std::unique_ptr<meta::Meta>> open_over_net(engine::Kv& kv, const engine::Clock& clock,
                                                   meta::MetaOptions options);

}  // namespace penstock::meta_net
