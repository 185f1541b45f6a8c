// One call at a time to a HoldsService, again after a pause where it has no answer.
#pragma once

#include "limits.h"
#include "messages.h"

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/holds_net/holds_agent.h"

namespace penstock::holds_net {

// Owner thread of the loop.
class Caller {
 public:
  // What is asked, but for what the caller itself knows.
  struct Question {
    Kind kind = Kind::attend;
    AgentId of;
    uint64_t caller = 0;
    uint64_t sequence = 0;
    uint16_t life = 0;
    std::string words;
  };
  struct Answer {
    ResponseHeader header;
    std::vector<Told> told;
  };

  // `version`: in which all of an agent's calls are asked. `done` hears the answer, or null; and
  // `again` that the pause is over that follows then.
  Caller(const HoldsAgentConfig& config, uint16_t& version, std::function<void(const Answer*)> done,
         std::function<void()> again);

  // No call is out, and no pause.
  bool is_idle() const { return !is_calling_ && !is_pausing_; }
  void call(Question question);
  const Question& question() const { return question_; }
  // By the clock of leases.
  engine::Time sent() const { return sent_; }
  // Its call ends early, and it makes no pause any more.
  void end();

 private:
  struct Op : engine::CallOp {
    std::array<std::byte, engine::kNetMessageMax> asked;
    std::array<std::byte, engine::kNetMessageMax> answered;
  };
  void on_end();
  std::optional<Answer> read();
  void learn_version(const ResponseHeader& header);

  const HoldsAgentConfig& config_;
  uint16_t& version_;
  const std::function<void(const Answer*)> done_;
  const std::function<void()> again_;
  Op op_;
  engine::Timer timer_;
  Question question_;
  engine::Time sent_{};
  engine::Duration pause_ = limits::kPauseFirst;
  bool is_calling_ = false;
  bool is_sent_ = false;  // to the net, which has the call
  bool is_pausing_ = false;
  bool has_ended_ = false;
  const std::unique_ptr<std::byte[]> room_ = std::make_unique<std::byte[]>(limits::kAnswerBytesMax);
};

}  // namespace penstock::holds_net
