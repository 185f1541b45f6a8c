// Reads and writes as programs ask for them: checks before, results after.
#pragma once

#include "driver.h"

#include <sys/types.h>

namespace penstock::cufile {

struct Request {
  bool write = false;
  CUfileHandle_t handle = nullptr;
  void* base = nullptr;
  uint64_t size = 0;
  off_t file_offset = 0;
  off_t buffer_offset = 0;
};

// A request on its way: an operation, and its hold on the file.
struct Running {
  HandleTable<File>::Use file;
  Operation operation;
  engine::Time began{};
};

// Why it cannot be, or CU_FILE_SUCCESS: then the operation is ready to go. `afresh` as in
// Buffers::resolve().
CUfileOpError prepare(OpenDriver& driver, const Request& request, bool afresh, Running* running);

// For a write that its caller waits for, or that may begin at once: what the program has done to
// the memory so far is done, as with the plain copies that such a write replaces. Not for streams,
// which order things themselves.
void wait_for_default_streams(OpenDriver& driver, const Operation& operation);

// How it ended. What may be the file's fault is the memory's only if that is gone.
struct End {
  uint64_t bytes = 0;
  int error = 0;  // a positive errno or CUfileOpError; 0: none
};
End end_of(OpenDriver& driver, const Operation& operation);
// As cuFileRead() returns it; sets errno.
ssize_t returned(const End& end);
// As an event of a batch has it.
inline int64_t as_event(const End& end) {
  return end.error != 0 ? -int64_t{end.error} : static_cast<int64_t>(end.bytes);
}

void count(const Running& running, const End& end, bool batch);

// The whole of cuFileRead() and cuFileWrite().
ssize_t run(const Request& request);

}  // namespace penstock::cufile
