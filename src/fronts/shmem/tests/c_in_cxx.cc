// What C++ programs bring from C: complex numbers of C, the header within extern "C".
extern "C" {
#include <shmem.h>
}
#include <complex.h>
#include <cstdio>

namespace {

float _Complex source[2], dest[2], work[2];
double _Complex one[1], sum[1];
long words[SHMEM_REDUCE_SYNC_SIZE];

}  // namespace

int main() {
  shmem_init();
  const int pes = shmem_n_pes();
  source[0] = 2;
  source[1] = -1;
  one[0] = 1;
  shmem_complexf_sum_to_all(dest, source, 2, 0, 0, pes, work, words);
  const bool is_reduced = shmem_sum_reduce(SHMEM_TEAM_WORLD, sum, one, 1) == 0;
  const bool is_right = is_reduced && dest[0] == 2.0F * static_cast<float>(pes) &&
                        dest[1] == -1.0F * static_cast<float>(pes) && sum[0] == 1.0 * pes;
  shmem_finalize();
  if (!is_right) std::fputs("not the sums\n", stderr);
  return is_right ? 0 : 1;
}
