#include "penstock/membership/ask.h"

#include "question.h"

#include <algorithm>
#include <utility>

namespace penstock::membership {

void Question::prepare(engine::Address controller, const Request& what, uint32_t version) {
  asked_ = encode(what, version);
  words_.version = version;
  answered_.resize(wire::kMembershipBytesMax);
  words_.length = static_cast<uint32_t>(asked_.size());
  to = controller;
  method = static_cast<uint16_t>(wire::MembershipMethod::ask);
  request = std::as_bytes(std::span(&words_, 1));
  response = std::as_writable_bytes(std::span(&response_, 1));
  const auto memory = [](std::string& bytes) {
    return engine::MemoryRef{reinterpret_cast<std::byte*>(bytes.data()), bytes.size()};
  };
  exposures[0] = {memory(asked_), engine::Access::fetch};
  exposures[1] = {memory(answered_), engine::Access::place};
  exposure_count = 2;
}

Result<Answer> Question::answer() const {
  if (!status.ok()) return status;
  TRY_ASSIGN(const wire::MembershipResponse words,
             wire::decode_membership_response(response.first(response_length), true));
  ASSERT(words.length <= answered_.size());
  return decode_answer(std::string_view(answered_).substr(0, words.length), words_.version);
}

std::optional<wire::Protocol> Question::controller_speaks() const {
  if (!status.ok() && status != Code::wrong_version) return std::nullopt;
  const auto words = wire::decode_membership_response(response.first(response_length), status.ok());
  if (!words) return std::nullopt;
  return wire::Protocol{words->lowest, words->highest, 0};
}

engine::Duration Pause::next(engine::Random& random) {
  const engine::Duration most = std::exchange(next_, std::min(next_ * 2, limits::kAgainMost));
  ASSERT(most >= limits::kAgainFirst && most <= limits::kAgainMost);
  // Many that were turned away at once come back one after the other.
  return most / 2 + engine::Duration(random.below(static_cast<uint64_t>(most.count() / 2)));
}

bool is_passing(const controller::Refused& refused) {
  return is_passing(refused.code);
}

namespace {

// The tries of one AskOp. It frees itself with the last.
class Asking {
 public:
  using Stands = std::function<bool(const controller::Refused&)>;
  static void begin(AskOp& op, Stands stands) {
    (new Asking(op, std::move(stands)))->ask();  // until end()
  }

 private:
  Asking(AskOp& op, Stands stands) : op_(op), stands_(std::move(stands)) {
    ASSERT(op.config.loop != nullptr && op.config.net != nullptr);
  }
  engine::Loop& loop() { return *op_.config.loop; }

  void ask() {
    auto& question = Task<Question>::make([this](Task<Question>& asked) { take(asked); });
    question.prepare(op_.config.controller, op_.request, asked_in_.version());
    question.deadline = std::min(op_.deadline, loop().now() + Question::time_of(op_.request));
    op_.config.net->call(question);
  }

  void take(const Question& asked) {
    if (asked_in_.learn(asked)) return again(Code::wrong_version);
    Result<Answer> answer = asked.answer();
    if (answer) {
      op_.answer = std::move(*answer);
      const auto* refused = std::get_if<controller::Refused>(&op_.answer);
      if (refused == nullptr || stands_(*refused)) return end(Code::ok);
      return again(refused->code);
    }
    const Status status = answer.error();
    const bool is_unknown = status == Code::peer_gone || status == Code::timed_out;
    if (is_unknown && happens_twice(op_.request)) return end(Code::may_have_happened);
    if (!is_passing(status.code())) return end(status);
    again(status);
  }

  void again(Status why) {
    const engine::Time next = loop().now() + pause_.next(loop().random());
    if (next >= op_.deadline) return end(why);
    auto& timer = Task<engine::Timer>::make([this](Task<engine::Timer>&) { ask(); });
    loop().start(timer, next);
  }

  void end(Status status) {
    const std::unique_ptr<Asking> self(this);
    loop().complete(op_, status);
  }

  AskOp& op_;
  const Stands stands_;
  AskedIn asked_in_{op_.config.speaks};
  Pause pause_;
};

// What JoinOp is while it is asked.
struct Joining {
  explicit Joining(JoinOp& its_op) : op(its_op) {}

  void end() {
    const std::unique_ptr<Joining> self(this);
    Status status = ask.status;
    if (const auto* refused = std::get_if<controller::Refused>(&ask.answer)) {
      op.refusal = refused->reason;
      if (status.ok()) status = refused->code;
    } else if (status.ok()) {
      const auto* admitted = std::get_if<Admitted>(&ask.answer);
      auto* const enrolled = std::get_if<Enrolled>(&ask.answer);
      if (op.enroll && enrolled != nullptr) {
        admitted = &enrolled->admitted;
        op.papers = std::move(enrolled->papers);
      }
      const controller::Join& asked = op.enroll ? op.enroll->join : op.join;
      const bool is_mine = admitted != nullptr && admitted->admission.process == asked.process;
      if (is_mine) {
        op.admitted = *admitted;
      } else {
        status = Code::bad_message;
      }
    }
    if (!status.ok() && op.refusal.empty()) {
      op.refusal = "join: the controller does not answer: " + std::string(status.name());
    }
    op.config.loop->complete(op, status);
  }

  JoinOp& op;
  AskOp ask;
};

}  // namespace

void ask(AskOp& op) {
  Asking::begin(op, [](const controller::Refused& refused) { return !is_passing(refused); });
}

void join(JoinOp& op) {
  auto* joining = new Joining(op);  // until end()
  joining->ask.config = op.config;
  joining->ask.request = op.enroll ? Request(*op.enroll) : Request(op.join);
  joining->ask.deadline = op.deadline;
  joining->ask.owner = joining;
  joining->ask.completion = [](engine::Op& asked) { asked.owner_as<Joining>().end(); };
  // The process before may still have a lease: that ends.
  Asking::begin(joining->ask, [](const controller::Refused& refused) {
    return !is_passing(refused) && refused.code != Code::in_use;
  });
}

}  // namespace penstock::membership
