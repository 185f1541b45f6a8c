// A copy of an open database.
#include "durable_mark.h"
#include "rocksdb_kv.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <rocksdb/utilities/checkpoint.h>
#include <shared_mutex>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::kv {
namespace {

// Made in a directory that only its owner enters: RocksDB lets all users read what it makes.
constexpr const char* kMakingSuffix = ".making";

Status errno_status() {
  return Status::from_errno(errno);
}

Status make_copy(rocksdb::DB& db, const std::string& path) {
  rocksdb::Checkpoint* made = nullptr;
  const rocksdb::Status created = rocksdb::Checkpoint::Create(&db, &made);
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  if (!created.ok()) return from_rocksdb(created);
  // However long the log is, it is copied: a flush would make tables of the database, too.
  constexpr uint64_t kNeverFlush = UINT64_MAX;
  const rocksdb::Status copied = checkpoint->CreateCheckpoint(path, kNeverFlush);
  if (!copied.ok()) {
    log::error("metadata database {}: cannot be copied to {}: {}", db.GetName(), path,
               copied.ToString());
  }
  return from_rocksdb(copied);
}

Status add_mark(const std::string& path, uint64_t sequence) {
  TRY_ASSIGN(DurableMark mark, DurableMark::open(path, true, false));
  ASSERT(mark.is_open());
  mark.advance(sequence);
  return {};
}

}  // namespace

Outcome<void> RocksDbKv::checkpoint(const std::string& path) {
  const std::string making = path + kMakingSuffix, copy = making + "/database";
  const auto failed = [&](Status status) {
    std::error_code ignored;
    std::filesystem::remove_all(making, ignored);
    return Failure{status, fmt::format("metadata database {}: cannot be copied to {}: {}",
                                       options_.path, path, status.name())};
  };
  std::error_code error;
  std::filesystem::remove_all(making, error);  // of an attempt that was killed
  if (error) return failed(Status::from_errno(error.value()));
  if (::mkdir(making.c_str(), 0700) != 0) return failed(errno_status());
  {
    const std::shared_lock use(uses_);
    if (database_ == nullptr) return failed(Code::io_error);
    if (const Status stopped = alarm_->status(); !stopped.ok()) return failed(stopped);
    // What is committed from here on may be in the copy, too.
    const uint64_t committed = committed_.load();
    Status status = make_copy(*database_->db, copy);
    if (status.ok()) status = add_mark(copy, committed);
    if (!status.ok()) return failed(status);
  }
  if (::chmod(copy.c_str(), 0700) != 0 || ::rename(copy.c_str(), path.c_str()) != 0) {
    return failed(errno_status());
  }
  ::rmdir(making.c_str());
  return {};
}

Outcome<void> make_checkpoint(engine::Kv& kv, const std::string& path) {
  auto* const database = dynamic_cast<RocksDbKv*>(&kv);
  if (database != nullptr) return database->checkpoint(path);
  return Failure{Code::not_supported, "this store makes no copies of itself"};
}

}  // namespace penstock::kv
