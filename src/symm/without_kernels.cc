#include "image.h"

namespace penstock::symm {

const void* kernel_image() {
  return nullptr;
}

}  // namespace penstock::symm
