// Reads and writes in the order of a stream.
//
// Each is a gate in its stream. When the stream comes to it, the driver's thread hands the
// operation to a thread of ours, which reads what was not known before, carries the operation out,
// stores the result and opens the gate.
#pragma once

#include "requests.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

namespace penstock::cufile {

// What a program passes by pointer, to be read when the stream is there.
struct StreamRequest {
  bool write = false;
  CUfileHandle_t handle = nullptr;
  void* base = nullptr;
  const size_t* size = nullptr;
  const off_t* file_offset = nullptr;
  const off_t* buffer_offset = nullptr;
  ssize_t* bytes = nullptr;
};

// One for the process, and never destroyed, as what a stream will come to may be later than the
// driver's close. Thread safe.
class StreamOperations {
 public:
  static StreamOperations& instance();

  // CU_FILE_STREAM_* of what is known at submission. False when the stream is registered already.
  bool add_stream(CUstream stream, unsigned flags);
  bool remove_stream(CUstream stream);
  void remove_all_streams();

  CUfileError_t submit(OpenDriver& driver, const StreamRequest& request, CUstream stream);

 private:
  struct Pending;

  Outcome<std::unique_ptr<Pending>> take(engine::DeviceMemory& devices);
  void give_back(std::unique_ptr<Pending> pending);
  static void reached(void* context);
  void loop();
  void begin(Pending& pending);
  static void ended(Operation& operation);
  void finish(Pending& pending, int64_t result);

  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable finished_;
  std::unordered_map<CUstream, unsigned> streams_;
  std::vector<std::unique_ptr<Pending>> idle_;
  uint32_t count_ = 0;  // idle or not
  IntrusiveList<Pending> reached_;
  std::thread thread_;  // starts with the first operation
};

}  // namespace penstock::cufile
