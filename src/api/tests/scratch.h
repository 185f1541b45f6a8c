// A store in a scratch directory, and short ways to use a session of it.
#pragma once

#include "penstock.h"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "penstock/base.h"

namespace penstock::api {

class Scratch {
 public:
  Scratch() {
    std::string name = testing::TempDir() + "penstock-api-XXXXXX";
    path_ = ::mkdtemp(name.data());
    // Others must be able to reach the socket in it.
    std::filesystem::permissions(path_, std::filesystem::perms(0755));
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string store() const { return path_ + "/store"; }

 private:
  std::string path_;
};

// A session with a region and a ring, closed at the end.
struct Client {
  Client() = default;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { penstock_close(session); }

  int open_store(const std::string& directory, bool create = true) {
    return penstock_open_store(directory.c_str(), create ? 1 : 0, &session);
  }
  int connect(const std::string& where) { return penstock_connect(where.c_str(), &session); }
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
    const int count = penstock_wait(ring, &completion, 1, 1, in_seconds(30));
    if (count != 1) return count < 0 ? count : -ETIME;
    EXPECT_EQ(completion.user_data, operation.user_data);
    if (route != nullptr) *route = completion.route;
    return completion.result;
  }

  penstock_session* session = nullptr;
  penstock_region* region = nullptr;
  penstock_ring* ring = nullptr;
};

// Bytes that tell their place and a seed.
inline void fill(std::byte* to, size_t size, uint64_t seed) {
  for (size_t i = 0; i < size; ++i) {
    to[i] = static_cast<std::byte>(mix64(seed + i / 8) >> (8 * (i % 8)));
  }
}
inline bool is_filled(const std::byte* from, size_t size, uint64_t seed) {
  std::vector<std::byte> expected(size);
  fill(expected.data(), size, seed);
  return std::equal(expected.begin(), expected.end(), from);
}

}  // namespace penstock::api
