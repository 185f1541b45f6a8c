// Transactions on RocksDB: reads from a snapshot, changes in an overlay, validation by Versions,
// one write batch. RocksDB's own optimistic transactions are not used: they conflict on keys that
// are overwritten unread, or do not lock them at all, and they keep old memtables for validation.
#include "rocksdb_kv.h"

#include "limits.h"
#include "overlay.h"

#include <algorithm>
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

void Alarm::OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status* error) {
  raise(from_rocksdb(*error));
}

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
    if (const auto* change = overlay_.find(key)) return Overlay::value_of(*change);
    take_snapshot();
    if (writing_) footprint_.read(key);
    std::string value;
    const rocksdb::Status status = db_.Get(read_options_, slice(key), &value);
    if (status.ok()) return std::optional<std::string>(std::move(value));
    if (status.IsNotFound()) return std::optional<std::string>();
    return failed("read", status);
  }

  Result<Values> get_many(std::span<const std::string> keys) override {
    Values values(keys.size());
    std::vector<size_t> asked;  // those that this transaction did not change
    std::vector<rocksdb::Slice> names;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (const auto* change = overlay_.find(keys[i])) {
        values[i] = Overlay::value_of(*change);
        continue;
      }
      if (writing_) footprint_.read(keys[i]);
      asked.push_back(i);
      names.push_back(slice(keys[i]));
    }
    if (asked.empty()) return values;
    take_snapshot();
    std::vector<rocksdb::PinnableSlice> found(asked.size());
    std::vector<rocksdb::Status> statuses(asked.size());
    db_.MultiGet(read_options_, db_.DefaultColumnFamily(), asked.size(), names.data(), found.data(),
                 statuses.data());
    for (size_t i = 0; i < asked.size(); ++i) {
      if (statuses[i].ok()) {
        values[asked[i]] = std::string(view(found[i]));
      } else if (!statuses[i].IsNotFound()) {
        return failed("read", statuses[i]);
      }
    }
    return values;
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

RocksDbKv::RocksDbKv(std::unique_ptr<Database> database, const Opening& opening, DurableMark mark)
    : options_(opening.options),
      env_(opening.env),
      alarm_(opening.alarm),
      database_(std::move(database)),
      committed_(database_->db->GetLatestSequenceNumber()),
      mark_(std::move(mark)),
      sync_group_([this] { return sync_log(); }),
      workers_(options_.worker_threads, [this](engine::KvOp& op) { return run(op); }) {}

RocksDbKv::~RocksDbKv() {
  workers_.stop();
  if (!options_.read_only) {
    // The mark then covers everything, so that any later damage to the log is noticed.
    if (const Status status = sync(); !status.ok()) {
      log::error("metadata database {}: close: sync failed: {}", options_.path, status.name());
    }
  }
  if (database_ == nullptr) return;
  // Every commit that succeeded was counted: pairs with write(). One that failed has numbers, too.
  // For development only: RocksDB's own counting is nothing to end a node for.
  DASSERT(!alarm_->status().ok() || committed_.load() == database_->db->GetLatestSequenceNumber());
  if (const rocksdb::Status status = database_->db->Close();
      !status.ok() && alarm_->status().ok()) {
    log::error("metadata database {}: close failed: {}", options_.path, status.ToString());
  }
}

Status RocksDbKv::run(engine::KvOp& op) {
  if (op.mode == engine::KvMode::read) return run_read(op);
  if (options_.read_only) return Code::read_only;
  TRY(go_on());
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
  const std::shared_lock use(uses_);
  if (database_ == nullptr) return Code::io_error;
  Transaction transaction(*database_->db, false);
  return op.body(transaction);
}

Status RocksDbKv::attempt(engine::KvOp& op) {
  const std::shared_lock use(uses_);
  // From here on RocksDB would refuse the commit. Whatever else this one is, it had no effect.
  TRY(alarm_->status());
  ASSERT(database_ != nullptr);
  Transaction transaction(*database_->db, true);
  TRY(op.body(transaction));
  return commit(transaction);
}

Status RocksDbKv::commit(Transaction& transaction) {
  Versions::Guard guard(versions_, transaction.footprint());
  if (!guard.unchanged_since(transaction.snapshot_version())) {
    conflicts_.add();
    return Code::conflict;
  }
  if (transaction.changes().empty()) return {};
  TRY(write(transaction));
  // At least the number that this commit got. Higher, when others committed meanwhile, can only
  // cause a conflict without need.
  guard.raise(database_->db->GetLatestSequenceNumber());
  return {};
}

Status RocksDbKv::write(Transaction& transaction) {
  // What a record takes beside its bytes: a tag and two lengths.
  constexpr size_t kRecordBytes = 16;
  size_t bytes = kRecordBytes;
  for (const auto& [key, value] : transaction.changes()) {
    bytes += kRecordBytes + key.size() + (value ? value->size() : 0);
  }
  rocksdb::WriteBatch batch(bytes);
  for (const auto& [key, value] : transaction.changes()) {
    const rocksdb::Status added =
        value ? batch.Put(slice(key), slice(*value)) : batch.Delete(slice(key));
    if (!added.ok()) return from_rocksdb(added);
  }
  // The mark counts by them.
  ASSERT(batch.Count() == transaction.changes().size());
  const rocksdb::Status status = database_->db->Write(rocksdb::WriteOptions(), &batch);
  if (status.ok()) {
    // Each change has a number of its own.
    committed_.fetch_add(batch.Count());
    commits_.add();
    return {};
  }
  const Status failure = from_rocksdb(status);
  alarm_->raise(failure);
  // It was held back for want of tables, and let go when an error came, before it reached the log.
  if (status.IsIncomplete()) return alarm_->status();
  // A record that did not fit is torn and never replayed. Of any other failed write it is not
  // known.
  return failure.code() == Code::io_error ? Status(Code::may_have_happened) : failure;
}

// ok when the database takes commits, which a stopped one does once it was opened anew.
Status RocksDbKv::go_on() {
  const Status cause = alarm_->status();
  if (cause.ok()) return {};
  if (lost_.load()) return Code::io_error;
  const std::unique_lock lock(reopen_mutex_, kReopenPatience);
  if (!lock) return cause;
  if (alarm_->status().ok()) return {};  // another thread just did it
  if (!std::exchange(told_, true)) {
    log::error("metadata database {}: takes no commits: {} (it goes on when the cause is removed)",
               options_.path, cause.name());
  }
  const engine::Time begin = engine::system_clock().now();
  if (begin < reopen_after_ || !room_to_open(options_)) return cause;
  const bool opened = reopen();
  const engine::Time end = engine::system_clock().now();
  reopen_after_ = end + std::max(kReopenInterval, kReopenShare * (end - begin));
  if (!opened) return lost_.load() ? Status(Code::io_error) : cause;
  told_ = told_refusal_ = false;
  log::warning("metadata database {}: takes commits again", options_.path);
  return {};
}

// RocksDB can go on by itself as well, but keeps a log that is torn at its end then, and with its
// assertions ends the process. What was committed is in the logs or in tables, whole, and is read
// from there; nothing of a commit that failed is.
bool RocksDbKv::reopen() {
  const std::lock_guard alone(uses_);
  if (!sync_now().ok()) return false;
  const uint64_t committed = committed_.load();
  if (database_ != nullptr) {
    // It says that the torn log is not complete.
    database_->db->Close().PermitUncheckedError();
    database_.reset();
  }
  fall_back();
  if (database_ == nullptr) return false;
  if (database_->db->GetLatestSequenceNumber() < committed) {
    log::error(
        "metadata database {}: opened anew it ends at {}, but {} was committed (stop the "
        "node, keep a copy of the directory, and look at the disk)",
        options_.path, database_->db->GetLatestSequenceNumber(), committed);
    lost_.store(true);
    return false;
  }
  database_.reset();
  const Opening opening{options_, env_, alarm_};
  Outcome<std::unique_ptr<Database>> opened = open_database(opening, false);
  if (!opened) {
    if (!std::exchange(told_refusal_, true)) {
      log::warning("{}; it is read-only meanwhile", opened.error().message);
    }
    fall_back();
    return false;
  }
  database_ = std::move(*opened);
  committed_.store(database_->db->GetLatestSequenceNumber());
  versions_.reset();
  alarm_->reset();
  return true;
}

// Reading goes on where nothing can be written.
void RocksDbKv::fall_back() {
  Outcome<std::unique_ptr<Database>> opened = open_database({options_, env_, alarm_}, true);
  if (opened) {
    database_ = std::move(*opened);
  } else if (!std::exchange(told_refusal_, true)) {
    log::error("{}", opened.error().message);
  }
}

Status RocksDbKv::sync() {
  if (options_.read_only) return {};
  return sync_group_.wait();
}

Status RocksDbKv::sync_log() {
  const std::shared_lock use(uses_);
  return sync_now();
}

// Also while the database takes no commits: those that succeeded are whole.
Status RocksDbKv::sync_now() {
  if (lost_.load()) return Code::io_error;
  if (database_ == nullptr) return {};  // the logs were synced before they were closed
  const uint64_t sequence = committed_.load();
  const rocksdb::Status status = database_->logs->sync_logs();
  if (!status.ok()) {
    log::error("metadata database {}: sync failed: {} (no more commits until it is opened again)",
               options_.path, status.ToString());
    // The kernel may take the unwritten pages for clean now, so that another sync that succeeds
    // would prove nothing. Opening again reads what is really there.
    lost_.store(true);
    alarm_->raise(Code::io_error);
    return from_rocksdb(status);
  }
  mark_.advance(sequence);
  return {};
}

}  // namespace penstock::kv
