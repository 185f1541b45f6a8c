/* USRBIO with GPU memory: create, wrap and open, reads and writes, all bytes compared, also by a
   second process. Run it with a directory of a Penstock mount; usrbio.sh makes one. Prints PASS or
   FAIL for every check. */
#define _DEFAULT_SOURCE

#include "hf3fs_usrbio.h"

#include <cuda_runtime_api.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kFileBytes = (8 << 20) + 777, kIovBytes = 16 << 20, kGpu = 0 };

static int failures;
static const char* program;
static char mount[256];
static char path[512];
static int file = -1;
static unsigned char* content;

static void check(int good, const char* what, long long got) {
  printf("%s %s", good ? "PASS" : "FAIL", what);
  if (!good) printf(" (%lld)", got);
  printf("\n");
  fflush(stdout);
  if (!good) ++failures;
}
#define CHECK(condition) check((condition), #condition, errno)
#define RETURNS(call, wanted)                            \
  do {                                                   \
    const long long got_ = (call);                       \
    check(got_ == (wanted), #call " == " #wanted, got_); \
  } while (0)
#define CUDA(call)                                                \
  do {                                                            \
    const cudaError_t error_ = (call);                            \
    if (error_ != cudaSuccess) {                                  \
      printf("FAIL %s: %s\n", #call, cudaGetErrorString(error_)); \
      exit(1);                                                    \
    }                                                             \
  } while (0)

static void fill(unsigned char* to, size_t length, uint64_t seed) {
  for (size_t i = 0; i < length; ++i) {
    uint64_t x = (seed * 1000003 + i) * 0x9e3779b97f4a7c15ULL;
    x ^= x >> 29;
    to[i] = (unsigned char)((x * 0xbf58476d1ce4e5b9ULL) >> 56);
  }
}

/* Whether GPU memory holds these bytes. */
static int holds(const void* device, const unsigned char* bytes, size_t length) {
  unsigned char* got = malloc(length);
  CUDA(cudaMemcpy(got, device, length, cudaMemcpyDeviceToHost));
  const int same = memcmp(got, bytes, length) == 0;
  free(got);
  return same;
}

/* One operation from beginning to end; its result. */
static long long transfer(const struct hf3fs_iov* iov, int read, size_t at, size_t offset,
                          size_t length) {
  struct hf3fs_ior ring;
  struct hf3fs_cqe cqe;
  struct timespec until;
  int made = hf3fs_iorcreate4(&ring, mount, 8, read != 0, 0, 0, -1, 0);
  if (made < 0) return made;
  long long result =
      hf3fs_prep_io(&ring, iov, read != 0, iov->base + at, file, offset, length, NULL);
  if (result >= 0) {
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 30;
    hf3fs_submit_ios(&ring);
    result = hf3fs_wait_for_ios(&ring, &cqe, 1, 1, &until) == 1 ? cqe.result : -ETIMEDOUT;
  }
  hf3fs_iordestroy(&ring);
  return result;
}

static int open_file(void) {
  file = open(path, O_RDWR | O_CREAT, 0644);
  if (file < 0 || hf3fs_reg_fd(file, 0) > 0) {
    printf("FAIL %s: cannot be opened and registered: %s\n", path, strerror(errno));
    return 0;
  }
  content = malloc(kFileBytes);
  fill(content, kFileBytes, 1);
  return 1;
}

/* ---- the second process ---- */

static void wait_for_a_byte(void) {
  char byte;
  if (read(STDIN_FILENO, &byte, 1) < 0) ++failures;
}

/* Opens memory that holds `content`, reads the file into its second half when the first process
   says so, and looks at it again when that process has given the memory up. */
static int run_opener(const uint8_t id[16], size_t size) {
  struct hf3fs_iov iov;
  uint8_t unknown[16] = {0};
  RETURNS(hf3fs_iovopen_device(&iov, unknown, mount, size, 0, kGpu), -ENOENT);
  RETURNS(hf3fs_iovopen_device(&iov, id, mount, (size_t)1 << 40, 0, kGpu), -EINVAL);
  RETURNS(hf3fs_iovopen_device(&iov, id, mount, size, 0, hf3fs_gdr_device_count()), -ENODEV);
  RETURNS(hf3fs_iovopen_device(&iov, id, mount, size, 0, kGpu), 0);
  if (failures > 0) return 1;
  CHECK(hf3fs_iov_mem_type(&iov) == HF3FS_MEM_DEVICE && hf3fs_iov_device_id(&iov) == kGpu);
  CHECK(holds(iov.base, content, size / 2));
  RETURNS(transfer(&iov, 1, size / 2, 100, size / 2), (long long)(size / 2));
  CHECK(holds(iov.base + size / 2, content + 100, size / 2));
  printf("opened\n");
  fflush(stdout);
  wait_for_a_byte();
  CHECK(holds(iov.base, content, size / 2));
  CHECK(holds(iov.base + size / 2, content + 100, size / 2));
  hf3fs_iovdestroy(&iov);
  return failures > 0;
}

/* ---- the first process ---- */

struct opener {
  pid_t pid;
  int to;     /* its input */
  FILE* from; /* its output */
  int quiet;  /* it is meant to fail: what it prints means nothing */
};

static struct opener start_opener(const struct hf3fs_iov* iov, size_t size) {
  struct opener opener;
  char id[33];
  char bytes[32];
  int in[2];
  int out[2];
  for (int i = 0; i < 16; ++i) snprintf(id + 2 * i, 3, "%02x", (uint8_t)iov->id[i]);
  snprintf(bytes, sizeof(bytes), "%zu", size);
  if (pipe(in) != 0 || pipe(out) != 0) exit(1);
  opener.pid = fork();
  if (opener.pid == 0) {
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    close(in[1]);
    close(out[0]);
    execl(program, program, path, id, bytes, (char*)NULL);
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  opener.to = in[1];
  opener.from = fdopen(out[0], "r");
  opener.quiet = 0;
  return opener;
}

/* Passes on what it prints until it has opened the memory; false when it ends without. */
static int has_opened(struct opener* opener) {
  char line[256];
  while (fgets(line, sizeof(line), opener->from) != NULL) {
    if (strcmp(line, "opened\n") == 0) return 1;
    if (!opener->quiet) printf("  opener: %s", line);
  }
  return 0;
}

static int exit_status(struct opener* opener) {
  int status = -1;
  while (has_opened(opener)) continue;
  fclose(opener->from);
  close(opener->to);
  waitpid(opener->pid, &status, 0);
  return status;
}

static int ends_well(struct opener* opener) {
  if (write(opener->to, "x", 1) != 1) ++failures;
  return exit_status(opener) == 0;
}

/* Whether it finds no memory to open, and ends by itself. */
static int finds_nothing(struct opener* opener) {
  opener->quiet = 1;
  const int opened = has_opened(opener);
  const int status = exit_status(opener);
  return !opened && WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

static void check_created(void) {
  const size_t size = 1 << 20;
  struct hf3fs_iov iov;
  RETURNS(hf3fs_iovcreate_device(&iov, mount, kIovBytes, 4096, kGpu), -EINVAL);
  RETURNS(hf3fs_iovcreate_device(&iov, mount, kIovBytes, 0, hf3fs_gdr_device_count()), -ENODEV);
  RETURNS(hf3fs_iovcreate_device(&iov, mount, (size_t)1 << 41, 0, kGpu), -ENOMEM);
  RETURNS(hf3fs_iovcreate_device(&iov, mount, kIovBytes, 0, kGpu), 0);
  if (iov.base == NULL) return;
  CHECK(iov.numa == kGpu && hf3fs_iov_device_id(&iov) == kGpu);
  RETURNS(transfer(&iov, 1, 0, 0, kFileBytes), kFileBytes);
  CHECK(holds(iov.base, content, kFileBytes));
  RETURNS(transfer(&iov, 1, 12345, 4099, 100001), 100001);
  CHECK(holds(iov.base + 12345, content + 4099, 100001));
  RETURNS(transfer(&iov, 1, 0, kFileBytes - 10, 4096), 10);
  RETURNS(transfer(&iov, 1, 0, 0, size), (long long)size);

  struct opener opener = start_opener(&iov, size);
  CHECK(has_opened(&opener));
  CHECK(holds(iov.base + size / 2, content + 100, size / 2));
  hf3fs_iovdestroy(&iov);
  check(ends_well(&opener), "an opened iov outlives the one that was created", 0);
}

static void check_writes(void) {
  struct hf3fs_iov iov;
  const size_t length = 3000001;
  unsigned char* bytes = malloc(length);
  unsigned char* got = malloc(length);
  fill(bytes, length, 2);
  RETURNS(hf3fs_iovcreate_device(&iov, mount, kIovBytes, 0, kGpu), 0);
  if (iov.base == NULL) return;
  /* From memory that is not pinned: it may return before the bytes have arrived. */
  CUDA(cudaMemcpy(iov.base + 7, bytes, length, cudaMemcpyHostToDevice));
  RETURNS(hf3fs_iovsync(&iov, 2), -EINVAL);
  RETURNS(hf3fs_iovsync(&iov, 0), 0);
  RETURNS(transfer(&iov, 0, 7, 5000, length), (long long)length);
  RETURNS(hf3fs_iovsync(&iov, 1), 0);
  RETURNS(pread(file, got, length, 5000), (long long)length);
  CHECK(memcmp(got, bytes, length) == 0);
  hf3fs_iovdestroy(&iov);
  RETURNS(pwrite(file, content, kFileBytes, 0), kFileBytes);
  RETURNS(fsync(file), 0);
  free(bytes);
  free(got);
}

static void check_wrapped(void) {
  const size_t size = 1 << 20;
  const uint8_t id[16] = {0x77, (uint8_t)getpid(), (uint8_t)(getpid() >> 8)};
  unsigned char* memory = NULL;
  struct hf3fs_iov iov;
  CUDA(cudaMalloc((void**)&memory, kIovBytes));
  RETURNS(hf3fs_iovwrap_device(&iov, content, id, mount, size, 0, kGpu), -EINVAL);
  RETURNS(hf3fs_iovwrap_device(&iov, memory, id, mount, kIovBytes + 1, 0, kGpu), -EINVAL);
  RETURNS(hf3fs_iovwrap_device(&iov, memory + 5000, id, mount, size, 0, kGpu), 0);
  if (iov.base == NULL) return;
  RETURNS(transfer(&iov, 1, 0, 0, size), (long long)size);
  CHECK(holds(memory + 5000, content, size));
  struct opener opener = start_opener(&iov, size);
  CHECK(has_opened(&opener));
  CHECK(holds(memory + 5000 + size / 2, content + 100, size / 2));
  check(ends_well(&opener), "a part of cudaMalloc's memory is opened by another process", 0);
  hf3fs_iovdestroy(&iov);
  CHECK(holds(memory + 5000, content, size / 2));
  CUDA(cudaFree(memory));
}

static void check_stream_ordered(void) {
  const size_t size = 1 << 20;
  const uint8_t id[16] = {0x78, (uint8_t)getpid(), (uint8_t)(getpid() >> 8)};
  unsigned char* memory = NULL;
  struct hf3fs_iov iov;
  CUDA(cudaMallocAsync((void**)&memory, size, NULL));
  CUDA(cudaStreamSynchronize(NULL));
  RETURNS(hf3fs_iovwrap_device(&iov, memory, id, mount, size, 0, kGpu), 0);
  if (iov.base == NULL) return;
  RETURNS(transfer(&iov, 1, 0, 4096, size), (long long)size);
  CHECK(holds(memory, content + 4096, size));
  struct opener opener = start_opener(&iov, size);
  check(finds_nothing(&opener), "a pool's memory is not opened by others", 0);
  hf3fs_iovdestroy(&iov);
  CUDA(cudaFreeAsync(memory, NULL));
}

static void check_unlinked(void) {
  struct hf3fs_iov iov;
  RETURNS(hf3fs_iovcreate_device(&iov, mount, kIovBytes, 0, kGpu), 0);
  if (iov.base == NULL) return;
  hf3fs_iovunlink(&iov);
  struct opener opener = start_opener(&iov, 1 << 20);
  check(finds_nothing(&opener), "an unlinked iov is not opened by others", 0);
  RETURNS(transfer(&iov, 1, 0, 0, 4096), 4096);
  hf3fs_iovdestroy(&iov);
}

static int parse_id(const char* text, uint8_t id[16]) {
  for (int i = 0; i < 16; ++i) {
    if (sscanf(text + 2 * (size_t)i, "%2hhx", &id[i]) != 1) return 0;
  }
  return 1;
}

int main(int argc, char** argv) {
  uint8_t id[16];
  program = "/proc/self/exe";
  if (argc != 2 && argc != 4) {
    fprintf(stderr, "usage: %s DIRECTORY_OF_A_MOUNT\n", argv[0]);
    return 2;
  }
  if (argc == 2) {
    snprintf(path, sizeof(path), "%s/usrbio-device-%d", argv[1], (int)getpid());
  } else {
    snprintf(path, sizeof(path), "%s", argv[1]);
  }
  const cudaError_t begun = cudaFree(NULL);
  if (begun != cudaSuccess) {
    printf("SKIP CUDA: %s\n", cudaGetErrorString(begun));
    return 77;
  }
  if (hf3fs_extract_mount_point(mount, sizeof(mount), path) < 0) {
    printf("FAIL %s: not in a mount\n", path);
    return 1;
  }
  if (!open_file()) return 1;
  if (argc == 4) return parse_id(argv[2], id) ? run_opener(id, strtoull(argv[3], NULL, 10)) : 1;

  RETURNS(pwrite(file, content, kFileBytes, 0), kFileBytes);
  RETURNS(fsync(file), 0);
  CHECK(hf3fs_gdr_available() && hf3fs_gdr_device_count() > 0);
  check_created();
  check_writes();
  check_wrapped();
  check_stream_ordered();
  check_unlinked();
  hf3fs_dereg_fd(file);
  unlink(path);
  printf("%s: %d failed\n", failures == 0 ? "PASS" : "FAIL", failures);
  return failures > 0;
}
