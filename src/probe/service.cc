#include "penstock/probe/service.h"

#include <algorithm>
#include <array>

namespace penstock::probe {

using engine::Access;
using engine::IncomingCall;
using engine::Op;

// One call with its transfer, or with what is measured for it.
struct Service::Work {
  struct Transfer : engine::TransferOp {};
  struct Measurement : MeasureOp {};

  Service* service = nullptr;
  NodeId peer;
  uint64_t bytes = 0;     // that count for the peer
  uint32_t document = 0;  // bytes of it
  std::vector<std::byte> memory;
  Transfer transfer;
  Measurement measurement;
};

Service::~Service() {
  ASSERT(calls_ == 0);
}

void Service::on_call(IncomingCall& call) {
  const Status status = begin(call);
  if (!status.ok()) call.reply(status, {});
}

Status Service::begin(IncomingCall& call) {
  if (closed_) return Code::closed;
  if (call.peer().roles == 0) return Code::not_permitted;
  TRY_ASSIGN(const Request request, decode_request(call.method, call.request));
  const auto method = static_cast<Method>(call.method);
  if (method == Method::echo) {
    if (call.exposure_count != 0) return Code::invalid_argument;
    const Response response;
    call.reply(Code::ok, std::as_bytes(std::span(&response, 1)));
    return Code::ok;
  }
  const Access access = method == Method::fetch ? Access::fetch : Access::place;
  const bool is_good = call.exposure_count == 1 && call.exposure_access(0) == access &&
                       call.exposure_length(0) > 0 && call.exposure_length(0) <= limits::kBytesMax;
  if (!is_good) return Code::invalid_argument;
  if (method == Method::measure) return begin_measuring(call, request);
  return begin_transfer(call, method);
}

// What it has in progress counts against its caller from here to end().
Status Service::admit(IncomingCall& call, uint64_t bytes) {
  const NodeId peer = call.peer().node;
  const auto found = shares_.find(peer);
  const Share share = found == shares_.end() ? Share() : found->second;
  const bool is_room = calls_ < limits::kCallsMax && bytes_ + bytes <= limits::kBytesOfAll &&
                       share.calls < limits::kCallsOfPeer &&
                       share.bytes + bytes <= limits::kBytesOfPeer;
  if (!is_room) return Code::busy;
  shares_[peer] = {share.calls + 1, share.bytes + bytes};
  ++calls_;
  bytes_ += bytes;
  Work* const work = std::make_unique<Work>().release();
  work->service = this;
  work->peer = peer;
  work->bytes = bytes;
  work->transfer.call = &call;
  work->transfer.owner = work;
  work->transfer.completion = [](Op& op) {
    auto& self = op.owner_as<Work>();
    self.service->end(self, op.status);
  };
  call.context = work;
  return Code::ok;
}

Status Service::begin_transfer(IncomingCall& call, Method method) {
  const uint64_t length = call.exposure_length(0);
  TRY(admit(call, length));
  Work& work = *static_cast<Work*>(call.context);
  if (method == Method::tell) {
    place_document(work, encode(config_.machine()));
    return Code::ok;
  }
  if (method == Method::fetch) {
    const MutableBytes to = take_memory(work, length);
    work.transfer.local = {to.data(), length, engine::kNoBuffer, engine::MemoryKind::host};
    call.fetch(work.transfer);
    return Code::ok;
  }
  if (pattern_.empty()) pattern_.assign(limits::kBytesMax, std::byte{0x5a});
  work.transfer.local = {pattern_.data(), length, engine::kNoBuffer, engine::MemoryKind::host};
  call.place(work.transfer);
  return Code::ok;
}

Status Service::begin_measuring(IncomingCall& call, const Request& request) {
  if (config_.measurer == nullptr) return Code::not_supported;
  TRY(admit(call, call.exposure_length(0)));
  Work& work = *static_cast<Work*>(call.context);
  work.measurement.to = NodeId(request.node);
  work.measurement.plan = check_plan(std::chrono::milliseconds(request.milliseconds));
  work.measurement.owner = &work;
  work.measurement.completion = [](Op& op) {
    auto& self = op.owner_as<Work>();
    self.service->on_measured(self);
  };
  config_.measurer->measure(work.measurement);
  return Code::ok;
}

void Service::on_measured(Work& work) {
  if (!work.measurement.status.ok()) return end(work, work.measurement.status);
  std::vector<WayFacts> ways;
  for (MeasuredWay& way : work.measurement.ways) ways.push_back(std::move(way.facts));
  place_document(work, encode(ways));
}

void Service::place_document(Work& work, std::string document) {
  IncomingCall& call = *work.transfer.call;
  ASSERT(!document.empty() && document.size() <= limits::kDocumentMax);
  if (document.size() > call.exposure_length(0)) return end(work, Code::too_large);
  const Bytes bytes = std::as_bytes(std::span(document));
  work.memory.assign(bytes.begin(), bytes.end());
  work.document = static_cast<uint32_t>(work.memory.size());
  work.transfer.local = {work.memory.data(), work.memory.size(), engine::kNoBuffer,
                         engine::MemoryKind::host};
  call.place(work.transfer);
}

// Of calls that ended before, where there is one.
MutableBytes Service::take_memory(Work& work, uint64_t bytes) {
  if (!memories_.empty()) {
    work.memory = std::move(memories_.back());
    memories_.pop_back();
  }
  if (work.memory.size() < bytes) work.memory.resize(bytes);
  return MutableBytes(work.memory).first(bytes);
}

void Service::end(Work& work, Status status) {
  const std::unique_ptr<Work> owner(&work);
  const auto share = shares_.find(work.peer);
  ASSERT(share != shares_.end() && share->second.calls > 0 && calls_ > 0);
  share->second.calls -= 1;
  share->second.bytes -= work.bytes;
  if (share->second.calls == 0) shares_.erase(share);
  --calls_;
  bytes_ -= work.bytes;
  // Who measures one call at a time has memory for the next one; nothing else is kept.
  const bool is_wanted = calls_ > 0 ? memories_.size() < limits::kCallsOfPeer : memories_.empty();
  if (is_wanted && !work.memory.empty()) memories_.push_back(std::move(work.memory));
  if (calls_ == 0 && memories_.size() > 1) memories_.resize(1);
  const Response response{.length = work.document};
  if (status.ok()) {
    work.transfer.call->reply(status, std::as_bytes(std::span(&response, 1)));
  } else {
    work.transfer.call->reply(status, {});
  }
  if (calls_ > 0 || closing_ == nullptr) return;
  config_.loop->complete(*std::exchange(closing_, nullptr), Code::ok);
}

void Service::close(Op& done) {
  ASSERT(closing_ == nullptr);
  closed_ = true;
  if (calls_ == 0) return config_.loop->complete(done, Code::ok);
  closing_ = &done;
}

}  // namespace penstock::probe
