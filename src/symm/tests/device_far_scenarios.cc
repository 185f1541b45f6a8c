// What GPUs of several nodes ask of each other, from the simplest on, each step by itself and told
// before it is made: where a machine's driver does something else than the simulation, the last
// line says with what (tests/gpu/nodes.sh).
#include "../image.h"
#include "devices.h"

#include <array>
#include <functional>
#include <string>

namespace penstock::symm::test {
namespace {

// The steps of one PE; all PEs make them together.
class Steps {
 public:
  explicit Steps(const Pe& pe)
      : pe_(pe), on_(begin(pe)), streams_(make_streams(*on_.heap)), stream_(own_stream(pe)) {}

  // The stream is done with each step before the next one begins, and nothing of the host's memory
  // that the driver would have to stage is under way with it.
  void make(const char* what, const std::function<Status()>& step) const {
    std::fprintf(stderr, "PE %u: %s\n", pe_.me(), what);
    std::fflush(stderr);
    const Status given = step();
    const Status done = given.ok() ? on_.device->synchronize(stream()) : given;
    if (done.ok() && streams_->failure() == device::kSymmNothing) return;
    std::fprintf(stderr, "not so: PE %u: %s: %s, a kernel reported %u\n", pe_.me(), what,
                 std::string(done.name()).c_str(), streams_->failure());
    std::_Exit(1);
  }
  void meet() const { CHECK(pe_.group.barrier(pe_.group.world()).ok()); }

  DeviceStreams& streams() const { return *streams_; }
  const OnDevice& on() const { return on_; }
  engine::DeviceStream stream() const { return stream_->own_stream(); }

 private:
  // One that waits for no other, as the legacy default stream would.
  static std::unique_ptr<gpu::SymmetricDevice> own_stream(const Pe& pe) { return open_device(pe); }

  const Pe& pe_;
  const OnDevice on_;
  const std::unique_ptr<DeviceStreams> streams_;
  const std::unique_ptr<gpu::SymmetricDevice> stream_;
};

uint64_t mark_of(uint32_t pe, uint64_t i) {
  return uint64_t{pe} << 32 | i;
}

void far_steps(const Pe& pe) {
  const Steps steps(pe);
  DeviceStreams& streams = steps.streams();
  const OnDevice& on = steps.on();
  const auto stream = steps.stream();
  constexpr uint64_t kWords = 1 << 16;
  auto* const source = on.allocate<uint64_t>(kWords);
  auto* const dest = on.allocate<uint64_t>(kWords);
  auto* const signal = on.allocate<uint64_t>(1);
  std::vector<uint64_t> words(kWords);
  for (uint64_t i = 0; i < kWords; ++i) words[i] = mark_of(pe.me(), i);
  CHECK(on.device->copy(source, words.data(), kWords * sizeof(uint64_t), stream).ok());
  CHECK(on.device->synchronize(stream).ok());
  steps.meet();
  const auto expect = [&](const uint64_t* at, uint32_t from, uint64_t count) {
    std::vector<uint64_t> seen(count);
    CHECK(on.device->copy(seen.data(), at, count * sizeof(uint64_t), stream).ok());
    CHECK(on.device->synchronize(stream).ok());
    for (uint64_t i = 0; i < count; ++i) CHECK(seen[i] == mark_of(from, i));
    steps.meet();
  };
  steps.make("quiet without anything before it", [&] { return streams.quiet(stream); });
  steps.make("a word, set",
             [&] { return streams.store(dest, mark_of(pe.me(), 0), 8, pe.right(), stream); });
  steps.make("quiet behind it", [&] { return streams.quiet(stream); });
  steps.meet();
  expect(dest, pe.left(), 1);
  // By values, by one frame, by many.
  for (const uint64_t count : {uint64_t{1}, uint64_t{16}, kWords}) {
    const uint64_t bytes = count * sizeof(uint64_t);
    const std::string size = std::to_string(bytes) + " bytes";
    steps.make(("put of " + size).c_str(),
               [&] { return streams.put(dest, source, bytes, pe.right(), stream); });
    steps.make("quiet behind it", [&] { return streams.quiet(stream); });
    steps.meet();
    expect(dest, pe.left(), count);
    steps.make(("get of " + size).c_str(),
               [&] { return streams.get(dest, source, bytes, pe.right(), stream); });
    expect(dest, pe.right(), count);
  }
  // A change that a kernel of the other PE's GPU has to make: by the proxy's kernel, as none waits.
  steps.make("signal, added",
             [&] { return streams.signal(signal, 5, SignalOp::add, pe.right(), stream); });
  steps.make("quiet behind it", [&] { return streams.quiet(stream); });
  steps.make("wait for the signal", [&] { return streams.wait(signal, 0, 5, stream); });
  steps.meet();
  steps.make("barrier", [&] { return streams.barrier(pe.group.world(), stream); });
  CHECK(streams.prepare(pe.group.world()));
  for (int i = 0; i < 10; ++i)
    steps.make("barrier, prepared", [&] { return streams.barrier(pe.group.world(), stream); });
  // Without looking between them, and with a copy to pageable memory behind them, in which the
  // driver waits itself.
  steps.make("100 puts and barriers", [&] {
    for (uint64_t i = 0; i < 100; ++i) {
      TRY(streams.put(dest + i, source + i, sizeof(uint64_t), pe.right(), stream));
      TRY(streams.barrier(pe.group.world(), stream));
    }
    return Status();
  });
  expect(dest, pe.left(), 100);
  steps.make("put, barrier, copy to pageable memory", [&] {
    TRY(streams.put(dest, source, 4096, pe.right(), stream));
    TRY(streams.barrier(pe.group.world(), stream));
    return on.device->copy(words.data(), dest, 4096, stream);
  });
  CHECK(words[511] == mark_of(pe.left(), 511));
  steps.meet();
}

// Pageable memory of the host, which copy engines of the proxy are not given: as source and
// destination of all that streams do with far PEs.
void far_pageable(const Pe& pe) {
  const OnDevice on = begin(pe);
  const auto streams = make_streams(*on.heap);
  const auto own = open_device(pe);
  const auto stream = own->own_stream();
  constexpr uint64_t kMost = (20 << 20) / sizeof(uint64_t);  // more than one piece
  auto* const words = on.allocate<uint64_t>(kMost);
  auto* const signal = on.allocate<uint64_t>(1);
  std::vector<uint64_t> mine(kMost);
  std::vector<uint64_t> seen(kMost);
  for (const uint64_t count : {uint64_t{1}, uint64_t{1000}, kMost}) {
    for (uint64_t i = 0; i < count; ++i) mine[i] = mark_of(pe.me(), i + count);
    CHECK(streams->put(words, mine.data(), count * 8, pe.right(), stream).ok());
    std::fill_n(mine.begin(), count, 0);  // it was taken at the call
    CHECK(streams->barrier(pe.group.world(), stream).ok());
    std::fill_n(seen.begin(), count, 0);
    CHECK(streams->get(seen.data(), words, count * 8, pe.right(), stream).ok());
    for (uint64_t i = 0; i < count; ++i) CHECK(seen[i] == mark_of(pe.me(), i + count));
    CHECK(streams->barrier(pe.group.world(), stream).ok());
  }
  // By two streams in turn, which do not wait for each other.
  const auto second = open_device(pe);
  constexpr uint64_t kPiece = 3000;
  constexpr uint64_t kPieces = 40;
  for (uint64_t i = 0; i < kPieces; ++i) {
    for (uint64_t j = 0; j < kPiece; ++j) mine[j] = mark_of(pe.me(), i * kPiece + j);
    const auto either = i % 2 == 0 ? stream : second->own_stream();
    CHECK(streams->put(words + i * kPiece, mine.data(), kPiece * 8, pe.right(), either).ok());
  }
  CHECK(second->synchronize(second->own_stream()).ok());
  CHECK(streams->barrier(pe.group.world(), stream).ok());
  CHECK(streams->get(seen.data(), words, kPieces * kPiece * 8, pe.right(), stream).ok());
  for (uint64_t i = 0; i < kPieces * kPiece; ++i) CHECK(seen[i] == mark_of(pe.me(), i));
  CHECK(streams->barrier(pe.group.world(), stream).ok());
  constexpr uint64_t kRow = 1500;
  for (uint64_t i = 0; i < 2 * kRow; ++i) mine[i] = mark_of(pe.me(), i);
  CHECK(streams->iput(words, mine.data(), {3, 2, kRow, 8}, pe.right(), stream, By::kernels).ok());
  std::fill_n(mine.begin(), 2 * kRow, 0);
  CHECK(streams->put_signal(words + 1, &mine[0], 8, signal, 7, SignalOp::add, pe.right(), stream)
            .ok());
  CHECK(streams->wait(signal, 0, 7, stream).ok());
  CHECK(streams->barrier(pe.group.world(), stream).ok());
  std::fill_n(seen.begin(), 5 * kRow, 9);
  CHECK(streams->iget(seen.data(), words, {5, 3, kRow, 8}, pe.right(), stream, By::kernels).ok());
  for (uint64_t i = 0; i < 5 * (kRow - 1) + 1; ++i)
    CHECK(seen[i] == (i % 5 == 0 ? mark_of(pe.me(), i / 5 * 2) : 9));
  CHECK(words_at(*on.device, words + 1, 1)[0] == 0);
  CHECK(streams->failure() == device::kSymmNothing);
  // What kernels are given themselves is not staged: told, with the address.
  const std::array<const char*, 1> names = {"penstock_symm_put_far"};
  CHECK(own->load_kernels(kernel_image(), names));
  CHECK(pe.group.barrier(pe.group.world()).ok());
  device::SymmState state = on.heap->state();
  void* dest = words;
  const void* source = mine.data();
  uint64_t bytes = 64;
  auto right = static_cast<int>(pe.right());
  std::array<void*, 5> arguments = {&state, &dest, &source, &bytes, &right};
  CHECK(own->launch({.kernel = 0, .arguments = arguments, .stream = stream}).ok());
  CHECK(own->synchronize(stream).ok());
  const device::SymmReport report = streams->report();
  CHECK(report.why == device::kSymmNotReached && report.pe == right);
  CHECK(report.address == reinterpret_cast<uintptr_t>(source));
  CHECK(pe.group.barrier(pe.group.world()).ok());
}

// Memory of the program's context, on the default stream, with copies behind it that shut out all
// other calls of that context until the kernels have ended which ask for it.
void far_programs(const Pe& pe) {
  const OnDevice on = begin(pe);
  const auto streams = make_streams(*on.heap);
  constexpr uint64_t kWords = 100'003;
  auto* const words = on.allocate<uint64_t>(kWords);
  const auto made = pe.gpus->make_programs_memory(on.device->id(), kWords * 8 + 1);
  auto* const own = reinterpret_cast<uint64_t*>(made.data());
  const auto fill = [&](uint64_t mark) {
    std::vector<uint64_t> values(kWords);
    for (uint64_t i = 0; i < kWords; ++i) values[i] = mark_of(pe.me(), i * mark);
    CHECK(on.device->copy(own, values.data(), kWords * 8, nullptr).ok());
  };
  const auto expect = [&](const uint64_t* at, uint64_t count, uint32_t from, uint64_t mark) {
    std::vector<uint64_t> seen(count);
    CHECK(on.device->copy(seen.data(), at, count * 8, nullptr).ok());  // nobody looked before
    for (uint64_t i = 0; i < count; ++i) CHECK(seen[i] == mark_of(from, i * mark));
  };
  for (const uint64_t count : {uint64_t{1}, uint64_t{2}, uint64_t{1001}, kWords}) {
    fill(count);
    CHECK(streams->put(words, own, count * 8, pe.right(), nullptr).ok());
    CHECK(streams->barrier(pe.group.world(), nullptr).ok());
    expect(words, count, pe.left(), count);
    CHECK(streams->get(own, words, count * 8, pe.right(), nullptr).ok());
    expect(own, count, pe.me(), count);
    CHECK(streams->barrier(pe.group.world(), nullptr).ok());
  }
  // Rows, more of them than are posted at once, of whole elements and of single bytes.
  constexpr uint64_t kRow = 3000;
  fill(1);
  for (uint64_t i = 0; i < 4; ++i) {
    CHECK(
        streams->iput(words + 4 * kRow * i, own, {4, 2, kRow, 8}, pe.right(), nullptr, By::kernels)
            .ok());
  }
  CHECK(streams->barrier(pe.group.world(), nullptr).ok());
  CHECK(streams->get(own, words + 4 * kRow, 4 * kRow * 8, pe.me(), nullptr).ok());
  const auto seen = words_at(*on.device, own, 4 * kRow);
  for (uint64_t i = 0; i < kRow; ++i) CHECK(seen[4 * i] == mark_of(pe.left(), 2 * i));
  CHECK(streams
            ->iget(reinterpret_cast<char*>(own) + 1, words, {3, 8, kRow, 1}, pe.right(), nullptr,
                   By::kernels)
            .ok());
  std::vector<char> bytes(3 * kRow + 1);
  CHECK(on.device->copy(bytes.data(), own, bytes.size(), nullptr).ok());
  for (uint64_t i = 0; i < kRow; i += 4)
    CHECK(bytes[1 + 3 * i] == static_cast<char>(mark_of(pe.me(), i / 2)));
  CHECK(streams->failure() == device::kSymmNothing);
  CHECK(pe.group.barrier(pe.group.world()).ok());
}

// Memory that the program has made, as symmetric memory of near and far PEs.
void use_adopted(const Pe& pe, const OnDevice& on, DeviceStreams& streams, uint64_t mark) {
  constexpr uint64_t kBytes = 2 << 20;
  constexpr uint64_t kWords = kBytes / sizeof(uint64_t);
  const auto made = pe.gpus->make_memory(on.device->id(), kBytes);
  CHECK(made);
  const auto adopted = on.heap->adopt(made->data(), kBytes);
  if (!adopted) std::fprintf(stderr, "PE %u: %s\n", pe.me(), adopted.error().message.c_str());
  CHECK(adopted);
  auto* const words = reinterpret_cast<uint64_t*>(*adopted);
  const auto* const own = reinterpret_cast<const uint64_t*>(made->data());
  auto* const source = on.allocate<uint64_t>(kWords);
  std::vector<uint64_t> mine(kWords);
  for (uint64_t i = 0; i < kWords; ++i) mine[i] = mark_of(pe.me(), i) + mark;
  CHECK(on.device->copy(source, mine.data(), kBytes, nullptr).ok());
  CHECK(streams.put(words, source, kBytes, pe.right(), nullptr).ok());
  CHECK(streams.barrier(pe.group.world(), nullptr).ok());
  auto seen = words_at(*on.device, own, kWords);
  for (uint64_t i = 0; i < kWords; ++i) CHECK(seen[i] == mark_of(pe.left(), i) + mark);
  // It is the own side, too, and words in it change.
  CHECK(streams.get(source, words, kBytes, pe.right(), nullptr).ok());
  seen = words_at(*on.device, source, kWords);
  for (uint64_t i = 0; i < kWords; ++i) CHECK(seen[i] == mine[i]);
  CHECK(streams.barrier(pe.group.world(), nullptr).ok());
  CHECK(streams.put(source, words, kBytes, pe.right(), nullptr).ok());
  CHECK(streams.barrier(pe.group.world(), nullptr).ok());
  CHECK(streams.signal(words + kWords - 1, 5, SignalOp::add, pe.right(), nullptr).ok());
  CHECK(
      streams.wait(words + kWords - 1, 0, mark_of(pe.left(), kWords - 1) + mark + 5, nullptr).ok());
  // All have what the first gives.
  CHECK(streams.barrier(pe.group.world(), nullptr).ok());
  CHECK(streams.collectives().broadcast(pe.group.world(), words, source, kBytes, 0, nullptr).ok());
  seen = words_at(*on.device, own, kWords);
  const uint32_t whose = (2 * pe.size() - 2) % pe.size();  // by way of the last one
  for (uint64_t i = 0; i < kWords; ++i) CHECK(seen[i] == mark_of(whose, i) + mark);
  CHECK(streams.barrier(pe.group.world(), nullptr).ok());
  CHECK(on.device->synchronize(nullptr).ok());
  CHECK(on.heap->disown(*adopted, kBytes).ok());
  CHECK(!on.heap->is_far(words, 8, pe.right()) && on.heap->at(words, 8, pe.me()) == nullptr);
  CHECK(on.heap->release(on.heap->offset(source)));
}

void adopted_of_far(const Pe& pe, const OnDevice& on) {
  const auto streams = make_streams(*on.heap);
  use_adopted(pe, on, *streams, 1);
  // One has another length: all are told, and nothing has changed.
  const auto made = pe.gpus->make_memory(on.device->id(), 4 << 20);
  CHECK(made);
  CHECK(!on.heap->adopt(made->data(), pe.me() == 0 ? 4 << 20 : 2 << 20));
  use_adopted(pe, on, *streams, 2);
  CHECK(streams->failure() == device::kSymmNothing);
  CHECK(pe.group.barrier(pe.group.world()).ok());
}

void far_adopted(const Pe& pe) {
  adopted_of_far(pe, begin(pe));
}
void apart_adopted(const Pe& pe) {
  adopted_of_far(pe, begin_apart(pe, pe.group, kEndsApart));
}

}  // namespace

const Named kDeviceFarScenarios[] = {
    {"device_far_adopted", far_adopted},   {"device_apart_adopted", apart_adopted},
    {"device_far_steps", far_steps},       {"device_far_pageable", far_pageable},
    {"device_far_programs", far_programs}, {nullptr, nullptr},
};

}  // namespace penstock::symm::test
