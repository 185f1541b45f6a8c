// One call of a client of chains, and the tries that it takes.
#pragma once

#include "limits.h"
#include "next_release.h"

#include <array>
#include <map>
#include <vector>

#include "penstock/chain/chain_net.h"
#include "penstock/wire.h"

namespace penstock::chain {

class ChainNetImpl;

// A number under which a chain remembers one request. Its sequence grows with each request, also
// with those of which nobody knows what became of them.
struct Slot {
  uint32_t number = 0;
  uint64_t sequence = 0;
};

struct Exchange : ListNode {
  // What it asks a replica for next.
  enum class Step : uint8_t { read, probe, update, list, inodes };

  ChainNetImpl* net = nullptr;
  engine::CallOp* caller = nullptr;
  wire::ChunkMethod method = wire::ChunkMethod::read;
  wire::ChunkRequest wanted;
  ChainId chain;
  uint64_t session = 0;  // for which it changes something
  engine::Time deadline;
  Step step = Step::read;

  std::optional<Slot> slot;
  uint32_t tries = 0;
  uint32_t damaged = 0;      // so many of them ended with damage
  size_t replica = 0;        // of those that serve: the one that is asked, and another at each try
  uint32_t* load = nullptr;  // of the target that is asked
  bool is_out = false;       // a call to a replica is under way
  bool has_timer = false;    // it waits
  bool cancelled = false;
  bool may_have_happened = false;  // an update that was sent, and of which no refusal is known
  bool may_have_before = false;    // the same, without the last try
  bool has_acted = false;          // a part of it has happened: chunks that were removed
  Status last;                     // why the last try failed

  engine::CallOp inner;
  std::array<std::byte, sizeof(wire::ChainShowRequest)> message{};
  std::array<std::byte, 64> answer{};
  engine::Timer timer;

  // Of remove and end_query: the chunks of the inode that are known and not done, and from where to
  // ask for more.
  std::vector<wire::ChunkEntry> entries;
  size_t next_entry = 0;
  uint32_t next_chunk = 0;
  uint64_t bytes = 0;  // of all that were seen
  wire::ChunkEntry last_entry;

  // The replica that is asked wants to see a capability first: it is shown that one, and asked
  // again.
  bool is_unshown = false;
  bool is_showing = false;
  uint32_t shows = 0;
  wire::Capability shown;

  bool is_update() const { return step == Step::update; }
};

class ChainNetImpl final : public ChainNet {
 public:
  explicit ChainNetImpl(const ChainNetConfig& config);
  ~ChainNetImpl() override;

  void call(engine::CallOp& op) override;
  void cancel(engine::CallOp& op) override;
  void serve(engine::Address address, engine::Service& service) override;
  void withdraw(engine::Address address) override;

 private:
  struct Chain {
    std::shared_ptr<const View> view;
    uint64_t seen = 0;  // KnownChains::changes() when `view` was looked up
    std::vector<Slot> free;
    IntrusiveList<Exchange> waiting;  // for a slot
  };

  Chain& chain_of(const Exchange& exchange);
  const View* view_of(const Exchange& exchange);

  void begin(Exchange& exchange);
  void begin_update(Exchange& exchange);
  void attempt(Exchange& exchange);
  void send(Exchange& exchange, const Member& to, uint64_t version);
  void send_to(Exchange& exchange, const Member& to);
  const Member& choose(Exchange& exchange, const View& view);
  size_t nearest(const View& view);
  template <class T>
  void say(Exchange& exchange, wire::ChainMethod method, const T& words);
  void say_update(Exchange& exchange, const wire::ChainHeader& header);
  void answered(Exchange& exchange);
  bool show(Exchange& exchange, wire::ChainHeader header);
  void shown(Exchange& exchange);
  void succeeded(Exchange& exchange);
  void read_succeeded(Exchange& exchange, Bytes answer);
  static bool is_good_list(const Exchange& exchange, const wire::ChainChunksResponse& response);
  void listed(Exchange& exchange);
  void next_entry(Exchange& exchange);
  void again(Exchange& exchange);
  void wait_until(Exchange& exchange, engine::Time when);
  void waited(Exchange& exchange);
  void give_up(Exchange& exchange);
  void give_slot_back(Exchange& exchange);
  void finish(Exchange& exchange, Status status, Bytes response = {});

  const ChainNetConfig config_;
  std::map<ChainId, Chain> chains_;
  std::vector<std::unique_ptr<Exchange>> idle_;
  size_t under_way_ = 0;
  // Calls that are under way to each target that was asked so far.
  std::map<TargetId, uint32_t> load_;
  size_t turn_ = 0;  // which is asked of replicas that are alike
  NextRelease next_release_;
  metrics::Counter tries_{"chain.tries"};
  metrics::Counter retries_{"chain.retries"};  // those that were no first tries
};

}  // namespace penstock::chain
