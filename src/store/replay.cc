#include "replay.h"

#include "replay_prepares.h"
#include "replayed.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace penstock::store {

using engine::DiskFile;
using engine::DiskOp;
using engine::DiskOpKind;
using engine::KvMode;
using engine::KvTransaction;
using limits::kBlockBytes;
using limits::kMapBlocks;

namespace {

constexpr const char* kOfAnotherVersion =
    "its log was written by another version of this program, most likely a newer one (use that "
    "one)";

// After a crash at any moment of this it begins again, from the same mark and the same records,
// though maps have a part of them already: the same bytes go to the same blocks once more, since
// nothing else is written in between. For that the records that were read must not get lost: after
// a kill they may be in the memory of the operating system or of the drive only, so the file is
// synced first.
class Replay {
 public:
  Replay(Core& core, const LogMark& mark, uint32_t format)
      : core_(core), mark_(mark), format_(format), replayed_(core.kv, format) {}
  ~Replay() {
    for (const auto& [index, file] : files_) core_.disk.close(file);
    if (log_) core_.disk.close(*log_);
  }

  // Brings back everything behind the mark; the mark `next` is committed together with the last of
  // it.
  Outcome<bool> run(const std::vector<std::string>& names, const LogMark& next);
  // The open file of the log.
  DiskFile take_log() { return *std::exchange(log_, std::nullopt); }
  uint64_t records() const { return records_; }

 private:
  Status transfer(DiskOpKind kind, DiskFile file, uint64_t offset, std::byte* memory,
                  uint64_t length, uint64_t* transferred = nullptr);
  Outcome<bool> open_log(const std::vector<std::string>& names);
  // The record of this number; not_found at the end of the log.
  Result<LogRecord> read(uint64_t number, uint64_t offset);
  Outcome<bool> apply(const LoggedWrite& write);
  Outcome<bool> apply(const LoggedPrepare& prepare);
  Outcome<bool> put_bytes(BlockNumber physical, Bytes block);
  Status put_maps(const LoggedWrite& write);
  Outcome<DiskFile> data_file(uint32_t index);
  Outcome<bool> commit(const LogMark* next);
  Failure failure(Status status, const std::string& what) const {
    return {status, fmt::format("{}: {}", core_.config.directory, what)};
  }

  Core& core_;
  const LogMark mark_;
  const uint32_t format_;  // an old one is converted later
  std::optional<DiskFile> log_;
  std::optional<MappedMemory> memory_;
  std::map<uint32_t, DiskFile> files_;
  Replayed replayed_;  // since the last commit
  uint64_t records_ = 0;
};

Status Replay::transfer(DiskOpKind kind, DiskFile file, uint64_t offset, std::byte* memory,
                        uint64_t length, uint64_t* transferred) {
  DiskOp op;
  op.kind = kind;
  op.file = file;
  op.offset = offset;
  op.length = length;
  op.memory = {memory, memory == nullptr ? 0 : length, engine::kNoBuffer, engine::MemoryKind::host};
  engine::PollingCaller caller;
  const Status status = caller.call(core_.loop, [&](engine::Op& done) {
    op.owner = &done;
    op.completion = [](engine::Op& self) {
      auto& end = self.owner_as<engine::Op>();
      end.status = self.status;
      end.completion(end);
    };
    core_.disk.submit(op);
  });
  if (transferred != nullptr) *transferred = op.transferred;
  return status;
}

Outcome<bool> Replay::open_log(const std::vector<std::string>& names) {
  const std::string path = core_.config.directory + "/" + kLogFileName;
  if (std::find(names.begin(), names.end(), kLogFileName) == names.end()) {
    return failure(Code::corrupt,
                   fmt::format("its log '{}' is missing, which holds writes that were acknowledged "
                               "(restore it, or the whole target from one backup)",
                               kLogFileName));
  }
  TRY_ASSIGN(log_, core_.disk.open(path, {}));
  const Result<uint64_t> size = core_.disk.size(*log_);
  if (!size) return failure(size.error(), fmt::format("{}: {}", kLogFileName, size.error().name()));
  if (*size < mark_.size) {
    return failure(Code::corrupt,
                   fmt::format("its log '{}' has {} bytes instead of {} (restore it, or the whole "
                               "target from one backup)",
                               kLogFileName, *size, mark_.size));
  }
  memory_.emplace(log_record_bytes(mark_.size));
  if (!*memory_) return failure(Code::no_memory, "not enough memory to read its log");
  const Status synced = transfer(DiskOpKind::sync, *log_, 0, nullptr, 0);
  if (!synced.ok()) {
    return failure(synced,
                   fmt::format("its log '{}' cannot be synced: {}", kLogFileName, synced.name()));
  }
  return true;
}

Result<LogRecord> Replay::read(uint64_t number, uint64_t offset) {
  Result<LogRecord> record = Code::not_found;
  // Once more when it looks like the end: what a drive delivers is not always what it holds.
  for (int attempt = 0; attempt < 2 && !record; ++attempt) {
    const uint64_t length = log_record_bytes(mark_.size);
    uint64_t transferred = 0;
    TRY(transfer(DiskOpKind::read, *log_, offset, memory_->data(), length, &transferred));
    const LogIdentity wanted{core_.identity.uuid, mark_.epoch, number};
    const Bytes bytes(memory_->data(), transferred);
    record = format_ < 3 ? decode_log_record_2(wanted, core_.config.old_chain, bytes)
                         : decode_log_record(wanted, bytes);
    if (!record && record.error().code() != Code::not_found) break;
  }
  return record;
}

Outcome<DiskFile> Replay::data_file(uint32_t index) {
  if (const auto found = files_.find(index); found != files_.end()) return found->second;
  const std::string path = core_.config.directory + "/" + DataFiles::name(index);
  TRY_ASSIGN(const DiskFile file, core_.disk.open(path, {}));
  files_.emplace(index, file);
  return file;
}

Outcome<bool> Replay::put_bytes(BlockNumber physical, Bytes block) {
  ASSERT(block.size() == kBlockBytes);
  const uint32_t index = DataFiles::index_of(physical);
  TRY_ASSIGN(const DiskFile file, data_file(index));
  const uint64_t offset = DataFiles::offset_of(physical);
  const Result<uint64_t> size = core_.disk.size(file);
  Status status = size ? Status() : size.error();
  // The data file had grown, and a power cut took that back.
  if (status.ok() && *size < offset + kBlockBytes) {
    status = transfer(DiskOpKind::allocate, file, *size / kBlockBytes * kBlockBytes, nullptr,
                      offset + kBlockBytes - *size / kBlockBytes * kBlockBytes);
  }
  if (status.ok()) {
    std::byte* const bytes = memory_->data() + (block.data() - memory_->data());
    status = transfer(DiskOpKind::write, file, offset, bytes, kBlockBytes);
  }
  if (status.ok()) return true;
  const char* advice = status.code() == Code::no_space ? " (make room and start again)" : "";
  return failure(status,
                 fmt::format("an update that its log '{}' holds cannot be brought to {}: {}{}; "
                             "nothing is lost",
                             kLogFileName, DataFiles::name(index), status.name(), advice));
}

// As the updater makes a write visible.
Status Replay::put_maps(const LoggedWrite& write) {
  for (uint32_t i = 0; i < write.blocks.size(); ++i) {
    const uint32_t block = write.first_block + i;
    const MapKey key{write.chain, write.chunk, block / kMapBlocks};
    TRY_ASSIGN(BlockMap* const map, replayed_.map_of(key));
    map->blocks[block % kMapBlocks] = write.blocks[i];
    const uint64_t map_begin = uint64_t{key.index} * limits::kMapBytes;
    const uint64_t end = std::min<uint64_t>(write.end - map_begin, limits::kMapBytes);
    map->valid_end = std::max(map->valid_end, static_cast<uint32_t>(end));
  }
  return Code::ok;
}

Outcome<bool> Replay::apply(const LoggedWrite& write) {
  for (size_t i = 0; i < write.blocks.size(); ++i) {
    TRY(put_bytes(write.blocks[i].physical, write.bytes.subspan(i * kBlockBytes, kBlockBytes)));
  }
  const Status status = put_maps(write);
  if (!status.ok()) {
    return failure(status, fmt::format("the block maps of inode {} chunk {} cannot be read: {}",
                                       write.chunk.inode.value, write.chunk.index, status.name()));
  }
  return true;
}

Outcome<bool> Replay::apply(const LoggedPrepare& prepare) {
  const Result<bool> done = replay_prepare(replayed_, prepare);
  if (!done) {
    const ChunkId chunk = prepare.at.chunk;
    return failure(done.error(),
                   fmt::format("an update of inode {} chunk {} that its log '{}' holds cannot be "
                               "brought back: {} (restore the database and the log from one "
                               "backup)",
                               chunk.inode.value, chunk.index, kLogFileName, done.error().name()));
  }
  if (!*done) return true;
  const std::vector<PendingBlock>& blocks = prepare.update.blocks;
  for (size_t i = 0; i < blocks.size(); ++i) {
    TRY(put_bytes(blocks[i].ref.physical, prepare.bytes.subspan(i * kBlockBytes, kBlockBytes)));
  }
  return true;
}

// Commits the maps of whole records; without `next` the mark stays.
Outcome<bool> Replay::commit(const LogMark* next) {
  for (const auto& [index, file] : files_) {
    const Status synced = transfer(DiskOpKind::sync, file, 0, nullptr, 0);
    if (synced.ok()) continue;
    return failure(synced,
                   fmt::format("{} cannot be synced: {}", DataFiles::name(index), synced.name()));
  }
  const KvMode mode = next != nullptr ? KvMode::write_durable : KvMode::write;
  const Status status = core_.kv.run(mode, [&](KvTransaction& transaction) -> Status {
    replayed_.write(transaction);
    if (next != nullptr) transaction.put(kLogKey, encode_log_mark(*next));
    return Code::ok;
  });
  if (!status.ok()) {
    return failure(status, fmt::format("cannot write to the database: {}", status.name()));
  }
  replayed_.clear();
  return true;
}

Outcome<bool> Replay::run(const std::vector<std::string>& names, const LogMark& next) {
  TRY(open_log(names));
  uint64_t offset = mark_.offset;
  for (uint64_t number = mark_.number;; ++number) {
    const Result<LogRecord> record = read(number, offset);
    if (!record && record.error().code() == Code::not_found) break;
    if (!record && record.error().code() == Code::wrong_version) {
      return failure(record.error(), kOfAnotherVersion);
    }
    if (!record) {
      return failure(record.error(), fmt::format("its log '{}' cannot be read at {}: {}",
                                                 kLogFileName, offset, record.error().name()));
    }
    for (const LoggedWrite& write : record->writes) TRY(apply(write));
    for (const LoggedPrepare& prepare : record->prepares) TRY(apply(prepare));
    ++records_;
    core_.counters.replayed.add();
    offset = next_record_at(offset + record->length, mark_.size);
    if (replayed_.size() >= limits::kReplayMaps) TRY(commit(nullptr));
    // The file cannot hold more records.
    if (records_ > mark_.size / kBlockBytes) return failure(Code::corrupt, "its log has no end");
  }
  return commit(&next);
}

}  // namespace

Outcome<bool> replay_log(Core& core, const std::string& record, uint32_t format,
                         const std::vector<std::string>& names) {
  Result<LogMark> mark = decode_log_mark(record);
  if (!mark && mark.error().code() == Code::wrong_version) {
    return Failure{mark.error(), fmt::format("{}: {}", core.config.directory, kOfAnotherVersion)};
  }
  if (!mark) {
    return Failure{mark.error(), fmt::format("{}: what its database says of its log: {}",
                                             core.config.directory, mark.error().name())};
  }
  // A new epoch: else old records that lie behind a torn one could continue what is written before
  // them from now on.
  const LogMark next{mark->epoch + 1, 1, 0, mark->size, 0};
  Replay replay(core, *mark, format);
  TRY(replay.run(names, next));
  if (replay.records() > 0) {
    log::info("store: {}: {} records of '{}' brought to their places", core.config.directory,
              replay.records(), kLogFileName);
  }
  if (const Status opened = core.write_log.open(replay.take_log(), next); !opened.ok()) {
    return Failure{opened, fmt::format("{}: not enough memory for its log", core.config.directory)};
  }
  return true;
}

}  // namespace penstock::store
