#include "stream_operations.h"

#include "errors.h"
#include "host_threads.h"
#include "limits.h"

namespace penstock::cufile {

struct StreamOperations::Pending : ListNode {
  engine::DeviceMemory* devices = nullptr;  // whose gate it is
  std::unique_ptr<engine::StreamGate> gate;
  StreamRequest request;
  // What was known at submission, for the request to point to.
  size_t size = 0;
  off_t file_offset = 0;
  off_t buffer_offset = 0;
  bool waited_for = false;  // by submit()
  bool done = false;
  Driver::Use driver;  // while it is in flight
  Running running;
};

StreamOperations& StreamOperations::instance() {
  static StreamOperations* const operations = new StreamOperations;
  return *operations;
}

bool StreamOperations::add_stream(CUstream stream, unsigned flags) {
  const std::lock_guard lock(mutex_);
  if (streams_.size() >= limits::kStreamsMax) return false;
  return streams_.emplace(stream, flags).second;
}

bool StreamOperations::remove_stream(CUstream stream) {
  const std::lock_guard lock(mutex_);
  return streams_.erase(stream) > 0;
}

void StreamOperations::remove_all_streams() {
  const std::lock_guard lock(mutex_);
  streams_.clear();
}

Outcome<std::unique_ptr<StreamOperations::Pending>> StreamOperations::take(
    engine::DeviceMemory& devices) {
  std::unique_ptr<Pending> pending;
  {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) {
      TRY_ASSIGN(thread_, start_thread("the thread for streams", [this] { loop(); }));
    }
    if (!idle_.empty()) {
      pending = std::move(idle_.back());
      idle_.pop_back();
    } else if (count_ < limits::kStreamOperationsMax) {
      ++count_;
      pending = std::make_unique<Pending>();
    } else {
      return Failure{Code::busy, "too many operations wait in streams"};
    }
  }
  if (pending->devices == &devices) return pending;
  // The devices that the driver has now: a test may have replaced them.
  Outcome<std::unique_ptr<engine::StreamGate>> gate = devices.make_gate();
  if (!gate) {
    give_back(std::move(pending));
    return gate.error();
  }
  pending->gate = std::move(*gate);
  pending->devices = &devices;
  return pending;
}

void StreamOperations::give_back(std::unique_ptr<Pending> pending) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(pending));
}

CUfileError_t StreamOperations::submit(OpenDriver& driver, const StreamRequest& request,
                                       CUstream stream) {
  Outcome<std::unique_ptr<Pending>> taken = take(driver.devices());
  if (!taken) {
    const bool busy = taken.error().status == Code::busy;
    return busy ? result(CU_FILE_NOMEM_ERROR) : result(CU_FILE_CUDA_DRIVER_ERROR);
  }
  Pending& pending = **taken;
  unsigned flags = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto known = streams_.find(stream);
    if (known != streams_.end()) flags = known->second;
  }
  pending.request = request;
  const auto keep = [flags](unsigned flag, auto*& given, auto& kept) {
    if ((flags & flag) == 0) return;
    kept = *given;
    given = &kept;
  };
  keep(CU_FILE_STREAM_FIXED_FILE_SIZE, pending.request.size, pending.size);
  keep(CU_FILE_STREAM_FIXED_FILE_OFFSET, pending.request.file_offset, pending.file_offset);
  keep(CU_FILE_STREAM_FIXED_BUF_OFFSET, pending.request.buffer_offset, pending.buffer_offset);
  pending.waited_for = stream == nullptr;
  pending.done = false;
  const Status enqueued = pending.gate->enqueue(stream, reached, &pending);
  if (!enqueued.ok()) {
    const bool refused = enqueued == Code::not_supported;
    if (!refused) {
      // The gate may be in the stream all the same: it is not destroyed.
      (void)pending.gate.release();
      pending.devices = nullptr;
    }
    give_back(std::move(*taken));
    if (refused) return result(CU_FILE_ASYNC_NOT_SUPPORTED);
    return result(CU_FILE_CUDA_DRIVER_ERROR, static_cast<CUresult>(enqueued.detail()));
  }
  // From here on the operation belongs to the stream, until finish().
  if (!pending.waited_for) {
    (void)taken->release();
    return result(CU_FILE_SUCCESS);
  }
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [&] { return pending.done; });
  idle_.push_back(std::move(*taken));
  return result(CU_FILE_SUCCESS);
}

// In a thread of CUDA's.
void StreamOperations::reached(void* context) {
  StreamOperations& self = instance();
  const std::lock_guard lock(self.mutex_);
  self.reached_.push_back(*static_cast<Pending*>(context));
  self.work_.notify_one();
}

void StreamOperations::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    Pending* const pending = reached_.pop_front();
    if (pending == nullptr) {
      work_.wait(lock);
      continue;
    }
    lock.unlock();
    begin(*pending);
    lock.lock();
  }
}

void StreamOperations::begin(Pending& pending) {
  Result<Driver::Use, CUfileError_t> driver = Driver::instance().enter_open();
  if (!driver) return finish(pending, -int64_t{CU_FILE_DRIVER_CLOSING});
  const StreamRequest& asked = pending.request;
  const Request request{asked.write, asked.handle,       asked.base,
                        *asked.size, *asked.file_offset, *asked.buffer_offset};
  const CUfileOpError refused = prepare(**driver, request, true, &pending.running);
  if (refused != CU_FILE_SUCCESS || request.size == 0) {
    pending.running.file = {};
    return finish(pending, -int64_t{refused});
  }
  pending.driver = std::move(*driver);
  pending.running.operation.owner = &pending;
  pending.running.operation.ended = ended;
  pending.running.file->backend->submit(pending.running.operation);
}

void StreamOperations::ended(Operation& operation) {
  Pending& pending = *static_cast<Pending*>(operation.owner);
  const End end = end_of(*pending.driver, operation);
  count(pending.running, end, false);
  const Driver::Use driver = std::move(pending.driver);
  const HandleTable<File>::Use file = std::move(pending.running.file);
  // As cuFileRead() returns it, but for errno.
  const bool of_the_file = end.error != 0 && end.error < CUFILEOP_BASE_ERR;
  instance().finish(pending, of_the_file ? -1 : as_event(end));
}

void StreamOperations::finish(Pending& pending, int64_t result) {
  *pending.request.bytes = result;
  pending.gate->open();
  const std::lock_guard lock(mutex_);
  pending.done = true;
  if (pending.waited_for) {
    finished_.notify_all();
  } else {
    idle_.emplace_back(&pending);
  }
}

}  // namespace penstock::cufile
