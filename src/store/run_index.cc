#include "run_index.h"

#include <algorithm>
#include <array>
#include <new>

namespace penstock::store {
namespace {

constexpr uint32_t kFirstShift = 38;
constexpr uint32_t kMoreShift = kFirstShift + 10;
constexpr uint64_t kPlaceMask = (uint64_t{1} << kFirstShift) - 1;
static_assert(limits::kTargetBlocksMax <= uint64_t{1} << kFirstShift);

// Of an array of runs, with what its allocation takes beside it.
constexpr uint64_t bytes_of(size_t runs) {
  constexpr uint64_t kBeside = 16;
  return runs > 1 ? runs * sizeof(uint64_t) + kBeside : 0;
}

// So that one entry fits, however little it may be.
constexpr uint32_t kEntriesMin = 16;

}  // namespace

RunIndex::RunIndex(uint64_t bytes_max)
    // Its buckets are a sixteenth of all.
    : bytes_max_(std::max<uint64_t>(bytes_max / 16 * 15, kEntriesMin * sizeof(Entry))),
      entries_max_(static_cast<uint32_t>(
          std::min<uint64_t>(bytes_max_ / sizeof(Entry), uint64_t{kNone} - 1))),
      bucket_mask_(std::bit_floor(entries_max_ / 2) - 1),
      entries_memory_(uint64_t{entries_max_} * sizeof(Entry)),
      buckets_memory_((uint64_t{bucket_mask_} + 1) * sizeof(uint32_t)),
      entries_(reinterpret_cast<Entry*>(entries_memory_.data())),
      buckets_(reinterpret_cast<uint32_t*>(buckets_memory_.data())) {}

RunIndex::~RunIndex() {
  for (uint32_t i = 0; i < made_; ++i) {
    if (entries_[i].runs > 1) delete[] reinterpret_cast<Word*>(entries_[i].word);
  }
}

RunIndex::Word RunIndex::pack(const MapRun& run) {
  ASSERT(run.count > 0 && run.first + run.count <= kBlocks && run.place <= kPlaceMask);
  return run.place | Word{run.first} << kFirstShift | Word{run.count - 1} << kMoreShift;
}

MapRun RunIndex::unpack(Word word) {
  return {static_cast<uint32_t>(word >> kFirstShift) & (kBlocks - 1),
          static_cast<uint32_t>(word >> kMoreShift) + 1, word & kPlaceMask};
}

std::span<const RunIndex::Word> RunIndex::words_of(const Entry& entry) {
  if (entry.runs <= 1) return {&entry.word, entry.runs};
  return {reinterpret_cast<const Word*>(entry.word), entry.runs};
}

// Neighbouring pieces of a file have neighbouring buckets, so that reading on finds them together.
uint32_t RunIndex::bucket_of(const MapKey& key) const {
  const uint64_t file = mix64(key.chunk.inode.value ^ uint64_t{key.chain.value} << 32);
  constexpr uint32_t kParts = limits::kChunkMapsMax / kMaps;
  static_assert(std::has_single_bit(kParts));
  // Chunks of one part, the usual ones, are neighbours; later parts are elsewhere.
  const uint64_t part = mix64(key.index / kMaps + 1);
  return static_cast<uint32_t>(file + part + key.chunk.index) & bucket_mask_;
}

RunIndex::Entry* RunIndex::find(const MapKey& key) const {
  const auto part = static_cast<uint8_t>(key.index / kMaps);
  for (uint32_t at = buckets_[bucket_of(key)]; at != 0;) {
    Entry& entry = entries_[at - 1];
    if (entry.inode == key.chunk.inode && entry.chunk == key.chunk.index && entry.part == part &&
        entry.chain == key.chain) {
      return &entry;
    }
    at = entry.next == kNone ? 0 : entry.next + 1;
  }
  return nullptr;
}

RunIndex::Known RunIndex::look(const MapKey& key) const {
  const Entry* entry = find(key);
  if (entry == nullptr) return complete_ ? Known::no_map : Known::nothing;
  const uint32_t map = key.index % kMaps;
  if ((entry->known >> map & 1) == 0) return Known::nothing;
  const uint32_t begin = map * limits::kMapBlocks;
  for (const Word word : words_of(*entry)) {
    const MapRun run = unpack(word);
    if (run.first + run.count > begin) {
      return run.first < begin + limits::kMapBlocks ? Known::places : Known::no_map;
    }
  }
  return Known::no_map;
}

void RunIndex::copy(const MapKey& key, uint32_t first, std::span<BlockRef> out) {
  std::fill(out.begin(), out.end(), BlockRef());
  Entry* entry = find(key);
  if (entry == nullptr) return;
  ASSERT((entry->known >> (key.index % kMaps) & 1) != 0);
  entry->referenced = 1;
  const uint32_t begin = key.index % kMaps * limits::kMapBlocks + first;
  const auto end = begin + static_cast<uint32_t>(out.size());
  const std::span<const Word> words = words_of(*entry);
  // The first run that ends behind the beginning.
  auto at = std::partition_point(words.begin(), words.end(), [begin](Word word) {
    const MapRun run = unpack(word);
    return run.first + run.count <= begin;
  });
  for (; at != words.end(); ++at) {
    const MapRun run = unpack(*at);
    if (run.first >= end) break;
    const uint32_t from = std::max(run.first, begin);
    const uint32_t to = std::min(run.first + run.count, end);
    for (uint32_t b = from; b < to; ++b) out[b - begin] = {run.place + (b - run.first), 0};
  }
}

// An entry goes; false if there is none.
bool RunIndex::evict() {
  // Two rounds: the first may only take marks away.
  for (uint64_t step = 0; step < uint64_t{made_} * 2; ++step) {
    if (hand_ >= made_) hand_ = 0;
    Entry& entry = entries_[hand_++];
    if (entry.used == 0) continue;
    if (entry.referenced != 0) {
      entry.referenced = 0;
      continue;
    }
    complete_ = false;
    take_out(entry);
    return true;
  }
  return false;
}

// The next entry goes that has several runs, if there is one nearby.
bool RunIndex::evict_array(const Entry& keep) {
  for (uint32_t step = 0; step < std::min(made_, limits::kRunsLooks); ++step) {
    if (array_hand_ >= made_) array_hand_ = 0;
    Entry& entry = entries_[array_hand_++];
    if (entry.used == 0 || entry.runs <= 1 || &entry == &keep) continue;
    complete_ = false;
    take_out(entry);
    return true;
  }
  return false;
}

void RunIndex::take_out(Entry& entry) {
  ASSERT(entry.used != 0 && size_ > 0);
  (void)set_words(entry, {});
  const MapKey key{entry.chain, {entry.inode, entry.chunk}, entry.part * kMaps};
  const auto number = static_cast<uint32_t>(&entry - entries_);
  uint32_t& head = buckets_[bucket_of(key)];
  if (head == number + 1) {
    head = entry.next == kNone ? 0 : entry.next + 1;
  } else {
    Entry* before = &entries_[head - 1];
    while (before->next != number) before = &entries_[before->next];
    before->next = entry.next;
  }
  entry.used = 0;
  entry.next = std::exchange(free_, number);
  --size_;
}

// Null if there is no room.
RunIndex::Entry* RunIndex::make(const MapKey& key) {
  const bool full = made_ == entries_max_ || bytes() + sizeof(Entry) > bytes_max_;
  if (free_ == kNone && full && !evict()) return nullptr;
  uint32_t number = free_;
  if (number != kNone) {
    free_ = entries_[number].next;
  } else if (made_ < entries_max_) {
    number = made_++;
  } else {
    return nullptr;
  }
  Entry& entry = entries_[number];
  ASSERT(entry.used == 0 && entry.runs == 0);
  entry = Entry{};
  entry.inode = key.chunk.inode;
  entry.chain = key.chain;
  entry.chunk = key.chunk.index;
  entry.part = static_cast<uint8_t>(key.index / kMaps);
  // Where there was nothing while nothing was missing, there is no map.
  entry.known = complete_ ? kAll : 0;
  entry.referenced = entry.used = 1;
  uint32_t& head = buckets_[bucket_of(key)];
  entry.next = head == 0 ? kNone : head - 1;
  head = number + 1;
  ++size_;
  return &entry;
}

bool RunIndex::set_words(Entry& entry, std::span<const Word> words) {
  const auto old = entry.runs > 1 ? reinterpret_cast<Word*>(entry.word) : nullptr;
  Word* array = nullptr;
  if (words.size() > 1) {
    array = words.size() == entry.runs ? old : new (std::nothrow) Word[words.size()];
    if (array == nullptr) return false;
    std::copy(words.begin(), words.end(), array);
  }
  ASSERT(run_bytes_ >= bytes_of(entry.runs));
  run_bytes_ += bytes_of(words.size()) - bytes_of(entry.runs);
  if (old != array) delete[] old;
  entry.runs = static_cast<uint16_t>(words.size());
  entry.word = array != nullptr ? reinterpret_cast<Word>(array) : words.empty() ? 0 : words[0];
  return true;
}

void RunIndex::put(const MapKey& key, const BlockMap& map) {
  std::array<MapRun, limits::kMapBlocks> runs;
  uint32_t count = 0;
  for_each_run(map, [&](const MapRun& run) { runs[count++] = run; });
  put(key, {runs.data(), count}, !map.empty());
}

void RunIndex::put(const MapKey& key, std::span<const MapRun> runs, bool exists) {
  Entry* entry = find(key);
  if (entry == nullptr) {
    // There is none, and that is what no entry says.
    if (!exists && complete_) return;
    entry = make(key);
  }
  if (entry == nullptr) {
    complete_ = false;
    return;
  }
  const uint32_t map = key.index % kMaps;
  const uint32_t begin = map * limits::kMapBlocks;
  std::array<Word, kBlocks> words;
  uint32_t count = 0;
  // Runs that continue one another are one, also where a map ends.
  const auto add = [&](MapRun run) {
    if (count > 0) {
      const MapRun last = unpack(words[count - 1]);
      if (last.first + last.count == run.first && last.place + last.count == run.place) {
        run = {last.first, last.count + run.count, last.place};
        --count;
      }
    }
    words[count++] = pack(run);
  };
  const auto add_others = [&](uint32_t from, uint32_t to) {
    for (const Word word : words_of(*entry)) {
      const MapRun run = unpack(word);
      const uint32_t first = std::max(run.first, from);
      const uint32_t end = std::min(run.first + run.count, to);
      if (first < end) add({first, end - first, run.place + (first - run.first)});
    }
  };
  add_others(0, begin);
  for (const MapRun& run : runs) add({begin + run.first, run.count, run.place});
  add_others(begin + limits::kMapBlocks, kBlocks);
  const uint64_t more = bytes_of(count);
  const auto has_room = [&] { return bytes() - bytes_of(entry->runs) + more <= bytes_max_; };
  while (more > 0 && !has_room() && evict_array(*entry)) continue;
  if ((more > 0 && !has_room()) || !set_words(*entry, {words.data(), count})) {
    take_out(*entry);
    complete_ = false;
    return;
  }
  // Of a map without blocks one would have to know that it exists: it is as if it were unknown.
  const bool known = !exists || !runs.empty();
  const auto bit = static_cast<uint8_t>(1 << map);
  entry->known = static_cast<uint8_t>(known ? entry->known | bit : entry->known & ~bit) & kAll;
}

void RunIndex::forget(const MapKey& key) {
  complete_ = false;
  Entry* entry = find(key);
  if (entry == nullptr) return;
  const auto bit = static_cast<uint8_t>(1 << key.index % kMaps);
  entry->known = static_cast<uint8_t>(entry->known & ~bit) & kAll;
}

}  // namespace penstock::store
