#include "caller_side.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace penstock::tcp {

using engine::Access;
using engine::CallOp;
using engine::Op;

namespace {

// A call's number: which use of which slot.
constexpr int kSlotBits = 10;
constexpr uint64_t kSlotMask = (uint64_t{1} << kSlotBits) - 1;
static_assert(limits::kCallsMax <= kSlotMask + 1);

}  // namespace

struct CallerSide::Call {
  CallerSide* side = nullptr;  // null once it has ended
  engine::Timer deadline;
  uint64_t number = 0;     // 0: not sent
  uint32_t sending = 0;    // pieces of its memory in the batch under way
  bool releasing = false;  // it ended, and waits for those
  bool ending = false;
  Status end;
};

CallerSide::Call& CallerSide::state(CallOp& op) {
  static_assert(sizeof(Call) <= sizeof op.transport && alignof(Call) <= 64);
  return *std::launder(reinterpret_cast<Call*>(op.transport.data()));
}

CallerSide* CallerSide::side_of(CallOp& op) {
  const Call& call = state(op);
  return call.ending ? nullptr : call.side;
}

void CallerSide::mark_refused(CallOp& op) {
  new (op.transport.data()) Call;
}

CallerSide::~CallerSide() {
  ASSERT(calls_ == 0 && unsent_.empty() && waiting_.empty());
}

void CallerSide::call(CallOp& op) {
  ASSERT(takes_calls());
  auto& call = *new (op.transport.data()) Call;
  call.side = this;
  unsent_.push_back(op);
  ++calls_;
  if (op.deadline != engine::kNever) {
    call.deadline.owner = &op;
    call.deadline.completion = [](Op& due) {
      auto& late = due.owner_as<CallOp>();
      state(late).side->give_up(late, Code::timed_out);
    };
    loop_.start(call.deadline, op.deadline);
  }
  if (stage_ == Stage::ready) pipe_.send_soon();
}

void CallerSide::cancel(CallOp& op) {
  // What has been sent the service may act upon: it ends as it would without this.
  if (state(op).number == 0) give_up(op, Code::cancelled);
}

// Ends a call ahead of its response.
void CallerSide::give_up(CallOp& op, Status status) {
  Call& call = state(op);
  ASSERT(call.side == this && !call.ending);
  if (call.number != 0) {
    Slot* const slot = find(call.number);
    ASSERT(slot != nullptr && slot->op == &op);
    slot->op = nullptr;
    abandons_.push_back(call.number);
    pipe_.send_soon();
  }
  end(op, status);
}

void CallerSide::end(CallOp& op, Status status) {
  Call& call = state(op);
  ASSERT(!call.ending);
  call.ending = true;
  call.end = status;
  (void)loop_.cancel(call.deadline);
  if (receiving_ == &op) {
    receiving_ = nullptr;
    if (!pipe_.divert()) diverting_ = &op;
  }
  if (call.sending != 0) {
    call.releasing = !pipe_.release(op);
    if (!call.releasing) call.sending = 0;
  }
  settle(op);
}

void CallerSide::settle(CallOp& op) {
  Call& call = state(op);
  if (call.releasing || diverting_ == &op) return;
  ASSERT(call.ending && receiving_ != &op && calls_ > 0);
  op.unlink();
  --calls_;
  call.side = nullptr;
  loop_.complete(op, call.end);
}

CallerSide::Slot* CallerSide::find(uint64_t number) {
  const uint64_t index = number & kSlotMask;
  if (number == 0 || index >= slots_.size() || slots_[index].number != number) return nullptr;
  return &slots_[index];
}

Result<MutableBytes> CallerSide::on_frame(const Header& header, Bytes message) {
  if (stage_ == Stage::leaving || stage_ == Stage::over) return Code::closed;
  if (stage_ != Stage::ready) {
    TRY(greet(header, message));
    return MutableBytes();
  }
  switch (header.kind) {
    case FrameKind::data:
      return on_data(header);
    case FrameKind::want:
      TRY(on_want(header));
      return MutableBytes();
    case FrameKind::response:
      TRY(on_response(header, message));
      return MutableBytes();
    case FrameKind::ping:
      pong_ = true;
      pong_number_ = header.call;
      pipe_.send_soon();
      return MutableBytes();
    case FrameKind::pong:
      return MutableBytes();
    case FrameKind::goodbye:
      stage_ = Stage::leaving;
      pipe_.fail(Code::peer_gone, "");
      return Code::closed;
    default:
      return Code::bad_message;
  }
}

Status CallerSide::greet(const Header& header, Bytes message) {
  if (stage_ != Stage::greeted) return Code::bad_message;
  if (header.kind == FrameKind::refusal) {
    TRY_ASSIGN(const Refused refused, decode_refused(message));
    stage_ = Stage::leaving;
    watcher_.on_refusal(refused);
    const bool is_passing = refused.reason == Refusal::no_service;
    pipe_.fail(refused.reason == Refusal::too_many ? Code::busy
               : is_passing                        ? Code::peer_gone
                                                   : Code::access_denied,
               "");
    return Code::closed;
  }
  if (header.kind != FrameKind::welcome) return Code::bad_message;
  TRY_ASSIGN(const Welcome welcome, decode_welcome(message));
  TRY(check_welcome(hello_, welcome));
  calls_max_ = welcome.calls_max;
  stage_ = Stage::ready;
  watcher_.on_welcome(welcome);
  pipe_.send_soon();
  return Code::ok;
}

Result<MutableBytes> CallerSide::on_data(const Header& header) {
  const Slot* const slot = find(header.call);
  if (slot == nullptr || header.transfer != 0) return Code::bad_message;
  if (slot->op == nullptr) return MutableBytes();
  CallOp& op = *slot->op;
  if (header.exposure >= op.exposure_count) return Code::bad_message;
  const engine::Exposure& exposure = op.exposures[header.exposure];
  if (exposure.access != Access::place ||
      !range_within(header.offset, header.payload_bytes, exposure.memory.length)) {
    return Code::bad_message;
  }
  ASSERT(receiving_ == nullptr && diverting_ == nullptr);
  receiving_ = &op;
  return exposure.memory.sub(header.offset, header.payload_bytes).bytes();
}

Status CallerSide::on_payload(const Header&) {
  receiving_ = nullptr;
  return Code::ok;
}

Status CallerSide::on_want(const Header& header) {
  const Slot* const slot = find(header.call);
  if (slot == nullptr) return Code::bad_message;
  if (slot->op == nullptr) return Code::ok;
  CallOp& op = *slot->op;
  if (header.exposure >= op.exposure_count) return Code::bad_message;
  const engine::Exposure& exposure = op.exposures[header.exposure];
  if (exposure.access != Access::fetch ||
      !range_within(header.offset, header.length, exposure.memory.length) ||
      wants_.size() >= limits::kWantsMax) {
    return Code::bad_message;
  }
  wants_.push_back({header.call, header.offset, header.length, header.transfer, header.exposure});
  pipe_.send_soon();
  return Code::ok;
}

Status CallerSide::on_response(const Header& header, Bytes message) {
  Slot* const slot = find(header.call);
  if (slot == nullptr) return Code::bad_message;
  CallOp* const op = slot->op;
  free_slots_.push_back(static_cast<uint32_t>(slot - slots_.data()));
  *slot = {};
  --used_slots_;
  if (!unsent_.empty()) pipe_.send_soon();
  if (op == nullptr) return Code::ok;
  if (message.size() > op->response.size()) {
    end(*op, Code::bad_message);
    return Code::ok;
  }
  if (!message.empty()) std::memcpy(op->response.data(), message.data(), message.size());
  op->response_length = static_cast<uint32_t>(message.size());
  end(*op, Status(static_cast<Code>(header.method), header.length));
  return Code::ok;
}

bool CallerSide::may_request() const {
  return !unsent_.empty() && used_slots_ < calls_max_;
}

bool CallerSide::has_to_send() const {
  if (stage_ == Stage::connected) return true;
  if (stage_ != Stage::ready) return false;
  return ping_ || pong_ || !abandons_.empty() || !wants_.empty() || may_request();
}

void CallerSide::fill(Batch& batch) {
  if (stage_ == Stage::connected) {
    std::array<std::byte, limits::kMessageBytesMax> message;
    const uint32_t length = encode_hello(hello_, message);
    batch.append({.version = 0, .kind = FrameKind::hello, .message_bytes = length},
                 Bytes(message).first(length));
    stage_ = Stage::greeted;
  }
  if (stage_ != Stage::ready) return;
  fill_control(batch);
  fill_wants(batch);
  while (may_request() && fill_request(batch, unsent_.front())) {
  }
}

void CallerSide::fill_control(Batch& batch) {
  const auto put = [&](const Header& header) {
    if (!batch.has_room(limits::kHeaderBytes)) return false;
    batch.append(header);
    return true;
  };
  if (pong_) pong_ = !put({.kind = FrameKind::pong, .call = pong_number_});
  if (ping_) ping_ = !put({.kind = FrameKind::ping});
  while (!abandons_.empty() && put({.kind = FrameKind::abandon, .call = abandons_.back()})) {
    abandons_.pop_back();
  }
}

// A frame of each in turn: what has had one goes behind what has not, so that a small want does not
// wait for the whole of a large one.
void CallerSide::fill_wants(Batch& batch) {
  size_t seen = 0;
  size_t kept = 0;  // of those, that have more to be sent
  for (; seen < wants_.size(); ++seen) {
    Want want = wants_[seen];
    const Slot* const slot = find(want.call);
    if (slot == nullptr || slot->op == nullptr) continue;
    if (!fill_want(batch, want, *slot->op)) break;
    if (want.left != 0) wants_[kept++] = want;
  }
  const auto at = [this](size_t index) {
    return wants_.begin() + static_cast<std::ptrdiff_t>(index);
  };
  wants_.erase(at(kept), at(seen));
  std::rotate(wants_.begin(), at(kept), wants_.end());
}

bool CallerSide::fill_want(Batch& batch, Want& want, CallOp& op) {
  const uint32_t length = std::min(want.left, limits::kDataBytesMax);
  const bool copy = length <= limits::kCopyBytesMax;
  if (!batch.has_room(limits::kHeaderBytes + (copy ? length : 0), copy ? 0 : length)) return false;
  batch.append({.kind = FrameKind::data,
                .call = want.call,
                .payload_bytes = length,
                .offset = want.offset,
                .transfer = want.transfer,
                .exposure = want.exposure});
  const Bytes bytes = op.exposures[want.exposure].memory.sub(want.offset, length).bytes();
  if (copy) {
    std::memcpy(batch.append(length), bytes.data(), length);
  } else {
    batch.append_payload(bytes, op);
    ++state(op).sending;
  }
  want.offset += length;
  want.left -= length;
  return true;
}

bool CallerSide::fill_request(Batch& batch, CallOp& op) {
  Request request;
  request.bytes = op.request;
  request.span_count = op.exposure_count;
  uint32_t offered = 0;
  for (uint32_t i = 0; i < op.exposure_count; ++i) {
    const engine::Exposure& exposure = op.exposures[i];
    const bool is_inline = exposure.access == Access::fetch &&
                           exposure.memory.length <= limits::kInlineBytesMax - offered;
    request.spans[i] = {exposure.memory.length, exposure.access, is_inline};
    if (is_inline) offered += static_cast<uint32_t>(exposure.memory.length);
  }
  std::array<std::byte, limits::kMessageBytesMax> message;
  const uint32_t length = encode_request(request, message);
  if (!batch.has_room(limits::kHeaderBytes + length + offered)) return false;

  uint32_t index = 0;
  if (free_slots_.empty()) {
    index = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    index = free_slots_.back();
    free_slots_.pop_back();
  }
  ASSERT(index < calls_max_ && slots_[index].number == 0);
  slots_[index] = {&op, ++count_ << kSlotBits | index};
  ++used_slots_;
  Call& call = state(op);
  call.number = slots_[index].number;
  op.unlink();
  waiting_.push_back(op);

  uint64_t left = 0;
  if (op.deadline != engine::kNever) {
    const auto until =
        std::chrono::duration_cast<std::chrono::microseconds>(op.deadline - loop_.now());
    left = static_cast<uint64_t>(std::max<int64_t>(1, until.count()));
  }
  batch.append({.kind = FrameKind::request,
                .method = op.method,
                .call = call.number,
                .message_bytes = length,
                .payload_bytes = offered,
                .offset = left,
                .exposure = static_cast<uint8_t>(op.exposure_count)},
               Bytes(message).first(length));
  for (uint32_t i = 0; i < op.exposure_count; ++i) {
    const engine::MemoryRef& memory = op.exposures[i].memory;
    if (!request.spans[i].is_inline || memory.length == 0) continue;
    std::memcpy(batch.append(memory.length), memory.data, memory.length);
  }
  return true;
}

void CallerSide::on_sent(Op& owner) {
  auto& op = static_cast<CallOp&>(owner);
  Call& call = state(op);
  ASSERT(call.sending > 0);
  if (--call.sending != 0 || !call.releasing) return;
  call.releasing = false;
  settle(op);
}

void CallerSide::on_released(Op& owner) {
  auto& op = static_cast<CallOp&>(owner);
  Call& call = state(op);
  ASSERT(call.releasing);
  call.sending = 0;
  call.releasing = false;
  settle(op);
}

void CallerSide::on_diverted() {
  ASSERT(diverting_ != nullptr);
  settle(*std::exchange(diverting_, nullptr));
}

void CallerSide::ping() {
  ping_ = true;
  pipe_.send_soon();
}

void CallerSide::on_idle() {
  if (stage_ != Stage::ready || is_busy()) return;
  stage_ = Stage::leaving;
  pipe_.fail(Code::peer_gone, "");
}

void CallerSide::on_end(Status status) {
  stage_ = Stage::over;
  receiving_ = diverting_ = nullptr;
  const Status of_calls = watcher_.status_of_calls(status);
  for (IntrusiveList<CallOp>* const list : {&waiting_, &unsent_}) {
    while (!list->empty()) {
      CallOp& op = list->front();
      Call& call = state(op);
      call.sending = 0;
      call.releasing = false;
      if (call.ending) {
        settle(op);
      } else {
        end(op, of_calls);
      }
    }
  }
  slots_.clear();
  free_slots_.clear();
  used_slots_ = 0;
  wants_.clear();
  abandons_.clear();
  ASSERT(calls_ == 0);
  watcher_.on_caller_end(status);
}

}  // namespace penstock::tcp
