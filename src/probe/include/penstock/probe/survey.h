// Asks all nodes of a cluster how well they reach one another.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "penstock/engine.h"
#include "penstock/probe/messages.h"
#include "penstock/probe/service.h"

namespace penstock::probe {

struct NodeFacts {
  NodeId node;
  std::optional<MachineFacts> machine;
  std::string trouble;  // why it does not say; empty while all is well
};

// From one node to another, as the former has measured.
struct PairFacts {
  NodeId from, to;
  std::vector<WayFacts> ways;
  std::string trouble;  // why there are none; empty while all is well
};

struct SurveyOp : engine::Op {
  std::vector<NodeId> nodes;  // of the cluster, this one among them
  NodeId only;                // not 0: only this node and the own one, both ways
  engine::Duration time{};    // of each way
  // Out, both in order.
  std::vector<NodeFacts> machines;
  std::vector<PairFacts> pairs;
};

// Owner thread of the loop only. Pairs that have no node in common are measured at the same time,
// so that no node is asked for two at once. Of a node that does not answer the others' pairs to it
// are measured all the same, and its own are not. One survey at a time.
class Survey {
 public:
  struct Config {
    engine::Loop* loop = nullptr;
    engine::Net* net = nullptr;  // to the services of the others
    NodeId self;
    Measurer* measurer = nullptr;  // from this node
    std::function<MachineFacts()> machine;
    // Why calls there fail, for people; may be empty.
    std::function<std::string(engine::Address)> why;
  };
  explicit Survey(Config config) : config_(std::move(config)) {}
  ~Survey();

  // Ends with ok, whatever was found; busy while another is under way; cancelled after stop().
  void run(SurveyOp& op);
  // What has not begun is not done; what has, still comes to its end, or to its deadline.
  void stop();

 private:
  enum class State : uint8_t { waiting, under_way, done };
  struct Question;
  struct Own;

  void ask_machines();
  void on_machine(Question& question);
  void go_on();
  bool try_pair(size_t pair);
  void measure(size_t pair);
  void ask(size_t pair);
  void on_own(Own& own);
  void on_pair(Question& question);
  void done_with(size_t pair);
  NodeFacts* machine_of(NodeId node);
  std::string why(engine::Address address, Status status) const;
  std::unique_ptr<Question> question(NodeId to, Method method, engine::Duration time);

  const Config config_;
  SurveyOp* op_ = nullptr;
  bool stopped_ = false;
  size_t machines_left_ = 0;
  size_t pairs_left_ = 0;
  std::vector<State> states_;
  std::set<NodeId> taken_;  // nodes of pairs that are under way
};

}  // namespace penstock::probe
