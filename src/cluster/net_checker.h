// What a process does so that nodes know how well they reach one another: it answers probes, and
// has all nodes measure when a person asks it.
#pragma once

#include "net_measurer.h"

#include <functional>
#include <vector>

#include "penstock/cluster/participant.h"
#include "penstock/probe.h"

namespace penstock::cluster {

class NetChecker {
 public:
  struct Config {
    NetMeasurer::Config measurer;
    engine::Net* net = nullptr;  // where it answers, and asks others
    NodeId self;
    std::vector<probe::OwnAddress> own;  // where it listens
    bool insecure = false;
  };
  explicit NetChecker(Config config);

  // In the loop. After stop() nothing begins, and what is under way ends; close() completes when
  // nobody is served any more, which takes as long as callers do, or their connections last.
  void serve();
  void stop();
  void close(engine::Op& done) { service_.close(done); }

  // Any thread while the loop runs; block. `goes_on` is asked several times a second.
  Outcome<NetReport> check(engine::BlockingCaller& caller, std::vector<NodeId> nodes,
                           const NetQuestion& question, const std::function<bool()>& goes_on);
  Outcome<std::vector<probe::MeasuredWay>> measure(engine::BlockingCaller& caller, NodeId to,
                                                   std::vector<probe::Workload> plan,
                                                   const std::function<bool()>& goes_on);

 private:
  struct Asking;

  engine::Loop& loop() const { return *config_.measurer.loop; }
  probe::MachineFacts machine() const;
  Outcome<std::unique_ptr<Asking>> begin_asking();

  const Config config_;
  NetMeasurer measurer_;
  probe::Service service_;
  bool is_asking_ = false;  // the loop's
};

}  // namespace penstock::cluster
