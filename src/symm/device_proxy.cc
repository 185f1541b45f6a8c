#include "device_proxy.h"

#include "far_rows.h"
#include "limits.h"

#include <algorithm>
#include <cstring>
#include <thread>

namespace penstock::symm {

using device::Ask;
using device::FarAsk;
using device::FarChange;
using device::SymmFailure;

namespace {

// Elements of a row in one frame: each is a copy of its own.
constexpr uint64_t kRowInFrame = 512;
// Of kernels, at once.
constexpr uint64_t kCopiesPosted = device::kFarPosted - device::kSymmNearMax;

}  // namespace

DeviceProxy::DeviceProxy(const ProxyOptions& options, AskedQueue& queue, ProxyDevice& device,
                         DeviceMail& mail)
    : options_(options),
      queue_(queue),
      device_(device),
      mail_(mail),
      peers_(options.pes),
      awaited_(limits::kFarAwaited) {
  ASSERT(options.pes <= device::kFarPesMax && !options.far.test(options.me));
  ASSERT(options.staging.size() >= 2 * kMailBodyMax && options.heap_bytes > 0);
  for (uint32_t i = limits::kFarAwaited; i-- > 0;) free_.push_back(i);
  set_adopted({});
}

void DeviceProxy::set_adopted(const std::map<uint64_t, uint64_t>& adopted) {
  open_.clear();
  const auto add = [&](uint64_t begin, uint64_t end) {
    if (begin >= end) return;
    if (!open_.empty() && open_.back().end == begin) {
      open_.back().end = end;
    } else {
      open_.push_back({begin, end});
    }
  };
  add(0, options_.private_begin);
  add(options_.private_end, options_.heap_bytes);
  for (const auto& [offset, bytes] : adopted) {
    ASSERT(offset >= options_.heap_bytes);
    add(offset, offset + bytes);
  }
  ASSERT(!open_.empty());
}

Result<bool> DeviceProxy::turn() {
  mail_.progress();
  bool worked = take_asked();
  for (uint32_t i = 0; i < options_.pes; ++i) {
    const uint32_t pe = (first_ + i) % options_.pes;
    if (!options_.far.test(pe) || peers_[pe].is_gone) continue;
    worked = serve_mail(pe) || worked;
    worked = send_pending(pe) || worked;
  }
  first_ = (first_ + 1) % options_.pes;
  TRY(finish_turn());
  return worked;
}

bool DeviceProxy::is_owing() const {
  if (queue_.has_work()) return true;
  return std::any_of(peers_.begin(), peers_.end(),
                     [](const Peer& peer) { return !peer.pending.empty(); });
}

// ---- what a turn gathers ----

std::optional<MutableBytes> DeviceProxy::stage(uint64_t bytes) {
  const uint64_t begin = align_up(staged_, uint64_t{16});
  if (begin + bytes > options_.staging.size()) return std::nullopt;
  staged_ = begin + bytes;
  return options_.staging.subspan(begin, bytes);
}

bool DeviceProxy::has_room(uint32_t pe, MailLane lane, uint64_t body) {
  const uint64_t planned = peers_[pe].planned[static_cast<uint32_t>(lane)];
  return mail_.room(pe, lane) >= planned + mail_bytes(body);
}

void DeviceProxy::send_later(uint32_t pe, MailLane lane, const MailFrame& frame,
                             MutableBytes body) {
  ASSERT(has_room(pe, lane, body.size()) && frame.bytes == body.size());
  peers_[pe].planned[static_cast<uint32_t>(lane)] += mail_bytes(body.size());
  later_.push_back(
      {.what = Later::What::send, .pe = pe, .lane = lane, .frame = frame, .body = body});
}

bool DeviceProxy::copy(const Row& row, Way way) {
  if (!failed_.ok()) return false;
  const bool is_own = row.at - options_.heap < reach();
  return is_own || !device_.is_programs(row.at) ? copy_by_engines(row, way)
                                                : copy_by_kernel(row, way);
}

// Each element by itself, where they do not stand together.
bool DeviceProxy::copy_by_engines(const Row& row, Way way) {
  const uint64_t width = row.stride == 1 ? row.staged.size() : uint64_t{1} << row.width_log2;
  const uint64_t step = row.stride << row.width_log2;
  for (uint64_t i = 0; i * width < row.staged.size() && failed_.ok(); ++i) {
    const MutableBytes one = row.staged.subspan(i * width, width);
    const uint64_t there = row.at + i * step;
    failed_ = way == Way::in ? device_.copy_in(there, one) : device_.copy_out(one, there);
    ++stats_.copies;
  }
  has_copied_ = true;
  return failed_.ok();
}

// Posts have room for a change of each peer, too.
bool DeviceProxy::copy_by_kernel(const Row& row, Way way) {
  if (queue_.posted() - queue_.served() >= kCopiesPosted) {
    failed_ = wait_for_kernels(queue_.posted());
    if (!failed_.ok()) return false;
  }
  const auto change = way == Way::in ? FarChange::copy_in : FarChange::copy_out;
  queue_.post({.address = row.at,
               .value = reinterpret_cast<uintptr_t>(row.staged.data()),
               .expected = row.stride << row.width_log2,
               .change = static_cast<uint8_t>(change),
               .width_log2 = static_cast<uint8_t>(row.width_log2),
               .reserved = 0,
               .bytes = static_cast<uint32_t>(row.staged.size())});
  kernels_copy_ = queue_.posted();
  ++stats_.copies;
  return true;
}

Status DeviceProxy::wait_for_kernels(uint64_t copies) {
  while (queue_.served() < copies) {
    TRY(device_.make_changes(queue_.served()));
    std::this_thread::yield();
  }
  return {};
}

Status DeviceProxy::finish_turn() {
  if (has_copied_ && failed_.ok()) failed_ = device_.finish();
  if (failed_.ok()) failed_ = wait_for_kernels(kernels_copy_);
  if (failed_.ok()) {
    for (const Later& later : later_) run(later);
    if (!have_made(changes())) failed_ = device_.make_changes(queue_.served());
  }
  for (uint32_t pe = 0; pe < options_.pes; ++pe) {
    if (options_.far.test(pe) && !peers_[pe].is_gone && !mail_.flush(pe).ok()) lose(pe);
  }
  later_.clear();
  staged_ = 0;
  has_copied_ = false;
  for (Peer& peer : peers_) {
    for (uint64_t& planned : peer.planned) planned = 0;
  }
  if (!failed_.ok()) {
    for (uint32_t pe = 0; pe < options_.pes; ++pe) {
      if (options_.far.test(pe)) lose(pe);
    }
  }
  return failed_;
}

void DeviceProxy::run(const Later& later) {
  Peer& peer = peers_[later.pe];
  if (later.what == Later::What::answer) return queue_.answer(later.position, later.value);
  if (later.what == Later::What::complete) return queue_.complete(later.pe, later.position);
  if (peer.is_gone) return;
  MailFrame frame = later.frame;
  if (later.what == Later::What::post) {
    peer.posted = queue_.post({.address = options_.heap + frame.offset,
                               .value = frame.value,
                               .expected = frame.expected,
                               .change = frame.change,
                               .width_log2 = 0,
                               .reserved = 0,
                               .bytes = 1U << frame.width_log2});
    return;
  }
  Bytes body = later.body;
  if (later.what == Later::What::send_word) {
    std::memcpy(&frame.value, body.data(), body.size());
    body = {};
  }
  if (!mail_.send(later.pe, later.lane, frame, body).ok()) lose(later.pe);
}

// ---- what this PE's kernels ask ----

bool DeviceProxy::is_open(uint64_t offset, uint64_t bytes) const {
  return std::any_of(open_.begin(), open_.end(), [&](const Stretch& one) {
    return offset >= one.begin && range_within(offset - one.begin, bytes, one.end - one.begin);
  });
}

bool DeviceProxy::is_here(uint64_t address, uint64_t bytes) const {
  const uint64_t offset = address - options_.heap;
  if (range_within(offset, bytes, options_.heap_bytes) || is_open(offset, bytes)) return true;
  return address + bytes >= address && device_.holds(address, bytes);
}

SymmFailure DeviceProxy::fault_of_bytes(const FarAsk& asked) const {
  if (asked.length == 0 || !asked.answer || !is_open(asked.offset, asked.length))
    return device::kSymmNotSymmetric;
  return is_here(asked.value, asked.length) ? device::kSymmNothing : device::kSymmNotReached;
}

SymmFailure DeviceProxy::fault_of_row(const FarAsk& asked) const {
  if (asked.width_log2 > device::kFarWidthLog2Max || !asked.answer ||
      !row_fits(asked.length, asked.stride_there, asked.width_log2, reach()) ||
      !is_open(asked.offset, row_bytes(asked.length, asked.stride_there, asked.width_log2))) {
    return device::kSymmNotSymmetric;
  }
  const bool is_reached =
      row_fits(asked.length, asked.stride_here, asked.width_log2, device::kFarLengthMax) &&
      is_here(asked.value, row_bytes(asked.length, asked.stride_here, asked.width_log2));
  return is_reached ? device::kSymmNothing : device::kSymmNotReached;
}

// kSymmNothing: it can be carried out.
SymmFailure DeviceProxy::fault_of(const FarAsk& asked) const {
  if (asked.pe >= options_.pes || !options_.far.test(asked.pe)) return device::kSymmNoSuchPe;
  switch (asked.ask) {
    case Ask::put:
    case Ask::get:
      return fault_of_bytes(asked);
    case Ask::put_row:
    case Ask::get_row:
      return fault_of_row(asked);
    case Ask::change:
      if (is_word_change(static_cast<uint8_t>(asked.change), asked.width_log2) &&
          (asked.change != FarChange::fetch || asked.answer) &&
          penstock::is_aligned(asked.offset, uint64_t{1} << asked.width_log2) &&
          is_open(asked.offset, uint64_t{1} << asked.width_log2)) {
        return device::kSymmNothing;
      }
      break;
    case Ask::flush:
      return device::kSymmNothing;
  }
  return device::kSymmNotSymmetric;
}

void DeviceProxy::refuse(const AskedQueue::Taken& taken, SymmFailure why) {
  ++stats_.refused;
  if (taken.asked.answer) queue_.fail(taken.position, why);
}

bool DeviceProxy::take_asked() {
  AskedQueue::Taken next;
  bool took = false;
  for (uint32_t i = 0; i < limits::kFarPending && queue_.peek(&next); ++i) {
    const SymmFailure fault = fault_of(next.asked);
    const bool is_good = fault == device::kSymmNothing;
    if (is_good && peers_[next.asked.pe].pending.size() >= limits::kFarPending) break;
    queue_.take();
    took = true;
    ++stats_.asked;
    if (!is_good || peers_[next.asked.pe].is_gone) {
      refuse(next, is_good ? device::kSymmPeerGone : fault);
    } else {
      peers_[next.asked.pe].pending.push_back({next.position, next.asked, 0, std::nullopt});
    }
  }
  if (took) queue_.publish();
  return took;
}

bool DeviceProxy::send_pending(uint32_t pe) {
  Peer& peer = peers_[pe];
  bool worked = false;
  while (!peer.is_gone && failed_.ok() && !peer.pending.empty()) {
    const uint64_t before = peer.pending.front().sent;
    const bool is_sent = send_next(pe, peer.pending.front());
    worked = worked || is_sent || peer.pending.front().sent != before;
    if (!is_sent) break;
    peer.pending.pop_front();
  }
  return worked;
}

// True: all of it is on its way.
bool DeviceProxy::send_next(uint32_t pe, Pending& next) {
  switch (next.asked.ask) {
    case Ask::put:
    case Ask::put_row:
      return send_bytes(pe, next);
    case Ask::get:
    case Ask::get_row:
      return ask_for_bytes(pe, next);
    case Ask::change:
      return send_change(pe, next);
    case Ask::flush:
      break;
  }
  if (!has_room(pe, MailLane::asked, 0)) return false;
  send_later(pe, MailLane::asked, {.kind = MailKind::flush, .tag = next.position}, {});
  return true;
}

bool DeviceProxy::send_bytes(uint32_t pe, Pending& next) {
  const FarAsk& asked = next.asked;
  const bool is_row = asked.ask == Ask::put_row;
  const uint32_t width_log2 = is_row ? asked.width_log2 : 0;
  const uint64_t most = is_row ? kRowInFrame : kMailBodyMax;
  while (next.sent != asked.length) {
    const uint64_t count = std::min(most, asked.length - next.sent);
    const uint64_t bytes = count << width_log2;
    if (!has_room(pe, MailLane::asked, bytes)) return false;
    const auto staged = stage(bytes);
    if (!staged) return false;
    const uint64_t stride_here = is_row ? asked.stride_here : 1;
    const uint64_t from = asked.value + (next.sent * stride_here << width_log2);
    if (!copy({*staged, from, width_log2, stride_here}, Way::out)) return false;
    const uint64_t stride_there = is_row ? asked.stride_there : 1;
    send_later(pe, MailLane::asked,
               {.kind = is_row ? MailKind::put_row : MailKind::put,
                .width_log2 = static_cast<uint8_t>(width_log2),
                .bytes = static_cast<uint32_t>(bytes),
                .offset = asked.offset + (next.sent * stride_there << width_log2),
                .expected = stride_there},
               *staged);
    next.sent += count;
  }
  later_.push_back({.what = Later::What::answer, .pe = pe, .position = next.position});
  return true;
}

bool DeviceProxy::ask_for_bytes(uint32_t pe, Pending& next) {
  const FarAsk& asked = next.asked;
  const bool is_row = asked.ask == Ask::get_row;
  const uint32_t width_log2 = is_row ? asked.width_log2 : 0;
  if (!next.tag) {
    next.tag = await({.pe = pe,
                      .position = next.position,
                      .kind = MailKind::got,
                      .here = asked.value,
                      .width_log2 = width_log2,
                      .stride = is_row ? asked.stride_here : 1,
                      .left = asked.length << width_log2});
    if (!next.tag) return false;
  }
  const uint64_t most = is_row ? kRowInFrame : kMailBodyMax;
  while (next.sent != asked.length) {
    if (!has_room(pe, MailLane::asked, 0)) return false;
    const uint64_t count = std::min(most, asked.length - next.sent);
    const uint64_t stride_there = is_row ? asked.stride_there : 1;
    send_later(pe, MailLane::asked,
               {.kind = is_row ? MailKind::get_row : MailKind::get,
                .width_log2 = static_cast<uint8_t>(width_log2),
                .offset = asked.offset + (next.sent * stride_there << width_log2),
                .value = count,
                .expected = stride_there,
                .tag = *next.tag},
               {});
    next.sent += count;
  }
  return true;
}

bool DeviceProxy::send_change(uint32_t pe, Pending& next) {
  const FarAsk& asked = next.asked;
  if (!has_room(pe, MailLane::asked, 0)) return false;
  MailFrame frame = {.kind = MailKind::change,
                     .width_log2 = static_cast<uint8_t>(asked.width_log2),
                     .change = static_cast<uint8_t>(asked.change),
                     .offset = asked.offset,
                     .value = asked.value,
                     .expected = asked.expected};
  if (asked.answer) {
    const auto tag = await({.pe = pe, .position = next.position, .kind = MailKind::changed});
    if (!tag) return false;
    frame.tag = *tag;
  }
  send_later(pe, MailLane::asked, frame, {});
  return true;
}

// ---- ends ----

// What was asked of it fails, and kernels that wait for it hear of trouble.
void DeviceProxy::lose(uint32_t pe) {
  Peer& peer = peers_[pe];
  if (peer.is_gone) return;
  peer.is_gone = true;
  for (const Pending& one : peer.pending) {
    // Those with a tag are awaited.
    if (one.asked.answer && !one.tag) queue_.fail(one.position, device::kSymmPeerGone);
  }
  peer.pending.clear();
  for (Awaited& one : awaited_) {
    if (!one.is_used || one.pe != pe) continue;
    queue_.fail(one.position, device::kSymmPeerGone);
    forget(one);
  }
  uint32_t nothing = 0;
  __atomic_compare_exchange_n(options_.trouble, &nothing, 1, false, __ATOMIC_RELEASE,
                              __ATOMIC_RELAXED);
}

}  // namespace penstock::symm
