// Calls to the service, from their coming until they are answered.
#pragma once

#include "limits.h"
#include "messages.h"

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "penstock/holds_net/holds_service.h"

namespace penstock::holds_net {

class Calls;

struct Asked {
  Calls* calls = nullptr;
  engine::IncomingCall* call = nullptr;
  RequestHeader header;
  AgentId agent;
  std::string words;
  bool is_trusted = true;  // in what they claim
  // Of the answer.
  std::vector<Told> told;  // what belongs to its words
  std::string bytes;
  bool is_good = false;
  uint64_t next = 0;
  engine::Time until{};  // of one that attends
  engine::TransferOp transfer;
};

// Owner thread of the loop.
class Calls final : private engine::Service {
 public:
  // `take` gets each call that can be understood, and leads to one answer() or reply(), which is
  // the end of Asked. `ended` hears of that.
  Calls(const HoldsServiceConfig& config, uint16_t life, std::function<void(Asked&)> take,
        std::function<void()> ended);

  void start() { config_.net->serve(config_.address, *this); }
  // What comes later ends with peer_gone.
  void stop();

  // How many bytes of answer the caller has room for.
  static size_t room_of(const Asked& asked);
  // With its bytes, which have room.
  void answer(Asked& asked);
  void reply(Asked& asked, Status status);
  // It makes no sense.
  void refuse(Asked& asked, Status status);

  // Thread safe.
  struct Counts {
    uint64_t answered = 0;
    uint64_t refused = 0;
    size_t open = 0;
  };
  Counts counts();

 private:
  void on_call(engine::IncomingCall& call) override;
  Status check_header(engine::IncomingCall& call, RequestHeader& header) const;
  void fetch(Asked& asked);
  void take(Asked& asked);
  void refuse(engine::IncomingCall& call, Status status);
  void count_refusal(NodeId node, Code code);
  ResponseHeader response() const;
  void count(auto change) {
    const std::lock_guard lock(mutex_);
    change(counts_);
  }

  const HoldsServiceConfig& config_;
  const uint16_t life_;
  const std::function<void(Asked&)> take_;
  const std::function<void()> ended_;
  engine::RepeatedLog log_;
  bool is_stopping_ = false;
  std::map<NodeId, size_t> open_;  // calls
  engine::Mutex mutex_;
  Counts counts_;  // under it
};

}  // namespace penstock::holds_net
