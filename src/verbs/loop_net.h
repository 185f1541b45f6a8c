// What stands behind a VerbsNet: the connections of one loop and what they share of a device.
#pragma once

#include "caller.h"
#include "incoming.h"
#include "registrations.h"
#include "server.h"
#include "windows.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "penstock/verbs/net.h"

namespace penstock::verbs::internal {

// Owner thread of the loop only.
class LoopNet final : public engine::Poller {
 public:
  LoopNet(const NetConfig& config, Provider& provider, engine::Loop& loop, engine::Parker* parker);
  ~LoopNet() override;
  Status create();
  void close();

  bool poll() override;
  bool prepare_sleep() override;
  void woke() override;

  void call(engine::CallOp& op);
  void cancel(engine::CallOp& op);
  void serve(engine::Address address, engine::Service& service);
  void withdraw(engine::Address address);
  Result<Offer> accept(engine::Peer peer, uint32_t service, const Offer& theirs);
  void lose(NodeId node);
  bool prepare(engine::Address address);
  void keep_callers(const std::function<bool(const engine::Peer&)>& is_vouched_for);
  bool reaches(NodeId node) const;
  std::vector<LinkFacts> links() const;
  bool is_quiet() const;
  // For a call of which nothing was sent: another Net has it from now on, where there is one.
  void refuse(engine::CallOp& op, Status status);
  // A link that is over waited for something, which has come.
  void reap() { reap_ = true; }
  NetCounts counts() const;
  const std::string& trouble() const { return trouble_; }

  const NetConfig config;
  Provider& provider;
  engine::Loop& loop;
  Registrations registrations;
  Windows windows;
  IncomingPool pool;
  TrialService trials;
  IntrusiveList<Link> dirty;  // with something to post, or to end
  NetCounts counted;

 private:
  struct Contact {
    CallerLink* link = nullptr;
    engine::Duration pause{};  // after the next failure
    engine::Time not_before{};
    Status last = Code::peer_gone;
    std::string trouble;
  };
  // Receive buffers that came with one connection.
  struct Slab {
    std::unique_ptr<std::byte[]> bytes;
    MemoryId memory;
  };

  CallerLink* link_to(engine::Address address, Status& refused);
  void dispatch(const Completion& completion);
  bool flush();
  void adopt(std::unique_ptr<Link> link);
  void retire(Link& link);
  engine::Duration next_pause(engine::Duration last) const;
  Status add_slab();
  void top_up();
  MutableBytes receive_buffer(uint64_t id) const;
  void look();
  void on_event(const Event& event);
  uint32_t opened() const { return static_cast<uint32_t>(pairs_.size()); }

  engine::Parker* const parker_;
  std::map<engine::Address, Contact> contacts_;
  std::map<uint32_t, engine::Service*> services_;
  std::unordered_map<uint32_t, std::unique_ptr<Link>> links_;  // by number
  std::unordered_map<uint32_t, Link*> pairs_;                  // by queue pair
  uint32_t last_link_ = 0;
  std::vector<Slab> slabs_;
  std::vector<uint64_t> free_receives_;
  uint32_t posted_receives_ = 0;
  engine::Timer timer_;
  std::string trouble_;
  bool reap_ = false;  // links are over
  bool attached_ = false;
  bool closed_ = false;
};

}  // namespace penstock::verbs::internal
