#include "history.h"

#include <algorithm>
#include <cstring>

namespace penstock::store {

void fill_content(uint64_t id, uint32_t begin, MutableBytes to) {
  if (id == 0) {
    std::memset(to.data(), 0, to.size());
    return;
  }
  const uint64_t seed = mix64(id);
  size_t done = 0;
  while (done < to.size()) {
    const uint64_t at = begin + done;
    const uint64_t word = (seed ^ (at / 8)) * 0x9e3779b97f4a7c15ULL | 0x0101010101010101ULL;
    const size_t within = at % 8;
    const size_t count = std::min<size_t>(8 - within, to.size() - done);
    std::memcpy(to.data() + done, reinterpret_cast<const char*>(&word) + within, count);
    done += count;
  }
}

ChunkHistory::Named ChunkHistory::zeros(uint32_t length) {
  Update update;
  update.end = length;
  update.ended = 0;
  update.durable = update.base = true;
  return {0, update};
}

uint64_t ChunkHistory::begin(Update update) {
  updates_.push_back({next_name_, update});
  return next_name_++;
}

void ChunkHistory::end(uint64_t name, uint64_t now) {
  for (Named& named : updates_) {
    if (named.name == name) named.update.ended = now;
  }
}

void ChunkHistory::forget(uint64_t name) {
  std::erase_if(updates_, [name](const Named& named) { return named.name == name; });
}

void ChunkHistory::make_durable(uint64_t time) {
  for (Named& named : updates_) named.update.durable |= named.update.ended < time;
}

void ChunkHistory::make_durable_one(uint64_t name) {
  for (Named& named : updates_) named.update.durable |= named.name == name;
}

std::vector<uint32_t> ChunkHistory::cuts(uint32_t begin, uint32_t end) const {
  std::vector<uint32_t> result{begin, end};
  for (const Named& named : updates_) {
    for (const uint32_t cut : {named.update.begin, named.update.end}) {
      if (begin < cut && cut < end) result.push_back(cut);
    }
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

bool ChunkHistory::matches(const Update& update, uint32_t begin, Bytes bytes) {
  // Most candidates differ at once.
  std::array<std::byte, 256> expected;
  for (size_t done = 0; done < bytes.size(); done += expected.size()) {
    const size_t count = std::min(expected.size(), bytes.size() - done);
    fill_content(update.id, begin + static_cast<uint32_t>(done), {expected.data(), count});
    if (std::memcmp(expected.data(), bytes.data() + done, count) != 0) return false;
  }
  return true;
}

std::string ChunkHistory::complaint(uint32_t begin, uint32_t end, Bytes bytes) const {
  for (const Named& named : updates_) {
    if (named.update.begin <= begin && end <= named.update.end &&
        matches(named.update, begin, bytes)) {
      return fmt::format(
          "bytes [{}, {}) are of update {}, begun at {} and ended at {}, which is "
          "not allowed there",
          begin, end, named.update.id, named.update.started, named.update.ended);
    }
  }
  return fmt::format("bytes [{}, {}) are of no update", begin, end);
}

// Whether what was seen there names one update beyond doubt: a few bytes may agree by chance.
static bool certain(uint32_t begin, uint32_t end, const Update& update) {
  return update.id != 0 && end - begin >= 8;
}

// Of two updates that both cover two places one is the later at both.
std::string ChunkHistory::check_whole(const std::vector<Seen>& seen) {
  for (const Seen& a : seen) {
    for (const Seen& b : seen) {
      const Update& u = *a.update;
      const Update& v = *b.update;
      if (&u == &v || u.base || v.base) continue;
      if (!certain(a.begin, a.end, u) || !certain(b.begin, b.end, v)) continue;
      if (u.begin <= b.begin && b.end <= u.end && v.begin <= a.begin && a.end <= v.end) {
        return fmt::format("updates {} and {} are mixed: [{}, {}) and [{}, {})", u.id, v.id,
                           a.begin, a.end, b.begin, b.end);
      }
    }
  }
  return "";
}

std::string ChunkHistory::check_read(uint32_t offset, Bytes bytes, uint64_t from,
                                     uint64_t to) const {
  const auto length = static_cast<uint32_t>(bytes.size());
  const std::vector<uint32_t> points = cuts(offset, offset + length);
  std::vector<Seen> seen;
  std::vector<const Update*> covering;
  for (size_t i = 0; i + 1 < points.size(); ++i) {
    const uint32_t begin = points[i];
    const uint32_t end = points[i + 1];
    const Bytes part = bytes.subspan(begin - offset, end - begin);
    covering.clear();
    for (const Named& named : updates_) {
      if (named.update.begin <= begin && end <= named.update.end) covering.push_back(&named.update);
    }
    // The newest start among those that ended before the read began.
    uint64_t superseded = 0;
    for (const Update* v : covering) {
      if (v->ended < from) superseded = std::max(superseded, v->started);
    }
    const Update* found = nullptr;
    for (const Update* u : covering) {
      if (u->started > to || u->ended < superseded) continue;
      if (matches(*u, begin, part)) found = u;
    }
    if (found == nullptr) return complaint(begin, end, part);
    seen.push_back({begin, end, found});
  }
  return check_whole(seen);
}

std::string ChunkHistory::see_kept(uint32_t offset, Bytes bytes, std::vector<Seen>& seen) const {
  const std::vector<uint32_t> points = cuts(offset, offset + static_cast<uint32_t>(bytes.size()));
  for (size_t i = 0; i + 1 < points.size(); ++i) {
    const uint32_t begin = points[i];
    const uint32_t end = points[i + 1];
    const Bytes part = bytes.subspan(begin - offset, end - begin);
    uint64_t superseded = 0;
    for (const Named& named : updates_) {
      const Update& v = named.update;
      if (v.begin <= begin && end <= v.end && v.durable && v.ended != Update::kNever) {
        superseded = std::max(superseded, v.started);
      }
    }
    const Update* found = nullptr;
    for (const Named& named : updates_) {
      const Update& u = named.update;
      if (u.begin > begin || end > u.end || u.ended < superseded) continue;
      // Prefer what explains most: the newest of equal content.
      if (matches(u, begin, part)) found = &u;
    }
    if (found == nullptr) return complaint(begin, end, part);
    seen.push_back({begin, end, found});
  }
  return "";
}

std::string ChunkHistory::check_kept(uint32_t offset, Bytes bytes) const {
  std::vector<Seen> seen;
  return see_kept(offset, bytes, seen);
}

std::string ChunkHistory::check_crash(Bytes bytes) {
  seen_.clear();
  const std::string wrong = see_kept(0, bytes, seen_);
  if (!wrong.empty()) return wrong;
  const std::string mixed = check_whole(seen_);
  return mixed.empty() ? check_order() : mixed;
}

std::string ChunkHistory::check_order() const {
  constexpr uint32_t kMap = 256 * kKiB;
  const auto share_map = [](const Update& a, const Update& b) {
    return a.begin / kMap <= (b.end - 1) / kMap && b.begin / kMap <= (a.end - 1) / kMap;
  };
  for (const Seen& seen : seen_) {
    if (!certain(seen.begin, seen.end, *seen.update)) continue;
    for (const Named& named : updates_) {
      const Update& v = named.update;
      if (v.begin > seen.begin || seen.end > v.end || seen.update->ended >= v.started) continue;
      // A clear leaves maps alone in which there was nothing to clear.
      if (v.id == 0) continue;
      // `v` should have replaced what is seen here; no later update may have come without it.
      for (const Seen& other : seen_) {
        const Update& later = *other.update;
        if (!certain(other.begin, other.end, later) || v.ended >= later.started) continue;
        if (!share_map(v, later)) continue;
        return fmt::format(
            "bytes [{}, {}) are of update {}, but update {} ended before update {} "
            "began, which is there",
            seen.begin, seen.end, seen.update->id, v.id, later.id);
      }
    }
  }
  return "";
}

void ChunkHistory::rebase() {
  std::vector<Named> past;
  for (const Seen& seen : seen_) {
    Update update;
    update.id = seen.update->id;
    update.begin = seen.begin;
    update.end = seen.end;
    update.ended = 0;
    update.durable = update.base = true;
    if (!past.empty() && past.back().update.id == update.id &&
        past.back().update.end == update.begin) {
      past.back().update.end = update.end;
    } else {
      past.push_back({0, update});
    }
  }
  updates_ = std::move(past);
  seen_.clear();
}

}  // namespace penstock::store
