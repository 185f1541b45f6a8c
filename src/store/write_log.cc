#include "write_log.h"

#include "core.h"

#include <algorithm>
#include <cstring>

namespace penstock::store {

using engine::DiskOpKind;
using limits::kBlockBytes;

WriteLog::WriteLog(Core& core) : core_(core) {
  held_.reserve(limits::kLogJoinedMax);
  flush_op_.owner = make_op_.owner = this;
  flush_op_.completion = [](engine::Op& op) { op.owner_as<WriteLog>().flush(); };
  make_op_.completion = [](engine::Op& op) { op.owner_as<WriteLog>().on_made(); };
  for (Record& record : records_) {
    record.owner = this;
    record.kind = DiskOpKind::write;
    record.durable = true;
    record.completion = [](engine::Op& op) {
      op.owner_as<WriteLog>().on_written(static_cast<Record&>(op));
    };
  }
}

WriteLog::~WriteLog() {
  if (flush_op_.linked()) flush_op_.unlink();
  for (Record& record : records_) {
    while (record.waiters.pop_front() != nullptr) continue;
  }
  if (file_) core_.disk.close(*file_);
}

Status WriteLog::take_memory(uint64_t size) {
  const uint32_t bytes = log_record_bytes(size);
  memory_.emplace(uint64_t{bytes} * limits::kLogRecords);
  if (!*memory_) return Code::no_memory;
  for (size_t i = 0; i < records_.size(); ++i) {
    records_[i].writer.use(memory_->data() + i * bytes, bytes);
  }
  return Code::ok;
}

Status WriteLog::open(engine::DiskFile file, const LogMark& mark) {
  file_ = file;
  TRY(take_memory(mark.size));
  next_ = mark;
  first_ = to_write_ = committed_ = mark.number;
  state_ = State::active;
  return Code::ok;
}

// Whether there is room for one more of the longest records, also if it has to begin at 0.
bool WriteLog::room_in_file() const {
  return next_.written - freed_ + 2 * uint64_t{log_record_bytes(next_.size)} <= next_.size;
}

// Whether it is so small that a record can hold it.
bool WriteLog::fits(const Request& request) const {
  const uint32_t record_bytes = log_record_bytes(next_.size);
  if (request.kind == RequestKind::chain) {
    const ChainTask& task = *request.chain_task;
    return is_small(task) && fits_log_record(pending_bytes(*task.update, request.new_blocks),
                                             request.new_blocks, record_bytes);
  }
  return request.kind == RequestKind::write && request.durable &&
         request.block_count <= limits::kLogBlocks &&
         (request.block_count + 1) * kBlockBytes <= record_bytes;
}

// Whether all that was done before it, of its inode or its chunk, is in the log or committed, or
// said by its entry.
bool WriteLog::may_follow(const Request& request) const {
  if (request.kind != RequestKind::chain) {
    return !core_.committer.holds_unlogged(request.chunk.inode);
  }
  const ChainTask& task = *request.chain_task;
  return !core_.committer.holds_unlogged(request.at()) &&
         task.update->name.counter > task.entry->state.committed.counter;
}

bool WriteLog::take(Request& request) {
  if (state_ != State::active || !fits(request)) return false;
  if (taken_ == limits::kLogJoinedMax || core_.closing || !room_in_file() ||
      core_.committer.lacks_space() || !may_follow(request)) {
    return false;
  }
  ASSERT(request.log_step == LogStep::none);
  ++taken_;
  request.log_step = LogStep::taken;
  return true;
}

void WriteLog::leave(Request& request) {
  ASSERT(taken_ > unresolved_);
  if (request.log_step == LogStep::held) std::erase(held_, &request);
  request.log_step = LogStep::none;
  --taken_;
}

void WriteLog::hold(Request& request) {
  request.log_step = LogStep::held;
  held_.push_back(&request);
}

bool WriteLog::join(Request& request) {
  ASSERT(request.log_step == LogStep::taken && request.old_reads == 0 && request.status.ok());
  if (state_ != State::active || !core_.failed.ok()) {
    leave(request);
    return true;
  }
  if (quiescing_) {
    hold(request);
    return false;
  }
  Record* gathering = &record(next_.number);
  if (gathering->stage == RecordStage::gathering && !room_in(*gathering, request)) {
    seal();
    schedule_flush();
    gathering = &record(next_.number);
  }
  if (gathering->stage != RecordStage::gathering) {
    if (!room_in_file()) {
      leave(request);
      return true;
    }
    if (gathering->stage != RecordStage::idle) {
      hold(request);
      return false;
    }
    gathering->stage = RecordStage::gathering;
    gathering->writer.clear();
    schedule_flush();
  }
  add(*gathering, request);
  request.log_step = LogStep::joined;
  request.log_number = next_.number;
  ++unresolved_;
  core_.counters.logged.add();
  return true;
}

bool WriteLog::room_in(const Record& record, const Request& request) {
  if (request.kind != RequestKind::chain) return record.writer.room(request.block_count);
  return record.writer.room_for_prepare(request.chain_task->record.size(), request.new_blocks);
}

void WriteLog::add(Record& record, const Request& request) {
  if (request.kind != RequestKind::chain) {
    copy_bytes(request, record.writer.add(request.at(), request.first_block, request.end,
                                          {request.blocks, request.block_count}));
    return;
  }
  const ChainTask& task = *request.chain_task;
  ASSERT(task.log_bytes.size() == request.new_blocks * kBlockBytes);
  std::byte* const to = record.writer.add_prepare(request.at(), task.entry->state.committed,
                                                  task.record, request.new_blocks);
  if (!task.log_bytes.empty()) std::memcpy(to, task.log_bytes.data(), task.log_bytes.size());
}

// From the stages, which do not change while their data writes are under way.
void WriteLog::copy_bytes(const Request& request, std::byte* to) const {
  uint32_t copied = 0;
  for (uint32_t i = 0; i < request.log_io_count; ++i) {
    const Io& io = *request.log_ios[i];
    ASSERT(io.stage != nullptr && io.first + io.count <= request.block_count);
    copied += io.count;
    std::memcpy(to + uint64_t{io.first} * kBlockBytes, io.stage, uint64_t{io.count} * kBlockBytes);
  }
  // The record promises all of them.
  ASSERT(copied == request.block_count);
}

void WriteLog::resolve(Request& request) {
  ASSERT(request.log_step == LogStep::joined && unresolved_ > 0 && taken_ >= unresolved_);
  --taken_;
  if (--unresolved_ == 0 && quiescing_) core_.committer.start_later();
}

bool WriteLog::quiesce() {
  if (unresolved_ > 0) quiescing_ = true;
  return unresolved_ == 0;
}

void WriteLog::resume() {
  if (std::exchange(quiescing_, false)) let_join();
}

void WriteLog::let_join() {
  std::vector<Request*> held;
  held.swap(held_);
  held_.reserve(limits::kLogJoinedMax);
  for (Request* request : held) {
    ASSERT(request->log_step == LogStep::held);
    request->log_step = LogStep::taken;
    if (request->kind == RequestKind::chain) {
      core_.chain_updates.on_log(*request);
    } else {
      core_.updater.on_log(*request);
    }
  }
}

LogMark WriteLog::close() {
  ASSERT(unresolved_ == 0);
  if (state_ == State::active && record(next_.number).stage == RecordStage::gathering) {
    seal();
    schedule_flush();
  }
  // What decode_log_mark() demands.
  ASSERT(next_.number > 0 && next_.offset % kBlockBytes == 0);
  ASSERT(next_.offset + log_record_bytes(next_.size) <= next_.size);
  return next_;
}

void WriteLog::on_committed(const LogMark& mark) {
  ASSERT(mark.number >= committed_ && mark.number <= next_.number);
  committed_ = mark.number;
  freed_ = mark.written;
  if (state_ != State::announced) return;
  state_ = State::active;
  log::info("store: {}: small durable writes go to a log of {} MiB from now on",
            core_.config.directory, mark.size / kMiB);
}

void WriteLog::wait(engine::Op& op, uint64_t number) {
  ASSERT(number <= next_.number);
  if (number < first_) {
    core_.loop.complete(op, Code::ok);
  } else if (state_ == State::dead) {
    core_.committer.wait(op);
  } else {
    record(number).waiters.push_back(op);
  }
}

void WriteLog::seal() {
  Record& gathering = record(next_.number);
  ASSERT(gathering.stage == RecordStage::gathering);
  const uint32_t bytes = gathering.writer.seal({core_.identity.uuid, next_.epoch, next_.number});
  gathering.stage = RecordStage::sealed;
  gathering.file = *file_;
  gathering.offset = next_.offset;
  gathering.memory = {gathering.writer.bytes(), bytes, engine::kNoBuffer, engine::MemoryKind::host};
  const uint64_t end = next_.offset + bytes;
  ASSERT(end <= next_.size);
  next_.written += bytes;
  next_.offset = next_record_at(end, next_.size);
  if (next_.offset == 0) next_.written += next_.size - end;
  ++next_.number;
  // Nothing that a crash still needs is written over.
  ASSERT(next_.written - freed_ <= next_.size);
  if (next_.written - freed_ >= next_.size / 2) core_.committer.kick();
}

void WriteLog::schedule_flush() {
  if (!flush_op_.linked()) core_.loop.complete(flush_op_, Code::ok);
}

void WriteLog::flush() {
  while (state_ == State::active && writing_ < limits::kLogWrites) {
    if (to_write_ == next_.number) {
      if (record(to_write_).stage != RecordStage::gathering) return;
      seal();
    }
    Record& next = record(to_write_++);
    ASSERT(next.stage == RecordStage::sealed);
    next.stage = RecordStage::writing;
    ++writing_;
    core_.counters.log_records.add();
    core_.disk.submit(next);
  }
}

void WriteLog::on_written(Record& record) {
  ASSERT(writing_ > 0 && record.stage == RecordStage::writing);
  --writing_;
  record.stage = RecordStage::ended;
  if (!record.status.ok() && state_ == State::active) die(record.status);
  if (state_ == State::active) {
    end_records();
    flush();
  }
  core_.check_closed();
}

// In order: after a crash, records behind one that is missing are not found.
void WriteLog::end_records() {
  bool any = false;
  for (; first_ < to_write_ && record(first_).stage == RecordStage::ended; ++first_) {
    Record& ended = record(first_);
    while (engine::Op* op = ended.waiters.pop_front()) core_.loop.complete(*op, Code::ok);
    ended.stage = RecordStage::idle;
    any = true;
  }
  if (any && !held_.empty() && !quiescing_) let_join();
}

// Nothing is lost: what was logged is visible or will be, and becomes durable with its group.
void WriteLog::die(Status status) {
  state_ = State::dead;
  if (status.code() != Code::closed) {
    log::error("store: {}: a write to '{}' failed: {}; durable writes are slower until a restart",
               core_.config.directory, kLogFileName, status.name());
  }
  for (Record& record : records_) {
    while (engine::Op* op = record.waiters.pop_front()) core_.committer.wait(*op);
  }
  if (!quiescing_) let_join();
}

}  // namespace penstock::store
