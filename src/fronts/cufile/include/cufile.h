/*
 * cufile.h: the cuFile interface (GPUDirect Storage), as Penstock serves it in libcufile.so.0.
 *
 * Programs that were built with NVIDIA's header run with this library unchanged, and the other way
 * round: names, values and layouts are the same (cuFile 1.15, of CUDA 13.0).
 *
 * Errors. Control calls return a CUfileError_t: an error of CUfileOpError, and with
 * CU_FILE_CUDA_DRIVER_ERROR what CUDA said. cuFileRead() and cuFileWrite() return bytes, -1 with
 * errno when the file system failed, or a negative CUfileOpError (errno then holds the positive
 * one). Any file works, on any file system, opened with or without O_DIRECT; nothing falls back
 * silently: the statistics say which way bytes went.
 *
 * Memory. Any device memory, managed and host memory, registered or not. A registered buffer is
 * addressed by the base that it was registered with and an offset within it. Memory must not be
 * freed while an operation uses it.
 *
 * Threads. Every call may be made from any thread. A process that was forked after the first call
 * cannot use the library: its calls fail with CU_FILE_DRIVER_NOT_INITIALIZED.
 */
#ifndef CUFILE_H
#define CUFILE_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* ---- errors ---- */

#define CUFILEOP_BASE_ERR 5000

typedef enum CUfileOpError {
  CU_FILE_SUCCESS = 0,
  CU_FILE_DRIVER_NOT_INITIALIZED = 5001,
  CU_FILE_DRIVER_INVALID_PROPS = 5002,
  CU_FILE_DRIVER_UNSUPPORTED_LIMIT = 5003,
  CU_FILE_DRIVER_VERSION_MISMATCH = 5004,
  CU_FILE_DRIVER_VERSION_READ_ERROR = 5005,
  CU_FILE_DRIVER_CLOSING = 5006,
  CU_FILE_PLATFORM_NOT_SUPPORTED = 5007,
  CU_FILE_IO_NOT_SUPPORTED = 5008,
  CU_FILE_DEVICE_NOT_SUPPORTED = 5009,
  CU_FILE_NVFS_DRIVER_ERROR = 5010,
  CU_FILE_CUDA_DRIVER_ERROR = 5011,
  CU_FILE_CUDA_POINTER_INVALID = 5012,
  CU_FILE_CUDA_MEMORY_TYPE_INVALID = 5013,
  CU_FILE_CUDA_POINTER_RANGE_ERROR = 5014,
  CU_FILE_CUDA_CONTEXT_MISMATCH = 5015,
  CU_FILE_INVALID_MAPPING_SIZE = 5016,
  CU_FILE_INVALID_MAPPING_RANGE = 5017,
  CU_FILE_INVALID_FILE_TYPE = 5018,
  CU_FILE_INVALID_FILE_OPEN_FLAG = 5019,
  CU_FILE_DIO_NOT_SET = 5020,
  CU_FILE_INVALID_VALUE = 5022,
  CU_FILE_MEMORY_ALREADY_REGISTERED = 5023,
  CU_FILE_MEMORY_NOT_REGISTERED = 5024,
  CU_FILE_PERMISSION_DENIED = 5025,
  CU_FILE_DRIVER_ALREADY_OPEN = 5026,
  CU_FILE_HANDLE_NOT_REGISTERED = 5027,
  CU_FILE_HANDLE_ALREADY_REGISTERED = 5028,
  CU_FILE_DEVICE_NOT_FOUND = 5029,
  CU_FILE_INTERNAL_ERROR = 5030,
  CU_FILE_GETNEWFD_FAILED = 5031,
  CU_FILE_NVFS_SETUP_ERROR = 5033,
  CU_FILE_IO_DISABLED = 5034,
  CU_FILE_BATCH_SUBMIT_FAILED = 5035,
  CU_FILE_GPU_MEMORY_PINNING_FAILED = 5036,
  CU_FILE_BATCH_FULL = 5037,
  CU_FILE_ASYNC_NOT_SUPPORTED = 5038,
  CU_FILE_INTERNAL_BATCH_SETUP_ERROR = 5039,
  CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR = 5040,
  CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR = 5041,
  CU_FILE_INTERNAL_BATCH_CANCEL_ERROR = 5042,
  CU_FILE_NOMEM_ERROR = 5043,
  CU_FILE_IO_ERROR = 5044,
  CU_FILE_INTERNAL_BUF_REGISTER_ERROR = 5045,
  CU_FILE_HASH_OPR_ERROR = 5046,
  CU_FILE_INVALID_CONTEXT_ERROR = 5047,
  CU_FILE_NVFS_INTERNAL_DRIVER_ERROR = 5048,
  CU_FILE_BATCH_NOCOMPAT_ERROR = 5049,
  CU_FILE_IO_MAX_ERROR = 5050
} CUfileOpError;

typedef struct CUfileError {
  CUfileOpError err;
  CUresult cu_err; /* with CU_FILE_CUDA_DRIVER_ERROR */
} CUfileError_t;

#define IS_CUFILE_ERR(err) (abs((err)) > CUFILEOP_BASE_ERR)
#define IS_CUDA_ERR(status) ((status).err == CU_FILE_CUDA_DRIVER_ERROR)
#define CU_FILE_CUDA_ERR(status) ((status).cu_err)
#define CUFILE_ERRSTR(err) cufileop_status_error((CUfileOpError)abs((err)))

/* A sentence for people. */
static inline const char* cufileop_status_error(CUfileOpError status) {
  switch (status) {
    case CU_FILE_SUCCESS:
      return "success";
    case CU_FILE_DRIVER_NOT_INITIALIZED:
      return "the cuFile driver is not open";
    case CU_FILE_DRIVER_INVALID_PROPS:
      return "invalid driver property";
    case CU_FILE_DRIVER_UNSUPPORTED_LIMIT:
      return "the value is outside its limits";
    case CU_FILE_DRIVER_VERSION_MISMATCH:
      return "the driver has another version";
    case CU_FILE_DRIVER_VERSION_READ_ERROR:
      return "the driver's version cannot be read";
    case CU_FILE_DRIVER_CLOSING:
      return "the cuFile driver is closing";
    case CU_FILE_PLATFORM_NOT_SUPPORTED:
      return "this platform is not supported";
    case CU_FILE_IO_NOT_SUPPORTED:
      return "this kind of file handle is not supported";
    case CU_FILE_DEVICE_NOT_SUPPORTED:
      return "this GPU is not supported";
    case CU_FILE_NVFS_DRIVER_ERROR:
      return "the kernel driver failed";
    case CU_FILE_CUDA_DRIVER_ERROR:
      return "the CUDA driver failed";
    case CU_FILE_CUDA_POINTER_INVALID:
      return "not a valid device pointer";
    case CU_FILE_CUDA_MEMORY_TYPE_INVALID:
      return "not a supported kind of memory";
    case CU_FILE_CUDA_POINTER_RANGE_ERROR:
      return "the range leaves its allocation";
    case CU_FILE_CUDA_CONTEXT_MISMATCH:
      return "the pointer belongs to another CUDA context";
    case CU_FILE_INVALID_MAPPING_SIZE:
      return "beyond the limit of pinned memory";
    case CU_FILE_INVALID_MAPPING_RANGE:
      return "the range leaves the registered buffer";
    case CU_FILE_INVALID_FILE_TYPE:
      return "neither a regular file nor a block device";
    case CU_FILE_INVALID_FILE_OPEN_FLAG:
      return "the file was not opened in a way that allows this";
    case CU_FILE_DIO_NOT_SET:
      return "the file was not opened with O_DIRECT";
    case CU_FILE_INVALID_VALUE:
      return "invalid argument";
    case CU_FILE_MEMORY_ALREADY_REGISTERED:
      return "the buffer is registered already";
    case CU_FILE_MEMORY_NOT_REGISTERED:
      return "the buffer is not registered";
    case CU_FILE_PERMISSION_DENIED:
      return "permission denied";
    case CU_FILE_DRIVER_ALREADY_OPEN:
      return "the cuFile driver is open already";
    case CU_FILE_HANDLE_NOT_REGISTERED:
      return "the file handle is not registered";
    case CU_FILE_HANDLE_ALREADY_REGISTERED:
      return "the file is registered already";
    case CU_FILE_DEVICE_NOT_FOUND:
      return "no such GPU";
    case CU_FILE_INTERNAL_ERROR:
      return "internal error";
    case CU_FILE_GETNEWFD_FAILED:
      return "no file descriptor is left";
    case CU_FILE_NVFS_SETUP_ERROR:
      return "the library could not be set up";
    case CU_FILE_IO_DISABLED:
      return "disabled for this file by configuration";
    case CU_FILE_BATCH_SUBMIT_FAILED:
      return "the batch could not be submitted";
    case CU_FILE_GPU_MEMORY_PINNING_FAILED:
      return "memory could not be pinned";
    case CU_FILE_BATCH_FULL:
      return "the batch is full";
    case CU_FILE_ASYNC_NOT_SUPPORTED:
      return "not supported on this stream";
    case CU_FILE_INTERNAL_BATCH_SETUP_ERROR:
      return "the batch could not be set up";
    case CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR:
      return "the batch does not take these operations";
    case CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR:
      return "the batch has no status";
    case CU_FILE_INTERNAL_BATCH_CANCEL_ERROR:
      return "the batch could not be cancelled";
    case CU_FILE_NOMEM_ERROR:
      return "out of memory";
    case CU_FILE_IO_ERROR:
      return "input or output failed";
    case CU_FILE_INTERNAL_BUF_REGISTER_ERROR:
      return "the buffer could not be registered";
    case CU_FILE_HASH_OPR_ERROR:
      return "an internal table failed";
    case CU_FILE_INVALID_CONTEXT_ERROR:
      return "invalid CUDA context";
    case CU_FILE_NVFS_INTERNAL_DRIVER_ERROR:
      return "internal error of the kernel driver";
    case CU_FILE_BATCH_NOCOMPAT_ERROR:
      return "batches need compatibility mode here";
    case CU_FILE_IO_MAX_ERROR:
      break;
  }
  return "unknown error of cuFile";
}

/* ---- the driver ---- */

typedef enum CUfileDriverStatusFlags {
  CU_FILE_LUSTRE_SUPPORTED = 0,
  CU_FILE_WEKAFS_SUPPORTED = 1,
  CU_FILE_NFS_SUPPORTED = 2,
  CU_FILE_GPFS_SUPPORTED = 3,
  CU_FILE_NVME_SUPPORTED = 4,
  CU_FILE_NVMEOF_SUPPORTED = 5,
  CU_FILE_SCSI_SUPPORTED = 6,
  CU_FILE_SCALEFLUX_CSD_SUPPORTED = 7,
  CU_FILE_NVMESH_SUPPORTED = 8,
  CU_FILE_BEEGFS_SUPPORTED = 9,
  CU_FILE_NVME_P2P_SUPPORTED = 11,
  CU_FILE_SCATEFS_SUPPORTED = 12
} CUfileDriverStatusFlags_t;

typedef enum CUfileDriverControlFlags {
  CU_FILE_USE_POLL_MODE = 0,
  CU_FILE_ALLOW_COMPAT_MODE = 1
} CUfileDriverControlFlags_t;

typedef enum CUfileFeatureFlags {
  CU_FILE_DYN_ROUTING_SUPPORTED = 0,
  CU_FILE_BATCH_IO_SUPPORTED = 1,
  CU_FILE_STREAMS_SUPPORTED = 2,
  CU_FILE_PARALLEL_IO_SUPPORTED = 3
} CUfileFeatureFlags_t;

/* The flags are bit numbers. Sizes are in KiB. */
typedef struct CUfileDrvProps {
  struct {
    unsigned int major_version;
    unsigned int minor_version;
    size_t poll_thresh_size;
    size_t max_direct_io_size;
    unsigned int dstatusflags;
    unsigned int dcontrolflags;
  } nvfs;
  unsigned int fflags;
  unsigned int max_device_cache_size;
  unsigned int per_buffer_cache_size;
  unsigned int max_device_pinned_mem_size;
  unsigned int max_batch_io_size;
  unsigned int max_batch_io_timeout_msecs;
} CUfileDrvProps_t;

/* Opens count. Any other call that needs the driver opens it, once, when it is not open. */
CUfileError_t cuFileDriverOpen(void);
/* The last close cancels batches, waits for what cannot be cancelled, and gives up all files,
   buffers, batches and streams. What a stream comes to later ends with CU_FILE_DRIVER_CLOSING. */
CUfileError_t cuFileDriverClose(void);
CUfileError_t cuFileDriverClose_v2(void);
#define cuFileDriverClose cuFileDriverClose_v2
long cuFileUseCount(void);

CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t* props);
/* KiB, and a multiple of 4 each. */
CUfileError_t cuFileDriverSetPollMode(bool poll, size_t poll_threshold_size);
CUfileError_t cuFileDriverSetMaxDirectIOSize(size_t max_direct_io_size);
CUfileError_t cuFileDriverSetMaxCacheSize(size_t max_cache_size);
/* What all registered buffers of a GPU may have together. */
CUfileError_t cuFileDriverSetMaxPinnedMemSize(size_t max_pinned_size);
/* 1000 * major + 10 * minor. */
CUfileError_t cuFileGetVersion(int* version);
CUfileError_t cuFileGetBARSizeInKB(int gpu_index, size_t* bar_size);

/* ---- files ---- */

enum CUfileFileHandleType {
  CU_FILE_HANDLE_TYPE_OPAQUE_FD = 1,
  CU_FILE_HANDLE_TYPE_OPAQUE_WIN32 = 2, /* not supported */
  CU_FILE_HANDLE_TYPE_USERSPACE_FS = 3  /* not supported */
};

typedef struct sockaddr sockaddr_t;

typedef struct cufileRDMAInfo {
  int version;
  int desc_len;
  const char* desc_str;
} cufileRDMAInfo_t;

#define CU_FILE_RDMA_REGISTER 1
#define CU_FILE_RDMA_RELAXED_ORDERING (1 << 1)

typedef struct CUfileFSOps {
  const char* (*fs_type)(const void* handle);
  int (*getRDMADeviceList)(const void* handle, sockaddr_t** hostaddrs);
  int (*getRDMADevicePriority)(const void* handle, char*, size_t, off_t,
                               const sockaddr_t* hostaddr);
  ssize_t (*read)(const void* handle, char*, size_t, off_t, const cufileRDMAInfo_t*);
  ssize_t (*write)(const void* handle, const char*, size_t, off_t, const cufileRDMAInfo_t*);
} CUfileFSOps_t;

typedef struct CUfileDescr_t {
  enum CUfileFileHandleType type;
  union {
    int fd;
    void* handle;
  } handle;
  const CUfileFSOps_t* fs_ops;
} CUfileDescr_t;

typedef void* CUfileHandle_t;

/* The descriptor may be closed afterwards. O_APPEND, directories, pipes and sockets are refused. */
CUfileError_t cuFileHandleRegister(CUfileHandle_t* fh, CUfileDescr_t* descr);
/* Operations that are in progress end as they would have. */
void cuFileHandleDeregister(CUfileHandle_t fh);

/* ---- buffers ---- */

CUfileError_t cuFileBufRegister(const void* bufPtr_base, size_t length, int flags);
CUfileError_t cuFileBufDeregister(const void* bufPtr_base);

/* ---- reads and writes ---- */

ssize_t cuFileRead(CUfileHandle_t fh, void* bufPtr_base, size_t size, off_t file_offset,
                   off_t bufPtr_offset);
ssize_t cuFileWrite(CUfileHandle_t fh, const void* bufPtr_base, size_t size, off_t file_offset,
                    off_t bufPtr_offset);

/* ---- batches ---- */

typedef enum CUfileOpcode { CUFILE_READ = 0, CUFILE_WRITE = 1 } CUfileOpcode_t;

typedef enum CUFILEStatus_enum {
  CUFILE_WAITING = 0x000001,
  CUFILE_PENDING = 0x000002,
  CUFILE_INVALID = 0x000004,
  CUFILE_CANCELED = 0x000008,
  CUFILE_COMPLETE = 0x0000010,
  CUFILE_TIMEOUT = 0x0000020,
  CUFILE_FAILED = 0x0000040
} CUfileStatus_t;

typedef enum cufileBatchMode { CUFILE_BATCH = 1 } CUfileBatchMode_t;

typedef struct CUfileIOParams {
  CUfileBatchMode_t mode;
  union {
    struct {
      void* devPtr_base;
      off_t file_offset;
      off_t devPtr_offset;
      size_t size;
    } batch;
  } u;
  CUfileHandle_t fh;
  CUfileOpcode_t opcode;
  void* cookie;
} CUfileIOParams_t;

typedef struct CUfileIOEvents {
  void* cookie;
  CUfileStatus_t status;
  size_t ret; /* bytes; a negative errno or CUfileOpError with CUFILE_FAILED */
} CUfileIOEvents_t;

typedef void* CUfileBatchHandle_t;

/* `nr` operations at a time, from 1 to the limit (CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE). */
CUfileError_t cuFileBatchIOSetUp(CUfileBatchHandle_t* batch_idp, unsigned nr);
/* All or none are taken. An operation that has ended makes room for another when its status has
   been read. */
CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t batch_idp, unsigned nr,
                                  CUfileIOParams_t* iocbp, unsigned int flags);
/* Waits until `min_nr` have ended, or for `timeout` (NULL: as long as it takes), and gives the
   status of up to `*nr` that have; each is given once. */
CUfileError_t cuFileBatchIOGetStatus(CUfileBatchHandle_t batch_idp, unsigned min_nr, unsigned* nr,
                                     CUfileIOEvents_t* iocbp, struct timespec* timeout);
/* What can be cancelled ends with CUFILE_CANCELED. */
CUfileError_t cuFileBatchIOCancel(CUfileBatchHandle_t batch_idp);
/* Cancels, and returns when nothing touches the memory any more. */
void cuFileBatchIODestroy(CUfileBatchHandle_t batch_idp);

/* ---- reads and writes in the order of a stream ---- */

/* For cuFileStreamRegister(): what is known when the operation is submitted. The rest is read when
   the stream comes to it. */
#define CU_FILE_STREAM_FIXED_BUF_OFFSET 1
#define CU_FILE_STREAM_FIXED_FILE_OFFSET 2
#define CU_FILE_STREAM_FIXED_FILE_SIZE 4
#define CU_FILE_STREAM_PAGE_ALIGNED_INPUTS 8
#define CU_FILE_STREAM_FIXED_AND_ALIGNED 15

/* The operation begins when the stream comes to it, and the stream goes on when it has ended and
   the bytes (or an error, as cuFileRead() returns it) are stored. With no stream (NULL) it is
   ordered in the default stream, and has ended on return. Streams that are being captured are
   refused with CU_FILE_ASYNC_NOT_SUPPORTED. */
CUfileError_t cuFileReadAsync(CUfileHandle_t fh, void* bufPtr_base, size_t* size_p,
                              off_t* file_offset_p, off_t* bufPtr_offset_p, ssize_t* bytes_read_p,
                              CUstream stream);
CUfileError_t cuFileWriteAsync(CUfileHandle_t fh, void* bufPtr_base, size_t* size_p,
                               off_t* file_offset_p, off_t* bufPtr_offset_p,
                               ssize_t* bytes_written_p, CUstream stream);
CUfileError_t cuFileStreamRegister(CUstream stream, unsigned flags);
CUfileError_t cuFileStreamDeregister(CUstream stream);

/* ---- parameters ---- */

typedef enum CUFileSizeTConfigParameter_t {
  CUFILE_PARAM_PROFILE_STATS,
  CUFILE_PARAM_EXECUTION_MAX_IO_QUEUE_DEPTH,
  CUFILE_PARAM_EXECUTION_MAX_IO_THREADS,
  CUFILE_PARAM_EXECUTION_MIN_IO_THRESHOLD_SIZE_KB,
  CUFILE_PARAM_EXECUTION_MAX_REQUEST_PARALLELISM,
  CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB,
  CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB,
  CUFILE_PARAM_PROPERTIES_PER_BUFFER_CACHE_SIZE_KB,
  CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB,
  CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE,
  CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB,
  CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS
} CUFileSizeTConfigParameter_t;

typedef enum CUFileBoolConfigParameter_t {
  CUFILE_PARAM_PROPERTIES_USE_POLL_MODE,
  CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE,
  CUFILE_PARAM_FORCE_COMPAT_MODE,
  CUFILE_PARAM_FS_MISC_API_CHECK_AGGRESSIVE,
  CUFILE_PARAM_EXECUTION_PARALLEL_IO,
  CUFILE_PARAM_PROFILE_NVTX,
  CUFILE_PARAM_PROPERTIES_ALLOW_SYSTEM_MEMORY,
  CUFILE_PARAM_USE_PCIP2PDMA,
  CUFILE_PARAM_PREFER_IO_URING,
  CUFILE_PARAM_FORCE_ODIRECT_MODE,
  CUFILE_PARAM_SKIP_TOPOLOGY_DETECTION,
  CUFILE_PARAM_STREAM_MEMOPS_BYPASS
} CUFileBoolConfigParameter_t;

typedef enum CUFileStringConfigParameter_t {
  CUFILE_PARAM_LOGGING_LEVEL,
  CUFILE_PARAM_ENV_LOGFILE_PATH,
  CUFILE_PARAM_LOG_DIR
} CUFileStringConfigParameter_t;

typedef enum CUFileArrayConfigParameter_t {
  CUFILE_PARAM_POSIX_POOL_SLAB_SIZE_KB,
  CUFILE_PARAM_POSIX_POOL_SLAB_COUNT
} CUFileArrayConfigParameter_t;

/* Before the driver opens, values are kept for it (CU_FILE_DRIVER_ALREADY_OPEN afterwards); one
   outside its limits is ignored then. */
CUfileError_t cuFileSetParameterSizeT(CUFileSizeTConfigParameter_t param, size_t value);
CUfileError_t cuFileSetParameterBool(CUFileBoolConfigParameter_t param, bool value);
CUfileError_t cuFileSetParameterString(CUFileStringConfigParameter_t param, const char* desc_str);
CUfileError_t cuFileGetParameterSizeT(CUFileSizeTConfigParameter_t param, size_t* value);
CUfileError_t cuFileGetParameterBool(CUFileBoolConfigParameter_t param, bool* value);
/* CU_FILE_INVALID_VALUE when it does not fit in `len` bytes with its end. */
CUfileError_t cuFileGetParameterString(CUFileStringConfigParameter_t param, char* desc_str,
                                       int len);
CUfileError_t cuFileGetParameterMinMaxValue(CUFileSizeTConfigParameter_t param, size_t* min_value,
                                            size_t* max_value);
CUfileError_t cuFileSetParameterPosixPoolSlabArray(const size_t* size_values,
                                                   const size_t* count_values, int len);
CUfileError_t cuFileGetParameterPosixPoolSlabArray(size_t* size_values, size_t* count_values,
                                                   int len);

/* ---- statistics ---- */

#define CUFILE_GPU_UUID_LEN 16

typedef struct CUfileOpCounter {
  uint64_t ok;
  uint64_t err;
} CUfileOpCounter_t;

typedef struct CUfileStatsLevel1 {
  CUfileOpCounter_t read_ops;
  CUfileOpCounter_t write_ops;
  CUfileOpCounter_t hdl_register_ops;
  CUfileOpCounter_t hdl_deregister_ops;
  CUfileOpCounter_t buf_register_ops;
  CUfileOpCounter_t buf_deregister_ops;
  uint64_t read_bytes;
  uint64_t write_bytes;
  uint64_t read_bw_bytes_per_sec;
  uint64_t write_bw_bytes_per_sec;
  uint64_t read_lat_avg_us;
  uint64_t write_lat_avg_us;
  uint64_t read_ops_per_sec;
  uint64_t write_ops_per_sec;
  uint64_t read_lat_sum_us;
  uint64_t write_lat_sum_us;
  CUfileOpCounter_t batch_submit_ops;
  CUfileOpCounter_t batch_complete_ops;
  CUfileOpCounter_t batch_setup_ops;
  CUfileOpCounter_t batch_cancel_ops;
  CUfileOpCounter_t batch_destroy_ops;
  CUfileOpCounter_t batch_enqueued_ops;
  CUfileOpCounter_t batch_posix_enqueued_ops;
  CUfileOpCounter_t batch_processed_ops;
  CUfileOpCounter_t batch_posix_processed_ops;
  CUfileOpCounter_t batch_nvfs_submit_ops;
  CUfileOpCounter_t batch_p2p_submit_ops;
  CUfileOpCounter_t batch_aio_submit_ops;
  CUfileOpCounter_t batch_iouring_submit_ops;
  CUfileOpCounter_t batch_mixed_io_submit_ops;
  CUfileOpCounter_t batch_total_submit_ops;
  uint64_t batch_read_bytes;
  uint64_t batch_write_bytes;
  uint64_t batch_read_bw_bytes;
  uint64_t batch_write_bw_bytes;
  uint64_t batch_submit_lat_avg_us;
  uint64_t batch_completion_lat_avg_us;
  uint64_t batch_submit_ops_per_sec;
  uint64_t batch_complete_ops_per_sec;
  uint64_t batch_submit_lat_sum_us;
  uint64_t batch_completion_lat_sum_us;
  uint64_t last_batch_read_bytes;
  uint64_t last_batch_write_bytes;
} CUfileStatsLevel1_t;

typedef struct CUfileStatsLevel2 {
  CUfileStatsLevel1_t basic;
  uint64_t read_size_kb_hist[32];
  uint64_t write_size_kb_hist[32];
} CUfileStatsLevel2_t;

typedef struct CUfilePerGpuStats {
  char uuid[CUFILE_GPU_UUID_LEN];
  uint64_t read_bytes;
  uint64_t read_bw_bytes_per_sec;
  uint64_t read_utilization;
  uint64_t read_duration_us;
  uint64_t n_total_reads;
  uint64_t n_p2p_reads;
  uint64_t n_nvfs_reads;
  uint64_t n_posix_reads;
  uint64_t n_unaligned_reads;
  uint64_t n_dr_reads;
  uint64_t n_sparse_regions;
  uint64_t n_inline_regions;
  uint64_t n_reads_err;
  uint64_t writes_bytes;
  uint64_t write_bw_bytes_per_sec;
  uint64_t write_utilization;
  uint64_t write_duration_us;
  uint64_t n_total_writes;
  uint64_t n_p2p_writes;
  uint64_t n_nvfs_writes;
  uint64_t n_posix_writes;
  uint64_t n_unaligned_writes;
  uint64_t n_dr_writes;
  uint64_t n_writes_err;
  uint64_t n_mmap;
  uint64_t n_mmap_ok;
  uint64_t n_mmap_err;
  uint64_t n_mmap_free;
  uint64_t reg_bytes;
} CUfilePerGpuStats_t;

typedef struct CUfileStatsLevel3 {
  CUfileStatsLevel2_t detailed;
  uint32_t num_gpus;
  CUfilePerGpuStats_t per_gpu_stats[16];
} CUfileStatsLevel3_t;

/* 0 (nothing is counted) to 3. */
CUfileError_t cuFileSetStatsLevel(int level);
CUfileError_t cuFileGetStatsLevel(int* level);
CUfileError_t cuFileStatsStart(void);
CUfileError_t cuFileStatsStop(void);
CUfileError_t cuFileStatsReset(void);
/* CU_FILE_INVALID_VALUE when the level is lower. */
CUfileError_t cuFileGetStatsL1(CUfileStatsLevel1_t* stats);
CUfileError_t cuFileGetStatsL2(CUfileStatsLevel2_t* stats);
CUfileError_t cuFileGetStatsL3(CUfileStatsLevel3_t* stats);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif /* CUFILE_H */
