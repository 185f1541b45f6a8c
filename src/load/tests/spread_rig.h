// A spread of random files over simulated GPUs, in virtual time.
#pragma once

#include "sim_carrier.h"

#include <gtest/gtest.h>
#include <optional>

namespace penstock::load {

using engine::DeviceId;
using engine::DeviceSpan;

constexpr uint64_t kPiece = 256 * kKiB;

class SpreadTest : public testing::Test {
 protected:
  explicit SpreadTest(uint64_t seed = 1) : world_(seed) {}
  ~SpreadTest() override {
    spread_.reset();
    carrier_.reset();
  }

  // So many GPUs, with so much memory; `peers` as in SimDeviceOptions.
  void make_gpus(uint32_t count, std::vector<uint64_t> peers = {}) {
    devices_ = std::make_unique<sim::SimDeviceMemory>(
        world_.random(),
        sim::SimDeviceOptions{.devices = count, .memory_bytes = 32 * kMiB, .peers = peers});
    carrier_ = std::make_unique<SimCarrier>(loop_, *devices_, world_.random());
  }

  // Runs of files that are made here: `count` of up to `length_max` bytes, with gaps in memory.
  void make_runs(uint64_t count, uint64_t length_max, uint32_t files = 1) {
    engine::Random& random = world_.random();
    for (uint32_t file = 0; file < files; ++file) {
      order_.files.push_back(fmt::format("file{}", file));
      uint64_t offset = random.below(5000);
      for (uint64_t i = 0; i < count; ++i) {
        const uint64_t length = 1 + random.below(length_max);
        runs_.push_back(
            {.file = file, .offset = offset, .length = length, .memory_offset = bytes_});
        offset += length + random.below(3) * 7;
        bytes_ = align_up(bytes_ + length, 256);
      }
      content_.emplace_back(offset + 1);
      for (size_t i = 0; i < content_.back().size(); ++i) {
        content_.back()[i] = static_cast<std::byte>(mix64(i + file) >> 7);
      }
    }
    order_.pieces = cut(runs_, kPiece);
  }

  void make_links(const std::vector<uint32_t>& wanted, const std::vector<uint32_t>& lenders = {}) {
    for (const uint32_t gpu : wanted) {
      order_.destinations.push_back(*devices_->allocate(DeviceId(gpu), bytes_));
      order_.links.push_back({.device = DeviceId(gpu), .staging = {}});
    }
    for (const uint32_t gpu : lenders) {
      order_.links.push_back(
          {.device = DeviceId(gpu),
           .staging = *devices_->allocate(DeviceId(gpu), kPiece * kPiecesPerLink)});
    }
    for (const auto& facts : devices_->devices()) order_.peers.push_back(facts.peers);
    for (size_t i = 0; i < order_.links.size(); ++i) {
      SimFiles& files = carrier_->add_link();
      for (uint32_t file = 0; file < content_.size(); ++file) files.file(file) = content_[file];
      files_.push_back(&files);
    }
    spread_.emplace(order_, *carrier_);
    carrier_->spread = &*spread_;
  }

  void finish() {
    for (int i = 0; i < 400'000 && !spread_->ended(); ++i) {
      world_.run_for(std::chrono::microseconds(10));
    }
    ASSERT_TRUE(spread_->ended());
  }
  void run() {
    spread_->start();
    finish();
  }

  testing::AssertionResult all_is_there() {
    for (const DeviceSpan& memory : order_.destinations) {
      for (const model::Run& run : runs_) {
        std::vector<std::byte> got(run.length);
        devices_->peek(memory.data + run.memory_offset, got);
        const std::byte* const expected = content_[run.file].data() + run.offset;
        if (std::equal(got.begin(), got.end(), expected)) continue;
        return testing::AssertionFailure() << "other bytes on GPU " << memory.device.value;
      }
    }
    return testing::AssertionSuccess();
  }
  uint64_t carried() const {
    uint64_t sum = 0;
    for (const LinkCounts& link : spread_->counts().links) sum += link.bytes;
    return sum;
  }
  // What came into lenders' memory.
  uint64_t lent() const {
    uint64_t sum = 0;
    for (size_t i = order_.destinations.size(); i < order_.links.size(); ++i) {
      sum += spread_->counts().links[i].bytes;
    }
    return sum;
  }
  uint64_t forwarded() const {
    return spread_->counts().routes[static_cast<size_t>(engine::Route::device_peer)];
  }

  sim::SimWorld world_;
  sim::SimLoop loop_{world_};
  std::unique_ptr<sim::SimDeviceMemory> devices_;
  std::unique_ptr<SimCarrier> carrier_;
  std::vector<model::Run> runs_;
  std::vector<std::vector<std::byte>> content_;
  uint64_t bytes_ = 0;
  Order order_;
  std::vector<SimFiles*> files_;
  std::optional<Spread> spread_;
};

}  // namespace penstock::load
