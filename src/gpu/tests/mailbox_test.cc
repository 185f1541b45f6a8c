// Mailboxes, their kernels played by threads.
#include "mailbox/mailbox_sender.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <gtest/gtest.h>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "penstock/testing.h"
#include "penstock/testing_kernels.h"

namespace penstock::gpu {
namespace {

using namespace std::chrono_literals;

// A stream: does one kernel after the other.
class Device final : public MailboxKernels {
 public:
  Device() {
    test::play_kernels();
    stream_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  Status start(uint32_t number) override {
    if (const Status failure = fail_start.exchange(Code::ok); !failure.ok()) return failure;
    ++started;
    const std::lock_guard lock(mutex_);
    enqueued_.push_back(number);
    changed_.notify_all();
    return Code::ok;
  }
  bool is_there() override { return started < gone_from; }
  Status look_after() override { return state.load(); }

  // Kernels that have not begun do not begin before fill(false).
  void fill(bool full) {
    const std::lock_guard lock(mutex_);
    full_ = full;
    changed_.notify_all();
  }

  // Waits until every kernel that was started has left.
  bool becomes_idle() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 60s, [&] { return enqueued_.empty() && !serves_; });
  }

  Mailbox mailbox{};
  std::vector<char> buffer = std::vector<char>(kMailboxBytesMax);
  MailboxServer::Patience patience{20'000, 1'000'000};
  std::atomic<Status> fail_start{Code::ok};
  std::atomic<Status> state{Code::ok};
  std::atomic<bool> hangs{false};  // kernels begin, and do nothing meanwhile
  std::atomic<uint32_t> started{0};
  std::atomic<uint32_t> gone_from{UINT32_MAX};  // with this start the memory is gone
  std::atomic<uint32_t> leave_at_once{0};       // so many kernels, from the first, serve nothing
  std::atomic<uint32_t> kernels{0};
  std::atomic<uint64_t> copies{0};

 private:
  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      uint32_t number = 0;
      {
        std::unique_lock lock(mutex_);
        if (!changed_.wait(lock, stop, [&] { return !enqueued_.empty() && !full_; })) return;
        number = enqueued_.front();
        enqueued_.pop_front();
        serves_ = true;
      }
      ++kernels;
      serve(number);
      const std::lock_guard lock(mutex_);
      serves_ = false;
      changed_.notify_all();
    }
  }
  void serve(uint32_t number) {
    const bool leaves = kernels <= leave_at_once;
    MailboxServer server(&mailbox, number, leaves ? MailboxServer::Patience{0, 0} : patience);
    MailboxRequest request;
    server.begin();
    hangs.wait(true);
    while (server.next(&request)) {
      if (!request.is_void) {
        std::memcpy(reinterpret_cast<char*>(request.destination),
                    reinterpret_cast<const char*>(request.source), request.length);
        ++copies;
      }
      server.answer(request);
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<uint32_t> enqueued_;
  bool full_ = false;
  bool serves_ = false;
  std::jthread stream_;
};

class MailboxTest : public testing::Test {
 protected:
  // Sends `text` to memory that has it afterwards, or still has what it had.
  Status send(const std::string& text) { return send(sender_, text); }
  Status send(MailboxSender& sender, const std::string& text) {
    std::memcpy(device_.buffer.data(), text.data(), text.size());
    return sender.send(reinterpret_cast<uint64_t>(memory_.data()), source(),
                       static_cast<uint32_t>(text.size()));
  }
  // By the impatient one, again and again.
  Status send_when_there_is_a_kernel(const std::string& text) {
    Status sent = Code::busy;
    (void)test::eventually([&] { return (sent = send(impatient_, text)) != Code::busy; });
    return sent;
  }
  uint64_t source() const { return reinterpret_cast<uint64_t>(device_.buffer.data()); }
  std::string landed(size_t length) const { return {memory_.data(), length}; }

  std::vector<char> memory_ = std::vector<char>(kMailboxBytesMax, '-');  // aligned, as the buffer
  Device device_;
  MailboxSender sender_{device_.mailbox, device_, {}, 60s};
  MailboxSender impatient_{device_.mailbox, device_, {}, 1ms};
};

TEST_F(MailboxTest, words_are_what_was_asked_for) {
  for (const uint32_t length : {1U, 4096U, 65'535U, kMailboxBytesMax}) {
    for (const uint64_t past : {0U, 9U, 15U}) {
      const MailboxRequest asked{0x7ffe'1234'0000 + past, 0xffff'ffff'fff0 + past, 0x7fed, length};
      MailboxRequest request;
      ASSERT_TRUE(unpack(pack(asked), &request));
      EXPECT_EQ(request.source, asked.source);
      EXPECT_EQ(request.destination, asked.destination);
      EXPECT_EQ(request.number, asked.number);
      EXPECT_EQ(request.length, asked.length);
    }
  }
}

TEST_F(MailboxTest, halves_of_two_requests_do_not_belong_together) {
  for (const uint32_t number : {41U, 0x7ffeU}) {
    const device::Pair old = pack({0x7ffe'0000'1110, 0x7fff'1234'5670, number, 4096});
    const device::Pair next = pack({0x7ffe'0000'2220, 0x7fff'1234'9670, number + 1, 4096});
    MailboxRequest request;
    EXPECT_FALSE(unpack({next.first, old.second}, &request));
    EXPECT_FALSE(unpack({old.first, next.second}, &request));
  }
}

TEST_F(MailboxTest, halves_of_a_request_and_of_its_void_are_one_or_the_other) {
  const MailboxRequest asked{0x7ffe'0000'1118, 0x7fff'1234'5678, 41, 4096};
  const device::Pair words = pack(asked);
  const device::Pair nothing = pack(void_of(asked));
  MailboxRequest request;
  ASSERT_TRUE(unpack({nothing.first, words.second}, &request));
  EXPECT_TRUE(request.is_void);
  ASSERT_TRUE(unpack({words.first, nothing.second}, &request));
  EXPECT_FALSE(request.is_void);
  EXPECT_EQ(request.source, asked.source);
  EXPECT_EQ(request.destination, asked.destination);
  EXPECT_EQ(request.length, asked.length);
}

TEST_F(MailboxTest, request_starts_a_kernel_and_the_next_finds_it) {
  device_.patience = {1'000'000'000, 4'000'000'000};
  for (int i = 0; i < 100; ++i) {
    const std::string text = "message " + std::to_string(i);
    ASSERT_EQ(send(text), Code::ok);
    ASSERT_EQ(landed(text.size()), text);
  }
  EXPECT_LT(device_.kernels, 10U);  // one, if the machine is not so busy that its life passes
  EXPECT_EQ(device_.copies, 100U);
}

TEST_F(MailboxTest, kernel_ends_after_its_life_however_busy_it_is) {
  device_.patience = {1'000'000'000, 1'000'000};
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (device_.kernels < 3 && std::chrono::steady_clock::now() < end)
    ASSERT_EQ(send("again"), Code::ok);
  EXPECT_GE(device_.kernels, 3U);
}

// Pauses around the time at which kernels leave, so that requests come before, while and after.
TEST_F(MailboxTest, every_request_is_served_once_while_kernels_come_and_go) {
  std::mt19937 random(7);
  device_.patience = {20'000, 200'000};
  // Fewer where each takes its time to be scheduled, but no fewer kernels than are asked for below.
  const auto end = std::chrono::steady_clock::now() + test::kPatience;
  uint64_t sent = 0;
  while (sent < 20'000 && (device_.kernels <= 100 || std::chrono::steady_clock::now() < end)) {
    ++sent;
    const std::string text = std::to_string(random());
    ASSERT_EQ(send(text), Code::ok);
    ASSERT_EQ(landed(text.size()), text);
    const auto pause = std::chrono::nanoseconds(random() % 2 * (random() % 50'000));
    const auto until = std::chrono::steady_clock::now() + pause;
    while (std::chrono::steady_clock::now() < until) __builtin_ia32_pause();
  }
  EXPECT_EQ(device_.copies, sent);
  EXPECT_GT(device_.kernels, 100U);
}

TEST_F(MailboxTest, request_that_a_kernel_left_behind_is_for_the_next) {
  device_.leave_at_once = 3;
  device_.patience = {1'000'000'000, 2'000'000'000};
  EXPECT_EQ(send("here"), Code::ok);
  EXPECT_EQ(landed(5), "here-");
  EXPECT_EQ(device_.kernels, 4U);
  EXPECT_EQ(device_.copies, 1U);
}

TEST_F(MailboxTest, kernels_that_never_stay_are_told) {
  device_.leave_at_once = UINT32_MAX;
  device_.patience = {1'000'000'000, 2'000'000'000};  // of those that stay
  EXPECT_EQ(send(impatient_, "never"), Code::busy);
  device_.leave_at_once = 0;
  EXPECT_EQ(send_when_there_is_a_kernel("now"), Code::ok);
  EXPECT_EQ(landed(6), "now---");
  EXPECT_EQ(device_.copies, 1U);
}

// The second kernel finds the request that the first one left behind.
TEST_F(MailboxTest, nothing_lands_where_memory_went_before_the_kernel_was_there) {
  device_.leave_at_once = 1;
  device_.gone_from = 2;
  device_.patience = {1'000'000, 10'000'000};
  EXPECT_EQ(send("late"), Code::invalid_argument);
  while (std::atomic_ref(device_.mailbox.left).load() != 2) std::this_thread::yield();
  EXPECT_EQ(landed(4), "----");
  EXPECT_EQ(device_.copies, 0U);
  device_.gone_from = UINT32_MAX;
  EXPECT_EQ(send("here"), Code::ok);
}

TEST_F(MailboxTest, full_device_is_told_and_nothing_lands_later) {
  device_.fill(true);
  EXPECT_EQ(send(impatient_, "never"), Code::busy);
  EXPECT_EQ(send(impatient_, "nor this"), Code::busy);
  device_.fill(false);
  // As soon as the kernel has begun, requests are served again.
  EXPECT_EQ(send_when_there_is_a_kernel("now"), Code::ok);
  EXPECT_EQ(landed(8), "now-----");
  EXPECT_EQ(device_.copies, 1U);
}

// The device becomes free just when the thread gives up: what was refused must not land. The moment
// is looked for, since a busy machine wakes threads late: earlier after a refusal, later after a
// copy.
TEST_F(MailboxTest, request_is_either_served_or_refused) {
  device_.patience = {5'000, 1'000'000};
  std::mt19937 random(11);
  std::chrono::microseconds moment = 1ms;
  int served = 0;
  int refused = 0;
  const auto end = std::chrono::steady_clock::now() + 60s;
  while ((served < 50 || refused < 50) && std::chrono::steady_clock::now() < end) {
    ASSERT_TRUE(device_.becomes_idle());
    device_.fill(true);
    const auto delay = moment + std::chrono::microseconds(random() % 200);
    std::jthread freeing([&] {
      std::this_thread::sleep_for(delay);
      device_.fill(false);
    });
    memory_[0] = '-';
    const Status sent = send(impatient_, "x");
    ASSERT_TRUE(sent.ok() || sent == Code::busy) << static_cast<int>(sent.code());
    if (sent.ok()) {
      ++served;
      moment += 50us;
      ASSERT_EQ(memory_[0], 'x');
    } else {
      ++refused;
      moment = std::max(moment - 50us, 0us);
      freeing.join();
      ASSERT_TRUE(device_.becomes_idle());
      ASSERT_EQ(memory_[0], '-');
    }
  }
  EXPECT_GT(served, 0);
  EXPECT_GT(refused, 0);
}

TEST_F(MailboxTest, failure_to_start_is_told_and_nothing_lands_later) {
  device_.fail_start.store(Code::no_memory);
  EXPECT_EQ(send("lost"), Code::no_memory);
  EXPECT_EQ(send("found"), Code::ok);
  EXPECT_EQ(landed(5), "found");
  EXPECT_EQ(device_.copies, 1U);
}

// Lost while a kernel is there: it never answers.
TEST_F(MailboxTest, loss_of_the_device_ends_the_wait) {
  device_.hangs = true;
  device_.state.store(Code::peer_gone);
  EXPECT_EQ(send("lost"), Code::peer_gone);
  device_.hangs = false;
  device_.hangs.notify_all();
}

TEST_F(MailboxTest, numbers_wrap) {
  MailboxSender late(device_.mailbox, device_, {kMailboxNumbers - 2, 0xffff'fffe}, 60s);
  device_.mailbox.begun = device_.mailbox.left = 0xffff'fffe;
  device_.patience = {5'000, 1'000'000};
  for (int i = 0; i < 6; ++i) {
    memory_[0] = '-';
    device_.buffer[0] = static_cast<char>('0' + i);
    ASSERT_EQ(late.send(reinterpret_cast<uint64_t>(memory_.data()), source(), 1), Code::ok);
    ASSERT_EQ(memory_[0], '0' + i);
    ASSERT_TRUE(device_.becomes_idle());  // another kernel each time
  }
  EXPECT_GE(late.numbers().request, 4U);
  EXPECT_LT(late.numbers().request, kMailboxNumbers - 2);
  EXPECT_GE(device_.kernels, 6U);
}

TEST_F(MailboxTest, next_sender_goes_on_where_the_last_stopped) {
  ASSERT_EQ(send("first"), Code::ok);
  MailboxSender next(device_.mailbox, device_, sender_.numbers(), 60s);
  std::memcpy(device_.buffer.data(), "second", 6);
  ASSERT_EQ(next.send(reinterpret_cast<uint64_t>(memory_.data()), source(), 6), Code::ok);
  EXPECT_EQ(landed(6), "second");
}

}  // namespace
}  // namespace penstock::gpu
