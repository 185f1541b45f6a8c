// engine::Net over queue pairs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "penstock/engine.h"
#include "penstock/verbs/message.h"
#include "penstock/verbs/provider.h"

namespace penstock::verbs {

// Brings this side's offer to the loop that serves `to`, and that side's answer back.
struct Introduction : engine::Op {
  engine::Address to;
  Offer ours;
  Offer theirs;         // out
  std::string trouble;  // out: why there is none, for people; may be empty
};

// The seam to set-up: a connection over which the two nodes have proven who they are. There
// VerbsNet::accept() answers, told by that connection who asks.
class Introducer {
 public:
  virtual ~Introducer() = default;
  // Completes in a turn of the Net's loop, after at most some seconds: also with peer_gone where
  // nobody serves the address, not_supported where there are no verbs at that side.
  virtual void introduce(Introduction& introduction) = 0;
  // A connection to that address has ended before a call went by it.
  virtual void came_to_nothing(engine::Address) {}
};

// For how long to wait, and for what (limits.h).
struct Patience {
  engine::Duration release = limits::kReleaseTime;
  engine::Duration invalidate = limits::kInvalidateTime;
  engine::Duration ping = limits::kPingAfter;
  engine::Duration silence = limits::kSilenceMax;
  engine::Duration look = limits::kLookEvery;
};

struct NetConfig {
  NodeId self;
  Introducer* introducer = nullptr;  // outlives the net
  // Takes the calls that cannot go here, of which nothing was sent: where no connection stands that
  // was tried out (yet, or any more), what is not the host's memory, what finds no room to be
  // registered. Null: calls wait for their connection, and end with the reason where there is none.
  // Outlives the net, but may be closed before it.
  engine::Net* otherwise = nullptr;
  uint32_t calls_max = limits::kCallsMax;
  uint64_t pinned_bytes_max = limits::kPinnedBytesMax;
  Patience patience;
};

struct NetCounts {
  uint64_t calls = 0;
  uint64_t elsewhere = 0;  // of these to addresses with a connection: taken by `otherwise`
  uint64_t windows_bound = 0;
  uint64_t forced = 0;      // windows closed before the server had stopped
  uint64_t links_lost = 0;  // connections that ended for any reason but close()
  uint64_t temporary_registrations = 0;
  uint64_t pinned_bytes = 0;  // now
};

// A connection that the loop has made, or tried to make.
struct LinkFacts {
  engine::Address address;
  bool joined = false;
  std::string trouble;  // why the last one ended, or did not come about; empty while all is well
};

namespace internal {
class LoopNet;
}  // namespace internal

// The Net of one loop over one device; owner thread only. One connection for each address that the
// loop calls, made by the first call.
//
// A call that was sent ends with its response, with timed_out at its deadline (a little later,
// where its server does not stop at once), or with peer_gone when its connection ends; in all cases
// only when its windows are closed or the queue pair is dead: its memory is touched no more.
// cancel() has an effect until the request is on its way. Exposed memory is the host's, or a GPU's
// that was announced and that the device takes (else not_supported). Services place and fetch
// memory of the host.
class VerbsNet final : public engine::Net {
 public:
  // `parker` is the one that the loop sleeps in, and watches the device; not_supported: it cannot.
  // Null: the loop sleeps when the provider lets it (arm()), which wakes it then. All outlive it.
  static Outcome<std::unique_ptr<VerbsNet>> create(const NetConfig& config, Provider& provider,
                                                   engine::Loop& loop, engine::Parker* parker);
  // close(), where that has not been called.
  ~VerbsNet() override;

  // Ends all connections. Calls end with closed, in the next turn of the loop. Services must have
  // been withdrawn by then, and have replied to all calls before the object is destroyed.
  void close();

  void call(engine::CallOp& op) override;
  void cancel(engine::CallOp& op) override;
  // The address is one of this node, and not served yet.
  void serve(engine::Address address, engine::Service& service) override;
  void withdraw(engine::Address address) override;

  // Of set-up: `peer`, who was proven to be that, wants to call `service` from its queue pair.
  // peer_gone: nobody serves it; busy: there are too many connections; bad_message.
  Result<Offer> accept(engine::Peer peer, uint32_t service, const Offer& theirs);
  // The connection over which that was said has ended; connections from and to this node end, too.
  void lose(NodeId node);
  // Begins a connection where there is none and it is time for it; whether calls can go at once.
  bool prepare(engine::Address address);
  // Ends the connections of those who call and of whom this is not so any more.
  void keep_callers(const std::function<bool(const engine::Peer&)>& is_vouched_for);
  // Whether this one has any to it.
  bool reaches(NodeId node) const;
  std::vector<LinkFacts> links() const;
  // No connection is left, and no service has a call of it: it may be closed and destroyed.
  bool is_quiet() const;

  // Memory that calls will use often: it is registered as a whole, and stays so as far as there is
  // room. It does not overlap what was announced.
  void announce(const Region& region);
  // Before it is unmapped. in_use: a call has it still.
  Status take_back(MutableBytes region);

  NetCounts counts() const;
  // Why nothing goes over this device any more; empty while all is well.
  std::string trouble() const;

  internal::LoopNet& internals() { return *net_; }

 private:
  explicit VerbsNet(std::unique_ptr<internal::LoopNet> net);
  std::unique_ptr<internal::LoopNet> net_;
};

}  // namespace penstock::verbs
