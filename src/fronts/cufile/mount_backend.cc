#include "mount_backend.h"

#include "limits.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

#include "penstock/wire.h"

namespace penstock::cufile {

namespace {

Status status_of(int64_t result) {
  return result < 0 ? Status::from_errno(static_cast<int>(-result)) : Status();
}

}  // namespace

MountBackend::MountBackend(penstock_session* session)
    : session_(session), host_threads_([this](Operation& operation) { run_on_host(operation); }) {}

Outcome<std::unique_ptr<MountBackend>> MountBackend::start(front::Session& session) {
  std::unique_ptr<MountBackend> made(new MountBackend(session.handle));
  const int error =
      penstock_ring_create(session.handle, limits::kLaneEntries, limits::kLanes + 1, &made->ring_);
  if (error < 0) return Failure{Status::from_errno(-error), penstock_last_error()};
  return made;
}

MountBackend::~MountBackend() {
  if (thread_.joinable()) {
    // An operation without user data, to wake the thread.
    stop_.store(true, std::memory_order_relaxed);
    penstock_io stop{};
    stop.operation = PENSTOCK_NOP;
    {
      const std::lock_guard lock(submit_mutex_);
      penstock_lane_prepare(lane_, &stop);
      penstock_lane_submit(lane_, UINT32_MAX);
    }
    thread_.join();
  }
  if (ring_ != nullptr) penstock_ring_destroy(ring_);
  regions_.clear();
}

Outcome<uint32_t> MountBackend::add(int fd) {
  UniqueFd own(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!own) return Failure{Status::from_errno(errno), "no file descriptor is left"};
  const penstock_file file = penstock_open_fd(session_, fd);
  if (file < 0) return Failure{Status::from_errno(-file), penstock_last_error()};
  const std::lock_guard lock(files_mutex_);
  files_[static_cast<uint32_t>(file)] = std::move(own);
  return static_cast<uint32_t>(file);
}

void MountBackend::remove(uint32_t file) {
  const int error = penstock_file_close(session_, static_cast<penstock_file>(file));
  if (error < 0) log::warning("cufile: close a file: {}", penstock_last_error());
  const std::lock_guard lock(files_mutex_);
  files_.erase(file);
}

// The kernel carries host memory.
void MountBackend::run_on_host(Operation& operation) {
  int fd = -1;
  {
    const std::lock_guard lock(files_mutex_);
    fd = files_.at(operation.file->id).get();
  }
  operation.status = Code::ok;
  operation.transferred = 0;
  while (operation.transferred < operation.memory.length) {
    std::byte* const at = operation.memory.data + operation.transferred;
    const uint64_t left = operation.memory.length - operation.transferred;
    const auto offset = static_cast<off_t>(operation.offset + operation.transferred);
    const ssize_t done =
        operation.write ? ::pwrite(fd, at, left, offset) : ::pread(fd, at, left, offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) operation.status = Status::from_errno(errno);
    if (done <= 0) return;
    operation.transferred += static_cast<uint64_t>(done);
  }
}

Result<std::shared_ptr<MountBackend::Region>> MountBackend::region_of(const Memory& memory) {
  const RegionKey key{memory.buffer, memory.buffer_length, memory.device.allocation};
  const std::lock_guard lock(regions_mutex_);
  const auto known = regions_.find(key);
  if (known != regions_.end()) {
    known->second.last_use = ++uses_;
    return known->second.region;
  }
  // The others are those that operations hold, slots, and what is on its way out.
  static_assert(limits::kRegionsMax <= wire::kRegionsMax / 2);
  if (regions_.size() >= limits::kRegionsMax) {
    const auto oldest = std::min_element(
        regions_.begin(), regions_.end(),
        [](const auto& a, const auto& b) { return a.second.last_use < b.second.last_use; });
    regions_.erase(oldest);
  }
  auto region = std::make_shared<Region>();
  const int error = penstock_region_register_device(session_, memory.buffer, memory.buffer_length,
                                                    &region->handle);
  if (error < 0) return Status::from_errno(-error);
  regions_[key] = {region, ++uses_};
  return region;
}

// The parts that a ring takes.
void MountBackend::cut(Operation& operation) {
  const uint64_t count = front::part_count(operation.memory.length);
  operation.parts = std::vector<RingPart>(count);
  operation.parts_left = static_cast<uint32_t>(count);
  for (uint64_t i = 0; i < count; ++i) {
    RingPart& part = operation.parts[i];
    part.operation = &operation;
    const front::Part own = front::part_at(operation.memory.length, i);
    part.begin = own.begin;
    part.length = own.length;
  }
}

Status MountBackend::hold_region(Operation& operation) {
  operation.route = engine::Route::none;
  operation.transferred = 0;
  TRY_ASSIGN(operation.region, region_of(operation.memory));
  return Code::ok;
}

penstock_io MountBackend::entry_of(Operation& operation, RingPart& part) {
  penstock_io entry{};
  entry.operation = operation.write ? PENSTOCK_WRITE : PENSTOCK_READ;
  entry.file = static_cast<penstock_file>(operation.file->id);
  entry.offset = operation.offset + part.begin;
  entry.length = part.length;
  entry.region = static_cast<Region*>(operation.region.get())->handle;
  entry.region_offset =
      static_cast<uint64_t>(operation.memory.data - operation.memory.buffer) + part.begin;
  entry.user_data = reinterpret_cast<uint64_t>(&part);
  return entry;
}

void MountBackend::take_end(RingPart& part, const penstock_completion& completion) {
  part.status = status_of(completion.result);
  part.done = completion.result > 0 ? static_cast<uint64_t>(completion.result) : 0;
  const auto route = static_cast<engine::Route>(completion.route);
  part.operation->route = engine::worse(part.operation->route, route);
  --part.operation->parts_left;
}

// All parts have ended: what came before the first that is not whole counts.
void MountBackend::finish(Operation& operation) {
  operation.status = Code::ok;
  operation.transferred = 0;
  for (const RingPart& part : operation.parts) {
    operation.transferred += part.done;
    operation.status = part.status;
    if (!part.status.ok() || part.done < part.length) break;
  }
  operation.region.reset();
}

penstock_lane* MountBackend::take_lane() {
  std::unique_lock lock(lanes_mutex_);
  if (free_lanes_.empty() && lanes_ < limits::kLanes) {
    penstock_lane* lane = nullptr;
    if (penstock_lane_claim(ring_, &lane) == 0) {
      ++lanes_;
      return lane;
    }
  }
  if (lanes_ == 0) return nullptr;
  lane_is_free_.wait(lock, [this] { return !free_lanes_.empty(); });
  penstock_lane* const lane = free_lanes_.back();
  free_lanes_.pop_back();
  return lane;
}

void MountBackend::give_back(penstock_lane* lane) {
  const std::lock_guard lock(lanes_mutex_);
  free_lanes_.push_back(lane);
  lane_is_free_.notify_one();
}

void MountBackend::run(Operation& operation) {
  if (!operation.memory.on_device) return run_on_host(operation);
  operation.status = hold_region(operation);
  if (!operation.status.ok()) return;
  penstock_lane* const lane = take_lane();
  if (lane == nullptr) {
    operation.status = Code::peer_gone;
    return operation.region.reset();
  }
  cut(operation);
  size_t next = 0;
  while (operation.parts_left > 0) {
    for (; next < operation.parts.size(); ++next) {
      RingPart& part = operation.parts[next];
      const penstock_io entry = entry_of(operation, part);
      const int error = penstock_lane_prepare(lane, &entry);
      if (error == -EAGAIN) break;
      if (error < 0) take_end(part, {entry.user_data, error, 0, {}});
    }
    if (operation.parts_left == 0) break;
    penstock_lane_submit(lane, UINT32_MAX);
    penstock_completion completion{};
    const int count = penstock_lane_wait(lane, &completion, 1, 1, PENSTOCK_FOREVER);
    // The session is gone, but the memory may still be in use: the parts end by and by.
    if (count < 0) std::this_thread::sleep_for(limits::kDeadSessionPause);
    if (count == 1) take_end(*reinterpret_cast<RingPart*>(completion.user_data), completion);
  }
  give_back(lane);
  finish(operation);
}

// The lane for operations that no calling thread waits for, and the thread that takes their ends.
Status MountBackend::start_waiting() {
  if (lane_ == nullptr && penstock_lane_claim(ring_, &lane_) != 0) return Code::peer_gone;
  if (thread_.joinable()) return Code::ok;
  Outcome<std::thread> started =
      start_thread("the thread for what is submitted", [this] { wait_for_ends(); });
  if (!started) {
    log::error("cufile: {}", started.error().message);
    return started.error().status;
  }
  thread_ = std::move(*started);
  return Code::ok;
}

void MountBackend::submit(std::span<Operation* const> operations) {
  for (Operation* const operation : operations) {
    if (!operation->memory.on_device) {
      host_threads_.submit(*operation);
      continue;
    }
    Status begun = hold_region(*operation);
    if (begun.ok()) {
      const std::lock_guard lock(submit_mutex_);
      begun = start_waiting();
      // Under the lock, as cancel() looks at the parts.
      cut(*operation);
      for (RingPart& part : operation->parts) {
        if (begun.ok()) waiting_.push_back(part);
      }
    }
    // Another thread may have passed it on already, and it may have ended.
    if (begun.ok()) continue;
    operation->status = begun;
    operation->region.reset();
    operation->ended(*operation);
  }
  pass_on();
}

// Prepares as many of the waiting parts as the lane has room for.
void MountBackend::pass_on() {
  std::vector<Operation*> ended;
  {
    const std::lock_guard lock(submit_mutex_);
    while (!waiting_.empty()) {
      RingPart& part = waiting_.front();
      const penstock_io entry = entry_of(*part.operation, part);
      const int error = penstock_lane_prepare(lane_, &entry);
      if (error == -EAGAIN) break;
      waiting_.pop_front();
      if (error == 0) continue;
      take_end(part, {entry.user_data, error, 0, {}});
      if (part.operation->parts_left == 0) ended.push_back(part.operation);
    }
    if (lane_ != nullptr) penstock_lane_submit(lane_, UINT32_MAX);
  }
  for (Operation* const operation : ended) {
    finish(*operation);
    operation->ended(*operation);
  }
}

void MountBackend::cancel(Operation& operation) {
  if (!operation.memory.on_device) return host_threads_.cancel(operation);
  const std::lock_guard lock(submit_mutex_);
  if (lane_ == nullptr) return;
  for (RingPart& part : operation.parts) {
    penstock_lane_cancel(lane_, reinterpret_cast<uint64_t>(&part));
  }
}

// In the thread.
void MountBackend::wait_for_ends() {
  std::vector<penstock_completion> completions(limits::kLaneEntries);
  bool stop = false;
  while (!stop) {
    const int count =
        penstock_lane_wait(lane_, completions.data(), limits::kLaneEntries, 1, PENSTOCK_FOREVER);
    // The session is gone: what is in flight ends by and by, and so does what is submitted later.
    if (count < 0) std::this_thread::sleep_for(limits::kDeadSessionPause);
    stop = stop_.load(std::memory_order_relaxed);
    for (int i = 0; i < count; ++i) {
      const penstock_completion& completion = completions[static_cast<size_t>(i)];
      if (completion.user_data == 0) continue;
      auto& part = *reinterpret_cast<RingPart*>(completion.user_data);
      Operation& operation = *part.operation;
      bool last = false;
      {
        const std::lock_guard lock(submit_mutex_);
        take_end(part, completion);
        last = operation.parts_left == 0;
      }
      if (!last) continue;
      finish(operation);
      operation.ended(operation);
    }
    pass_on();
  }
}

}  // namespace penstock::cufile
