// cufile.h: parameters.
#include "driver.h"
#include "errors.h"

#include <cstring>

using namespace penstock;          // NOLINT: this file is the C border
using namespace penstock::cufile;  // NOLINT

namespace penstock::cufile {
namespace {

template <class Which, class Value>
CUfileError_t stage(bool known, Which which, const Value& value) {
  return guarded([&] {
    if (!known) return result(CU_FILE_INVALID_VALUE);
    if (Driver::instance().forked()) return result(CU_FILE_DRIVER_NOT_INITIALIZED);
    return Driver::instance().with_parameters([&](Parameters& parameters, bool is_open) {
      if (is_open) return result(CU_FILE_DRIVER_ALREADY_OPEN);
      parameters.stage(which, value);
      return result(CU_FILE_SUCCESS);
    });
  });
}

template <class Which, class Value>
CUfileError_t get(bool known, Which which, Value* value) {
  return guarded([&] {
    if (!known || value == nullptr) return result(CU_FILE_INVALID_VALUE);
    if (Driver::instance().forked()) return result(CU_FILE_DRIVER_NOT_INITIALIZED);
    *value = Driver::instance().with_parameters(
        [&](const Parameters& parameters, bool) { return parameters.get(which); });
    return result(CU_FILE_SUCCESS);
  });
}

// A pool of host memory in sizes and counts is NVIDIA's way to carry bytes; what programs ask for
// is checked, and not needed.
bool is_pool(const void* sizes, const void* counts, int length) {
  return sizes != nullptr && counts != nullptr && length > 0;
}

}  // namespace
}  // namespace penstock::cufile

CUfileError_t cuFileSetParameterSizeT(CUFileSizeTConfigParameter_t param, size_t value) {
  return stage(Parameters::is_size(param), param, uint64_t{value});
}

CUfileError_t cuFileSetParameterBool(CUFileBoolConfigParameter_t param, bool value) {
  return stage(Parameters::is_bool(param), param, value);
}

CUfileError_t cuFileSetParameterString(CUFileStringConfigParameter_t param, const char* desc_str) {
  return stage(Parameters::is_string(param) && desc_str != nullptr, param, desc_str);
}

CUfileError_t cuFileGetParameterSizeT(CUFileSizeTConfigParameter_t param, size_t* value) {
  return get(Parameters::is_size(param), param, value);
}

CUfileError_t cuFileGetParameterBool(CUFileBoolConfigParameter_t param, bool* value) {
  return get(Parameters::is_bool(param), param, value);
}

CUfileError_t cuFileGetParameterString(CUFileStringConfigParameter_t param, char* desc_str,
                                       int len) {
  return guarded([&] {
    if (desc_str == nullptr || len <= 0) return result(CU_FILE_INVALID_VALUE);
    std::string value;
    const CUfileError_t got = get(Parameters::is_string(param), param, &value);
    if (got.err != CU_FILE_SUCCESS) return got;
    if (value.size() >= static_cast<size_t>(len)) return result(CU_FILE_INVALID_VALUE);
    std::memcpy(desc_str, value.c_str(), value.size() + 1);
    return got;
  });
}

CUfileError_t cuFileGetParameterMinMaxValue(CUFileSizeTConfigParameter_t param, size_t* min_value,
                                            size_t* max_value) {
  if (!Parameters::is_size(param) || min_value == nullptr || max_value == nullptr) {
    return result(CU_FILE_INVALID_VALUE);
  }
  const Parameters::Limits limits = Parameters::limits(param);
  *min_value = limits.least;
  *max_value = limits.most;
  return result(CU_FILE_SUCCESS);
}

CUfileError_t cuFileSetParameterPosixPoolSlabArray(const size_t* size_values,
                                                   const size_t* count_values, int len) {
  if (!is_pool(size_values, count_values, len)) return result(CU_FILE_INVALID_VALUE);
  return result(Driver::instance().is_open() ? CU_FILE_DRIVER_ALREADY_OPEN : CU_FILE_SUCCESS);
}

CUfileError_t cuFileGetParameterPosixPoolSlabArray(size_t* size_values, size_t* count_values,
                                                   int len) {
  if (!is_pool(size_values, count_values, len)) return result(CU_FILE_INVALID_VALUE);
  std::fill_n(size_values, len, 0);
  std::fill_n(count_values, len, 0);
  return result(CU_FILE_SUCCESS);
}
