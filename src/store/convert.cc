#include "convert.h"

#include "old_formats.h"

namespace penstock::store {

using engine::KvMode;
using engine::KvTransaction;

namespace {

Failure interrupted(const Core& core, Status status, const char* what) {
  return {status, fmt::format("{}: converting it to format {}: cannot write {}: {} (remove the "
                              "cause and start again: the conversion goes on where it was)",
                              core.config.directory, kFormatVersion, what, status.name())};
}

Status rewrite(KvTransaction& transaction, const MapBatch& batch) {
  char record[kMapRecordBytesMax];
  for (const MapBatch::Map& one : batch.maps) {
    if (!one.old_key) continue;
    transaction.put(as_view(encode_key(one.key)), {record, encode_map(one.key, one.map, record)});
    transaction.erase(encode_old_key(one.key));
  }
  return Code::ok;
}

// In the order of keys; those that an earlier attempt or batch has converted are met again.
Status rewrite_all(Core& core, uint32_t format, uint64_t& count) {
  MapBatch batch;
  std::string begin;
  do {
    TRY(core.kv.run(KvMode::read, [&](KvTransaction& transaction) -> Status {
      return batch.read(transaction, begin, format, core.config.old_chain, limits::kConvertMaps);
    }));
    TRY(core.kv.run(KvMode::write,
                    [&](KvTransaction& transaction) { return rewrite(transaction, batch); }));
    for (const MapBatch::Map& one : batch.maps) count += one.old_key ? 1 : 0;
    begin = batch.next;
  } while (!begin.empty());
  return Code::ok;
}

}  // namespace

bool MapBatch::visit(std::string_view key, std::string_view record, uint32_t format,
                     ChainId old_chain, Status& status) {
  Map one;
  auto decoded = decode_key(key);
  if (!decoded && format < kFormatVersion) {
    decoded = decode_old_key(key, old_chain);
    one.old_key = decoded.has_value();
  }
  if (!decoded) {
    bad = fmt::format("a key of {} bytes that no target has", key.size());
    status = Code::corrupt;
    return false;
  }
  one.key = *decoded;
  status = decode_map(key, record, one.map);
  if (status.code() == Code::wrong_version && format == kOldFormatVersion && one.old_key) {
    status = decode_map_1(key, record, one.map);
  }
  if (!status.ok()) {
    bad = fmt::format("the block map of inode {} chunk {} at block {}", decoded->chunk.inode.value,
                      decoded->chunk.index, decoded->index * limits::kMapBlocks);
    return false;
  }
  maps.push_back(one);
  return true;
}

Status MapBatch::read(KvTransaction& transaction, const std::string& begin, uint32_t format,
                      ChainId old_chain, size_t count) {
  maps.clear();
  next.clear();
  bad.clear();
  Status status;
  constexpr char kFirst[] = {kMapKeyType};
  constexpr char kAfter[] = {kMapKeyType + 1};
  const std::string_view from = begin.empty() ? std::string_view(kFirst, 1) : begin;
  TRY(transaction.scan(from, std::string_view(kAfter, 1),
                       [&](std::string_view key, std::string_view record) {
                         if (maps.size() == count) {
                           next = key;
                           return false;
                         }
                         return visit(key, record, format, old_chain, status);
                       }));
  return status;
}

// The superblock comes first: from then on programs that know only an old format refuse the target
// for its version, and do not take converted maps for damage. The identity comes last, in a commit
// of its own that makes everything before it durable, so that nothing of an old format is left
// once it says so.
Outcome<bool> convert_target(Core& core, uint32_t format) {
  const std::string path = core.config.directory + "/" + kSuperblockName;
  Status status = core.disk.replace_file(path, encode_superblock(core.identity));
  if (!status.ok()) return interrupted(core, status, "its superblock");
  uint64_t count = 0;
  status = rewrite_all(core, format, count);
  if (!status.ok()) return interrupted(core, status, "its block maps");
  status = core.kv.run(KvMode::write_durable, [&](KvTransaction& transaction) -> Status {
    transaction.put(kIdentityKey, encode_identity(core.identity));
    return Code::ok;
  });
  if (!status.ok()) return interrupted(core, status, "its identity");
  log::info("store: {}: {} block maps converted to format {}", core.config.directory, count,
            kFormatVersion);
  return true;
}

}  // namespace penstock::store
