// Clients of simulated chains.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "penstock/testing_chains/chain_table.h"
#include "penstock/testing_chains/history.h"
#include "penstock/wire.h"

namespace penstock::test {

// Registers in chunks of chains, read and written until the end is known or given up. All that is
// asked and heard is in the history. What it is given outlives it.
class Registers {
 public:
  // Chunks are dealt out over so many chains, kChain first. `number` names the writer in values.
  Registers(sim::SimWorld& world, engine::Loop& loop, engine::Net& chain_net, History& history,
            uint32_t number, uint32_t chains = 1);

  // All block the calling thread of the simulation; false if the end is unknown.
  bool write(History::Register which) { return try_write(which).ok(); }
  bool read(History::Register which) { return read_value(which).has_value(); }
  Status try_write(History::Register which);
  std::optional<uint64_t> read_value(History::Register which);
  static uint32_t writer_of(uint64_t value) { return static_cast<uint32_t>(value >> 32); }
  // The heads of all chains say that nothing of the registers is pending.
  bool is_quiet();
  // All registers of this chunk and of those behind it, up to these.
  bool remove(uint64_t chunk, History::Register end);

 private:
  Status call(wire::ChunkMethod method, History::Register which, engine::Exposure memory);
  Status call(wire::ChunkMethod method, const wire::ChunkRequest& request, engine::Exposure memory);
  Status call(ChainId chain, wire::ChunkMethod method, const wire::ChunkRequest& request,
              engine::Exposure memory);

  sim::SimWorld& world_;
  engine::Loop& loop_;
  engine::Net& chain_net_;
  History& history_;
  const uint32_t number_;
  const uint32_t chains_;
  uint64_t values_ = 0;
};

// A client of the one chain of a ChainTable.
class RegisterClient {
 public:
  // `session`: for which it writes (AgentSession::word()); none: it has no sessions.
  RegisterClient(sim::SimWorld& world, Wires& wires, ChainTable& table, History& history,
                 uint32_t number, std::function<uint64_t()> session = {});

  Registers& registers() { return *registers_; }
  bool write(History::Register which) { return registers_->write(which); }
  bool read(History::Register which) { return registers_->read(which); }
  bool remove(uint64_t chunk, History::Register end) { return registers_->remove(chunk, end); }
  // It asks for the newest version of the chain.
  void refresh() { chains_.refresh(kChain); }
  // Its process ends. Nothing is under way.
  void close() { net_->kill(); }

 private:
  sim::SimLoop loop_;
  const std::unique_ptr<Plug> net_;
  chain::KnownChains chains_;
  std::unique_ptr<chain::ChainNet> chain_net_;
  std::unique_ptr<Registers> registers_;
};

}  // namespace penstock::test
