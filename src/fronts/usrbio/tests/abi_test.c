/* What a C program sees of the header: it compiles as C11, with the values that programs were built
   with. */
#include "hf3fs_usrbio.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

_Static_assert(sizeof(struct hf3fs_iov) == 312, "iov");
_Static_assert(sizeof(struct hf3fs_ior) == 600, "ior");
_Static_assert(sizeof(struct hf3fs_cqe) == 24, "cqe");
_Static_assert(_Alignof(struct hf3fs_ior) == 8, "ior");
_Static_assert(offsetof(struct hf3fs_iov, mount_point) == 32, "iov.mount_point");
_Static_assert(offsetof(struct hf3fs_iov, numa) == 304, "iov.numa");
_Static_assert(offsetof(struct hf3fs_ior, for_read) == 576, "ior.for_read");
_Static_assert(sizeof(((struct hf3fs_ior*)0)->for_read) == 1, "ior.for_read");
_Static_assert(offsetof(struct hf3fs_ior, flags) == 592, "ior.flags");
_Static_assert(offsetof(struct hf3fs_cqe, userdata) == 16, "cqe.userdata");
_Static_assert(HF3FS_IOR_ALLOW_READ_UNCOMMITTED == 1, "flag");
_Static_assert(HF3FS_IOR_FORBID_READ_HOLES == 2, "flag");
_Static_assert(HF3FS_MEM_HOST == 0, "memory type");
_Static_assert(HF3FS_MEM_DEVICE == 1, "memory type");
_Static_assert(HF3FS_MEM_MANAGED == 2, "memory type");
_Static_assert(sizeof(enum hf3fs_mem_type) == 4, "memory type");
_Static_assert(HF3FS_SUPER_MAGIC == 0x8f3f5fffU, "magic");

/* The signatures that programs were compiled against. */
bool (*const gdr_available)(void) = hf3fs_gdr_available;
int (*const gdr_device_count)(void) = hf3fs_gdr_device_count;
int (*const iovcreate_device)(struct hf3fs_iov*, const char*, size_t, size_t,
                              int) = hf3fs_iovcreate_device;
int (*const iovopen_device)(struct hf3fs_iov*, const uint8_t[16], const char*, size_t, size_t,
                            int) = hf3fs_iovopen_device;
int (*const iovwrap_device)(struct hf3fs_iov*, void*, const uint8_t[16], const char*, size_t,
                            size_t, int) = hf3fs_iovwrap_device;
int (*const iovsync)(const struct hf3fs_iov*, int) = hf3fs_iovsync;
enum hf3fs_mem_type (*const iov_mem_type)(const struct hf3fs_iov*) = hf3fs_iov_mem_type;
int (*const iov_device_id)(const struct hf3fs_iov*) = hf3fs_iov_device_id;

/* Each returns the line of the first fault, or 0. */
int check_calls_without_a_mount(void);
int check_calls_without_a_gpu(void);

#define CHECK(condition)               \
  do {                                 \
    if (!(condition)) return __LINE__; \
  } while (0)

int check_calls_without_a_mount(void) {
  struct hf3fs_iov iov;
  struct hf3fs_ior ior;
  struct hf3fs_cqe cqe;
  uint8_t id[16] = {1};
  uint8_t memory[64] = {0};
  char text[16] = "kept";
  char long_mount[300];
  memset(&iov, 0x5a, sizeof(iov));
  memset(&ior, 0x5a, sizeof(ior));
  memset(long_mount, 'm', sizeof(long_mount) - 1);
  long_mount[sizeof(long_mount) - 1] = '\0';

  CHECK(!hf3fs_is_hf3fs(0));
  CHECK(!hf3fs_is_hf3fs(-1));
  CHECK(hf3fs_extract_mount_point(text, sizeof(text), "/proc/self") == -1);
  CHECK(hf3fs_extract_mount_point(text, sizeof(text), NULL) == -1);
  CHECK(strcmp(text, "kept") == 0);

  CHECK(hf3fs_iovcreate(NULL, "/nowhere", 4096, 0, -1) == -EINVAL);
  CHECK(hf3fs_iovcreate(&iov, NULL, 4096, 0, -1) == -EINVAL);
  CHECK(hf3fs_iovcreate(&iov, "", 4096, 0, -1) == -EINVAL);
  CHECK(hf3fs_iovcreate(&iov, long_mount, 4096, 0, -1) == -EINVAL);
  CHECK(hf3fs_iovcreate(&iov, "/nowhere", 0, 0, -1) == -EINVAL);
  CHECK(hf3fs_iovcreate(&iov, "/no/such/mount", 4096, 0, -1) == -ENOENT);
  CHECK(hf3fs_iovcreate(&iov, "/tmp", 4096, 0, -1) == -ENOENT);
  CHECK(iov.iovh == NULL && iov.base == NULL);
  hf3fs_iovdestroy(&iov); /* harmless */
  hf3fs_iovunlink(&iov);
  CHECK(hf3fs_iovopen(&iov, id, "/no/such/mount", 4096, 0, 0) == -ENOENT);
  CHECK(hf3fs_iovopen(&iov, NULL, "/no/such/mount", 4096, 0, 0) == -EINVAL);

  CHECK(hf3fs_iovwrap(&iov, memory, id, "/no/such/mount", sizeof(memory), 16, -1) == 0);
  CHECK(iov.base == memory && iov.size == sizeof(memory) && iov.block_size == 16);
  CHECK(memcmp(iov.id, id, sizeof(id)) == 0 && strcmp(iov.mount_point, "/no/such/mount") == 0);
  CHECK(iov.numa == -1);
  CHECK(hf3fs_iovwrap(NULL, memory, id, "/m", 64, 0, -1) == -EINVAL);
  hf3fs_iovdestroy(&iov);

  CHECK(hf3fs_ior_size(1) > 0 && hf3fs_ior_size(64) > hf3fs_ior_size(63));
  CHECK(hf3fs_ior_size(0) == 0 && hf3fs_ior_size(-1) == 0);
  CHECK(hf3fs_iorcreate3(&ior, "/nowhere", 8, true, 0, 0, -1, -1) == -EINVAL);
  CHECK(hf3fs_iorcreate4(&ior, "/nowhere", 8, true, 0, -1, -1, 0) == -EINVAL);
  CHECK(hf3fs_iorcreate4(&ior, "/nowhere", 8, true, 0, 0, -1, 4) == -EINVAL);
  CHECK(hf3fs_iorcreate(&ior, "/nowhere", 0, true, 0, -1) == -EINVAL);
  CHECK(hf3fs_iorcreate(&ior, "/nowhere", -5, true, 0, -1) == -EINVAL);
  CHECK(hf3fs_iorcreate(&ior, "/nowhere", 8, true, 9, -1) == -EINVAL);
  CHECK(hf3fs_iorcreate(&ior, NULL, 8, true, 0, -1) == -EINVAL);
  CHECK(hf3fs_iorcreate(NULL, "/nowhere", 8, true, 0, -1) == -EINVAL);
  CHECK(hf3fs_iorcreate(&ior, "/no/such/mount", 8, true, 0, -1) == -ENOENT);
  CHECK(hf3fs_iorcreate2(&ior, "/no/such/mount", 8, true, -3, 1, -1) == -ENOENT);
  CHECK(hf3fs_iorwrap(&ior, memory, "/no/such/mount", 64, true, 0, 0, 0, 0) == -EINVAL);
  CHECK(hf3fs_iorwrap(&ior, NULL, "/no/such/mount", 1 << 20, true, 0, 0, 0, 0) == -EINVAL);
  CHECK(ior.iorh == NULL);
  hf3fs_iordestroy(&ior); /* harmless */

  CHECK(hf3fs_prep_io(&ior, &iov, true, memory, 0, 0, 1, NULL) == -EINVAL);
  CHECK(hf3fs_submit_ios(&ior) == -EINVAL);
  CHECK(hf3fs_wait_for_ios(&ior, &cqe, 1, 1, NULL) == -EINVAL);
  CHECK(hf3fs_submit_ios(NULL) == -EINVAL);
  CHECK(hf3fs_io_entries(&ior) == 0);

  CHECK(hf3fs_reg_fd(0, 0) == EBADF);
  CHECK(hf3fs_reg_fd(-1, 0) == EBADF);
  CHECK(hf3fs_reg_fd(1 << 30, 0) == EBADF);
  hf3fs_dereg_fd(0);
  hf3fs_dereg_fd(-1);
  hf3fs_dereg_fd(1 << 30);
  hf3fs_dereg_fd(-2147483647 - 1);

  CHECK(hf3fs_hardlink("/no/such/file", "/no/such/name") == ENOENT);
  CHECK(hf3fs_hardlink(NULL, "/tmp/x") == EINVAL);
  CHECK(hf3fs_punchhole(0, 0, NULL, NULL, 0) == EBADF);
  CHECK(hf3fs_punchhole(0, 1, NULL, NULL, 0) == EINVAL);
  CHECK(hf3fs_punchhole(0, -1, NULL, NULL, 0) == EINVAL);
  return 0;
}

int check_calls_without_a_gpu(void) {
  struct hf3fs_iov iov;
  uint8_t id[16] = {2};
  uint8_t memory[64] = {0};
  memset(&iov, 0x5a, sizeof(iov));
  CHECK(!hf3fs_gdr_available());
  CHECK(hf3fs_gdr_device_count() == 0);

  CHECK(hf3fs_iovcreate_device(&iov, "/no/such/mount", 4096, 0, 0) == -EOPNOTSUPP);
  CHECK(iov.iovh == NULL && iov.base == NULL);
  hf3fs_iovdestroy(&iov); /* harmless */
  CHECK(hf3fs_iovcreate_device(NULL, "/m", 4096, 0, 0) == -EINVAL);
  CHECK(hf3fs_iovcreate_device(&iov, NULL, 4096, 0, 0) == -EINVAL);
  CHECK(hf3fs_iovcreate_device(&iov, "", 4096, 0, 0) == -EINVAL);
  CHECK(hf3fs_iovcreate_device(&iov, "/m", 0, 0, 0) == -EINVAL);
  CHECK(hf3fs_iovcreate_device(&iov, "/m", 4096, 4096, 0) == -EINVAL);
  CHECK(hf3fs_iovopen_device(&iov, id, "/m", 4096, 0, 0) == -EOPNOTSUPP);
  CHECK(hf3fs_iovopen_device(&iov, NULL, "/m", 4096, 0, 0) == -EINVAL);
  CHECK(hf3fs_iovopen_device(NULL, id, "/m", 4096, 0, 0) == -EINVAL);
  CHECK(hf3fs_iovopen_device(&iov, id, "/m", 4096, 512, 0) == -EINVAL);
  CHECK(hf3fs_iovwrap_device(&iov, memory, id, "/m", sizeof(memory), 0, 0) == -EOPNOTSUPP);
  CHECK(hf3fs_iovwrap_device(&iov, NULL, id, "/m", sizeof(memory), 0, 0) == -EINVAL);
  CHECK(hf3fs_iovwrap_device(&iov, memory, NULL, "/m", sizeof(memory), 0, 0) == -EINVAL);
  CHECK(hf3fs_iovwrap_device(&iov, memory, id, "/m", 0, 0, 0) == -EINVAL);
  CHECK(hf3fs_iovwrap_device(NULL, memory, id, "/m", sizeof(memory), 0, 0) == -EINVAL);

  CHECK(hf3fs_iovsync(NULL, 0) == -EINVAL);
  CHECK(hf3fs_iovsync(&iov, 0) == -EINVAL);
  CHECK(hf3fs_iov_device_id(NULL) == -1 && hf3fs_iov_device_id(&iov) == -1);
  CHECK(hf3fs_iov_mem_type(NULL) == HF3FS_MEM_HOST);
  CHECK(hf3fs_iovwrap(&iov, memory, id, "/no/such/mount", sizeof(memory), 0, 3) == 0);
  CHECK(hf3fs_iov_mem_type(&iov) == HF3FS_MEM_HOST && hf3fs_iov_device_id(&iov) == -1);
  CHECK(hf3fs_iovsync(&iov, 0) == 0 && hf3fs_iovsync(&iov, 1) == 0);
  CHECK(hf3fs_iovsync(&iov, 2) == -EINVAL && hf3fs_iovsync(&iov, -1) == -EINVAL);
  hf3fs_iovdestroy(&iov);
  return 0;
}
