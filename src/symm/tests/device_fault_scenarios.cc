// What goes wrong with heaps in GPUs: PEs that are killed, memory that is not there or not reached,
// kernels with wrong arguments, devices that are lost. On real GPUs all but what only simulated
// ones can be told to do.
#include "../image.h"
#include "devices.h"

#include <array>
#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <unistd.h>

namespace penstock::symm::test {
namespace {

using std::chrono::steady_clock;

constexpr auto kSoon = std::chrono::seconds(10);

// The last PE is killed while the others wait. They hear of it, join again without it, with a new
// heap on the same GPUs, and go on.
void rest_goes_on(const Pe& pe, const std::function<void(const OnDevice&, DeviceStreams&)>& wait) {
  OnDevice on = begin(pe);
  auto streams = make_streams(*on.heap);
  use(pe.group, *on.heap, *streams, 1);
  const uint32_t last = pe.size() - 1;
  if (pe.me() == last) {
    ::usleep(50'000);
    ::kill(::getpid(), SIGKILL);
  }
  const auto begin_time = steady_clock::now();
  wait(on, *streams);
  CHECK(steady_clock::now() - begin_time < kSoon);
  CHECK(pe.group.first_gone() == last);
  // What comes now ends at once, and says so.
  CHECK(pe.group.sync(pe.group.world()).code() == Code::peer_gone);

  streams.reset();
  on.heap.reset();
  GroupOptions rest{.name = "rest", .heap_bytes = 1 << 20};
  for (uint32_t rank = 0; rank < last; ++rank) rest.ranks.push_back(rank);
  auto group = Group::join(pe.member, rest);
  CHECK(group);
  const auto heap = make_heap(**group, *on.device);
  const auto again = make_streams(*heap);
  for (uint64_t i = 0; i < 10; ++i) {
    // So long that the others' kernels ask whether somebody has ended: of this group nobody has.
    if (pe.me() == i % last) ::usleep(10'000);
    use(**group, *heap, *again, i);
  }
  CHECK((*group)->barrier((*group)->world()).ok());
}

void killed_in_a_barrier_on_a_stream(const Pe& pe) {
  rest_goes_on(pe, [&](const OnDevice& on, DeviceStreams& streams) {
    // Those that are queued behind the first end, too.
    for (int i = 0; i < 5; ++i) CHECK(streams.barrier(pe.group.world(), nullptr).ok());
    CHECK(on.device->synchronize(nullptr).ok());
    CHECK(streams.failure() == device::kSymmPeerGone);
  });
}

void killed_while_kernels_wait_for_a_word(const Pe& pe) {
  rest_goes_on(pe, [&](const OnDevice& on, DeviceStreams& streams) {
    auto* const signal = on.allocate<uint64_t>(1);
    CHECK(streams.wait(signal, 0, 77, nullptr).ok());
    CHECK(on.device->synchronize(nullptr).ok());
    CHECK(streams.failure() == device::kSymmPeerGone);
  });
}

// One that leaves is no trouble, unless others' kernels still wait for it.
void leaves_while_kernels_wait(const Pe& pe) {
  OnDevice on = begin(pe);
  auto streams = make_streams(*on.heap);
  use(pe.group, *on.heap, *streams, 1);
  if (pe.me() == 0) return;
  const auto begin_time = steady_clock::now();
  auto* const signal = on.allocate<uint64_t>(1);
  CHECK(streams->wait(signal, 0, 77, nullptr).ok());
  CHECK(on.device->synchronize(nullptr).ok());
  CHECK(streams->failure() == device::kSymmPeerGone);
  const auto took = steady_clock::now() - begin_time;
  CHECK(took >= std::chrono::seconds(9) && took < std::chrono::seconds(30));
  CHECK(pe.group.first_gone() == 0);
}

void killed_in_a_barrier_of_the_host(const Pe& pe) {
  rest_goes_on(pe, [&](const OnDevice&, DeviceStreams& streams) {
    CHECK(pe.group.barrier(pe.group.world()).code() == Code::peer_gone);
    CHECK(streams.failure() == device::kSymmNothing);
  });
}

// Several groups of the same PEs on the same GPUs, whose ends come in any order.
void groups_in_any_order(const Pe& pe) {
  struct One {
    std::unique_ptr<Group> group;
    std::unique_ptr<gpu::SymmetricDevice> device;
    std::unique_ptr<DeviceHeap> heap;
    std::unique_ptr<DeviceStreams> streams;

    void end() {
      streams.reset();
      heap.reset();
      device.reset();
      group.reset();
    }
  };
  const auto join = [&](const char* name) {
    One one;
    auto group = Group::join(pe.member, {.name = name, .heap_bytes = 1 << 20});
    CHECK(group);
    one.group = std::move(*group);
    one.device = open_device(pe);
    one.heap = make_heap(*one.group, *one.device, 1 << 20);
    one.streams = make_streams(*one.heap);
    return one;
  };
  const auto use_it = [](One& one, uint64_t mark) {
    use(*one.group, *one.heap, *one.streams, mark);
  };
  One first = join("first");
  One second = join("second");
  use_it(first, 1);
  use_it(second, 2);
  CHECK(first.heap->at(second.heap->address(0), 8, pe.me()) == nullptr);
  CHECK(pe.group.barrier(pe.group.world()).ok());
  first.end();
  use_it(second, 3);
  One third = join("third");
  use_it(third, 4);
  use_it(second, 5);
  // The same name once more, when its group has ended.
  One again = join("first");
  CHECK(pe.group.barrier(pe.group.world()).ok());
  third.end();
  use_it(again, 6);
  use_it(second, 7);
  CHECK(pe.group.barrier(pe.group.world()).ok());
  second.end();
  use_it(again, 8);
  CHECK(pe.group.barrier(pe.group.world()).ok());
  again.end();
}

void heap_that_is_full(const Pe& pe) {
  const auto device = open_device(pe);
  // More than any GPU has: all are told, and none is left waiting.
  const auto begin_time = steady_clock::now();
  const auto none = DeviceHeap::make(pe.group, *device, {.bytes = uint64_t{400} << 30});
  CHECK(!none && none.error().status.code() == Code::no_memory);
  CHECK(none.error().message.find("GPU 0") != std::string::npos);
  CHECK(steady_clock::now() - begin_time < kSoon);

  const auto heap = make_heap(pe.group, *device, 8 << 20);
  CHECK(!heap->allocate(9 << 20, 16));
  // It is as it was.
  const auto whole = heap->allocate(8 << 20, 16);
  CHECK(whole);
  CHECK(!heap->allocate(uint64_t{8} << 20, 16));
  CHECK(heap->release(*whole));
  const auto streams = make_streams(*heap);
  use(pe.group, *heap, *streams, 1);
}

// A kernel that is given what is not there reports it and traps. Nothing works on the device any
// more in this process; the host's words do.
void kernel_refuses(const Pe& pe, int other, bool in_heap, device::SymmFailure why) {
  const OnDevice on = begin(pe);
  const auto streams = make_streams(*on.heap);
  use(pe.group, *on.heap, *streams, 1);
  auto* signal = on.allocate<uint64_t>(1);
  if (!in_heap) signal = reinterpret_cast<uint64_t*>(on.heap->address(0)) - 1;
  // A second device object has a list of kernels of its own.
  const auto second = open_device(pe);
  const std::array<const char*, 1> names = {"penstock_symm_signal"};
  CHECK(second->load_kernels(kernel_image(), names));
  CHECK(pe.group.barrier(pe.group.world()).ok());
  if (pe.me() == 0) {
    device::SymmState state = on.heap->state();
    uint64_t value = 1;
    int op = 9;
    std::array<void*, 5> arguments = {&state, &signal, &value, &op, &other};
    CHECK(second->launch({.kernel = 0, .arguments = arguments}).ok());
    CHECK(second->synchronize(nullptr).code() == Code::peer_gone);
    CHECK(!streams->barrier(pe.group.world(), nullptr).ok());
    const device::SymmReport report = streams->report();
    CHECK(report.why == why && streams->failure() == why);
    CHECK(report.pe == other && report.address == reinterpret_cast<uintptr_t>(signal));
  }
  CHECK(pe.group.barrier(pe.group.world()).ok());
  if (pe.me() != 0) {
    CHECK(streams->failure() == device::kSymmNothing);
    CHECK(on.device->synchronize(nullptr).ok());
  }
}

void kernel_names_no_pe(const Pe& pe) {
  kernel_refuses(pe, 99, true, device::kSymmNoSuchPe);
}
void kernel_uses_a_wrong_address(const Pe& pe) {
  kernel_refuses(pe, 0, false, device::kSymmNotSymmetric);
}

// ---- what only simulated GPUs do when they are told to ----

// One PE has no room: all fail together, and say which; then all succeed with less.
void one_has_no_memory(const Pe& pe) {
  CHECK(pe.gpus != nullptr);
  const auto device = open_device(pe);
  const uint32_t last = pe.size() - 1;
  for (const bool refuses : {false, true}) {
    if (pe.me() == last)
      pe.gpus->set_faults({.allocates_at_most = 48 << 20, .refuses_reservations = refuses});
    const auto begin_time = steady_clock::now();
    const auto none = DeviceHeap::make(pe.group, *device, {.bytes = kDeviceHeapBytes});
    CHECK(!none && none.error().status.code() == Code::no_memory);
    CHECK(none.error().message.starts_with("PE " + std::to_string(last) + ": GPU "));
    CHECK(steady_clock::now() - begin_time < kSoon);
  }
  pe.gpus->set_faults({.allocates_at_most = 48 << 20});
  const auto heap = make_heap(pe.group, *device, 8 << 20);
  const auto streams = make_streams(*heap);
  use(pe.group, *heap, *streams, 1);
}

// No way between two GPUs: told, with the pair.
void one_is_not_reached(const Pe& pe) {
  CHECK(pe.gpus != nullptr && pe.size() > 1);
  const auto device = open_device(pe);
  if (pe.me() == 1) pe.gpus->set_faults({.unreachable = 1});
  const auto none =
      DeviceHeap::make(pe.group, *device, {.bytes = kDeviceHeapBytes, .spans_nodes = false});
  CHECK(!none && none.error().status.code() == Code::not_supported);
  CHECK(none.error().message.starts_with("PE 1: the memory of PE 0: GPU 1: "));
  pe.gpus->set_faults({});
  const auto heap = make_heap(pe.group, *device);
  const auto streams = make_streams(*heap);
  use(pe.group, *heap, *streams, 1);
}

// Heaps over several nodes have to be asked for.
void nodes_are_refused(const Pe& pe) {
  const auto device = open_device(pe);
  const auto none =
      DeviceHeap::make(pe.group, *device, {.bytes = kDeviceHeapBytes, .spans_nodes = false});
  CHECK(!none && none.error().status.code() == Code::not_supported);
}

// What cannot be launched is told by the call, and changes nothing.
void launches_fail(const Pe& pe) {
  CHECK(pe.gpus != nullptr);
  const OnDevice on = begin(pe);
  const auto streams = make_streams(*on.heap);
  auto* const signal = on.allocate<uint64_t>(1);
  pe.gpus->set_faults({.launches_until_failure = 0});
  CHECK(streams->barrier(pe.group.world(), nullptr).code() == Code::no_memory);
  CHECK(streams->signal(signal, 1, SignalOp::set, pe.right(), nullptr).code() == Code::no_memory);
  CHECK(streams->wait(signal, 0, 1, nullptr).code() == Code::no_memory);
  CHECK(on.device->synchronize(nullptr).ok());
  pe.gpus->set_faults({});
  CHECK(pe.group.barrier(pe.group.world()).ok());
  CHECK(words_at(*on.device, signal, 1)[0] == 0);
  use(pe.group, *on.heap, *streams, 1);
}

// A GPU is lost while others wait for its PE: that one is told by its calls, and ends; the others'
// kernels hear of it.
void one_is_lost(const Pe& pe) {
  CHECK(pe.gpus != nullptr);
  const OnDevice on = begin(pe);
  const auto streams = make_streams(*on.heap);
  use(pe.group, *on.heap, *streams, 1);
  if (pe.me() == pe.size() - 1) {
    auto* const signal = on.allocate<uint64_t>(1);
    CHECK(streams->wait(signal, 0, 1, nullptr).ok());
    pe.gpus->lose(on.device->id());
    CHECK(on.device->synchronize(nullptr).code() == Code::peer_gone);
    CHECK(streams->barrier(pe.group.world(), nullptr).code() == Code::peer_gone);
    CHECK(streams->put(signal, signal, 8, 0, nullptr).code() == Code::peer_gone);
    const auto none = DeviceHeap::make(pe.group, *on.device, {.bytes = 1 << 20});
    std::_Exit(7);
  }
  const auto none = DeviceHeap::make(pe.group, *on.device, {.bytes = 1 << 20});
  CHECK(!none && none.error().status.code() == Code::peer_gone);
  CHECK(streams->barrier(pe.group.world(), nullptr).ok());
  CHECK(on.device->synchronize(nullptr).ok());
  CHECK(streams->failure() == device::kSymmPeerGone);
}

}  // namespace

const Named kDeviceFaultScenarios[] = {
    {"device_in_barrier", killed_in_a_barrier_on_a_stream},
    {"device_in_wait", killed_while_kernels_wait_for_a_word},
    {"device_in_host_barrier", killed_in_a_barrier_of_the_host},
    {"device_leaves", leaves_while_kernels_wait},
    {"device_groups", groups_in_any_order},
    {"device_full", heap_that_is_full},
    {"device_no_such_pe", kernel_names_no_pe},
    {"device_wrong_address", kernel_uses_a_wrong_address},
    {"device_no_memory_at_one", one_has_no_memory},
    {"device_unreachable", one_is_not_reached},
    {"device_nodes_refused", nodes_are_refused},
    {"device_launches_fail", launches_fail},
    {"device_lost", one_is_lost},
    {nullptr, nullptr},
};

}  // namespace penstock::symm::test
