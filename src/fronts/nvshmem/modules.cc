// Modules and libraries that the program loads by the driver: nothing of them runs on the host, so
// that it says itself which there are.
#include "api.h"
#include "units.h"

namespace front = penstock::nvshmem;
using penstock::Status;
using penstock::gpu::LoadedCode;

namespace {

// Its kernels know of their PE from here on, or no more.
int change(const char* call, const LoadedCode& code, bool is_there) {
  if (code.handle == nullptr) return NVSHMEMX_ERROR_INVALID_VALUE;
  const front::OnDevice& there = front::on_device(call);
  const auto state = front::state_in(code, there);
  if (!state) {
    penstock::log::error("{}: {}", call, state.error().message);
    return NVSHMEMX_ERROR_INVALID_VALUE;
  }
  const Status told =
      is_there ? front::tell_loaded(there, *state) : front::untell_loaded(there, *state);
  if (told.ok()) return 0;
  penstock::log::error("{}: the state of its kernels cannot be written: {}", call, told.name());
  return NVSHMEMX_ERROR_INTERNAL;
}

}  // namespace

NVSHMEM_DEFINE int nvshmemx_cumodule_init(CUmodule module) {
  return change("nvshmemx_cumodule_init", {LoadedCode::Kind::module, module}, true);
}
NVSHMEM_DEFINE int nvshmemx_cumodule_finalize(CUmodule module) {
  return change("nvshmemx_cumodule_finalize", {LoadedCode::Kind::module, module}, false);
}
NVSHMEM_DEFINE int nvshmemx_culibrary_init(CUlibrary library) {
  return change("nvshmemx_culibrary_init", {LoadedCode::Kind::library, library}, true);
}
NVSHMEM_DEFINE int nvshmemx_culibrary_finalize(CUlibrary library) {
  return change("nvshmemx_culibrary_finalize", {LoadedCode::Kind::library, library}, false);
}
