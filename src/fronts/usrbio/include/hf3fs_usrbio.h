/*
 * hf3fs_usrbio.h: the USRBIO interface, served by Penstock.
 *
 * Programs written for USRBIO run unchanged: names, values and the layout of every struct are those
 * of the x86-64 ABI. The words: an iov is a region of shared memory that I/O goes to and comes
 * from; an ior is a ring, either for reads or for writes; both name a mount.
 *
 * Unless stated, calls return 0 or a value >= 0, or a negative errno. No call exits the process.
 * The structs belong to the caller and may be copied; none may be used after its destroy call.
 *
 * Threads: one thread at a time prepares and submits on a ring; any number wait on it. All other
 * calls may be made from any thread. After fork() the child may use
 * the iovs (but for GPU memory) and registered descriptors it has inherited, and makes rings of its
 * own.
 */
#ifndef HF3FS_USRBIO_H
#define HF3FS_USRBIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

struct timespec; /* which <time.h> hides in strict C99 */

#define HF3FS_SUPER_MAGIC 0x8f3f5fff

typedef void* hf3fs_iov_handle;
typedef void* hf3fs_ior_handle;

struct hf3fs_iov {
  uint8_t* base;
  hf3fs_iov_handle iovh; /* the library's */

  char id[16];
  char mount_point[256];
  size_t size;
  size_t block_size; /* 0: the whole region is one block */
  int numa;
};

struct hf3fs_ior {
  struct hf3fs_iov iov;
  hf3fs_ior_handle iorh; /* the library's; NULL in a ring that could not be made */

  char mount_point[256];
  bool for_read;
  int io_depth;
  int priority;
  int timeout; /* ms */
  uint64_t flags;
};

struct hf3fs_cqe {
  int32_t index; /* what hf3fs_prep_io() returned */
  int32_t reserved;
  int64_t result; /* bytes, or a negative errno */
  const void* userdata;
};

/* ---- mounts -----------------------------------------------------------------------------------
 */

/* Whether the descriptor is of a file in such a mount. */
bool hf3fs_is_hf3fs(int fd);

/* The mount that `path` lies in; `path` may be relative and its last components need not exist.
   Returns the length of the mount point + 1 and copies it, with its terminating zero, when `size`
   is at least that; -1 when the path lies in no such mount. */
int hf3fs_extract_mount_point(char* hf3fs_mount_point, int size, const char* path);

/* ---- memory -----------------------------------------------------------------------------------
 */

/* Makes `size` bytes of zeroed shared memory, maps it and publishes it under a new id in the
   mount's 3fs-virt/iovs directory. An I/O must not cross a multiple of `block_size`. The memory is
   taken from `numa` first when that is >= 0 and there is such a node. */
int hf3fs_iovcreate(struct hf3fs_iov* iov, const char* hf3fs_mount_point, size_t size,
                    size_t block_size, int numa);

/* Maps memory that another process of the same user has published. -ENOENT: no such id with this
   `block_size`; -EINVAL: it is smaller than `size`, or no shared memory; -EACCES: somebody else's.
 */
int hf3fs_iovopen(struct hf3fs_iov* iov, const uint8_t id[16], const char* hf3fs_mount_point,
                  size_t size, size_t block_size, int numa);

/* Removes the memory's name: no process can open it any more, and it is gone when the last one that
   maps it ends. */
void hf3fs_iovunlink(struct hf3fs_iov* iov);

/* Waits for submitted I/O on the memory, unmaps it and, in the process that made it, removes what
   iovcreate published. For a wrapped iov it only ends the registration. */
void hf3fs_iovdestroy(struct hf3fs_iov* iov);

/* Describes memory that the caller has mapped from a file in /dev/shm and published itself, with a
   link 3fs-virt/iovs/<id> to that file. Only fills the struct in: whether there is such a link is
   found out by the first hf3fs_prep_io() at the latest. */
int hf3fs_iovwrap(struct hf3fs_iov* iov, void* base, const uint8_t id[16],
                  const char* hf3fs_mount_point, size_t size, size_t block_size, int numa);

/* ---- GPU memory -------------------------------------------------------------------------------
 *
 * An iov may be memory of a GPU: `base` is then a device address, which no processor may follow,
 * and `numa` the GPU, as CUDA's device ordinal in the calling process. Device and host iovs may be
 * mixed in one ring, and everything about rings is the same for both. It is published through the
 * node's agent, for processes of the same user, and has no link in 3fs-virt/iovs. It has no blocks:
 * `block_size` is 0. A child of fork() cannot use it, as CUDA does not survive a fork.
 *
 * Nothing ever goes to host memory instead. Of all three calls that fill an iov:
 *   -EOPNOTSUPP  a build without CUDA, or no driver, or one that is too old
 *   -ENODEV      this process sees no such GPU
 *   -EINVAL      a size of 0, a block size, a null pointer, an impossible mount
 *   -ENOENT      there is no such mount
 */

enum hf3fs_mem_type {
  HF3FS_MEM_HOST = 0,
  HF3FS_MEM_DEVICE = 1,
  HF3FS_MEM_MANAGED = 2 /* never told: managed memory cannot be registered */
};

/* Whether this process sees a GPU, and how many. */
bool hf3fs_gdr_available(void);
int hf3fs_gdr_device_count(void);

/* Allocates GPU memory and publishes it under a new id. -ENOMEM: the GPU has not so much left;
   -EAGAIN: too much is published (256 iovs of a process and mount). */
int hf3fs_iovcreate_device(struct hf3fs_iov* iov, const char* hf3fs_mount_point, size_t size,
                           size_t block_size, int device_id);

/* Maps GPU memory that another process of the same user has published. It stays, also when that
   process ends, until hf3fs_iovdestroy(). -ENOENT: no such id; -EACCES: somebody else's; -EINVAL:
   it is smaller than `size`, or of another GPU. */
int hf3fs_iovopen_device(struct hf3fs_iov* iov, const uint8_t id[16], const char* hf3fs_mount_point,
                         size_t size, size_t block_size, int device_id);

/* Registers GPU memory of the caller's, any part of an allocation of any allocator, and publishes
   it under the caller's id. Memory that cannot be shared (CUDA's stream-ordered pools) is usable
   here all the same, and nobody finds the id. -EINVAL: not memory of that GPU, managed memory, or
   not all of one allocation; -EEXIST: this user has published other memory under the id. */
int hf3fs_iovwrap_device(struct hf3fs_iov* iov, void* device_ptr, const uint8_t id[16],
                         const char* hf3fs_mount_point, size_t size, size_t block_size,
                         int device_id);

/* hf3fs_iovunlink() ends that others can open what was created or wrapped here. hf3fs_iovdestroy()
   does so too, waits for submitted I/O and frees what was created, unmaps what was opened, and
   leaves wrapped memory alone. */

/* Orders the GPU's work with I/O. Direction 0, before a write is submitted: returns when the
   default streams of the iov's GPU have done what they were given; work in other streams is the
   caller's to wait for. Direction 1, after a read has completed: its bytes are there already, for
   whatever is given to the GPU from then on. Nothing to do for host memory. -EINVAL: another
   direction, or no iov. */
int hf3fs_iovsync(const struct hf3fs_iov* iov, int direction);

enum hf3fs_mem_type hf3fs_iov_mem_type(const struct hf3fs_iov* iov);
/* -1: host memory. */
int hf3fs_iov_device_id(const struct hf3fs_iov* iov);

/* ---- rings ------------------------------------------------------------------------------------
 */

#define HF3FS_IOR_ALLOW_READ_UNCOMMITTED 1 /* accepted; reads are of committed data always */
#define HF3FS_IOR_FORBID_READ_HOLES 2      /* a read that meets a hole ends with -ENODATA */

/* The memory that hf3fs_iorwrap() wants for a ring of `entries`; 0 when there can be none. */
size_t hf3fs_ior_size(int entries);

/* Makes a ring for up to `entries` operations in flight.
     io_depth > 0: operations are passed on in batches of exactly that many (at most `entries`)
     io_depth = 0: what was submitted is passed on at once
     io_depth < 0: the same, in batches of at most -io_depth; with a timeout, batches may wait to
                   fill up
     timeout (ms): if not 0, what was submitted is passed on after that time even if the batch is
   not full `priority` is < 0, 0 or > 0 for high, normal and low; it is recorded and has no effect
   yet. -EINVAL: a negative timeout, an impossible number, an unknown flag. */
int hf3fs_iorcreate(struct hf3fs_ior* ior, const char* hf3fs_mount_point, int entries,
                    bool for_read, int io_depth, int numa);
int hf3fs_iorcreate2(struct hf3fs_ior* ior, const char* hf3fs_mount_point, int entries,
                     bool for_read, int io_depth, int priority, int numa);
int hf3fs_iorcreate3(struct hf3fs_ior* ior, const char* hf3fs_mount_point, int entries,
                     bool for_read, int io_depth, int priority, int timeout, int numa);
int hf3fs_iorcreate4(struct hf3fs_ior* ior, const char* hf3fs_mount_point, int entries,
                     bool for_read, int io_depth, int timeout, int numa, uint64_t flags);

/* Makes a ring in memory of the caller's, of hf3fs_ior_size() bytes. */
int hf3fs_iorwrap(struct hf3fs_ior* ior, void* buf, const char* hf3fs_mount_point, size_t size,
                  bool for_read, int io_depth, int priority, int timeout, uint64_t flags);

/* Drops what was not submitted, and waits for the end of what is in flight. */
void hf3fs_iordestroy(struct hf3fs_ior* ior);

/* The number of operations that fit. */
int hf3fs_io_entries(const struct hf3fs_ior* ior);

/* ---- files ------------------------------------------------------------------------------------
 */

/* Makes a descriptor of a file in a mount usable in hf3fs_prep_io(), with the access mode it was
   opened with. Returns a number <= 0, which hf3fs_prep_io() takes for the descriptor too. Failure
   is a POSITIVE errno: EBADF (no file of such a mount), EINVAL (this number is registered already:
   deregister before closing), or why the agent refused. `flags` is for the future: 0. */
int hf3fs_reg_fd(int fd, uint64_t flags);
/* Works for a closed descriptor too. */
void hf3fs_dereg_fd(int fd);

/* Another name for a file, as link(2). Failure is a positive errno. */
int hf3fs_hardlink(const char* target, const char* link_name);
/* Makes [start[i], end[i]) read as zeros and gives the space back; the length stays. Ranges are
   done in order. Failure is a positive errno. `flags` is for the future: 0. */
int hf3fs_punchhole(int fd, int n, const size_t* start, const size_t* end, size_t flags);

/* ---- I/O --------------------------------------------------------------------------------------
 */

/* Prepares one operation between [ptr, ptr + len) of the iov and the file at `off`. Returns its
   index, from 0 to hf3fs_io_entries() - 1, which is free again when its completion was taken.
     -EINVAL  the range is not inside the iov or crosses a block, len is 0, or the ring is for the
              other direction
     -EBADF   the descriptor is not registered, or of another mount than the ring
     -EACCES  it was not opened for that direction
     -EAGAIN  the ring is full
     -EOPNOTSUPP  GPU memory in a ring that forbids holes
     others   a wrapped iov that cannot be attached, or the agent is gone */
int hf3fs_prep_io(const struct hf3fs_ior* ior, const struct hf3fs_iov* iov, bool read, void* ptr,
                  int fd, size_t off, uint64_t len, const void* userdata);

/* Hands over what was prepared, in batches as the ring's io_depth says. */
int hf3fs_submit_ios(const struct hf3fs_ior* ior);

/* Takes up to `cqec` completions, waiting until there are `min_results` or the time, on
   CLOCK_REALTIME, has come; NULL waits for ever. Returns how many. A completed write is durable.
   When the agent dies, a successor is given some seconds to take over; if there is none, everything
   in flight completes with -ECONNRESET, and after that this returns -ECONNRESET until the
   agent is back. When several threads wait on one ring, each has its turn. */
int hf3fs_wait_for_ios(const struct hf3fs_ior* ior, struct hf3fs_cqe* cqes, int cqec,
                       int min_results, const struct timespec* abs_timeout);

#ifdef __cplusplus
}
#endif

/* The layout is what programs were compiled against. */
#if defined(__x86_64__) && !defined(__ILP32__)
#ifdef __cplusplus
#define HF3FS_PIN(condition) static_assert(condition, "USRBIO ABI")
#else
#define HF3FS_PIN(condition) _Static_assert(condition, "USRBIO ABI")
#endif
HF3FS_PIN(sizeof(struct hf3fs_iov) == 312);
HF3FS_PIN(offsetof(struct hf3fs_iov, base) == 0);
HF3FS_PIN(offsetof(struct hf3fs_iov, iovh) == 8);
HF3FS_PIN(offsetof(struct hf3fs_iov, id) == 16);
HF3FS_PIN(offsetof(struct hf3fs_iov, mount_point) == 32);
HF3FS_PIN(offsetof(struct hf3fs_iov, size) == 288);
HF3FS_PIN(offsetof(struct hf3fs_iov, block_size) == 296);
HF3FS_PIN(offsetof(struct hf3fs_iov, numa) == 304);
HF3FS_PIN(sizeof(struct hf3fs_ior) == 600);
HF3FS_PIN(offsetof(struct hf3fs_ior, iov) == 0);
HF3FS_PIN(offsetof(struct hf3fs_ior, iorh) == 312);
HF3FS_PIN(offsetof(struct hf3fs_ior, mount_point) == 320);
HF3FS_PIN(offsetof(struct hf3fs_ior, for_read) == 576);
HF3FS_PIN(offsetof(struct hf3fs_ior, io_depth) == 580);
HF3FS_PIN(offsetof(struct hf3fs_ior, priority) == 584);
HF3FS_PIN(offsetof(struct hf3fs_ior, timeout) == 588);
HF3FS_PIN(offsetof(struct hf3fs_ior, flags) == 592);
HF3FS_PIN(sizeof(struct hf3fs_cqe) == 24);
HF3FS_PIN(offsetof(struct hf3fs_cqe, index) == 0);
HF3FS_PIN(offsetof(struct hf3fs_cqe, reserved) == 4);
HF3FS_PIN(offsetof(struct hf3fs_cqe, result) == 8);
HF3FS_PIN(offsetof(struct hf3fs_cqe, userdata) == 16);
#undef HF3FS_PIN
#endif

#endif /* HF3FS_USRBIO_H */
