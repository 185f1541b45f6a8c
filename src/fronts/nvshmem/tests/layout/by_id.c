/* PEs of one unique id, which the first one leaves in a file: by_id RANK SIZE FILE. Each asks for
 * an id, as programs do, and uses that of the first. */
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

int main(int count, char** arguments) {
  if (count != 4) return 9;
  const int rank = atoi(arguments[1]), size = atoi(arguments[2]);
  nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
  int wrong = nvshmemx_get_uniqueid(&id) != 0;
  if (rank == 0) leave(arguments[3], &id);
  FILE* file = NULL;
  while ((file = fopen(arguments[3], "rb")) == NULL) usleep(1000);
  wrong += fread(&id, sizeof id, 1, file) != 1;
  fclose(file);
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  wrong += nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes) == 0; /* has none */
  nvshmemx_set_attr_uniqueid_args(rank, size, &id, &attributes);
  wrong += nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes) != 0;
  wrong += nvshmem_my_pe() != rank || nvshmem_n_pes() != size;
  nvshmem_barrier_all();
  nvshmem_finalize();
  printf("%d of %d: %d wrong\n", rank, size, wrong);
  return wrong;
}
