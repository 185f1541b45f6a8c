// Windows of simulated GPUs: files, mapped into reserved addresses.
#include "gpu.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::test {

namespace {

constexpr uint64_t kGranule = kSimulatedGranule;

using Gpu = SimulatedDevices::Gpu;

// Behind the bytes of a file that stands for device memory.
struct Label {
  uint64_t magic = kMagic;
  uint64_t length = 0;
  uint64_t device = 0;
  static constexpr uint64_t kMagic = 0x70656e73746f636b;
};

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
    TRY_ASSIGN(UniqueFd memory, make_device_file(gpu_.number(), length, what));
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
    const auto own = own_.find(offset);
    if (own == own_.end()) return;
    gpu_.give_back(own->second);
    own_.erase(own);
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

}  // namespace

Outcome<UniqueFd> make_device_file(uint32_t device, uint64_t length, const std::string& what) {
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

Outcome<std::unique_ptr<gpu::Window>> make_window(Gpu& gpu, uint64_t bytes) {
  const uint64_t whole = align_up(bytes, kGranule);
  const std::string what =
      fmt::format("GPU {}: reserve {} bytes of addresses", gpu.number(), bytes);
  if (gpu.faults().refuses_reservations) return Failure{Code::no_memory, what + ": out of memory"};
  void* const begin =
      ::mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED)
    return Failure{Status::from_errno(errno), what + ": " + std::strerror(errno)};
  return std::unique_ptr<gpu::Window>(
      new SimulatedWindow(gpu, static_cast<std::byte*>(begin), whole));
}

}  // namespace penstock::test
