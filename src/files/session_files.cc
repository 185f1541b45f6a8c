#include "penstock/files/session_files.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>

#include "penstock/connection.h"
#include "penstock/files/deadline.h"
#include "penstock/files/file_calls.h"

namespace penstock::files {

namespace {

uint64_t nanoseconds_of(engine::Time time) {
  return static_cast<uint64_t>(time.time_since_epoch().count());
}

}  // namespace

Outcome<std::unique_ptr<HostSteps>> HostSteps::make(lanes::Session& session,
                                                    engine::Time deadline) {
  std::unique_ptr<HostSteps> made(new HostSteps(session, deadline));
  TRY_ASSIGN(made->region_, session.regions().make(limits::kHostStepBytes));
  TRY_ASSIGN(made->ring_, session.rings().make(1, 1));
  made->lane_ = made->ring_->claim();
  return made;
}

HostSteps::~HostSteps() {
  if (ring_ != nullptr) (void)session_.rings().destroy(ring_);
  if (region_ != nullptr) (void)session_.regions().release(region_);
}

Outcome<uint64_t> HostSteps::run(uint8_t operation, int32_t file, uint64_t offset,
                                 uint64_t length) {
  lanes::Io io{};
  io.operation = operation;
  io.file = file;
  io.offset = offset;
  io.length = length;
  io.region = region_;
  const bool ends = deadline_ != engine::kNever;
  if (ends) io.deadline = nanoseconds_of(deadline_);
  // A living agent ends the operation itself by then.
  const uint64_t last = ends ? nanoseconds_of(with_grace(deadline_)) : ring::kForever;
  lanes::Completion done{};
  int result = lane_->prepare(io);
  if (result == 0) result = lane_->submit(1);
  if (result >= 0) result = lane_->wait(&done, 1, 1, last, true);
  if (result < 0) return connection::last_failure(result);
  if (result == 1 && done.result >= 0) return static_cast<uint64_t>(done.result);
  const Status status =
      Status::from_errno(result == 1 ? static_cast<int>(-done.result) : ETIMEDOUT);
  return Failure{status, fmt::format("{} {} bytes at {}: {}",
                                     operation == ring::kOperationRead ? "read" : "write", length,
                                     offset, status.name())};
}

Outcome<void> HostSteps::read(int32_t file, uint64_t offset, MutableBytes to) {
  for (uint64_t done = 0; done < to.size();) {
    const uint64_t step = std::min(to.size() - done, limits::kHostStepBytes);
    TRY_ASSIGN(const uint64_t got, run(ring::kOperationRead, file, offset + done, step));
    if (got == 0) {
      return Failure{Code::corrupt, fmt::format("it ends at byte {}, too early", offset + done)};
    }
    std::memcpy(to.data() + done, region_->base, got);
    done += got;
  }
  return {};
}

Outcome<void> HostSteps::write(int32_t file, uint64_t offset, Bytes from) {
  for (uint64_t done = 0; done < from.size();) {
    const uint64_t step = std::min(from.size() - done, limits::kHostStepBytes);
    std::memcpy(region_->base, from.data() + done, step);
    TRY_ASSIGN(const uint64_t put, run(ring::kOperationWrite, file, offset + done, step));
    if (put == 0) return Failure{Code::io_error, "a write made no progress"};
    done += put;
  }
  return {};
}

// ---- a load's files ----

SessionFiles::~SessionFiles() {
  for (const int32_t file : files_) {
    const Outcome<void> closed = session_.files().close(file);
    // An agent that hangs answers none of them: it closes what is left at the session's end.
    if (!closed && closed.error().status == Code::timed_out) return;
  }
}

Outcome<uint64_t> SessionFiles::open(const std::string& path) {
  const int bad = check_path(path.c_str(), "open");
  if (bad != 0) return connection::last_failure(bad);
  TRY_ASSIGN(const int32_t file, open_path(session_, path, wire::kOpenRead, 0));
  files_.push_back(file);
  TRY_ASSIGN(const struct stat facts,
             stat_of(session_, wire::FileAttributes{static_cast<uint32_t>(file)}));
  opened_.push_back({path, facts});
  return static_cast<uint64_t>(facts.st_size);
}

Outcome<void> SessionFiles::read(uint32_t file, uint64_t offset, MutableBytes to) {
  if (steps_ == nullptr) {
    TRY_ASSIGN(steps_, HostSteps::make(session_, deadline_));
  }
  return steps_->read(files_[file], offset, to);
}

// Without the change time: an agent that records an earlier access or write sets it, too.
Outcome<void> SessionFiles::check_unchanged() {
  for (size_t i = 0; i < files_.size(); ++i) {
    const Outcome<struct stat> now =
        stat_of(session_, wire::FileAttributes{static_cast<uint32_t>(files_[i])});
    if (!now) {
      return Failure{now.error().status, opened_[i].path + ": " + now.error().message};
    }
    if (!same_content(opened_[i].facts, *now)) return was_changed(opened_[i].path);
  }
  return {};
}

Outcome<std::vector<load::FileTransfers>> SessionFiles::transfers(size_t links) {
  TRY_ASSIGN(const std::vector<route::Transfers*> transfers,
             session_.transfers().for_links(devices_, links));
  std::vector<load::FileTransfers> out;
  for (route::Transfers* const one : transfers) {
    out.push_back({one, std::vector<uint32_t>(files_.begin(), files_.end())});
  }
  return out;
}

}  // namespace penstock::files
