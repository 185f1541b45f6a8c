// Any bytes as any record of a controller, also with the right checksum behind them.
#include "../tests/sample_records.h"
#include "fuzz.h"

#include "penstock/controller/codec.h"

namespace penstock::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> out = controller::sample_records();
  for (const std::string& whole : controller::sample_records()) {
    out.push_back(whole.substr(0, whole.size() - sizeof(uint32_t)));
  }
  return out;
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::controller;  // NOLINT: a fuzz target is one function
  std::string bytes(reinterpret_cast<const char*>(data), size);
  (void)decode_all(bytes);
  const uint32_t checksum = checksum_of(bytes);
  bytes.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
  (void)decode_all(bytes);
  StateLoader loader;
  for (const char kind : {'L', 'R', 'N', 'T', 'B', 'C'}) {
    const uint32_t first = kind == 'C' ? penstock::kFirstSharedChain.value : 1;
    (void)loader.add(key_of(static_cast<RecordKind>(kind), first), bytes);
  }
  (void)loader.finish();
  return 0;
}
