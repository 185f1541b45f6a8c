// Files of other file systems: by mover, in this process.
#pragma once

#include "backend.h"
#include "host_threads.h"

#include <memory>

#include "penstock/local.h"

#if PENSTOCK_MAILBOX
#include "mailbox/small_reads.h"
#else
#include "without_small_reads.h"
#endif

namespace penstock::cufile {

class LocalBackend final : public Backend {
 public:
  static Outcome<std::unique_ptr<LocalBackend>> start(engine::DeviceMemory& devices,
                                                      local::LocalOptions options);
  ~LocalBackend() override;

  // The number of the file behind a descriptor.
  Outcome<uint32_t> add(int fd) { return source_->add(fd); }

  void run(Operation& operation) override;
  void submit(std::span<Operation* const> operations) override;
  void cancel(Operation& operation) override;
  void remove(uint32_t file) override { source_->remove(file); }

 private:
  LocalBackend();
  void run_on_host(Operation& operation);
  void run_by_mover(Operation& operation);
  void prepare(Operation& operation);
  static void take_end(Operation& operation);

  MutableBytes slots_;
  local::LocalSource* source_ = nullptr;  // of transfers_
  std::unique_ptr<route::Transfers> transfers_;
  std::unique_ptr<SmallReads> small_reads_;
  HostThreads host_threads_;
};

}  // namespace penstock::cufile
