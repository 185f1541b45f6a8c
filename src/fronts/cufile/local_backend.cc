#include "local_backend.h"

#include "limits.h"

#include <cerrno>
#include <sys/mman.h>

namespace penstock::cufile {

LocalBackend::LocalBackend()
    : host_threads_([this](Operation& operation) { run_on_host(operation); }) {}

Outcome<std::unique_ptr<LocalBackend>> LocalBackend::start(engine::DeviceMemory& devices,
                                                           local::LocalOptions options) {
  std::unique_ptr<LocalBackend> made(new LocalBackend);
  void* const memory = ::mmap(nullptr, limits::kSlotsBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) {
    return Failure{Status::from_errno(errno), "map memory for transfers: out of memory"};
  }
  made->slots_ = {static_cast<std::byte*>(memory), limits::kSlotsBytes};
  const auto make_source = [&](engine::Loop& loop) {
    auto source = std::make_unique<local::LocalSource>(loop, devices, options);
    made->source_ = source.get();
    return source;
  };
  // There are no checksums of these files. Taking some on the way would cost the thread that drives
  // more time than all else, and make each read wait behind the program's kernels.
  TRY_ASSIGN(made->transfers_, route::Transfers::start(devices, make_source,
                                                       {.slots = made->slots_, .verify = false}));
  made->small_reads_ = std::make_unique<SmallReads>(devices, *made->source_);
  return made;
}

LocalBackend::~LocalBackend() {
  small_reads_.reset();
  transfers_.reset();
  if (!slots_.empty()) ::munmap(slots_.data(), slots_.size());
}

void LocalBackend::prepare(Operation& operation) {
  route::Transfer& transfer = operation.transfer;
  transfer.write = operation.write;
  transfer.file = operation.file->id;
  transfer.offset = operation.offset;
  transfer.memory = operation.memory.device;
  transfers_->learn_costs(transfer.memory.device);
}

void LocalBackend::take_end(Operation& operation) {
  operation.status = operation.transfer.status;
  operation.transferred = operation.transfer.transferred;
  operation.route = operation.transfer.route;
}

void LocalBackend::run_on_host(Operation& operation) {
  route::HostIo io;
  io.write = operation.write;
  io.file = operation.file->id;
  io.offset = operation.offset;
  io.memory = {operation.memory.data, operation.memory.length};
  source_->run(io);
  operation.status = io.status;
  operation.transferred = io.transferred;
  operation.route = io.route;
}

void LocalBackend::run_by_mover(Operation& operation) {
  prepare(operation);
  transfers_->run(operation.transfer);
  take_end(operation);
}

void LocalBackend::run(Operation& operation) {
  if (!operation.memory.on_device) return run_on_host(operation);
  small_reads_->run(operation, [&] { run_by_mover(operation); });
}

void LocalBackend::submit(std::span<Operation* const> operations) {
  std::vector<route::Transfer*> transfers;
  transfers.reserve(operations.size());
  for (Operation* const operation : operations) {
    if (!operation->memory.on_device) {
      host_threads_.submit(*operation);
      continue;
    }
    prepare(*operation);
    operation->transfer.owner = operation;
    operation->transfer.ended = [](route::Transfer& transfer) {
      auto& ended = transfer.owner_as<Operation>();
      take_end(ended);
      ended.ended(ended);
    };
    transfers.push_back(&operation->transfer);
  }
  if (!transfers.empty()) transfers_->submit(transfers);
}

void LocalBackend::cancel(Operation& operation) {
  if (!operation.memory.on_device) return host_threads_.cancel(operation);
  transfers_->cancel(operation.transfer);
}

}  // namespace penstock::cufile
