// The kernel's records against this library's, both ways, over a connection of this process to
// itself. Skipped where the kernel has no TLS; the guest of ./dev test verbs has.
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <vector>

#include "penstock/tls.h"

namespace penstock::tls {
namespace {

using limits::kContentMax;
using limits::kRecordExtraBytes;
using limits::kRecordHeaderBytes;
using limits::kTrailerBytes;

constexpr engine::Time kNow{std::chrono::seconds(100)};

TrafficSecret secret_of(uint8_t fill) {
  std::array<std::byte, TrafficSecret::kBytes> bytes{};
  bytes.fill(static_cast<std::byte>(fill));
  return TrafficSecret(bytes);
}

std::vector<std::byte> some_bytes(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(mix64(i));
  return bytes;
}

class Kernel : public testing::Test {
 protected:
  void SetUp() override {
    const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof address;
    ASSERT_EQ(::bind(listener.get(), any, sizeof address), 0);
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    ASSERT_EQ(::getsockname(listener.get(), any, &length), 0);
    theirs_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(theirs_.get(), any, sizeof address), 0);
    ours_ = UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_TRUE(ours_);
  }
  // The kernel has `ours_`, whose keys have sealed and opened so many records before.
  void take(uint64_t sealed = 0, uint64_t opened = 0) {
    if (const auto why = why_no_kernel_tls()) GTEST_SKIP() << *why;
    const Sealer sealer(secret_of(1), sealed);
    const Opener opener(secret_of(2), opened);
    ASSERT_TRUE(kernel_.take(ours_.get(), sealer, opener, kNow).ok());
  }
  std::vector<std::byte> receive(size_t count) {
    std::vector<std::byte> bytes(count);
    EXPECT_EQ(::recv(theirs_.get(), bytes.data(), count, MSG_WAITALL), static_cast<ssize_t>(count));
    return bytes;
  }
  std::vector<std::byte> open_next(Opener& opener) {
    const auto header = receive(kRecordHeaderBytes);
    const auto length = opener.begin(std::span(header).first<kRecordHeaderBytes>());
    EXPECT_TRUE(length);
    if (!length) return {};
    std::vector<std::byte> content = receive(*length);
    opener.open(content, content.data());
    const auto trailer = receive(kTrailerBytes);
    EXPECT_TRUE(opener.end(std::span(trailer).first<kTrailerBytes>()));
    return content;
  }
  std::vector<std::byte> seal(Sealer& sealer, Bytes content) {
    std::vector<std::byte> record(content.size() + kRecordExtraBytes);
    EXPECT_EQ(sealer.seal(Content::bytes, {&content, 1}, record), record.size());
    return record;
  }

  KernelTls kernel_;
  UniqueFd ours_;
  UniqueFd theirs_;
};

TEST_F(Kernel, seals_what_is_opened_here) {
  take();
  if (IsSkipped()) return;
  const auto sent = some_bytes(3 * kContentMax + 100);
  ASSERT_EQ(::send(ours_.get(), sent.data(), sent.size(), 0), static_cast<ssize_t>(sent.size()));
  Opener opener(secret_of(1));
  std::vector<std::byte> got;
  while (got.size() < sent.size()) {
    const auto content = open_next(opener);
    ASSERT_FALSE(content.empty());
    got.insert(got.end(), content.begin(), content.end());
  }
  EXPECT_EQ(got, sent);
  EXPECT_EQ(records_of_kernel(ours_.get()), opener.records());
}

TEST_F(Kernel, opens_what_is_sealed_here_after_records_that_went_before) {
  take(7, 1'000'000);
  if (IsSkipped()) return;
  Sealer sealer(secret_of(2), 1'000'000);
  const auto sent = some_bytes(kContentMax);
  for (int i = 0; i < 3; ++i) {
    const auto record = seal(sealer, sent);
    ASSERT_EQ(::send(theirs_.get(), record.data(), record.size(), 0),
              static_cast<ssize_t>(record.size()));
    std::vector<std::byte> got(sent.size());
    ASSERT_EQ(::recv(ours_.get(), got.data(), got.size(), MSG_WAITALL),
              static_cast<ssize_t>(got.size()));
    EXPECT_EQ(got, sent);
  }
  EXPECT_EQ(records_of_kernel(ours_.get()), 1'000'003u);
  ASSERT_EQ(::send(ours_.get(), "x", 1, 0), 1);
  Opener opener(secret_of(1), 7);
  EXPECT_EQ(open_next(opener), (std::vector<std::byte>{std::byte{'x'}}));
}

TEST_F(Kernel, tells_of_a_record_that_was_changed) {
  take();
  if (IsSkipped()) return;
  Sealer sealer(secret_of(2));
  auto record = seal(sealer, some_bytes(100));
  record[20] ^= std::byte{1};
  ASSERT_EQ(::send(theirs_.get(), record.data(), record.size(), 0),
            static_cast<ssize_t>(record.size()));
  std::byte got{};
  EXPECT_EQ(::recv(ours_.get(), &got, 1, 0), -1);
  EXPECT_EQ(errno, EBADMSG);
}

TEST_F(Kernel, that_cannot_leaves_the_socket_as_it_was) {
  if (!why_no_kernel_tls()) GTEST_SKIP() << "it can";
  const Sealer sealer(secret_of(1));
  const Opener opener(secret_of(2));
  EXPECT_EQ(kernel_.take(ours_.get(), sealer, opener, kNow).code(), Code::not_supported);
  ASSERT_EQ(::send(ours_.get(), "x", 1, 0), 1);
  EXPECT_EQ(receive(1), (std::vector<std::byte>{std::byte{'x'}}));
}

}  // namespace
}  // namespace penstock::tls
