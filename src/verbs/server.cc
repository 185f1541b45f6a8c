#include "server.h"

#include "loop_net.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace penstock::verbs::internal {

using engine::Access;
using engine::Op;
using engine::TransferOp;

namespace {

// In TransferOp::transport.
struct Progress {
  uint64_t posted = 0;  // bytes
  Registrations::Entry* pin = nullptr;
  uint32_t flying = 0;  // pieces
  Access access = Access::place;
};
static_assert(sizeof(Progress) <= sizeof TransferOp::transport && alignof(Progress) <= 8);

Progress& progress(TransferOp& op) {
  return *std::launder(reinterpret_cast<Progress*>(op.transport.data()));
}

}  // namespace

ServerLink::ServerLink(LoopNet& net, uint32_t id, uint32_t service_number, engine::Service& service,
                       engine::Peer peer)
    : Link(net, id, peer.node), service_number_(service_number), service_(&service), peer_(peer) {}

ServerLink::~ServerLink() {
  ASSERT(serving_.empty() && responses_.empty() && moving_.empty() && flying_.empty());
}

void ServerLink::handle(const Message& message) {
  if (message.header.kind == MessageKind::request) return on_request(message);
  if (message.header.kind == MessageKind::abandon) return on_abandon(message.header.call);
  doom(Code::bad_message, "it sent what only servers send");
}

void ServerLink::on_request(const Message& message) {
  if (in_progress_ == net_.config.calls_max) {
    return doom(Code::bad_message, "it has more calls in progress than it may");
  }
  ++in_progress_;
  Incoming* const incoming = service_ == nullptr ? nullptr : net_.pool.take();
  if (incoming == nullptr) {
    refusing_.push_back({message.header.call, service_ == nullptr ? Code::peer_gone : Code::busy});
    return;
  }
  incoming->loop_ = &net_.loop;
  incoming->link_ = this;
  incoming->peer_ = peer_;
  incoming->number_ = message.header.call;
  incoming->spans_ = message.spans;
  incoming->method = message.header.method;
  incoming->exposure_count = message.header.exposures;
  if (!message.bytes.empty()) {
    std::memcpy(incoming->message_.data(), message.bytes.data(), message.bytes.size());
  }
  incoming->request = Bytes(incoming->message_).first(message.bytes.size());
  serving_.push_back(*incoming);
  if (incoming->method == kTrialMethod) return net_.trials.on_call(*incoming);
  service_->on_call(*incoming);
}

void ServerLink::on_abandon(uint64_t number) {
  Incoming* incoming = serving_.first();
  while (incoming != nullptr && incoming->number_ != number) incoming = serving_.next(*incoming);
  // Its response is on its way.
  if (incoming == nullptr || incoming->abandoned_) return;
  incoming->abandoned_ = true;
  IntrusiveList<TransferOp> stopped;
  for (IntrusiveList<TransferOp>* const list : {&moving_, &flying_}) {
    TransferOp* next = nullptr;
    for (TransferOp* op = list->first(); op != nullptr; op = next) {
      next = list->next(*op);
      if (op->call != incoming) continue;
      if (progress(*op).flying == 0) {
        end_transfer(*op, Code::peer_gone);
      } else {
        op->unlink();
        stopped.push_back(*op);
      }
    }
  }
  flying_.take_all(stopped);
  if (incoming->transfers_ == 0) releases_.push_back(number);
}

void ServerLink::transfer(Incoming& incoming, TransferOp& op, Access access) {
  const Result<Registrations::Entry*> pin =
      net_.registrations.take(op.local, access == Access::fetch);
  if (!pin) {
    // By TCP it may go: so whoever called is to find this connection gone.
    doom(pin.error(), "memory for a transfer could not be registered");
    return net_.loop.complete(op, Code::peer_gone);
  }
  new (op.transport.data()) Progress{.pin = *pin, .access = access};
  ++incoming.transfers_;
  moving_.push_back(op);
  mark();
}

void ServerLink::end_transfer(TransferOp& op, Status status) {
  Progress& at = progress(op);
  ASSERT(at.flying == 0);
  net_.registrations.give_back(*std::exchange(at.pin, nullptr));
  auto& incoming = static_cast<Incoming&>(*op.call);
  ASSERT(incoming.transfers_ > 0);
  --incoming.transfers_;
  op.unlink();
  net_.loop.complete(op, status);
}

void ServerLink::answered(Incoming& incoming) {
  incoming.unlink();
  responses_.push_back(incoming);
  mark();
}

void ServerLink::fill() {
  fill_responses();
  if (!doomed()) fill_pieces();
}

// What is released is told before it is answered.
void ServerLink::fill_responses() {
  while (!doomed() && can_send()) {
    if (!releases_.empty()) {
      send({.header = {.kind = MessageKind::released, .call = releases_.back()}});
      releases_.pop_back();
    } else if (!refusing_.empty()) {
      send({.header = {.kind = MessageKind::response,
                       .method = static_cast<uint16_t>(refusing_.back().code),
                       .call = refusing_.back().call}});
      refusing_.pop_back();
      --in_progress_;
    } else if (Incoming* const incoming = responses_.pop_front()) {
      Message message;
      message.header = {.kind = MessageKind::response,
                        .method = static_cast<uint16_t>(incoming->status_.code()),
                        .call = incoming->number_,
                        .detail = incoming->status_.detail()};
      message.bytes = Bytes(incoming->message_).first(incoming->response_bytes_);
      send(message);
      net_.pool.give_back(*incoming);
      --in_progress_;
    } else {
      return;
    }
  }
}

// A piece of each in turn, so that a small transfer does not wait for the whole of a large one. One
// work request is left for messages.
void ServerLink::fill_pieces() {
  while (!moving_.empty() && !doomed() && can_post(2) && flying_bytes_ < limits::kFlyingBytesMax) {
    post_piece(moving_.front());
  }
}

void ServerLink::post_piece(TransferOp& op) {
  Progress& at = progress(op);
  const auto length = static_cast<uint32_t>(
      std::min<uint64_t>(op.local.length - at.posted, limits::kPieceBytesMax));
  const Span& span = static_cast<Incoming&>(*op.call).spans_[op.exposure];
  const WorkRequest piece{.verb = at.access == Access::place ? Verb::write : Verb::read,
                          .local = op.local.sub(at.posted, length).bytes(),
                          .memory = at.pin->memory,
                          .remote_address = span.address + op.exposure_offset + at.posted,
                          .key = span.key};
  at.posted += length;
  ++at.flying;
  flying_bytes_ += length;
  op.unlink();
  const bool more = at.posted < op.local.length && at.flying < limits::kPiecesMax;
  (more ? moving_ : flying_).push_back(op);
  post(piece, {.kind = Work::Kind::piece, .owner = &op, .detail = length});
}

void ServerLink::on_work(const Work& work) {
  if (work.kind != Work::Kind::piece) return;
  auto& op = static_cast<TransferOp&>(*work.owner);
  Progress& at = progress(op);
  ASSERT(at.flying > 0 && flying_bytes_ >= work.detail);
  --at.flying;
  flying_bytes_ -= work.detail;
  auto& incoming = static_cast<Incoming&>(*op.call);
  if (at.posted < op.local.length && !incoming.abandoned_) {
    // Perhaps it waited for this.
    op.unlink();
    return moving_.push_back(op);
  }
  if (at.flying != 0) return;
  const bool abandoned = incoming.abandoned_;
  end_transfer(op, at.posted == op.local.length ? Code::ok : Code::peer_gone);
  if (abandoned && incoming.transfers_ == 0) releases_.push_back(incoming.number_);
}

void ServerLink::on_end(Status) {
  for (IntrusiveList<TransferOp>* const list : {&moving_, &flying_}) {
    while (!list->empty()) {
      progress(list->front()).flying = 0;
      end_transfer(list->front(), Code::peer_gone);
    }
  }
  while (Incoming* const incoming = responses_.pop_front()) net_.pool.give_back(*incoming);
  // The others the service still replies to.
  while (Incoming* const incoming = serving_.pop_front()) incoming->link_ = nullptr;
}

}  // namespace penstock::verbs::internal
