#include "batch.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>

namespace penstock::cufile {

using Event = Statistics::Event;

void Batch::finish() {
  cancel();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return in_flight_ == 0; });
}

namespace {

// Programs may have put any number where an enumeration stands.
template <class Enumeration>
int number_of(const Enumeration& value) {
  int number = 0;
  static_assert(sizeof value == sizeof number);
  std::memcpy(&number, &value, sizeof number);
  return number;
}

}  // namespace

bool Batch::can_take(OpenDriver& driver, const CUfileIOParams_t& request) {
  return number_of(request.mode) == CUFILE_BATCH &&
         static_cast<bool>(driver.files().find(request.fh));
}

CUfileOpError Batch::submit(OpenDriver& driver, const CUfileIOParams_t* requests, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    if (!can_take(driver, requests[i])) return CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR;
  }
  std::vector<Entry*> taken;
  {
    const std::lock_guard lock(mutex_);
    if (count > free_.size()) return CU_FILE_BATCH_FULL;
    for (uint32_t i = 0; i < count; ++i) {
      taken.push_back(free_.back());
      free_.pop_back();
      taken.back()->in_flight = true;
      taken.back()->backend = nullptr;
    }
    in_flight_ += count;
  }
  Driver::instance().statistics().begin_batch(count);
  // Those of one backend go together.
  std::map<Backend*, std::vector<Operation*>> started;
  for (uint32_t i = 0; i < count; ++i) {
    Entry& entry = *taken[i];
    if (start(driver, entry, requests[i])) {
      started[entry.backend].push_back(&entry.running.operation);
    }
  }
  for (const auto& [backend, operations] : started) backend->submit(operations);
  return CU_FILE_SUCCESS;
}

// False when it has ended already.
bool Batch::start(OpenDriver& driver, Entry& entry, const CUfileIOParams_t& params) {
  entry.batch = this;
  entry.cookie = params.cookie;
  const int opcode = number_of(params.opcode);
  const bool is_known = opcode == CUFILE_READ || opcode == CUFILE_WRITE;
  Request request;
  request.write = opcode == CUFILE_WRITE;
  request.handle = params.fh;
  request.base = params.u.batch.devPtr_base;
  request.size = params.u.batch.size;
  request.file_offset = params.u.batch.file_offset;
  request.buffer_offset = params.u.batch.devPtr_offset;
  const CUfileOpError refused =
      is_known ? prepare(driver, request, true, &entry.running) : CU_FILE_INVALID_VALUE;
  if (refused != CU_FILE_SUCCESS) {
    entry.running.file = {};
    end(entry, CUFILE_FAILED, -int64_t{refused});
    return false;
  }
  if (request.size == 0) {
    entry.running.file = {};
    end(entry, CUFILE_COMPLETE, 0);
    return false;
  }
  Result<Driver::Use, CUfileError_t> use = Driver::instance().enter_open();
  if (!use) {
    entry.running.file = {};
    end(entry, CUFILE_CANCELED, -int64_t{CU_FILE_DRIVER_CLOSING});
    return false;
  }
  wait_for_default_streams(driver, entry.running.operation);
  entry.driver = std::move(*use);
  entry.running.operation.owner = &entry;
  entry.running.operation.ended = ended;
  const std::lock_guard lock(mutex_);
  entry.backend = entry.running.file->backend;
  return true;
}

void Batch::ended(Operation& operation) {
  Entry& entry = *static_cast<Entry*>(operation.owner);
  const End how = end_of(*entry.driver, operation);
  count(entry.running, how, true);
  // They outlive the entry's end, after which the batch may be gone.
  const Driver::Use driver = std::move(entry.driver);
  const HandleTable<File>::Use file = std::move(entry.running.file);
  CUfileStatus_t status = how.error == 0 ? CUFILE_COMPLETE : CUFILE_FAILED;
  if (operation.status == Code::cancelled) status = CUFILE_CANCELED;
  entry.batch->end(entry, status, as_event(how));
}

void Batch::end(Entry& entry, CUfileStatus_t status, int64_t result) {
  const std::lock_guard lock(mutex_);
  entry.status = status;
  entry.result = result;
  entry.in_flight = false;
  ended_.push_back(&entry);
  --in_flight_;
  changed_.notify_all();
}

uint32_t Batch::take_ended(uint32_t min, uint32_t max, CUfileIOEvents_t* events,
                           engine::Time deadline) {
  std::unique_lock lock(mutex_);
  const auto is_enough = [&] { return ended_.size() >= min || in_flight_ == 0; };
  while (!is_enough()) {
    const engine::Duration left = deadline - engine::system_clock().now();
    if (deadline == engine::kNever) {
      changed_.wait(lock);
    } else if (left <= engine::Duration::zero()) {
      break;
    } else {
      changed_.wait_for(lock, left);
    }
  }
  uint32_t count = 0;
  for (; count < max && !ended_.empty(); ++count) {
    Entry& entry = *ended_.front();
    ended_.pop_front();
    events[count] = {entry.cookie, entry.status, static_cast<size_t>(entry.result)};
    free_.push_back(&entry);
  }
  Driver::instance().statistics().count(Event::batch_complete, true, count);
  return count;
}

void Batch::cancel() {
  std::vector<Entry*> running;
  {
    const std::lock_guard lock(mutex_);
    for (Entry& entry : entries_) {
      if (entry.in_flight) running.push_back(&entry);
    }
  }
  for (Entry* const entry : running) {
    Backend* backend = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (entry->in_flight) backend = entry->backend;
    }
    if (backend != nullptr) backend->cancel(entry->running.operation);
  }
}

}  // namespace penstock::cufile
