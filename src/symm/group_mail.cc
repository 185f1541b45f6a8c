#include "group_mail.h"

#include <algorithm>
#include <cstring>

namespace penstock::symm {

uint64_t GroupMail::bytes_for(uint32_t pes) {
  return uint64_t{pes} * kMailLanes * (sizeof(Words) + kMailLaneBytes);
}

Outcome<std::unique_ptr<GroupMail>> GroupMail::make(Group& group) {
  const auto place = group.heap().allocate(bytes_for(group.size()), alignof(Words));
  if (!place) {
    return Failure{Code::no_memory, fmt::format("mail between far GPUs needs {} bytes of symmetric "
                                                "memory on hosts, more than is free",
                                                bytes_for(group.size()))};
  }
  return std::unique_ptr<GroupMail>(new GroupMail(group, *place));
}

GroupMail::GroupMail(Group& group, uint64_t place)
    : group_(group),
      place_(place),
      words_(reinterpret_cast<Words*>(group.heap_address(place))),
      bytes_(group.heap_address(place) + uint64_t{group.size()} * kMailLanes * sizeof(Words)),
      lanes_(uint64_t{group.size()} * kMailLanes) {
  static_assert(kMailLaneBytes % 64 == 0 && kMailLaneBytes >= 3 * mail_bytes(kMailBodyMax));
  std::memset(static_cast<void*>(words_), 0, lanes_.size() * sizeof(Words));
}

GroupMail::~GroupMail() {
  const bool released = group_.heap().release(place_);
  ASSERT(released);
}

// What the target says is foreign input: more than was sent counts as nothing.
uint64_t GroupMail::room(uint32_t pe, MailLane lane) {
  const uint64_t taken = __atomic_load_n(&words(pe, lane).taken, __ATOMIC_ACQUIRE);
  const uint64_t under_way = lanes_[index(pe, lane)].sent - taken;
  return under_way > kMailLaneBytes ? 0 : kMailLaneBytes - under_way;
}

// To the target's instance of what stands here for it: there it is what this PE writes.
Status GroupMail::put(uint32_t pe, MailLane lane, uint64_t at, Bytes from) {
  const uint64_t begin = at % kMailLaneBytes;
  const uint64_t first = std::min<uint64_t>(from.size(), kMailLaneBytes - begin);
  std::byte* const there = bytes(group_.me(), lane);
  TRY(group_.put(there + begin, from.data(), first, pe));
  if (first == from.size()) return {};
  return group_.put(there, from.data() + first, from.size() - first, pe);
}

Status GroupMail::send(uint32_t pe, MailLane lane, const MailFrame& frame, Bytes body) {
  ASSERT(frame.bytes == body.size() && room(pe, lane) >= mail_bytes(body.size()));
  Lane& to = lanes_[index(pe, lane)];
  TRY(put(pe, lane, to.sent, std::as_bytes(std::span(&frame, 1))));
  if (!body.empty()) TRY(put(pe, lane, to.sent + sizeof frame, body));
  to.sent += mail_bytes(body.size());
  return {};
}

// All frames of a turn are told of at once.
Status GroupMail::flush(uint32_t pe) {
  for (const MailLane lane : {MailLane::answered, MailLane::asked}) {
    Lane& one = lanes_[index(pe, lane)];
    // What this PE writes there stands under its own number.
    Words& there = words(group_.me(), lane);
    if (one.sent != one.told) {
      TRY(group_.tell(&there.come, one.sent, pe));
      one.told = one.sent;
    }
    // Not for each frame: who sends has room for some more.
    if (one.taken - one.credited >= kMailLaneBytes / 4) {
      TRY(group_.tell(&there.taken, one.taken, pe));
      one.credited = one.taken;
    }
  }
  return {};
}

Result<bool> GroupMail::peek(uint32_t pe, MailLane lane, MailFrame* out) {
  const Lane& from = lanes_[index(pe, lane)];
  // Pairs with the store that told of it: the bytes came before.
  const uint64_t come = __atomic_load_n(&words(pe, lane).come, __ATOMIC_ACQUIRE) - from.taken;
  if (come == 0) return false;
  // Frames begin at multiples of 64, so a head stands in one piece.
  std::memcpy(out, bytes(pe, lane) + from.taken % kMailLaneBytes, sizeof *out);
  if (come > kMailLaneBytes || out->bytes > kMailBodyMax || mail_bytes(out->bytes) > come)
    return Code::bad_message;
  return true;
}

void GroupMail::take(uint32_t pe, MailLane lane, MutableBytes body) {
  Lane& from = lanes_[index(pe, lane)];
  const uint64_t begin = (from.taken + sizeof(MailFrame)) % kMailLaneBytes;
  const uint64_t first = std::min<uint64_t>(body.size(), kMailLaneBytes - begin);
  if (!body.empty()) {
    std::memcpy(body.data(), bytes(pe, lane) + begin, first);
    std::memcpy(body.data() + first, bytes(pe, lane), body.size() - first);
  }
  from.taken += mail_bytes(body.size());
}

}  // namespace penstock::symm
