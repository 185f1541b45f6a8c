// The side of a benchmark that goes through our rings.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <thread>
#include <vector>

#include "penstock/bench.h"
#include "penstock/console.h"
#include "penstock/engine.h"

namespace penstock::bench {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

// The inner loop of one submitting thread.
class Submitter {
 public:
  Submitter(const Workload& workload, penstock_ring* ring, penstock_region* region,
            uint64_t region_base, penstock_file file, uint64_t seed)
      : workload_(workload),
        ring_(ring),
        region_(region),
        region_base_(region_base),
        file_(file),
        random_(seed),
        started_at_(workload.depth),
        completions_(workload.depth) {}

  void run(uint64_t end);

  Histogram latency;
  uint64_t operations = 0;
  int error = 0;

 private:
  int prepare(uint64_t slot);

  const Workload& workload_;
  penstock_ring* ring_;
  penstock_region* region_;
  const uint64_t region_base_;
  const penstock_file file_;
  engine::SeededRandom random_;
  uint64_t next_block_ = 0;
  std::vector<uint64_t> started_at_;
  std::vector<penstock_completion> completions_;
};

int Submitter::prepare(uint64_t slot) {
  const uint64_t blocks = workload_.file_bytes / workload_.block_bytes;
  const uint64_t block = workload_.random ? random_.below(blocks) : next_block_++ % blocks;
  penstock_io io{};
  io.operation = workload_.write ? PENSTOCK_WRITE : PENSTOCK_READ;
  io.flags = workload_.write ? PENSTOCK_DURABLE : 0;
  io.file = file_;
  io.offset = block * workload_.block_bytes;
  io.length = workload_.block_bytes;
  io.region = region_;
  io.region_offset = region_base_ + slot * workload_.block_bytes;
  io.user_data = slot;
  io.route = workload_.route;
  started_at_[slot] = penstock_now();
  return penstock_prepare(ring_, &io);
}

void Submitter::run(uint64_t end) {
  uint32_t in_flight = 0;
  for (uint64_t slot = 0; slot < workload_.depth && error == 0; ++slot) {
    error = prepare(slot);
    if (error == 0) ++in_flight;
  }
  penstock_submit(ring_);
  while (in_flight > 0) {
    const int count =
        penstock_wait(ring_, completions_.data(), workload_.depth,
                      std::min(workload_.batch, in_flight), penstock_now() + 30 * kSecond);
    if (count <= 0) {
      error = count < 0 ? count : -ETIMEDOUT;
      return;
    }
    const uint64_t now = penstock_now();
    for (int i = 0; i < count; ++i) {
      const penstock_completion& done = completions_[static_cast<size_t>(i)];
      --in_flight;
      if (done.result != static_cast<int64_t>(workload_.block_bytes) && error == 0) {
        error = done.result < 0 ? static_cast<int>(done.result) : -EIO;
      }
      latency.record(now - started_at_[done.user_data]);
      ++operations;
      if (workload_.completed != nullptr) ++*workload_.completed;
      if (now >= end || error != 0) continue;
      error = prepare(done.user_data);
      if (error == 0) ++in_flight;
    }
    penstock_submit(ring_);
  }
}

Failure failure(const std::string& path, int error) {
  return {Status::from_errno(-error), path + ": " + std::strerror(-error)};
}

}  // namespace

std::string Workload::name() const {
  return console::human_bytes(static_cast<double>(block_bytes)) +
         (random ? " random " : " sequential ") + (write ? "durable write" : "read") + ", depth " +
         std::to_string(depth) + (threads > 1 ? " x " + std::to_string(threads) + " threads" : "");
}

Outcome<Measurement> run_on_ring(penstock_session* session, const std::string& path,
                                 const Workload& workload) {
  const uint64_t share = workload.depth * workload.block_bytes;
  const uint64_t region_bytes = share * workload.threads;
  auto region = workload.gpu ? console::create_gpu_region(session, *workload.gpu, region_bytes)
                             : console::create_region(session, region_bytes);
  if (!region) return region.error();
  auto ring = console::create_ring(session, workload.depth, workload.threads);
  if (!ring) return ring.error();
  const penstock_file file =
      penstock_open(session, path.c_str(), workload.write ? O_RDWR : O_RDONLY, 0);
  if (file < 0) return console::api_failure(file);
  if (!workload.gpu) std::memset(penstock_region_base(region->get()), 0x5a, region_bytes);

  std::vector<Submitter> submitters;
  submitters.reserve(workload.threads);
  for (uint32_t i = 0; i < workload.threads; ++i) {
    submitters.emplace_back(workload, ring->get(), region->get(), i * share, file, 17 + i);
  }
  if (workload.on_start) workload.on_start();
  Measurement result;
  {
    const ProcessMeter meter;
    const uint64_t end = penstock_now() + static_cast<uint64_t>(workload.seconds * kSecond);
    std::vector<std::thread> threads;
    for (Submitter& submitter : submitters) threads.emplace_back([&] { submitter.run(end); });
    for (std::thread& thread : threads) thread.join();
    meter.stop(&result);
  }
  Histogram latency;
  for (const Submitter& submitter : submitters) {
    if (submitter.error != 0) return failure(path, submitter.error);
    result.operations += submitter.operations;
    latency.merge(submitter.latency);
  }
  result.bytes = result.operations * workload.block_bytes;
  result.latency_p50_ns = latency.percentile(0.5);
  result.latency_p99_ns = latency.percentile(0.99);
  result.latency_p999_ns = latency.percentile(0.999);
  const int closed = penstock_file_close(session, file);
  if (closed < 0) return failure(path, closed);
  return result;
}

Outcome<void> make_ring_file(penstock_session* session, const std::string& path, uint64_t bytes) {
  constexpr uint64_t kPiece = kMiB;
  constexpr uint32_t kDepth = 8;
  auto region = console::create_region(session, kPiece * kDepth);
  if (!region) return region.error();
  auto ring = console::create_ring(session, kDepth, 1);
  if (!ring) return ring.error();
  const penstock_file file = penstock_open(session, path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644);
  if (file < 0) return console::api_failure(file);
  auto* words = static_cast<uint64_t*>(penstock_region_base(region->get()));
  engine::SeededRandom random(5);
  for (uint64_t i = 0; i < kPiece * kDepth / sizeof(uint64_t); ++i) words[i] = random.next();

  uint64_t offset = 0;
  uint32_t in_flight = 0;
  std::vector<uint64_t> free_slots;
  for (uint64_t slot = 0; slot < kDepth; ++slot) free_slots.push_back(slot);
  while (offset < bytes || in_flight > 0) {
    while (offset < bytes && !free_slots.empty()) {
      const uint64_t slot = free_slots.back();
      free_slots.pop_back();
      const uint64_t length = std::min(kPiece, bytes - offset);
      penstock_io io{};
      io.operation = PENSTOCK_WRITE;
      io.file = file;
      io.offset = offset;
      io.length = length;
      io.region = region->get();
      io.region_offset = slot * kPiece;
      io.user_data = slot;
      const int prepared = penstock_prepare(ring->get(), &io);
      if (prepared < 0) return failure(path, prepared);
      ++in_flight;
      offset += length;
    }
    penstock_submit(ring->get());
    penstock_completion done[kDepth];
    const int count = penstock_wait(ring->get(), done, kDepth, 1, PENSTOCK_FOREVER);
    if (count < 0) return failure(path, count);
    for (int i = 0; i < count; ++i) {
      if (done[i].result < 0) return failure(path, static_cast<int>(done[i].result));
      free_slots.push_back(done[i].user_data);
      --in_flight;
    }
  }
  const int synced = penstock_fsync(session, file);
  if (synced < 0) return failure(path, synced);
  penstock_file_close(session, file);
  return {};
}

}  // namespace penstock::bench
