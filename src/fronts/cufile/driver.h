// The library's state: closed, or open with everything that programs have made known to it.
#pragma once

#include "buffers.h"
#include "handle_table.h"
#include "limits.h"
#include "local_backend.h"
#include "mount_backend.h"
#include "parameters.h"
#include "statistics.h"

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "penstock/front.h"

namespace penstock::cufile {

class Batch;

// What exists while the driver is open. Thread safe.
class OpenDriver {
 public:
  static Result<std::unique_ptr<OpenDriver>, CUfileError_t> open(const Parameters& parameters);
  ~OpenDriver();
  // Ends what can be ended early.
  void cancel();

  engine::DeviceMemory& devices() { return devices_; }
  Buffers& buffers() { return buffers_; }
  HandleTable<File>& files() { return files_; }
  HandleTable<Batch>& batches() { return batches_; }

  CUfileOpError register_file(int fd, CUfileHandle_t* handle);
  // Before the first operation of a file's backend on a GPU that is to run while a stream waits for
  // it: everything that the driver would make a device idle for happens now.
  CUfileError_t prepare_stream(File& file, const void* base);

 private:
  OpenDriver(engine::DeviceMemory& devices, const Parameters& parameters);
  Result<std::unique_ptr<File>, CUfileOpError> make_file(int fd);
  CUfileOpError add_to_backend(File& file);
  MountBackend* mount_of(dev_t device);
  CUfileError_t prepare_local(engine::DeviceId device);
  CUfileError_t prepare_mount(File& file, engine::DeviceId device);
  CUfileError_t read_scratch(File& file, engine::DeviceId device, Status* status);

  engine::DeviceMemory& devices_;
  const bool may_go_by_kernel_;
  std::unique_ptr<LocalBackend> local_;
  front::Sessions sessions_{"cufile"};                     // before the backends that use them
  std::map<dev_t, std::unique_ptr<MountBackend>> mounts_;  // null: no agent could be reached
  Buffers buffers_;
  std::mutex mutex_;
  std::map<int, CUfileHandle_t> numbers_;  // of the programs' descriptors, some of them gone
  std::mutex prepared_mutex_;
  std::set<std::pair<const Backend*, uint32_t>> prepared_;  // with a GPU
  HandleTable<File> files_;
  HandleTable<Batch> batches_;
};

// One for the process, and never destroyed: threads of the program may be in here when it exits.
class Driver {
 public:
  static Driver& instance();

  // Counts some of the threads that are in here.
  struct alignas(64) Users {
    std::atomic<uint64_t> count{0};
  };

  // Holds the driver open.
  class Use {
   public:
    Use() = default;
    Use(Users& users, OpenDriver& opened) : users_(&users), opened_(&opened) {}
    Use(Use&& other) noexcept
        : users_(std::exchange(other.users_, nullptr)), opened_(other.opened_) {}
    Use& operator=(Use&& other) noexcept {
      std::swap(users_, other.users_);
      std::swap(opened_, other.opened_);
      return *this;
    }
    ~Use() {
      if (users_ != nullptr) instance().leave(*users_);
    }
    OpenDriver* operator->() const { return &**this; }
    OpenDriver& operator*() const { return *opened_; }

   private:
    Users* users_ = nullptr;  // where it is counted; it may end in another thread
    OpenDriver* opened_ = nullptr;
  };

  CUfileError_t open();
  CUfileError_t close();
  long use_count() const { return forked() ? 0 : count_.load(std::memory_order_relaxed); }
  bool is_open() const { return use_count() > 0; }
  // Opens the driver if it is closed.
  Result<Use, CUfileError_t> enter();
  // Only if it is open.
  Result<Use, CUfileError_t> enter_open();

  // For calls that concern the closed driver, too: parameters, and with them whether it is open.
  template <class Body>
  auto with_parameters(Body body) {
    const std::lock_guard lock(parameters_mutex_);
    return body(parameters_, use_count() > 0);
  }
  Statistics& statistics() { return statistics_; }
  bool forked() const { return forked_.load(std::memory_order_relaxed); }

 private:
  Driver();
  Result<Use, CUfileError_t> try_enter();
  void leave(Users& users);
  Users& users_of_thread();
  CUfileError_t open_locked();

  // Users and the pointer: an entering thread counts itself and then looks, a closing one takes the
  // pointer away and then waits for each count; sequentially consistent, so that one sees the
  // other.
  std::array<Users, limits::kUserCounters> users_;
  alignas(64) std::atomic<OpenDriver*> open_{nullptr};
  // Relaxed: set in a child that has one thread.
  std::atomic<bool> forked_{false};
  // Held while the driver opens and closes, which waits for users: they must not ask for it.
  alignas(64) std::mutex mutex_;
  std::atomic<long> count_{0};  // changes under the mutex; relaxed: it orders nothing
  std::mutex parameters_mutex_;
  Parameters parameters_;
  Statistics statistics_;
};

}  // namespace penstock::cufile
