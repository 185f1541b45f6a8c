#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "penstock/testing_cluster.h"

namespace penstock::test {

using Written = Register::Written;

std::string bytes_of_number(uint64_t number, size_t length) {
  ASSERT(length % sizeof number == 0);
  std::string bytes(length, '\0');
  for (size_t at = 0; at < length; at += sizeof number) {
    std::memcpy(bytes.data() + at, &number, sizeof number);
  }
  return bytes;
}

std::string read_number(const std::string& bytes, uint64_t& number) {
  if (bytes.size() < sizeof number || bytes.size() % sizeof number != 0) {
    return fmt::format("has {} bytes", bytes.size());
  }
  std::memcpy(&number, bytes.data(), sizeof number);
  for (size_t at = 0; at < bytes.size(); at += sizeof number) {
    uint64_t other = 0;
    std::memcpy(&other, bytes.data() + at, sizeof other);
    if (other != number) {
      return fmt::format("is torn at byte {}: {:x} follows {:x}", at, other, number);
    }
  }
  return {};
}

std::string RegisterFile::begin_write(uint32_t block) {
  registers_[block].begin_write(++writes_);
  return bytes_of_number(writes_, kBlock);
}

void RegisterFile::end_write(uint32_t block, bool succeeded, bool durable) {
  const Written how = durable ? Written::durably : Written::for_now;
  registers_[block].end_write(succeeded ? how : Written::perhaps);
}

void RegisterFile::begin_cut(uint32_t length) {
  cut_is_durable_ = std::any_of(registers_.begin(), registers_.end(),
                                [](const Register& block) { return block.any_durable(); });
  for (uint32_t block = length; block < blocks(); ++block) registers_[block].begin_write(0);
}

void RegisterFile::end_cut(uint32_t length, bool succeeded) {
  for (uint32_t block = length; block < blocks(); ++block) {
    end_write(block, succeeded, cut_is_durable_);
  }
}

RegisterFile::Sync RegisterFile::begin_sync() const {
  Sync sync{.deaths = deaths_, .written = {}};
  for (const Register& block : registers_) sync.written.push_back(block.written());
  return sync;
}

void RegisterFile::end_sync(const Sync& sync, bool succeeded) {
  if (!succeeded || sync.deaths != deaths_) return;
  for (uint32_t block = 0; block < blocks(); ++block) {
    registers_[block].synced(sync.written[block]);
  }
}

void RegisterFile::node_died() {
  ++deaths_;
  for (Register& block : registers_) block.die();
}

std::string RegisterFile::check(uint32_t block, uint64_t begun_at, const std::string& bytes) {
  if (bytes.size() != kBlock) return fmt::format("block {} has {} bytes", block, bytes.size());
  uint64_t number = 0;
  std::string wrong = read_number(bytes, number);
  if (wrong.empty()) wrong = registers_[block].check(begun_at, number);
  return wrong.empty() ? wrong : fmt::format("block {} {}", block, wrong);
}

}  // namespace penstock::test
