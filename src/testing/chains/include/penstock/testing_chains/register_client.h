// A client of a simulated chain.
#pragma once

#include <memory>

#include "penstock/testing_chains/chain_table.h"
#include "penstock/testing_chains/history.h"
#include "penstock/wire.h"

namespace penstock::test {

// A client: registers of chunks, read and written until it knows the end or gives up.
class RegisterClient {
 public:
  RegisterClient(sim::SimWorld& world, sim::SimNetwork& network, ChainTable& table,
                 History& history, uint32_t number);

  // Both block the calling thread of the simulation; false if the end is unknown.
  bool write(History::Register which);
  bool read(History::Register which);
  // Its process ends. Nothing is under way.
  void close() { net_.kill(); }

 private:
  Status call(wire::ChunkMethod method, History::Register which, engine::Exposure memory);

  sim::SimWorld& world_;
  ChainTable& table_;
  History& history_;
  const uint32_t number_;
  sim::SimLoop loop_;
  sim::SimNet net_;
  chain::KnownChains chains_;
  std::unique_ptr<chain::ChainNet> chain_net_;
  uint64_t values_ = 0;
};

}  // namespace penstock::test
