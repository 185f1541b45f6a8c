#include "image.h"

// Fat binaries as the compiler of kernels made them, word for word.
#define PENSTOCK_IMAGE(NAME, FILE)   \
  asm(".section .rodata\n"           \
      ".balign 64\n"                 \
      ".globl penstock_symm_" #NAME  \
      "_kernels\n"                   \
      ".hidden penstock_symm_" #NAME \
      "_kernels\n"                   \
      "penstock_symm_" #NAME         \
      "_kernels:\n"                  \
      ".incbin \"" FILE              \
      "\"\n"                         \
      ".previous\n");                \
  extern "C" const unsigned char penstock_symm_##NAME##_kernels[];

PENSTOCK_IMAGE(bits, PENSTOCK_KERNELS_bits)
PENSTOCK_IMAGE(bytes, PENSTOCK_KERNELS_bytes)
PENSTOCK_IMAGE(far, PENSTOCK_KERNELS_far)
PENSTOCK_IMAGE(max, PENSTOCK_KERNELS_max)
PENSTOCK_IMAGE(min, PENSTOCK_KERNELS_min)
PENSTOCK_IMAGE(prod, PENSTOCK_KERNELS_prod)
PENSTOCK_IMAGE(sum, PENSTOCK_KERNELS_sum)

namespace penstock::symm {

const void* collective_image(CollectiveImage which) {
  switch (which) {
    case CollectiveImage::bytes:
      return penstock_symm_bytes_kernels;
    case CollectiveImage::sum:
      return penstock_symm_sum_kernels;
    case CollectiveImage::prod:
      return penstock_symm_prod_kernels;
    case CollectiveImage::min:
      return penstock_symm_min_kernels;
    case CollectiveImage::max:
      return penstock_symm_max_kernels;
    case CollectiveImage::bits:
      return penstock_symm_bits_kernels;
    case CollectiveImage::far:
      return penstock_symm_far_kernels;
  }
  return nullptr;
}

}  // namespace penstock::symm
