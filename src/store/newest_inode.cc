// Keys of chunks sort by chain, then inode: the greatest inode of a chain is found by halving.
#include "block_map.h"
#include "chain_records.h"

#include <algorithm>

namespace penstock::store {
namespace {

// Kind, chain and inode, with which keys of chunks begin.
constexpr size_t kInodePrefixBytes = 1 + 4 + 8;

void append_big_endian(std::string& out, uint64_t value, size_t bytes) {
  for (size_t i = bytes; i > 0; --i) out.push_back(static_cast<char>(value >> (8 * (i - 1))));
}

std::string prefix_of(char kind, uint64_t chain, uint64_t inode) {
  std::string prefix(1, kind);
  append_big_endian(prefix, chain, sizeof(uint32_t));
  append_big_endian(prefix, inode, sizeof(uint64_t));
  ASSERT(prefix.size() == kInodePrefixBytes);
  return prefix;
}

Result<std::optional<std::string>> first_key(engine::KvTransaction& transaction,
                                             const std::string& begin, const std::string& end) {
  std::optional<std::string> found;
  TRY(transaction.scan(begin, end, [&](std::string_view key, std::string_view) {
    found = key;
    return false;
  }));
  return found;
}

Result<uint64_t> chain_of(std::string_view key) {
  if (key.size() < kInodePrefixBytes) return Code::corrupt;
  uint64_t chain = 0;
  for (const char byte : key.substr(1, sizeof(uint32_t))) {
    chain = chain << 8 | static_cast<uint8_t>(byte);
  }
  return chain;
}

// Of one chain: bit by bit, the greatest number from which on there still is a key.
Result<uint64_t> newest_of(engine::KvTransaction& transaction, char kind, uint64_t chain,
                           uint64_t below) {
  const std::string end = prefix_of(kind, chain, below);
  uint64_t newest = 0;
  for (uint64_t bit = uint64_t{1} << 63; bit != 0; bit >>= 1) {
    const uint64_t wanted = newest | bit;
    if (wanted >= below) continue;
    TRY_ASSIGN(const auto found, first_key(transaction, prefix_of(kind, chain, wanted), end));
    if (found) newest = wanted;
  }
  ASSERT(newest < below);
  return newest;
}

Result<uint64_t> newest_of_kind(engine::KvTransaction& transaction, char kind, uint64_t below) {
  uint64_t newest = 0;
  const std::string end(1, static_cast<char>(kind + 1));
  uint64_t chain = 0;
  while (chain <= UINT32_MAX) {
    TRY_ASSIGN(const auto key, first_key(transaction, prefix_of(kind, chain, 0), end));
    if (!key) break;
    TRY_ASSIGN(chain, chain_of(*key));
    TRY_ASSIGN(const uint64_t of_chain, newest_of(transaction, kind, chain, below));
    newest = std::max(newest, of_chain);
    ++chain;
  }
  return newest;
}

}  // namespace

Result<InodeId> newest_inode(engine::Kv& kv, InodeId below) {
  ASSERT(below.value > 0);
  uint64_t newest = 0;
  TRY(kv.run(engine::KvMode::read, [&](engine::KvTransaction& transaction) -> Status {
    newest = 0;
    for (const char kind : {kMapKeyType, kChunkKeyType, kPendingKeyType}) {
      TRY_ASSIGN(const uint64_t of_kind, newest_of_kind(transaction, kind, below.value));
      newest = std::max(newest, of_kind);
    }
    return {};
  }));
  return InodeId(newest);
}

}  // namespace penstock::store
