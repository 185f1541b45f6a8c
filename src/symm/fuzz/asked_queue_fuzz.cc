// A hostile kernel and a hostile peer: the input scribbles over a ring's memory and sends frames
// between the proxy's turns. The proxy must touch nothing outside of the heap's open part and of
// what the device holds, post no change of anything else, and never loop.
#include "device_proxy.h"
#include "fuzz.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

namespace penstock::symm {
namespace {

constexpr uint64_t kHeap = uint64_t{1} << 32;  // nobody follows it
constexpr uint64_t kHeapBytes = uint64_t{1} << 20;
constexpr uint64_t kPrivate = 65536;
constexpr uint64_t kHeld = uint64_t{1} << 33;
constexpr uint32_t kPes = 3;

void require(bool expected) {
  if (!expected) std::abort();
}

bool is_open(uint64_t at, uint64_t bytes) {
  return at >= kHeap && at + bytes <= kHeap + kHeapBytes &&
         (at + bytes <= kHeap + kPrivate || at >= kHeap + 2 * kPrivate);
}

class Device final : public ProxyDevice {
 public:
  bool holds(uint64_t address, uint64_t bytes) override {
    return address >= kHeld && bytes <= kHeapBytes && address - kHeld <= kHeapBytes - bytes;
  }
  // By the own kernels also in what is private: they are this PE's.
  Status copy_in(uint64_t to, Bytes from) override {
    require(may(to, from.size()));
    return {};
  }
  Status copy_out(MutableBytes to, uint64_t from) override {
    require(may(from, to.size()));
    return {};
  }
  Status finish() override { return {}; }
  bool is_programs(uint64_t) override { return false; }
  // As kernels make them that have just been launched. Of single words a kernel may take as long as
  // it likes.
  Status make_changes(uint64_t served) override {
    while (served < queue->posted()) {
      const device::FarPosted& posted = changes->entry[served % device::kFarPosted];
      if (posted.change < static_cast<uint8_t>(device::FarChange::copy_in)) break;
      const uint64_t width = uint64_t{1} << posted.width_log2;
      const uint64_t last = posted.bytes / width - 1;
      require(may(posted.address, width) && may(posted.address + last * posted.expected, width));
      changes->served = ++served;
    }
    return {};
  }

  AskedQueue* queue = nullptr;
  device::FarChanges* changes = nullptr;

 private:
  bool may(uint64_t at, uint64_t bytes) {
    return (at >= kHeap && at + bytes <= kHeap + kHeapBytes) || holds(at, bytes);
  }
};

class Mail final : public DeviceMail {
 public:
  uint64_t room(uint32_t, MailLane) override { return 4 * kMailBodyMax; }
  Status send(uint32_t pe, MailLane lane, const MailFrame& frame, Bytes body) override {
    require(pe == 1 || pe == 2);
    require(frame.bytes == body.size() && body.size() <= kMailBodyMax);
    if (lane == MailLane::asked && frame.kind != MailKind::flush)
      require(is_open(kHeap + frame.offset, 1));
    return {};
  }
  Result<bool> peek(uint32_t pe, MailLane lane, MailFrame* out) override {
    auto& from = frames[pe][static_cast<uint32_t>(lane)];
    if (from.empty()) return false;
    *out = from.front();
    return true;
  }
  void take(uint32_t pe, MailLane lane, MutableBytes body) override {
    auto& from = frames[pe][static_cast<uint32_t>(lane)];
    require(body.size() == from.front().bytes);
    from.pop_front();
  }
  Status flush(uint32_t) override { return {}; }
  void progress() override {}

  std::deque<MailFrame> frames[kPes][kMailLanes];
};

struct Step {
  uint32_t at;
  uint64_t value;
};

void run(const uint8_t* data, size_t size) {
  const AskedGeometry geometry = *AskedGeometry::make(128);
  static std::byte* const base =
      static_cast<std::byte*>(std::aligned_alloc(4096, geometry.host_bytes()));
  static std::vector<std::byte> staging(2 * kMailBodyMax);
  std::memset(base, 0, geometry.host_bytes());
  AskedQueue queue({base, geometry.host_bytes()}, geometry, kPes);
  Device device;
  device.queue = &queue;
  device.changes = reinterpret_cast<device::FarChanges*>(base + geometry.changes_at());
  Mail mail;
  uint32_t trouble = 0;
  ProxyOptions options;
  options.pes = kPes;
  options.far.set(1).set(2);
  options.heap = kHeap;
  options.heap_bytes = kHeapBytes;
  options.private_begin = kPrivate;
  options.private_end = 2 * kPrivate;
  options.trouble = &trouble;
  options.staging = staging;
  DeviceProxy proxy(options, queue, device, mail);
  for (Step step{}; size >= sizeof step; data += sizeof step, size -= sizeof step) {
    std::memcpy(&step, data, sizeof step);
    if (step.at % 8 == 7 && size >= sizeof step + sizeof(MailFrame)) {
      MailFrame frame;
      std::memcpy(&frame, data + sizeof step, sizeof frame);
      if (frame.bytes > 2 * kMailBodyMax) frame.bytes %= 2 * kMailBodyMax;
      mail.frames[1 + step.at / 8 % 2][step.at / 16 % 2].push_back(frame);
    } else {
      std::memcpy(base + step.at % (geometry.host_bytes() / 8) * 8, &step.value, 8);
    }
    require(proxy.turn().has_value());
    require(queue.served() <= queue.posted() && queue.posted() - queue.served() <= 128);
  }
}

}  // namespace
}  // namespace penstock::symm

namespace penstock::fuzz {

// Steps: words of the ring, and frames in the place of the following steps.
std::vector<std::string> seeds() {
  using namespace symm;
  std::string words;
  device::FarAsk asked{};
  asked.pe = 1;
  asked.answer = true;
  asked.value = kHeld;
  asked.length = 64;
  asked.width_log2 = 3;
  asked.change = device::FarChange::add;
  uint64_t position = 0;
  for (uint32_t what = 1; what <= 6; ++what) {
    asked.ask = static_cast<device::Ask>(what);
    asked.pe = 1 + what % 2;
    const device::FarEntries entries = device::encode(asked);
    for (uint32_t i = 0; i < entries.count; ++i, ++position) {
      for (uint32_t half = 0; half < 2; ++half) {
        const auto at = static_cast<uint32_t>(512 + position * 2 + half);
        // Not of the steps that are frames.
        const uint32_t same =
            at % 8 == 7 ? at + static_cast<uint32_t>(AskedGeometry{128}.host_bytes() / 8) : at;
        words += fuzz::bytes_of(Step{same, entries.entry[i].word[half] | device::kFarParity});
      }
    }
  }
  std::string frames;
  for (const MailKind kind : {MailKind::put, MailKind::get, MailKind::put_row, MailKind::get_row,
                              MailKind::change, MailKind::flush, MailKind::got}) {
    MailFrame frame{
        .kind = kind, .width_log2 = 3, .change = 4, .value = 64, .expected = 1, .tag = 9};
    if (kind == MailKind::put || kind == MailKind::put_row) frame.bytes = 64;
    frames += fuzz::bytes_of(Step{kind == MailKind::got ? 23U : 7U, 0}) + fuzz::bytes_of(frame);
    frames.resize((frames.size() + sizeof(Step) - 1) / sizeof(Step) * sizeof(Step));
  }
  return {words, frames, words + frames};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  penstock::symm::run(data, size);
  return 0;
}
