#include "requests.h"

#include "errors.h"

#include <cerrno>
#include <climits>

namespace penstock::cufile {

namespace {

// What is wrong with the numbers alone.
CUfileOpError check(const Request& request) {
  const bool negative = request.file_offset < 0 || request.buffer_offset < 0;
  if (request.base == nullptr || negative) return CU_FILE_INVALID_VALUE;
  const bool too_large = request.size > SSIZE_MAX ||
                         static_cast<uint64_t>(request.file_offset) > SSIZE_MAX - request.size ||
                         static_cast<uint64_t>(request.buffer_offset) > SSIZE_MAX - request.size;
  return too_large ? CU_FILE_INVALID_VALUE : CU_FILE_SUCCESS;
}

// Freed since it was found, and perhaps allocated again.
bool is_gone(OpenDriver& driver, const Memory& memory) {
  if (!memory.on_device) return false;
  const Result<engine::DeviceSpan> now = driver.devices().find(memory.data, memory.length);
  return !now || now->allocation != memory.device.allocation;
}

End run_once(OpenDriver& driver, const Request& request, bool afresh) {
  Running running;
  const CUfileOpError refused = prepare(driver, request, afresh, &running);
  if (refused != CU_FILE_SUCCESS) return {0, refused};
  wait_for_default_streams(driver, running.operation);
  if (request.size > 0) running.file->backend->run(running.operation);
  const End end = end_of(driver, running.operation);
  count(running, end, false);
  return end;
}

}  // namespace

CUfileOpError prepare(OpenDriver& driver, const Request& request, bool afresh, Running* running) {
  running->file = driver.files().find(request.handle);
  if (!running->file) return CU_FILE_HANDLE_NOT_REGISTERED;
  const CUfileOpError wrong = check(request);
  if (wrong != CU_FILE_SUCCESS) return wrong;
  File& file = *running->file;
  if (request.write ? !file.writable : !file.readable) return CU_FILE_INVALID_FILE_OPEN_FLAG;
  Result<Memory, CUfileOpError> memory = driver.buffers().resolve(
      request.base, static_cast<uint64_t>(request.buffer_offset), request.size, afresh);
  if (!memory) return memory.error();
  Operation& operation = running->operation;
  operation.file = &file;
  operation.write = request.write;
  operation.offset = static_cast<uint64_t>(request.file_offset);
  operation.memory = *memory;
  const bool timed = Driver::instance().statistics().counts();
  running->began = timed ? engine::system_clock().now() : engine::Time{};
  return CU_FILE_SUCCESS;
}

void wait_for_default_streams(OpenDriver& driver, const Operation& operation) {
  if (!operation.write || !operation.memory.on_device) return;
  const Status settled = driver.devices().settle(operation.memory.device.device);
  static_cast<void>(settled);  // A device that is lost is told by the write itself.
}

End end_of(OpenDriver& driver, const Operation& operation) {
  if (operation.status.ok()) return {operation.transferred, 0};
  const bool memory_is_at_fault =
      operation.status == Code::invalid_argument && is_gone(driver, operation.memory);
  return {0, memory_is_at_fault ? int{CU_FILE_CUDA_POINTER_INVALID} : operation.status.to_errno()};
}

ssize_t returned(const End& end) {
  if (end.error == 0) return static_cast<ssize_t>(end.bytes);
  errno = end.error;
  return end.error > CUFILEOP_BASE_ERR ? -ssize_t{end.error} : -1;
}

void count(const Running& running, const End& end, bool batch) {
  Statistics& statistics = Driver::instance().statistics();
  if (!statistics.counts()) return;
  const Operation& operation = running.operation;
  Statistics::Io io;
  io.write = operation.write;
  io.batch = batch;
  io.ok = end.error == 0;
  io.asked = operation.memory.length;
  io.bytes = end.bytes;
  io.offset = operation.offset;
  if (operation.memory.on_device) io.device = operation.memory.device.device.value;
  io.route = operation.route;
  if (running.began != engine::Time{}) io.time = engine::system_clock().now() - running.began;
  statistics.count(io);
}

ssize_t run(const Request& request) {
  Driver& process = Driver::instance();
  const Result<Driver::Use, CUfileError_t> driver = process.enter();
  if (!driver) return returned({0, driver.error().err});
  End end = run_once(**driver, request, false);
  // The thread may have remembered memory that was freed since.
  if (end.error == CU_FILE_CUDA_POINTER_INVALID) end = run_once(**driver, request, true);
  return returned(end);
}

}  // namespace penstock::cufile
