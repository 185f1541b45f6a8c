// Any bytes as what a PE of another node says. Nothing outside of symmetric memory, and of what was
// asked for, changes; what is answered comes from there.
#include "../far_stream.h"
#include "fuzz.h"

#include <algorithm>

namespace penstock::fuzz {

std::vector<std::string> seeds() {
  using namespace penstock::symm;
  const auto text = [](FarFrame frame, size_t payload = 0) {
    return bytes_of(frame) + std::string(payload, 'x');
  };
  const std::string put = text({.kind = FarKind::put, .offset = 8, .length = 8}, 8);
  const std::string large = text({.kind = FarKind::put, .offset = 100, .length = 6000}, 6000);
  const std::string row =
      text({.kind = FarKind::put_row, .count = 4, .length = 16, .extra = 32}, 16);
  const std::string get = text({.kind = FarKind::get, .segment = 1, .offset = 8, .length = 16});
  const std::string get_row =
      text({.kind = FarKind::get_row, .count = 4, .offset = 8, .length = 32, .extra = 8});
  const std::string change =
      text({.kind = FarKind::change, .op = 4, .width = 8, .count = 1, .offset = 16, .length = 1});
  const std::string bytes = text({.kind = FarKind::bytes, .length = 5000}, 5000);
  const std::string value = text({.kind = FarKind::value, .length = 3});
  const std::string flushed = text({.kind = FarKind::flushed});
  const std::string flush = text({.kind = FarKind::flush});
  const std::string bye = text({.kind = FarKind::bye});
  return {put + get + change + flush + bye, large + put, row + get_row + flush,
          bytes + value + flushed + put,    bye,         change};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  using namespace penstock::symm;
  constexpr size_t kAround = 64;
  constexpr size_t kMemory = 8192;
  constexpr size_t kData = 256;
  constexpr size_t kDest = 5000;
  constexpr std::byte kMark{0x5a};
  // Memory, and marks around each part of it.
  static std::vector<std::byte> all(kMemory + kData + kDest + 4 * kAround);
  std::fill(all.begin(), all.end(), kMark);
  const MutableBytes memory(all.data() + kAround, kMemory);
  const MutableBytes own_data(memory.data() + kMemory + kAround, kData);
  const MutableBytes dest(own_data.data() + kData + kAround, kDest);
  const auto is_marked = [&](const std::byte* from) {
    return std::all_of(from, from + kAround, [&](std::byte byte) { return byte == kMark; });
  };
  FarStream stream({memory, own_data});
  FarAnswer answer;
  stream.get({}, dest, &answer);
  stream.change({}, Change{}, &answer);
  stream.put({}, Bytes());
  stream.flush();
  Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  // The first byte says how it is cut.
  const size_t step = size == 0 ? 1 : 1 + data[0] * size_t{16};
  while (!bytes.empty()) {
    iovec room[2];
    const uint32_t rooms = stream.room(room);
    uint64_t placed = 0;
    for (uint32_t i = 0; i < rooms && placed < step && !bytes.empty(); ++i) {
      const size_t some = std::min({room[i].iov_len, bytes.size(), step - placed});
      std::memcpy(room[i].iov_base, bytes.data(), some);
      bytes = bytes.subspan(some);
      placed += some;
    }
    ASSERT(placed > 0);
    if (!stream.received(placed).ok()) break;
  }
  iovec out[8];
  while (const uint32_t pieces = stream.unsent(out, 8)) {
    uint64_t some = 0;
    for (uint32_t i = 0; i < pieces; ++i) some += out[i].iov_len;
    stream.sent(some);
  }
  ASSERT(!stream.has_unsent());
  stream.end(Code::peer_gone);
  ASSERT(answer.awaited == 0);
  ASSERT(is_marked(all.data()) && is_marked(memory.data() + kMemory) &&
         is_marked(own_data.data() + kData) && is_marked(dest.data() + kDest));
  return 0;
}
