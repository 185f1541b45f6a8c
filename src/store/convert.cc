#include "convert.h"

#include "format_1.h"
#include "log_record.h"

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
  for (const auto& [key, map] : batch.maps) {
    transaction.put(as_view(encode_key(key)), {record, encode_map(key, map, record)});
  }
  return Code::ok;
}

// In the order of keys; what an earlier attempt converted is written once more, to the same bytes.
Status rewrite_all(Core& core, uint64_t& count) {
  MapBatch batch;
  std::string begin;
  do {
    TRY(core.kv.run(KvMode::read, [&](KvTransaction& transaction) -> Status {
      return batch.read(transaction, begin, kOldFormatVersion, limits::kConvertMaps);
    }));
    TRY(core.kv.run(KvMode::write,
                    [&](KvTransaction& transaction) { return rewrite(transaction, batch); }));
    count += batch.maps.size();
    begin = batch.next;
  } while (!begin.empty());
  return Code::ok;
}

}  // namespace

Status MapBatch::read(KvTransaction& transaction, const std::string& begin, uint32_t format,
                      size_t count) {
  maps.clear();
  next.clear();
  bad.clear();
  Status status;
  TRY(transaction.scan(begin, "", [&](std::string_view key, std::string_view record) {
    if (key == kIdentityKey || key == kLogKey) return true;
    if (maps.size() == count) {
      next = key;
      return false;
    }
    const auto decoded = decode_key(key);
    if (!decoded) {
      const bool known = key[0] == kMapKeyType;
      bad = known ? fmt::format("a key of {} bytes that no target has", key.size())
                  : fmt::format("a record of a kind that this program does not know ({:#04x})",
                                static_cast<unsigned char>(key[0]));
      status = known ? Code::corrupt : Code::wrong_version;
      return false;
    }
    BlockMap map;
    status = decode_map(*decoded, record, map);
    if (status.code() == Code::wrong_version && format == kOldFormatVersion) {
      status = decode_map_1(*decoded, record, map);
    }
    if (!status.ok()) {
      bad =
          fmt::format("the block map of inode {} chunk {} at block {}", decoded->chunk.inode.value,
                      decoded->chunk.index, decoded->index * limits::kMapBlocks);
      return false;
    }
    maps.emplace_back(*decoded, map);
    return true;
  }));
  return status;
}

// The superblock comes first: from then on programs that know only the old format refuse the target
// for its version, and do not take converted maps for damage. The identity comes last, in a commit
// of its own that makes everything before it durable, so that nothing of the old format is left
// once it says so.
Outcome<bool> convert_target(Core& core) {
  const std::string path = core.config.directory + "/" + kSuperblockName;
  Status status = core.disk.replace_file(path, encode_superblock(core.identity));
  if (!status.ok()) return interrupted(core, status, "its superblock");
  uint64_t count = 0;
  status = rewrite_all(core, count);
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
