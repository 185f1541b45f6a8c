// Files in memory behind a HostSource: late, out of order, failing, and with a cache whose content
// is replaced under the reader's feet.
#pragma once

#include <atomic>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "penstock/route.h"
#include "penstock/sim.h"
#include "penstock/testing.h"

namespace penstock::route {

struct SimSourceFaults {
  engine::Duration delay_min = std::chrono::microseconds(10);
  engine::Duration delay_max = std::chrono::microseconds(300);
  uint32_t error_permille = 0;
  uint32_t replace_permille = 0;  // an extent of the cache is replaced, at each poll
};

class SimSource final : public HostSource {
 public:
  static constexpr uint64_t kExtent = 64 * kKiB;
  static constexpr uint64_t kCacheBytes = 32 * kMiB;

  SimSource(engine::Loop& loop, engine::Random& random, engine::DeviceMemory& devices)
      : loop_(loop), random_(random), devices_(devices) {
    ASSERT(devices_.pin(cache_, true));
    versions_.resize(kCacheBytes / kExtent);
    checksums_.resize(kCacheBytes / kBlockBytes);
  }
  ~SimSource() override {
    ASSERT(pending_.empty() && held == 0);
    devices_.unpin(cache_);
  }

  std::vector<std::byte>& file(uint32_t id) { return files_[id]; }

  // Puts the file's extent into the cache, behind the one before it if that is there.
  void keep(uint32_t id, uint64_t extent) {
    const auto& bytes = files_[id];
    if (extent * kExtent >= bytes.size()) return;
    const auto before = extent > 0 ? where_.find({id, extent - 1}) : where_.end();
    size_t slot = before != where_.end() ? before->second + 1 : random_.below(versions_.size());
    slot %= versions_.size();
    drop(slot);
    const uint64_t length = std::min<uint64_t>(kExtent, bytes.size() - extent * kExtent);
    std::byte* const to = &cache_[slot * kExtent];
    std::memcpy(to, &bytes[extent * kExtent], length);
    for (uint64_t at = 0; at < length; at += kBlockBytes) {
      checksums_[(slot * kExtent + at) / kBlockBytes] =
          crc32c({to + at, std::min(kBlockBytes, length - at)});
    }
    where_[{id, extent}] = slot;
    held_[slot] = {id, extent};
  }
  void drop(size_t slot) {
    ++versions_[slot];
    const auto found = held_.find(slot);
    if (found != held_.end()) {
      where_.erase(found->second);
      held_.erase(found);
    }
    std::memset(&cache_[slot * kExtent], 0xee, kExtent);
  }
  void drop_all() {
    for (size_t slot = 0; slot < versions_.size(); ++slot) drop(slot);
  }
  // One bit of a cached byte is wrong from now on.
  bool spoil(uint32_t id, uint64_t offset) {
    const auto found = where_.find({id, offset / kExtent});
    if (found == where_.end()) return false;
    cache_[found->second * kExtent + offset % kExtent] ^= std::byte{4};
    return true;
  }

  void submit(HostIo& io) override {
    const auto range = static_cast<uint64_t>((faults.delay_max - faults.delay_min).count());
    const auto delay = static_cast<int64_t>(random_.below(range + 1));
    pending_.push_back({&io, loop_.now() + faults.delay_min + engine::Duration(delay)});
    ++submitted;
  }
  void cancel(HostIo& io) override {
    for (Pending& one : pending_) {
      if (one.io == &io) one.cancelled = true;
    }
  }

  std::optional<Reached> reach(uint32_t, const engine::DeviceSpan& memory) override {
    if (reached == nullptr) return std::nullopt;
    return Reached{{memory.data, memory.length, engine::kNoBuffer, engine::MemoryKind::device},
                   nullptr};
  }
  bool find(uint32_t id, uint64_t offset, uint64_t, Resident* resident) override {
    ++asked_count;
    const auto found = where_.find({id, offset / kExtent});
    if (found == where_.end() || offset >= files_[id].size()) return false;
    const size_t slot = found->second;
    const uint64_t file_end = files_[id].size();
    const uint64_t within = offset % kExtent;
    uint64_t end = offset - within + kExtent;
    // One extent at a time with one ticket: runs are tested by extents that touch.
    size_t last = slot;
    while (last - slot + 1 < 2 && last + 1 < versions_.size()) {
      const auto next = where_.find({id, end / kExtent});
      if (next == where_.end() || next->second != last + 1) break;
      ++last;
      end += kExtent;
    }
    resident->data = &cache_[slot * kExtent + within];
    resident->ends_file = end >= file_end;
    resident->length = std::min(end, file_end) - offset;
    resident->checksums = &checksums_[(slot * kExtent + within) / kBlockBytes];
    resident->ticket[0] = slot << 32 | last;
    resident->ticket[1] = versions_[slot] + versions_[last];
    ++found_count;
    ++held;
    return true;
  }
  void release(const Resident&) override { --held; }
  bool still_there(const Resident& resident) override {
    const size_t slot = resident.ticket[0] >> 32;
    const size_t last = resident.ticket[0] & UINT32_MAX;
    return versions_[slot] + versions_[last] == resident.ticket[1];
  }

  // Ends of reads wake nobody: in real time, look again soon.
  void sleep(engine::Time deadline) override {
    if (sleeps_until_roused) return parker_.park(deadline);
    std::this_thread::sleep_for(std::chrono::microseconds(30));
  }
  void rouse() override { parker_.unpark(); }

  bool poll() override {
    if (faults.replace_permille != 0 && random_.chance(faults.replace_permille, 1000)) {
      drop(random_.below(versions_.size()));
    }
    bool worked = false;
    for (size_t i = 0; i < pending_.size();) {
      const Pending one = pending_[i];
      if (one.due > loop_.now() && !one.cancelled) {
        ++i;
        continue;
      }
      pending_[i] = pending_.back();
      pending_.pop_back();
      loop_.complete(*one.io, one.cancelled ? Status(Code::cancelled) : perform(*one.io));
      worked = true;
    }
    return worked;
  }

  SimSourceFaults faults;
  // Whose memory it reads into and writes from by itself; null: none's.
  sim::SimDeviceMemory* reached = nullptr;
  uint32_t out_of_reach_permille = 0;  // of such operations, that end with not_supported
  uint64_t reached_count = 0;          // of them
  uint32_t flip_permille = 0;          // of them that are checked: a bit lands wrong
  std::atomic<bool> sleeps_until_roused{false};
  // Whether reads leave verifying to the mover when it asks for that. Then bytes at these offsets
  // of every file arrive wrong, so many times; when they are verified here, that is found out.
  bool tells_checksums = true;
  std::map<uint64_t, uint32_t> wrong_bits;
  uint64_t submitted = 0;
  uint64_t asked_count = 0;
  uint64_t found_count = 0;
  int64_t held = 0;

 private:
  struct Pending {
    HostIo* io = nullptr;
    engine::Time due;
    bool cancelled = false;
  };

  Status perform(HostIo& io) {
    io.transferred = 0;
    if (faults.error_permille != 0 && random_.chance(faults.error_permille, 1000)) {
      return Code::io_error;
    }
    auto& bytes = files_[io.file];
    io.route = engine::Route::disk_direct;
    if (io.memory.kind == engine::MemoryKind::device) return perform_on_device(io);
    if (io.write) {
      if (bytes.size() < io.offset + io.memory.length) bytes.resize(io.offset + io.memory.length);
      std::memcpy(&bytes[io.offset], io.memory.data, io.memory.length);
      io.transferred = io.memory.length;
    } else if (io.offset < bytes.size()) {
      io.transferred = std::min<uint64_t>(io.memory.length, bytes.size() - io.offset);
      std::memcpy(io.memory.data, &bytes[io.offset], io.transferred);
      if (io.wants_checksums && tells_checksums) {
        tell_checksums(io, {io.memory.data, io.memory.length});
      }
      if (!spoil_read(io)) return Code::corrupt;
    }
    return Code::ok;
  }
  Status perform_on_device(HostIo& io) {
    ++reached_count;
    if (random_.chance(out_of_reach_permille, 1000)) return Code::not_supported;
    HostIo by_host;
    by_host.write = io.write;
    by_host.file = io.file;
    by_host.offset = io.offset;
    std::vector<std::byte> bytes(io.memory.length);
    by_host.memory = {bytes.data(), bytes.size()};
    if (io.write) reached->peek(io.memory.data, bytes);
    const Status status = perform(by_host);
    io.transferred = by_host.transferred;
    if (io.wants_checksums && tells_checksums) {
      tell_checksums(io, bytes);
      const bool is_checked = io.transferred >= kBlockBytes;
      if (is_checked && random_.chance(flip_permille, 1000)) bytes[0] ^= std::byte{1};
    }
    if (!io.write) reached->poke(io.memory.data, Bytes(bytes).first(io.transferred));
    return status;
  }
  static void tell_checksums(HostIo& io, Bytes bytes) {
    ASSERT(io.offset % kBlockBytes == 0 && io.memory.length % kBlockBytes == 0);
    std::byte* const behind = io.memory.data + io.memory.length;
    std::byte* const place = io.checksum_place != nullptr ? io.checksum_place : behind;
    auto* const checksums = reinterpret_cast<uint32_t*>(place);
    for (uint64_t at = 0; at < io.memory.length; at += kBlockBytes) {
      checksums[at / kBlockBytes] = crc32c(bytes.subspan(at, kBlockBytes));
    }
    io.checksums = checksums;
  }
  // False when the bytes were verified here and are wrong.
  bool spoil_read(HostIo& io) {
    for (auto& [offset, times] : wrong_bits) {
      if (times == 0 || offset < io.offset || offset >= io.offset + io.transferred) continue;
      --times;
      if (io.checksums == nullptr) return false;
      io.memory.data[offset - io.offset] ^= std::byte{16};
    }
    return true;
  }

  engine::Loop& loop_;
  engine::Random& random_;
  engine::DeviceMemory& devices_;
  engine::FutexParker parker_{engine::system_clock()};
  const test::MappedMemory cache_memory_{kCacheBytes};
  const MutableBytes cache_ = cache_memory_.bytes();
  std::map<uint32_t, std::vector<std::byte>> files_;
  std::map<std::pair<uint32_t, uint64_t>, size_t> where_;
  std::map<size_t, std::pair<uint32_t, uint64_t>> held_;
  std::vector<uint64_t> versions_;
  std::vector<uint32_t> checksums_;
  std::vector<Pending> pending_;
};

}  // namespace penstock::route
