// Heaps in GPUs: run where there are some (tests/gpu/symm.sh), with as many PEs as GPUs, fewer and
// more.
#include "pes.h"

namespace penstock::symm::test {
namespace {

void bytes_between_devices(const Pe& pe) {
  auto memory = gpu::devices();
  CHECK(memory);
  const auto count = static_cast<uint32_t>((*memory)->devices().size());
  auto device = gpu::open_symmetric_device(engine::DeviceId(pe.me() % count));
  CHECK(device);
  auto heap = DeviceHeap::make(pe.group, **device, {.bytes = uint64_t{64} << 20});
  if (!heap) {
    std::fprintf(stderr, "PE %u: %s\n", pe.me(), heap.error().message.c_str());
    std::_Exit(1);
  }
  constexpr uint64_t kBytes = 8 << 20;
  const auto place = (*heap)->heap().allocate(kBytes, 64);
  CHECK(place);
  std::byte* const there = (*heap)->address(*place);
  // What was never written is zeros.
  std::vector<uint32_t> words(kBytes / sizeof(uint32_t), 7);
  CHECK((*device)->copy(words.data(), there, kBytes, nullptr).ok());
  CHECK((*device)->synchronize(nullptr).ok());
  for (const uint32_t word : words) CHECK(word == 0);

  for (uint32_t i = 0; i < words.size(); ++i) words[i] = pe.me() * 1'000'000 + i;
  CHECK(pe.group.barrier(pe.group.world()).ok());
  CHECK((*heap)->at(there, kBytes, pe.size()) == nullptr &&
        (*heap)->at(there, uint64_t{1} << 40, 0) == nullptr);
  CHECK(
      (*device)->copy((*heap)->at(there, kBytes, pe.right()), words.data(), kBytes, nullptr).ok());
  CHECK((*device)->synchronize(nullptr).ok());
  CHECK(pe.group.barrier(pe.group.world()).ok());
  std::vector<uint32_t> seen(words.size());
  CHECK((*device)->copy(seen.data(), there, kBytes, nullptr).ok());
  CHECK((*device)->synchronize(nullptr).ok());
  for (uint32_t i = 0; i < seen.size(); ++i) CHECK(seen[i] == pe.left() * 1'000'000 + i);
  CHECK(pe.group.barrier(pe.group.world()).ok());
}

}  // namespace

const Named kDeviceScenarios[] = {
    {"device_bytes", bytes_between_devices},
    {nullptr, nullptr},
};

}  // namespace penstock::symm::test
