#include "rocksdb_open.h"

#include "limits.h"
#include "rocksdb_kv.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <rocksdb/cache.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/metadata.h>
#include <rocksdb/table.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace penstock::kv {
namespace {

Failure failure(Status status, const std::string& path, const std::string& reason,
                const std::string& advice) {
  std::string message = fmt::format("metadata database {}: {}", path, reason);
  if (!advice.empty()) message += fmt::format(" ({})", advice);
  return {status, std::move(message)};
}

Failure damaged(const std::string& path, const std::string& reason) {
  return {
      Code::corrupt,
      fmt::format("metadata database damaged: {}: {} (nothing was changed; restore the directory "
                  "from a backup, or move it away to start with an empty file system)",
                  path, reason)};
}

// RocksDB's own notes on an opening that must leave no trace.
class SilentLogger final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

// What is kept in memory until it is written to a table, and as long in the log: less where the
// file system is so small that logs and tables would take much of it.
uint64_t write_buffer_of(const RocksDbOptions& from) {
  const std::string above = std::filesystem::path(from.path).parent_path();
  struct statvfs space {};
  if (::statvfs(above.empty() ? "." : above.c_str(), &space) != 0) return from.write_buffer_bytes;
  const uint64_t total = uint64_t{space.f_blocks} * space.f_frsize;
  const uint64_t share = std::max(total / kWriteBufferShare, kWriteBufferBytesMin);
  return std::min<uint64_t>(from.write_buffer_bytes, share);
}

rocksdb::Options make_options(const RocksDbOptions& from, rocksdb::Env* env) {
  rocksdb::Options options;
  if (env != nullptr) options.env = env;
  options.create_if_missing = false;
  options.paranoid_checks = true;
  // Cuts a torn end of the log off; DurableMark tells whether it was only the end. Recycled logs
  // would make syncs cheaper but cannot be recovered to a point in time.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  options.write_buffer_size = write_buffer_of(from);
  options.max_total_wal_size = std::min(kLogBytesMax, 3 * uint64_t{options.write_buffer_size});
  // A compaction needs room for what it merges: four new tables with the first level, or one table
  // with some ten of the next. Both are about eight write buffers, and twice that for each level
  // that a database of more than ten, a hundred times as much has besides.
  options.max_bytes_for_level_base = 4 * options.write_buffer_size;
  options.target_file_size_base = options.write_buffer_size / 2;
  // Larger ones where there are many, so that most of them stay open.
  options.target_file_size_multiplier = kTableGrowth;
  options.max_bgerror_resume_count = 0;  // going on after errors is ours, see Alarm
  options.max_write_buffer_number = 2;
  // Each creation looks for a name that is not there: the filter saves the walk through the memory
  // table. 10 bits for each of some 100 bytes.
  options.memtable_prefix_bloom_size_ratio = 10.0 / 8 / 100;
  options.memtable_whole_key_filtering = true;
  options.max_background_jobs = 2;
  options.max_open_files = kOpenFilesMax;
  options.max_file_opening_threads = 2;
  options.compression = rocksdb::kNoCompression;
  options.level_compaction_dynamic_level_bytes = true;
  options.bytes_per_sync = 1 * kMiB;
  options.keep_log_file_num = 2;
  options.max_log_file_size = kInfoLogBytesMax;
  options.max_manifest_file_size = 16 * kMiB;
  options.info_log_level = rocksdb::WARN_LEVEL;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  rocksdb::BlockBasedTableOptions table;
  rocksdb::LRUCacheOptions cache;
  cache.capacity = from.block_cache_bytes;
  cache.num_shard_bits = kCacheShardBits;
  cache.high_pri_pool_ratio = kCacheShareOfIndexes;
  table.block_cache = rocksdb::NewLRUCache(cache);
  table.cache_index_and_filter_blocks = true;  // else they are unbounded
  table.cache_index_and_filter_blocks_with_high_priority = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  // In pieces of a block each. A whole filter is some 500 kB of a large table: a database of tens
  // of millions of records would read one from its file for every key that is looked for.
  table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  table.partition_filters = true;
  table.metadata_block_size = kIndexPieceBytes;
  table.pin_top_level_index_and_filter = true;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.format_version = 5;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

enum class DirectoryState { missing, empty, database, other };

Result<DirectoryState> look_at(const std::string& path) {
  DIR* directory = ::opendir(path.c_str());
  if (directory == nullptr) {
    if (errno == ENOENT) return DirectoryState::missing;
    return Status::from_errno(errno);
  }
  DirectoryState state = DirectoryState::empty;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (name == "CURRENT") {
      state = DirectoryState::database;
      break;
    }
    state = DirectoryState::other;
  }
  ::closedir(directory);
  return state;
}

bool sync_path(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return fd && ::fsync(fd.get()) == 0;
}

// Makes a database beside `path` and renames it into place, so that it exists whole or not at all.
Outcome<bool> create(const RocksDbOptions& from, rocksdb::Env* env) {
  const std::string making = from.path + ".creating";
  rocksdb::Options options = make_options(from, env);
  options.create_if_missing = true;
  rocksdb::Status status = rocksdb::DestroyDB(making, options);  // of an earlier, killed attempt
  const auto failed = [&](const std::string& reason, Code code) {
    rocksdb::DestroyDB(making, options).PermitUncheckedError();
    return failure(code, from.path, "cannot create it: " + reason,
                   "check free space and permissions of the directory above");
  };
  // RocksDB would let all users read it. An attempt that was killed may have left it.
  const auto make_private = [&making] {
    return (::mkdir(making.c_str(), 0700) == 0 || errno == EEXIST) &&
           ::chmod(making.c_str(), 0700) == 0;
  };
  if (status.ok() && !make_private()) {
    const int error = errno;
    return failed(std::strerror(error), Status::from_errno(error).code());
  }
  rocksdb::DB* db = nullptr;
  if (status.ok()) status = rocksdb::DB::Open(options, making, &db);
  if (status.ok()) status = db->Close();
  delete db;
  if (!status.ok()) return failed(status.ToString(), from_rocksdb(status).code());
  // The mark exists from the start; a database without one is noticed.
  {
    Result<DurableMark> mark = DurableMark::open(making, true, false);
    if (!mark) return failed(std::string(mark.error().name()), mark.error().code());
  }
  const std::string above = from.path + "/..";
  if (!sync_path(making + "/PENSTOCK") || !sync_path(making) ||
      ::rename(making.c_str(), from.path.c_str()) != 0 || !sync_path(above)) {
    const int error = errno;
    return failed(std::strerror(error), Status::from_errno(error).code());
  }
  return true;
}

// Opens the database without changing anything, and checks what RocksDB would not mind.
Outcome<bool> verify(const RocksDbOptions& from, rocksdb::Env* env, const DurableMark& mark) {
  rocksdb::Options options = make_options(from, env);
  options.info_log = std::make_shared<SilentLogger>();
  rocksdb::DB* opened = nullptr;
  rocksdb::Status status = rocksdb::DB::OpenForReadOnly(options, from.path, &opened);
  const std::unique_ptr<rocksdb::DB> db(opened);
  if (!status.ok()) {
    const bool of_the_system = status.IsIOError() && !status.IsPathNotFound();
    if (of_the_system) return failure(from_rocksdb(status), from.path, status.ToString(), "");
    return damaged(from.path, status.ToString());
  }
  if (db->GetLatestSequenceNumber() < mark.sequence()) {
    return damaged(from.path,
                   fmt::format("its log ends at {}, but {} was already on stable storage",
                               db->GetLatestSequenceNumber(), mark.sequence()));
  }
  rocksdb::ColumnFamilyMetaData tables;
  db->GetColumnFamilyMetaData(&tables);
  if (tables.size <= kVerifyBytesMax) {
    status = db->VerifyChecksum();
    if (!status.ok()) return damaged(from.path, status.ToString());
  }
  return true;
}

Outcome<bool> check_directory(const RocksDbOptions& options, rocksdb::Env* env) {
  const Result<DirectoryState> state = look_at(options.path);
  if (!state) {
    return failure(state.error(), options.path, std::string(state.error().name()), "");
  }
  switch (*state) {
    case DirectoryState::database:
      return true;
    case DirectoryState::missing:
    case DirectoryState::empty:
      if (!options.create || options.read_only) {
        return failure(Code::not_found, options.path, "there is no database", "");
      }
      return create(options, env);
    case DirectoryState::other:
      break;
  }
  return damaged(options.path, "the directory is not empty, but its file CURRENT is missing");
}

}  // namespace

Outcome<std::unique_ptr<Database>> open_database(const Opening& opening, bool read_only) {
  const std::string& path = opening.options.path;
  rocksdb::Env* const below = opening.env == nullptr ? rocksdb::Env::Default() : opening.env;
  auto database = std::make_unique<Database>();
  database->logs = std::make_shared<LogFileSystem>(below->GetFileSystem());
  database->env = rocksdb::NewCompositeEnv(database->logs);
  rocksdb::Options options = make_options(opening.options, database->env.get());
  rocksdb::DB* opened = nullptr;
  rocksdb::Status status;
  if (read_only) {
    options.info_log = std::make_shared<SilentLogger>();
    status = rocksdb::DB::OpenForReadOnly(options, path, &opened);
  } else {
    options.listeners.push_back(opening.alarm);
    status = rocksdb::DB::Open(options, path, &opened);
  }
  database->db.reset(opened);
  if (status.ok()) return database;
  if (status.IsCorruption()) return damaged(path, status.ToString());
  return failure(from_rocksdb(status), path, status.ToString(), "");
}

bool room_to_open(const RocksDbOptions& options) {
  uint64_t logs = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(options.path, error)) {
    if (entry.path().extension() == ".log") logs += entry.file_size(error);
  }
  struct statvfs space {};
  if (::statvfs(options.path.c_str(), &space) != 0) return true;  // opening will tell
  const uint64_t blocks = ::geteuid() == 0 ? space.f_bfree : space.f_bavail;
  return blocks * space.f_frsize >= logs + write_buffer_of(options) + kOpenBytes;
}

Outcome<std::unique_ptr<engine::Kv>> open_rocksdb(const RocksDbOptions& options,
                                                  rocksdb::Env* env) {
  ASSERT(options.worker_threads >= 1 && options.worker_threads <= kWorkerThreadsMax);
  TRY(check_directory(options, env));
  const auto used = [&] {
    return failure(Code::in_use, options.path, "another process uses it",
                   "stop that one first, with 'penstock down' if it is a node");
  };
  Result<DurableMark> mark = DurableMark::open(options.path, false, options.read_only);
  if (!mark) {
    if (mark.error().code() == Code::in_use) return used();
    return failure(mark.error(), options.path, std::string(mark.error().name()),
                   "check the owner and permissions of the directory");
  }
  if (!mark->is_open()) return damaged(options.path, "its file PENSTOCK is missing");
  if (mark->damaged()) return damaged(options.path, "its file PENSTOCK does not verify");
  TRY(verify(options, env, *mark));

  const Opening opening{options, env, std::make_shared<Alarm>()};
  TRY_ASSIGN(std::unique_ptr<Database> database, open_database(opening, options.read_only));
  return std::unique_ptr<engine::Kv>(
      std::make_unique<RocksDbKv>(std::move(database), opening, std::move(*mark)));
}

Outcome<std::unique_ptr<engine::Kv>> open_rocksdb(RocksDbOptions options) {
  return open_rocksdb(options, nullptr);
}

}  // namespace penstock::kv
