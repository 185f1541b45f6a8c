// Short ways to use a session.
#pragma once

#include "penstock.h"

#include <cstdlib>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <string>

#include "penstock/base.h"
#include "penstock/testing.h"

namespace penstock::api {

// A session with a region and a ring, closed at the end.
struct Client {
  Client() = default;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { penstock_close(session); }

  int open_store(const std::string& directory, bool create = true) {
    return penstock_open_store(directory.c_str(), create ? 1 : 0, &session);
  }
  int connect(const std::string& where) {
    // Unless the test has said how long: a busy machine takes its time to start a successor.
    const bool is_said = std::getenv("PENSTOCK_RECONNECT_SECONDS") != nullptr;
    if (!is_said) ::setenv("PENSTOCK_RECONNECT_SECONDS", "60", 1);
    const int result = penstock_connect(where.c_str(), &session);
    if (!is_said) ::unsetenv("PENSTOCK_RECONNECT_SECONDS");
    return result;
  }
  void prepare(size_t region_bytes = kMiB, uint32_t entries = 64, uint32_t lanes = 4) {
    ASSERT_EQ(penstock_region_create(session, region_bytes, &region), 0) << penstock_last_error();
    ASSERT_EQ(penstock_ring_create(session, entries, lanes, &ring), 0) << penstock_last_error();
  }
  std::byte* memory() const { return static_cast<std::byte*>(penstock_region_base(region)); }

  penstock_file open(const std::string& path, int flags, mode_t mode = 0644) const {
    return penstock_open(session, path.c_str(), flags, mode);
  }
  penstock_io io(uint8_t operation, penstock_file file, uint64_t offset, uint64_t length,
                 uint64_t region_offset = 0, uint64_t user_data = 0) const {
    penstock_io out{};
    out.operation = operation;
    out.file = file;
    out.offset = offset;
    out.length = length;
    out.region = region;
    out.region_offset = region_offset;
    out.user_data = user_data;
    return out;
  }
  static uint64_t in_seconds(uint64_t seconds) { return penstock_now() + seconds * 1'000'000'000; }

  // One operation and its result; its route in `route`.
  int64_t run(const penstock_io& operation, penstock_route* route = nullptr) const {
    const int prepared = penstock_prepare(ring, &operation);
    if (prepared < 0) return prepared;
    const int submitted = penstock_submit(ring);
    if (submitted < 0) return submitted;
    penstock_completion completion{};
    const int count = penstock_wait(ring, &completion, 1, 1, in_seconds(60));
    if (count != 1) return count < 0 ? count : -ETIME;
    EXPECT_EQ(completion.user_data, operation.user_data);
    if (route != nullptr) *route = completion.route;
    return completion.result;
  }

  penstock_session* session = nullptr;
  penstock_region* region = nullptr;
  penstock_ring* ring = nullptr;
};

}  // namespace penstock::api
