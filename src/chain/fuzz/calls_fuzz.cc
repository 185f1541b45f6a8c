// Hostile calls to a replica, by whoever claims to be a client or a neighbour: it may refuse all of
// them or leave the chain, and must not crash, hang or keep memory.
#include "fuzz.h"

#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "penstock/chain.h"
#include "penstock/chain_store_fake.h"
#include "penstock/sim.h"
#include "penstock/wire.h"

using namespace penstock;         // NOLINT: a fuzz target is one function
using namespace penstock::chain;  // NOLINT

namespace {

constexpr ChainId kChain{1};
constexpr NodeId kReplica{2};
constexpr NodeId kOther{3};
constexpr std::array<wire::ChainMethod, 15> kMethods = {
    wire::ChainMethod::read,    wire::ChainMethod::update,    wire::ChainMethod::probe,
    wire::ChainMethod::chunks,  wire::ChainMethod::hello,     wire::ChainMethod::forward,
    wire::ChainMethod::durable, wire::ChainMethod::committed, wire::ChainMethod::ask,
    wire::ChainMethod::list,    wire::ChainMethod::replace,   wire::ChainMethod::copy,
    wire::ChainMethod::state,   wire::ChainMethod::grant,     wire::ChainMethod::inodes};

// Takes the input apart, from the front; zeros where it has ended.
class Input {
 public:
  explicit Input(Bytes bytes) : left_(bytes) {}
  bool empty() const { return left_.empty(); }
  uint8_t byte() {
    if (left_.empty()) return 0;
    const auto first = std::to_integer<uint8_t>(left_[0]);
    left_ = left_.subspan(1);
    return first;
  }
  std::vector<std::byte> take(size_t length) {
    std::vector<std::byte> taken(length);
    const size_t there = std::min(length, left_.size());
    std::copy_n(left_.begin(), there, taken.begin());
    left_ = left_.subspan(there);
    return taken;
  }

 private:
  Bytes left_;
};

size_t message_bytes(wire::ChainMethod method) {
  switch (method) {
    case wire::ChainMethod::read:
    case wire::ChainMethod::probe:
      return sizeof(wire::ChainReadRequest);
    case wire::ChainMethod::update:
      return sizeof(wire::ChainUpdateRequest);
    case wire::ChainMethod::chunks:
      return sizeof(wire::ChainChunksRequest);
    case wire::ChainMethod::inodes:
      return sizeof(wire::ChainInodesRequest);
    case wire::ChainMethod::hello:
      return sizeof(wire::ChainHelloRequest);
    case wire::ChainMethod::forward:
      return sizeof(wire::ChainForwardRequest);
    case wire::ChainMethod::durable:
      return sizeof(wire::ChainWordRequest);
    case wire::ChainMethod::committed:
      return sizeof(wire::ChainNameRequest);
    case wire::ChainMethod::ask:
      return sizeof(wire::ChainAskRequest);
    case wire::ChainMethod::list:
      return sizeof(wire::ChainListRequest);
    case wire::ChainMethod::replace:
      return sizeof(wire::ChainReplaceRequest);
    case wire::ChainMethod::copy:
      return sizeof(wire::ChainCopyRequest);
    case wire::ChainMethod::grant:
      return sizeof(wire::ChainGrantRequest);
    case wire::ChainMethod::state:
      return sizeof(wire::ChainStateRequest);
    case wire::ChainMethod::show:  // the host's; never asked of a replica
      return sizeof(wire::ChainShowRequest);
  }
  return 0;
}

struct Asked : engine::CallOp {
  std::vector<std::byte> message;
  std::array<std::byte, 64> answer{};
  std::vector<std::byte> memory[3];
  bool ended = false;
};

class Rig {
 public:
  explicit Rig(uint8_t place) {
    host_ = Host::make({.target = TargetId{2},
                        .incarnation = 5,
                        .loop = &loop_,
                        .net = &net_,
                        .store = &store_,
                        .held_bytes_max = kMiB});
    net_.serve({kReplica, 0}, host_->service());
    host_->lease(world_.now() + std::chrono::hours(1));
    const Member self{
        TargetId{2}, 5, {kReplica, 0}, place == 2 ? Standing::syncing : Standing::serving};
    const Member other{TargetId{3}, 9, {kOther, 0}, Standing::serving};
    View view{kChain, 1, {self}};
    if (place != 0) view.members = {other, self};
    host_->adopt(view);
    if (place != 0) greet(place);
  }
  ~Rig() {
    net_.kill();
    other_.kill();
    store_.die();
    host_ = nullptr;
    world_.run_for(std::chrono::seconds(10));
  }

  // One call; the calls before it may still be under way.
  void call(Input& input) {
    Asked& asked = asked_.emplace_back();
    const wire::ChainMethod method = kMethods[input.byte() % kMethods.size()];
    const uint8_t shape = input.byte();
    asked.message = input.take(message_bytes(method) - ((shape & 1) != 0 ? input.byte() % 8 : 0));
    // Mostly of the chain and the version that are there.
    wire::ChainHeader header;
    if ((shape & 2) == 0 && asked.message.size() >= sizeof header) {
      std::memcpy(&header, asked.message.data(), sizeof header);
      header.chain = kChain.value;
      header.chain_version = 1;
      header.inode %= 4;
      header.chunk %= 4;
      std::memcpy(asked.message.data(), &header, sizeof header);
    }
    const uint32_t count = shape >> 2 & 3;
    for (uint32_t i = 0; i < count; ++i) {
      asked.memory[i] = input.take(size_t{input.byte()} * ((shape & 16) != 0 ? 8 : 40));
      asked.exposures[i] = {
          {asked.memory[i].data(), asked.memory[i].size()},
          (shape >> (5 + i % 2) & 1) != 0 ? engine::Access::place : engine::Access::fetch};
    }
    asked.exposure_count = count;
    send(asked, method);
    if ((input.byte() & 1) != 0) world_.run_for(std::chrono::milliseconds(2));
  }

 private:
  void send(Asked& asked, wire::ChainMethod method) {
    asked.to = {kReplica, 0};
    asked.method = static_cast<uint16_t>(method);
    asked.request = asked.message;
    asked.response = asked.answer;
    asked.deadline = world_.now() + std::chrono::seconds(2);
    asked.completion = [](engine::Op& done) { static_cast<Asked&>(done).ended = true; };
    other_.call(asked);
  }
  void greet(uint8_t place) {
    wire::ChainHelloRequest hello{.header = {1, 0, kChain.value, 0},
                                  .from_incarnation = 9,
                                  .to_incarnation = 5,
                                  .repair = place == 2 ? 1U : 0U};
    Asked& asked = asked_.emplace_back();
    const Bytes bytes = wire::as_wire(hello);
    asked.message.assign(bytes.begin(), bytes.end());
    asked.exposures[0] = {{}, engine::Access::fetch};
    asked.exposure_count = 1;
    send(asked, wire::ChainMethod::hello);
    world_.run_for(std::chrono::milliseconds(2));
  }

  sim::SimWorld world_{1};
  sim::SimNetwork network_{world_};
  sim::SimLoop loop_{world_, sim::LoopDriver::world_when_called};
  sim::SimNet net_{network_, loop_, kReplica};
  sim::SimNet other_{network_, loop_, kOther};
  store::FakeChainImage image_;
  store::FakeChainStore store_{image_, loop_};
  std::deque<Asked> asked_;
  std::unique_ptr<Host> host_;
};

}  // namespace

namespace penstock::fuzz {

// A write, a forward and a replacement that are taken as they are.
std::vector<std::string> seeds() {
  const auto text = [](uint8_t place, uint8_t method, uint8_t shape, Bytes message,
                       std::initializer_list<std::string> memory) {
    std::string all;
    all += static_cast<char>(place);
    all += static_cast<char>(method);
    all += static_cast<char>(shape);
    all.append(reinterpret_cast<const char*>(message.data()), message.size());
    for (const std::string& one : memory) {
      all += static_cast<char>(one.size() / ((shape & 16) != 0 ? 8 : 40));
      all += one;
    }
    all += '\1';
    return all;
  };
  wire::ChainUpdateRequest update;
  update.header = {1, 1, kChain.value, 1};
  update.request = {1, 1, 3, 0};
  update.end = 80;
  update.kind = 1;
  wire::ChainForwardRequest forward;
  forward.header = update.header;
  forward.name = {1, 1, update.request};
  forward.parts = 1;
  forward.flags = wire::kForwardDurable;
  const store::UpdatePart part{update.request, 0, 80, store::UpdateKind::write};
  const std::string part_text(reinterpret_cast<const char*>(&part), sizeof part);
  wire::ChainReplaceRequest replace;
  replace.header = update.header;
  replace.committed = {1, 1, update.request};
  replace.length = 80;
  const wire::ChainWordRequest word{.header = update.header, .name = forward.name, .from = 3};
  wire::ChainReadRequest read{update.header, 0, 80, 0, 0};
  wire::ChainCopyRequest copy{.header = update.header, .committed = {1, 1, update.request}};
  copy.blocks = 1;
  return {text(0, 1, 4, wire::as_wire(update), {std::string(80, 'a')}),
          text(1, 5, 8, wire::as_wire(forward), {part_text, std::string(80, 'a')}),
          text(1, 6, 0, wire::as_wire(word), {}),
          text(2, 10, 8, wire::as_wire(replace), {"", std::string(80, 'a')}),
          text(0, 0, 36, wire::as_wire(read), {std::string(80, 'a')}),
          text(0, 11, 36, wire::as_wire(copy), {std::string(4080, 'a')})};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input left(std::as_bytes(std::span(data, size)));
  Rig rig(left.byte() % 3);
  for (int calls = 0; calls < 64 && !left.empty(); ++calls) rig.call(left);
  return 0;
}
