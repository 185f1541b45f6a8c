// Foreign bytes as requests to replicas of chains: what decodes is of this version, and names
// ranges that are there.
#include "fuzz.h"

#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "penstock/wire.h"

namespace penstock::fuzz {
namespace {

using namespace wire;

void check(bool holds) {
  if (!holds) std::abort();
}

template <class T>
bool decode(Bytes message, T& request) {
  const Result<T> decoded = decode_chain_request<T>(message);
  if (!decoded) return false;
  request = *decoded;
  check(request.header.protocol >= kNodeVersionLeast && request.header.protocol <= kNodeVersion &&
        request.header.traffic <= Traffic::repair);
  check(request.header.chain != 0 && request.header.chain_version != 0);
  check(chain_of_request(message) == request.header.chain_id());
  check(request.header.snapshot == 0);
  if constexpr (std::is_same_v<T, ChainUpdateRequest>) {
    const uint64_t session = request.header.capability;
    check(session == 0 || AgentSession::of_word(session).word() == session);
    check(session == 0 || AgentSession::of_word(session).node.value == request.request.node);
  } else if constexpr (std::is_same_v<T, ChainReadRequest> || std::is_same_v<T, ChainShowRequest>) {
    check(AgentSession::is_word(request.header.capability));
  } else {
    check(request.header.capability == 0);
  }
  return true;
}

void check_message(ChainMethod method, Bytes message) {
  ChainReadRequest read;
  ChainUpdateRequest update;
  ChainCopyRequest copy;
  ChainReplaceRequest replace;
  ChainForwardRequest forward;
  ChainShowRequest show;
  switch (method) {
    case ChainMethod::read:
    case ChainMethod::probe:
      if (!decode(message, read)) return;
      check(read.length > 0 && uint64_t{read.begin} + read.length <= limits::kChunkBytesMax);
      return;
    case ChainMethod::update:
      if (!decode(message, update)) return;
      check(update.kind >= 1 && update.kind <= 3 && update.request.sequence != 0);
      check(update.kind != 1 ||
            (update.begin < update.end && update.end <= limits::kChunkBytesMax));
      return;
    case ChainMethod::show:
      if (!decode(message, show)) return;
      check(show.capability.rights != 0 && show.capability.key != 0);
      check(show.capability.session == show.header.capability && show.capability.session != 0);
      check(show.capability.has(InodeId(show.capability.inode_last),
                                ChainId(show.capability.chain_last)));
      return;
    case ChainMethod::copy:
      if (!decode(message, copy)) return;
      check(copy.blocks > 0 && copy.blocks <= kCopyBlocksMax);
      check((uint64_t{copy.first_block} + copy.blocks) * limits::kBlockBytes <=
            limits::kChunkBytesMax);
      return;
    case ChainMethod::replace:
      if (!decode(message, replace)) return;
      check(replace.length <= limits::kChunkBytesMax && replace.slots <= kCopiedSlotsMax);
      check(replace.damaged * uint64_t{limits::kBlockBytes} <
            uint64_t{replace.length} + limits::kBlockBytes);
      return;
    case ChainMethod::forward:
      if (!decode(message, forward)) return;
      check(forward.parts > 0 && forward.parts <= kUpdatePartsMax);
      return;
    default:
      return;
  }
}

template <class T>
std::string message(ChainMethod method, const T& request) {
  return bytes_of(method) + bytes_of(request);
}

}  // namespace

std::vector<std::string> seeds() {
  const ChainHeader header(3, 7, 1024, 2);
  const RequestId id{1, 2, 3, 4};
  ChainUpdateRequest update;
  update.header = header;
  update.request = id;
  update.end = 100;
  update.kind = 1;
  ChainForwardRequest forward;
  forward.header = header;
  forward.name = {3, 1, id};
  forward.parts = 1;
  ChainReplaceRequest replace;
  replace.header = header;
  replace.committed = {3, 1, id};
  replace.length = 5000;
  replace.damaged = 1;
  ChainShowRequest show;
  show.header = ChainHeader(3, 0, 1024, 0);
  show.capability.rights = kMayRead;
  show.capability.key = 1;
  show.capability.chain_last = UINT32_MAX;
  show.capability.inode_first = show.capability.inode_last = 7;
  show.capability.session = show.header.capability = AgentSession{NodeId(1), 2}.word();
  return {message(ChainMethod::show, show),
          message(ChainMethod::read, ChainReadRequest{header, 4096, 8192, kChunkChecksums, 0}),
          message(ChainMethod::update, update),
          message(ChainMethod::forward, forward),
          message(ChainMethod::replace, replace),
          message(ChainMethod::copy, ChainCopyRequest{header, {3, 1, id}, 5, 64}),
          message(ChainMethod::ask, ChainAskRequest{header})};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  uint16_t method = 0;
  if (size < sizeof method) return 0;
  std::memcpy(&method, data, sizeof method);
  const Bytes rest = std::as_bytes(std::span(data, size)).subspan(sizeof method);
  fuzz::check_message(static_cast<wire::ChainMethod>(method), rest);
  (void)wire::decode_chunk_response<wire::ChainIoResponse>(rest);
  (void)wire::decode_chunk_response<wire::ChainProtocolResponse>(rest);
  return 0;
}
