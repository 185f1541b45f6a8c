// Foreign bytes as chunk requests and responses: what decodes names ranges that are there.
#include "fuzz.h"

#include <cstdlib>
#include <cstring>

#include "penstock/wire.h"

namespace penstock::fuzz {
namespace {

using namespace wire;

void check(bool holds) {
  if (!holds) std::abort();
}

void check_request(ChunkMethod method, const ChunkRequest& request) {
  switch (method) {
    case ChunkMethod::read:
    case ChunkMethod::write:
    case ChunkMethod::probe:
      check(request.inode != 0 && request.length > 0);
      check(uint64_t{request.begin} + request.length <= limits::kChunkBytesMax);
      return;
    case ChunkMethod::clear:
      check(request.inode != 0 && request.begin <= limits::kChunkBytesMax);
      check(request.length == kChunkEnd || request.length > request.begin);
      return;
    case ChunkMethod::remove:
    case ChunkMethod::end_query:
      check(request.inode != 0);
      return;
    case ChunkMethod::inodes:
      check(request.inode != 0 && request.length > 0 && request.length <= kInodesMax);
      return;
    case ChunkMethod::sync:
      return;
  }
  check(false);  // there is no such method
}

std::string message(ChunkMethod method, const ChunkRequest& request) {
  return bytes_of(method) + bytes_of(request);
}

}  // namespace

std::vector<std::string> seeds() {
  return {message(ChunkMethod::read, {5, 1, 4096, 8192, kChunkChecksums}),
          message(ChunkMethod::write, {5, 1, 100, 17, kChunkDurable}),
          message(ChunkMethod::clear, {5, 1, 100, kChunkEnd, 0}),
          message(ChunkMethod::remove, {5, 1, 0, 0, kChunkDurable}),
          message(ChunkMethod::inodes, {5, 0, 0, kInodesMax, 0}),
          message(ChunkMethod::sync, {}),
          message(ChunkMethod::end_query, {5, 0, 0, 0, 0}),
          message(ChunkMethod::probe, {5, 1, 0, 4096, 0})};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  uint16_t method = 0;
  if (size < sizeof method) return 0;
  std::memcpy(&method, data, sizeof method);
  const Bytes rest = std::as_bytes(std::span(data, size)).subspan(sizeof method);
  if (const auto request = wire::decode_chunk_request(method, rest)) {
    fuzz::check_request(static_cast<wire::ChunkMethod>(method), *request);
  }
  (void)wire::decode_chunk_response<wire::ChunkIoResponse>(rest);
  (void)wire::decode_chunk_response<wire::ChunkEndResponse>(rest);
  return 0;
}
