// How a target comes to have a log: its file is made while the target works, and the first mark is
// committed once the file is complete.
#include "core.h"

#include <algorithm>

namespace penstock::store {

using engine::DiskOpKind;
using limits::kBlockBytes;

void WriteLog::note_durable() {
  if (state_ != State::absent || making_ || core_.closing || !core_.failed.ok()) return;
  if (++durable_writes_ >= core_.config.log_after) make();
}

void WriteLog::make() {
  const std::string path = core_.config.directory + "/" + kLogFileName;
  state_ = State::refused;
  const auto space = core_.disk.space(core_.config.directory);
  if (!space) return;
  const bool by_need = core_.config.log_bytes == kLogByNeed;
  uint64_t size =
      by_need ? limits::kLogBytes : std::min(core_.config.log_bytes, limits::kLogBytesMax);
  const uint64_t usable = DataFiles::usable_bytes(core_.config, *space);
  size = std::min({size, space->total_bytes / limits::kLogShare, usable / 4});
  size = align_down(size, 4 * kBlockBytes);
  if (size < limits::kLogBytesMin) return;
  if (!take_memory(size).ok()) return give_up("take memory", Code::no_memory);
  // replace_file() makes the name durable, and drops what an earlier attempt left.
  if (const Status made = core_.disk.replace_file(path, ""); !made.ok()) {
    return give_up("make", made);
  }
  const auto opened = core_.disk.open(path, {});
  if (!opened) return give_up("open", opened.error().status);
  file_ = *opened;
  next_ = {1, 1, 0, size, 0};
  making_ = true;
  make_op_.file = *file_;
  make_op_.kind = DiskOpKind::allocate;
  make_op_.offset = 0;
  make_op_.length = size;
  core_.disk.submit(make_op_);
}

// Allocated; then zeros everywhere, since the first write to an offset makes the file system commit
// metadata; then synced.
bool WriteLog::make_next() {
  if (make_op_.kind == DiskOpKind::sync) return false;
  if (zeroed_ == next_.size) {
    make_op_.kind = DiskOpKind::sync;
  } else {
    const uint64_t length = std::min<uint64_t>(log_record_bytes(next_.size), next_.size - zeroed_);
    make_op_.kind = DiskOpKind::write;
    make_op_.offset = zeroed_;
    make_op_.memory = {memory_->data(), length, engine::kNoBuffer, engine::MemoryKind::host};
    zeroed_ += length;
  }
  core_.disk.submit(make_op_);
  return true;
}

void WriteLog::on_made() {
  if (!make_op_.status.ok()) {
    give_up("write", make_op_.status);
  } else if (core_.closing || !core_.failed.ok()) {
    making_ = false;
  } else if (!make_next()) {
    making_ = false;
    state_ = State::announced;
    core_.committer.kick();
  }
  core_.check_closed();
}

// The target works without a log, and the space is left to data.
void WriteLog::give_up(const char* what, Status status) {
  making_ = false;
  const std::string path = core_.config.directory + "/" + kLogFileName;
  if (file_) {
    core_.disk.close(*file_);
    file_.reset();
    (void)core_.disk.remove(path);
  }
  if (status.code() == Code::closed) return;
  log::warning("store: {}: cannot {} '{}': {}; small durable writes stay slow until a restart",
               core_.config.directory, what, kLogFileName, status.name());
}

}  // namespace penstock::store
