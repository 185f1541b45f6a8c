#include "net_checker.h"

#include "limits.h"
#include "waiting.h"

#include <fmt/format.h>
#include <functional>

namespace penstock::cluster {
namespace {

void run_in(engine::BlockingCaller& caller, engine::Loop& loop, const std::function<void()>& act) {
  (void)caller.call(loop, [&](engine::Op& done) {
    act();
    loop.complete(done, Code::ok);
  });
}

// Waits for the end of an operation that a person waits for, and who may go away meanwhile.
template <class Operation>
Status run_while(engine::BlockingCaller& caller, engine::Loop& loop, Operation& op,
                 const std::function<void()>& begin, const std::function<void()>& stop,
                 const std::function<bool()>& goes_on) {
  bool is_over = false;  // the loop's
  op.owner = &is_over;
  op.completion = [](engine::Op& ended) { ended.owner_as<bool>() = true; };
  run_in(caller, loop, begin);
  for (bool stopped = false, seen = false; !seen;) {
    wait(caller, loop, limits::kCheckLook);
    if (!stopped && !goes_on()) {
      stopped = true;
      run_in(caller, loop, stop);
    }
    run_in(caller, loop, [&] { seen = is_over; });
  }
  return op.status;
}

Failure not_checked(Status status) {
  return {status, status == Code::busy
                      ? "the node measures for somebody else at the moment; ask again"
                      : fmt::format("the check has ended early: {}", status.name())};
}

}  // namespace

// What asks the other nodes, for one check: connections of its own, so that it ends when they do.
struct NetChecker::Asking {
  explicit Asking(const tcp::NetworkConfig& config) : network(config) {}
  ~Asking() {
    if (net != nullptr) net->close();
  }
  std::string trouble_of(engine::Address address) const {
    for (const tcp::PeerFacts& peer : net->peers()) {
      if (peer.address == address) return peer.trouble;
    }
    return "";
  }

  tcp::TcpNetwork network;
  std::unique_ptr<tcp::TcpNet> net;
  std::unique_ptr<probe::Survey> survey;
};

NetChecker::NetChecker(Config config)
    : config_(std::move(config)),
      measurer_(config_.measurer),
      service_({config_.measurer.loop, &measurer_, [this] { return machine(); }}) {}

probe::MachineFacts NetChecker::machine() const {
  probe::MachineFacts machine = probe::look_at_machine(config_.own);
  machine.insecure = config_.insecure;
  return machine;
}

void NetChecker::serve() {
  config_.net->serve({config_.self, probe::kService}, service_);
}

void NetChecker::stop() {
  config_.net->withdraw({config_.self, probe::kService});
  measurer_.stop();
}

// In the loop.
Outcome<std::unique_ptr<NetChecker::Asking>> NetChecker::begin_asking() {
  if (is_asking_) return not_checked(Code::busy);
  TRY_ASSIGN(const tcp::NetworkConfig config, config_.measurer.network());
  auto asking = std::make_unique<Asking>(config);
  TRY_ASSIGN(asking->net, tcp::TcpNet::create(asking->network, loop(), *config_.measurer.parker));
  asking->survey = std::make_unique<probe::Survey>(probe::Survey::Config{
      &loop(), asking->net.get(), config_.self, &measurer_, [this] { return machine(); },
      [self = asking.get()](engine::Address address) { return self->trouble_of(address); }});
  is_asking_ = true;
  return asking;
}

Outcome<NetReport> NetChecker::check(engine::BlockingCaller& caller, std::vector<NodeId> nodes,
                                     const NetQuestion& question,
                                     const std::function<bool()>& goes_on) {
  Outcome<std::unique_ptr<Asking>> asking = Failure{Code::closed, ""};
  run_in(caller, loop(), [&] { asking = begin_asking(); });
  if (!asking) return asking.error();
  probe::SurveyOp op;
  op.nodes = std::move(nodes);
  op.only = question.only;
  op.time = question.time;
  const Status status = run_while(
      caller, loop(), op, [&] { (*asking)->survey->run(op); },
      [&] {
        (*asking)->survey->stop();
        (*asking)->net->close();
        measurer_.stop();
      },
      goes_on);
  run_in(caller, loop(), [&] {
    asking->reset();
    is_asking_ = false;
  });
  if (!status.ok()) return not_checked(status);
  return NetReport{config_.self, std::move(op.machines), std::move(op.pairs)};
}

Outcome<std::vector<probe::MeasuredWay>> NetChecker::measure(engine::BlockingCaller& caller,
                                                             NodeId to,
                                                             std::vector<probe::Workload> plan,
                                                             const std::function<bool()>& goes_on) {
  probe::MeasureOp op;
  op.to = to;
  op.plan = std::move(plan);
  const Status status = run_while(
      caller, loop(), op, [&] { measurer_.measure(op); }, [&] { measurer_.stop(); }, goes_on);
  if (!status.ok()) return not_checked(status);
  return std::move(op.ways);
}

}  // namespace penstock::cluster
