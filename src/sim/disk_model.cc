#include "disk_model.h"

#include <algorithm>
#include <cstring>

namespace penstock::sim::internal {

using engine::DiskOpKind;

namespace {

// Calls `visit(page, offset in it, count, offset in the range)` for every page of a range.
template <class Visit>
void for_each_page(uint64_t offset, uint64_t length, Visit visit) {
  uint64_t done = 0;
  while (done < length) {
    const uint64_t at = offset + done;
    const uint64_t within = at % SimPages::kPageBytes;
    const uint64_t count = std::min(length - done, SimPages::kPageBytes - within);
    visit(at / SimPages::kPageBytes, within, count, done);
    done += count;
  }
}

uint64_t first_page(uint64_t offset) {
  return offset / SimPages::kPageBytes;
}
uint64_t end_page(uint64_t offset) {
  return (offset + SimPages::kPageBytes - 1) / SimPages::kPageBytes;
}

}  // namespace

SimPages::Page& SimPages::writable(uint64_t index) {
  std::shared_ptr<Page>& page = pages_[index];
  if (page == nullptr) {
    page = std::make_shared<Page>();
    page->fill(std::byte{0});
  } else if (page.use_count() > 1) {
    page = std::make_shared<Page>(*page);
  }
  return *page;
}

void SimPages::read(uint64_t offset, MutableBytes to) const {
  for_each_page(offset, to.size(),
                [&](uint64_t index, uint64_t within, uint64_t count, uint64_t done) {
                  const auto found = pages_.find(index);
                  if (found == pages_.end()) {
                    std::memset(to.data() + done, 0, count);
                  } else {
                    std::memcpy(to.data() + done, found->second->data() + within, count);
                  }
                });
}

void SimPages::write(uint64_t offset, Bytes from) {
  for_each_page(offset, from.size(),
                [&](uint64_t index, uint64_t within, uint64_t count, uint64_t done) {
                  std::memcpy(writable(index).data() + within, from.data() + done, count);
                });
}

void SimPages::zero(uint64_t offset, uint64_t length) {
  for_each_page(offset, length, [&](uint64_t index, uint64_t within, uint64_t count, uint64_t) {
    if (count == kPageBytes) {
      pages_.erase(index);
    } else if (pages_.contains(index)) {
      std::memset(writable(index).data() + within, 0, count);
    }
  });
}

void SimPages::share(const SimPages& other, uint64_t offset, uint64_t length) {
  for_each_page(offset, length, [&](uint64_t index, uint64_t, uint64_t, uint64_t) {
    const auto found = other.pages_.find(index);
    if (found == other.pages_.end()) {
      pages_.erase(index);
    } else {
      pages_[index] = found->second;
    }
  });
}

void SimIntervals::insert(uint64_t begin, uint64_t end) {
  if (begin >= end) return;
  auto next = ends_.upper_bound(begin);
  if (next != ends_.begin() && std::prev(next)->second >= begin) --next;
  while (next != ends_.end() && next->first <= end) {
    begin = std::min(begin, next->first);
    end = std::max(end, next->second);
    next = ends_.erase(next);
  }
  ends_.emplace(begin, end);
}

void SimIntervals::erase(uint64_t begin, uint64_t end) {
  if (begin >= end) return;
  auto next = ends_.upper_bound(begin);
  if (next != ends_.begin() && std::prev(next)->second > begin) --next;
  while (next != ends_.end() && next->first < end) {
    const auto [old_begin, old_end] = *next;
    next = ends_.erase(next);
    if (old_begin < begin) ends_.emplace(old_begin, begin);
    if (old_end > end) ends_.emplace(end, old_end);
  }
}

uint64_t SimIntervals::count_missing(uint64_t begin, uint64_t end) const {
  if (begin >= end) return 0;
  uint64_t present = 0;
  auto next = ends_.upper_bound(begin);
  if (next != ends_.begin()) --next;
  for (; next != ends_.end() && next->first < end; ++next) {
    const uint64_t from = std::max(begin, next->first);
    const uint64_t to = std::min(end, next->second);
    if (from < to) present += to - from;
  }
  return end - begin - present;
}

uint64_t SimIntervals::count() const {
  uint64_t sum = 0;
  for (const auto& [begin, end] : ends_) sum += end - begin;
  return sum;
}

void SimContent::apply(const SimChange& change) {
  const uint64_t end = change.offset + change.length;
  switch (change.kind) {
    case DiskOpKind::write:
      pages.write(change.offset, change.data);
      [[fallthrough]];
    case DiskOpKind::allocate:
      allocated.insert(first_page(change.offset), end_page(end));
      size = std::max(size, end);
      return;
    case DiskOpKind::discard:
      pages.zero(change.offset, change.length);
      allocated.erase(end_page(change.offset), first_page(end));
      return;
    case DiskOpKind::read:
    case DiskOpKind::sync:
      ASSERT(false);
  }
}

void apply_torn(SimContent& content, const SimChange& change, engine::Random& random) {
  if (change.kind != DiskOpKind::write) {
    if (random.chance(1, 2)) content.apply(change);
    return;
  }
  uint64_t done = 0;
  while (done < change.length) {
    const uint64_t at = change.offset + done;
    const uint64_t count = std::min(change.length - done, kSimSectorBytes - at % kSimSectorBytes);
    if (random.chance(1, 2)) {
      SimChange sector{DiskOpKind::write, at, count, {}, 0, false};
      sector.data.assign(change.data.begin() + static_cast<ptrdiff_t>(done),
                         change.data.begin() + static_cast<ptrdiff_t>(done + count));
      content.apply(sector);
    }
    done += count;
  }
}

void SimInode::change(SimChange change) {
  change.number = ++changes;
  now.apply(change);
  unsynced.push_back(std::move(change));
}

void SimInode::sync(uint64_t mark) {
  const auto covers = [mark](const SimChange& c) { return c.number <= mark && !c.doomed; };
  if (std::all_of(unsynced.begin(), unsynced.end(), covers)) {
    for (const SimChange& change : unsynced) {
      durable.pages.share(now.pages, change.offset, change.length);
    }
    durable.allocated = now.allocated;
    durable.size = now.size;
    unsynced.clear();
    return;
  }
  keep(covers);
}

void SimInode::sync_newest() {
  keep([this](const SimChange& c) { return c.number == changes; });
}

void SimInode::keep(const std::function<bool(const SimChange&)>& covers) {
  std::vector<SimChange> remaining;
  for (SimChange& change : unsynced) {
    if (!covers(change)) {
      remaining.push_back(std::move(change));
      continue;
    }
    durable.apply(change);
    // An older change that is still in doubt must not come back over this one.
    for (SimChange& older : remaining) {
      const uint64_t begin = std::max(older.offset, change.offset);
      const uint64_t end = std::min(older.offset + older.length, change.offset + change.length);
      if (begin >= end || older.kind != DiskOpKind::write) continue;
      durable.pages.read(begin,
                         MutableBytes(older.data).subspan(begin - older.offset, end - begin));
    }
    std::erase_if(remaining, [&](const SimChange& older) {
      return older.kind == DiskOpKind::discard && older.number < change.number &&
             older.offset < change.offset + change.length &&
             change.offset < older.offset + older.length;
    });
  }
  unsynced = std::move(remaining);
}

void SimInode::fail_sync(uint64_t mark) {
  for (SimChange& change : unsynced) change.doomed |= change.number <= mark;
}

void SimInode::power_cut(SimWorld& world, const SimDiskFaults& faults) {
  for (const SimChange& change : unsynced) {
    const uint64_t draw = world.random().below(1000);
    if (draw < faults.lose_unsynced_permille) continue;
    if (draw < faults.lose_unsynced_permille + faults.tear_unsynced_permille) {
      apply_torn(durable, change, world.random());
    } else {
      durable.apply(change);
    }
  }
  unsynced.clear();
  now = durable;
}

uint64_t SimTree::used_pages() const {
  uint64_t sum = 0;
  for (const auto& [path, inode] : nodes) {
    if (inode != nullptr) sum += inode->now.allocated.count();
  }
  for (const auto& weak : removed) {
    if (const auto inode = weak.lock()) sum += inode->now.allocated.count();
  }
  return sum;
}

bool SimTree::has_room(const SimInode& inode, uint64_t offset, uint64_t length) const {
  const uint64_t more =
      inode.now.allocated.count_missing(first_page(offset), end_page(offset + length));
  return more == 0 || used_pages() + more <= capacity_pages;
}

std::string normalised(const std::string& path) {
  std::string result;
  size_t begin = 0;
  while (begin < path.size()) {
    size_t end = path.find('/', begin);
    if (end == std::string::npos) end = path.size();
    const std::string part = path.substr(begin, end - begin);
    if (!part.empty() && part != ".") result += "/" + part;
    begin = end + 1;
  }
  return result.empty() ? "/" : result;
}

std::string parent_of(const std::string& normalised_path) {
  const size_t slash = normalised_path.rfind('/');
  return slash == 0 ? "/" : normalised_path.substr(0, slash);
}

}  // namespace penstock::sim::internal
