// What the thread that serves kernels costs for each request, without a GPU: threads of this
// process ask, and take the addresses that they are told for granted.
//
//   device_ring_bench WHERE [FILE_MIB [ASKERS]]
//
// WHERE is a store that an agent serves, with a node cache that has room for FILE_MIB (default:
// 1024).
#include "penstock_device.h"
#include "penstock_device_ring.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <thread>
#include <vector>

#include "penstock/gpu.h"
#include "penstock/sim.h"

namespace penstock {
namespace {

constexpr uint64_t kStep = 16 * kMiB;
constexpr uint64_t kRequests = 4'000'000;
constexpr uint32_t kDepth = 1024;

int must(int result, const char* what) {
  if (result >= 0) return result;
  std::fprintf(stderr, "device_ring_bench: %s: %s\n", what, penstock_last_error());
  std::exit(1);
}

struct Bench {
  void prepare(const char* where, uint64_t bytes) {
    file_bytes = bytes;
    must(penstock_connect(where, &session), "connect");
    must(penstock_region_create(session, kStep, &staging), "region");
    must(penstock_ring_create(session, 1, 1, &ring), "ring");
    file = must(penstock_open(session, "/device_ring_bench", O_RDWR | O_CREAT, 0644), "open");
    for (uint64_t at = 0; at < bytes; at += kStep) run(PENSTOCK_WRITE, at);
    must(penstock_region_create_device(session, 0, kMiB, &region), "GPU region");
    must(penstock_device_ring_create(session, region, 4096, &device_ring), "device ring");
    must(penstock_device_ring_add_file(device_ring, file), "add file");
    for (uint64_t at = 0; at < bytes; at += kStep) run(PENSTOCK_WARM, at);
    must(penstock_device_ring_view(device_ring, &view, sizeof view), "view");
    translate(view.control);
    translate(view.constants);
    translate(view.free_for);
    translate(view.hints);
  }
  // To an address that this process may follow.
  template <class T>
  void translate(T*& pointer) {
    pointer =
        reinterpret_cast<T*>(gpus.as_kernels_see(reinterpret_cast<const std::byte*>(pointer)));
  }
  void run(uint8_t operation, uint64_t at) const {
    penstock_io io{};
    io.operation = operation;
    io.file = file;
    io.offset = at;
    io.length = kStep;
    io.region = staging;
    must(penstock_prepare(ring, &io), "prepare");
    must(penstock_submit(ring), "submit");
    penstock_completion completion{};
    must(penstock_wait(ring, &completion, 1, 1, PENSTOCK_FOREVER), "wait");
    if (completion.result < 0) std::printf("operation %d: %ld\n", operation, completion.result);
  }
  // Keeps kDepth / askers requests in flight; returns how many were answered with an address.
  uint64_t ask(uint64_t seed, uint64_t requests, uint32_t depth, uint32_t shift) const {
    device::Ring own = view;
    engine::SeededRandom own_random(seed);
    std::vector<device::Ticket> tickets(depth);
    uint64_t addresses = 0;
    for (uint64_t i = 0; i < requests + depth; ++i) {
      device::Ticket& ticket = tickets[i % depth];
      device::Answer answer{};
      while (ticket.pending) {
        if (!device::look(own, ticket, &answer)) continue;
        addresses += answer.kind == device::kAddress ? 1 : 0;
        device::conclude(own, ticket, answer, true);
      }
      if (i >= requests) continue;
      device::Request request;
      request.length = 4096;
      request.offset = own_random.below(file_bytes / 4096 - 1) * 4096 + shift;
      while (device::submit(own, request, &ticket) != 0) {
      }
    }
    return addresses;
  }
  void measure(uint32_t askers, uint32_t shift) {
    penstock_device_ring_stats before{}, after{};
    must(penstock_device_ring_get_stats(device_ring, &before), "stats");
    const uint64_t begun = penstock_now();
    std::atomic<uint64_t> addresses{0};
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < askers; ++i) {
      threads.emplace_back(
          [&, i] { addresses += ask(begun + i, kRequests / askers, kDepth / askers, shift); });
    }
    for (std::thread& thread : threads) thread.join();
    const auto nanoseconds = static_cast<double>(penstock_now() - begun);
    must(penstock_device_ring_get_stats(device_ring, &after), "stats");
    std::printf("offsets + %4u, %u askers: %.2f M/s, thread %.0f ns a request, %.1f %% addresses\n",
                shift, askers, static_cast<double>(kRequests) / nanoseconds * 1e3,
                static_cast<double>(after.thread_nanoseconds - before.thread_nanoseconds) /
                    static_cast<double>(kRequests),
                static_cast<double>(addresses) * 100 / static_cast<double>(kRequests));
  }

  engine::SeededRandom random{1};
  sim::SimDeviceMemory gpus{random};
  uint64_t file_bytes = 0;
  penstock_session* session = nullptr;
  penstock_region* staging = nullptr;
  penstock_region* region = nullptr;
  penstock_ring* ring = nullptr;
  penstock_device_ring* device_ring = nullptr;
  penstock_file file = -1;
  device::Ring view{};
};

}  // namespace
}  // namespace penstock

int main(int count, char** arguments) {
  using namespace penstock;  // NOLINT: a program
  if (count < 2)
    return std::fputs("usage: device_ring_bench WHERE [FILE_MIB [ASKERS]]\n", stderr), 2;
  device::host_world = {[] { return penstock_now(); }, [](uint32_t) { std::this_thread::yield(); }};
  Bench bench;
  gpu::replace_devices(&bench.gpus);
  bench.prepare(arguments[1], (count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1024) * kMiB);
  const auto askers =
      count > 3 ? static_cast<uint32_t>(std::strtoul(arguments[3], nullptr, 10)) : 1;
  for (const uint32_t shift : {0U, 0U, 0U, 77U}) bench.measure(askers, shift);
  penstock_close(bench.session);
  return 0;
}
