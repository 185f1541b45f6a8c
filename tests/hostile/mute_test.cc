// Sessions that send requests and never read a reply, beside others on a real node.
#include "raw_session.h"
#include "watched_node.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <poll.h>
#include <thread>

#include "penstock/testing.h"
#include "penstock/testing_node.h"

namespace penstock::test {
namespace {

using agent::RawSession;
using Clock = std::chrono::steady_clock;

constexpr size_t kMute = 24;
constexpr int kCalls = 300;

// The node ends who is mute for long; this connects again for each that it ends.
class MuteSessions {
 public:
  explicit MuteSessions(std::string path) : path_(std::move(path)) {
    thread_ = std::thread([this] { run(); });
  }
  ~MuteSessions() {
    over_ = true;
    thread_.join();
  }
  // Those that find no room for another request: the node has stopped reading them.
  size_t full() const { return full_; }

 private:
  void run() {
    const Result<std::string> hello = wire::encode(wire::Request{1, wire::Hello{}});
    const Result<std::string> request =
        wire::encode(wire::Request{2, wire::PathAttributes{"/", true}});
    std::vector<UniqueFd> sockets(kMute);
    while (!over_) {
      size_t full = 0;
      for (UniqueFd& socket : sockets) {
        pollfd ended{socket.get(), 0, 0};
        if (socket && ::poll(&ended, 1, 0) == 1) socket.reset();
        if (!socket) {
          socket = connect_to(path_);
          if (socket) (void)send_one(socket.get(), *hello);
        }
        while (socket && send_one(socket.get(), *request)) {
        }
        if (socket && errno == EAGAIN) ++full;
      }
      full_ = full;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  static bool send_one(int socket, const std::string& bytes) {
    return ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
  }

  const std::string path_;
  std::atomic<bool> over_{false};
  std::atomic<size_t> full_{0};
  std::thread thread_;
};

Clock::duration median_of_calls(RawSession& session) {
  std::vector<Clock::duration> times(kCalls);
  for (Clock::duration& time : times) {
    const auto begun = Clock::now();
    EXPECT_EQ(session.ask(wire::PathAttributes{"/", true}).status, Code::ok);
    time = Clock::now() - begun;
  }
  std::nth_element(times.begin(), times.begin() + kCalls / 2, times.end());
  return times[kCalls / 2];
}

double in_microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

// On a machine that does nothing else a call in which nobody has to be woken takes 12 us; one for
// which two threads are takes this long as soon as anybody is at work.
constexpr double kWakingMicroseconds = 100;

// Other programs of the machine come and go between the two measurements: one pair that shows them
// close is enough. With a node that waits for mute ones they are thousands of times apart.
TEST(MuteSessions, leave_control_calls_of_others_within_twice_their_time) {
  log::set_level(log::Level::off);
  WatchedNode node({.mount = false});
  ASSERT_TRUE(node.is_up()) << node.ending();
  RawSession good(connect_to(node.socket()));
  double best = 1e9;
  const auto end = Clock::now() + kPatience;
  while (best > 2 && Clock::now() < end) {
    const Clock::duration alone = median_of_calls(good);
    MuteSessions mute(node.socket());
    ASSERT_TRUE(eventually([&] { return mute.full() == kMute; }));
    const Clock::duration beside = median_of_calls(good);
    ASSERT_FALSE(HasFailure());
    best = std::min(
        best, in_microseconds(beside) / std::max(in_microseconds(alone), kWakingMicroseconds));
    std::printf("a control call: %.0f us alone, %.0f us beside %zu mute sessions\n",
                in_microseconds(alone), in_microseconds(beside), kMute);
  }
  EXPECT_LE(best, 2.0);
  EXPECT_TRUE(node.lives()) << node.ending();
}

}  // namespace
}  // namespace penstock::test
