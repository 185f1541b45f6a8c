#include "local_ways.h"

#include <atomic>
#include <fcntl.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

#include "penstock/local.h"
#include "penstock/route.h"

namespace penstock::apps {
namespace {

constexpr uint64_t kSlotsBytes = 64 * kMiB;
constexpr uint64_t kPieceBytes = 16 * kMiB;
constexpr uint32_t kThreads = 4;

class LocalRig {
 public:
  static Outcome<std::unique_ptr<LocalRig>> make(engine::DeviceMemory& devices,
                                                 engine::DeviceId gpu, const std::string& file,
                                                 uint64_t file_bytes);
  ~LocalRig();

  // Threads that each read the file piece by piece, by this route only.
  Outcome<double> measure(engine::Route only, double seconds);
  // Reads the whole file until its pages are pinned; false if they never are.
  bool warm_up();

 private:
  explicit LocalRig(engine::DeviceMemory& devices) : devices_(devices) {}
  Status read(uint64_t offset, uint32_t thread, engine::Route only, engine::Route* taken = nullptr);

  engine::DeviceMemory& devices_;
  MutableBytes slots_;
  engine::DeviceSpan memory_;
  UniqueFd fd_;
  uint32_t file_ = 0;
  uint64_t file_bytes_ = 0;
  std::unique_ptr<route::Transfers> transfers_;
};

Outcome<std::unique_ptr<LocalRig>> LocalRig::make(engine::DeviceMemory& devices,
                                                  engine::DeviceId gpu, const std::string& file,
                                                  uint64_t file_bytes) {
  std::unique_ptr<LocalRig> rig(new LocalRig(devices));
  rig->file_bytes_ = file_bytes;
  rig->fd_ = UniqueFd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!rig->fd_) return Failure{Status::from_errno(errno), file + ": cannot be opened"};
  void* const slots = ::mmap(nullptr, kSlotsBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (slots == MAP_FAILED) return Failure{Code::no_memory, "no memory for slots"};
  rig->slots_ = {static_cast<std::byte*>(slots), kSlotsBytes};
  local::LocalSource* source = nullptr;
  const auto make_source = [&](engine::Loop& loop) {
    auto made = std::make_unique<local::LocalSource>(
        loop, devices, local::LocalOptions{.pinned_bytes_max = 2 * file_bytes});
    source = made.get();
    return made;
  };
  TRY_ASSIGN(rig->transfers_,
             route::Transfers::start(devices, make_source, {.slots = rig->slots_}));
  TRY_ASSIGN(rig->file_, source->add(rig->fd_.get()));
  TRY_ASSIGN(rig->memory_, devices.allocate(gpu, kThreads * kPieceBytes));
  return rig;
}

LocalRig::~LocalRig() {
  transfers_.reset();
  if (memory_.length > 0) static_cast<void>(devices_.release(memory_));
  if (!slots_.empty()) ::munmap(slots_.data(), slots_.size());
}

Status LocalRig::read(uint64_t offset, uint32_t thread, engine::Route only, engine::Route* taken) {
  route::Transfer transfer;
  transfer.file = file_;
  transfer.offset = offset;
  transfer.memory = memory_;
  transfer.memory.data += thread * kPieceBytes;
  transfer.memory.length = kPieceBytes;
  transfer.only = only;
  transfers_->run(transfer);
  if (taken != nullptr) *taken = transfer.route;
  return transfer.status;
}

bool LocalRig::warm_up() {
  const engine::Clock& clock = engine::system_clock();
  const engine::Time until = clock.now() + std::chrono::seconds(3);
  bool all = false;
  while (!all && clock.now() < until) {
    all = true;
    for (uint64_t at = 0; at < file_bytes_; at += kPieceBytes) {
      engine::Route taken = engine::Route::none;
      if (!read(at, 0, engine::Route::none, &taken).ok()) return false;
      all = all && taken == engine::Route::device_mapped;
    }
  }
  return all;
}

Outcome<double> LocalRig::measure(engine::Route only, double seconds) {
  const engine::Clock& clock = engine::system_clock();
  const engine::Time began = clock.now();
  const engine::Time until = began + engine::Duration(static_cast<int64_t>(seconds * 1e9));
  std::atomic<uint64_t> pieces{0};
  std::atomic<int> error{0};
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (uint64_t piece = thread; clock.now() < until && error == 0; piece += kThreads) {
        const Status status = read(piece * kPieceBytes % file_bytes_, thread, only);
        if (status.ok()) ++pieces;
        if (!status.ok()) error = status.to_errno();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (error != 0) return Failure{Status::from_errno(error), "the route cannot be taken"};
  const std::chrono::duration<double> took = clock.now() - began;
  return static_cast<double>(pieces * kPieceBytes) / took.count();
}

}  // namespace

Outcome<std::vector<GpuWay>> local_ways(engine::DeviceMemory& devices, engine::DeviceId gpu,
                                        const std::string& file, uint64_t file_bytes,
                                        double seconds) {
  TRY_ASSIGN(const auto rig, LocalRig::make(devices, gpu, file, file_bytes));
  GpuWay mapped{gpu.value, "local file in memory", "its pages, pinned", {}, {}};
  if (rig->warm_up()) {
    TRY_ASSIGN(mapped.bytes_per_second, rig->measure(engine::Route::device_mapped, seconds));
  } else {
    mapped.note = "its pages could not be pinned";
  }
  GpuWay slots{gpu.value, "local file", "pinned slots", {}, {}};
  TRY_ASSIGN(slots.bytes_per_second, rig->measure(engine::Route::device_slots, seconds));
  return std::vector<GpuWay>{std::move(mapped), std::move(slots)};
}

}  // namespace penstock::apps
