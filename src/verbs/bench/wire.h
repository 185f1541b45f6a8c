// Set-up for programs that try verbs out: offers over a plain socket, nothing proven.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "penstock/disk.h"
#include "penstock/verbs.h"

namespace penstock::verbs::bench {

inline constexpr NodeId kCaller{1};
inline constexpr NodeId kServer{2};
inline constexpr engine::Address kService{kServer, 1};

// For how long loops poll before they sleep: PENSTOCK_SPIN_US, or not at all.
engine::Duration spin();

// A loop that sleeps in an io_uring, and a Net over the first device.
struct Node {
  Node(NodeId id, Introducer& introducer, Patience patience);
  ~Node();

  engine::SeededRandom random{1};
  std::unique_ptr<disk::DiskDriver> driver = std::move(*disk::DiskDriver::create({.root = "/tmp"}));
  engine::Loop loop{engine::system_clock(), random, driver->parker(), spin()};
  engine::Disk& disk = driver->attach(loop);
  std::unique_ptr<Provider> device;
  std::unique_ptr<VerbsNet> net;
};

// Asks the node at an IPv4 address.
class SocketIntroducer final : public Introducer {
 public:
  explicit SocketIntroducer(std::string address) : address_(std::move(address)) {}
  ~SocketIntroducer() override { join(); }
  void introduce(Introduction& introduction) override;
  engine::Loop* loop = nullptr;

 private:
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  const std::string address_;
  std::thread thread_;
};

// Answers those that ask, one after the other, until the process ends.
void answer_offers(Node& node);

}  // namespace penstock::verbs::bench
