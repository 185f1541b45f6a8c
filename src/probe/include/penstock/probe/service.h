// The service by which a node lets others measure how well they reach it, and measures for them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "penstock/engine.h"
#include "penstock/probe/messages.h"
#include "penstock/probe/prober.h"

namespace penstock::probe {

struct MeasuredWay {
  WayFacts facts;
  std::vector<Figures> figures;  // of the plan, as far as it went
};

// All ways from this process to a node, one after the other.
struct MeasureOp : engine::Op {
  NodeId to;
  std::vector<Workload> plan;
  std::vector<MeasuredWay> ways;  // out
};

class Measurer {
 public:
  // Owner thread of the loop. One at a time: another one ends with busy. Ends with not_found where
  // there is no such node; what is wrong with a way is said in its facts.
  virtual void measure(MeasureOp& op) = 0;

 protected:
  ~Measurer() = default;
};

// Owner thread of the loop only. For members of the cluster: a caller without any role, as a guest
// is, is refused with not_permitted. Who asks for more than the limits allow at a time is told
// "busy"; what a message or an exposure is wrong in, "bad_message" and "invalid_argument".
class Service final : public engine::Service {
 public:
  struct Config {
    engine::Loop* loop = nullptr;
    Measurer* measurer = nullptr;  // null: it measures for nobody (not_supported)
    std::function<MachineFacts()> machine;
  };
  explicit Service(Config config) : config_(std::move(config)) {}
  ~Service() override;  // no call is in progress

  void on_call(engine::IncomingCall& call) override;
  // Calls from now on end with closed. Completes `done` when none is in progress. Whoever measures
  // for others has to be told to end by the caller.
  void close(engine::Op& done);
  uint32_t in_progress() const { return calls_; }

 private:
  struct Work;
  // What one caller has in progress.
  struct Share {
    uint32_t calls = 0;
    uint64_t bytes = 0;
  };

  Status begin(engine::IncomingCall& call);
  Status admit(engine::IncomingCall& call, uint64_t bytes);
  Status begin_transfer(engine::IncomingCall& call, Method method);
  Status begin_measuring(engine::IncomingCall& call, const Request& request);
  void place_document(Work& work, std::string document);
  void on_measured(Work& work);
  void end(Work& work, Status status);
  MutableBytes take_memory(Work& work, uint64_t bytes);

  const Config config_;
  std::map<NodeId, Share> shares_;
  uint32_t calls_ = 0;
  uint64_t bytes_ = 0;
  std::vector<std::byte> pattern_;                // what is placed
  std::vector<std::vector<std::byte>> memories_;  // where to fetch to, for the next ones
  engine::Op* closing_ = nullptr;
  bool closed_ = false;
};

}  // namespace penstock::probe
