#include "session_files.h"

#include "error.h"
#include "handles.h"
#include "model_options.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>

namespace penstock::api {

namespace {

uint64_t nanoseconds_of(engine::Time time) {
  return static_cast<uint64_t>(time.time_since_epoch().count());
}

}  // namespace

Outcome<std::unique_ptr<HostSteps>> HostSteps::make(Session& session, engine::Time deadline) {
  std::unique_ptr<HostSteps> made(new HostSteps(session, deadline));
  TRY_ASSIGN(made->region_, session.make_region(limits::kHostStepBytes));
  TRY_ASSIGN(made->ring_, session.make_ring(1, 1));
  return made;
}

HostSteps::~HostSteps() {
  if (ring_ != nullptr) (void)session_.destroy_ring(ring_);
  if (region_ != nullptr) (void)session_.release_region(region_);
}

Outcome<uint64_t> HostSteps::run(uint8_t operation, penstock_file file, uint64_t offset,
                                 uint64_t length) {
  penstock_io io{};
  io.operation = operation;
  io.file = file;
  io.offset = offset;
  io.length = length;
  io.region = to_handle(region_);
  const bool ends = deadline_ != engine::kNever;
  if (ends) io.deadline = nanoseconds_of(deadline_);
  // An agent that lives ends it by then itself.
  const uint64_t last = ends ? nanoseconds_of(with_grace(deadline_)) : PENSTOCK_FOREVER;
  penstock_ring* const ring = to_handle(ring_);
  penstock_completion done{};
  int result = penstock_prepare(ring, &io);
  if (result == 0) result = penstock_submit(ring);
  if (result >= 0) result = penstock_wait(ring, &done, 1, 1, last);
  if (result < 0) return last_failure(result);
  if (result == 1 && done.result >= 0) return static_cast<uint64_t>(done.result);
  const Status status =
      Status::from_errno(result == 1 ? static_cast<int>(-done.result) : ETIMEDOUT);
  return Failure{status,
                 fmt::format("{} {} bytes at {}: {}", operation == PENSTOCK_READ ? "read" : "write",
                             length, offset, status.name())};
}

Outcome<void> HostSteps::read(penstock_file file, uint64_t offset, MutableBytes to) {
  for (uint64_t done = 0; done < to.size();) {
    const uint64_t step = std::min(to.size() - done, limits::kHostStepBytes);
    TRY_ASSIGN(const uint64_t got, run(PENSTOCK_READ, file, offset + done, step));
    if (got == 0) {
      return Failure{Code::corrupt, fmt::format("it ends at byte {}, too early", offset + done)};
    }
    std::memcpy(to.data() + done, region_->base, got);
    done += got;
  }
  return {};
}

Outcome<void> HostSteps::write(penstock_file file, uint64_t offset, Bytes from) {
  for (uint64_t done = 0; done < from.size();) {
    const uint64_t step = std::min(from.size() - done, limits::kHostStepBytes);
    std::memcpy(region_->base, from.data() + done, step);
    TRY_ASSIGN(const uint64_t put, run(PENSTOCK_WRITE, file, offset + done, step));
    if (put == 0) return Failure{Code::io_error, "a write made no progress"};
    done += put;
  }
  return {};
}

// ---- a load's files ----

SessionFiles::~SessionFiles() {
  for (const penstock_file file : files_) {
    // An agent that hangs answers none of them: it closes what is left at the session's end.
    if (penstock_file_close(to_handle(&session_), file) == -ETIMEDOUT) return;
  }
}

Outcome<uint64_t> SessionFiles::open(const std::string& path) {
  penstock_session* const session = to_handle(&session_);
  const penstock_file file = penstock_open(session, path.c_str(), O_RDONLY, 0);
  if (file < 0) return last_failure(file);
  files_.push_back(file);
  struct stat facts {};
  const int error = penstock_fstat(session, file, &facts);
  if (error < 0) return last_failure(error);
  opened_.push_back({path, facts});
  return static_cast<uint64_t>(facts.st_size);
}

Outcome<void> SessionFiles::read(uint32_t file, uint64_t offset, MutableBytes to) {
  if (steps_ == nullptr) {
    TRY_ASSIGN(steps_, HostSteps::make(session_, deadline_));
  }
  return steps_->read(files_[file], offset, to);
}

// The change time says less here: an agent that writes down what happened before sets it, too.
Outcome<void> SessionFiles::check_unchanged() {
  for (size_t i = 0; i < files_.size(); ++i) {
    struct stat now {};
    const int error = penstock_fstat(to_handle(&session_), files_[i], &now);
    if (error < 0) {
      const Failure why = last_failure(error);
      return Failure{why.status, opened_[i].path + ": " + why.message};
    }
    if (!same_content(opened_[i].facts, now)) return was_changed(opened_[i].path);
  }
  return {};
}

Outcome<std::vector<load::Way>> SessionFiles::ways(size_t links) {
  TRY_ASSIGN(const std::vector<route::Transfers*> transfers,
             session_.link_transfers(devices_, links));
  std::vector<load::Way> out;
  for (route::Transfers* const one : transfers) {
    out.push_back({one, std::vector<uint32_t>(files_.begin(), files_.end())});
  }
  return out;
}

}  // namespace penstock::api
