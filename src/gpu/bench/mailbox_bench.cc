// Small copies by mailboxes on this machine's first GPU: how many, by size and threads.
//
//   mailbox_bench [SECONDS_EACH]
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "penstock/gpu.h"

namespace penstock::gpu {
namespace {

using engine::DeviceId;
using engine::DeviceSpan;

double now() {
  return std::chrono::duration<double>(engine::system_clock().now().time_since_epoch()).count();
}

void stop(const std::string& why) {
  std::fprintf(stderr, "mailbox_bench: %s\n", why.c_str());
  std::exit(1);
}

template <class Value>
Value got(Outcome<Value> outcome) {
  if (!outcome) stop(outcome.error().message);
  return std::move(*outcome);
}

// What one thread did.
struct Share {
  uint64_t sent = 0;
  uint64_t busy = 0;
};

Share send_until(engine::CopyMailbox& mailbox, const DeviceSpan& to, double end) {
  Share share;
  while (now() < end) {
    for (int i = 0; i < 16; ++i) {
      const MutableBytes space = mailbox.space_for(to);
      space[0] = static_cast<std::byte>(i);
      const Status sent = mailbox.send(to, space.data());
      if (!sent.ok() && sent != Code::busy) stop("a copy failed");
      ++(sent.ok() ? share.sent : share.busy);
    }
  }
  return share;
}

void measure(engine::DeviceMemory& memory, uint64_t bytes, size_t threads, double seconds) {
  const DeviceSpan span = got(memory.allocate(DeviceId(0), threads * engine::kMailboxBytesMax));
  std::vector<std::unique_ptr<engine::CopyMailbox>> mailboxes;
  for (size_t i = 0; i < threads; ++i) mailboxes.push_back(got(memory.make_mailbox(DeviceId(0))));
  std::vector<Share> shares(threads);
  const double end = now() + seconds;
  {
    std::vector<std::jthread> running;
    for (size_t i = 0; i < threads; ++i) {
      const DeviceSpan to{span.device, span.data + i * engine::kMailboxBytesMax, bytes,
                          span.allocation};
      running.emplace_back([&, i, to] { shares[i] = send_until(*mailboxes[i], to, end); });
    }
  }
  Share all;
  for (const Share& share : shares) {
    all.sent += share.sent;
    all.busy += share.busy;
  }
  const double rate = static_cast<double>(all.sent) / seconds;
  std::printf("%6llu bytes  %2zu threads  %7.3f M/s  %6.2f us each  %6.2f GB/s  %llu refused\n",
              static_cast<unsigned long long>(bytes), threads, rate * 1e-6,
              1e6 * static_cast<double>(threads) / rate, rate * static_cast<double>(bytes) * 1e-9,
              static_cast<unsigned long long>(all.busy));
  mailboxes.clear();
  if (!memory.release(span).ok()) stop("release the memory");
}

void run(double seconds) {
  engine::DeviceMemory* const memory = got(devices());
  for (const uint64_t bytes : {64U, 4096U, 16384U, 65536U}) {
    for (const size_t threads : {1U, 4U, 16U}) measure(*memory, bytes, threads, seconds);
  }
}

}  // namespace
}  // namespace penstock::gpu

int main(int argc, char** argv) {
  penstock::gpu::run(argc > 1 ? std::atof(argv[1]) : 0.5);
  return 0;
}
