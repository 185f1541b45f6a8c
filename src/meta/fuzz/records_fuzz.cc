// libFuzzer target: any bytes as any record.
#include "../tests/decode_all.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  penstock::meta::decode_all({reinterpret_cast<const char*>(data), size});
  return 0;
}
