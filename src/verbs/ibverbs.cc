// The seam to RDMA over libibverbs.
#include "ibverbs.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>

namespace penstock::verbs {
namespace {

Status last_error() {
  return Status::from_errno(errno != 0 ? errno : EIO);
}

Status status_of(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return Code::ok;
    case IBV_WC_WR_FLUSH_ERR:
      return Code::cancelled;
    case IBV_WC_REM_ACCESS_ERR:
      return Code::access_denied;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return Code::peer_gone;
    default:
      return {Code::io_error, static_cast<uint32_t>(status)};
  }
}

// Optional: a device, or a library, that does not know it leaves it out. What is written may come
// in any order; that it has come is told by the completion of a later message, which stays behind
// it.
constexpr int kMemoryAccess = IBV_ACCESS_MW_BIND | IBV_ACCESS_RELAXED_ORDERING;

void make_nonblocking(int descriptor) {
  (void)::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

}  // namespace

IbvProvider::IbvProvider(ibv_context* context, const PortFacts& port, DeviceFacts facts)
    : context_(context), port_(port), facts_(std::move(facts)), random_(engine::system_seed()) {
  make_nonblocking(context_->async_fd);
}

IbvProvider::~IbvProvider() {
  for (const auto& [id, pair] : pairs_) (void)ibv_destroy_qp(pair.pair);
  for (const auto& [id, window] : windows_) (void)ibv_dealloc_mw(window);
  for (const auto& [id, memory] : memories_) (void)ibv_dereg_mr(memory);
  if (receives_ != nullptr) (void)ibv_destroy_srq(receives_);
  if (queue_ != nullptr) {
    disarm();
    (void)ibv_destroy_cq(queue_);
  }
  if (channel_ != nullptr) (void)ibv_destroy_comp_channel(channel_);
  if (domain_ != nullptr) (void)ibv_dealloc_pd(domain_);
  (void)ibv_close_device(context_);
}

Status IbvProvider::create() {
  domain_ = ibv_alloc_pd(context_);
  if (domain_ == nullptr) return last_error();
  channel_ = ibv_create_comp_channel(context_);
  if (channel_ == nullptr) return last_error();
  make_nonblocking(channel_->fd);
  queue_ = ibv_create_cq(context_, limits::kCompletionsMax, nullptr, channel_, 0);
  if (queue_ == nullptr) return last_error();
  ibv_srq_init_attr wanted{};
  wanted.attr.max_wr = limits::kLinksMax * limits::kReceivesOfLink;
  wanted.attr.max_sge = 1;
  receives_ = ibv_create_srq(domain_, &wanted);
  return receives_ != nullptr ? Status() : last_error();
}

Result<QueuePairId> IbvProvider::create_queue_pair() {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = queue_;
  wanted.srq = receives_;
  wanted.cap.max_send_wr = limits::kWorkMax;
  wanted.cap.max_send_sge = 1;
  wanted.qp_type = IBV_QPT_RC;
  wanted.sq_sig_all = 1;
  ibv_qp* const pair = ibv_create_qp(domain_, &wanted);
  if (pair == nullptr) return last_error();
  ibv_qp_attr state{};
  state.qp_state = IBV_QPS_INIT;
  state.port_num = port_.number;
  state.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  if (const int error = ibv_modify_qp(
          pair, &state, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
      error != 0) {
    (void)ibv_destroy_qp(pair);
    return Status::from_errno(error);
  }
  const QueuePairId id{++last_id_};
  pairs_[id.value] = {pair, static_cast<uint32_t>(random_.below(1 << 24))};
  numbers_[pair->qp_num] = id;
  return id;
}

Endpoint IbvProvider::endpoint(QueuePairId id) const {
  const Pair& pair = pairs_.at(id.value);
  return {pair.pair->qp_num, pair.first_packet, port_.gid, port_.lid, port_.mtu, limits::kReadsMax};
}

Status IbvProvider::connect(QueuePairId id, const Endpoint& other) {
  const Pair& pair = pairs_.at(id.value);
  ibv_qp_attr receive{};
  receive.qp_state = IBV_QPS_RTR;
  receive.path_mtu = static_cast<ibv_mtu>(std::min(port_.mtu, other.mtu));
  receive.dest_qp_num = other.queue_pair;
  receive.rq_psn = other.first_packet;
  receive.max_dest_rd_atomic = limits::kReadsMax;
  receive.min_rnr_timer = 12;  // 0.64 ms
  receive.ah_attr.dlid = other.lid;
  receive.ah_attr.port_num = port_.number;
  receive.ah_attr.is_global = 1;
  std::memcpy(receive.ah_attr.grh.dgid.raw, other.gid.data(), other.gid.size());
  receive.ah_attr.grh.sgid_index = port_.gid_index;
  receive.ah_attr.grh.hop_limit = 64;
  if (const int error =
          ibv_modify_qp(pair.pair, &receive,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                            IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
      error != 0) {
    return Status::from_errno(error);
  }
  ibv_qp_attr send{};
  send.qp_state = IBV_QPS_RTS;
  // 0.54 s. Lost packets are mostly told of by those behind them; what waits for this is the last
  // one. Shorter, and a busy side is asked for a megabyte again while it still sends it.
  send.timeout = 17;
  send.retry_cnt = 7;
  send.rnr_retry = 7;  // for ever: receives are there as long as credits are kept
  send.sq_psn = pair.first_packet;
  send.max_rd_atomic = std::min(limits::kReadsMax, std::max<uint8_t>(1, other.reads));
  return Status::from_errno(ibv_modify_qp(pair.pair, &send,
                                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                              IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                              IBV_QP_MAX_QP_RD_ATOMIC));
}

void IbvProvider::break_queue_pair(QueuePairId id) {
  ibv_qp_attr state{};
  state.qp_state = IBV_QPS_ERR;
  (void)ibv_modify_qp(pairs_.at(id.value).pair, &state, IBV_QP_STATE);
}

void IbvProvider::destroy_queue_pair(QueuePairId id) {
  ibv_qp* const pair = pairs_.at(id.value).pair;
  const uint32_t number = pair->qp_num;
  // Some devices take away with it what has completed and was not polled.
  harvest();
  // A device that is gone may refuse; then there is nothing left that it could touch.
  (void)ibv_destroy_qp(pair);
  // The device may give the number to the next one.
  harvest();
  numbers_.erase(number);
  pairs_.erase(id.value);
}

Result<MemoryId> IbvProvider::register_memory(MutableBytes bytes, bool writable) {
  const int access = kMemoryAccess | (writable ? IBV_ACCESS_LOCAL_WRITE : 0);
  ibv_mr* const memory = ibv_reg_mr(domain_, bytes.data(), bytes.size(), access);
  if (memory == nullptr) return last_error();
  return keep(memory);
}

Result<MemoryId> IbvProvider::register_device_memory(const Region& region) {
  ibv_mr* const memory = ibv_reg_dmabuf_mr(domain_, region.dma_buf_offset, region.bytes.size(),
                                           reinterpret_cast<uintptr_t>(region.bytes.data()),
                                           region.dma_buf, kMemoryAccess | IBV_ACCESS_LOCAL_WRITE);
  if (memory != nullptr) return keep(memory);
  const Status status = last_error();
  // Each layer has its own word for it.
  const bool cannot =
      errno == EOPNOTSUPP || errno == EPROTONOSUPPORT || errno == ENOSYS || errno == ENOTTY;
  return cannot ? Status(Code::not_supported) : status;
}

MemoryId IbvProvider::keep(ibv_mr* memory) {
  const MemoryId id{++last_id_};
  memories_[id.value] = memory;
  return id;
}

void IbvProvider::deregister_memory(MemoryId id) {
  const auto found = memories_.find(id.value);
  ASSERT(found != memories_.end());
  // Refused: the device still could touch it, which the order of ends excludes.
  const int error = ibv_dereg_mr(found->second);
  ASSERT(error == 0 || error == EIO || error == ENODEV);
  memories_.erase(found);
}

Result<Window> IbvProvider::create_window() {
  ibv_mw* const window = ibv_alloc_mw(domain_, IBV_MW_TYPE_2);
  if (window == nullptr) return last_error();
  const WindowId id{++last_id_};
  windows_[id.value] = window;
  return Window{id, window->rkey};
}

void IbvProvider::destroy_window(WindowId id) {
  const auto found = windows_.find(id.value);
  ASSERT(found != windows_.end());
  const int error = ibv_dealloc_mw(found->second);
  ASSERT(error == 0 || error == EIO || error == ENODEV);
  windows_.erase(found);
}

Status IbvProvider::post(QueuePairId id, const WorkRequest& request) {
  ibv_send_wr work{};
  ibv_sge piece{};
  work.wr_id = request.id;
  if (request.verb == Verb::send || request.verb == Verb::write || request.verb == Verb::read) {
    piece = {reinterpret_cast<uintptr_t>(request.local.data()),
             static_cast<uint32_t>(request.local.size()), memories_.at(request.memory.value)->lkey};
    work.sg_list = &piece;
    work.num_sge = 1;
  }
  ibv_mw* bound = nullptr;
  switch (request.verb) {
    case Verb::send:
      work.opcode = IBV_WR_SEND;
      break;
    case Verb::write:
    case Verb::read:
      work.opcode = request.verb == Verb::write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
      work.wr.rdma.remote_addr = request.remote_address;
      work.wr.rdma.rkey = request.key;
      break;
    case Verb::bind:
      bound = windows_.at(request.window.value);
      work.opcode = IBV_WR_BIND_MW;
      work.bind_mw.mw = bound;
      work.bind_mw.rkey = request.key;
      work.bind_mw.bind_info.mr = memories_.at(request.memory.value);
      work.bind_mw.bind_info.addr = reinterpret_cast<uintptr_t>(request.local.data());
      work.bind_mw.bind_info.length = request.local.size();
      work.bind_mw.bind_info.mw_access_flags = request.access == engine::Access::place
                                                   ? IBV_ACCESS_REMOTE_WRITE
                                                   : IBV_ACCESS_REMOTE_READ;
      break;
    case Verb::invalidate:
      work.opcode = IBV_WR_LOCAL_INV;
      work.invalidate_rkey = request.key;
      break;
  }
  ibv_send_wr* refused = nullptr;
  const int error = ibv_post_send(pairs_.at(id.value).pair, &work, &refused);
  // The next bind is refused unless the library knows the key that the window has now.
  if (error == 0 && bound != nullptr) bound->rkey = request.key;
  return Status::from_errno(error);
}

Status IbvProvider::post_receive(uint64_t id, MutableBytes buffer, MemoryId memory) {
  ibv_sge piece{reinterpret_cast<uintptr_t>(buffer.data()), static_cast<uint32_t>(buffer.size()),
                memories_.at(memory.value)->lkey};
  ibv_recv_wr work{};
  work.wr_id = id | kReceive;
  work.sg_list = &piece;
  work.num_sge = 1;
  ibv_recv_wr* refused = nullptr;
  return Status::from_errno(ibv_post_srq_recv(receives_, &work, &refused));
}

// Takes what is there, while all its queue pairs are still known by their numbers.
void IbvProvider::harvest() {
  std::array<ibv_wc, limits::kPollMax> taken;
  int count = 0;
  while ((count = ibv_poll_cq(queue_, static_cast<int>(taken.size()), taken.data())) > 0) {
    for (int i = 0; i < count; ++i) pending_.push_back(translate(taken[static_cast<size_t>(i)]));
  }
}

Completion IbvProvider::translate(const ibv_wc& taken) const {
  Completion completion;
  completion.id = taken.wr_id & ~kReceive;
  // Of one that failed, neither opcode nor flags are defined.
  completion.is_receive = (taken.wr_id & kReceive) != 0;
  completion.status = status_of(taken.status);
  if (!completion.is_receive) return completion;
  const auto found = numbers_.find(taken.qp_num);
  if (found != numbers_.end()) completion.queue_pair = found->second;
  if (completion.status.ok()) completion.length = taken.byte_len;
  return completion;
}

size_t IbvProvider::poll(std::span<Completion> completions) {
  if (!pending_.empty()) {
    const size_t count = std::min(completions.size(), pending_.size());
    std::copy_n(pending_.begin(), count, completions.begin());
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }
  std::array<ibv_wc, limits::kPollMax> taken;
  const int count = ibv_poll_cq(
      queue_, static_cast<int>(std::min(taken.size(), completions.size())), taken.data());
  for (int i = 0; i < count; ++i) {
    completions[static_cast<size_t>(i)] = translate(taken[static_cast<size_t>(i)]);
  }
  return static_cast<size_t>(std::max(0, count));
}

bool IbvProvider::arm() {
  if (ibv_req_notify_cq(queue_, 0) != 0) return false;
  // What came before does not notify.
  harvest();
  return pending_.empty();
}

void IbvProvider::disarm() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  unsigned count = 0;
  while (ibv_get_cq_event(channel_, &queue, &context) == 0) ++count;
  if (count != 0) ibv_ack_cq_events(queue_, count);
}

std::optional<Event> IbvProvider::next_event() {
  ibv_async_event event;
  while (ibv_get_async_event(context_, &event) == 0) {
    Event found;
    bool tell = true;
    switch (event.event_type) {
      case IBV_EVENT_DEVICE_FATAL:
      case IBV_EVENT_CQ_ERR:
      case IBV_EVENT_SRQ_ERR:
        break;
      case IBV_EVENT_PORT_ERR:
        tell = event.element.port_num == port_.number;
        break;
      case IBV_EVENT_QP_FATAL:
      case IBV_EVENT_QP_REQ_ERR:
      case IBV_EVENT_QP_ACCESS_ERR: {
        const auto known = numbers_.find(event.element.qp->qp_num);
        tell = known != numbers_.end();
        if (tell) found = {EventKind::queue_pair_broken, known->second};
        break;
      }
      default:
        tell = false;
    }
    ibv_ack_async_event(&event);
    if (tell) return found;
  }
  return std::nullopt;
}

}  // namespace penstock::verbs
