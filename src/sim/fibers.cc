#include "fibers.h"

#include <algorithm>
#include <fmt/format.h>

namespace penstock::sim {

Fibers::Fibers(SimWorld& world)
    : world_(world), random_(mix64(world.seed() + 1)), outer_(exchange_simulated(this)) {}

Fibers::~Fibers() {
  for (const auto& fiber : fibers_) ASSERT(fiber->state == State::ended);
  ASSERT(waiters_.empty());
  Threads* const self = exchange_simulated(outer_);
  ASSERT(self == this);  // Worlds of one thread end in the reverse order of their beginnings.
}

engine::Threads::Number Fibers::start(std::string name, std::function<void()> body) {
  auto fiber = std::make_unique<Fiber>();
  fiber->number = Number{next_number_++};
  fiber->name = std::move(name);
  fiber->context = std::make_unique<Context>(std::move(body));
  fiber->process = process();
  ready_.push_back(fiber.get());
  fibers_.push_back(std::move(fiber));
  return fibers_.back()->number;
}

void Fibers::join(Number thread) {
  Fiber* const fiber = find(thread);
  ASSERT(fiber != nullptr && fiber != running_);
  while (fiber->state != State::ended) {
    wait({.address = fiber, .what = "the end of a thread", .holder = thread}, Duration::max());
  }
  std::erase_if(fibers_, [&](const auto& one) { return one.get() == fiber; });
}

engine::Threads::Number Fibers::self() const {
  return running_ == nullptr ? main_ : running_->number;
}

SimWorld::Process Fibers::process() const {
  return running_ == nullptr ? process_of_main_ : running_->process;
}

SimWorld::Process Fibers::enter_process(SimWorld::Process process) {
  if (running_ == nullptr) return std::exchange(process_of_main_, process);
  ASSERT(!running_->drives_loop);
  const SimWorld::Process before = std::exchange(running_->process, process);
  if (world_.is_stopped(process)) turn_ended();
  return before;
}

Time Fibers::now() const {
  return world_.now();
}

Fibers::Fiber* Fibers::find(Number number) const {
  for (const auto& fiber : fibers_) {
    if (fiber->number == number) return fiber.get();
  }
  return nullptr;
}

bool Fibers::wait(const Wait& wait, Duration at_most) {
  ASSERT(running_ == nullptr || !running_->drives_loop || wait.brief);
  Waiter waiter{.fiber = running_, .wait = wait};
  waiters_.push_back(&waiter);
  SimWorld::EventId timeout = 0;
  if (at_most != Duration::max()) {
    timeout = world_.after(at_most, "thread.timeout", [this, &waiter] {
      if (waiter.woken) return;  // by another event of this very instant
      waiter.timed_out = true;
      end_wait(waiter);
    });
  }
  if (running_ == nullptr) {
    while (!waiter.woken) world_.turn();
  } else {
    running_->waits = &waiter;
    give_way(State::waiting);
  }
  ASSERT(waiter.woken);
  if (timeout != 0) world_.cancel(timeout);
  return !waiter.timed_out;
}

void Fibers::end_wait(Waiter& waiter) {
  ASSERT(!waiter.woken);
  waiter.woken = true;
  std::erase(waiters_, &waiter);
  if (waiter.fiber == nullptr) return;
  ASSERT(waiter.fiber->state == State::waiting);
  waiter.fiber->waits = nullptr;
  waiter.fiber->state = State::ready;
  ready_.push_back(waiter.fiber);
}

void Fibers::wake(const void* address, bool all) {
  std::vector<Waiter*> found;
  for (Waiter* const waiter : waiters_) {
    if (waiter->wait.address == address) found.push_back(waiter);
  }
  if (found.empty()) return;
  if (!all) found = {found[found.size() == 1 ? 0 : random_.below(found.size())]};
  for (Waiter* const waiter : found) end_wait(*waiter);
}

void Fibers::may_switch() {
  if (running_ == nullptr || running_->drives_loop) return;
  if (world_.stall_permille != 0 && random_.chance(world_.stall_permille, 1000)) {
    const Duration stall(random_.below(static_cast<uint64_t>(world_.stall_max.count()) + 1));
    (void)wait({.address = &stall, .what = "a processor"}, stall);
    return;
  }
  if (!random_.chance(world_.switch_permille, 1000)) return;
  ready_.push_back(running_);
  give_way(State::ready);
}

void Fibers::turn_ended() {
  if (running_ == nullptr) return;
  ready_.push_back(running_);
  give_way(State::ready);
}

bool Fibers::run_one() {
  if (ready_.empty()) return false;
  size_t index = ready_.size() == 1 ? 0 : random_.below(ready_.size());
  // Of those of a process that is stopped the one behind goes on, if any does.
  for (size_t seen = 0; world_.is_stopped(ready_[index]->process); ++seen) {
    if (seen == ready_.size()) return false;
    index = (index + 1) % ready_.size();
  }
  Fiber& next = *ready_[index];
  ready_.erase(ready_.begin() + static_cast<ptrdiff_t>(index));
  world_.trace("thread", next.number.value);
  go_on(next);
  return true;
}

void Fibers::go_on(Fiber& fiber) {
  ASSERT(running_ == nullptr && fiber.state != State::waiting && fiber.state != State::ended);
  running_ = &fiber;
  fiber.state = State::running;
  fiber.context->resume();
  running_ = nullptr;
  if (!fiber.context->ended()) return;
  fiber.state = State::ended;
  wake(&fiber, true);
}

void Fibers::give_way(State state) {
  Fiber& self = *running_;
  self.state = state;
  self.context->give_way();
  ASSERT(running_ == &self && self.state == State::running);
}

Fibers::Fiber& Fibers::drive(SimParker& parker) {
  const Number number = start("a loop", [this] {
    const Fiber& self = *running_;
    while (self.loop != nullptr) {
      self.loop->poll_or_park(engine::kNever);
      if (self.loop != nullptr) give_way(State::turned);
    }
  });
  Fiber& fiber = *find(number);
  fiber.loop = parker.loop_;
  fiber.process = parker.process_;
  fiber.drives_loop = true;
  std::erase(ready_, &fiber);
  fiber.state = State::turned;
  return fiber;
}

Fibers::Turned Fibers::turn(SimParker& parker) {
  if (parker.thread_ == nullptr && parker.loop_ != nullptr) parker.thread_ = &drive(parker);
  auto* const fiber = static_cast<Fiber*>(parker.thread_);
  if (fiber == nullptr || fiber->state == State::waiting || fiber->state == State::ready) {
    return Turned::waits;
  }
  ASSERT(fiber->state == State::sleeping || fiber->state == State::turned);
  if (fiber->state == State::sleeping && parker.next_call() > world_.now()) {
    const bool looks = parker.at_all_times_ && parker.slept_at_ != world_.now();
    if (!looks) return Turned::slept;
  }
  go_on(*fiber);
  switch (fiber->state) {
    case State::sleeping:
      return Turned::slept;
    case State::waiting:
      return Turned::waits;
    default:
      return Turned::worked;
  }
}

void Fibers::sleep(SimParker& parker) {
  ASSERT(running_ != nullptr);
  Fiber& self = *running_;
  ASSERT(parker.thread_ == (self.drives_loop ? &self : nullptr));
  parker.thread_ = &self;
  give_way(State::sleeping);
  if (!self.drives_loop) parker.thread_ = nullptr;
}

void Fibers::end(SimParker& parker) {
  parker.loop_ = nullptr;
  auto* const fiber = static_cast<Fiber*>(std::exchange(parker.thread_, nullptr));
  if (fiber == nullptr) return;
  ASSERT(fiber->drives_loop);  // A thread that runs a loop ends before it.
  // Otherwise the loop goes in the middle of a turn.
  ASSERT(fiber->state == State::sleeping || fiber->state == State::turned);
  fiber->loop = nullptr;
  fiber->state = State::ready;
  ready_.push_back(fiber);
  join(fiber->number);
}

std::string Fibers::name_of(Number number) const {
  if (number == main_) return "the test itself";
  const Fiber* const fiber = find(number);
  return fmt::format("thread {} ({})", number.value,
                     fiber == nullptr ? "ended" : fiber->name.c_str());
}

std::string Fibers::describe() const {
  std::string text;
  const auto add = [&](const std::string& name, const Wait& wait) {
    text += fmt::format("  {} waits for {} at {}", name, wait.what, fmt::ptr(wait.address));
    if (wait.holder != kNone) text += fmt::format(", which {} has", name_of(wait.holder));
    text += '\n';
  };
  for (const Waiter* const waiter : waiters_) {
    if (waiter->fiber == nullptr) add("the test itself", waiter->wait);
  }
  for (const auto& fiber : fibers_) {
    if (fiber->waits != nullptr) {
      add(name_of(fiber->number), fiber->waits->wait);
    } else if (fiber->state == State::sleeping) {
      text += fmt::format("  {} sleeps: its loop has nothing to do\n", name_of(fiber->number));
    }
  }
  return text;
}

}  // namespace penstock::sim
