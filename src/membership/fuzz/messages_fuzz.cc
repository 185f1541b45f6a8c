// Any bytes as what is asked of a controller or answered by it, also with the right checksum behind
// them. What is taken is said again as the same bytes.
#include "../tests/sample_messages.h"
#include "fuzz.h"

#include "penstock/controller.h"

namespace penstock::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> out;
  for (const auto& request : membership::sample_requests()) out.push_back(encode(request));
  for (const auto& answer : membership::sample_answers()) out.push_back(encode(answer));
  const std::vector<std::string> whole = out;
  for (const std::string& bytes : whole) out.push_back(bytes.substr(0, bytes.size() - 4));
  return out;
}

}  // namespace penstock::fuzz

namespace {

void try_both(const std::string& bytes) {
  const auto request = penstock::membership::decode_request(bytes);
  ASSERT(!request || encode(*request) == bytes);
  const auto answer = penstock::membership::decode_answer(bytes);
  ASSERT(!answer || encode(*answer) == bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  try_both(bytes);
  const uint32_t checksum = penstock::controller::checksum_of(bytes);
  bytes.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
  try_both(bytes);
  return 0;
}
