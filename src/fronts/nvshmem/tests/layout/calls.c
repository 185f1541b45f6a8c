/* Calls functions of every kind through libnvshmem.a, from two threads at once, and says which
 * library answered and how many units it knows. Exit code: how many answers were wrong. */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct penstock_symm_unit {
  unsigned version, bytes;
  void* (*address)(void);
  struct penstock_symm_unit* next;
};
void penstock_symm_add_unit(struct penstock_symm_unit* unit);

int nvshmem_n_pes(void);
void nvshmem_info_get_name(char* name);
double nvshmem_double_g(const double* source, int pe);
void nvshmem_float_p(float* dest, float value, int pe);
void nvshmemx_putmem_signal_on_stream(void* dest, const void* source, size_t bytes,
                                      uint64_t* sig_addr, uint64_t signal, int sig_op, int pe,
                                      void* stream);
void nvshmem_global_exit(int status); /* the stand-in has none */

static struct penstock_symm_unit units[3];

__attribute__((constructor)) static void add_units(void) {
  penstock_symm_add_unit(&units[0]);
  penstock_symm_add_unit(&units[1]);
}

static void* wrong_answers(void* unused) {
  (void)unused;
  uintptr_t wrong = 0;
  const double half = 0.5;
  float product = 0;
  char text[64];
  uint64_t signal = 0;
  for (int round = 0; round < 2; ++round) {
    wrong += nvshmem_double_g(&half, 3) != 3.5;
    nvshmem_float_p(&product, 1.5f, 4);
    wrong += product != 6;
    nvshmemx_putmem_signal_on_stream(text, "sent", sizeof text, &signal, UINT64_MAX, 9, -7,
                                     (void*)0x1234);
    wrong += strcmp(text, "sent 9 -7 0x1234") != 0 || signal != UINT64_MAX;
  }
  return (void*)wrong;
}

int main(int count, char** arguments) {
  if (count > 1 && strcmp(arguments[1], "nothing") == 0) return 0;
  if (count > 1 && strcmp(arguments[1], "missing") == 0) nvshmem_global_exit(3);
  pthread_t other;
  void* wrong_there = NULL;
  if (pthread_create(&other, NULL, wrong_answers, NULL) != 0) return 100;
  const uintptr_t wrong = (uintptr_t)wrong_answers(NULL);
  pthread_join(other, &wrong_there);
  penstock_symm_add_unit(&units[2]);
  char name[256];
  nvshmem_info_get_name(name);
  printf("%s %d\n", name, nvshmem_n_pes());
  return (int)(wrong + (uintptr_t)wrong_there);
}
