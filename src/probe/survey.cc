#include "penstock/probe/survey.h"

#include <algorithm>
#include <fmt/format.h>

namespace penstock::probe {

using engine::Op;

namespace {

// A node that is asked tries one address after the other, each for as long as this takes beside
// what is measured; one that answers nothing at all loses its connection before.
constexpr engine::Duration kWayTime = limits::kReachTime + limits::kCallTime;

constexpr engine::Duration kTellTime = limits::kReachTime + limits::kCallTime;

}  // namespace

// A call to the service of another node that is answered with a document.
struct Survey::Question : engine::CallOp {
  Survey* survey = nullptr;
  size_t index = 0;  // of the pair, or of the machine
  Request message;
  Response answer;
  std::vector<std::byte> document = std::vector<std::byte>(limits::kDocumentMax);

  // What it was answered; not ok: why there is none.
  Result<Bytes> said() const {
    if (!status.ok()) return status;
    const Bytes all = std::as_bytes(std::span(&answer, 1));
    TRY_ASSIGN(const Response good,
               decode_response(static_cast<Method>(method),
                               all.first(std::min<size_t>(response_length, all.size()))));
    return Bytes(document).first(good.length);
  }
};

struct Survey::Own : MeasureOp {
  Survey* survey = nullptr;
  size_t pair = 0;
};

Survey::~Survey() {
  ASSERT(op_ == nullptr);
}

void Survey::run(SurveyOp& op) {
  if (op_ != nullptr) return config_.loop->complete(op, Code::busy);
  op_ = &op;
  stopped_ = false;
  std::sort(op.nodes.begin(), op.nodes.end());
  op.machines.clear();
  op.pairs.clear();
  const auto counts = [&](NodeId node) {
    return op.only == NodeId() || node == op.only || node == config_.self;
  };
  for (const NodeId from : op.nodes) {
    if (!counts(from)) continue;
    op.machines.push_back({from, std::nullopt, ""});
    for (const NodeId to : op.nodes) {
      if (counts(to) && from != to) op.pairs.push_back({from, to, {}, ""});
    }
  }
  states_.assign(op.pairs.size(), State::waiting);
  pairs_left_ = op.pairs.size();
  ask_machines();
  go_on();
}

void Survey::stop() {
  stopped_ = true;
}

std::unique_ptr<Survey::Question> Survey::question(NodeId to, Method method,
                                                   engine::Duration time) {
  auto asked = std::make_unique<Question>();
  asked->survey = this;
  asked->to = {to, kService};
  asked->method = static_cast<uint16_t>(method);
  asked->request = std::as_bytes(std::span(&asked->message, 1));
  asked->response = std::as_writable_bytes(std::span(&asked->answer, 1));
  asked->exposures[0] = {
      {asked->document.data(), asked->document.size(), engine::kNoBuffer, engine::MemoryKind::host},
      engine::Access::place};
  asked->exposure_count = 1;
  asked->deadline = config_.loop->clock().now() + time;
  return asked;
}

void Survey::ask_machines() {
  machines_left_ = 0;
  for (size_t i = 0; i < op_->machines.size(); ++i) {
    NodeFacts& of = op_->machines[i];
    if (of.node == config_.self) {
      of.machine = config_.machine();
      continue;
    }
    ++machines_left_;
    auto asked = question(of.node, Method::tell, kTellTime);
    asked->index = i;
    asked->completion = [](Op& op) {
      const std::unique_ptr<Question> self(&static_cast<Question&>(op));
      self->survey->on_machine(*self);
    };
    config_.net->call(*asked.release());
  }
}

void Survey::on_machine(Question& asked) {
  NodeFacts& of = op_->machines[asked.index];
  Result<MachineFacts> machine = Code::peer_gone;
  if (const Result<Bytes> said = asked.said()) {
    machine = decode_machine(*said);
  } else {
    machine = said.error();
  }
  if (machine) {
    of.machine = std::move(*machine);
  } else {
    of.trouble = why(asked.to, machine.error());
  }
  --machines_left_;
  go_on();
}

std::string Survey::why(engine::Address address, Status status) const {
  std::string text = config_.why ? config_.why(address) : "";
  if (status == Code::busy) text = "it measures for somebody else at the moment; ask again";
  if (status == Code::timed_out) text = "it does not answer";
  if (text.empty()) text = status.name();
  return text;
}

NodeFacts* Survey::machine_of(NodeId node) {
  const auto found = std::find_if(op_->machines.begin(), op_->machines.end(),
                                  [node](const NodeFacts& one) { return one.node == node; });
  ASSERT(found != op_->machines.end());
  return &*found;
}

// Begins all pairs that can begin; ends when there is nothing left.
void Survey::go_on() {
  for (size_t pair = 0; pair < states_.size(); ++pair) {
    if (states_[pair] == State::waiting && try_pair(pair)) done_with(pair);
  }
  if (pairs_left_ > 0 || machines_left_ > 0) return;
  SurveyOp& op = *std::exchange(op_, nullptr);
  config_.loop->complete(op, stopped_ ? Status(Code::cancelled) : Status(Code::ok));
}

// True: nothing is to be measured, and why is said.
bool Survey::try_pair(size_t pair) {
  PairFacts& facts = op_->pairs[pair];
  if (stopped_) {
    facts.trouble = "not measured: the check was ended";
    return true;
  }
  if (taken_.contains(facts.from) || taken_.contains(facts.to)) return false;
  if (facts.from != config_.self) {
    const NodeFacts& from = *machine_of(facts.from);
    if (!from.trouble.empty()) {
      facts.trouble = fmt::format("node {} could not be asked", facts.from.value);
      return true;
    }
    if (!from.machine) return false;
  }
  states_[pair] = State::under_way;
  taken_.insert(facts.from);
  taken_.insert(facts.to);
  if (facts.from == config_.self) {
    measure(pair);
  } else {
    ask(pair);
  }
  return false;
}

void Survey::measure(size_t pair) {
  auto own = std::make_unique<Own>();
  own->survey = this;
  own->pair = pair;
  own->to = op_->pairs[pair].to;
  own->plan = check_plan(op_->time);
  own->completion = [](Op& op) {
    const std::unique_ptr<Own> self(&static_cast<Own&>(op));
    self->survey->on_own(*self);
  };
  config_.measurer->measure(*own.release());
}

void Survey::on_own(Own& own) {
  PairFacts& facts = op_->pairs[own.pair];
  for (MeasuredWay& way : own.ways) facts.ways.push_back(std::move(way.facts));
  if (!own.status.ok()) facts.trouble = why({config_.self, kService}, own.status);
  done_with(own.pair);
  go_on();
}

void Survey::ask(size_t pair) {
  const PairFacts& facts = op_->pairs[pair];
  auto asked = question(facts.from, Method::measure,
                        static_cast<int>(limits::kWaysMax) * (op_->time + kWayTime));
  asked->index = pair;
  asked->message.node = facts.to.value;
  asked->message.milliseconds = static_cast<uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(op_->time).count());
  asked->completion = [](Op& op) {
    const std::unique_ptr<Question> self(&static_cast<Question&>(op));
    self->survey->on_pair(*self);
  };
  config_.net->call(*asked.release());
}

void Survey::on_pair(Question& asked) {
  PairFacts& facts = op_->pairs[asked.index];
  Result<std::vector<WayFacts>> ways = Code::peer_gone;
  if (const Result<Bytes> said = asked.said()) {
    ways = decode_ways(*said);
  } else {
    ways = said.error();
  }
  if (ways) {
    facts.ways = std::move(*ways);
  } else {
    facts.trouble = why(asked.to, ways.error());
  }
  done_with(asked.index);
  go_on();
}

void Survey::done_with(size_t pair) {
  if (states_[pair] == State::under_way) {
    taken_.erase(op_->pairs[pair].from);
    taken_.erase(op_->pairs[pair].to);
  }
  states_[pair] = State::done;
  ASSERT(pairs_left_ > 0);
  --pairs_left_;
}

}  // namespace penstock::probe
