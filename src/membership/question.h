// Operations that free themselves, and a question to the controller as one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "penstock/membership/messages.h"

namespace penstock::membership {

// Lives until it has completed and `then` has run, also when whoever began it is gone by then.
template <class T>
struct Task : T {
  std::function<void(Task&)> then;

  static Task& make(std::function<void(Task&)> then) {
    auto task = std::make_unique<Task>();
    task->then = std::move(then);
    task->completion = [](engine::Op& done) {
      const std::unique_ptr<Task> self(&static_cast<Task&>(done));
      self->then(*self);
    };
    return *task.release();
  }
};

// Timers of one owner, in whose thread all is called: with it they end, and nothing of them is left
// in the loop.
class Timers {
 public:
  explicit Timers(engine::Loop& loop) : loop_(loop) {}
  ~Timers() {
    for (Task<engine::Timer>* const timer : running_) {
      timer->then = [](Task<engine::Timer>&) {};
      if (loop_.cancel(*timer)) delete timer;
    }
  }
  Timers(const Timers&) = delete;
  Timers& operator=(const Timers&) = delete;

  void after(engine::Duration pause, std::function<void()> then) {
    auto& timer =
        Task<engine::Timer>::make([this, then = std::move(then)](Task<engine::Timer>& due) {
          running_.erase(&due);
          then();
        });
    running_.insert(&timer);
    loop_.start(timer, loop_.now() + pause);
  }

 private:
  engine::Loop& loop_;
  std::set<Task<engine::Timer>*> running_;
};

// One try of one question, with the memory that it exposes. It stays in place until it has ended.
struct Question : engine::CallOp {
  void prepare(engine::Address controller, const Request& what, uint32_t version);
  // How long it may take: a question for the map waits for news.
  static engine::Duration time_of(const Request& what) {
    const bool waits = std::holds_alternative<AskMap>(what);
    return waits ? controller::limits::kLease / 2 + limits::kMapGrace : limits::kTryTime;
  }
  // What came back: the status of the call, or what is wrong with the answer, if it is not one.
  Result<Answer> answer() const;
  // What the controller says that it speaks; none if nothing came back.
  std::optional<wire::Protocol> controller_speaks() const;

 private:
  std::string asked_;
  std::string answered_;
  wire::MembershipRequest words_;
  wire::MembershipResponse response_;
};

// The version in which a controller is asked: the highest that both speak, as far as it is known.
// It may be another after each answer, as other releases may lead then.
class AskedIn {
 public:
  explicit AskedIn(const wire::Protocol& mine) : mine_(mine), version_(mine.highest) {}

  uint32_t version() const { return version_; }
  // True: it was asked in a version that it does not speak, and there is one that both do.
  bool learn(const Question& asked) {
    const auto theirs = asked.controller_speaks();
    const auto agreed = theirs ? wire::agree(mine_, *theirs) : Code::wrong_version;
    if (!agreed) return false;
    const bool is_other = std::exchange(version_, agreed->version) != agreed->version;
    return is_other && asked.status == Code::wrong_version;
  }

 private:
  const wire::Protocol mine_;
  uint32_t version_;
};

// Whether the same question may have an answer in a moment.
inline bool is_passing(Code code) {
  return code == Code::busy || code == Code::not_serving || code == Code::peer_gone ||
         code == Code::timed_out;
}

// What may happen once more where it is ordered once more.
inline bool happens_twice(const Request& request) {
  return std::holds_alternative<controller::TablePlan>(request) ||
         std::holds_alternative<controller::Move>(request);
}

// The pause before the next try.
class Pause {
 public:
  engine::Duration next(engine::Random& random);
  void reset() { next_ = limits::kAgainFirst; }

 private:
  engine::Duration next_ = limits::kAgainFirst;
};

}  // namespace penstock::membership
