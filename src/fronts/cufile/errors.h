// What calls return.
#pragma once

#include "cufile.h"

#include <exception>
#include <new>

#include "penstock/base.h"

namespace penstock::cufile {

inline CUfileError_t result(CUfileOpError error, CUresult cuda = CUDA_SUCCESS) {
  return {error, cuda};
}

// Runs the body of an exported call: no exception crosses the border.
template <class Body>
auto guarded(Body&& body) -> decltype(body()) {
  CUfileOpError error = CU_FILE_INTERNAL_ERROR;
  try {
    return body();
  } catch (const std::bad_alloc&) {
    error = CU_FILE_NOMEM_ERROR;
  } catch (const std::exception& exception) {
    log::error("cufile: {}", exception.what());
  } catch (...) {
    log::error("cufile: an unknown exception");
  }
  using Value = decltype(body());
  if constexpr (std::is_same_v<Value, CUfileError_t>) {
    return result(error);
  } else if constexpr (!std::is_void_v<Value>) {
    return -Value{error};
  }
}

}  // namespace penstock::cufile
