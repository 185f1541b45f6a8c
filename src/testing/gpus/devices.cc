#include "penstock/testing_gpus/devices.h"

#include "block.h"
#include "stream.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <map>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/testing_gpus/host_kernels.h"

namespace penstock::test {

using engine::DeviceId;
using engine::DeviceStream;

namespace {

constexpr uint64_t kGranule = uint64_t{2} << 20;
constexpr uint64_t kPage = 4096;

// Behind the bytes of a file that stands for device memory.
struct Label {
  uint64_t magic = kMagic;
  uint64_t length = 0;
  uint64_t device = 0;
  static constexpr uint64_t kMagic = 0x70656e73746f636b;
};

thread_local uint32_t current_of_thread = 0;

// What stands for memory of a device.
Outcome<UniqueFd> make_file(uint32_t device, uint64_t length, const std::string& what) {
  UniqueFd memory(::memfd_create("penstock-simulated-gpu", MFD_CLOEXEC));
  Label label;
  label.length = length;
  label.device = device;
  if (!memory || ::ftruncate(memory.get(), static_cast<off_t>(length + sizeof label)) != 0 ||
      ::pwrite(memory.get(), &label, sizeof label, static_cast<off_t>(length)) !=
          static_cast<ssize_t>(sizeof label)) {
    return Failure{Status::from_errno(errno), what + ": " + std::strerror(errno)};
  }
  return memory;
}

// Memory of this process that devices reach: windows and pinned words. What is not in it is
// pageable, which copies treat in another way.
class Reached {
 public:
  void add(const std::byte* begin, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    stretches_[begin] = bytes;
  }
  // Gives its length.
  uint64_t remove(const std::byte* begin) {
    const std::lock_guard lock(mutex_);
    const auto found = stretches_.find(begin);
    ASSERT(found != stretches_.end());
    const uint64_t bytes = found->second;
    stretches_.erase(found);
    return bytes;
  }
  bool holds(const void* address) {
    const auto* const at = static_cast<const std::byte*>(address);
    const std::lock_guard lock(mutex_);
    auto found = stretches_.upper_bound(at);
    if (found == stretches_.begin()) return false;
    --found;
    return at < found->first + found->second;
  }

 private:
  std::mutex mutex_;
  std::map<const std::byte*, uint64_t> stretches_;
};

Reached& reached() {
  static Reached all;
  return all;
}

}  // namespace

// One device of this process, whoever has opened it.
class SimulatedDevices::Gpu {
 public:
  Gpu(uint32_t number, const SimulatedDeviceOptions& options)
      : number_(number), options_(options), default_(options.at_once) {}

  uint32_t number() const { return number_; }
  uint64_t memory_bytes() const { return options_.memory_bytes; }
  std::unique_ptr<DeviceQueue> make_queue() const {
    return std::make_unique<DeviceQueue>(options_.at_once);
  }
  DeviceQueue& queue(DeviceStream stream) {
    return stream != nullptr ? *static_cast<DeviceQueue*>(stream) : default_;
  }
  // Those whose end synchronize_all() waits for.
  void know(DeviceQueue* queue) {
    const std::lock_guard lock(mutex_);
    known_.push_back(queue);
  }
  void forget(DeviceQueue* queue) {
    const std::lock_guard lock(mutex_);
    std::erase(known_, queue);
  }
  void synchronize_all() {
    std::vector<DeviceQueue*> all;
    {
      const std::lock_guard lock(mutex_);
      all = known_;
    }
    for (DeviceQueue* const queue : all) queue->synchronize();
    default_.synchronize();
  }
  DeviceStream keep(std::unique_ptr<DeviceQueue> queue) {
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::move(queue));
    known_.push_back(kept_.back().get());
    return kept_.back().get();
  }

  // Sticky, as the context of a process is broken as a whole.
  Status state() const { return is_broken_ ? Status(Code::peer_gone) : Status(); }
  void fail() { is_broken_ = true; }
  const std::atomic<bool>& is_broken() const { return is_broken_; }

  SimulatedDeviceFaults faults() const {
    const std::lock_guard lock(mutex_);
    return faults_;
  }
  void set_faults(const SimulatedDeviceFaults& faults) {
    const std::lock_guard lock(mutex_);
    faults_ = faults;
  }

  Status count_launch() {
    const std::lock_guard lock(mutex_);
    ++launches_;
    if (faults_.launches_until_failure < 0) return {};
    if (faults_.launches_until_failure == 0) return Code::no_memory;
    --faults_.launches_until_failure;
    return {};
  }
  uint64_t launches() const {
    const std::lock_guard lock(mutex_);
    return launches_;
  }

  // False: there is not so much left.
  bool take(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    const uint64_t limit = std::min(options_.memory_bytes, faults_.allocates_at_most);
    if (bytes > limit || taken_ > limit - bytes) return false;
    taken_ += bytes;
    return true;
  }
  void give_back(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    ASSERT(bytes <= taken_);
    taken_ -= bytes;
  }

  Outcome<MutableBytes> make_memory(uint64_t bytes) {
    const std::string what = fmt::format("GPU {}: make {} bytes of memory", number_, bytes);
    if (!take(bytes)) return Failure{Code::no_memory, what + ": out of memory"};
    TRY_ASSIGN(UniqueFd file, make_file(number_, bytes, what));
    void* const begin = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (begin == MAP_FAILED)
      return Failure{Status::from_errno(errno), what + ": " + std::strerror(errno)};
    const MutableBytes made(static_cast<std::byte*>(begin), bytes);
    reached().add(made.data(), made.size());
    const std::lock_guard lock(mutex_);
    made_.push_back({made, std::move(file)});
    return made;
  }
  Outcome<UniqueFd> export_memory(const void* memory, uint64_t length, const std::string& what) {
    const std::lock_guard lock(mutex_);
    for (const Made& one : made_) {
      if (one.bytes.data() != memory || one.bytes.size() < length) continue;
      UniqueFd copy(::fcntl(one.file.get(), F_DUPFD_CLOEXEC, 0));
      if (copy) return copy;
      return Failure{Status::from_errno(errno), what + ": " + std::strerror(errno)};
    }
    return Failure{Code::invalid_argument, what + ": no memory that was made begins there"};
  }

  MutableBytes host_words(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    // Whole pages, as the driver pins them.
    const uint64_t length = align_up(bytes, kPage);
    auto& words = host_words_.emplace_back(
        static_cast<std::byte*>(std::aligned_alloc(kPage, length)), &std::free);
    ASSERT(words != nullptr);
    const MutableBytes made(words.get(), bytes);
    std::memset(made.data(), 0, made.size());
    reached().add(made.data(), made.size());
    return made;
  }

 private:
  const uint32_t number_;
  const SimulatedDeviceOptions& options_;
  std::atomic<bool> is_broken_{false};
  mutable std::mutex mutex_;  // of what follows
  SimulatedDeviceFaults faults_;
  uint64_t launches_ = 0;
  uint64_t taken_ = 0;
  std::vector<std::unique_ptr<std::byte, decltype(&std::free)>> host_words_;
  struct Made {
    MutableBytes bytes;
    UniqueFd file;
  };
  std::vector<Made> made_;  // as long as the process: a program's own
  std::vector<std::unique_ptr<DeviceQueue>> kept_;
  std::vector<DeviceQueue*> known_;
  DeviceQueue default_;  // the last: its thread may use the others
};

namespace {

using Gpu = SimulatedDevices::Gpu;

class SimulatedWindow final : public gpu::Window {
 public:
  SimulatedWindow(Gpu& gpu, std::byte* begin, uint64_t bytes)
      : gpu_(gpu), begin_(begin), bytes_(bytes) {
    reached().add(begin_, bytes_);
  }
  ~SimulatedWindow() override {
    reached().remove(begin_);
    ::munmap(begin_, bytes_);
    for (const auto& [offset, length] : own_) gpu_.give_back(length);
  }

  std::byte* begin() const override { return begin_; }
  uint64_t granule() const override { return kGranule; }

  Outcome<UniqueFd> allocate(uint64_t offset, uint64_t length) override {
    const std::string what = fmt::format("GPU {}: allocate {} bytes", gpu_.number(), length);
    TRY(check(what));
    if (!gpu_.take(length)) return Failure{Code::no_memory, what + ": out of memory"};
    own_[offset] = length;
    TRY_ASSIGN(UniqueFd memory, make_file(gpu_.number(), length, what));
    TRY(place(offset, length, memory.get(), what));
    return memory;
  }

  Outcome<UniqueFd> adopt(uint64_t offset, uint64_t length, const void* memory) override {
    const std::string what = fmt::format("GPU {}: map {} bytes of the program's own at {}",
                                         gpu_.number(), length, memory);
    TRY(check(what));
    TRY_ASSIGN(UniqueFd descriptor, gpu_.export_memory(memory, length, what));
    TRY(place(offset, length, descriptor.get(), what));
    return descriptor;
  }

  void unmap(uint64_t offset) override {
    const auto part = parts_.find(offset);
    ASSERT(part != parts_.end());
    // Nothing is there then, but the addresses stay this window's.
    void* const left = ::mmap(begin_ + offset, part->second, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    ASSERT(left != MAP_FAILED);
    parts_.erase(part);
  }

  Outcome<void> map(uint64_t offset, uint64_t length, int descriptor) override {
    const std::string what =
        fmt::format("GPU {}: map {} bytes of another process", gpu_.number(), length);
    TRY(check(what));
    Label label;
    struct stat facts {};
    if (::fstat(descriptor, &facts) != 0 ||
        ::pread(descriptor, &label, sizeof label,
                facts.st_size - static_cast<off_t>(sizeof label)) !=
            static_cast<ssize_t>(sizeof label) ||
        label.magic != Label::kMagic || label.length != length) {
      return Failure{Code::invalid_argument, what + ": it is no memory of a GPU of this length"};
    }
    if (label.device < 64 && (gpu_.faults().unreachable >> label.device & 1) != 0) {
      return Failure{Code::not_supported,
                     what + ": peer access is not supported between these two devices"};
    }
    return place(offset, length, descriptor, what);
  }

 private:
  Outcome<void> check(const std::string& what) const {
    if (const Status state = gpu_.state(); !state.ok())
      return Failure{state, what + ": the device is lost"};
    return {};
  }

  Outcome<void> place(uint64_t offset, uint64_t length, int descriptor, const std::string& what) {
    ASSERT(range_within(offset, length, bytes_) && offset % kGranule == 0 &&
           length % kGranule == 0);
    void* const placed = ::mmap(begin_ + offset, length, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_FIXED, descriptor, 0);
    if (placed == MAP_FAILED)
      return Failure{Status::from_errno(errno), what + ": " + std::strerror(errno)};
    parts_[offset] = length;
    return {};
  }

  Gpu& gpu_;
  std::byte* const begin_;
  const uint64_t bytes_;
  std::map<uint64_t, uint64_t> own_;    // lengths of what it has allocated, by offset
  std::map<uint64_t, uint64_t> parts_;  // of all that is mapped
};

class SimulatedDevice final : public gpu::SymmetricDevice {
 public:
  explicit SimulatedDevice(Gpu& gpu) : gpu_(gpu), own_(gpu.make_queue()) { gpu_.know(own_.get()); }
  ~SimulatedDevice() override { gpu_.forget(own_.get()); }

  DeviceId id() const override { return DeviceId(gpu_.number()); }
  uint64_t memory_bytes() const override { return gpu_.memory_bytes(); }

  Outcome<std::unique_ptr<gpu::Window>> reserve(uint64_t bytes) override {
    const uint64_t whole = align_up(bytes, kGranule);
    const std::string what =
        fmt::format("GPU {}: reserve {} bytes of addresses", gpu_.number(), bytes);
    if (gpu_.faults().refuses_reservations)
      return Failure{Code::no_memory, what + ": out of memory"};
    void* const begin =
        ::mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (begin == MAP_FAILED)
      return Failure{Status::from_errno(errno), what + ": " + std::strerror(errno)};
    return std::unique_ptr<gpu::Window>(
        new SimulatedWindow(gpu_, static_cast<std::byte*>(begin), whole));
  }

  Outcome<void> load_kernels(const void*, std::span<const char* const> names) override {
    for (const char* const name : names) kernels_.push_back({name, find_host_kernel(name)});
    return {};
  }

  DeviceStream own_stream() const override { return own_.get(); }

  Status launch(const gpu::Launch& launch) override {
    TRY(check(launch.kernel));
    const Kernel& kernel = kernels_[launch.kernel];
    return run(kernel, kernel.version(launch.arguments.data()), launch, launch.stream);
  }

  Outcome<std::unique_ptr<gpu::PreparedLaunch>> prepare(const gpu::Launch& launch) override {
    if (const Status known = check(launch.kernel); !known.ok())
      return Failure{known, "prepare a kernel of symmetric memory"};
    return std::unique_ptr<gpu::PreparedLaunch>(new Prepared(*this, launch));
  }

  Status copy(void* to, const void* from, uint64_t bytes, DeviceStream stream) override {
    TRY(gpu_.state());
    if (from == nullptr || to == nullptr) return Code::invalid_argument;
    if (reached().holds(from)) {
      add(stream, [to, from, bytes] { std::memcpy(to, from, bytes); });
    } else {
      // Pageable memory may change when the call has returned.
      const auto* const begin = static_cast<const std::byte*>(from);
      add(stream, [to, copy = std::vector<std::byte>(begin, begin + bytes)] {
        std::memcpy(to, copy.data(), copy.size());
      });
    }
    // And has what was copied there when the call returns.
    if (!reached().holds(to)) queue(stream).synchronize();
    return {};
  }

  Status copy_strided(const gpu::StridedCopy& copy, DeviceStream stream) override {
    ASSERT(copy.to_step >= copy.element_bytes && copy.from_step >= copy.element_bytes);
    TRY(gpu_.state());
    const auto* const from = static_cast<const std::byte*>(copy.from);
    std::vector<std::byte> taken;
    if (!reached().holds(from)) {  // as copy() does
      taken.assign(from, from + (copy.count - 1) * copy.from_step + copy.element_bytes);
    }
    add(stream, [copy, taken = std::move(taken)] {
      auto* to = static_cast<std::byte*>(copy.to);
      const auto* each = taken.empty() ? static_cast<const std::byte*>(copy.from) : taken.data();
      for (uint64_t i = 0; i < copy.count; ++i) {
        std::memcpy(to, each, copy.element_bytes);
        to += copy.to_step;
        each += copy.from_step;
      }
    });
    if (!reached().holds(copy.to)) queue(stream).synchronize();
    return {};
  }

  Status fill_zeros(void* to, uint64_t bytes, DeviceStream stream) override {
    TRY(gpu_.state());
    add(stream, [to, bytes] { std::memset(to, 0, bytes); });
    return {};
  }

  Status synchronize_all() override {
    gpu_.synchronize_all();
    return gpu_.state();
  }

  Status tell(uint64_t* word, uint64_t value, DeviceStream stream) override {
    TRY(gpu_.state());
    add(stream, [word, value] { __atomic_store_n(word, value, __ATOMIC_RELEASE); });
    return {};
  }

  bool is_capturing(DeviceStream) const override { return false; }
  bool reaches(const void* address) const override { return reached().holds(address); }
  bool knows(const void* address) const override { return reached().holds(address); }

  Result<void*> take(uint64_t bytes, DeviceStream) override {
    TRY(gpu_.state());
    if (!gpu_.take(bytes)) return Code::no_memory;
    auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kPage, align_up(bytes, kPage)));
    ASSERT(memory != nullptr);
    reached().add(memory, bytes);
    return static_cast<void*>(memory);
  }
  Status give_back(void* memory, DeviceStream stream) override {
    TRY(gpu_.state());
    add(stream, [this, begin = static_cast<std::byte*>(memory)] {
      gpu_.give_back(reached().remove(begin));
      std::free(begin);
    });
    return {};
  }

  Status synchronize(DeviceStream stream) override {
    queue(stream).synchronize();
    return gpu_.state();
  }

  Outcome<MutableBytes> host_words(uint64_t bytes) override {
    if (const Status state = gpu_.state(); !state.ok())
      return Failure{state, fmt::format("GPU {}: the device is lost", gpu_.number())};
    return gpu_.host_words(bytes);
  }

 private:
  struct Kernel {
    std::string name;
    HostKernel version = nullptr;
  };

  // With the arguments that it was given first.
  class Prepared final : public gpu::PreparedLaunch {
   public:
    Prepared(SimulatedDevice& device, const gpu::Launch& launch)
        : device_(device),
          launch_(launch),
          bound_(device.kernels_[launch.kernel].version(launch.arguments.data())) {
      launch_.arguments = {};
    }
    Status launch(DeviceStream stream) override {
      return device_.run(device_.kernels_[launch_.kernel], bound_, launch_, stream);
    }

   private:
    SimulatedDevice& device_;
    gpu::Launch launch_;
    const BoundKernel bound_;
  };

  // Whoever adds a kernel adds its version for the host, too.
  Status check(uint32_t kernel) const {
    if (kernel >= kernels_.size()) return Code::not_found;
    if (kernels_[kernel].version != nullptr) return {};
    log::error("a simulated GPU has no kernel {}: PENSTOCK_HOST_KERNEL", kernels_[kernel].name);
    return Code::not_found;
  }

  Status run(const Kernel& kernel, const BoundKernel& bound, const gpu::Launch& launch,
             DeviceStream stream) {
    TRY(gpu_.state());
    TRY(gpu_.count_launch());
    ASSERT(launch.blocks > 0 && launch.threads > 0 && launch.threads <= 1024);
    add(stream, [this, bound, kernel, shape = LaunchShape{launch.blocks, launch.threads}] {
      const LaunchEnd end = run_launch(bound, shape, gpu_.is_broken());
      if (end == LaunchEnd::done) return;
      if (end == LaunchEnd::stuck) {
        log::error("{}: threads of a block wait for others of it that have ended", kernel.name);
      }
      gpu_.fail();
    });
    return {};
  }

  DeviceQueue& queue(DeviceStream stream) const { return gpu_.queue(stream); }

  // What comes after the device was lost is not done.
  void add(DeviceStream stream, std::function<void()> work) {
    queue(stream).add([this, work = std::move(work)] {
      if (gpu_.state().ok()) work();
    });
  }

  Gpu& gpu_;
  std::vector<Kernel> kernels_;  // by their places; not changed while launches are made
  const std::unique_ptr<DeviceQueue> own_;
};

}  // namespace

SimulatedDevices::SimulatedDevices(SimulatedDeviceOptions options) : options_(options) {
  for (uint32_t i = 0; i < options.devices; ++i)
    gpus_.push_back(std::make_unique<Gpu>(i, options_));
}

SimulatedDevices::~SimulatedDevices() = default;

Outcome<DeviceId> SimulatedDevices::current() {
  return DeviceId(current_of_thread < gpus_.size() ? current_of_thread : 0);
}

Outcome<std::unique_ptr<gpu::SymmetricDevice>> SimulatedDevices::open(DeviceId device) {
  if (device.value >= gpus_.size()) {
    return Failure{Code::invalid_argument,
                   fmt::format("GPU {}: this process sees {}", device.value, gpus_.size())};
  }
  return std::unique_ptr<gpu::SymmetricDevice>(new SimulatedDevice(*gpus_[device.value]));
}

Result<void, Failure> SimulatedDevices::make_current(DeviceId device) {
  if (device.value >= gpus_.size()) {
    return Failure{Code::invalid_argument,
                   fmt::format("GPU {}: this process sees {}", device.value, gpus_.size())};
  }
  current_of_thread = device.value;
  return {};
}

void SimulatedDevices::set_current(DeviceId device) {
  ASSERT(device.value < gpus_.size());
  current_of_thread = device.value;
}

DeviceStream SimulatedDevices::make_stream(DeviceId device) {
  Gpu& gpu = *gpus_[device.value];
  return gpu.keep(gpu.make_queue());
}

Outcome<MutableBytes> SimulatedDevices::make_memory(DeviceId device, uint64_t bytes) {
  return gpus_[device.value]->make_memory(align_up(bytes, kGranule));
}

void SimulatedDevices::lose(DeviceId device) {
  gpus_[device.value]->fail();
}

void SimulatedDevices::set_faults(const SimulatedDeviceFaults& faults) {
  for (const auto& gpu : gpus_) gpu->set_faults(faults);
}

uint64_t SimulatedDevices::launches(DeviceId device) const {
  return gpus_[device.value]->launches();
}

}  // namespace penstock::test
