#include "update_effect.h"

#include <algorithm>
#include <cstring>

namespace penstock::store {

using limits::kBlockBytes;
using limits::kChunkBytesMax;

UpdateEffect::UpdateEffect(std::span<const UpdatePart> parts, uint32_t length)
    : parts_(parts.begin(), parts.end()), length_(length) {
  segments_[0] = {0, static_cast<uint32_t>(kChunkBytesMax), Source::base, 0};
  uint64_t taken = 0;
  for (const UpdatePart& part : parts_) {
    removed_ = takes_all(part.kind);
    if (part.kind == UpdateKind::write) {
      set(part.begin, part.end, Source::bytes, taken);
      taken += part.end - part.begin;
      length_ = std::max(length_, part.end);
      continue;
    }
    const bool to_end = takes_all(part.kind) || part.end == kWholeChunk;
    const uint32_t begin = takes_all(part.kind) ? 0 : part.begin;
    set(begin, to_end ? static_cast<uint32_t>(kChunkBytesMax) : part.end, Source::zeros, 0);
    if (to_end) length_ = std::min(length_, begin);
  }
}

void UpdateEffect::split(uint32_t at) {
  if (at >= kChunkBytesMax || segments_.contains(at)) return;
  Segment& first = std::prev(segments_.upper_bound(at))->second;
  ASSERT(first.begin < at && at < first.end);
  Segment second = first;
  second.begin = at;
  second.at += at - first.begin;
  first.end = at;
  segments_[at] = second;
}

void UpdateEffect::set(uint32_t begin, uint32_t end, Source source, uint64_t at) {
  if (begin >= end) return;
  split(begin);
  split(end);
  segments_.erase(segments_.lower_bound(begin), segments_.lower_bound(end));
  segments_[begin] = {begin, end, source, at};
}

uint32_t UpdateEffect::begin() const {
  for (const auto& [at, segment] : segments_) {
    if (segment.source != Source::base) return segment.begin;
  }
  return 0;
}

uint32_t UpdateEffect::end() const {
  for (auto it = segments_.rbegin(); it != segments_.rend(); ++it) {
    if (it->second.source != Source::base) return it->second.end;
  }
  return 0;
}

UpdateEffect::Range UpdateEffect::range(uint32_t length_before) const {
  const uint32_t first = std::min(begin(), static_cast<uint32_t>(kChunkBytesMax) - 1);
  const uint32_t last = std::min(end(), std::max(length_before, length_));
  return {first, std::max(last, first + 1)};
}

template <class Visit>
void UpdateEffect::visit(uint32_t begin, uint32_t end, Visit visit) const {
  for (auto it = std::prev(segments_.upper_bound(begin)); it != segments_.end(); ++it) {
    Segment segment = it->second;
    if (segment.begin >= end) return;
    if (segment.begin < begin) {
      segment.at += begin - segment.begin;
      segment.begin = begin;
    }
    segment.end = std::min(segment.end, end);
    visit(segment);
  }
}

UpdateEffect::Block UpdateEffect::block(uint32_t index) const {
  ASSERT(index < limits::kChunkBlocksMax);
  bool base = false, zeros = false, bytes = false;
  const auto begin = static_cast<uint32_t>(index * kBlockBytes);
  visit(begin, begin + static_cast<uint32_t>(kBlockBytes), [&](const Segment& segment) {
    base |= segment.source == Source::base;
    zeros |= segment.source == Source::zeros;
    bytes |= segment.source == Source::bytes;
  });
  if (bytes) return base ? Block::combined : Block::written;
  if (zeros) return base ? Block::trimmed : Block::zeros;
  return Block::stays;
}

void UpdateEffect::apply(uint32_t index, Bytes bytes, std::byte* content) const {
  const auto begin = static_cast<uint32_t>(index * kBlockBytes);
  visit(begin, begin + static_cast<uint32_t>(kBlockBytes), [&](const Segment& segment) {
    std::byte* const to = content + (segment.begin - begin);
    const size_t length = segment.end - segment.begin;
    if (segment.source == Source::zeros) std::memset(to, 0, length);
    if (segment.source != Source::bytes) return;
    ASSERT(segment.at + length <= bytes.size());
    std::memcpy(to, bytes.data() + segment.at, length);
  });
}

uint32_t UpdateEffect::valid_end(uint32_t map, uint32_t before) const {
  const uint64_t begin = uint64_t{map} * limits::kMapBytes;
  const uint64_t end = begin + limits::kMapBytes;
  uint64_t valid = begin + before;  // `begin`: nothing
  for (const UpdatePart& part : parts_) {
    if (part.kind == UpdateKind::write) {
      if (part.begin < end && part.end > begin) {
        valid = std::max(valid, std::min<uint64_t>(part.end, end));
      }
    } else if (takes_all(part.kind)) {
      valid = begin;
    } else if (part.end == kWholeChunk) {
      valid = std::max(begin, std::min<uint64_t>(valid, part.begin));
    }
  }
  return static_cast<uint32_t>(valid - begin);
}

}  // namespace penstock::store
