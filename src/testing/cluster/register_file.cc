#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "penstock/testing_cluster.h"

namespace penstock::test {

std::string RegisterFile::begin_write(uint32_t block) {
  const uint64_t number = ++registers_[block].begun;
  std::string bytes(kBlock, '\0');
  for (size_t at = 0; at < kBlock; at += sizeof number) {
    std::memcpy(bytes.data() + at, &number, sizeof number);
  }
  return bytes;
}

void RegisterFile::end_write(uint32_t block, bool succeeded) {
  Register& written = registers_[block];
  if (succeeded) written.known = written.begun;
}

std::string RegisterFile::check(uint32_t block, uint64_t begun_at, const std::string& bytes) {
  uint64_t number = 0;
  if (bytes.size() != kBlock) return fmt::format("block {} has {} bytes", block, bytes.size());
  std::memcpy(&number, bytes.data(), sizeof number);
  for (size_t at = 0; at < kBlock; at += sizeof number) {
    if (std::memcmp(bytes.data() + at, &number, sizeof number) != 0) {
      return fmt::format("block {} is torn at byte {}", block, at);
    }
  }
  Register& read = registers_[block];
  if (number < begun_at) {
    return fmt::format("block {} says {} after {} was known to be there", block, number, begun_at);
  }
  if (number > read.begun) {
    return fmt::format("block {} says {}, which was never written", block, number);
  }
  read.known = std::max(read.known, number);
  return {};
}

}  // namespace penstock::test
