// cufile.h: the driver.
#include "driver.h"
#include "errors.h"

#include <cctype>
#include <cstdio>
#include <fstream>
#include <string>

// The header has given this name to the other one.
#undef cuFileDriverClose

using namespace penstock;          // NOLINT: this file is the C border
using namespace penstock::cufile;  // NOLINT

namespace penstock::cufile {
namespace {

// 1000 * major + 10 * minor of the interface that is served.
constexpr int kVersion = 1150;
constexpr unsigned kAllFeatures =
    1U << CU_FILE_DYN_ROUTING_SUPPORTED | 1U << CU_FILE_BATCH_IO_SUPPORTED |
    1U << CU_FILE_STREAMS_SUPPORTED | 1U << CU_FILE_PARALLEL_IO_SUPPORTED;

// Sets a limit of the open driver, in KiB and whole pages.
CUfileError_t set_limit(CUFileSizeTConfigParameter_t which, size_t kib) {
  Driver& driver = Driver::instance();
  const Result<Driver::Use, CUfileError_t> use = driver.enter_open();
  if (!use) return use.error();
  const bool is_set = driver.with_parameters(
      [&](Parameters& parameters, bool) { return kib % 4 == 0 && parameters.set(which, kib); });
  if (!is_set) return result(CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
  if (which == CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB) {
    (*use)->buffers().set_limit(kib * kKiB);
  }
  return result(CU_FILE_SUCCESS);
}

unsigned as_property(const Parameters& parameters, CUFileSizeTConfigParameter_t which) {
  return static_cast<unsigned>(parameters.get(which));
}

// What the kernel says of the aperture that others reach the GPU's memory through: the second line
// of its resources, "FROM TO FLAGS".
uint64_t aperture_bytes(std::string pci_address) {
  for (char& letter : pci_address) letter = static_cast<char>(std::tolower(letter));
  std::ifstream file("/sys/bus/pci/devices/" + pci_address + "/resource");
  std::string line;
  unsigned long long from = 0;
  unsigned long long to = 0;
  if (!std::getline(file, line) || !std::getline(file, line)) return 0;
  if (std::sscanf(line.c_str(), "%llx %llx", &from, &to) != 2 || to <= from) return 0;
  return to - from + 1;
}

}  // namespace
}  // namespace penstock::cufile

CUfileError_t cuFileDriverOpen() {
  return guarded([] { return Driver::instance().open(); });
}

CUfileError_t cuFileDriverClose_v2() {
  return guarded([] { return Driver::instance().close(); });
}

extern "C" CUfileError_t cuFileDriverClose() {
  return cuFileDriverClose_v2();
}

long cuFileUseCount() {
  return guarded([] { return Driver::instance().use_count(); });
}

CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t* props) {
  return guarded([&] {
    if (props == nullptr) return result(CU_FILE_INVALID_VALUE);
    Driver& driver = Driver::instance();
    const Result<Driver::Use, CUfileError_t> use = driver.enter();
    if (!use) return use.error();
    driver.with_parameters([&](const Parameters& parameters, bool) {
      *props = {};
      props->nvfs.poll_thresh_size = parameters.get(CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB);
      props->nvfs.max_direct_io_size =
          parameters.get(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB);
      const bool polls = parameters.get(CUFILE_PARAM_PROPERTIES_USE_POLL_MODE);
      const bool compatible = parameters.get(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE);
      props->nvfs.dcontrolflags = (polls ? 1U << CU_FILE_USE_POLL_MODE : 0) |
                                  (compatible ? 1U << CU_FILE_ALLOW_COMPAT_MODE : 0);
      props->fflags = kAllFeatures;
      props->max_device_cache_size =
          as_property(parameters, CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB);
      props->per_buffer_cache_size =
          as_property(parameters, CUFILE_PARAM_PROPERTIES_PER_BUFFER_CACHE_SIZE_KB);
      props->max_device_pinned_mem_size =
          as_property(parameters, CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB);
      props->max_batch_io_size = as_property(parameters, CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE);
      props->max_batch_io_timeout_msecs =
          as_property(parameters, CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS);
    });
    return result(CU_FILE_SUCCESS);
  });
}

CUfileError_t cuFileDriverSetPollMode(bool poll, size_t poll_threshold_size) {
  return guarded([&] {
    const CUfileError_t set = set_limit(CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB, poll_threshold_size);
    if (set.err != CU_FILE_SUCCESS) return set;
    Driver::instance().with_parameters([&](Parameters& parameters, bool) {
      parameters.set(CUFILE_PARAM_PROPERTIES_USE_POLL_MODE, poll);
    });
    return set;
  });
}

CUfileError_t cuFileDriverSetMaxDirectIOSize(size_t max_direct_io_size) {
  return guarded(
      [&] { return set_limit(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, max_direct_io_size); });
}

CUfileError_t cuFileDriverSetMaxCacheSize(size_t max_cache_size) {
  return guarded(
      [&] { return set_limit(CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB, max_cache_size); });
}

CUfileError_t cuFileDriverSetMaxPinnedMemSize(size_t max_pinned_size) {
  return guarded([&] {
    return set_limit(CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB, max_pinned_size);
  });
}

CUfileError_t cuFileGetVersion(int* version) {
  if (version == nullptr) return result(CU_FILE_INVALID_VALUE);
  *version = kVersion;
  return result(CU_FILE_SUCCESS);
}

CUfileError_t cuFileGetBARSizeInKB(int gpu_index, size_t* bar_size) {
  return guarded([&] {
    const Result<Driver::Use, CUfileError_t> use = Driver::instance().enter();
    if (!use) return use.error();
    const auto& gpus = (*use)->devices().devices();
    if (bar_size == nullptr || gpu_index < 0 || static_cast<size_t>(gpu_index) >= gpus.size()) {
      return result(CU_FILE_INVALID_VALUE);
    }
    *bar_size = aperture_bytes(gpus[static_cast<size_t>(gpu_index)].pci_address) / kKiB;
    return result(CU_FILE_SUCCESS);
  });
}
