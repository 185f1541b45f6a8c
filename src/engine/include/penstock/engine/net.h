// The network seam: calls with a small message and *exposed* spans of memory. The serving side
// places bytes into an exposed span or fetches from it; no layer in between keeps a copy. In one
// process the span is a pointer; on TCP the payload is received into it; on verbs it is an RDMA
// write or read.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "penstock/engine/loop.h"
#include "penstock/engine/memory.h"
#include "penstock/engine/roles.h"

namespace penstock::engine {

// What a call is for: a service instance of the cluster. How to get there is the transport's.
struct Address {
  NodeId node;
  uint32_t service = 0;
  friend constexpr auto operator<=>(const Address&, const Address&) = default;
};

// Who called, as the transport knows it: never a word of the message itself.
struct Peer {
  NodeId node;
  uint8_t roles = kEveryRole;  // bits of Role, as its certificate names them; a guest has none
  // Half of SHA-256 of the key that it has proven to have; zeros: it proved nothing.
  std::array<std::byte, 16> key{};
};

enum class Access : uint8_t {
  place,  // the serving side may write into the span
  fetch,  // the serving side may read from it
};

class Net;

struct Exposure {
  MemoryRef memory;
  Access access = Access::place;
};

inline constexpr size_t kNetMessageMax = 1024;  // bytes of a request or a response
inline constexpr size_t kNetExposuresMax = 4;   // spans of one call

// One call. Request and response are fixed-layout structs from wire/; both stay the caller's. Ends
// with the service's status, or peer_gone, timed_out (the outcome is then unknown: the exposed
// memory is guaranteed not to be touched any more, but the service may have acted), busy.
struct CallOp : Op {
  Address to;
  uint16_t method = 0;
  Bytes request;
  MutableBytes response;         // at most kNetMessageMax
  uint32_t response_length = 0;  // out
  std::array<Exposure, kNetExposuresMax> exposures;
  uint32_t exposure_count = 0;
  Time deadline = kNever;

  // Which one has the call, where a Net is made of several.
  Net* carrier = nullptr;
  // The transport's own state for this call, so that a call allocates nothing.
  alignas(64) std::array<std::byte, 192> transport;
};

class IncomingCall;

// Moves bytes between the serving side's memory and an exposed span. Completes on the serving loop.
struct TransferOp : Op {
  IncomingCall* call = nullptr;
  uint32_t exposure = 0;
  uint64_t exposure_offset = 0;
  MemoryRef local;

  // The transport's own state for this transfer.
  alignas(8) std::array<std::byte, 32> transport;
};

// A call as its service sees it: alive from Service::on_call() to reply().
class IncomingCall {
 public:
  uint16_t method = 0;
  Bytes request;                // foreign input on real networks: validate
  uint32_t exposure_count = 0;  // checked against kNetExposuresMax by the transport
  // For the service, which may keep one object per call in progress.
  void* context = nullptr;

  virtual Peer peer() const = 0;
  virtual uint64_t exposure_length(uint32_t index) const = 0;
  virtual Access exposure_access(uint32_t index) const = 0;
  // The span itself where this process's disks can reach it, or, of an exposed span to fetch from,
  // a copy of it that the transport has here; else nullopt: use place() or fetch().
  virtual std::optional<MemoryRef> direct(uint32_t index) = 0;
  virtual void place(TransferOp& op) = 0;
  virtual void fetch(TransferOp& op) = 0;
  // Ends the call; no transfer may be in progress. `response` is copied.
  virtual void reply(Status status, Bytes response) = 0;

 protected:
  ~IncomingCall() = default;
};

class Service {
 public:
  virtual ~Service() = default;
  // Runs in the loop of the Net that serves. Leads to exactly one reply().
  virtual void on_call(IncomingCall& call) = 0;
};

// One per loop. Owner thread only.
//
// Who checks what: call() refuses what is too large (invalid_argument) before anything is sent. The
// serving side's transport checks what arrives against the limits above, says which peer called,
// and refuses transfers that leave their exposure or go the wrong way; the caller's transport
// checks once more that what is placed lies within memory that a living call has exposed. What the
// request says, and whether that peer may ask for it, is the service's to check.
class Net {
 public:
  virtual ~Net() = default;
  virtual void call(CallOp& op) = 0;
  // Asks for an early end; the call still completes exactly once: with cancelled, and then the
  // service has not acted on it and never will, or as it was. Observers of a file rely on that: a
  // write that has ended changes nothing any more, so that what they read afterwards stays true.
  virtual void cancel(CallOp& op) = 0;
  // From now on calls to `address` from anywhere reach `service`, in this Net's loop.
  virtual void serve(Address address, Service& service) = 0;
  virtual void withdraw(Address address) = 0;
};

}  // namespace penstock::engine
