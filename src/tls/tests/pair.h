// Two sides of a handshake, in one thread.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include "penstock/tls.h"

namespace penstock::tls {

inline constexpr std::array<std::byte, 16> kCluster{std::byte{7}};
inline constexpr int64_t kSecond = 1'000'000'000;
inline constexpr int64_t kDay = 24 * 3600 * kSecond;
inline constexpr int64_t kToday = int64_t{20'000} * kDay;

class TestClock final : public engine::Clock {
 public:
  engine::Time now() const override { return {}; }
  engine::WallTime wall() const override { return {today}; }
  int64_t today = kToday;
};

struct Sockets {
  Sockets() {
    int both[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both), 0);
    caller = UniqueFd(both[0]);
    server = UniqueFd(both[1]);
  }
  UniqueFd caller;
  UniqueFd server;
};

// Until neither can go on.
inline void shake(Handshake& caller, Handshake& server) {
  for (int i = 0; i < 100; ++i) {
    const Handshake::Step one = caller.step();
    const Handshake::Step other = server.step();
    const auto is_over = [](Handshake::Step step) {
      return step == Handshake::Step::done || step == Handshake::Step::failed;
    };
    if (is_over(one) && is_over(other)) return;
  }
}

class Cluster {
 public:
  explicit Cluster(std::array<std::byte, 16> its_id = kCluster)
      : id(its_id), authority(Authority::make(id, {kToday - kDay})) {}

  Credentials::Config node(uint32_t number, std::string roles = "storage",
                           int64_t begins = kToday - kDay, int64_t ends = kToday + 30 * kDay) {
    PrivateKey key = PrivateKey::make();
    auto signed_one = authority.sign(key.request(), {id, NodeId{number}, std::move(roles)},
                                     ++serials, {begins}, {ends});
    EXPECT_TRUE(signed_one) << signed_one.error().message;
    Credentials::Config config;
    config.key = key;
    config.certificate = *signed_one;
    config.authorities = {authority.certificate()};
    config.clock = &clock;
    return config;
  }
  Credentials::Config guest() {
    Credentials::Config config;
    config.expected = authority.certificate().fingerprint();
    config.clock = &clock;
    return config;
  }
  static std::shared_ptr<Credentials> use(Credentials::Config config) {
    auto made = Credentials::make(std::move(config));
    EXPECT_TRUE(made) << made.error().message;
    return *made;
  }

  TestClock clock;
  std::array<std::byte, 16> id;
  Authority authority;
  uint64_t serials = 1;
};

}  // namespace penstock::tls
