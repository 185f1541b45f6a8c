#include "tests/fake_penstock.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>

namespace {

penstock_ring* last_ring = nullptr;
int rings = 0;

}  // namespace

penstock_lane& fake::last_lane() {
  return last_ring->lane;
}

int fake::rings_alive() {
  return rings;
}

void penstock_lane::finish(size_t index, int64_t result) {
  penstock_completion completion{};
  completion.user_data = submitted.at(index).user_data;
  completion.result = result;
  submitted.erase(submitted.begin() + static_cast<std::ptrdiff_t>(index));
  completions.push_back(completion);
  arrived.notify_all();
}

void penstock_lane::complete(size_t index, int64_t result) {
  const std::lock_guard lock(mutex);
  finish(index, result);
}

void penstock_lane::complete_oldest(int64_t result) {
  complete(0, result);
}

void penstock_lane::complete_all() {
  const std::lock_guard lock(mutex);
  while (!submitted.empty()) finish(0, static_cast<int64_t>(submitted.front().length));
}

void penstock_lane::kill() {
  const std::lock_guard lock(mutex);
  dead = true;
  while (!submitted.empty()) finish(0, -ECONNRESET);
  arrived.notify_all();
}

penstock_session::~penstock_session() {
  for (penstock_region* region : registered) delete region;
}

std::vector<uint32_t> penstock_lane::seen_batches() {
  const std::lock_guard lock(mutex);
  return batches;
}

extern "C" {

uint64_t penstock_now(void) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

const char* penstock_last_error(void) {
  return "the fake said so";
}

int penstock_connect(const char*, penstock_session**) {
  return -ECONNREFUSED;
}

int penstock_region_register(penstock_session* session, int, uint64_t, void* base, size_t size,
                             penstock_region** region) {
  if (session->fail_register != 0) return session->fail_register;
  *region = new penstock_region{session, base, size};
  session->registered.push_back(*region);
  return 0;
}

int penstock_region_register_named(penstock_session* session, int fd, const char*, const char*,
                                   void* base, size_t size, penstock_region** region) {
  return penstock_region_register(session, fd, 0, base, size, region);
}

int penstock_region_keep(penstock_region*) {
  return 0;
}

int penstock_region_release(penstock_region* region) {
  std::erase(region->session->registered, region);
  ++region->session->released;
  delete region;
  return 0;
}

// There is no GPU: what needs one is tested with a real agent and simulated GPUs.
int penstock_gpu_count(void) {
  return -ENOENT;
}

int penstock_region_create_device(penstock_session*, int, size_t, penstock_region**) {
  return -ENOENT;
}

int penstock_region_register_device(penstock_session*, void*, size_t, penstock_region**) {
  return -ENOENT;
}

int penstock_region_publish(penstock_region*, const unsigned char*) {
  return -EINVAL;
}

int penstock_region_unpublish(penstock_region*) {
  return -EINVAL;
}

int penstock_region_open(penstock_session*, const unsigned char*, penstock_region**) {
  return -ENOENT;
}

int penstock_region_settle(const penstock_region*) {
  return 0;
}

int penstock_region_gpu(const penstock_region*) {
  return -1;
}

void* penstock_region_base(const penstock_region* region) {
  return region->base;
}

size_t penstock_region_size(const penstock_region* region) {
  return region->size;
}

penstock_file penstock_open_fd(penstock_session*, int) {
  return -EBADF;
}

int penstock_file_close_later(penstock_session*, penstock_file) {
  return 0;
}

int penstock_ring_create(penstock_session*, uint32_t entries, uint32_t, penstock_ring** ring) {
  *ring = last_ring = new penstock_ring;
  last_ring->lane.capacity = entries;
  ++rings;
  return 0;
}

int penstock_ring_destroy(penstock_ring* ring) {
  delete ring;
  --rings;
  return 0;
}

int penstock_lane_claim(penstock_ring* ring, penstock_lane** lane) {
  *lane = &ring->lane;
  return 0;
}

void penstock_close(penstock_session*) {}

int penstock_lane_descriptor(penstock_lane*) {
  return -ENOSYS;
}

int penstock_lane_release(penstock_lane* lane) {
  const std::lock_guard lock(lane->mutex);
  lane->prepared.clear();
  lane->submitted.clear();
  lane->completions.clear();
  lane->in_flight = 0;
  return 0;
}

int penstock_lane_prepare(penstock_lane* lane, const penstock_io* io) {
  const std::lock_guard lock(lane->mutex);
  if (lane->dead) return -ECONNRESET;
  if (lane->in_flight == lane->capacity) return -EAGAIN;
  if (lane->refuse_prepare_after == 0) return -EBADF;
  if (lane->refuse_prepare_after > 0) --lane->refuse_prepare_after;
  ++lane->in_flight;
  lane->prepared.push_back(*io);
  return 0;
}

int penstock_lane_submit(penstock_lane* lane, uint32_t count) {
  bool dead = false;
  uint32_t moved = 0;
  {
    const std::lock_guard lock(lane->mutex);
    while (moved < count && !lane->prepared.empty()) {
      lane->submitted.push_back(lane->prepared.front());
      lane->prepared.pop_front();
      ++moved;
    }
    if (moved > 0) lane->batches.push_back(moved);
    dead = lane->dead;
  }
  if (dead) lane->kill();
  return static_cast<int>(moved);
}

int penstock_lane_wait(penstock_lane* lane, penstock_completion* completions, uint32_t max,
                       uint32_t min, uint64_t deadline) {
  std::unique_lock lock(lane->mutex);
  lane->has_waiter = true;
  const auto enough = [&] { return lane->completions.size() >= min || lane->dead; };
  if (deadline == PENSTOCK_FOREVER) {
    lane->arrived.wait(lock, enough);
  } else {
    const uint64_t now = penstock_now();
    const uint64_t left = deadline > now ? deadline - now : 0;
    lane->arrived.wait_for(lock, std::chrono::nanoseconds(left), enough);
  }
  uint32_t taken = 0;
  while (taken < max && !lane->completions.empty()) {
    completions[taken++] = lane->completions.front();
    lane->completions.pop_front();
  }
  lane->in_flight -= taken;
  lane->has_waiter = false;
  if (taken == 0 && lane->dead) return -ECONNRESET;
  return static_cast<int>(taken);
}

}  // extern "C"
