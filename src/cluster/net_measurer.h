// Measures the ways from this process to other nodes: each address of a node by itself, with a
// connection that is made for that and ends with it.
#pragma once

#include "addresses.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "penstock/probe.h"
#include "penstock/rails.h"

namespace penstock::cluster {

// Owner thread of the loop only, but for the constructor.
class NetMeasurer final : public probe::Measurer {
 public:
  struct Config {
    engine::Loop* loop = nullptr;
    engine::Parker* parker = nullptr;
    const Addresses* addresses = nullptr;
    // As other connections of this process are made at the moment.
    std::function<Outcome<tcp::NetworkConfig>()> network;
    rails::RailNet* rails = nullptr;  // by which calls go that may go by RDMA
    std::string without_rdma;         // why none does; empty: some do
  };
  explicit NetMeasurer(Config config);
  ~NetMeasurer();

  void measure(probe::MeasureOp& op) override;
  // What is under way ends soon, with what was measured.
  void stop();

 private:
  class OneAddress;
  struct Way;
  struct Rdma;

  void try_next();
  void try_rdma();
  void on_rdma_look();
  void on_rdma_probed();
  void add_rdma(bool has_measured);
  Outcome<void> begin(Way& way);
  void on_probed();
  void add_facts(probe::MeasuredWay& measured) const;
  void finish(Status status);

  const Config config_;
  probe::MeasureOp* op_ = nullptr;
  bool stopped_ = false;
  std::vector<tcp::SocketAddress> addresses_;
  size_t next_ = 0;
  std::unique_ptr<Way> way_;
  std::unique_ptr<Rdma> rdma_;
};

}  // namespace penstock::cluster
