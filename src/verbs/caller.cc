#include "caller.h"

#include "loop_net.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace penstock::verbs::internal {

using engine::Access;
using engine::CallOp;
using engine::Op;

namespace {

// A call's number: which use of which slot.
constexpr int kSlotBits = 16;
constexpr uint64_t kSlotMask = (uint64_t{1} << kSlotBits) - 1;
static_assert(limits::kCallsMax <= kSlotMask + 1);

}  // namespace

struct CallerLink::Call {
  CallerLink* link = nullptr;  // null once it has ended
  engine::Timer timer;         // its deadline, and after that what each stage waits for at most
  uint64_t number = 0;
  Status end;
  std::array<Registrations::Entry*, engine::kNetExposuresMax> pins{};
  enum class Stage : uint8_t { unsent, requested, releasing, closing, ended };
  Stage stage = Stage::unsent;
  uint8_t closes = 0;  // posted and not completed
};

CallerLink::Call& CallerLink::state(CallOp& op) {
  static_assert(sizeof(Call) <= sizeof op.transport && alignof(Call) <= 64);
  return *std::launder(reinterpret_cast<Call*>(op.transport.data()));
}

CallerLink* CallerLink::link_of(CallOp& op) {
  return state(op).link;
}

void CallerLink::mark_refused(CallOp& op) {
  new (op.transport.data()) Call;
}

CallerLink::CallerLink(LoopNet& net, uint32_t id, engine::Address to)
    : Link(net, id, to.node), to_(to) {
  introduction_.owner = this;
  introduction_.to = to;
  introduction_.completion = [](Op& op) { op.owner_as<CallerLink>().on_introduced(op.status); };
}

void CallerLink::start() {
  const Result<Offer> offer = open(net_.config.calls_max);
  if (!offer) return doom(offer.error(), "no queue pair could be made");
  introduction_.ours = *offer;
  introducing_ = true;
  net_.config.introducer->introduce(introduction_);
}

void CallerLink::on_introduced(Status status) {
  introducing_ = false;
  // It may have ended meanwhile.
  if (over()) return net_.reap();
  if (doomed()) return;
  std::string& trouble = introduction_.trouble;
  if (!status.ok() && trouble.empty()) trouble = "the other side did not answer with a queue pair";
  if (status.ok()) {
    status = join(introduction_.theirs);
    trouble = "the queue pairs could not be joined";
  }
  if (!status.ok()) return doom(status, trouble);
  was_ready_ = net_.config.otherwise == nullptr;
  if (!was_ready_) begin_trial();
}

void CallerLink::begin_trial() {
  trial_ = std::make_unique<Trial>();
  trial_->deadline = net_.loop.now() + limits::kTrialTime;
  trial_->owner = this;
  trial_->completion = [](Op& op) { op.owner_as<CallerLink>().on_trial_end(); };
  call(*trial_);
}

void CallerLink::on_trial_end() {
  const std::unique_ptr<Trial> trial = std::move(trial_);
  if (over()) return net_.reap();
  was_ready_ = trial->status.ok() && trial->holds();
  if (was_ready_) return;
  doom(Code::peer_gone,
       "large packets do not get through (is the MTU of all switches between large enough, and the "
       "limit of locked memory there?)");
}

void CallerLink::call(CallOp& op) {
  ASSERT(!doomed() && !over());
  auto& call = *new (op.transport.data()) Call;
  call.link = this;
  call.timer.owner = &op;
  call.timer.completion = [](Op& due) {
    auto& late = due.owner_as<CallOp>();
    state(late).link->on_timer(late);
  };
  unsent_.push_back(op);
  if (op.deadline != engine::kNever) net_.loop.start(call.timer, op.deadline);
  mark();
}

void CallerLink::cancel(CallOp& op) {
  // What has been sent the service may act upon: it ends as it would without this.
  if (state(op).stage == Call::Stage::unsent) give_up(op, Code::cancelled);
}

void CallerLink::on_timer(CallOp& op) {
  switch (state(op).stage) {
    case Call::Stage::unsent:
    case Call::Stage::requested:
      return give_up(op, Code::timed_out);
    case Call::Stage::releasing:
      ++net_.counted.forced;
      return close(op);
    case Call::Stage::closing:
      return doom(Code::peer_gone, "a window could not be closed in time");
    case Call::Stage::ended:
      ASSERT(false);
  }
}

// Ends a call ahead of its response.
void CallerLink::give_up(CallOp& op, Status status) {
  Call& call = state(op);
  call.end = status;
  if (call.stage == Call::Stage::unsent) return finish(op);
  ASSERT(call.stage == Call::Stage::requested);
  abandons_.push_back(call.number);
  mark();
  call.stage = Call::Stage::releasing;
  const Slot& slot = *find(call.number);
  const bool open = std::ranges::any_of(slot.windows, &OpenWindow::open);
  if (!open) return finish(op);
  net_.loop.start(call.timer, net_.loop.now() + net_.config.patience.release);
}

// Its windows are to be invalidated, whatever the server does.
void CallerLink::close(CallOp& op) {
  Call& call = state(op);
  ASSERT(call.stage == Call::Stage::requested || call.stage == Call::Stage::releasing);
  call.stage = Call::Stage::closing;
  (void)net_.loop.cancel(call.timer);
  const Slot& slot = *find(call.number);
  if (!std::ranges::any_of(slot.windows, &OpenWindow::open)) return finish(op);
  net_.loop.start(call.timer, net_.loop.now() + net_.config.patience.invalidate);
  op.unlink();
  closing_.push_back(op);
  mark();
}

// Nothing can touch its memory any more.
void CallerLink::finish(CallOp& op) {
  Call& call = state(op);
  (void)net_.loop.cancel(call.timer);
  if (call.number != 0) {
    Slot& slot = *find(call.number);
    slot.op = nullptr;
    // Else the server still has its keys.
    if (slot.answered) free(slot);
  }
  unpin(op);
  call.stage = Call::Stage::ended;
  call.link = nullptr;
  op.unlink();
  net_.loop.complete(op, call.end);
}

void CallerLink::free(Slot& slot) {
  for (OpenWindow& window : slot.windows) {
    ASSERT(!window.open);
    if (window.taken) net_.windows.give_back(window.window);
  }
  free_slots_.push_back(static_cast<uint32_t>(&slot - slots_.data()));
  slot = {};
  --used_slots_;
  mark();
}

uint32_t CallerLink::take_slot() {
  ++used_slots_;
  if (free_slots_.empty()) {
    slots_.emplace_back();
    return static_cast<uint32_t>(slots_.size()) - 1;
  }
  const uint32_t index = free_slots_.back();
  free_slots_.pop_back();
  return index;
}

CallerLink::Slot* CallerLink::find(uint64_t number) {
  const uint64_t index = number & kSlotMask;
  if (number == 0 || index >= slots_.size() || slots_[index].number != number) return nullptr;
  return &slots_[index];
}

void CallerLink::handle(const Message& message) {
  Slot* const slot = find(message.header.call);
  if (slot == nullptr || slot->answered) {
    return doom(Code::bad_message, "it answered a call that there is not");
  }
  if (message.header.kind == MessageKind::response) return on_response(message, *slot);
  if (message.header.kind != MessageKind::released) {
    return doom(Code::bad_message, "it sent what only callers send");
  }
  // Perhaps its time for that is over, and it is closing or has ended.
  if (slot->op != nullptr && state(*slot->op).stage == Call::Stage::releasing) close(*slot->op);
}

void CallerLink::on_response(const Message& message, Slot& slot) {
  slot.answered = true;
  if (slot.op == nullptr) return free(slot);
  CallOp& op = *slot.op;
  Call& call = state(op);
  if (call.stage == Call::Stage::closing) return;
  if (call.stage == Call::Stage::requested) {
    const Bytes bytes = message.bytes;
    if (bytes.size() > op.response.size()) {
      call.end = Code::bad_message;
    } else {
      if (!bytes.empty()) std::memcpy(op.response.data(), bytes.data(), bytes.size());
      op.response_length = static_cast<uint32_t>(bytes.size());
      call.end = Status(static_cast<Code>(message.header.method), message.header.detail);
    }
  }
  close(op);
}

bool CallerLink::may_request(const CallOp& op) const {
  const uint32_t calls_max = std::min(their_calls(), net_.config.calls_max);
  return used_slots_ < calls_max && can_send(op.exposure_count);
}

Status CallerLink::pin(CallOp& op) {
  for (uint32_t i = 0; i < op.exposure_count; ++i) {
    const engine::Exposure& exposure = op.exposures[i];
    if (exposure.memory.length == 0) continue;
    TRY_ASSIGN(state(op).pins[i],
               net_.registrations.take(exposure.memory, exposure.access == Access::place));
  }
  return Code::ok;
}

void CallerLink::unpin(CallOp& op) {
  for (Registrations::Entry*& pin : state(op).pins) {
    if (pin != nullptr) net_.registrations.give_back(*std::exchange(pin, nullptr));
  }
}

void CallerLink::request(CallOp& op) {
  Call& call = state(op);
  if (const Status status = pin(op); !status.ok()) {
    ++net_.counted.elsewhere;
    return refuse(op, status);
  }
  const uint32_t index = take_slot();
  Slot& slot = slots_[index];
  slot.op = &op;
  slot.number = call.number = ++count_ << kSlotBits | index;
  call.stage = Call::Stage::requested;
  op.unlink();
  waiting_.push_back(op);

  Message message;
  message.header = {.kind = MessageKind::request,
                    .method = op.method,
                    .call = call.number,
                    .exposures = static_cast<uint8_t>(op.exposure_count)};
  message.bytes = op.request;
  for (uint32_t i = 0; i < op.exposure_count; ++i) bind(op, slot, i, message);
  if (doomed()) return;
  if (op.deadline != engine::kNever) {
    const auto until =
        std::chrono::duration_cast<std::chrono::microseconds>(op.deadline - net_.loop.now());
    message.header.time_us = static_cast<uint64_t>(std::max<int64_t>(1, until.count()));
  }
  ++net_.counted.calls;
  send(message);
}

void CallerLink::bind(CallOp& op, Slot& slot, uint32_t exposure, Message& message) {
  const engine::Exposure& exposed = op.exposures[exposure];
  Span& span = message.spans[exposure];
  span.access = exposed.access;
  if (exposed.memory.length == 0 || doomed()) return;
  const Result<Window> window = net_.windows.take();
  if (!window) return doom(Code::peer_gone, "no window could be made");
  slot.windows[exposure] = {*window, true, true};
  ++net_.counted.windows_bound;
  post({.verb = Verb::bind,
        .local = exposed.memory.bytes(),
        .memory = state(op).pins[exposure]->memory,
        .key = window->key,
        .window = window->id,
        .access = exposed.access},
       {.kind = Work::Kind::bind});
  span.address = reinterpret_cast<uintptr_t>(exposed.memory.data);
  span.length = exposed.memory.length;
  span.key = window->key;
}

void CallerLink::post_closes() {
  while (!closing_.empty()) {
    CallOp& op = closing_.front();
    Call& call = state(op);
    Slot& slot = *find(call.number);
    uint32_t open = 0;
    for (const OpenWindow& window : slot.windows) open += window.open ? 1 : 0;
    if (!can_post(open)) return;
    op.unlink();
    waiting_.push_back(op);
    for (uint32_t i = 0; i < slot.windows.size() && !doomed(); ++i) {
      if (!slot.windows[i].open) continue;
      ++call.closes;
      post({.verb = Verb::invalidate, .key = slot.windows[i].window.key},
           {.kind = Work::Kind::close, .owner = &op, .detail = i});
    }
    if (doomed()) return;
  }
}

void CallerLink::fill() {
  post_closes();
  while (!doomed() && !abandons_.empty() && can_send()) {
    const uint64_t number = abandons_.back();
    abandons_.pop_back();
    // Not where the response has come meanwhile.
    const Slot* const slot = find(number);
    if (slot == nullptr || slot->answered) continue;
    send({.header = {.kind = MessageKind::abandon, .call = number}});
  }
  while (!doomed() && !unsent_.empty() && may_request(unsent_.front())) request(unsent_.front());
}

void CallerLink::on_work(const Work& work) {
  if (work.kind != Work::Kind::close) return;
  auto& op = static_cast<CallOp&>(*work.owner);
  Call& call = state(op);
  ASSERT(call.closes > 0 && call.stage == Call::Stage::closing);
  find(call.number)->windows[work.detail].open = false;
  if (--call.closes == 0) finish(op);
}

void CallerLink::on_broken() {
  for (Slot& slot : slots_) {
    for (OpenWindow& window : slot.windows) {
      if (!window.taken) continue;
      if (window.open) {
        net_.windows.destroy(window.window);
      } else {
        net_.windows.give_back(window.window);
      }
    }
    slot = {};
  }
  slots_.clear();
  free_slots_.clear();
  used_slots_ = 0;
  abandons_.clear();
}

void CallerLink::on_end(Status status) {
  for (IntrusiveList<CallOp>* const list : {&waiting_, &closing_}) {
    while (!list->empty()) {
      CallOp& op = list->front();
      Call& call = state(op);
      // Nothing is known of what was sent, whatever has ended the connection.
      const bool is_known = status == Code::closed;
      if (call.stage == Call::Stage::requested) call.end = is_known ? status : Code::peer_gone;
      call.number = 0;
      finish(op);
    }
  }
  while (!unsent_.empty()) refuse(unsent_.front(), status);
}

// Nothing of it was sent.
void CallerLink::refuse(CallOp& op, Status status) {
  (void)net_.loop.cancel(state(op).timer);
  unpin(op);
  state(op).link = nullptr;
  op.unlink();
  if (&op == trial_.get()) return net_.loop.complete(op, status);
  net_.refuse(op, status);
}

}  // namespace penstock::verbs::internal
