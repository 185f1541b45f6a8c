/* PEs of one unique id, which the first one leaves in a file: by_id RANK SIZE FILE. Each asks for
 * an id, as programs do, and uses that of the first. They do so twice, each time as another job. */
#include <nvshmem_host.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void leave(const char* path, const nvshmemx_uniqueid_t* id) {
  char other[4096];
  snprintf(other, sizeof other, "%s.part", path);
  FILE* const file = fopen(other, "wb");
  if (file == NULL || fwrite(id, sizeof *id, 1, file) != 1 || fclose(file) != 0 ||
      rename(other, path) != 0)
    exit(8);
}

static int round_of(int rank, int size, const char* path) {
  nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
  int wrong = nvshmemx_get_uniqueid(&id) != 0;
  if (rank == 0) leave(path, &id);
  FILE* file = NULL;
  while ((file = fopen(path, "rb")) == NULL) usleep(1000);
  wrong += fread(&id, sizeof id, 1, file) != 1;
  fclose(file);
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  wrong += nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes) == 0; /* has none */
  nvshmemx_set_attr_uniqueid_args(rank, size, &id, &attributes);
  wrong += nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes) != 0;
  wrong += nvshmem_my_pe() != rank || nvshmem_n_pes() != size;
  nvshmem_barrier_all();
  nvshmem_finalize();
  return wrong;
}

int main(int count, char** arguments) {
  if (count != 4) return 9;
  const int rank = atoi(arguments[1]), size = atoi(arguments[2]);
  int wrong = round_of(rank, size, arguments[3]);
  char next[4096];
  snprintf(next, sizeof next, "%s.next", arguments[3]);
  wrong += round_of(size - 1 - rank, size, next);
  printf("%d of %d: %d wrong\n", rank, size, wrong);
  return wrong;
}
