/* libnvshmem.a: a program that is linked with it loads libnvshmem_host.so with its first call, from
 * the directory in which this archive was, so that it starts without a library path. C, and nothing
 * but the C library: any linker line will do.
 *
 * Threads: any. Ownership: the library stays loaded. */
#define _GNU_SOURCE
#include "loading.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libnvshmem_host.so"

/* Where the archive is; install_trampoline.py writes another path behind the mark. */
PENSTOCK_HIDDEN extern const char penstock_forward_beside[PATH_MAX];
#define MARK "penstock beside:"
const char penstock_forward_beside[PATH_MAX] = MARK PENSTOCK_BESIDE;

/* As the loader ends a program whose library is missing. */
enum { kExitCode = 127 };

struct penstock_symm_unit;
typedef void AddUnit(struct penstock_symm_unit* unit);

/* As nvshmem.h has it. */
struct penstock_symm_unit {
  unsigned version;
  unsigned bytes;
  void* (*address)(void);
  struct penstock_symm_unit* next;
};
__attribute__((visibility("default"))) void penstock_symm_add_unit(struct penstock_symm_unit* unit);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static void* library;
static AddUnit* add_unit;
static struct penstock_symm_unit* pending; /* units that the library does not know yet */

/* What was looked for, for a message; cut where it is full. */
struct Report {
  char text[4096];
  size_t length;
};

static void note(struct Report* report, const char* what, const char* why) {
  const size_t room = sizeof report->text - report->length;
  const int wrote =
      snprintf(report->text + report->length, room, "  %s%s%s\n", what, *why != 0 ? ": " : "", why);
  if (wrote > 0) report->length += (size_t)wrote < room ? (size_t)wrote : room - 1;
}

static void* try_to_load(struct Report* report, const char* path) {
  void* const found = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (found == NULL) {
    note(report, dlerror(), "");
    return NULL;
  }
  if (dlsym(found, "penstock_symm_add_unit") != NULL) return found;
  note(report, path, "is not Penstock's");
  dlclose(found);
  return NULL;
}

static void* try_in(struct Report* report, const char* directory, const char* below) {
  char path[PATH_MAX];
  const int wrote = snprintf(path, sizeof path, "%s/%s" LIBRARY, directory, below);
  if (wrote < 0 || (size_t)wrote >= sizeof path) return NULL;
  return try_to_load(report, path);
}

static void* try_below(struct Report* report, const char* variable) {
  const char* const home = secure_getenv(variable);
  if (home == NULL || *home == 0) {
    note(report, variable, "is not set");
    return NULL;
  }
  return try_in(report, home, "lib/");
}

static void* try_beside_program(struct Report* report) {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return NULL;
  path[length] = 0;
  *strrchr(path, '/') = 0;
  void* const found = try_in(report, path, "");
  return found != NULL ? found : try_in(report, path, "../lib/");
}

/* What the user says; what nvshmrun says (its own directory); where the archive was; where the
 * program is; where the loader looks. */
static void* find_library(struct Report* report) {
  void* found = try_below(report, "NVSHMEM_HOME");
  if (found == NULL) found = try_below(report, "PENSTOCK_HOME");
  if (found == NULL) found = try_in(report, penstock_forward_beside + sizeof MARK - 1, "");
  if (found == NULL) found = try_beside_program(report);
  if (found == NULL) found = try_to_load(report, LIBRARY);
  return found;
}

/* With the mutex. */
static int is_loaded(struct Report* report) {
  if (library != NULL) return 1;
  library = find_library(report);
  if (library == NULL) return 0;
  void* const symbol = dlsym(library, "penstock_symm_add_unit");
  memcpy(&add_unit, &symbol, sizeof add_unit);
  return 1;
}

/* Not under the mutex: the library may call the program, whose modules have units, too. */
static void hand_over(struct penstock_symm_unit* units) {
  while (units != NULL) {
    struct penstock_symm_unit* const next = units->next;
    add_unit(units);
    units = next;
  }
}

static struct penstock_symm_unit* take_pending(void) {
  struct penstock_symm_unit* const taken = pending;
  pending = NULL;
  return taken;
}

static void end(const char* text, const char* name, const char* more) {
  fprintf(stderr, text, name, more);
  fflush(stderr);
  _exit(kExitCode);
}

void* penstock_forward_address(unsigned long index) {
  const char* const name = penstock_forward_names[index];
  struct Report report = {.length = 0};
  pthread_mutex_lock(&mutex);
  const int is_there = is_loaded(&report);
  struct penstock_symm_unit* const units = is_there ? take_pending() : NULL;
  pthread_mutex_unlock(&mutex);
  if (!is_there) {
    end("penstock: %s: " LIBRARY
        ", which this program needs, is not there. Looked for:\n%s"
        "Set NVSHMEM_HOME to the directory that has it as lib/" LIBRARY
        " (of a build of Penstock: build/release).\n",
        name, report.text);
  }
  hand_over(units);
  void* const address = dlsym(library, name);
  if (address == NULL) {
    end("penstock: %s: %s (the program was built against another version of Penstock's NVSHMEM; "
        "build it again, or "
        "set NVSHMEM_HOME to that version)\n",
        name, dlerror());
  }
  __atomic_store_n(&penstock_forward_slots[index], address, __ATOMIC_RELEASE);
  return address;
}

/* By static constructors, also of programs that never call: when the library is not there, the
 * first call says so. */
void penstock_symm_add_unit(struct penstock_symm_unit* unit) {
  struct Report report = {.length = 0};
  pthread_mutex_lock(&mutex);
  unit->next = pending;
  pending = unit;
  struct penstock_symm_unit* const units = is_loaded(&report) ? take_pending() : NULL;
  pthread_mutex_unlock(&mutex);
  hand_over(units);
}
