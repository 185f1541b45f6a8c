/* PEs of a part of an MPI job: its odd and its even ranks, each in the reverse order. */
#include <mpi.h>
#include <nvshmem_host.h>
#include <stdio.h>
#include <string.h>

int main(int count, char** arguments) {
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  MPI_Comm part = MPI_COMM_NULL;
  nvshmemx_set_attr_mpi_comm_args(&part, &attributes);
  if (count > 1 && strcmp(arguments[1], "early") == 0)
    return nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attributes) == 0 ? 9 : 0;
  MPI_Init(NULL, NULL);
  int rank = -1, size = 0, wrong = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part);
  wrong += nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, NULL) == 0;
  wrong += nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attributes) != 0;
  MPI_Comm_rank(part, &rank);
  MPI_Comm_size(part, &size);
  wrong += nvshmem_my_pe() != rank || nvshmem_n_pes() != size;
  /* Only counts. */
  wrong += nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attributes) != 0;
  nvshmem_finalize();
  nvshmem_barrier_all();
  nvshmem_finalize();
  MPI_Finalize();
  printf("%d of %d: %d wrong\n", rank, size, wrong);
  return wrong;
}
