/*
 * penstock.h: the native C interface of Penstock.
 *
 * A session reaches a file system: through an agent's UNIX socket, or with a store opened in this
 * process. It owns regions (memory registered for direct I/O), files (open handles) and rings
 * (submission and completion queues in shared memory). Bytes go between the disk and a region with
 * nothing in between.
 *
 * Errors: control calls return 0 (or a value >= 0) or a negative errno; penstock_last_error() then
 * explains it in a sentence for people. Operations end with a completion whose result is the number
 * of bytes or a negative errno. Nothing here exits the process or raises signals.
 *
 * Threads: a session, its regions and its files may be used from any thread. A ring has lanes; each
 * thread that submits gets a lane of its own at its first call and waits for its own completions
 * there. A program that submits on one thread and waits on another claims its lanes itself and
 * names them in each call (penstock_lane_*). Everything a call takes by pointer is copied before it
 * returns unless stated.
 *
 * Times: deadlines are nanoseconds on CLOCK_MONOTONIC; 0 means do not wait, PENSTOCK_FOREVER means
 * no deadline of the caller's (the death of the agent still ends every wait).
 */
#ifndef PENSTOCK_H
#define PENSTOCK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PENSTOCK_API __attribute__((visibility("default")))
#define PENSTOCK_VERSION_MAJOR 0
#define PENSTOCK_VERSION_MINOR 1

#define PENSTOCK_FOREVER UINT64_MAX

typedef struct penstock_session penstock_session;
typedef struct penstock_region penstock_region;
typedef struct penstock_ring penstock_ring;
typedef struct penstock_lane penstock_lane;
/* An open file of one session; >= 0. */
typedef int32_t penstock_file;

/* "0.1.0"; lives for ever. */
PENSTOCK_API const char* penstock_version(void);
/* Why the calling thread's last failed call failed: what, on what, why, and what to do. */
PENSTOCK_API const char* penstock_last_error(void);
/* Now on the clock of deadlines, in nanoseconds. */
PENSTOCK_API uint64_t penstock_now(void);

/* ---- sessions ---------------------------------------------------------------------------------
 */

/* `where` is a store directory served by an agent, an agent's socket, or a path inside a mount. */
PENSTOCK_API int penstock_connect(const char* where, penstock_session** session);
/* Opens (or with `create` makes) the store in `directory` inside this process: no agent, no root,
   no mount. One process at a time. The session that opened it carries it; close ends both. */
PENSTOCK_API int penstock_open_store(const char* directory, int create, penstock_session** session);
/* Ends what is in flight, releases everything of the session. Its regions' memory that the library
   made is unmapped. NULL is allowed. */
PENSTOCK_API void penstock_close(penstock_session* session);

/* ---- regions ----------------------------------------------------------------------------------
 */

/* Makes `size` bytes of zeroed shared memory, mapped here and registered. `size` is rounded up to
   the page size. */
PENSTOCK_API int penstock_region_create(penstock_session* session, size_t size,
                                        penstock_region** region);
/* Registers memory that is mapped here from `fd` (a memfd or a file in /dev/shm) at `fd_offset`, a
   multiple of the page size. The caller keeps the mapping until penstock_region_release(). */
PENSTOCK_API int penstock_region_register(penstock_session* session, int fd, uint64_t fd_offset,
                                          void* base, size_t size, penstock_region** region);
/* The same for a file that has a name, from its beginning. No descriptor is kept: when the agent
   dies its successor is given what `path` names then, if that is still the same file. Call
   penstock_region_keep() before that name is removed. With a `link`, which may be null, a symbolic
   link of that name to `path` is made in the directory 3fs-virt/iovs of the agent's mounts: in one
   trip, where symlink(2) takes several. -EEXIST, and what else symlink(2) would say there. */
PENSTOCK_API int penstock_region_register_named(penstock_session* session, int fd, const char* path,
                                                const char* link, void* base, size_t size,
                                                penstock_region** region);
/* Opens the named file, for a successor, and keeps it so. -ENOENT: it has lost its name. */
PENSTOCK_API int penstock_region_keep(penstock_region* region);
PENSTOCK_API void* penstock_region_base(const penstock_region* region);
PENSTOCK_API size_t penstock_region_size(const penstock_region* region);
/* Waits until no operation uses the region any more, then gives it up. Operations that are only
   prepared end with -EINVAL when they are submitted. */
PENSTOCK_API int penstock_region_release(penstock_region* region);

/* ---- GPU memory -------------------------------------------------------------------------------
 *
 * A region of GPU memory is used in rings as any other. Bytes go to it, and come from it, by the
 * best way that there is; the completion says which. Reads are verified in GPU memory: a checksum
 * that does not match ends that operation with -EIO. Nothing is ordered with any stream: the bytes
 * are there when the operation has completed, and memory that is written from must be complete when
 * the operation is submitted.
 *
 * -ENOENT: no GPU, no driver, or one that is too old; -EOPNOTSUPP: a build without CUDA;
 * penstock_last_error() says what to do.
 */

/* Registers GPU memory of this process, of any allocator, from a device address on. -EINVAL: it is
   not GPU memory, or leaves its allocation. The caller keeps the memory until
   penstock_region_release(). When it is freed earlier, operations end with -EINVAL, or, where one
   was being given to the GPU at that moment, with -EIO and a broken CUDA context of this process,
   as with copies of CUDA's own. */
PENSTOCK_API int penstock_region_register_device(penstock_session* session, void* address,
                                                 size_t size, penstock_region** region);
/* Makes `size` bytes of memory on a GPU (CUDA's device ordinal) and registers them.
   penstock_region_base() is the device address. */
PENSTOCK_API int penstock_region_create_device(penstock_session* session, int gpu, size_t size,
                                               penstock_region** region);
/* The GPU whose memory it is, or -1 for host memory. */
PENSTOCK_API int penstock_region_gpu(const penstock_region* region);
/* How many GPUs this process sees. */
PENSTOCK_API int penstock_gpu_count(void);
/* Returns when the default streams of the region's GPU have done what they were given: then what
   they have written into the region may be written to a file. Work in other streams is the
   caller's to wait for. Waits as long as that work takes; 0 at once for host memory. */
PENSTOCK_API int penstock_region_settle(const penstock_region* region);

/* GPU memory on its way to another process of this node: `fd` travels by SCM_RIGHTS (-1: there is
   none, the bytes alone name it). */
typedef struct penstock_device_handle {
  int fd;
  uint32_t length; /* of what is used of `bytes` */
  unsigned char bytes[128];
} penstock_device_handle;

/* The caller closes `fd`. -EOPNOTSUPP: memory of CUDA's stream-ordered pools cannot be shared. */
PENSTOCK_API int penstock_region_export(const penstock_region* region,
                                        penstock_device_handle* handle);
/* Maps the memory here and registers it. The caller keeps `fd`. */
PENSTOCK_API int penstock_region_import(penstock_session* session,
                                        const penstock_device_handle* handle,
                                        penstock_region** region);

/* The same by way of the agent, without a socket between the two: shows GPU memory to all processes
   of this user on the node, under an id of the caller's choice (a random one never meets another).
   It is shown until penstock_region_unpublish(), the region's release or the session's end; a
   successor of the agent is told again. -EEXIST: this user has published something under this id,
   or the region is published; -EAGAIN: too much is published; -EOPNOTSUPP: as for export. */
PENSTOCK_API int penstock_region_publish(penstock_region* region, const unsigned char id[16]);
/* From now on no process finds it; those that have opened it keep it. -ENOENT: not published. */
PENSTOCK_API int penstock_region_unpublish(penstock_region* region);
/* Maps what was published under this id and registers it. The memory stays, also when its publisher
   ends, until all have released it. -ENOENT: nobody has published this id, -EACCES: another user
   has, -ENODEV: it is memory of a GPU that this process does not see. */
PENSTOCK_API int penstock_region_open(penstock_session* session, const unsigned char id[16],
                                      penstock_region** region);

/* ---- files ------------------------------------------------------------------------------------
 */

/* Paths are absolute inside the file system. `flags` as for open(2): O_RDONLY, O_WRONLY, O_RDWR,
   O_CREAT, O_EXCL, O_TRUNC. */
PENSTOCK_API penstock_file penstock_open(penstock_session* session, const char* path, int flags,
                                         mode_t mode);
/* The same for a file descriptor of a mount of this file system: the descriptor is the proof of
   what the caller may do. The descriptor may be closed afterwards. */
PENSTOCK_API penstock_file penstock_open_fd(penstock_session* session, int fd);
/* Settles the file's length; errors of writes that were not waited for are reported here. */
PENSTOCK_API int penstock_file_close(penstock_session* session, penstock_file file);
/* The same without waiting for the agent, which closes it a moment later: for files that no one
   writes, or whose writes were synced. What goes wrong is logged. */
PENSTOCK_API int penstock_file_close_later(penstock_session* session, penstock_file file);
PENSTOCK_API int penstock_fstat(penstock_session* session, penstock_file file, struct stat* st);
PENSTOCK_API int penstock_ftruncate(penstock_session* session, penstock_file file, uint64_t length);
/* Everything completed on the file before is on stable storage when this returns 0. */
PENSTOCK_API int penstock_fsync(penstock_session* session, penstock_file file);

/* Many files at once: each is opened, read from its beginning and closed, as if by the calls above,
   and has a result of its own. One trip to the agent serves hundreds of small files; what the node
   cache has is taken from there. */
typedef struct penstock_file_read {
  const char* path;
  /* Where its bytes go: into a region, of host or GPU memory, or with NULL to any memory. */
  penstock_region* region;
  uint64_t region_offset; /* bytes */
  void* buffer;
  uint64_t length; /* the room there; 0: the file is only looked at */
  uint64_t size;   /* out: of the file; the rest of one that is larger than its room is not read */
  int64_t result;  /* out: bytes, or a negative errno: as of open and read, -EISDIR for a
                      directory, -EINVAL for a range that leaves its region */
} penstock_file_read;

/* Returns how many were read; -ECONNRESET when the agent is gone for good: files without a result
   by then have that one, too. Regions must not be released meanwhile. Any number of files, also
   with the same path; two that go to the same memory leave it undefined. */
PENSTOCK_API ssize_t penstock_read_files(penstock_session* session, penstock_file_read* files,
                                         size_t count);
/* The same into one range, [region_offset, region_offset + length) of a region: file by file, each
   at the next multiple of `alignment` (0: any). `region`, `region_offset` and `length` of each are
   out: where it begins, and its size. -ENOSPC for those that do not fit any more. */
PENSTOCK_API ssize_t penstock_read_files_packed(penstock_session* session,
                                                penstock_file_read* files, size_t count,
                                                penstock_region* region, uint64_t region_offset,
                                                uint64_t length, uint64_t alignment);

/* Flags of a new file. */
enum {
  /* Takes the place of what has its name, in one step, as rename(2) does: what there was is gone
     when the file is there, other names of it and those who have it open keep it. Symbolic links
     are not followed. -EISDIR: there is a directory; -EPERM, -EACCES: the caller may not take away
     what is there. Whatever happens, the node's death and a power cut included, the name leads to
     the one or to the other, whole. */
  PENSTOCK_REPLACE = 1,
};

/* A new regular file, with its content and what else is known of it. */
typedef struct penstock_new_file {
  const char* path;
  /* Where its content is: in a region of host memory. Not used where length is 0. */
  penstock_region* region;
  uint64_t region_offset;   /* bytes */
  uint64_t length;          /* bytes, up to 64 MiB */
  mode_t mode;              /* the umask is applied */
  uid_t uid;                /* (uid_t)-1: the caller's; as chown(2) otherwise */
  gid_t gid;                /* (gid_t)-1: as for any file that is made there */
  uint32_t flags;           /* PENSTOCK_REPLACE, or 0 */
  struct timespec times[2]; /* access, modification; as utimensat(2): UTIME_NOW, UTIME_OMIT */
  int result; /* out: 0 or a negative errno; -EEXIST: there is something of that name */
} penstock_new_file;

/* Makes them, hundreds with one trip and one transaction. A file has its name when it is whole, or
   never. Returns how many were made; -ECONNRESET when the agent is gone: files without a result by
   then have that one, too, and may have been made. */
PENSTOCK_API ssize_t penstock_create_files(penstock_session* session, penstock_new_file* files,
                                           size_t count);

PENSTOCK_API int penstock_stat(penstock_session* session, const char* path, struct stat* st);
PENSTOCK_API int penstock_lstat(penstock_session* session, const char* path, struct stat* st);
/* The same for many paths, hundreds in one trip, each with a result of its own. */
typedef struct penstock_file_stat {
  const char* path;
  struct stat st; /* out, where the result is 0 */
  int result;     /* out: 0 or a negative errno, as of penstock_lstat() */
} penstock_file_stat;

/* Returns how many have the result 0; -ECONNRESET when the agent is gone for good: files without a
   result by then have that one, too. Any number of paths, also the same one again. The list stays
   the caller's. Any thread. */
PENSTOCK_API ssize_t penstock_lstat_files(penstock_session* session, penstock_file_stat* files,
                                          size_t count);
/* When the file was made, which struct stat cannot tell; as lstat(2) it follows no last link. */
PENSTOCK_API int penstock_birth_time(penstock_session* session, const char* path,
                                     struct timespec* time);
PENSTOCK_API int penstock_chmod(penstock_session* session, const char* path, mode_t mode);
PENSTOCK_API int penstock_lchown(penstock_session* session, const char* path, uid_t uid, gid_t gid);
/* times[0] access, times[1] modification, 1901-12-13 to 2446-05-10 (others become the nearest); as
 * utimensat(2) with AT_SYMLINK_NOFOLLOW. */
PENSTOCK_API int penstock_utimens(penstock_session* session, const char* path,
                                  const struct timespec times[2]);
PENSTOCK_API int penstock_mkdir(penstock_session* session, const char* path, mode_t mode);
PENSTOCK_API int penstock_rmdir(penstock_session* session, const char* path);
PENSTOCK_API int penstock_unlink(penstock_session* session, const char* path);
PENSTOCK_API int penstock_rename(penstock_session* session, const char* from, const char* to);
PENSTOCK_API int penstock_link(penstock_session* session, const char* from, const char* to);
PENSTOCK_API int penstock_symlink(penstock_session* session, const char* target, const char* path);
/* Bytes of the target, without a terminating zero, truncated to `size`. */
PENSTOCK_API ssize_t penstock_readlink(penstock_session* session, const char* path, char* buffer,
                                       size_t size);
/* Calls `visit` for every entry but "." and "..", until it returns non-zero. `type` as d_type. */
PENSTOCK_API int penstock_list(penstock_session* session, const char* path,
                               int (*visit)(void* context, const char* name, uint64_t inode,
                                            unsigned char type),
                               void* context);
/* Everything that was written, by all users, is on stable storage when this returns 0. */
PENSTOCK_API int penstock_sync(penstock_session* session);

/* ---- rings ------------------------------------------------------------------------------------
 */

/* What an operation does. */
enum {
  PENSTOCK_READ = 1,
  PENSTOCK_WRITE = 2,
  PENSTOCK_SYNC = 3,
  PENSTOCK_NOP = 4,
  /* Brings the range of the file into the node cache, for this user; no region. The result is how
     many bytes of it are there then: fewer where the file ends or there is no room. -EOPNOTSUPP:
     the node has no cache. */
  PENSTOCK_WARM = 5,
};

/* Flags of an operation. */
enum {
  /* Writes: complete only when the bytes and the length are on stable storage. */
  PENSTOCK_DURABLE = 1,
  /* Reads: a hole ends the operation with -ENODATA instead of reading as zeros. */
  PENSTOCK_REFUSE_HOLES = 2,
  /* PENSTOCK_WARM: brings nothing in, only says how much is there. */
  PENSTOCK_LOOK = 4,
  /* Reads into host memory that are verified later, by the caller: blocks that are read in full are
     not verified, and behind the `length` bytes in the region stands the CRC-32C of each, 4 bytes a
     block (blocks that the file ends in are verified; theirs mean nothing). Offset, length and
     region_offset are multiples of 4096. */
  PENSTOCK_CHECKSUMS = 8,
};

/* The way the bytes took; see penstock_route_name(). */
typedef uint8_t penstock_route;
enum {
  PENSTOCK_ROUTE_ANY = 0,
  PENSTOCK_ROUTE_DEVICE_PEER = 7,     /* another GPU holds the bytes */
  PENSTOCK_ROUTE_DEVICE_CACHE = 8,    /* the node cache, by a copy engine */
  PENSTOCK_ROUTE_DEVICE_GATHER = 9,   /* the node cache, by the gather kernel */
  PENSTOCK_ROUTE_DEVICE_SLOTS = 11,   /* the disk, through pinned slots of host memory */
  PENSTOCK_ROUTE_DEVICE_NETWORK = 12, /* another node, by a network card that reaches the GPU */
};
PENSTOCK_API const char* penstock_route_name(penstock_route route);

typedef struct penstock_io {
  uint8_t operation;    /* PENSTOCK_READ, ... */
  uint8_t flags;        /* PENSTOCK_DURABLE, ... */
  penstock_route route; /* GPU memory: this route or -EOPNOTSUPP; PENSTOCK_ROUTE_ANY: the best */
  uint8_t reserved0;    /* 0 */
  penstock_file file;
  uint64_t offset; /* in the file, bytes */
  uint64_t length; /* bytes, 1 to 64 MiB */
  penstock_region* region;
  uint64_t region_offset; /* bytes */
  uint64_t deadline;      /* of this operation, or 0 for none: it then ends with -ETIMEDOUT */
  uint64_t user_data;     /* returned with the completion; also names the operation for cancel */
} penstock_io;

typedef struct penstock_completion {
  uint64_t user_data;
  int64_t result; /* bytes, or a negative errno */
  penstock_route route;
  uint8_t reserved[7];
} penstock_completion;

/* `entries` (1 to 262144, rounded up to a power of two) are the operations in flight per lane,
   `lanes` (1 to 64) the threads that may use the ring. */
PENSTOCK_API int penstock_ring_create(penstock_session* session, uint32_t entries, uint32_t lanes,
                                      penstock_ring** ring);
/* Cancels what is in flight and waits for its end; regions may be reused afterwards. */
PENSTOCK_API int penstock_ring_destroy(penstock_ring* ring);
/* Puts one operation into the calling thread's lane, not yet visible to the agent. -EAGAIN: the
   lane is full, wait for completions first. -EINVAL, -EBADF: it could not possibly succeed.
   -EUSERS: all lanes belong to other threads. */
PENSTOCK_API int penstock_prepare(penstock_ring* ring, const penstock_io* io);
/* One operation that reads many pieces of a file, for GPU memory; `count` is 1 to 65536. Its result
   is the sum of the bytes, and each piece says in `done` how many are its own. After an error the
   pieces with `done` equal to their length are good. `pieces` stay the caller's, and as they are,
   until the completion. -EOPNOTSUPP: the region is host memory. */
typedef struct penstock_piece {
  uint64_t offset;        /* in the file, bytes */
  uint64_t region_offset; /* bytes */
  uint32_t length;        /* bytes, 1 to 1 MiB */
  uint32_t done;          /* out */
} penstock_piece;

typedef struct penstock_gather {
  penstock_file file;
  uint32_t count;
  penstock_piece* pieces;
  penstock_region* region;
  uint64_t deadline; /* as in penstock_io */
  uint64_t user_data;
} penstock_gather;

PENSTOCK_API int penstock_prepare_gather(penstock_ring* ring, const penstock_gather* gather);
/* Makes what the calling thread prepared visible; returns how many. Wakes the agent if it sleeps.
 */
PENSTOCK_API int penstock_submit(penstock_ring* ring);
/* Takes up to `max` completions of the calling thread's lane, waiting until there are at least
   `min`, nothing more is in flight, or the deadline passes. Returns how many. -ECONNRESET:
   the agent is gone and could not be reached again; everything in flight has a completion with that
   result, returned first. */
PENSTOCK_API int penstock_wait(penstock_ring* ring, penstock_completion* completions, uint32_t max,
                               uint32_t min, uint64_t deadline);
/* Asks for an early end of the calling thread's operations in flight with this user_data; they
   complete with -ECANCELED or as they would have. Returns how many were asked. */
PENSTOCK_API int penstock_cancel(penstock_ring* ring, uint64_t user_data);
/* The calling thread gives its lane back (nothing may be in flight on it). */
PENSTOCK_API int penstock_ring_leave(penstock_ring* ring);

/* For event loops: a descriptor of the calling thread's lane, for poll(2), select(2) or epoll(7),
   which must not be read, written or closed. It is readable (POLLIN) from the moment when there is
   a completion to be taken until a penstock_wait() of the lane returns and leaves none: it stands
   for a level, and nothing has to be armed again. With edge-triggered epoll, take completions until
   penstock_wait() returns fewer than `max`. A loop calls penstock_wait() with the deadline 0 when
   it is readable, which may now and then find nothing.

   All completions make it readable: those of reads that the node cache answered at once, of GPU
   memory, and, when the agent has died and could not be reached again, those with -ECONNRESET. An
   agent's successor gets what is in flight without any call. Where nothing is in flight, the death
   of the agent does not make it readable.

   The first call makes it, and a thread of the library that watches the lane while the program
   does not; rings without a descriptor pay nothing. Later calls return the same one. It is closed
   when the lane is given back, its thread ends, or the ring is destroyed, and in a child after
   fork(). While there is one, a blocking penstock_wait() works as before, but is woken by each
   completion. -EMFILE, -EAGAIN: no descriptor or thread is to be had; else as penstock_wait(). */
PENSTOCK_API int penstock_ring_descriptor(penstock_ring* ring);

/* ---- lanes by name ----------------------------------------------------------------------------
 *
 * The calls above with the lane named instead of the calling thread's. A lane has two sides, and at
 * any time at most one thread is inside each: the submitting side (prepare, submit, cancel) and the
 * waiting side (wait). The threads may differ and may change; the caller orders those of one side.
 * A thread blocked in penstock_lane_wait() sees the completions of whatever is submitted meanwhile.
 */

/* Takes a free lane out of the ring for the caller; it counts among the ring's `lanes`. -EUSERS:
   none is free. */
PENSTOCK_API int penstock_lane_claim(penstock_ring* ring, penstock_lane** lane);
/* Gives the lane back. Nothing may be in flight on it; what was prepared and not submitted is
   dropped. penstock_ring_destroy() ends lanes that were not given back. */
PENSTOCK_API int penstock_lane_release(penstock_lane* lane);
/* -ECONNRESET: the agent is gone for good and the operation was not taken. */
PENSTOCK_API int penstock_lane_prepare(penstock_lane* lane, const penstock_io* io);
PENSTOCK_API int penstock_lane_prepare_gather(penstock_lane* lane, const penstock_gather* gather);
/* Makes the oldest `count` of what was prepared visible, or all if there are fewer; returns how
   many. When the agent is gone for good they complete with -ECONNRESET. */
PENSTOCK_API int penstock_lane_submit(penstock_lane* lane, uint32_t count);
/* As penstock_wait(). Nothing in flight is no reason to return early: another thread may submit. */
PENSTOCK_API int penstock_lane_wait(penstock_lane* lane, penstock_completion* completions,
                                    uint32_t max, uint32_t min, uint64_t deadline);
PENSTOCK_API int penstock_lane_cancel(penstock_lane* lane, uint64_t user_data);
/* As penstock_ring_descriptor(), for the waiting side: the same thread that is in
   penstock_lane_wait(), or ordered with it. */
PENSTOCK_API int penstock_lane_descriptor(penstock_lane* lane);

#ifdef __cplusplus
}
#endif

#endif /* PENSTOCK_H */
