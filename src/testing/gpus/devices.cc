#include "penstock/testing_gpus/devices.h"

#include "block.h"
#include "gpu.h"

#include <cstdlib>
#include <cstring>
#include <fmt/format.h>

#include "penstock/testing_gpus/host_kernels.h"

namespace penstock::test {

using engine::DeviceId;
using engine::DeviceStream;
using Gpu = SimulatedDevices::Gpu;

namespace {

constexpr uint32_t kNone = ~uint32_t{0};
thread_local uint32_t current_of_thread = kNone;

class SimulatedDevice final : public gpu::SymmetricDevice {
 public:
  SimulatedDevice(Gpu& gpu, bool is_apart)
      : gpu_(gpu), is_apart_(is_apart), own_(gpu.make_queue()) {
    gpu_.know(own_.get());
  }
  ~SimulatedDevice() override { gpu_.forget(own_.get()); }

  DeviceId id() const override { return DeviceId(gpu_.number()); }
  uint64_t memory_bytes() const override { return gpu_.memory_bytes(); }

  Outcome<std::unique_ptr<gpu::Window>> reserve(uint64_t bytes) override {
    return make_window(gpu_, bytes);
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
    if (is_apart_ && (is_programs(to) || is_programs(from))) gpu_.pass();
    if (reached().holds(from)) {
      add(stream, [to, from, bytes] { std::memcpy(to, from, bytes); });
    } else {
      // Pageable memory may change when the call has returned.
      const auto* const begin = static_cast<const std::byte*>(from);
      add(stream, [to, copy = std::vector<std::byte>(begin, begin + bytes)] {
        std::memcpy(to, copy.data(), copy.size());
      });
    }
    wait_for_pageable(to, stream);
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
    wait_for_pageable(copy.to, stream);
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

  Status store(uint32_t* word, uint32_t value, DeviceStream stream) override {
    return store_word(word, value, stream);
  }
  Status store(uint64_t* word, uint64_t value, DeviceStream stream) override {
    return store_word(word, value, stream);
  }

  bool is_capturing(DeviceStream) const override { return false; }
  bool reaches(const void* address) const override { return reached().holds(address); }
  bool knows(const void* address) const override { return reached().holds(address); }

  bool stays(const void* address) const override { return knows(address); }
  bool is_programs(const void* address) const override { return gpu_.is_programs(address); }
  uint64_t number_of(DeviceStream stream) const override { return queue(stream).number(); }

  Result<void*> allocate(uint64_t bytes) override {
    TRY(gpu_.state());
    if (!gpu_.take(bytes)) return Code::no_memory;
    auto* const memory = static_cast<std::byte*>(
        std::aligned_alloc(kSimulatedPage, align_up(bytes, kSimulatedPage)));
    ASSERT(memory != nullptr);
    reached().add(memory, bytes);
    return static_cast<void*>(memory);
  }
  void release(void* memory) override {
    auto* const begin = static_cast<std::byte*>(memory);
    gpu_.give_back(reached().remove(begin));
    std::free(begin);
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

  template <class T>
  Status store_word(T* word, T value, DeviceStream stream) {
    TRY(gpu_.state());
    add(stream, [word, value] { __atomic_store_n(word, value, __ATOMIC_RELEASE); });
    return {};
  }

  DeviceQueue& queue(DeviceStream stream) const { return gpu_.queue(stream); }

  // Pageable memory has what was copied there when the call returns. On the default stream no other
  // call of the program's context gets through meanwhile, as seen of the driver (decision 0081).
  void wait_for_pageable(const void* to, DeviceStream stream) {
    if (reached().holds(to)) return;
    std::unique_lock<std::shared_mutex> alone;
    if (!is_apart_ && stream == nullptr) alone = gpu_.shut_out();
    queue(stream).synchronize();
  }

  // What comes after the device was lost is not done.
  void add(DeviceStream stream, std::function<void()> work) {
    if (!is_apart_) gpu_.pass();
    queue(stream).add([this, work = std::move(work)] {
      if (gpu_.state().ok()) work();
    });
  }

  Gpu& gpu_;
  const bool is_apart_;
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

bool SimulatedDevices::has_current() {
  return current_of_thread != kNone;
}

Outcome<std::unique_ptr<gpu::SymmetricDevice>> SimulatedDevices::open(DeviceId device) {
  return open(device, false);
}

Outcome<std::unique_ptr<gpu::SymmetricDevice>> SimulatedDevices::open_apart(DeviceId device) {
  return open(device, true);
}

Outcome<std::unique_ptr<gpu::SymmetricDevice>> SimulatedDevices::open(DeviceId device,
                                                                      bool is_apart) {
  if (device.value >= gpus_.size()) {
    return Failure{Code::invalid_argument,
                   fmt::format("GPU {}: this process sees {}", device.value, gpus_.size())};
  }
  return std::unique_ptr<gpu::SymmetricDevice>(new SimulatedDevice(*gpus_[device.value], is_apart));
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
  return gpus_[device.value]->make_memory(align_up(bytes, kSimulatedGranule));
}

MutableBytes SimulatedDevices::make_programs_memory(DeviceId device, uint64_t bytes) {
  return gpus_[device.value]->make_programs_memory(bytes);
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
