// Signals of the host, and on streams.
#include "calls.h"

namespace front = penstock::nvshmem;

NVSHMEM_DEFINE uint64_t nvshmem_signal_fetch(uint64_t* sig_addr) {
  const char* const call = "nvshmem_signal_fetch";
  uint64_t value = 0;
  front::get_word(call, &value, sig_addr, sizeof value, static_cast<int>(front::group(call).me()));
  return value;
}

NVSHMEM_DEFINE void nvshmemx_signal_op_on_stream(uint64_t* sig_addr, uint64_t signal, int sig_op,
                                                 int pe, cudaStream_t stream) {
  front::signal_on("nvshmemx_signal_op_on_stream", sig_addr, signal, sig_op, pe, stream);
}

NVSHMEM_DEFINE void nvshmemx_signal_wait_until_on_stream(uint64_t* sig_addr, int cmp,
                                                         uint64_t cmp_value, cudaStream_t stream) {
  front::wait_on("nvshmemx_signal_wait_until_on_stream",
                 {.at = sig_addr,
                  .count = 1,
                  .bytes = sizeof *sig_addr,
                  .is_signed = false,
                  .comparison = cmp,
                  .value = cmp_value,
                  .values = nullptr,
                  .status = nullptr},
                 stream);
}
