#include "symm/image.h"

namespace penstock::bench {

const void* symm_kernel_image() {
  return nullptr;
}

}  // namespace penstock::bench
