#include "statistics.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>

namespace penstock::cufile {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

uint64_t now_ns() {
  return static_cast<uint64_t>(engine::system_clock().now().time_since_epoch().count());
}

uint64_t microseconds(engine::Duration time) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(time).count());
}

void add(std::atomic<uint64_t>& count, uint64_t n = 1) {
  count.fetch_add(n, kRelaxed);
}

uint64_t per_second(uint64_t count, double seconds) {
  return seconds > 0 ? static_cast<uint64_t>(static_cast<double>(count) / seconds) : 0;
}

uint64_t mean(uint64_t sum, uint64_t count) {
  return count > 0 ? sum / count : 0;
}

}  // namespace

void Statistics::start() {
  if (running_.exchange(true, kRelaxed)) return;
  started_at_.store(now_ns(), kRelaxed);
}

void Statistics::stop() {
  if (!running_.exchange(false, kRelaxed)) return;
  add(ran_for_, now_ns() - started_at_.load(kRelaxed));
}

void Statistics::reset() {
  const auto clear = [](auto&... counts) { (counts.store(0, kRelaxed), ...); };
  for (Outcomes& one : events_) clear(one.ok, one.failed);
  for (Direction* const one : {&reads_, &writes_}) {
    clear(one->ops.ok, one->ops.failed, one->bytes, one->microseconds, one->batch_bytes,
          one->last_batch_bytes);
    for (Count& size : one->sizes) clear(size);
  }
  for (Device& device : devices_) {
    for (auto* const half : {&device.read, &device.write}) {
      clear(half->ops.ok, half->ops.failed, half->bytes, half->microseconds, half->by_slots,
            half->routed, half->unaligned);
    }
    clear(device.registrations.ok, device.registrations.failed, device.deregistrations,
          device.registered_bytes);
  }
  clear(submit_microseconds_, completion_microseconds_, ran_for_);
  started_at_.store(now_ns(), kRelaxed);
}

void Statistics::count(Event event, bool ok, uint64_t times) {
  if (!counts()) return;
  Outcomes& outcomes = events_[static_cast<size_t>(event)];
  add(ok ? outcomes.ok : outcomes.failed, times);
}

void Statistics::count(const Io& io) {
  if (!counts()) return;
  const uint64_t time = microseconds(io.time);
  Direction& direction = io.write ? writes_ : reads_;
  add(io.ok ? direction.ops.ok : direction.ops.failed);
  if (io.ok) {
    add(direction.bytes, io.bytes);
    add(direction.microseconds, time);
    const auto power = static_cast<size_t>(std::bit_width(io.asked / kKiB));
    add(direction.sizes[std::min(power, direction.sizes.size() - 1)]);
  }
  if (io.batch) {
    add(direction.batch_bytes, io.bytes);
    add(direction.last_batch_bytes, io.bytes);
    add(completion_microseconds_, time);
    count(Event::batch_process, io.ok);
  }
  if (io.device >= kDevices) return;
  Device& device = devices_[io.device];
  auto& half = io.write ? device.write : device.read;
  add(io.ok ? half.ops.ok : half.ops.failed);
  add(half.bytes, io.bytes);
  add(half.microseconds, time);
  // An operation that failed or moved nothing has no route.
  const bool came = io.ok && io.bytes > 0;
  if (came) add(io.route == engine::Route::device_slots ? half.by_slots : half.routed);
  if (!is_aligned(io.offset | io.asked, limits::kBlockBytes)) add(half.unaligned);
}

void Statistics::count_registration(uint32_t device, bool ok, uint64_t bytes) {
  if (!counts()) return;
  count(Event::buffer_register, ok);
  if (device >= kDevices) return;
  add(ok ? devices_[device].registrations.ok : devices_[device].registrations.failed);
  if (ok) add(devices_[device].registered_bytes, bytes);
}

void Statistics::count_deregistration(uint32_t device) {
  if (!counts()) return;
  count(Event::buffer_deregister);
  if (device < kDevices) add(devices_[device].deregistrations);
}

void Statistics::begin_batch(uint64_t operations) {
  if (!counts()) return;
  count(Event::batch_enqueue, true, operations);
  for (Direction* const one : {&reads_, &writes_}) one->last_batch_bytes.store(0, kRelaxed);
}

void Statistics::count_submit(engine::Duration time) {
  if (counts()) add(submit_microseconds_, microseconds(time));
}

CUfileOpCounter_t Statistics::pair_of(const Outcomes& outcomes) {
  return {outcomes.ok.load(kRelaxed), outcomes.failed.load(kRelaxed)};
}

double Statistics::seconds() const {
  uint64_t time = ran_for_.load(kRelaxed);
  if (running_.load(kRelaxed)) time += now_ns() - started_at_.load(kRelaxed);
  return static_cast<double>(time) * 1e-9;
}

void Statistics::fill(CUfileStatsLevel1_t& out) const {
  out = {};
  const auto event = [this](Event which) { return pair_of(events_[static_cast<size_t>(which)]); };
  const double time = seconds();
  out.read_ops = pair_of(reads_.ops);
  out.write_ops = pair_of(writes_.ops);
  out.hdl_register_ops = event(Event::handle_register);
  out.hdl_deregister_ops = event(Event::handle_deregister);
  out.buf_register_ops = event(Event::buffer_register);
  out.buf_deregister_ops = event(Event::buffer_deregister);
  out.read_bytes = reads_.bytes.load(kRelaxed);
  out.write_bytes = writes_.bytes.load(kRelaxed);
  out.read_bw_bytes_per_sec = per_second(out.read_bytes, time);
  out.write_bw_bytes_per_sec = per_second(out.write_bytes, time);
  out.read_lat_sum_us = reads_.microseconds.load(kRelaxed);
  out.write_lat_sum_us = writes_.microseconds.load(kRelaxed);
  out.read_lat_avg_us = mean(out.read_lat_sum_us, out.read_ops.ok);
  out.write_lat_avg_us = mean(out.write_lat_sum_us, out.write_ops.ok);
  out.read_ops_per_sec = per_second(out.read_ops.ok, time);
  out.write_ops_per_sec = per_second(out.write_ops.ok, time);
  out.batch_submit_ops = out.batch_total_submit_ops = event(Event::batch_submit);
  out.batch_complete_ops = event(Event::batch_complete);
  out.batch_setup_ops = event(Event::batch_setup);
  out.batch_cancel_ops = event(Event::batch_cancel);
  out.batch_destroy_ops = event(Event::batch_destroy);
  out.batch_enqueued_ops = event(Event::batch_enqueue);
  out.batch_processed_ops = event(Event::batch_process);
  out.batch_read_bytes = reads_.batch_bytes.load(kRelaxed);
  out.batch_write_bytes = writes_.batch_bytes.load(kRelaxed);
  out.batch_read_bw_bytes = per_second(out.batch_read_bytes, time);
  out.batch_write_bw_bytes = per_second(out.batch_write_bytes, time);
  out.batch_submit_lat_sum_us = submit_microseconds_.load(kRelaxed);
  out.batch_completion_lat_sum_us = completion_microseconds_.load(kRelaxed);
  out.batch_submit_lat_avg_us = mean(out.batch_submit_lat_sum_us, out.batch_submit_ops.ok);
  out.batch_completion_lat_avg_us =
      mean(out.batch_completion_lat_sum_us, out.batch_processed_ops.ok);
  out.batch_submit_ops_per_sec = per_second(out.batch_submit_ops.ok, time);
  out.batch_complete_ops_per_sec = per_second(out.batch_complete_ops.ok, time);
  out.last_batch_read_bytes = reads_.last_batch_bytes.load(kRelaxed);
  out.last_batch_write_bytes = writes_.last_batch_bytes.load(kRelaxed);
}

void Statistics::fill(CUfileStatsLevel2_t& out) const {
  fill(out.basic);
  for (size_t i = 0; i < reads_.sizes.size(); ++i) {
    out.read_size_kb_hist[i] = reads_.sizes[i].load(kRelaxed);
    out.write_size_kb_hist[i] = writes_.sizes[i].load(kRelaxed);
  }
}

void Statistics::fill(CUfileStatsLevel3_t& out) const {
  out = {};
  fill(out.detailed);
  const double time = seconds();
  for (size_t i = 0; i < kDevices; ++i) {
    const Device& device = devices_[i];
    CUfilePerGpuStats_t& gpu = out.per_gpu_stats[i];
    gpu.read_bytes = device.read.bytes.load(kRelaxed);
    gpu.read_bw_bytes_per_sec = per_second(gpu.read_bytes, time);
    gpu.read_duration_us = device.read.microseconds.load(kRelaxed);
    gpu.n_total_reads = device.read.ops.ok.load(kRelaxed);
    gpu.n_posix_reads = device.read.by_slots.load(kRelaxed);
    gpu.n_dr_reads = device.read.routed.load(kRelaxed);
    gpu.n_unaligned_reads = device.read.unaligned.load(kRelaxed);
    gpu.n_reads_err = device.read.ops.failed.load(kRelaxed);
    gpu.writes_bytes = device.write.bytes.load(kRelaxed);
    gpu.write_bw_bytes_per_sec = per_second(gpu.writes_bytes, time);
    gpu.write_duration_us = device.write.microseconds.load(kRelaxed);
    gpu.n_total_writes = device.write.ops.ok.load(kRelaxed);
    gpu.n_posix_writes = device.write.by_slots.load(kRelaxed);
    gpu.n_dr_writes = device.write.routed.load(kRelaxed);
    gpu.n_unaligned_writes = device.write.unaligned.load(kRelaxed);
    gpu.n_writes_err = device.write.ops.failed.load(kRelaxed);
    gpu.n_mmap_ok = device.registrations.ok.load(kRelaxed);
    gpu.n_mmap_err = device.registrations.failed.load(kRelaxed);
    gpu.n_mmap = gpu.n_mmap_ok + gpu.n_mmap_err;
    gpu.n_mmap_free = device.deregistrations.load(kRelaxed);
    gpu.reg_bytes = device.registered_bytes.load(kRelaxed);
  }
}

}  // namespace penstock::cufile
