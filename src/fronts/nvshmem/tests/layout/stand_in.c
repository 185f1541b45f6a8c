/* Stands in for libnvshmem_host.so, where there is no CUDA to build that one: functions that tell
 * what they were given, and the list of units. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct penstock_symm_unit {
  unsigned version, bytes;
  void* (*address)(void);
  struct penstock_symm_unit* next;
};

static struct penstock_symm_unit* units;

#ifndef NOT_PENSTOCKS
void penstock_symm_add_unit(struct penstock_symm_unit* unit) {
  unit->next = units;
  units = unit;
}
#endif

int nvshmem_n_pes(void) {
  int count = 0;
  for (struct penstock_symm_unit* unit = units; unit != NULL; unit = unit->next) ++count;
  return count;
}

void nvshmem_info_get_name(char* name) {
  snprintf(name, 256, "%s", WHERE);
}

double nvshmem_double_g(const double* source, int pe) {
  return *source + pe;
}

void nvshmem_float_p(float* dest, float value, int pe) {
  *dest = value * (float)pe;
}

void nvshmemx_putmem_signal_on_stream(void* dest, const void* source, size_t bytes,
                                      uint64_t* sig_addr, uint64_t signal, int sig_op, int pe,
                                      void* stream) {
  *sig_addr = signal;
  snprintf(dest, bytes, "%s %d %d %p", (const char*)source, sig_op, pe, stream);
}
