#include "credit.h"

#include <algorithm>

namespace penstock::chain {

using limits::kBlockBytes;

uint64_t space_for(const store::UpdatePart& part) {
  switch (part.kind) {
    case store::UpdateKind::write:
      return ((part.end - 1) / kBlockBytes - part.begin / kBlockBytes + 1) * kBlockBytes;
    case store::UpdateKind::clear:
      return 2 * kBlockBytes;  // those at both ends, of which a part stays
    case store::UpdateKind::remove:
    case store::UpdateKind::drop:
      return 0;
  }
  return 0;
}

bool Credit::is_granted(uint64_t bytes) const {
  ASSERT(granted_ >= spent_);
  return core_.part.next() == nullptr || granted_ - spent_ >= bytes;
}

bool Credit::has_enough(uint64_t bytes, uint64_t taken_before) {
  if (bytes == 0) return true;
  const uint64_t left = core_.host.space.left(core_.host.store(), core_.host.loop().now());
  return is_granted(bytes) && left >= taken_before + bytes;
}

bool Credit::take(uint64_t bytes, uint64_t taken_before) {
  ASSERT(core_.part.is_head());
  if (!has_enough(bytes, taken_before)) return false;
  if (core_.part.next() != nullptr) spent_ += bytes;
  last_take_ = core_.host.loop().now();
  // So that the next ones need not wait.
  const bool low = core_.part.next() != nullptr && granted_ - spent_ < limits::kCreditStep / 2;
  if (low && bytes > 0 && !scarce_) ask_successor();
  return true;
}

void Credit::ask(uint64_t bytes, std::function<void(bool)> then) {
  waiting_.push_back({bytes, core_.host.loop().now(), std::move(then)});
  if (is_granted(bytes)) return look_again(limits::kPeerRetry);
  ask_successor();
}

void Credit::ask_successor() {
  const Member* const to = core_.part.next();
  if (asking_ || to == nullptr || !core_.successor_ready) return look_again(limits::kPeerRetry);
  asking_ = true;
  uint64_t wanted = scarce_ ? 0 : limits::kCreditStep;
  uint64_t all = 0;
  for (const Waiting& one : waiting_) all += one.bytes;
  wanted = std::max(wanted, all);
  wire::ChainGrantRequest request;
  request.header = core_.header();
  request.sequence = ++sequence_;
  request.least = spent_ + (waiting_.empty() ? 0 : waiting_.front().bytes);
  request.most = spent_ + wanted;
  auto& call = core_.peer_task(*to, [this](Task<PeerCall>& done) { answered(done); });
  call.say(wire::ChainMethod::grant, request);
  core_.call(*to, call);
}

void Credit::answered(Task<PeerCall>& done) {
  asking_ = false;
  wire::ChainGrantResponse response;
  heard_ = done.status.ok() || done.status == Code::no_space;
  if (done.status.ok() && done.response_length == sizeof response) {
    std::memcpy(&response, done.answer.data(), sizeof response);
    granted_ = std::max(response.granted, spent_);
    scarce_ = response.scarce != 0;
    if (scarce_) give_idle_back();
    return serve_waiting();
  }
  scarce_ = scarce_ || done.status == Code::no_space;
  if (!waiting_.empty()) look_again(limits::kPeerRetry);
}

// What was not enough may be so a moment later: blocks become free with commits.
void Credit::look_again(engine::Duration pause) {
  if (looking_) return;
  looking_ = true;
  core_.after(pause, [this, version = core_.part.version()] {
    if (version != core_.part.version()) return;
    looking_ = false;
    if (!core_.failed) serve_waiting();
  });
}

void Credit::serve_waiting() {
  const engine::Time now = core_.host.loop().now();
  while (!waiting_.empty()) {
    Waiting& first = waiting_.front();
    const bool worth = has_enough(first.bytes);
    // A successor that does not answer has not said that it has no space: it may be lost, and the
    // next version has another.
    const bool lacking = is_granted(first.bytes) || heard_;
    if (!worth && (!lacking || now - first.since < limits::kSpacePatience)) break;
    const auto then = std::move(first.then);
    waiting_.pop_front();
    then(worth);
  }
  if (waiting_.empty()) return;
  if (is_granted(waiting_.front().bytes)) return look_again(limits::kPeerRetry);
  ask_successor();
}

// Where there is little, others need what this chain does not use.
void Credit::give_idle_back() {
  if (std::exchange(giving_, true)) return;
  core_.after(limits::kCreditIdle, [this, version = core_.part.version()] {
    if (version != core_.part.version()) return;
    giving_ = false;
    if (core_.failed || granted_ == spent_) return;
    const bool idle = core_.host.loop().now() - last_take_ >= limits::kCreditIdle;
    if (!idle || asking_ || !waiting_.empty()) return give_idle_back();
    scarce_ = true;
    granted_ = spent_;
    ask_successor();
  });
}

void Credit::arrived(uint64_t bytes) {
  // What a former version's head has numbered comes without.
  const uint64_t its = std::min(bytes, given_ - used_);
  used_ += its;
  core_.host.space.release(its);
}

void Credit::set_given(uint64_t given) {
  ASSERT(given >= used_);
  if (given > given_) {
    core_.host.space.reserve(given - given_);
  } else {
    core_.host.space.release(given_ - given);
  }
  given_ = given;
}

void Credit::part_changed() {
  set_given(used_);
  given_ = used_ = answered_ = 0;
  granted_ = spent_ = sequence_ = 0;
  asking_ = heard_ = looking_ = giving_ = scarce_ = false;
  waiting_.clear();
}

void Credit::on_grant(engine::IncomingCall& call, const wire::ChainGrantRequest& request) {
  const bool has_place = core_.part.serves() && !core_.part.is_head() && core_.part.active;
  if (!has_place || core_.failed) return core_.refuse(call);
  if (request.sequence <= answered_) return call.reply(Code::stale, {});
  answered_ = request.sequence;
  const uint64_t left = core_.host.space.left(core_.host.store(), core_.host.loop().now());
  const uint64_t before = given_;
  const uint64_t least = std::max(request.least, used_);
  if (least > given_ && least - given_ > left) return call.reply(Code::no_space, {});
  // Others want some, too.
  const uint64_t fair = given_ + left / limits::kCreditShare;
  set_given(std::max(least, std::min(request.most, std::max(given_, fair))));
  const bool scarce = left < limits::kScarceBytes;
  if (core_.part.next() == nullptr) return reply(call, scarce);
  pass_on(call, request, before, scarce);
}

void Credit::pass_on(engine::IncomingCall& call, const wire::ChainGrantRequest& request,
                     uint64_t before, bool scarce) {
  if (!core_.successor_ready) {
    set_given(std::max(used_, std::min(before, given_)));
    return call.reply(Code::busy, {});
  }
  const Member& to = *core_.part.next();
  auto& asked = core_.task<PeerCall>([this, &call, before, scarce, sequence = request.sequence,
                                      version = core_.part.version()](Task<PeerCall>& done) {
    if (version != core_.part.version()) return core_.reply_moved(call);
    if (core_.failed) return core_.refuse(call);
    // Nobody waits for this one any more, and what is given now is the later one's.
    if (sequence != answered_) return call.reply(Code::stale, {});
    wire::ChainGrantResponse response;
    const bool granted = done.status.ok() && done.response_length == sizeof response;
    if (!granted) {
      set_given(std::max(used_, std::min(before, given_)));
      return call.reply(done.status == Code::no_space ? Code::no_space : Code::busy, {});
    }
    std::memcpy(&response, done.answer.data(), sizeof response);
    set_given(std::clamp(response.granted, used_, given_));
    reply(call, scarce || response.scarce != 0);
  });
  wire::ChainGrantRequest further = request;
  further.header = core_.header();
  further.most = given_;
  further.least = std::min(request.least, given_);
  asked.say(wire::ChainMethod::grant, further);
  core_.call(to, asked);
}

void Credit::reply(engine::IncomingCall& call, bool scarce) const {
  const wire::ChainGrantResponse response{.granted = given_, .scarce = scarce ? 1U : 0U};
  call.reply(Code::ok, wire::as_wire(response));
}

}  // namespace penstock::chain
