/* A program as callers write them, in C11 and with nothing but the public header: copies a file of
   a mount to another file there. Exits with the line of the first fault, or 0. */
#define _POSIX_C_SOURCE 200809L

#include "hf3fs_usrbio.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                     \
  do {                                                                       \
    if (!(condition)) {                                                      \
      fprintf(stderr, "c_program.c:%d: not so: %s\n", __LINE__, #condition); \
      return __LINE__;                                                       \
    }                                                                        \
  } while (0)

enum { kBlocks = 16, kBlockBytes = 65536 };

int main(int argc, char** argv) {
  char mount[256];
  struct hf3fs_iov iov;
  struct hf3fs_ior reads;
  struct hf3fs_ior writes;
  struct hf3fs_cqe cqes[kBlocks];
  struct stat status;
  size_t at = 0;
  CHECK(argc == 3);
  CHECK(hf3fs_extract_mount_point(mount, sizeof(mount), argv[1]) > 1);
  CHECK(hf3fs_iovcreate(&iov, mount, (size_t)kBlocks * kBlockBytes, kBlockBytes, -1) == 0);
  CHECK(hf3fs_iorcreate4(&reads, mount, kBlocks, true, 0, 0, -1, 0) == 0);
  CHECK(hf3fs_iorcreate3(&writes, mount, kBlocks, false, 0, 0, 1, -1) == 0);
  const int from = open(argv[1], O_RDONLY);
  const int to = open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0644);
  CHECK(from >= 0 && to >= 0);
  CHECK(hf3fs_is_hf3fs(from) && fstat(from, &status) == 0);
  CHECK(hf3fs_reg_fd(from, 0) <= 0);
  CHECK(hf3fs_reg_fd(to, 0) <= 0);
  while (at < (size_t)status.st_size) {
    struct timespec until;
    int count = 0;
    int written = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 30;
    for (; count < kBlocks && at + (size_t)count * kBlockBytes < (size_t)status.st_size; ++count) {
      uint8_t* place = iov.base + (size_t)count * kBlockBytes;
      CHECK(hf3fs_prep_io(&reads, &iov, true, place, from, at + (size_t)count * kBlockBytes,
                          kBlockBytes, place) >= 0);
    }
    CHECK(hf3fs_submit_ios(&reads) == 0);
    CHECK(hf3fs_wait_for_ios(&reads, cqes, kBlocks, count, &until) == count);
    for (int i = 0; i < count; ++i) {
      uint8_t* place = (uint8_t*)cqes[i].userdata;
      CHECK(cqes[i].result > 0);
      CHECK(hf3fs_prep_io(&writes, &iov, false, place, to, at + (size_t)(place - iov.base),
                          (uint64_t)cqes[i].result, NULL) >= 0);
    }
    CHECK(hf3fs_submit_ios(&writes) == 0);
    while (written < count) {
      const int n = hf3fs_wait_for_ios(&writes, cqes, kBlocks, 1, &until);
      CHECK(n > 0);
      for (int i = 0; i < n; ++i) CHECK(cqes[i].result > 0);
      written += n;
    }
    at += (size_t)kBlocks * kBlockBytes;
  }
  hf3fs_dereg_fd(from);
  hf3fs_dereg_fd(to);
  close(from);
  close(to);
  hf3fs_iordestroy(&reads);
  hf3fs_iordestroy(&writes);
  hf3fs_iovdestroy(&iov);
  return 0;
}
