// A proxy's mail: what far PEs answer, and what they ask.
#include "device_proxy.h"
#include "far_rows.h"

#include <cstring>

namespace penstock::symm {

using device::FarChange;

namespace {

constexpr uint32_t kFramesInTurn = 64;

}  // namespace

// ---- answers to them ----

// A tag is never 0, which says that no answer is wanted.
std::optional<uint64_t> DeviceProxy::await(const Awaited& what) {
  if (free_.empty()) return std::nullopt;
  const uint32_t index = free_.back();
  free_.pop_back();
  const uint32_t generation = awaited_[index].generation + 1;
  awaited_[index] = what;
  awaited_[index].is_used = true;
  awaited_[index].generation = generation;
  return uint64_t{generation} << 32 | index | uint64_t{1} << 31;
}

DeviceProxy::Awaited* DeviceProxy::awaited(uint64_t tag) {
  const uint64_t index = tag & 0x7fffffff;
  if (index >= awaited_.size()) return nullptr;
  Awaited& found = awaited_[index];
  return found.is_used && found.generation == tag >> 32 ? &found : nullptr;
}

void DeviceProxy::forget(Awaited& what) {
  what.is_used = false;
  free_.push_back(static_cast<uint32_t>(&what - awaited_.data()));
}

// False: nothing has come, or there is no place for it in this turn.
bool DeviceProxy::hear_answer(uint32_t pe) {
  MailFrame frame;
  const Result<bool> came = mail_.peek(pe, MailLane::answered, &frame);
  if (!came) lose(pe);
  if (!came || !*came) return false;
  if (frame.kind == MailKind::flushed && frame.bytes == 0) {
    mail_.take(pe, MailLane::answered, {});
    later_.push_back({.what = Later::What::complete, .pe = pe, .position = frame.tag});
    return true;
  }
  Awaited* const found = awaited(frame.tag);
  if (found == nullptr || found->pe != pe || found->kind != frame.kind) {
    lose(pe);
    return false;
  }
  if (frame.kind == MailKind::got) return land(pe, frame, *found);
  if (frame.bytes != 0) {
    lose(pe);
    return false;
  }
  mail_.take(pe, MailLane::answered, {});
  later_.push_back(
      {.what = Later::What::answer, .pe = pe, .position = found->position, .value = frame.value});
  forget(*found);
  return true;
}

bool DeviceProxy::land(uint32_t pe, const MailFrame& frame, Awaited& awaited) {
  if (frame.bytes == 0 || frame.bytes > awaited.left || frame.bytes > kMailBodyMax ||
      frame.bytes % (1U << awaited.width_log2) != 0) {
    lose(pe);
    return false;
  }
  const auto staged = stage(frame.bytes);
  if (!staged) return false;
  mail_.take(pe, MailLane::answered, *staged);
  copy(
      {*staged, awaited.here + awaited.landed * awaited.stride, awaited.width_log2, awaited.stride},
      Way::in);
  awaited.landed += frame.bytes;
  awaited.left -= frame.bytes;
  if (awaited.left == 0) {
    later_.push_back({.what = Later::What::answer, .pe = pe, .position = awaited.position});
    forget(awaited);
  }
  return failed_.ok();
}

// ---- what far PEs ask ----

bool DeviceProxy::serve_mail(uint32_t pe) {
  bool worked = false;
  for (uint32_t i = 0; i < kFramesInTurn && hear_answer(pe); ++i, ++stats_.frames) worked = true;
  worked = serve_change(pe) || worked;
  for (uint32_t i = 0; i < kFramesInTurn && apply_asked(pe); ++i, ++stats_.frames) worked = true;
  return worked;
}

// Once a kernel has made the change that it asked for.
bool DeviceProxy::serve_change(uint32_t pe) {
  Peer& peer = peers_[pe];
  if (!peer.posted || queue_.served() <= *peer.posted) return false;
  if (peer.change.tag != 0) {
    // Nothing else has answered this PE since there was room.
    send_later(
        pe, MailLane::answered,
        {.kind = MailKind::changed, .value = queue_.before(*peer.posted), .tag = peer.change.tag},
        {});
  }
  peer.posted.reset();
  peer.is_blocked = false;
  return true;
}

bool DeviceProxy::apply_asked(uint32_t pe) {
  Peer& peer = peers_[pe];
  if (peer.is_gone || peer.is_blocked || !failed_.ok()) return false;
  MailFrame frame;
  const Result<bool> came = mail_.peek(pe, MailLane::asked, &frame);
  if (!came) lose(pe);
  return came && *came && apply(pe, frame);
}

bool DeviceProxy::apply(uint32_t pe, const MailFrame& frame) {
  switch (frame.kind) {
    case MailKind::put:
    case MailKind::put_row:
      return apply_put(pe, frame);
    case MailKind::get:
    case MailKind::get_row:
      return apply_get(pe, frame);
    case MailKind::change:
      return apply_change(pe, frame);
    case MailKind::flush:
      if (frame.bytes != 0) break;
      if (!has_room(pe, MailLane::answered, 0)) return false;
      mail_.take(pe, MailLane::asked, {});
      send_later(pe, MailLane::answered, {.kind = MailKind::flushed, .tag = frame.tag}, {});
      return true;
    default:
      break;
  }
  lose(pe);
  return false;
}

bool DeviceProxy::apply_put(uint32_t pe, const MailFrame& frame) {
  const bool is_row = frame.kind == MailKind::put_row;
  const uint32_t width_log2 = is_row ? frame.width_log2 : 0;
  const uint64_t count = uint64_t{frame.bytes} >> width_log2;
  const uint64_t stride = is_row ? frame.expected : 1;
  if (frame.bytes > kMailBodyMax || width_log2 > device::kFarWidthLog2Max || count == 0 ||
      count << width_log2 != frame.bytes || !row_fits(count, stride, width_log2, reach()) ||
      !is_open(frame.offset, row_bytes(count, stride, width_log2))) {
    lose(pe);
    return false;
  }
  const auto staged = stage(frame.bytes);
  if (!staged) return false;
  mail_.take(pe, MailLane::asked, *staged);
  return copy({*staged, options_.heap + frame.offset, width_log2, stride}, Way::in);
}

bool DeviceProxy::apply_get(uint32_t pe, const MailFrame& frame) {
  const bool is_row = frame.kind == MailKind::get_row;
  const uint32_t width_log2 = is_row ? frame.width_log2 : 0;
  const uint64_t stride = is_row ? frame.expected : 1;
  if (frame.bytes != 0 || width_log2 > device::kFarWidthLog2Max || frame.value == 0 ||
      frame.value > kMailBodyMax >> width_log2 ||
      !row_fits(frame.value, stride, width_log2, reach()) ||
      !is_open(frame.offset, row_bytes(frame.value, stride, width_log2))) {
    lose(pe);
    return false;
  }
  const uint64_t bytes = frame.value << width_log2;
  if (!has_room(pe, MailLane::answered, bytes)) return false;
  const auto staged = stage(bytes);
  if (!staged) return false;
  mail_.take(pe, MailLane::asked, {});
  if (!copy({*staged, options_.heap + frame.offset, width_log2, stride}, Way::out)) return false;
  send_later(pe, MailLane::answered,
             {.kind = MailKind::got, .bytes = static_cast<uint32_t>(bytes), .tag = frame.tag},
             *staged);
  return true;
}

bool DeviceProxy::apply_change(uint32_t pe, const MailFrame& frame) {
  const uint64_t width = uint64_t{1} << (frame.width_log2 & 7);
  if (frame.bytes != 0 || !is_word_change(frame.change, frame.width_log2) ||
      !penstock::is_aligned(frame.offset, width) || !is_open(frame.offset, width)) {
    lose(pe);
    return false;
  }
  if (frame.tag != 0 && !has_room(pe, MailLane::answered, 0)) return false;
  const auto change = static_cast<FarChange>(frame.change);
  if (change != FarChange::fetch && change != FarChange::set) {
    mail_.take(pe, MailLane::asked, {});
    peers_[pe].is_blocked = true;
    peers_[pe].change = frame;
    later_.push_back({.what = Later::What::post, .pe = pe, .frame = frame});
    return true;
  }
  const auto staged = stage(width);
  if (!staged) return false;
  mail_.take(pe, MailLane::asked, {});
  has_copied_ = true;
  ++stats_.copies;
  if (change == FarChange::set) {
    std::memcpy(staged->data(), &frame.value, width);
    failed_ = device_.copy_in(options_.heap + frame.offset, *staged);
    return failed_.ok();
  }
  failed_ = device_.copy_out(*staged, options_.heap + frame.offset);
  if (frame.tag == 0) return failed_.ok();
  send_later(pe, MailLane::answered, {.kind = MailKind::changed, .tag = frame.tag}, {});
  later_.back().what = Later::What::send_word;
  later_.back().body = *staged;
  return failed_.ok();
}

}  // namespace penstock::symm
