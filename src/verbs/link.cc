#include "link.h"

#include "loop_net.h"

namespace penstock::verbs::internal {

Link::Link(LoopNet& net, uint32_t id, NodeId other) : net_(net), id_(id), other_(other) {
  for (uint32_t i = 0; i < limits::kWorkMax; ++i) free_[i] = static_cast<uint8_t>(i);
}

Link::~Link() {
  ASSERT(!opened_ || over_);
  if (linked()) unlink();
}

Result<Offer> Link::open(uint32_t calls) {
  constexpr size_t kBytes = size_t{limits::kWorkMax} * limits::kMessageBytesMax;
  ASSERT(!opened_);
  buffers_ = std::make_unique<std::byte[]>(kBytes);
  TRY_ASSIGN(buffers_memory_, net_.provider.register_memory({buffers_.get(), kBytes}, true));
  const Result<QueuePairId> pair = net_.provider.create_queue_pair();
  if (!pair) {
    net_.provider.deregister_memory(buffers_memory_);
    return pair.error();
  }
  pair_ = *pair;
  opened_ = true;
  heard_ = net_.loop.now();
  return Offer{net_.provider.endpoint(pair_), limits::kCredits, calls};
}

Status Link::join(const Offer& theirs) {
  ASSERT(opened_ && !joined_ && !over_);
  TRY(net_.provider.connect(pair_, theirs.endpoint));
  theirs_ = theirs;
  joined_ = true;
  heard_ = joined_at_ = net_.loop.now();
  mark();
  return Code::ok;
}

MutableBytes Link::buffer(uint32_t index) const {
  return {buffers_.get() + size_t{index} * limits::kMessageBytesMax, limits::kMessageBytesMax};
}

void Link::mark() {
  if (!linked() && !over_) net_.dirty.push_back(*this);
}

void Link::doom(Status status, std::string_view why) {
  if (doomed_ || over_) return;
  doomed_ = true;
  end_ = status;
  trouble_ = why;
  mark();
}

void Link::end() {
  ASSERT(!over_);
  over_ = true;
  if (linked()) unlink();
  if (opened_) net_.provider.break_queue_pair(pair_);
  on_broken();
  if (opened_) {
    net_.provider.destroy_queue_pair(pair_);
    net_.provider.deregister_memory(buffers_memory_);
  }
  on_end(end_);
}

bool Link::can_send(uint32_t other_requests) const {
  return joined_ && can_post(1 + other_requests) && sent_ - sent_taken_ < theirs_.credits;
}

uint32_t Link::take_work(const Work& work) {
  ASSERT(free_count_ > 0);
  const uint32_t index = free_[--free_count_];
  ASSERT(work_[index].kind == Work::Kind::free);
  work_[index] = work;
  return index;
}

void Link::post(WorkRequest request, const Work& work) {
  ASSERT(joined_ && !over_);
  const uint32_t index = take_work(work);
  request.id = uint64_t{id_} << 32 | index;
  if (const Status status = net_.provider.post(pair_, request); !status.ok()) {
    doom(Code::peer_gone, "a work request was refused");
  }
}

void Link::send(Message message) {
  if (message.header.kind != MessageKind::credit) {
    ASSERT(can_send());
    ++sent_;
  }
  message.header.taken = told_ = taken_;
  const uint32_t next = free_[free_count_ - 1];
  const MutableBytes to = buffer(next);
  const uint32_t length = encode(message, to.first<limits::kMessageBytesMax>());
  post({.verb = Verb::send, .local = to.first(length), .memory = buffers_memory_},
       {.kind = Work::Kind::message});
}

void Link::on_completion(uint32_t index, Status status) {
  if (over_ || index >= work_.size() || work_[index].kind == Work::Kind::free) return;
  const Work work = std::exchange(work_[index], {});
  free_[free_count_++] = static_cast<uint8_t>(index);
  if (!status.ok()) {
    return doom(Code::peer_gone, status.code() == Code::access_denied
                                     ? "a transfer met a window that was closed"
                                     : "the queue pair broke");
  }
  on_work(work);
  mark();
}

// What the header says of credits, on both sides.
Status Link::count(const Header& header) {
  const uint32_t newly = header.taken - sent_taken_;
  if (newly > sent_ - sent_taken_) return Code::bad_message;
  sent_taken_ = header.taken;
  if (header.kind == MessageKind::credit) {
    // Others would fill the queue with them.
    return newly > 0 && newly >= theirs_.credits / 4 ? Code::ok : Code::bad_message;
  }
  ++taken_;
  return taken_ - told_ <= limits::kCredits ? Code::ok : Code::bad_message;
}

void Link::on_message(Bytes bytes) {
  if (doomed_ || over_) return;
  const Result<Message> message = decode(bytes);
  if (!message || !count(message->header).ok()) {
    return doom(Code::bad_message, "the other side broke the protocol");
  }
  heard_ = net_.loop.now();
  pinged_ = ping_ = false;
  mark();
  switch (message->header.kind) {
    case MessageKind::ping:
      pong_ = true;
      return;
    case MessageKind::pong:
    case MessageKind::credit:
      return;
    default:
      return handle(*message);
  }
}

void Link::pump() {
  ASSERT(!over_);
  if (!joined_ || doomed_) return;
  if (pong_ && can_send()) {
    pong_ = false;
    send({.header = {.kind = MessageKind::pong}});
  }
  if (ping_ && can_send()) {
    ping_ = false;
    send({.header = {.kind = MessageKind::ping}});
  }
  if (!doomed_) fill();
  if (!doomed_ && taken_ - told_ >= limits::kCredits / 2 && can_post(1)) {
    send({.header = {.kind = MessageKind::credit}});
  }
}

void Link::look(engine::Time now) {
  if (!joined_ || doomed_ || over_) return;
  const engine::Duration silence = now - heard_;
  if (silence >= net_.config.patience.silence) {
    return doom(Code::peer_gone, "nothing came from it for too long");
  }
  if (silence >= net_.config.patience.ping && !pinged_) {
    pinged_ = ping_ = true;
    mark();
  }
}

}  // namespace penstock::verbs::internal
