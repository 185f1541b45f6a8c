// cufile.h: statistics.
#include "driver.h"
#include "errors.h"

#include <algorithm>
#include <cstring>

using namespace penstock;          // NOLINT: this file is the C border
using namespace penstock::cufile;  // NOLINT

namespace penstock::cufile {
namespace {

CUfileError_t if_open(void (Statistics::*change)()) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    const Result<Driver::Use, CUfileError_t> use = driver.enter_open();
    if (!use) return use.error();
    (driver.statistics().*change)();
    return result(CU_FILE_SUCCESS);
  });
}

template <class Level>
CUfileError_t get(Level* out, int level) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    const Result<Driver::Use, CUfileError_t> use = driver.enter_open();
    if (!use) return use.error();
    const Statistics& statistics = driver.statistics();
    if (out == nullptr || statistics.level() < level) return result(CU_FILE_INVALID_VALUE);
    statistics.fill(*out);
    if constexpr (std::is_same_v<Level, CUfileStatsLevel3_t>) {
      const auto& gpus = (*use)->devices().devices();
      out->num_gpus = std::min<uint32_t>(static_cast<uint32_t>(gpus.size()), Statistics::kDevices);
      for (uint32_t i = 0; i < out->num_gpus; ++i) {
        std::memcpy(out->per_gpu_stats[i].uuid, gpus[i].uuid.data(), CUFILE_GPU_UUID_LEN);
      }
    }
    return result(CU_FILE_SUCCESS);
  });
}

}  // namespace
}  // namespace penstock::cufile

CUfileError_t cuFileSetStatsLevel(int level) {
  if (level < 0 || level > 3) return result(CU_FILE_INVALID_VALUE);
  return guarded([&] {
    Driver::instance().statistics().set_level(level);
    return result(CU_FILE_SUCCESS);
  });
}

CUfileError_t cuFileGetStatsLevel(int* level) {
  if (level == nullptr) return result(CU_FILE_INVALID_VALUE);
  return guarded([&] {
    *level = Driver::instance().statistics().level();
    return result(CU_FILE_SUCCESS);
  });
}

CUfileError_t cuFileStatsStart() {
  return if_open(&Statistics::start);
}

CUfileError_t cuFileStatsStop() {
  return if_open(&Statistics::stop);
}

CUfileError_t cuFileStatsReset() {
  return if_open(&Statistics::reset);
}

CUfileError_t cuFileGetStatsL1(CUfileStatsLevel1_t* stats) {
  return get(stats, 1);
}

CUfileError_t cuFileGetStatsL2(CUfileStatsLevel2_t* stats) {
  return get(stats, 2);
}

CUfileError_t cuFileGetStatsL3(CUfileStatsLevel3_t* stats) {
  return get(stats, 3);
}
