// Transactions on RocksDB: reads from a snapshot, changes in an overlay, validation by Versions,
// one write batch. RocksDB's own optimistic transactions are not used: they conflict on keys that
// are overwritten unread, or do not lock them at all, and they keep old memtables for validation.
#include "rocksdb_kv.h"

#include "limits.h"
#include "overlay.h"

#include <rocksdb/write_batch.h>
#include <shared_mutex>

namespace penstock::kv {
namespace {

rocksdb::Slice slice(std::string_view text) {
  return {text.data(), text.size()};
}

std::string_view view(const rocksdb::Slice& text) {
  return {text.data(), text.size()};
}

struct IteratorCursor {
  rocksdb::Iterator& iterator;

  bool valid() const { return iterator.Valid(); }
  std::string_view key() const { return view(iterator.key()); }
  std::string_view value() const { return view(iterator.value()); }
  void next() { iterator.Next(); }
};

}  // namespace

Status from_rocksdb(const rocksdb::Status& status) {
  const auto detail = static_cast<uint32_t>(status.code());
  if (status.ok()) return {};
  if (status.IsNoSpace() || status.subcode() == rocksdb::Status::kSpaceLimit) {
    return {Code::no_space, detail};
  }
  if (status.IsCorruption()) return {Code::corrupt, detail};
  if (status.IsShutdownInProgress()) return {Code::closed, detail};
  if (status.IsMemoryLimit()) return {Code::no_memory, detail};
  return {Code::io_error, detail};
}

class RocksDbKv::Transaction final : public engine::KvTransaction {
 public:
  Transaction(rocksdb::DB& db, bool writing) : db_(db), writing_(writing) {}
  ~Transaction() override {
    if (read_options_.snapshot != nullptr) db_.ReleaseSnapshot(read_options_.snapshot);
  }

  Result<std::optional<std::string>> get(std::string_view key) override {
    if (const auto* change = overlay_.find(key)) return *change;
    take_snapshot();
    if (writing_) footprint_.read(key);
    std::string value;
    const rocksdb::Status status = db_.Get(read_options_, slice(key), &value);
    if (status.ok()) return std::optional<std::string>(std::move(value));
    if (status.IsNotFound()) return std::optional<std::string>();
    return failed("read", status);
  }

  void put(std::string_view key, std::string_view value) override {
    ASSERT(writing_);
    footprint_.write(key);
    overlay_.put(key, value);
  }

  void erase(std::string_view key) override {
    ASSERT(writing_);
    footprint_.write(key);
    overlay_.erase(key);
  }

  Status scan(std::string_view begin, std::string_view end, const Visitor& visit) override {
    if (!end.empty() && end <= begin) return {};
    take_snapshot();
    rocksdb::ReadOptions options = read_options_;
    const rocksdb::Slice bound = slice(end);
    if (!end.empty()) options.iterate_upper_bound = &bound;
    const std::unique_ptr<rocksdb::Iterator> iterator(db_.NewIterator(options));
    iterator->Seek(slice(begin));
    IteratorCursor cursor{*iterator};
    overlay_.scan(cursor, begin, end, [&](std::string_view key, std::string_view value) {
      // Keys of our own join the read set too: harmless, since writing locks them anyway.
      if (writing_) footprint_.read(key);
      return visit(key, value);
    });
    if (!iterator->status().ok()) return failed("scan", iterator->status());
    return {};
  }

  const Overlay::Changes& changes() const { return overlay_.changes(); }
  Versions::Footprint& footprint() { return footprint_; }
  // Without a snapshot nothing was read, and nothing can conflict.
  Version snapshot_version() const {
    return read_options_.snapshot == nullptr ? UINT64_MAX
                                             : read_options_.snapshot->GetSequenceNumber();
  }

 private:
  void take_snapshot() {
    if (read_options_.snapshot == nullptr) read_options_.snapshot = db_.GetSnapshot();
  }
  Status failed(const char* what, const rocksdb::Status& status) {
    log::error("metadata database {}: {} failed: {}", db_.GetName(), what, status.ToString());
    return from_rocksdb(status);
  }

  rocksdb::DB& db_;
  const bool writing_;
  rocksdb::ReadOptions read_options_;
  Overlay overlay_;
  Versions::Footprint footprint_;
};

RocksDbKv::RocksDbKv(std::unique_ptr<rocksdb::DB> db, DurableMark mark,
                     const RocksDbOptions& options)
    : path_(options.path),
      read_only_(options.read_only),
      db_(std::move(db)),
      mark_(std::move(mark)),
      sync_group_([this] { return sync_log(); }),
      workers_(options.worker_threads, [this](engine::KvOp& op) { return run(op); }) {}

RocksDbKv::~RocksDbKv() {
  workers_.stop();
  if (!read_only_) {
    // The mark then covers everything, so that any later damage to the log is noticed.
    if (const Status status = sync(); !status.ok()) {
      log::error("metadata database {}: close: sync failed: {}", path_, status.name());
    }
  }
  if (const rocksdb::Status status = db_->Close(); !status.ok()) {
    log::error("metadata database {}: close failed: {}", path_, status.ToString());
  }
}

Status RocksDbKv::run(engine::KvOp& op) {
  if (op.mode == engine::KvMode::read) return run_read(op);
  if (read_only_) return Code::read_only;
  Status status = Code::conflict;
  for (int tries = 0; tries < kSharedAttempts && status.code() == Code::conflict; ++tries) {
    const std::shared_lock shared(gate_);
    status = attempt(op);
  }
  for (int tries = kSharedAttempts;
       tries < engine::kKvAttemptsMax && status.code() == Code::conflict; ++tries) {
    const std::lock_guard alone(gate_);
    status = attempt(op);
  }
  if (status.code() == Code::conflict) return Code::busy;
  TRY(status);
  if (op.mode == engine::KvMode::write_durable && !sync().ok()) {
    // Committed and visible, but a power cut may take it back.
    return Code::may_have_happened;
  }
  return {};
}

Status RocksDbKv::run_read(engine::KvOp& op) {
  Transaction transaction(*db_, false);
  return op.body(transaction);
}

Status RocksDbKv::attempt(engine::KvOp& op) {
  Transaction transaction(*db_, true);
  TRY(op.body(transaction));
  return commit(transaction);
}

Status RocksDbKv::commit(Transaction& transaction) {
  Versions::Guard guard(versions_, transaction.footprint());
  if (!guard.unchanged_since(transaction.snapshot_version())) return Code::conflict;
  if (transaction.changes().empty()) return {};
  TRY(write(transaction));
  // At least the number that this commit got. Higher, when others committed meanwhile, can only
  // cause a conflict without need.
  guard.raise(db_->GetLatestSequenceNumber());
  return {};
}

Status RocksDbKv::write(Transaction& transaction) {
  rocksdb::WriteBatch batch;
  for (const auto& [key, value] : transaction.changes()) {
    const rocksdb::Status added =
        value ? batch.Put(slice(key), slice(*value)) : batch.Delete(slice(key));
    if (!added.ok()) return from_rocksdb(added);
  }
  bool surely_no_effect = stopped_.load();
  rocksdb::Status status = db_->Write(rocksdb::WriteOptions(), &batch);
  if (status.ok()) return {};
  if (!stopped_.exchange(true)) {
    log::error("metadata database {}: commit failed: {} (it goes on when the cause is removed)",
               path_, status.ToString());
  }
  if (surely_no_effect && resume()) {
    surely_no_effect = false;
    status = db_->Write(rocksdb::WriteOptions(), &batch);
    if (status.ok()) return {};
    stopped_.store(true);
  }
  const Status failure = from_rocksdb(status);
  // A record that did not fit is torn and never replayed. Of any other failed write nobody knows.
  if (failure.code() == Code::io_error && !surely_no_effect) return Code::may_have_happened;
  return failure;
}

// After an error RocksDB refuses writes until it is told to go on, which flushes what is in memory
// to new files and begins a new log.
bool RocksDbKv::resume() {
  const std::lock_guard lock(resume_mutex_);
  if (sync_failed_) return false;
  if (!stopped_.load()) return true;  // somebody else just did it
  if (engine::system_clock().now() < resume_after_) return false;
  const rocksdb::Status status = db_->Resume();
  resume_after_ = engine::system_clock().now() + kResumeInterval;
  if (!status.ok()) return false;
  stopped_.store(false);
  log::warning("metadata database {}: accepts commits again", path_);
  return true;
}

Status RocksDbKv::sync() {
  if (read_only_) return {};
  return sync_group_.wait();
}

Status RocksDbKv::sync_log() {
  if (stopped_.load() && !resume()) return Code::io_error;
  const uint64_t sequence = db_->GetLatestSequenceNumber();
  const rocksdb::Status status = db_->SyncWAL();
  if (!status.ok()) {
    log::error("metadata database {}: sync failed: {} (no more commits until it is opened again)",
               path_, status.ToString());
    // The kernel may take the unwritten pages for clean now, so that another sync that succeeds
    // would prove nothing. Opening again reads what is really there.
    const std::lock_guard lock(resume_mutex_);
    sync_failed_ = true;
    stopped_.store(true);
    return from_rocksdb(status);
  }
  mark_.advance(sequence);
  return {};
}

}  // namespace penstock::kv
