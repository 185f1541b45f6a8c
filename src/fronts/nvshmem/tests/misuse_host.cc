// One mistake, which its argument names: the job ends with a message. `misuse_host.sh` knows what
// each says.
#include <cstdio>
#include <cstring>
#include <nvshmem.h>
#include <nvshmemx.h>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto is = [&](const char* name) { return std::strcmp(argv[1], name) == 0; };
  static uint64_t outside = 0;
  if (is("before_init")) nvshmem_uint64_p(&outside, 1, 0);
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  if (nvshmemx_hostlib_init_attr(0, &attributes) != 0) return 3;
  cudaStream_t stream;
  if (cudaSetDevice(0) != cudaSuccess || cudaStreamCreate(&stream) != cudaSuccess) return 3;
  const int me = nvshmem_my_pe();
  uint64_t* const word = static_cast<uint64_t*>(nvshmem_calloc(8, sizeof(uint64_t)));
  uint64_t value = 7;
  int* const odd = reinterpret_cast<int*>(reinterpret_cast<char*>(word) + 1);
  uint64_t* const far = word + (uint64_t{1} << 40);
  if (is("p_outside")) nvshmem_uint64_p(&outside, value, me);
  if (is("p_no_such_pe")) nvshmem_uint64_p(word, value, nvshmem_n_pes());
  if (is("g_negative_pe")) value = nvshmem_uint64_g(word, -1);
  if (is("add_far")) nvshmem_uint64_atomic_add(far, value, me);
  if (is("fetch_add_unaligned"))
    value = static_cast<uint64_t>(nvshmem_int_atomic_fetch_add(odd, 1, me));
  if (is("iput_stride_0")) nvshmem_uint64_iput(word, word, 0, 1, 2, me);
  if (is("iput_too_far")) nvshmemx_uint64_iput_on_stream(word, word, PTRDIFF_MAX, 1, 3, me, stream);
  if (is("iget_outside")) nvshmemx_uint64_iget_on_stream(word, &outside, 1, 1, 2, me, stream);
  if (is("put_too_many")) nvshmem_uint64_put(word, &value, SIZE_MAX / 4, me);
  if (is("signal_bad_op")) nvshmemx_signal_op_on_stream(word, 1, 3, me, stream);
  if (is("wait_outside")) nvshmemx_uint64_wait_until_on_stream(&outside, NVSHMEM_CMP_EQ, 0, stream);
  if (is("wait_bad_comparison")) nvshmemx_uint64_wait_until_on_stream(word, 17, 0, stream);
  if (is("g_captured")) {
    if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) != cudaSuccess) return 3;
    value = nvshmemx_uint64_g_on_stream(word, me, stream);
  }
  // None of these is a mistake.
  if (is("nothing")) {
    nvshmem_uint64_put(&outside, &value, 0, 99);
    nvshmemx_uint64_iput_on_stream(&outside, &value, 1, 1, 0, 99, stream);
    nvshmemx_uint64_wait_until_all_on_stream(word, 0, nullptr, NVSHMEM_CMP_EQ, 1, stream);
    nvshmemx_hostlib_finalize();
    return 0;
  }
  std::printf("%s: went on (%d)\n", argv[1], static_cast<int>(value));
  return 4;
}
