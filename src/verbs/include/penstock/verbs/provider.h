// The seam to RDMA: one loop's share of one device, with exactly those verbs that this transport
// uses. libibverbs implements it (device.h), and for tests a simulated fabric (testing/verbs).
//
// One thread. Nothing blocks for long: registering memory and destroying queue pairs are system
// calls of up to some milliseconds, everything else takes microseconds.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>

#include "penstock/engine.h"
#include "penstock/verbs/limits.h"
#include "penstock/verbs/region.h"

namespace penstock::verbs {

// Numbers of this provider, none of which is given twice.
using QueuePairId = Id<struct QueuePairIdTag, uint32_t>;
using MemoryId = Id<struct MemoryIdTag, uint32_t>;
using WindowId = Id<struct WindowIdTag, uint32_t>;

// What the other side must know of a queue pair to reach it. In docs/formats/verbs.md.
struct Endpoint {
  uint32_t queue_pair = 0;    // the device's number, 24 bits
  uint32_t first_packet = 0;  // 24 bits, random
  std::array<std::byte, 16> gid{};
  uint16_t lid = 0;   // 0 on Ethernet
  uint8_t mtu = 0;    // 128 << mtu bytes: 1 to 5
  uint8_t reads = 0;  // that it answers at a time
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

struct DeviceFacts {
  std::string name;
  int numa_node = -1;  // -1: unknown
  // When an invalidation has completed, nothing is under way any more through that window. Else a
  // packet may still be copied, and only deregistering the memory below waits for that: soft-RoCE.
  bool closes_at_once = true;
};

enum class Verb : uint8_t { send, write, read, bind, invalidate };

struct WorkRequest {
  Verb verb = Verb::send;
  uint64_t id = 0;  // comes back with the completion; every request has one
  // send, write: from here; read: into here; bind: what the window shows. Within `memory`, which
  // stays registered until the completion.
  MutableBytes local{};
  MemoryId memory{};
  // write, read: of the other side. bind: its new key. invalidate: the key.
  uint64_t remote_address = 0;
  uint32_t key = 0;
  // bind: which, and whether the other side may write or read.
  WindowId window{};
  engine::Access access = engine::Access::place;
};

struct Completion {
  uint64_t id = 0;
  bool is_receive = false;
  QueuePairId queue_pair{};  // of a receive; perhaps of one that was destroyed meanwhile
  // access_denied: the other side refused a key. cancelled: nothing was done, as the queue pair is
  // broken. peer_gone: nobody answers. io_error: anything else. All but ok break the queue pair.
  Status status{};
  uint32_t length = 0;  // of a receive
};

enum class EventKind : uint8_t {
  device_gone,  // it, or its port: nothing goes any more
  queue_pair_broken,
};

struct Event {
  EventKind kind = EventKind::device_gone;
  QueuePairId queue_pair;
};

struct Window {
  WindowId id;
  uint32_t key = 0;  // its low byte is the user's: each bind needs another
};

// The next key of a window that had this one.
constexpr uint32_t next_key(uint32_t key) {
  return (key & ~uint32_t{0xff}) | ((key + 1) & 0xff);
}

class Provider {
 public:
  virtual ~Provider() = default;
  virtual const DeviceFacts& facts() const = 0;

  // Queue pairs share one completion queue and one receive queue. A new one takes nothing and
  // reaches nobody until it is connected.
  virtual Result<QueuePairId> create_queue_pair() = 0;
  virtual Endpoint endpoint(QueuePairId pair) const = 0;
  virtual Status connect(QueuePairId pair, const Endpoint& other) = 0;
  // It takes and does nothing new. The first step of its end: the windows that are bound to it are
  // destroyed next, and then the pair.
  virtual void break_queue_pair(QueuePairId pair) = 0;
  // From its return on nothing that the other side has sent or sends touches memory here, and
  // nothing that was posted here does. Completions of that may still come.
  virtual void destroy_queue_pair(QueuePairId pair) = 0;

  // For local use, and for windows. Of memory that may be written to, or only read. no_memory,
  // access_denied, io_error (with errno).
  virtual Result<MemoryId> register_memory(MutableBytes bytes, bool writable) = 0;
  // The same of GPU memory, for windows only. not_supported: device, driver or kernel cannot.
  virtual Result<MemoryId> register_device_memory(const Region& region) = 0;
  // No window is bound to it, and nothing posted uses it. What is being copied through a window
  // that was, has been copied when this returns.
  virtual void deregister_memory(MemoryId memory) = 0;

  virtual Result<Window> create_window() = 0;
  // Also one that is bound, to a queue pair that was broken.
  virtual void destroy_window(WindowId window) = 0;

  // In order. A bind or an invalidation is done before what is posted after it begins. At most
  // limits::kWorkMax of a queue pair, and a send of at most kMessageBytesMax.
  virtual Status post(QueuePairId pair, const WorkRequest& request) = 0;
  // At most limits::kLinksMax * limits::kReceivesOfLink.
  virtual Status post_receive(uint64_t id, MutableBytes buffer, MemoryId memory) = 0;

  // Returns how many it has put there.
  virtual size_t poll(std::span<Completion> completions) = 0;
  // From now on the next completion makes wake_descriptor() readable. False where it need not come
  // to that: poll again.
  virtual bool arm() = 0;
  // Takes back what made it readable.
  virtual void disarm() = 0;
  // -1: there is none. Then arm() says no, or who was told that he may sleep is woken by the
  // provider in a way of its own.
  virtual int wake_descriptor() const = 0;
  virtual std::optional<Event> next_event() = 0;
};

}  // namespace penstock::verbs
