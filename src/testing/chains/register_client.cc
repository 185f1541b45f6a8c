#include <algorithm>

#include "penstock/testing_chains.h"

namespace penstock::test {
namespace {

constexpr uint32_t kRegisterBytes = 64;
constexpr uint64_t kInode = 7;

}  // namespace

Registers::Registers(sim::SimWorld& world, engine::Loop& loop, engine::Net& chain_net,
                     History& history, uint32_t number, uint32_t chains)
    : world_(world),
      loop_(loop),
      chain_net_(chain_net),
      history_(history),
      number_(number),
      chains_(chains) {
  ASSERT(chains_ > 0);
}

RegisterClient::RegisterClient(sim::SimWorld& world, Wires& wires, ChainTable& table,
                               History& history, uint32_t number, std::function<uint64_t()> session)
    : loop_(world, sim::LoopDriver::world_when_called),
      net_(wires.plug(loop_, NodeId{number})),
      chains_([this, &world, &table](ChainId) {
        // What it hears then is a little old again.
        world.after(world.between(std::chrono::milliseconds(0), std::chrono::milliseconds(50)),
                    "client.refresh", [this, view = table.view()] { chains_.learn(view); });
      }) {
  chain_net_ = chain::ChainNet::make({.loop = &loop_,
                                      .net = net_.get(),
                                      .chains = &chains_,
                                      .node = NodeId{number},
                                      .incarnation = 1,
                                      .first_slot = 0,
                                      .slots = 2,
                                      .session = std::move(session)});
  registers_ = std::make_unique<Registers>(world, loop_, *chain_net_, history, number);
}

Status Registers::call(wire::ChunkMethod method, History::Register which, engine::Exposure memory) {
  return call(method,
              {.inode = kInode,
               .chunk = static_cast<uint32_t>(which.first),
               .begin = static_cast<uint32_t>(which.second) * kRegisterBytes,
               .length = kRegisterBytes},
              memory);
}

Status Registers::call(wire::ChunkMethod method, const wire::ChunkRequest& request,
                       engine::Exposure memory) {
  return call(ChainId(kChain.value + request.chunk % chains_), method, request, memory);
}

Status Registers::call(ChainId chain, wire::ChunkMethod method, const wire::ChunkRequest& request,
                       engine::Exposure memory) {
  std::array<std::byte, sizeof(wire::ChunkEndResponse)> response{};
  engine::CallOp op;
  op.to = chain::address_of(chain);
  op.method = static_cast<uint16_t>(method);
  op.request = wire::as_wire(request);
  op.response = response;
  op.exposures[0] = memory;
  op.exposure_count = memory.memory.length > 0 ? 1 : 0;
  // Some clients have little patience.
  const auto patience = std::chrono::milliseconds(world_.chance(200) ? 300 : 8000);
  struct Waiter {
    engine::Loop* loop = nullptr;
    engine::Op* done = nullptr;
  } waiter;
  return engine::thread_caller().call(loop_, [&](engine::Op& done) {
    waiter = {&loop_, &done};
    op.owner = &waiter;
    op.completion = [](engine::Op& ended) {
      const auto& self = ended.owner_as<Waiter>();
      self.loop->complete(*self.done, ended.status);
    };
    op.deadline = loop_.now() + patience;
    chain_net_.call(op);
  });
}

Status Registers::try_write(History::Register which) {
  const uint64_t value = uint64_t{number_} << 32 | ++values_;
  std::array<uint64_t, kRegisterBytes / 8> bytes;
  bytes.fill(value);
  const History::Operation operation = history_.begin_write(which, value);
  const Status status =
      call(wire::ChunkMethod::write, which,
           {{reinterpret_cast<std::byte*>(bytes.data()), kRegisterBytes}, engine::Access::fetch});
  if (status.ok()) {
    history_.end_write(operation);
  } else if (status != Code::may_have_happened) {
    history_.forget_write(operation);
  }
  return status;
}

bool Registers::is_quiet() {
  const wire::ChunkRequest request{.inode = kInode};
  for (uint32_t i = 0; i < chains_; ++i) {
    const ChainId chain(kChain.value + i);
    if (!call(chain, wire::ChunkMethod::end_query, request, {}).ok()) return false;
  }
  return true;
}

// What is removed reads as zeros. Where it is known to have failed nothing is said of it: what it
// has done may be a part.
bool Registers::remove(uint64_t chunk, History::Register end) {
  std::vector<History::Operation> all;
  for (uint64_t c = chunk; c < end.first; ++c) {
    for (uint64_t r = 0; r < end.second; ++r) all.push_back(history_.begin_write({c, r}, 0));
  }
  const wire::ChunkRequest request{.inode = kInode, .chunk = static_cast<uint32_t>(chunk)};
  const Status status = call(wire::ChunkMethod::remove, request, {});
  if (!status.ok()) return false;
  for (const History::Operation one : all) history_.end_write(one);
  return true;
}

std::optional<uint64_t> Registers::read_value(History::Register which) {
  const History::Operation operation = history_.begin_read(which);
  std::array<uint64_t, kRegisterBytes / 8> bytes{};
  const Status status =
      call(wire::ChunkMethod::read, which,
           {{reinterpret_cast<std::byte*>(bytes.data()), kRegisterBytes}, engine::Access::place});
  if (!status.ok()) return std::nullopt;
  ASSERT(std::all_of(bytes.begin(), bytes.end(), [&](uint64_t v) { return v == bytes[0]; }));
  history_.end_read(operation, bytes[0]);
  return bytes[0];
}

}  // namespace penstock::test
