#include "server_side.h"

#include "incoming.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace penstock::tcp {

using engine::Access;
using engine::Op;
using engine::TransferOp;

namespace {

// In TransferOp::transport.
struct Progress {
  uint64_t done = 0;      // bytes that were put into batches, or that came
  uint32_t asked = 0;     // of a fetch: bytes of the want under way
  uint32_t received = 0;  // of these
  uint32_t want = 0;      // its number; 0: none
  bool flying = false;    // the batch under way has a piece of it
};
static_assert(sizeof(Progress) <= sizeof TransferOp::transport && alignof(Progress) <= 8);

Progress& progress(TransferOp& op) {
  return *std::launder(reinterpret_cast<Progress*>(op.transport.data()));
}

Incoming& incoming_of(const TransferOp& op) {
  return static_cast<Incoming&>(*op.call);
}

// One want. The largest transfer of a service is far below.
uint32_t want_bytes(const TransferOp& op, uint64_t done) {
  return static_cast<uint32_t>(std::min<uint64_t>(op.local.length - done, limits::kSpanBytesMax));
}

}  // namespace

ServerSide::ServerSide(engine::Loop& loop, Pipe& pipe, Watcher& watcher, IncomingPool& pool,
                       engine::Service& service, engine::Peer peer, const Welcome& welcome)
    : loop_(loop),
      pipe_(pipe),
      watcher_(watcher),
      pool_(pool),
      service_(&service),
      peer_(peer),
      welcome_(welcome) {}

ServerSide::~ServerSide() {
  ASSERT(serving_.empty() && responses_.empty() && slots_ == 0);
  ASSERT(placing_.empty() && sent_.empty() && wanting_.empty() && fetching_.empty());
}

void ServerSide::withdraw() {
  service_ = nullptr;
  leave_if_done();
}

void ServerSide::leave_if_done() {
  if (service_ == nullptr && in_progress_ == 0 && !over_) pipe_.finish();
}

Result<MutableBytes> ServerSide::on_frame(const Header& header, Bytes message) {
  if (over_) return Code::closed;
  switch (header.kind) {
    case FrameKind::request:
      return on_request(header, message);
    case FrameKind::data:
      return on_data(header);
    case FrameKind::abandon:
      TRY(on_abandon(header.call));
      return MutableBytes();
    case FrameKind::ping:
      pong_ = true;
      pong_number_ = header.call;
      pipe_.send_soon();
      return MutableBytes();
    case FrameKind::pong:
      return MutableBytes();
    case FrameKind::goodbye:
      pipe_.fail(Code::peer_gone, "");
      return Code::closed;
    default:
      return Code::bad_message;
  }
}

Result<MutableBytes> ServerSide::on_request(const Header& header, Bytes message) {
  TRY_ASSIGN(const Request request, decode_request(header, message));
  if (in_progress_ == welcome_.calls_max) return Code::bad_message;
  ++in_progress_;
  Incoming* const incoming = service_ == nullptr ? nullptr : pool_.take(slots_);
  if (incoming == nullptr) {
    refuse(header.call, service_ == nullptr ? Code::peer_gone : Code::busy);
    return MutableBytes();
  }
  ++slots_;
  incoming->loop_ = &loop_;
  incoming->side_ = this;
  incoming->peer_ = peer_;
  incoming->number_ = header.call;
  incoming->spans_ = request.spans;
  incoming->method = header.method;
  incoming->exposure_count = request.span_count;
  ASSERT(request.bytes.size() <= incoming->message_.size());
  if (!request.bytes.empty()) {
    std::memcpy(incoming->message_.data(), request.bytes.data(), request.bytes.size());
  }
  incoming->request = Bytes(incoming->message_).first(request.bytes.size());
  serving_.push_back(*incoming);
  if (header.payload_bytes != 0) {
    incoming->inline_ = pool_.take_inline();
    arriving_ = incoming;
    if (incoming->inline_ == nullptr) return MutableBytes();
    return MutableBytes(incoming->inline_->bytes).first(header.payload_bytes);
  }
  deliver(*incoming);
  return MutableBytes();
}

void ServerSide::deliver(Incoming& incoming) {
  if (incoming.inline_ == nullptr) {
    // What came along and could not be kept is asked for where it is needed.
    for (Span& span : incoming.spans_) span.is_inline = false;
  }
  if (service_ == nullptr) {
    incoming.reply(Code::peer_gone, {});
  } else {
    service_->on_call(incoming);
  }
}

void ServerSide::refuse(uint64_t number, Code code) {
  refusing_.push_back({number, code});
  pipe_.send_soon();
}

Status ServerSide::on_payload(const Header& header) {
  if (header.kind == FrameKind::request) {
    Incoming* const incoming = std::exchange(arriving_, nullptr);
    if (incoming != nullptr) deliver(*incoming);
    return Code::ok;
  }
  TransferOp* const op = std::exchange(receiving_, nullptr);
  if (op == nullptr) return Code::ok;
  Progress& at = progress(*op);
  at.received += header.payload_bytes;
  if (at.received != at.asked) return Code::ok;
  at.done += at.asked;
  ASSERT(at.done <= op->local.length);
  free_wants_.push_back(at.want);
  wants_[at.want - 1] = nullptr;
  at.want = 0;
  if (!wanting_.empty()) pipe_.send_soon();
  if (at.done == op->local.length) {
    end_transfer(*op, Code::ok);
  } else {
    op->unlink();
    wanting_.push_back(*op);
    pipe_.send_soon();
  }
  return Code::ok;
}

Result<MutableBytes> ServerSide::on_data(const Header& header) {
  if (header.transfer == 0 || header.transfer > wants_.size()) return Code::bad_message;
  TransferOp* const op = wants_[header.transfer - 1];
  if (op == nullptr) return Code::bad_message;
  const Progress& at = progress(*op);
  // The caller sends what it was asked for in order.
  if (header.call != incoming_of(*op).number_ || header.exposure != op->exposure ||
      header.offset != op->exposure_offset + at.done + at.received ||
      header.payload_bytes > at.asked - at.received) {
    return Code::bad_message;
  }
  receiving_ = op;
  return op->local.sub(at.done + at.received, header.payload_bytes).bytes();
}

Status ServerSide::on_abandon(uint64_t number) {
  for (Incoming* one = serving_.first(); one != nullptr; one = serving_.next(*one)) {
    if (one->number_ != number) continue;
    one->abandoned_ = true;
    end_transfers(*one);
    break;
  }
  return Code::ok;
}

// All but those whose bytes are in the batch under way: these end with it.
void ServerSide::end_transfers(Incoming& incoming) {
  for (IntrusiveList<TransferOp>* const list : {&placing_, &wanting_, &fetching_}) {
    TransferOp* next = nullptr;
    for (TransferOp* op = list->first(); op != nullptr; op = next) {
      next = list->next(*op);
      if (&incoming_of(*op) != &incoming) continue;
      Progress& at = progress(*op);
      if (at.flying) continue;
      if (at.want != 0) {
        free_wants_.push_back(at.want);
        wants_[at.want - 1] = nullptr;
        at.want = 0;
      }
      end_transfer(*op, Code::peer_gone);
    }
  }
}

void ServerSide::end_transfer(TransferOp& op, Status status) {
  Incoming& incoming = incoming_of(op);
  ASSERT(incoming.transfers_ > 0);
  --incoming.transfers_;
  if (op.linked()) op.unlink();
  loop_.complete(op, status);
}

void ServerSide::transfer(Incoming& incoming, TransferOp& op, Access access) {
  ASSERT(incoming.side_ == this && !over_);
  new (op.transport.data()) Progress;
  if (access == Access::place) {
    if (copy_now(incoming, op)) return loop_.complete(op, Code::ok);
    placing_.push_back(op);
  } else {
    wanting_.push_back(op);
  }
  ++incoming.transfers_;
  pipe_.send_soon();
}

// So a small place has ended before the reply comes, which then goes out with it.
bool ServerSide::copy_now(const Incoming& incoming, TransferOp& op) {
  if (!welcomed_ || op.local.length > limits::kCopyBytesMax) return false;
  Batch* const batch = pipe_.batch();
  if (batch == nullptr || !batch->has_room(limits::kHeaderBytes + op.local.length)) return false;
  batch->append({.kind = FrameKind::data,
                 .call = incoming.number_,
                 .payload_bytes = static_cast<uint32_t>(op.local.length),
                 .offset = op.exposure_offset,
                 .exposure = static_cast<uint8_t>(op.exposure)});
  std::memcpy(batch->append(op.local.length), op.local.data, op.local.length);
  pipe_.send_soon();
  return true;
}

void ServerSide::answered(Incoming& incoming) {
  ASSERT(!over_ && incoming.side_ == this && incoming.linked());
  incoming.unlink();
  responses_.push_back(incoming);
  pipe_.send_soon();
}

bool ServerSide::has_to_send() const {
  return !welcomed_ || ping_ || pong_ || !responses_.empty() || !refusing_.empty() ||
         !placing_.empty() ||
         (!wanting_.empty() && (!free_wants_.empty() || wants_.size() < limits::kWantsMax));
}

void ServerSide::fill(Batch& batch) {
  if (!welcomed_) {
    std::array<std::byte, limits::kMessageBytesMax> message;
    const uint32_t length = encode_welcome(welcome_, message);
    ASSERT(batch.has_room(limits::kHeaderBytes + length));
    batch.append({.version = 0, .kind = FrameKind::welcome, .message_bytes = length},
                 Bytes(message).first(length));
    welcomed_ = true;
  }
  fill_control(batch);
  fill_responses(batch);
  fill_wants(batch);
  fill_places(batch);
  leave_if_done();
}

void ServerSide::fill_control(Batch& batch) {
  const auto put = [&](const Header& header) {
    if (!batch.has_room(limits::kHeaderBytes)) return false;
    batch.append(header);
    return true;
  };
  if (pong_) pong_ = !put({.kind = FrameKind::pong, .call = pong_number_});
  if (ping_) ping_ = !put({.kind = FrameKind::ping});
  while (!refusing_.empty()) {
    const Refusing& last = refusing_.back();
    if (!put({.kind = FrameKind::response,
              .method = static_cast<uint16_t>(last.code),
              .call = last.call})) {
      return;
    }
    refusing_.pop_back();
    ASSERT(in_progress_ > 0);
    --in_progress_;
  }
}

void ServerSide::fill_responses(Batch& batch) {
  while (!responses_.empty()) {
    Incoming& incoming = responses_.front();
    if (!batch.has_room(limits::kHeaderBytes + incoming.response_bytes_)) return;
    batch.append({.kind = FrameKind::response,
                  .method = static_cast<uint16_t>(incoming.status_.code()),
                  .call = incoming.number_,
                  .message_bytes = incoming.response_bytes_,
                  .length = incoming.status_.detail()},
                 Bytes(incoming.message_).first(incoming.response_bytes_));
    incoming.unlink();
    ASSERT(in_progress_ > 0 && slots_ > 0);
    --in_progress_;
    --slots_;
    pool_.give_back(incoming);
  }
}

void ServerSide::fill_wants(Batch& batch) {
  while (!wanting_.empty() && batch.has_room(limits::kHeaderBytes)) {
    uint32_t number = 0;
    if (!free_wants_.empty()) {
      number = free_wants_.back();
      free_wants_.pop_back();
    } else if (wants_.size() < limits::kWantsMax) {
      wants_.push_back(nullptr);
      number = static_cast<uint32_t>(wants_.size());
    } else {
      return;
    }
    TransferOp& op = wanting_.front();
    Progress& at = progress(op);
    ASSERT(wants_[number - 1] == nullptr && at.want == 0);
    wants_[number - 1] = &op;
    at.want = number;
    at.asked = want_bytes(op, at.done);
    at.received = 0;
    batch.append({.kind = FrameKind::want,
                  .call = incoming_of(op).number_,
                  .offset = op.exposure_offset + at.done,
                  .length = at.asked,
                  .transfer = number,
                  .exposure = static_cast<uint8_t>(op.exposure)});
    op.unlink();
    fetching_.push_back(op);
  }
}

// Who got a frame and has more goes behind all others, so that a small transfer does not wait for
// the whole of a large one.
void ServerSide::fill_places(Batch& batch) {
  while (!placing_.empty()) {
    TransferOp& op = placing_.front();
    if (progress(op).flying || !fill_place(batch, op)) return;
  }
}

bool ServerSide::fill_place(Batch& batch, TransferOp& op) {
  Progress& at = progress(op);
  const auto length =
      static_cast<uint32_t>(std::min<uint64_t>(op.local.length - at.done, limits::kDataBytesMax));
  const bool copy = length <= limits::kCopyBytesMax;
  if (!batch.has_room(limits::kHeaderBytes + (copy ? length : 0), copy ? 0 : length)) return false;
  batch.append({.kind = FrameKind::data,
                .call = incoming_of(op).number_,
                .payload_bytes = length,
                .offset = op.exposure_offset + at.done,
                .exposure = static_cast<uint8_t>(op.exposure)});
  const Bytes bytes = op.local.sub(at.done, length).bytes();
  at.done += length;
  if (copy) {
    std::memcpy(batch.append(length), bytes.data(), length);
    if (at.done == op.local.length) end_transfer(op, Code::ok);
    return true;
  }
  batch.append_payload(bytes, op);
  at.flying = true;
  op.unlink();
  (at.done == op.local.length ? sent_ : placing_).push_back(op);
  return true;
}

void ServerSide::on_sent(Op& owner) {
  auto& op = static_cast<TransferOp&>(owner);
  Progress& at = progress(op);
  ASSERT(at.flying);
  at.flying = false;
  if (at.done == op.local.length) {
    end_transfer(op, Code::ok);
  } else if (incoming_of(op).abandoned_) {
    end_transfer(op, Code::peer_gone);
  }
}

// A transfer is not let go before its end.
void ServerSide::on_released(Op&) {
  ASSERT(false);
}

void ServerSide::on_diverted() {
  ASSERT(false);
}

void ServerSide::ping() {
  ping_ = true;
  pipe_.send_soon();
}

void ServerSide::on_idle() {
  if (!is_busy()) pipe_.finish();
}

void ServerSide::on_end(Status) {
  over_ = true;
  receiving_ = nullptr;
  // The service never heard of a request whose bytes have not come whole.
  if (arriving_ != nullptr) {
    arriving_->unlink();
    responses_.push_back(*std::exchange(arriving_, nullptr));
  }
  for (IntrusiveList<TransferOp>* const list : {&placing_, &sent_, &wanting_, &fetching_}) {
    while (!list->empty()) end_transfer(list->front(), Code::peer_gone);
  }
  while (!responses_.empty()) {
    Incoming& incoming = responses_.front();
    incoming.unlink();
    pool_.give_back(incoming);
    --slots_;
  }
  // The others the service still replies to.
  while (!serving_.empty()) {
    Incoming& incoming = serving_.front();
    incoming.unlink();
    incoming.side_ = nullptr;
    --slots_;
  }
  wants_.clear();
  free_wants_.clear();
  refusing_.clear();
  in_progress_ = 0;
  watcher_.on_server_end();
}

}  // namespace penstock::tcp
