/*
 * penstock_model.h: models between files and GPU memory.
 *
 * Loading brings the tensors of safetensors files into the memory of one or several GPUs. Each byte
 * is read once from where it is stored, however many GPUs want it; the pieces come over the PCIe
 * links of all of them, and of neighbours that lend theirs, and go on from GPU to GPU over NVLink.
 * Saving writes tensors of GPU or host memory as a safetensors file, durable when it returns.
 *
 * Errors, times and threads are as in penstock.h: calls return 0 or a negative errno, and
 * penstock_last_error() explains it. A model may be used from any thread; one is freed when no
 * other call of it is under way. With `session` NULL, paths are those of the operating system, on
 * any file system; else they are absolute paths inside the session's.
 */
#ifndef PENSTOCK_MODEL_H
#define PENSTOCK_MODEL_H

#include "penstock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- loading ----------------------------------------------------------------------------------
 */

typedef struct penstock_model penstock_model;

typedef struct penstock_load_options {
  size_t size;         /* sizeof(penstock_load_options), of the program's own header */
  const int32_t* gpus; /* CUDA's device ordinals, each once; NULL: GPU 0 alone */
  uint32_t gpu_count;
  /* GPUs that want nothing but lend their links, and 64 MiB of memory each while it lasts. CUDA
     needs memory of each as well, some hundreds of MiB for its context, and keeps that until this
     process ends. Each must reach the memory of GPUs in `gpus` that reach one another, all of
     them, and they its own. */
  uint32_t lender_count;
  const int32_t* lenders;
  uint32_t lend_all; /* 1: all others that can; `lenders` is empty then */
  /* Files of other file systems (`session` NULL): threads that read for each link; 0: half of the
     processors, 8 to 16. */
  uint32_t threads;
  uint64_t alignment; /* of each tensor's address: a power of two up to 4096; 0: 256 */
  /* As in penstock.h, but 0 for none. It bounds everything: opening, reading, and, beside some
     seconds more to end in order, closing. Only transfers that an agent has begun are waited for
     until they end, as they write to memory of this process: an agent that was stopped, and not
     killed, holds the call until it goes on or dies. */
  uint64_t deadline;
  /* Told in the calling thread how many bytes of the files have arrived wherever they are wanted,
     some twenty times a second and at the end. Not 0: the load ends with -ECANCELED. */
  int (*progress)(void* context, uint64_t bytes_done, uint64_t bytes_total);
  void* context;
} penstock_load_options;

/* Loads all tensors of all files, or nothing. `options` may be NULL.
   -EIO: a file is not a safetensors file in every detail, or bytes did not verify in GPU memory; or
   a file was changed while it was read, as far as its length and modification time tell: what was
   loaded would be neither the old model nor the new one. Replacing a file by a rename, as
   penstock_save() does, disturbs no load of the old one. -EEXIST: two files have a tensor of the
   same name. -ENOMEM: a GPU is full. -EINVAL: no such GPU, or an option that makes no sense.
   -ENOENT, -EOPNOTSUPP: as for penstock_region_create_device(). -ECANCELED, -ETIMEDOUT. After any
   of them nobody writes to GPU memory any more, and nothing is left of it. */
PENSTOCK_API int penstock_load(penstock_session* session, const char* const* paths, uint32_t count,
                               const penstock_load_options* options, penstock_model** model);
/* Gives the GPU memory back: nothing on a GPU may use it any more. NULL is allowed. Models may
   outlive the session that they were loaded through. */
PENSTOCK_API void penstock_model_free(penstock_model* model);

/* Pointers in what follows live as long as the model. */
typedef struct penstock_tensor {
  const char* name;
  const char* dtype; /* "BF16", as the format has it */
  const uint64_t* shape;
  uint32_t rank;
  uint32_t file;   /* an index of the paths */
  uint64_t bytes;  /* of its elements, in row-major order */
  uint64_t offset; /* of its first byte in each GPU's memory, see penstock_model_base() */
} penstock_tensor;

PENSTOCK_API uint64_t penstock_model_tensors(const penstock_model* model);
/* The tensor number `index`: file by file, in the order of their bytes. -EINVAL: there are fewer.
 */
PENSTOCK_API int penstock_model_tensor(const penstock_model* model, uint64_t index,
                                       penstock_tensor* tensor);
/* -ENOENT: the model has no tensor of that name. */
PENSTOCK_API int penstock_model_find(const penstock_model* model, const char* name,
                                     penstock_tensor* tensor);
/* The device address of the memory on the options' GPU number `which`, and its size: one allocation
   that holds all tensors. NULL: there are fewer GPUs. A tensor's address there is the base plus its
   offset. The memory can be registered as a region (penstock_region_register_device()). */
PENSTOCK_API void* penstock_model_base(const penstock_model* model, uint32_t which, uint64_t* size);
/* The same for another process of this node, which maps it with penstock_region_import(). The
   caller closes handle->fd. */
PENSTOCK_API int penstock_model_export(const penstock_model* model, uint32_t which,
                                       penstock_device_handle* handle);
/* The value that a file's metadata have for `key`; NULL: none. */
PENSTOCK_API const char* penstock_model_metadata(const penstock_model* model, uint32_t file,
                                                 const char* key);
/* Calls `visit` for every pair of every file's metadata, until it returns non-zero. */
PENSTOCK_API int penstock_model_each_metadata(const penstock_model* model,
                                              int (*visit)(void* context, uint32_t file,
                                                           const char* key, const char* value),
                                              void* context);

/* What went over the link from host memory to one GPU. */
typedef struct penstock_model_link {
  int32_t gpu;
  uint32_t lends;     /* 1: a lender's */
  uint64_t bytes;     /* from host memory */
  uint64_t forwarded; /* from this GPU to others, each copy counted */
} penstock_model_link;

#define PENSTOCK_ROUTES 32 /* routes are numbers below this */

typedef struct penstock_model_traffic {
  uint64_t bytes;       /* of all tensors, once */
  uint64_t nanoseconds; /* from the first byte's departure to the last one's arrival */
  uint32_t links;       /* how many there are to ask for */
  uint32_t reserved;    /* 0 */
  /* Bytes by penstock_route, over all GPUs; PENSTOCK_ROUTE_DEVICE_PEER: copied from another GPU. */
  uint64_t by_route[PENSTOCK_ROUTES];
} penstock_model_traffic;

PENSTOCK_API int penstock_model_get_traffic(const penstock_model* model,
                                            penstock_model_traffic* traffic);
/* -EINVAL: there are fewer links. */
PENSTOCK_API int penstock_model_get_link(const penstock_model* model, uint32_t index,
                                         penstock_model_link* link);

/* ---- saving -----------------------------------------------------------------------------------
 */

typedef struct penstock_save_tensor {
  const char* name; /* UTF-8, each once; not "__metadata__" */
  const char* dtype;
  const uint64_t* shape;
  uint32_t rank;
  uint32_t reserved; /* 0 */
  /* GPU memory of this process, or host memory, complete when the call is made; as many bytes as
     dtype and shape say. */
  const void* data;
} penstock_save_tensor;

typedef struct penstock_save_options {
  size_t size; /* sizeof(penstock_save_options) */
  /* Pairs of strings for the file's metadata: key, value, key, ... */
  const char* const* metadata;
  uint32_t metadata_pairs;
  uint32_t mode; /* of a new file, less the umask; 0: 0666 */
  /* As in penstock_load_options. The sync at the end of a save to another file system is not
     interrupted. */
  uint64_t deadline;
  int (*progress)(void* context, uint64_t bytes_done, uint64_t bytes_total);
  void* context;
} penstock_save_options;

/* Writes the tensors as the file `path`. When it returns 0 the file is on stable storage under its
   name. Without a session a symbolic link is followed; what is no regular file is refused. It is
   written under another name in the same directory (".penstock-save-" and a number) and
   takes the place of a file that was there only when it is complete: after a failure that one is
   untouched and the other removed, unless the message says that the file has its new content, or
   may have it (-EIO): only a power cut may undo that, or the agent has not said whether it did it.
   A process that is killed leaves the old file or the new one, and perhaps the other name. The
   tensors lie in the file by the size of their elements, largest first. `options` may be NULL;
   `tensors` too when `count` is 0. -EINVAL: a tensor that no such file could hold, or memory that
   is not there. */
PENSTOCK_API int penstock_save(penstock_session* session, const char* path,
                               const penstock_save_tensor* tensors, uint64_t count,
                               const penstock_save_options* options);

#ifdef __cplusplus
}
#endif

#endif /* PENSTOCK_MODEL_H */
