#include "stream.h"

#include "connection_facts.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <linux/tcp.h>
#include <netinet/in.h>

namespace penstock::tcp {

using engine::Op;

namespace {

tcp_info info_of(int socket) {
  tcp_info info{};
  socklen_t length = sizeof info;
  (void)::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length);
  return info;
}

}  // namespace

Stream::~Stream() {
  ASSERT(!receiving_ && !sending_ && flying_ == nullptr && filling_ == nullptr);
  if (linked()) unlink();
}

void Stream::start(Side& side, std::string name, engine::Duration idle) {
  ASSERT(side_ == nullptr);
  side_ = &side;
  reader_.emplace(side);
  name_ = std::move(name);
  idle_ = idle;
  heard_ = asked_at_ = used_ = progress_ = sockets_.loop.now();
  sockets_.others.push_back(*this);
}

void Stream::attach(UniqueFd socket, std::unique_ptr<Seal> seal) {
  ASSERT(!socket_ && socket && side_ != nullptr);
  socket_ = std::move(socket);
  seal_ = std::move(seal);
  if (failed_) return;
  if (seal_ != nullptr) let_kernel_seal();
  if (failed_) return;
  // Helpers seal or open records while this thread copies others to or from the socket.
  if (seal_ != nullptr) seal_->share_with(sockets_.crew, [this] { sockets_.ring.submit(); });
  // Frames are gathered here; the kernel need not wait for more.
  const int on = 1;
  (void)::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  heard_ = sockets_.loop.now();
  receive();
  if (side_->has_to_send()) send_soon();
}

// Where the kernel can.
void Stream::let_kernel_seal() {
  if (sockets_.kernel_tls == nullptr) return;
  const Status status = seal_->hand_over(*sockets_.kernel_tls, socket_.get(), sockets_.loop.now());
  if (status == Code::not_supported) return;
  if (!status.ok()) return fail(Code::peer_gone, "the kernel took keys for one direction only");
  seal_.reset();
  by_kernel_ = true;
}

void Stream::send_soon() {
  // Else the end of the send under way leads here again.
  if (over_ || (sending_ && !failed_)) return;
  unlink();
  sockets_.to_flush.push_back(*this);
}

std::optional<ConnectionFacts> Stream::facts() const {
  if (!socket_ || failed_) return std::nullopt;
  ConnectionFacts facts = facts_of(socket_.get(), sealed() != Sealed::no);
  facts.by_kernel = sealed() == Sealed::by_kernel;
  return facts;
}

Batch* Stream::batch() {
  if (filling_ == nullptr && !failed_) filling_ = sockets_.batches.take();
  return filling_;
}

bool Stream::flush() {
  if (failed_) {
    end_if_quiet();
    return true;
  }
  if (!socket_ || sending_) return true;
  ASSERT(flying_ == nullptr);
  if (side_->has_to_send()) {
    if (batch() == nullptr) return false;
    side_->fill(*filling_);
  }
  if (finishing_ && !side_->has_to_send() && !goodbye_) {
    if (batch() == nullptr) return false;
    goodbye_ = filling_->has_room(limits::kHeaderBytes);
    if (goodbye_) filling_->append({.kind = FrameKind::goodbye});
  }
  if (filling_ == nullptr) return true;
  if (filling_->empty()) {
    sockets_.batches.give_back(*std::exchange(filling_, nullptr));
    return true;
  }
  if (seal_ != nullptr && records_ == nullptr && (records_ = sockets_.sealed.take()) == nullptr) {
    return false;
  }
  flying_ = std::exchange(filling_, nullptr);
  progress_ = sockets_.loop.now();
  send_rest();
  return true;
}

void Stream::send_rest() {
  ASSERT(!sending_ && flying_ != nullptr);
  sending_ = true;
  if (seal_ == nullptr) {
    const auto sending = by_kernel_ ? SocketRing::Sending::part : SocketRing::Sending::all;
    return sockets_.ring.send(*this, kSent, socket_.get(), *flying_->unsent(), sending);
  }
  if (records_sent_ == records_bytes_) {
    if (ahead_bytes_ == 0) {
      records_bytes_ = seal_->seal(*flying_, {records_.get(), limits::kSealedBytes});
    } else {
      std::swap(records_, ahead_);
      records_bytes_ = std::exchange(ahead_bytes_, 0);
    }
    records_sent_ = 0;
  }
  ASSERT(records_sent_ < records_bytes_);
  records_piece_ = {records_.get() + records_sent_, records_bytes_ - records_sent_};
  records_message_ = {};
  records_message_.msg_iov = &records_piece_;
  records_message_.msg_iovlen = 1;
  sockets_.ring.send(*this, kSent, socket_.get(), records_message_, SocketRing::Sending::all);
  seal_ahead();
}

// What is sent next, by helpers, while this thread gives the kernel what has been sealed.
void Stream::seal_ahead() {
  if (!seal_->is_helped() || ahead_bytes_ != 0) return;
  if (flying_->next().size() < limits::kSharedRecordsMin * size_t{tls::limits::kContentMax}) return;
  if (ahead_ == nullptr) ahead_ = sockets_.sealed.take_second();
  if (ahead_ == nullptr) return;
  ahead_bytes_ = seal_->seal(*flying_, {ahead_.get(), limits::kSealedBytes});
}

// True when nothing is left of what flies.
bool Stream::advance(size_t sent) {
  if (seal_ == nullptr) return flying_->advance(sent);
  records_sent_ += sent;
  return records_sent_ == records_bytes_ && ahead_bytes_ == 0 && flying_->next().empty();
}

void Stream::receive() {
  ASSERT(!receiving_ && !failed_);
  receiving_ = true;
  if (seal_ != nullptr && receive_records()) return;
  const MutableBytes place = reader_->place();
  if (seal_ == nullptr && place.size() >= limits::kDirectBytesMin) {
    large_ = true;
    into_ = kPlaced;
    sockets_.ring.receive(*this, kPlaced, socket_.get(), place);
  } else {
    into_ = kStaged;
    asked_ = large_ ? limits::kStagedBytesShort : limits::kStagedBytes;
    sockets_.ring.receive_staged(*this, kStaged, socket_.get(), asked_);
  }
}

// Many records of a large payload at a time, into memory that is used again at once: few system
// calls and acknowledgements, and what is opened is still in the processor's cache.
bool Stream::receive_records() {
  const size_t expected = seal_->expected(*reader_);
  const bool is_large = expected >= limits::kDirectBytesMin;
  if (is_large && opening_ == nullptr) opening_ = sockets_.opened.take();
  if (is_large && opening_ != nullptr) {
    large_ = true;
    receive_piece(expected, seal_->piece(expected, limits::kSealedBytes));
    return true;
  }
  if (opening_ != nullptr) sockets_.opened.give_back(std::move(opening_));
  return false;
}

// Of the same payload, while helpers open the records that came and are still in a buffer.
void Stream::receive_ahead(size_t came) {
  if (!seal_->is_helped() || came != asked_ || behind_ < limits::kDirectBytesMin) return;
  opening_ = sockets_.opened.take_second();
  if (opening_ == nullptr) return;
  receiving_ = true;
  receive_piece(behind_, std::min<size_t>(behind_, limits::kSealedBytes));
}

void Stream::receive_piece(size_t expected, size_t bytes) {
  into_ = kRecords;
  asked_ = static_cast<uint32_t>(bytes);
  behind_ = expected - bytes;
  sockets_.ring.receive(*this, kRecords, socket_.get(), {opening_.get(), bytes});
}

void Stream::on_completion(uint32_t what, int result, uint32_t flags) {
  switch (what) {
    case kStaged:
      receiving_ = false;
      on_staged(result, flags);
      break;
    case kPlaced:
      receiving_ = false;
      on_placed(result);
      break;
    case kRecords:
      receiving_ = false;
      on_records(result);
      break;
    default:
      ASSERT(what == kSent);
      sending_ = false;
      on_send_end(result);
      break;
  }
  if (failed_) {
    end_if_quiet();
  } else if (!receiving_) {
    receive();
  }
}

void Stream::on_staged(int result, uint32_t flags) {
  const bool has_buffer = (flags & IORING_CQE_F_BUFFER) != 0;
  if (result > 0 && !failed_) {
    heard_ = sockets_.loop.now();
    take(sockets_.ring.staged(result, flags));
    // Short receives pay only in front of large payloads.
    const bool full = static_cast<uint32_t>(result) == asked_;
    if (full && reader_->place().size() < limits::kDirectBytesMin) large_ = false;
  } else if (result <= 0) {
    lost(-result);
  }
  if (has_buffer) sockets_.ring.give_back(flags);
}

void Stream::take(Bytes bytes) {
  if (seal_ == nullptr) {
    if (!std::exchange(began_, true) && !by_kernel_ && begins_like_tls(bytes)) {
      return fail(Code::peer_gone, kOnlyOneInsecure);
    }
    const Status status = reader_->take(bytes);
    if (!status.ok()) fail(status, "it broke the protocol");
    return;
  }
  const Status status = seal_->take(bytes, *reader_);
  if (status == Code::peer_gone) return fail(status, "");
  if (status == Code::access_denied) return fail(status, "it does not accept who this node is");
  if (status == Code::corrupt) return fail(status, "what it sent was changed on its way");
  if (!status.ok()) return fail(status, "it broke the protocol");
}

void Stream::on_placed(int result) {
  if (result > 0) {
    heard_ = sockets_.loop.now();
    const Status status = reader_->placed(static_cast<size_t>(result));
    if (!status.ok()) fail(status, "it broke the protocol");
  }
  if (diverting_) {
    diverting_ = false;
    if (reader_->in_payload()) reader_->divert();
    side_->on_diverted();
  }
  if (result <= 0) lost(-result);
}

void Stream::on_records(int result) {
  if (result > 0 && !failed_) {
    heard_ = sockets_.loop.now();
    const auto count = static_cast<size_t>(result);
    SealedPool::Buffer came = std::move(opening_);
    receive_ahead(count);
    take({came.get(), count});
    if (opening_ == nullptr) {
      opening_ = std::move(came);
    } else {
      sockets_.opened.give_back(std::move(came));
    }
  } else if (result <= 0) {
    lost(-result);
  }
}

void Stream::on_send_end(int result) {
  bool done = false;
  if (result > 0) {
    progress_ = sockets_.loop.now();
    done = advance(static_cast<size_t>(result));
  } else {
    lost(result == 0 ? EPIPE : -result);
  }
  if (done) {
    end_flight();
  } else {
    for (Op* const owner : std::exchange(releasing_, {})) {
      flying_->replace(*owner);
      side_->on_released(*owner);
    }
    if (!failed_) send_rest();
  }
}

void Stream::end_flight() {
  releasing_.clear();
  Batch& batch = *std::exchange(flying_, nullptr);
  batch.end([this](Op& owner) { side_->on_sent(owner); });
  sockets_.batches.give_back(batch);
  give_back_sealed();
  if (failed_) return;
  if (side_->has_to_send() || filling_ != nullptr || (finishing_ && !goodbye_)) {
    send_soon();
  } else if (goodbye_) {
    fail(Code::peer_gone, "");
  }
}

void Stream::give_back_sealed() {
  ahead_bytes_ = 0;
  for (SealedPool::Buffer* const buffer : {&records_, &ahead_}) {
    if (*buffer != nullptr) sockets_.sealed.give_back(std::move(*buffer));
  }
}

// What the kernel ended early, because it was asked to or as the thread that submitted it is gone,
// goes on; and who found no memory for what came asks once more.
void Stream::lost(int error) {
  if (failed_ || error == ECANCELED || error == EINTR || error == EAGAIN || error == ENOBUFS)
    return;
  if (error == 0) {
    fail(Code::peer_gone, side_->is_busy() ? "the other side closed the connection" : "");
  } else {
    fail(Status(Code::peer_gone, static_cast<uint32_t>(error)), why_lost(error));
  }
}

std::string_view Stream::why_lost(int error) const {
  // What the kernel says of records that it does not take.
  if (by_kernel_ && error == EBADMSG) return "what it sent was changed on its way";
  if (by_kernel_ && error == EIO) return "it ended its TLS, or renewed keys that the kernel has";
  return std::strerror(error);
}

void Stream::fail(Status status, std::string_view why) {
  if (failed_) return;
  failed_ = true;
  status_ = status;
  why_ = why;
  if (!why.empty()) log::warning("tcp: {}: {}", name_, why);
  if (socket_) (void)::shutdown(socket_.get(), SHUT_RDWR);
  if (receiving_) sockets_.ring.cancel(*this, into_);
  if (sending_) sockets_.ring.cancel(*this, kSent);
  send_soon();
}

void Stream::finish() {
  finishing_ = true;
  send_soon();
}

bool Stream::divert() {
  if (!receiving_ || into_ != kPlaced) {
    reader_->divert();
    return true;
  }
  ASSERT(!diverting_);
  diverting_ = true;
  if (!failed_) sockets_.ring.cancel(*this, kPlaced);
  return false;
}

bool Stream::release(Op& owner) {
  ASSERT(flying_ != nullptr && sending_);
  // Of what is sealed the kernel has the records.
  if (seal_ != nullptr || !flying_->has(owner)) {
    flying_->replace(owner);
    return true;
  }
  if (releasing_.empty() && !failed_) sockets_.ring.cancel(*this, kSent);
  releasing_.push_back(&owner);
  return false;
}

void Stream::end_if_quiet() {
  ASSERT(failed_);
  if (over_ || receiving_ || sending_) return;
  over_ = true;
  releasing_.clear();
  for (Batch** const batch : {&flying_, &filling_}) {
    if (*batch == nullptr) continue;
    (*batch)->drop();
    (*batch)->end([](Op&) {});
    sockets_.batches.give_back(*std::exchange(*batch, nullptr));
  }
  give_back_sealed();
  if (opening_ != nullptr) sockets_.opened.give_back(std::move(opening_));
  socket_.reset();
  side_->on_end(status_);
}

void Stream::look() {
  if (failed_ || !socket_) return;
  const engine::Time now = sockets_.loop.now();
  if (by_kernel_) worn_ = tls::records_of_kernel(socket_.get()) >= limits::kRecordsOfKernel;
  if (sending_) look_at_sending();
  if (side_->is_busy()) {
    used_ = now;
    look_at_silence();
  } else if (now - used_ >= idle_) {
    side_->on_idle();
  }
}

// Silence alone says nothing, as there may have been nothing to say, or this loop did not listen:
// it counts from the moment at which the other side was asked.
void Stream::look_at_silence() {
  const engine::Time now = sockets_.loop.now();
  const Patience& patience = sockets_.patience;
  if (asked_at_ <= heard_) {
    if (now - heard_ < patience.ping) return;
    asked_at_ = now;
    return side_->ping();
  }
  if (now - asked_at_ < patience.silence - patience.ping) return;
  // A large payload may be coming in slowly, of which the kernel alone knows.
  const engine::Duration ago =
      std::chrono::milliseconds(info_of(socket_.get()).tcpi_last_data_recv);
  if (now - ago < asked_at_) return fail(Code::peer_gone, "nothing is heard of it");
  heard_ = now - ago;
}

void Stream::look_at_sending() {
  const engine::Time now = sockets_.loop.now();
  const uint64_t acknowledged = info_of(socket_.get()).tcpi_bytes_acked;
  if (acknowledged != acknowledged_) {
    acknowledged_ = acknowledged;
    progress_ = now;
  } else if (now - progress_ >= sockets_.patience.stall) {
    fail(Code::peer_gone, "it takes nothing of what is sent to it");
  }
}

}  // namespace penstock::tcp
