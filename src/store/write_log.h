// The log of durable writes: small ones are durable when one record with their bytes is on the
// disk, beside their data writes, and long before their group is committed (decision 0024).
//
// A write that is logged takes its range, its maps and its blocks like any other. When its data
// writes are on their way, it joins the record that gathers; when they have ended it becomes
// visible; when its record and all before it are on the disk as well, it is durable.
//
// What a group's maps hold and where the log begins are committed together: before a group is
// encoded nothing new joins until all that has joined is visible, or has failed (quiesce()); then
// the record that gathers is closed, and the group carries the mark behind it (close()). Blocks
// that a record names are not used for anything else before a mark behind it is committed, since
// recovery writes to them.
//
// Small prepares of chains do the same, and become pending where a write becomes visible (decision
// 0049). Commits are in no record: the next prepare of the chunk names what it follows.
//
// Nothing waits for room in the file: where there is none a write is not logged. Nor is a write of
// an inode that has newer bytes than its maps and the log have, since a durable write implies that
// those that completed before it are durable, too. After an error of a record's write the log is
// not used again in this life, and a write that waits for it waits for the commit.
#pragma once

#include "log_record.h"
#include "pool.h"
#include "request.h"

#include <optional>
#include <vector>

namespace penstock::store {

struct Core;

class WriteLog {
 public:
  explicit WriteLog(Core& core);
  ~WriteLog();

  // Blocking, before the loop runs: `file` belongs to `mark`, which is committed and whose epoch is
  // new.
  Status open(engine::DiskFile file, const LogMark& mark);

  // Whether this update is to be logged, decided when its blocks are allocated; then it joins or
  // leaves.
  bool take(Request& request);
  // An update whose data writes are all under way. False: it waits, and goes on by on_log() of
  // Updater or ChainUpdates. If the log takes no more records, it leaves the log and true is
  // returned.
  bool join(Request& request);
  // The update is not logged, or failed before it joined.
  void leave(Request& request);
  // What has joined is visible, or failed and will never be.
  void resolve(Request& request);
  // Completes `op` when the record and those before it are on the disk.
  void wait(engine::Op& op, uint64_t number);
  // A durable update that is small enough was not logged; enough of them are worth a log.
  void note_durable();

  // Whether groups carry marks.
  bool in_use() const { return state_ >= State::announced; }
  // Whether a group has to be committed for its mark alone.
  bool wants_commit() const { return state_ == State::announced; }
  // Whether all that has joined is resolved. If not, nothing joins until it is; the committer is
  // told then.
  bool quiesce();
  // Ends what quiesce() began.
  void resume();
  // The mark behind everything that has joined, while quiesce() is true.
  LogMark close();
  // Whether the mark is another than the committed one.
  bool is_due(const LogMark& mark) const { return wants_commit() || mark.number != committed_; }
  void on_committed(const LogMark& mark);

  bool idle() const { return writing_ == 0 && !making_; }

 private:
  // `dead` after an error: marks go on, records do not.
  enum class State : uint8_t { absent, refused, announced, active, dead };
  enum class RecordStage : uint8_t { idle, gathering, sealed, writing, ended };
  struct Record : engine::DiskOp {
    RecordStage stage = RecordStage::idle;
    LogRecordWriter writer;
    IntrusiveList<engine::Op> waiters;
  };

  Record& record(uint64_t number) { return records_[number % limits::kLogRecords]; }
  bool room_in_file() const;
  bool fits(const Request& request) const;
  bool may_follow(const Request& request) const;
  static bool room_in(const Record& record, const Request& request);
  void add(Record& record, const Request& request);
  void hold(Request& request);
  void let_join();
  void copy_bytes(const Request& request, std::byte* to) const;
  void seal();
  void schedule_flush();
  void flush();
  void on_written(Record& record);
  void end_records();
  void die(Status status);
  Status take_memory(uint64_t size);
  void make();
  void on_made();
  bool make_next();
  void give_up(const char* what, Status status);

  Core& core_;
  State state_ = State::absent;
  std::optional<engine::DiskFile> file_;
  LogMark next_;             // epoch and size; number and offset of the record that gathers
  uint64_t committed_ = 1;   // number of the committed mark
  uint64_t freed_ = 0;       // of next_.written: before the committed mark
  uint64_t first_ = 1;       // records before it are on the disk
  uint64_t to_write_ = 1;    // the next that is to be written
  uint32_t writing_ = 0;     // so many of them are on their way
  uint32_t taken_ = 0;       // requests that are to be logged, until they left or are resolved
  uint32_t unresolved_ = 0;  // of these, have joined
  bool quiescing_ = false;
  std::vector<Request*> held_;  // want to join
  std::array<Record, limits::kLogRecords> records_;
  std::optional<MappedMemory> memory_;
  engine::Op flush_op_;
  uint32_t durable_writes_ = 0;
  bool making_ = false;
  uint64_t zeroed_ = 0;
  engine::DiskOp make_op_;
};

}  // namespace penstock::store
