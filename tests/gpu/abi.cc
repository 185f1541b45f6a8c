// Prints what programs are compiled with: sizes, offsets and values of the cufile.h that it was
// compiled with itself. Two of them must print the same.
#include <cstddef>
#include <cstdio>
#include <cufile.h>

#define VALUE(name) std::printf("%s %lld\n", #name, static_cast<long long>(name))
#define SIZE(type) std::printf("sizeof %s %zu\n", #type, sizeof(type))
#define FIELD(type, field) std::printf("%s.%s %zu\n", #type, #field, offsetof(type, field))

int main() {
  // By number: what an older header does not know is no difference.
  for (int error = 5000; error <= 5050; ++error) {
    const auto status = static_cast<CUfileOpError>(error);
    std::printf("is error %d %d\n", error, IS_CUFILE_ERR(status) ? 1 : 0);
  }
  VALUE(CU_FILE_DRIVER_NOT_INITIALIZED);
  VALUE(CU_FILE_DRIVER_CLOSING);
  VALUE(CU_FILE_IO_NOT_SUPPORTED);
  VALUE(CU_FILE_CUDA_DRIVER_ERROR);
  VALUE(CU_FILE_CUDA_POINTER_INVALID);
  VALUE(CU_FILE_CUDA_POINTER_RANGE_ERROR);
  VALUE(CU_FILE_INVALID_MAPPING_SIZE);
  VALUE(CU_FILE_INVALID_MAPPING_RANGE);
  VALUE(CU_FILE_INVALID_FILE_TYPE);
  VALUE(CU_FILE_INVALID_FILE_OPEN_FLAG);
  VALUE(CU_FILE_INVALID_VALUE);
  VALUE(CU_FILE_MEMORY_ALREADY_REGISTERED);
  VALUE(CU_FILE_MEMORY_NOT_REGISTERED);
  VALUE(CU_FILE_DRIVER_ALREADY_OPEN);
  VALUE(CU_FILE_HANDLE_NOT_REGISTERED);
  VALUE(CU_FILE_HANDLE_ALREADY_REGISTERED);
  VALUE(CU_FILE_INTERNAL_ERROR);
  VALUE(CU_FILE_GETNEWFD_FAILED);
  VALUE(CU_FILE_BATCH_FULL);
  VALUE(CU_FILE_ASYNC_NOT_SUPPORTED);
  VALUE(CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  VALUE(CU_FILE_NOMEM_ERROR);
  VALUE(CU_FILE_BATCH_NOCOMPAT_ERROR);
  VALUE(CU_FILE_HANDLE_TYPE_OPAQUE_FD);
  VALUE(CU_FILE_HANDLE_TYPE_USERSPACE_FS);
  VALUE(CUFILE_READ);
  VALUE(CUFILE_WRITE);
  VALUE(CUFILE_WAITING);
  VALUE(CUFILE_PENDING);
  VALUE(CUFILE_INVALID);
  VALUE(CUFILE_CANCELED);
  VALUE(CUFILE_COMPLETE);
  VALUE(CUFILE_TIMEOUT);
  VALUE(CUFILE_FAILED);
  VALUE(CUFILE_BATCH);
  VALUE(CU_FILE_BATCH_IO_SUPPORTED);
  VALUE(CU_FILE_STREAMS_SUPPORTED);
  VALUE(CU_FILE_ALLOW_COMPAT_MODE);
  VALUE(CUFILE_PARAM_PROFILE_STATS);
  VALUE(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS);
  VALUE(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB);
  VALUE(CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB);
  VALUE(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE);
  VALUE(CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB);
  VALUE(CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS);
  VALUE(CUFILE_PARAM_PROPERTIES_USE_POLL_MODE);
  VALUE(CUFILE_PARAM_FORCE_ODIRECT_MODE);
  VALUE(CUFILE_PARAM_STREAM_MEMOPS_BYPASS);
  VALUE(CUFILE_PARAM_LOGGING_LEVEL);
  VALUE(CUFILE_PARAM_LOG_DIR);
  SIZE(CUfileError_t);
  SIZE(CUfileDrvProps_t);
  FIELD(CUfileDrvProps_t, nvfs.max_direct_io_size);
  FIELD(CUfileDrvProps_t, nvfs.dcontrolflags);
  FIELD(CUfileDrvProps_t, fflags);
  FIELD(CUfileDrvProps_t, max_device_cache_size);
  FIELD(CUfileDrvProps_t, max_device_pinned_mem_size);
  FIELD(CUfileDrvProps_t, max_batch_io_size);
  SIZE(CUfileDescr_t);
  FIELD(CUfileDescr_t, handle);
  FIELD(CUfileDescr_t, fs_ops);
  SIZE(CUfileFSOps_t);
  SIZE(CUfileIOParams_t);
  FIELD(CUfileIOParams_t, u.batch.devPtr_base);
  FIELD(CUfileIOParams_t, u.batch.file_offset);
  FIELD(CUfileIOParams_t, u.batch.devPtr_offset);
  FIELD(CUfileIOParams_t, u.batch.size);
  FIELD(CUfileIOParams_t, fh);
  FIELD(CUfileIOParams_t, opcode);
  FIELD(CUfileIOParams_t, cookie);
  SIZE(CUfileIOEvents_t);
  FIELD(CUfileIOEvents_t, status);
  FIELD(CUfileIOEvents_t, ret);
  SIZE(CUfileStatsLevel1_t);
  FIELD(CUfileStatsLevel1_t, read_bytes);
  FIELD(CUfileStatsLevel1_t, batch_submit_ops);
  FIELD(CUfileStatsLevel1_t, last_batch_write_bytes);
  SIZE(CUfileStatsLevel2_t);
  SIZE(CUfilePerGpuStats_t);
  FIELD(CUfilePerGpuStats_t, n_total_reads);
  FIELD(CUfilePerGpuStats_t, reg_bytes);
  SIZE(CUfileStatsLevel3_t);
  FIELD(CUfileStatsLevel3_t, per_gpu_stats);
  return 0;
}
