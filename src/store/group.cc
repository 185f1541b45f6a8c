// What a group writes to the database.
#include "core.h"

#include <algorithm>

namespace penstock::store {

Status Group::body(engine::KvTransaction& transaction) {
  for (const Group* group = this; group != nullptr; group = group->batch_next) {
    group->write(transaction);
  }
  return Code::ok;
}

void Group::write(engine::KvTransaction& transaction) const {
  const char* at = records.data();
  for (const uint16_t length : lengths) {
    const std::string_view key(at, kMapKeyBytes);
    if (length == 0) {
      transaction.erase(key);
    } else {
      transaction.put(key, {at + kMapKeyBytes, length});
    }
    at += kMapKeyBytes + length;
  }
  ASSERT(at == records.data() + records.size());
  for (const auto& [key, value] : chain_records) {
    if (value.empty()) {
      transaction.erase(key);
    } else {
      transaction.put(key, value);
    }
  }
  // The marks of earlier groups are written over by the last one's.
  if (mark) transaction.put(kLogKey, encode_log_mark(*mark));
}

void Group::append(const EncodedMapKey& key, std::string_view record) {
  records.insert(records.end(), key.begin(), key.end());
  records.insert(records.end(), record.begin(), record.end());
  lengths.push_back(static_cast<uint16_t>(record.size()));
}

// The map's own record, and those of the quarters that have changed: all of them where they begin,
// or cease, to say where blocks are.
void Group::encode(CachedMap& map) {
  char record[std::max(kMapRecordBytesMax, kQuarterRecordBytesMax)];
  const size_t length = map.empty() ? 0 : encode_map(map.key, map, record);
  append(encode_key(map.key), {record, length});
  const bool wide = is_scattered_wide(map);
  for (uint32_t quarter = 0; quarter < limits::kMapQuarters; ++quarter) {
    const auto bit = static_cast<uint8_t>(1 << quarter);
    if ((map.dirty & bit) == 0 && wide == map.stored_wide) continue;
    if (map.mapped_of(quarter) != 0) {
      const size_t of_quarter = encode_quarter(map.key, quarter, map, wide, record);
      append(encode_quarter_key(map.key, quarter), {record, of_quarter});
      map.stored |= bit;
    } else if ((map.stored & bit) != 0) {
      append(encode_quarter_key(map.key, quarter), {});
      map.stored &= static_cast<uint8_t>(~bit);
    }
  }
  map.stored_wide = wide;
  map.dirty = 0;
}

}  // namespace penstock::store
