// A simulated RDMA fabric for tests: devices of several nodes in one thread, where every packet and
// every completion is a step of its own, and which comes next is drawn from a seed. Steps are done
// by the devices' polls, or, on a FabricClock, at times of a simulation.
//
// It is stricter than a device: what the user may not do (memory that is not registered any more,
// windows left at a queue pair that ends, too much work) is an assertion.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "penstock/verbs.h"

namespace penstock::test {

class SimDevice;

struct FabricFaults {
  // The queue pair that did something breaks by itself, in so many of a million steps.
  uint32_t breaks = 0;
  // Invalidations complete and close nothing: what a test of late writes has to notice.
  bool windows_stay_open = false;
  // Packets with more bytes are lost, as where a switch has a smaller MTU.
  uint32_t packet_max = UINT32_MAX;
  // A packet is copied a while after its key was looked up, whatever becomes of the window
  // meanwhile; as soft-RoCE does, whose windows do not close at once.
  bool slow_copies = false;
  // On a FabricClock: a packet that was lost is sent again after so long, and a queue pair that
  // hears nothing of what it has sent for so long breaks; never, by default, as with soft-RoCE.
  engine::Duration resend = std::chrono::milliseconds(10);
  engine::Duration give_up = engine::Duration::max();
};

struct FabricCounts {
  uint64_t steps = 0;
  uint64_t packets_written = 0;  // into memory that another node had named
  uint64_t refused = 0;          // requests whose key was not valid (any more)
  uint64_t cut = 0;              // of these, in the middle of a write or read
  uint64_t broken = 0;           // queue pairs, by faults
  uint64_t given_up = 0;         // queue pairs that nobody answered any more
  uint64_t joined = 0;           // queue pairs
  uint64_t bound = 0;            // windows
};

// The time of a fabric, where it is a simulation's. Without one all that was sent has arrived at
// once, and nothing is lost on its way.
class FabricClock {
 public:
  virtual ~FabricClock() = default;
  virtual engine::Time now() const = 0;
  // For how long a packet travels; nothing: it is lost. Packets of a queue pair stay in order.
  virtual std::optional<engine::Duration> travel(NodeId from, NodeId to) = 0;
  // Whether what arrives now gets through.
  virtual bool connects(NodeId from, NodeId to) const = 0;
  // There may be something to do: step() is to be called again and again until it says no, and then
  // at SimFabric::next().
  virtual void wake() = 0;
};

// One thread.
class SimFabric {
 public:
  explicit SimFabric(uint64_t seed);
  ~SimFabric();

  // One thing happens somewhere; false: nothing can.
  bool step();
  // When something can, after that; kNever: only when somebody does something.
  engine::Time next() const;
  // All that there are now, of whatever node.
  const std::vector<SimDevice*>& devices() const { return devices_; }

  FabricClock* clock = nullptr;
  engine::SeededRandom random;
  FabricFaults faults;
  FabricCounts counts;
  uint32_t packet_bytes = 4096;
  // Told before a packet is written to memory that a work request or a window names.
  std::function<void(MutableBytes)> on_write;

 private:
  friend class SimDevice;
  struct Pair;
  struct Packet;
  struct Flight;

  Pair* find(uint32_t number);
  bool is_live(uint32_t number);
  // Between a queue pair and the one that it is joined to.
  void send(const Pair& from, Pair& to, std::deque<Packet>& queue, Packet packet);
  bool has_come(const Pair& pair, std::deque<Packet>& queue);
  void arrived(SimDevice& device);
  void changed() {
    if (clock != nullptr) clock->wake();
  }
  bool act(Pair& pair, uint32_t action);
  bool waits_in_vain(const Pair& pair);
  bool begin(Pair& pair);
  void emit(Pair& pair);
  bool serve(Pair& pair);
  bool take_send(Pair& pair, const Packet& packet);
  void take_write(Pair& pair, const Packet& packet);
  void copy(Pair& pair);
  void finish_copies(const SimDevice& device, verbs::MemoryId memory);
  bool answer_read(Pair& pair, Packet& packet);
  bool take_answer(Pair& pair);
  bool complete(Pair& pair);
  void refuse(Pair& pair, const Packet& packet);
  void answer(const Pair& pair, const Packet& packet, verbs::Verb verb, Status status);
  void write(MutableBytes to, Bytes from);
  void break_by_itself(Pair& pair);
  // `first` is the end of what had begun first; all the rest is cancelled.
  void break_pair(Pair& pair, Status first);

  std::map<uint32_t, std::unique_ptr<Pair>> pairs_;
  std::vector<SimDevice*> devices_;
  uint32_t last_number_ = 0;
};

// Dies before its fabric, and after its user.
class SimDevice final : public verbs::Provider {
 public:
  explicit SimDevice(SimFabric& fabric, NodeId node = {});
  ~SimDevice() override;

  NodeId node() const { return node_; }
  // On a FabricClock: ends the sleep of who has armed it, as there is something to poll.
  std::function<void()> wake;

  // It is gone, as by a reset: nothing of it completes any more.
  void lose();
  // Its user is told of no completion, as if it had been stopped; the device itself goes on.
  bool stopped = false;
  void set_closes_at_once(bool closes) { facts_.closes_at_once = closes; }
  // Asked before a queue pair is joined, which it can refuse.
  std::function<Status()> on_connect = [] { return Status(Code::ok); };
  // More memory than this cannot be registered, as by a limit of locked memory.
  uint64_t registered_bytes_max = UINT64_MAX;
  // As of a card, a driver or a kernel that knows no dma-buf.
  bool takes_device_memory = true;
  uint64_t registrations = 0;  // so far
  // Steps of the fabric at each poll, at most, where it has no clock.
  uint32_t steps_each_poll = 16;

  const verbs::DeviceFacts& facts() const override { return facts_; }
  Result<verbs::QueuePairId> create_queue_pair() override;
  verbs::Endpoint endpoint(verbs::QueuePairId id) const override;
  Status connect(verbs::QueuePairId id, const verbs::Endpoint& other) override;
  void break_queue_pair(verbs::QueuePairId id) override;
  void destroy_queue_pair(verbs::QueuePairId id) override;
  Result<verbs::MemoryId> register_memory(MutableBytes bytes, bool writable) override;
  // Maps what the descriptor leads to, as that of sim::SimDeviceMemory.
  Result<verbs::MemoryId> register_device_memory(const verbs::Region& region) override;
  void deregister_memory(verbs::MemoryId id) override;
  Result<verbs::Window> create_window() override;
  void destroy_window(verbs::WindowId id) override;
  Status post(verbs::QueuePairId id, const verbs::WorkRequest& request) override;
  Status post_receive(uint64_t id, MutableBytes buffer, verbs::MemoryId memory) override;
  size_t poll(std::span<verbs::Completion> completions) override;
  bool arm() override { return armed_ = fabric_.clock != nullptr && !has_news(); }
  void disarm() override { armed_ = false; }
  int wake_descriptor() const override { return -1; }
  std::optional<verbs::Event> next_event() override;

 private:
  friend class SimFabric;
  struct Memory {
    MutableBytes bytes;
    bool writable = false;
    uint32_t windows = 0;  // bound to it
    // Of a GPU: where this process finds what `bytes` stand for.
    std::byte* behind = nullptr;
    MutableBytes mapped{};
  };
  struct Opening {
    uint32_t key = 0;
    uint32_t pair = 0;  // bound to it; 0: to none
    MutableBytes bytes;
    verbs::MemoryId memory;
    engine::Access access = engine::Access::place;
  };
  struct Receive {
    uint64_t id = 0;
    MutableBytes buffer;
  };

  bool has_news() const { return !ready_.empty() && !gone_ && !stopped; }
  bool holds(verbs::MemoryId id, MutableBytes bytes, bool to_write) const;
  Status bind(uint32_t pair, const verbs::WorkRequest& request);
  bool invalidate(uint32_t pair, uint32_t key);
  void close(Opening& opening);
  // Null: no.
  std::byte* reach(uint32_t pair, uint32_t key, uint64_t address, uint64_t length,
                   engine::Access access);

  SimFabric& fabric_;
  const NodeId node_;
  verbs::DeviceFacts facts_;
  bool gone_ = false;
  bool armed_ = false;
  uint32_t last_id_ = 0;
  uint64_t registered_bytes_ = 0;
  std::map<uint32_t, Memory> memories_;
  std::map<uint32_t, Opening> windows_;  // by number, which is also that of their keys
  std::deque<Receive> receives_;
  std::deque<verbs::Completion> late_;  // have happened, and cannot be polled yet
  std::deque<verbs::Completion> ready_;
  std::deque<verbs::Event> events_;
};

}  // namespace penstock::test
