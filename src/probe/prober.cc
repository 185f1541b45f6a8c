#include "penstock/probe/prober.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "penstock/probe/messages.h"

namespace penstock::probe {
namespace {

using engine::Op;
using engine::Time;

Method method_of(Workload::Kind kind) {
  switch (kind) {
    case Workload::Kind::place:
      return Method::place;
    case Workload::Kind::fetch:
      return Method::fetch;
    case Workload::Kind::echo:
      break;
  }
  return Method::echo;
}

// One plan on its way, from probe() to its end. Frees itself then.
class Run {
 public:
  Run(engine::Loop& loop, ProbeOp& op) : loop_(loop), op_(op) {}

  // The first call finds or makes a connection: it takes as long as that, and is not counted.
  void start() {
    begin({.kind = Workload::Kind::echo, .bytes = 0, .depth = 1, .time = {}}, limits::kReachTime);
  }

 private:
  struct Call : engine::CallOp {
    Run* run = nullptr;
    Request message;
    Response answer;
    std::vector<std::byte> memory;
    Time began;
    engine::Timer pause;
  };

  void begin(const Workload& workload, engine::Duration call_time);
  void issue(Call& call);
  void on_end(Call& call);
  void count(const Call& call, Time now);
  void call_is_over();
  Figures figures() const;

  engine::Loop& loop_;
  ProbeOp& op_;
  Workload workload_;
  engine::Duration call_time_{};
  bool reached_ = false;
  std::vector<std::unique_ptr<Call>> calls_;
  size_t left_ = 0;  // calls that are to end
  Status failure_ = Code::ok;
  Time warm_, until_;
  // From `start_` on, which is after the warm-up as soon as a call has ended there.
  Time start_, last_;
  bool is_warm_ = false;
  uint64_t counted_ = 0;
  std::vector<engine::Duration> samples_;
};

void Run::begin(const Workload& workload, engine::Duration call_time) {
  ASSERT(workload.depth >= 1 && workload.depth <= limits::kDepthMax);
  ASSERT(workload.bytes <= limits::kBytesMax);
  workload_ = workload;
  call_time_ = call_time;
  calls_.clear();
  for (uint32_t i = 0; i < workload.depth; ++i) {
    Call& call = *calls_.emplace_back(std::make_unique<Call>());
    call.run = this;
    call.memory.assign(workload.bytes, std::byte{1});
    call.to = op_.to;
    call.method = static_cast<uint16_t>(method_of(workload.kind));
    call.request = std::as_bytes(std::span(&call.message, 1));
    call.response = std::as_writable_bytes(std::span(&call.answer, 1));
    call.completion = [](Op& op) {
      auto& self = static_cast<Call&>(op);
      self.run->on_end(self);
    };
    call.pause.owner = &call;
    call.pause.completion = [](Op& op) {
      auto& self = op.owner_as<Call>();
      self.run->issue(self);
    };
    if (workload.kind == Workload::Kind::echo) continue;
    const bool places = workload.kind == Workload::Kind::place;
    call.exposures[0] = {
        {call.memory.data(), workload.bytes, engine::kNoBuffer, engine::MemoryKind::host},
        places ? engine::Access::place : engine::Access::fetch};
    call.exposure_count = 1;
  }
  start_ = last_ = loop_.clock().now();
  warm_ = start_ + workload.time / 8;
  until_ = start_ + workload.time;
  is_warm_ = false;
  counted_ = 0;
  samples_.clear();
  left_ = calls_.size();
  for (const auto& call : calls_) issue(*call);
}

void Run::issue(Call& call) {
  call.began = loop_.clock().now();
  call.deadline = call.began + call_time_;
  op_.net->call(call);
}

void Run::on_end(Call& call) {
  const Time now = loop_.clock().now();
  if (call.status.ok()) {
    count(call, now);
  } else if (call.status != Code::busy) {
    failure_ = call.status;
  }
  if (!failure_.ok() || now >= until_) return call_is_over();
  if (call.status.ok()) return issue(call);
  loop_.start(call.pause, now + limits::kBusyPause);
}

void Run::count(const Call& call, Time now) {
  if (!is_warm_ && now >= warm_ && now < until_) {
    is_warm_ = true;
    counted_ = 0;
    samples_.clear();
    start_ = last_ = now;
    return;
  }
  ++counted_;
  last_ = now;
  if (samples_.size() < limits::kSamplesMax) samples_.push_back(now - call.began);
}

void Run::call_is_over() {
  if (--left_ > 0) return;
  if (failure_.ok() && counted_ == 0) failure_ = Code::busy;
  if (reached_ && counted_ > 0) op_.figures.push_back(figures());
  reached_ = true;
  if (failure_.ok() && op_.figures.size() < op_.plan.size()) {
    return begin(op_.plan[op_.figures.size()], limits::kCallTime);
  }
  const std::unique_ptr<Run> self(this);
  loop_.complete(op_, failure_);
}

Figures Run::figures() const {
  Figures figures;
  figures.calls = counted_;
  figures.seconds = std::chrono::duration<double>(last_ - start_).count();
  std::vector<engine::Duration> sorted = samples_;
  std::sort(sorted.begin(), sorted.end());
  figures.median = sorted[sorted.size() / 2];
  figures.p99 = sorted[sorted.size() * 99 / 100];
  return figures;
}

}  // namespace

std::vector<Workload> check_plan(engine::Duration time) {
  constexpr uint32_t kAtOnce = 8;
  return {{Workload::Kind::echo, 0, 1, time / 5},
          {Workload::Kind::place, limits::kBytesMax, kAtOnce, time * 2 / 5},
          {Workload::Kind::fetch, limits::kBytesMax, kAtOnce, time * 2 / 5}};
}

void probe(engine::Loop& loop, ProbeOp& op) {
  op.figures.clear();
  std::make_unique<Run>(loop, op).release()->start();
}

}  // namespace penstock::probe
