// Batches: several operations submitted together, whose ends are asked for.
#pragma once

#include "requests.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <time.h>
#include <vector>

namespace penstock::cufile {

// Thread safe. An entry is free, or taken from submit() until its status was given.
class Batch {
 public:
  explicit Batch(uint32_t entries) : entries_(entries) {
    for (Entry& entry : entries_) free_.push_back(&entry);
  }
  ~Batch() { finish(); }

  CUfileOpError submit(OpenDriver& driver, const CUfileIOParams_t* requests, uint32_t count);
  // Waits until `min` have ended, nothing more is in flight, or the time has come. Returns how many
  // events there are.
  uint32_t take_ended(uint32_t min, uint32_t max, CUfileIOEvents_t* events, engine::Time deadline);
  void cancel();
  // Cancels, and waits for what is in flight.
  void finish();

 private:
  struct Entry {
    Batch* batch = nullptr;
    Driver::Use driver;  // while it is in flight
    Running running;
    void* cookie = nullptr;
    bool in_flight = false;
    Backend* backend = nullptr;  // once it is in flight there
    CUfileStatus_t status = CUFILE_WAITING;
    int64_t result = 0;
  };

  static bool can_take(OpenDriver& driver, const CUfileIOParams_t& request);
  bool start(OpenDriver& driver, Entry& entry, const CUfileIOParams_t& request);
  static void ended(Operation& operation);
  void end(Entry& entry, CUfileStatus_t status, int64_t result);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> entries_;
  std::vector<Entry*> free_;
  std::deque<Entry*> ended_;  // whose status was not given yet
  uint32_t in_flight_ = 0;
};

}  // namespace penstock::cufile
