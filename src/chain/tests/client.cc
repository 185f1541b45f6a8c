#include "cluster.h"

#include <cstring>

#include "penstock/chain.h"

namespace penstock::chain {
namespace {

constexpr uint32_t kRegisterBytes = 64;
constexpr int kTriesMax = 30;

}  // namespace

Client::Client(sim::SimWorld& world, sim::SimNetwork& network, Table& table, History& history,
               uint32_t number)
    : world_(world),
      table_(table),
      history_(history),
      number_(number),
      loop_(world, sim::LoopDriver::world_when_called),
      net_(network, loop_, NodeId{number}) {}

wire::ChainHeader Client::header(uint64_t chunk) const {
  return {view_.version, 7, kChain.value, static_cast<uint32_t>(chunk)};
}

Status Client::call(engine::CallOp& op) {
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
    op.deadline = loop_.now() + std::chrono::milliseconds(400);
    net_.call(op);
  });
}

bool Client::write(History::Register which) {
  const uint64_t value = uint64_t{number_} << 32 | ++values_;
  std::array<uint64_t, kRegisterBytes / 8> bytes;
  bytes.fill(value);
  const size_t slot = world_.random().below(sequences_.size());
  const uint64_t sequence = ++sequences_[slot];
  const History::Operation operation = history_.begin_write(which, value);
  for (int i = 0; i < kTriesMax; ++i) {
    if (view_.serving() > 0) {
      wire::ChainUpdateRequest request;
      request.header = header(which.first);
      request.request = {1, sequence, number_, static_cast<uint32_t>(slot)};
      request.begin = static_cast<uint32_t>(which.second) * kRegisterBytes;
      request.end = request.begin + kRegisterBytes;
      request.kind = static_cast<uint8_t>(store::UpdateKind::write);
      std::array<std::byte, 64> answer;
      engine::CallOp op;
      op.to = view_.members.front().address;
      op.method = static_cast<uint16_t>(wire::ChainMethod::update);
      op.request = wire::as_wire(request);
      op.response = answer;
      op.exposures[0] = {{reinterpret_cast<std::byte*>(bytes.data()), kRegisterBytes},
                         engine::Access::fetch};
      op.exposure_count = 1;
      const Status status = call(op);
      if (status.ok()) {
        history_.end_write(operation);
        return true;
      }
      if (status == Code::stale) break;
    }
    world_.run_for(world_.between(std::chrono::milliseconds(1), std::chrono::milliseconds(300)));
    view_ = table_.view();
  }
  return false;
}

bool Client::read(History::Register which) {
  const History::Operation operation = history_.begin_read(which);
  for (int i = 0; i < kTriesMax; ++i) {
    if (view_.serving() > 0) {
      wire::ChainReadRequest request;
      request.header = header(which.first);
      request.begin = static_cast<uint32_t>(which.second) * kRegisterBytes;
      request.length = kRegisterBytes;
      std::array<std::byte, 64> answer;
      std::array<uint64_t, kRegisterBytes / 8> bytes{};
      engine::CallOp op;
      op.to = view_.members[world_.random().below(view_.serving())].address;
      op.method = static_cast<uint16_t>(wire::ChainMethod::read);
      op.request = wire::as_wire(request);
      op.response = answer;
      op.exposures[0] = {{reinterpret_cast<std::byte*>(bytes.data()), kRegisterBytes},
                         engine::Access::place};
      op.exposure_count = 1;
      if (call(op).ok()) {
        for (const uint64_t value : bytes) ASSERT(value == bytes[0]);
        history_.end_read(operation, bytes[0]);
        return true;
      }
    }
    world_.run_for(world_.between(std::chrono::milliseconds(1), std::chrono::milliseconds(300)));
    // What a client knows of the table is old for a while.
    if (world_.chance(700)) view_ = table_.view();
  }
  return false;
}

}  // namespace penstock::chain
