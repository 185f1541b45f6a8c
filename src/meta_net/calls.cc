#include "calls.h"

#include <algorithm>
#include <array>
#include <utility>

namespace penstock::meta_net {

static_assert(RemoteMetaConfig::kCallTime == limits::kCallTime);
static_assert(RemoteMetaConfig::kSlots == limits::kSlotsMax);

SlotPool::SlotPool(uint32_t count) {
  ASSERT(count > 0 && count <= limits::kSlotsMax);
  // Those that are used most come last.
  for (uint32_t number = count; number > 0; --number) free_.push_back({number - 1, 0});
}

Result<SlotPool::Slot> SlotPool::take(engine::Duration at_most) {
  std::unique_lock lock(mutex_);
  if (!free_again_.wait_for(lock, at_most, [this] { return !free_.empty(); })) return Code::busy;
  Slot slot = free_.back();
  free_.pop_back();
  ++slot.sequence;
  return slot;
}

void SlotPool::give_back(const Slot& slot) {
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(slot);
  }
  free_again_.notify_one();
}

// With the memory that it exposes.
struct Calls::Try : engine::CallOp {
  std::array<std::byte, engine::kNetMessageMax> sent;
  std::array<std::byte, engine::kNetMessageMax> received;
  std::unique_ptr<std::byte[]> long_answer;
  size_t room = 0;
  engine::Loop* loop = nullptr;
  engine::Op* done = nullptr;

  // None where nothing of a service came back.
  std::optional<ResponseHeader> answered() const {
    ResponseHeader header;
    if (!read_header(Bytes(received).first(response_length), header)) return std::nullopt;
    return header;
  }
};

Calls::Calls(const RemoteMetaConfig& config)
    : config_(config),
      caller_(config.caller != 0 ? config.caller : engine::system_seed() | 1),
      slots_(config.slots),
      version_(config.speaks.highest),
      random_(caller_) {
  ASSERT(config_.loop != nullptr && config_.net != nullptr);
}

RemoteMeta::Figures Calls::figures() const {
  return {calls_.load(std::memory_order_relaxed), tries_.load(std::memory_order_relaxed),
          unknown_.load(std::memory_order_relaxed)};
}

Status Calls::unknown(bool changes, Status status) {
  if (!changes) return status;
  unknown_.fetch_add(1, std::memory_order_relaxed);
  return {Code::may_have_happened, status.detail()};
}

Result<std::string> Calls::run(const Request& request, size_t room, engine::Duration at_most) {
  calls_.fetch_add(1, std::memory_order_relaxed);
  Call call;
  call.asked = encode(request);
  if (call.asked.size() > limits::kRequestBytesMax) return Code::too_large;
  call.changes = changes(request);
  call.room = room;
  call.begun = now();
  call.deadline = call.begun + std::min(at_most, config_.call_time);
  call.pause = limits::kPauseFirst;
  call.header.session = config_.session ? config_.session() : 0;
  call.header.caller = caller_;
  call.header.length = static_cast<uint32_t>(call.asked.size());
  if (!call.changes) return run(call);
  // A change is meant for one life of the service, as another one does not know of its tries.
  if (life_.load(std::memory_order_relaxed) == 0) TRY(learn_life(call.deadline));
  call.header.service = life_.load(std::memory_order_relaxed);
  TRY_ASSIGN(const SlotPool::Slot slot, slots_.take(deadline_of(call) - now()));
  call.header.slot = slot.number;
  call.header.sequence = slot.sequence;
  Result<std::string> answer = run(call);
  slots_.give_back(slot);
  return answer;
}

void Calls::hurry(engine::Duration call_time) {
  ASSERT(call_time > engine::Duration::zero());
  hurried_at_.store(now(), std::memory_order_relaxed);
  // Pairs with the acquire in deadline_of(): since when is known.
  hurried_time_.store(call_time, std::memory_order_release);
  const std::lock_guard lock(mutex_);
  never_.notify_all();
}

engine::Time Calls::deadline_of(const Call& call) const {
  const engine::Duration time = hurried_time_.load(std::memory_order_acquire);
  if (time == engine::Duration::zero()) return call.deadline;
  const engine::Time since = std::max(call.begun, hurried_at_.load(std::memory_order_relaxed));
  return std::min(call.deadline, since + time);
}

Status Calls::learn_life(engine::Time deadline) {
  Call call;
  call.begun = now();
  call.asked = encode(Request(ask::NewestCookie{}));
  call.deadline = deadline;
  call.pause = limits::kPauseFirst;
  call.header.session = config_.session ? config_.session() : 0;
  call.header.caller = caller_;
  call.header.length = static_cast<uint32_t>(call.asked.size());
  TRY(run(call));
  ASSERT(life_.load(std::memory_order_relaxed) != 0);
  return Code::ok;
}

Result<std::string> Calls::run(Call& call) {
  for (;;) {
    Try tried;
    send(call, tried);
    if (auto answer = take(call, tried)) {
      if (answer->has_value() || !call.may_have_happened) return std::move(*answer);
      return unknown(call.changes, answer->error());
    }
  }
}

void Calls::send(Call& call, Try& tried) {
  tries_.fetch_add(1, std::memory_order_relaxed);
  RequestHeader& header = call.header;
  header.version = static_cast<uint16_t>(version_.load(std::memory_order_relaxed));
  header.checksum = checksum_of(header, call.asked);
  const bool is_short = call.asked.size() <= kShortRequest;
  std::memcpy(tried.sent.data(), &header, sizeof header);
  if (is_short) {
    std::memcpy(tried.sent.data() + sizeof header, call.asked.data(), call.asked.size());
  } else {
    tried.exposures[tried.exposure_count++] = {memory_of(call.asked), engine::Access::fetch};
  }
  tried.room = call.room;
  if (tried.room > kShortAnswer) {
    tried.long_answer = std::make_unique_for_overwrite<std::byte[]>(tried.room);
    tried.exposures[tried.exposure_count++] = {{tried.long_answer.get(), tried.room},
                                               engine::Access::place};
  }
  tried.to = config_.find ? config_.find() : config_.service;
  if (tried.to.node == NodeId()) {
    tried.status = Code::peer_gone;
    return;
  }
  tried.method = kMethod;
  tried.request = Bytes(tried.sent).first(sizeof header + (is_short ? call.asked.size() : 0));
  tried.response = tried.received;
  tried.deadline = std::min(deadline_of(call), now() + limits::kTryTime);
  tried.loop = config_.loop;
  tried.completion = [](engine::Op& ended) {
    const auto& self = static_cast<Try&>(ended);
    self.loop->complete(*self.done, ended.status);
  };
  (void)engine::thread_caller().call(*config_.loop, [&](engine::Op& done) {
    tried.done = &done;
    config_.net->call(tried);
  });
}

std::optional<Result<std::string>> Calls::take(Call& call, const Try& tried) {
  const auto header = tried.answered();
  const bool is_told = header && header->service != 0;
  if (is_told) life_.store(header->service, std::memory_order_relaxed);
  if (!tried.status.ok()) {
    const std::optional<Status> end = take_refusal(call, tried);
    if (!end) return std::nullopt;
    return Result<std::string>(*end);
  }
  // From here on it has happened, whatever the answer looks like.
  call.may_have_happened = true;
  if (!is_told) return Result<std::string>(Code::bad_message);
  const bool is_short = header->length <= kShortAnswer;
  const bool fits = is_short ? tried.response_length == sizeof *header + header->length
                             : header->length <= tried.room;
  if (!fits) return Result<std::string>(Code::bad_message);
  std::string bytes(is_short
                        ? text_of(Bytes(tried.received).subspan(sizeof *header, header->length))
                        : text_of({tried.long_answer.get(), header->length}));
  if (crc32c(bytes_of(bytes)) != header->checksum) return Result<std::string>(Code::bad_message);
  return Result<std::string>(std::move(bytes));
}

// The status that the call ends with; none: it is tried again.
std::optional<Status> Calls::take_refusal(Call& call, const Try& tried) {
  const auto header = tried.answered();
  const Code code = tried.status.code();
  if (code == Code::result_too_large) {
    call.may_have_happened = true;
    const bool is_good = header && header->length > tried.room && header->length > kShortAnswer &&
                         header->length <= limits::kAnswerBytesMax;
    if (!is_good) return Code::bad_message;
    call.room = header->length;
    return std::nullopt;
  }
  if (code == Code::wrong_version && header) {
    const auto agreed = wire::agree(config_.speaks, {header->lowest, header->highest, 0});
    if (!agreed || agreed->version == call.header.version) return tried.status;
    version_.store(agreed->version, std::memory_order_relaxed);
    return std::nullopt;
  }
  if (code == Code::stale && header) {
    // Of another life: nothing has happened there, and what may have happened before is not known.
    const bool is_other = header->service != call.header.service;
    if (!is_other) call.may_have_happened = true;
    if (!is_other || call.may_have_happened || header->service == 0) return tried.status;
    call.header.service = header->service;
    return std::nullopt;
  }
  const bool may_happen = code == Code::peer_gone || code == Code::timed_out ||
                          code == Code::closed || code == Code::may_have_happened ||
                          code == Code::cancelled;
  call.may_have_happened |= may_happen;
  const bool is_passing = code == Code::busy || code == Code::peer_gone || code == Code::timed_out;
  if (is_passing && pause(call)) return std::nullopt;
  return tried.status;
}

bool Calls::pause(Call& call) {
  std::unique_lock lock(mutex_);
  const engine::Duration most = call.pause;
  call.pause = std::min(call.pause * 2, limits::kPauseMost);
  // Many that were turned away at once come back one after the other.
  const engine::Duration time =
      most / 2 + engine::Duration(random_.below(static_cast<uint64_t>(most.count() / 2)));
  if (now() + time >= deadline_of(call)) return false;
  never_.wait_for(lock, time, [] { return false; });
  return true;
}

}  // namespace penstock::meta_net
