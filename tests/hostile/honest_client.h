// A program that uses a node as programs do, knows what must come of it, and notes how long it
// took.
#pragma once

#include "raw_session.h"
#include "watched_node.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "penstock/testing.h"
#include "penstock/testing_node.h"

namespace penstock::test {

// Its operations wait behind those of attackers, as nobody has a share of a disk yet.
inline constexpr std::chrono::milliseconds kHonestPatience{60'000};

// Does what programs do, and knows what must come of it.
class HonestClient {
  using Clock = std::chrono::steady_clock;
  using RawRing = agent::RawRing;
  using RawSession = agent::RawSession;

 public:
  explicit HonestClient(const WatchedNode& node)
      : node_(node), session_(connect_to(node.socket())), ring_(session_, 0) {
    session_.patience = ring_.patience = kHonestPatience;
    EXPECT_EQ(ring_.created.status, Code::ok) << ring_.created.text;
    EXPECT_EQ(session_.ask(wire::RegisterRegion{0, 0, region_.size()}, {region_.fd()}).status,
              Code::ok);
    EXPECT_EQ(session_.ask(wire::MakeDirectory{"/good", 0700}).status, Code::ok);
    constexpr uint32_t kAll = wire::kOpenRead | wire::kOpenWrite | wire::kOpenCreate;
    EXPECT_EQ(session_.ask(wire::OpenPath{0, "/good/file", kAll, 0600}).status, Code::ok);
    let_everybody_in();
  }

  void let_everybody_in() {
    session_.ask(wire::MakeDirectory{"/public", 0777});
    wire::ChangeAttributes everybody;
    everybody.path = "/public";
    everybody.mode = 0777;
    session_.ask(everybody);
  }

  // One round of everything.
  void work(uint64_t number) {
    const auto begun = Clock::now();
    use_ring(number);
    const auto used_ring = Clock::now();
    const wire::Reply facts = session_.ask(wire::PathAttributes{"/good/file", true});
    ASSERT_EQ(facts.status, Code::ok) << facts.text;
    times_.push_back({used_ring - begun, Clock::now() - used_ring});
    EXPECT_EQ(std::get<wire::Attributes>(facts.body).length, kFileBytes);
    if (!node_.mount().empty()) use_mount(number);
    if (::geteuid() == 0) {
      RawSession another(connect_to(node_.socket()));
      EXPECT_EQ(another.ask(wire::PathAttributes{"/", true}).status, Code::ok);
    }
    let_everybody_in();
  }

  std::string times() const {
    return "a write and a read of 128 KiB by ring: " + percentiles(&Times::ring) +
           "; a control call: " + percentiles(&Times::call);
  }

 private:
  struct Times {
    Clock::duration ring, call;
  };
  std::string percentiles(Clock::duration Times::*which) const {
    std::vector<double> ms;
    for (const Times& times : times_) {
      ms.push_back(std::chrono::duration<double, std::milli>(times.*which).count());
    }
    if (ms.empty()) return "none";
    std::sort(ms.begin(), ms.end());
    return fmt::format("median {:.2f} ms, p99 {:.2f} ms, most {:.2f} ms", ms[ms.size() / 2],
                       ms[ms.size() * 99 / 100], ms.back());
  }

  static constexpr uint64_t kFileBytes = 128 * kKiB;

  void use_ring(uint64_t number) {
    auto* words = reinterpret_cast<uint64_t*>(region_.bytes().data());
    const size_t count = kFileBytes / sizeof(uint64_t);
    for (size_t i = 0; i < count; ++i) words[i] = mix64(number + i);
    ring::Submission entry{};
    entry.operation = ring::kOperationWrite;
    entry.length = kFileBytes;
    ASSERT_EQ(ring_.run(entry), static_cast<int64_t>(kFileBytes));
    entry.operation = ring::kOperationRead;
    entry.region_offset = kFileBytes;
    ASSERT_EQ(ring_.run(entry), static_cast<int64_t>(kFileBytes));
    ASSERT_EQ(std::memcmp(words, words + count, kFileBytes), 0);
  }

  void use_mount(uint64_t number) const {
    const std::string path = node_.mount() + "/good/by-mount";
    const std::string content(10'000 + number % 1000, static_cast<char>('a' + number % 26));
    write_file(path, content);
    ASSERT_EQ(read_file(path), content);
    std::filesystem::rename(path, path + "-2");
    ASSERT_TRUE(std::filesystem::remove(path + "-2"));
  }

  const WatchedNode& node_;
  SharedMemory region_{2 * kFileBytes, F_SEAL_SHRINK};
  RawSession session_;
  RawRing ring_;
  std::vector<Times> times_;
};

}  // namespace penstock::test
