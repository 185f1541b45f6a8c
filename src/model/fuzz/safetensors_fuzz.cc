// Whatever a header says, it is refused or describes exactly the file.
#include "fuzz.h"

#include <cstdlib>

#include "penstock/model.h"

namespace penstock::fuzz {

// The bytes of data, most significant first, then the header.
std::vector<std::string> seeds() {
  return {std::string("\0\41", 2) +
              R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,3],)"
              R"("data_offsets":[8,32]},"a":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]},)"
              R"("scalar":{"dtype":"I8","shape":[],"data_offsets":[32,33]},)"
              R"("empty":{"dtype":"F64","shape":[0,7],"data_offsets":[33,33]}})",
          std::string("\0\0", 2) + "{}"};
}

}  // namespace penstock::fuzz

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
  const Packing packing = pack({&*parsed, 1}, 256);
  for (const uint64_t offset : packing.offsets[0]) {
    if (offset % 256 != 0 || offset > packing.bytes) std::abort();
  }
  return 0;
}
