// Measures the ways from this process to other nodes: each address of a node by itself, with a
// connection that is made for that and ends with it.
#pragma once

#include "addresses.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "penstock/probe.h"

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
    std::string without_rdma;  // why no call goes by RDMA; empty: some do
  };
  explicit NetMeasurer(Config config);
  ~NetMeasurer();

  void measure(probe::MeasureOp& op) override;
  // What is under way ends soon, with what was measured.
  void stop();

 private:
  class OneAddress;
  struct Way;

  void try_next();
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
};

}  // namespace penstock::cluster
