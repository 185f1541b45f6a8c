// Whatever a header says, it is refused or describes exactly the file.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "penstock/model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  using namespace penstock::model;
  if (size < 2) return 0;
  const std::string_view json(reinterpret_cast<const char*>(data + 2), size - 2);
  const uint64_t file_bytes = kLengthBytes + json.size() + (data[0] << 8 | data[1]);
  const Outcome<Safetensors> parsed = parse_header(json, file_bytes);
  if (!parsed) return 0;
  uint64_t bytes = 0;
  for (const Tensor& tensor : parsed->tensors) bytes += tensor.bytes;
  if (bytes != file_bytes - kLengthBytes - json.size()) std::abort();
  const Placement placement = place({&*parsed, 1}, 256);
  for (const uint64_t target : placement.targets[0]) {
    if (target % 256 != 0 || target > placement.bytes) std::abort();
  }
  return 0;
}
