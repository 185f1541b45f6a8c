#include "map_records.h"

#include <algorithm>
#include <string>
#include <vector>

namespace penstock::store {

using engine::KvTransaction;
using limits::kMapQuarters;

namespace {

// Of the maps that one chunk has from `first` on, in the order of their keys.
class QuarterReader {
 public:
  QuarterReader(const MapKey& first, std::span<BlockMap> found, std::span<const bool> wide)
      : first_(first), found_(found), wide_(wide) {}

  Status read(KvTransaction& transaction) {
    const MapKey end{first_.chain, first_.chunk,
                     first_.index + static_cast<uint32_t>(found_.size())};
    const EncodedMapKey from = encode_quarter_key(first_, 0);
    const EncodedMapKey to = encode_quarter_key(end, 0);
    Status bad;
    TRY(transaction.scan(as_view(from), as_view(to),
                         [&](std::string_view key, std::string_view record) {
                           bad = take(key, record);
                           return bad.ok();
                         }));
    TRY(bad);
    return check();
  }

 private:
  Status take(std::string_view text, std::string_view record) {
    const auto key = decode_quarter_key(text);
    if (!key) return Code::corrupt;
    const uint32_t i = key->map.index - first_.index;
    ASSERT(i < found_.size());
    if (found_[i].empty()) return Code::corrupt;
    TRY(decode_quarter(key->map, key->quarter, record, wide_[i], found_[i]));
    seen_[i] |= static_cast<uint8_t>(1 << key->quarter);
    return Code::ok;
  }

  // What one transaction wrote is there as a whole.
  Status check() const {
    for (uint32_t i = 0; i < found_.size(); ++i) {
      for (uint32_t quarter = 0; quarter < kMapQuarters; ++quarter) {
        const bool has_record = (seen_[i] >> quarter & 1) != 0;
        if (has_record != (found_[i].mapped_of(quarter) != 0)) return Code::corrupt;
      }
      if (wide_[i] && !is_scattered_wide(found_[i])) return Code::corrupt;
    }
    return Code::ok;
  }

  const MapKey first_;
  const std::span<BlockMap> found_;
  const std::span<const bool> wide_;
  std::array<uint8_t, limits::kChunkMapsMax> seen_{};
};

}  // namespace

Status read_maps(KvTransaction& transaction, const MapKey& first, std::span<BlockMap> found) {
  const auto count = static_cast<uint32_t>(found.size());
  ASSERT(count > 0 && first.index + count <= limits::kChunkMapsMax);
  std::array<bool, limits::kChunkMapsMax> wide{};
  for (BlockMap& map : found) map.reset();
  const EncodedMapKey from = encode_key(first);
  const EncodedMapKey to = encode_key({first.chain, first.chunk, first.index + count});
  Status bad;
  bool any = false;
  TRY(transaction.scan(as_view(from), as_view(to),
                       [&](std::string_view text, std::string_view record) {
                         const auto key = decode_key(text);
                         any = true;
                         bad = key ? decode_map(*key, record, found[key->index - first.index],
                                                wide[key->index - first.index])
                                   : Status(Code::corrupt);
                         return bad.ok();
                       }));
  TRY(bad);
  if (!any) return Code::ok;
  return QuarterReader(first, found, {wide.data(), count}).read(transaction);
}

Status read_places(KvTransaction& transaction, const MapKey& key, std::string_view record,
                   BlockMap& map) {
  bool wide = false;
  TRY(decode_map(key, record, map, wide));
  if (!wide) return Code::ok;
  return QuarterReader(key, {&map, 1}, {&wide, 1}).read(transaction);
}

Status scan_places(KvTransaction& transaction, std::string_view begin, std::string_view end,
                   size_t limit, const MapVisitor& visit) {
  // Quarters are read when the scan is over.
  std::vector<std::pair<MapKey, std::string>> records;
  Status bad;
  TRY(transaction.scan(begin, end, [&](std::string_view text, std::string_view record) {
    const auto key = decode_key(text);
    if (!key) {
      bad = Code::corrupt;
      return false;
    }
    records.emplace_back(*key, record);
    return records.size() < limit;
  }));
  TRY(bad);
  BlockMap map;
  for (const auto& [key, record] : records) {
    TRY(read_places(transaction, key, record, map));
    visit(key, map);
  }
  return Code::ok;
}

void write_map(KvTransaction& transaction, const MapKey& key, const BlockMap& map) {
  char record[std::max(kMapRecordBytesMax, kQuarterRecordBytesMax)];
  const EncodedMapKey name = encode_key(key);
  if (map.empty()) {
    transaction.erase(as_view(name));
  } else {
    transaction.put(as_view(name), {record, encode_map(key, map, record)});
  }
  const bool wide = is_scattered_wide(map);
  for (uint32_t quarter = 0; quarter < kMapQuarters; ++quarter) {
    const EncodedMapKey of_quarter = encode_quarter_key(key, quarter);
    if (map.mapped_of(quarter) == 0) {
      transaction.erase(as_view(of_quarter));
    } else {
      const size_t length = encode_quarter(key, quarter, map, wide, record);
      transaction.put(as_view(of_quarter), {record, length});
    }
  }
}

}  // namespace penstock::store
