// A ring over the fake native interface, with memory that is never touched.
#pragma once

#include "ring.h"
#include "tests/fake_penstock.h"
#include "tests/realtime.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <sys/mman.h>
#include <thread>

#include "penstock/testing.h"

namespace penstock::usrbio {

using namespace std::chrono_literals;

// Its thread never ends, so it is never destroyed.
inline FlushTimer& shared_timer() {
  static FlushTimer* const timer = new FlushTimer;
  return *timer;
}

// A ring over the fake, with one iov whose memory is never touched and one registered descriptor.
class RingTest : public testing::Test {
 protected:
  static constexpr size_t kIovBytes = size_t{4} << 30;
  static constexpr int kFd = 5;

  void SetUp() override {
    session_.handle = &native_;
    base_ = static_cast<uint8_t*>(
        ::mmap(nullptr, kIovBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    ASSERT_NE(base_, MAP_FAILED);
    region_ = {&native_, base_, kIovBytes};
    registration_.session = &session_;
    registration_.region = &region_;
    record_.kind = Iov::Kind::created;
    record_.id = random_uuid();
    record_.base = base_;
    record_.size = kIovBytes;
    record_.current.store(&registration_);
    iov_.base = base_;
    iov_.iovh = &record_;
    iov_.size = kIovBytes;
    std::copy(record_.id.begin(), record_.id.end(), iov_.id);
  }
  void TearDown() override {
    ring_.reset();
    ::munmap(base_, kIovBytes);
  }

  void open(const RingOptions& options) {
    auto ring = Ring::create(session_, timer_, options);
    ASSERT_TRUE(ring);
    ring_ = std::move(*ring);
    lane_ = &fake::last_lane();
  }
  void register_fd(bool readable, bool writable) { files_.put(kFd, {0, 17, readable, writable}); }
  int prepare(size_t offset, uint64_t length, const void* userdata = nullptr, bool read = true) {
    return ring_->prepare(iovs_, files_, iov_, read, base_ + offset, kFd, offset, length, userdata);
  }
  int wait(uint32_t max, uint32_t min, std::chrono::milliseconds time) {
    const timespec until = realtime_in(time);
    return ring_->wait(cqes_.data(), max, min, &until);
  }

  penstock_session native_;
  penstock_region region_;
  front::Session session_;
  front::Sessions sessions_{"usrbio"};
  Iovs iovs_{sessions_};
  Files files_{sessions_};
  FlushTimer& timer_ = shared_timer();
  Registration registration_;
  Iov record_;
  hf3fs_iov iov_{};
  uint8_t* base_ = nullptr;
  std::unique_ptr<Ring> ring_;
  penstock_lane* lane_ = nullptr;
  std::array<hf3fs_cqe, 256> cqes_{};
};

}  // namespace penstock::usrbio
