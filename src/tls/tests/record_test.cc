#include "pair.h"

#include <cstring>
#include <openssl/ssl.h>
#include <vector>

namespace penstock::tls {
namespace {

using limits::kContentMax;
using limits::kRecordExtraBytes;
using limits::kRecordHeaderBytes;
using limits::kTrailerBytes;

std::vector<std::byte> some_bytes(size_t count, uint64_t seed) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(mix64(seed + i));
  return bytes;
}

TrafficSecret some_secret(uint64_t seed) {
  const auto bytes = some_bytes(TrafficSecret::kBytes, seed);
  return TrafficSecret(
      std::span<const std::byte, TrafficSecret::kBytes>(bytes.data(), bytes.size()));
}

std::vector<std::byte> seal(Sealer& sealer, Bytes content, Content kind = Content::bytes) {
  std::vector<std::byte> record(content.size() + kRecordExtraBytes);
  const size_t half = content.size() / 2;
  const Bytes pieces[] = {content.first(half), content.subspan(half)};
  EXPECT_EQ(sealer.seal(kind, pieces, record), record.size());
  return record;
}

// In parts of so many bytes.
Result<Content> open(Opener& opener, Bytes record, std::vector<std::byte>& content,
                     size_t part = 1000) {
  const auto length = opener.begin(record.first<kRecordHeaderBytes>());
  if (!length) return length.error();
  if (record.size() != *length + kRecordExtraBytes) return Code::bad_message;
  content.resize(*length);
  for (size_t at = 0; at < *length; at += part) {
    const size_t count = std::min(part, *length - at);
    opener.open(record.subspan(kRecordHeaderBytes + at, count), content.data() + at);
  }
  return opener.end(record.last<kTrailerBytes>());
}

TEST(Records, are_opened_as_they_were_sealed) {
  Sealer sealer(some_secret(1));
  Opener opener(some_secret(1));
  for (const size_t size : {size_t{1}, size_t{15}, size_t{16}, size_t{4096}, size_t{kContentMax}}) {
    const auto content = some_bytes(size, size);
    std::vector<std::byte> opened;
    const auto kind = open(opener, seal(sealer, content), opened);
    ASSERT_TRUE(kind) << size;
    EXPECT_EQ(*kind, Content::bytes);
    EXPECT_EQ(opened, content);
  }
  EXPECT_EQ(sealer.records(), 5U);
}

TEST(Records, that_were_changed_are_noticed) {
  const auto content = some_bytes(100, 3);
  for (size_t at = 0; at < content.size() + kRecordExtraBytes; ++at) {
    Sealer sealer(some_secret(1));
    Opener opener(some_secret(1));
    auto record = seal(sealer, content);
    record[at] ^= std::byte{1};
    std::vector<std::byte> opened;
    EXPECT_FALSE(open(opener, record, opened)) << "byte " << at;
  }
}

TEST(Records, that_come_again_or_in_another_order_are_noticed) {
  Sealer sealer(some_secret(1));
  const auto first = seal(sealer, some_bytes(10, 1));
  const auto second = seal(sealer, some_bytes(10, 2));
  std::vector<std::byte> opened;
  Opener swapped(some_secret(1));
  EXPECT_FALSE(open(swapped, second, opened));
  Opener repeated(some_secret(1));
  EXPECT_TRUE(open(repeated, first, opened));
  EXPECT_FALSE(open(repeated, first, opened));
}

TEST(Records, are_of_no_use_with_the_other_directions_secret) {
  Sealer sealer(some_secret(1));
  Opener opener(some_secret(2));
  std::vector<std::byte> opened;
  EXPECT_FALSE(open(opener, seal(sealer, some_bytes(10, 1)), opened));
}

TEST(Records, go_on_with_the_next_secret) {
  Sealer sealer(some_secret(1));
  Opener opener(some_secret(1));
  std::vector<std::byte> opened;
  ASSERT_TRUE(open(opener, seal(sealer, some_bytes(10, 1)), opened));
  sealer.renew();
  opener.renew();
  EXPECT_EQ(sealer.records(), 0U);
  EXPECT_TRUE(open(opener, seal(sealer, some_bytes(10, 2)), opened));
  sealer.renew();
  EXPECT_FALSE(open(opener, seal(sealer, some_bytes(10, 3)), opened));
}

TEST(Records, under_a_key_that_is_not_renewed_are_refused_in_time) {
  Sealer sealer(some_secret(1), limits::kRecordsOfKeyMax - 1);
  Opener opener(some_secret(1), limits::kRecordsOfKeyMax - 1);
  std::vector<std::byte> opened;
  EXPECT_TRUE(open(opener, seal(sealer, some_bytes(10, 1)), opened));
  const auto refused = open(opener, seal(sealer, some_bytes(10, 2)), opened);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), Code::bad_message);
  sealer.renew();
  opener.renew();
  EXPECT_TRUE(open(opener, seal(sealer, some_bytes(10, 3)), opened));
}

TEST(Records, are_the_same_whether_their_type_comes_with_the_content) {
  Sealer sealer(some_secret(1));
  Opener opener(some_secret(1));
  const auto content = some_bytes(1000, 1);
  for (const bool is_changed : {false, true}) {
    auto record = seal(sealer, content);
    if (is_changed) record[1005] ^= std::byte{1};
    ASSERT_TRUE(opener.begin(Bytes(record).first<kRecordHeaderBytes>()));
    std::vector<std::byte> opened(1001);
    opener.open(Bytes(record).subspan(kRecordHeaderBytes, 600), opened.data());
    const std::byte type = opener.open_with_type(
        Bytes(record).subspan(kRecordHeaderBytes + 600, 401), opened.data() + 600);
    const auto kind = opener.end(type, Bytes(record).last<limits::kTagBytes>());
    ASSERT_EQ(kind.has_value(), !is_changed);
    if (kind) {
      EXPECT_EQ(*kind, Content::bytes);
    }
    opened.pop_back();
    EXPECT_EQ(opened, content);
  }
}

TEST(Records, of_other_kinds_and_lengths_are_refused) {
  Opener opener(some_secret(1));
  const auto begin = [&opener](std::array<int, 5> values) {
    std::array<std::byte, kRecordHeaderBytes> header{};
    for (size_t i = 0; i < header.size(); ++i) header[i] = static_cast<std::byte>(values[i]);
    return opener.begin(header).has_value();
  };
  EXPECT_FALSE(begin({'P', 'N', 'S', 'T', 1})) << "a plain frame";
  EXPECT_FALSE(begin({22, 3, 3, 1, 0})) << "an open handshake";
  EXPECT_FALSE(begin({23, 3, 1, 1, 0}));
  EXPECT_FALSE(begin({23, 3, 3, 0, kTrailerBytes})) << "nothing in it";
  EXPECT_FALSE(begin({23, 3, 3, 0x40, kTrailerBytes + 1})) << "too long";
  EXPECT_TRUE(begin({23, 3, 3, 0x40, kTrailerBytes}));
}

// What OpenSSL makes of records of ours, and we of its own, with keys of one handshake.
class BesideOpenSsl : public testing::Test {
 protected:
  void SetUp() override {
    Credentials::Config config = cluster_.node(1);
    credentials_ = Cluster::use(std::move(config));
    other_ = SSL_new(credentials_->context());
    X509_VERIFY_PARAM_set_time(SSL_get0_param(other_), kToday / kSecond);
    SSL_set_fd(other_, sockets_.server.get());
    ours_.emplace(Cluster::use(cluster_.node(7)), Part::caller, sockets_.caller.get());
    for (int i = 0; i < 10; ++i) {
      ours_->step();
      SSL_accept(other_);
    }
    ASSERT_EQ(ours_->step(), Handshake::Step::done) << ours_->failure().message;
    ASSERT_EQ(SSL_is_init_finished(other_), 1);
  }
  void TearDown() override { SSL_free(other_); }

  Sockets sockets_;
  Cluster cluster_;
  std::shared_ptr<Credentials> credentials_;
  SSL* other_ = nullptr;
  std::optional<Handshake> ours_;
};

TEST_F(BesideOpenSsl, it_reads_what_we_seal) {
  Sealer sealer(ours_->secured().sends, ours_->secured().sent);
  for (const size_t size : {size_t{1}, size_t{4096}, size_t{kContentMax}}) {
    const auto content = some_bytes(size, size);
    const auto record = seal(sealer, content);
    ASSERT_EQ(::write(sockets_.caller.get(), record.data(), record.size()),
              static_cast<ssize_t>(record.size()));
    std::vector<std::byte> read(size);
    size_t count = 0;
    ASSERT_EQ(SSL_read_ex(other_, read.data(), read.size(), &count), 1);
    EXPECT_EQ(count, size);
    EXPECT_EQ(read, content);
  }
}

TEST_F(BesideOpenSsl, we_open_what_it_writes) {
  Opener opener(ours_->secured().receives, ours_->secured().received);
  for (const size_t size : {size_t{1}, size_t{4096}, size_t{kContentMax}}) {
    const auto content = some_bytes(size, size);
    ASSERT_EQ(SSL_write(other_, content.data(), static_cast<int>(size)), static_cast<int>(size));
    std::vector<std::byte> record(size + kRecordExtraBytes);
    ASSERT_EQ(::read(sockets_.caller.get(), record.data(), record.size()),
              static_cast<ssize_t>(record.size()));
    std::vector<std::byte> opened;
    ASSERT_TRUE(open(opener, record, opened));
    EXPECT_EQ(opened, content);
  }
}

TEST_F(BesideOpenSsl, its_new_keys_are_the_ones_that_we_go_on_with) {
  Opener opener(ours_->secured().receives, ours_->secured().received);
  ASSERT_EQ(SSL_key_update(other_, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
  const auto content = some_bytes(100, 5);
  ASSERT_EQ(SSL_write(other_, content.data(), 100), 100);
  std::vector<std::byte> bytes(1000);
  const ssize_t count = ::read(sockets_.caller.get(), bytes.data(), bytes.size());
  // KeyUpdate: its kind, a length of 3 bytes, and that none is asked of us.
  constexpr size_t kUpdate = 5 + kRecordExtraBytes;
  ASSERT_EQ(count, static_cast<ssize_t>(kUpdate + 100 + kRecordExtraBytes));
  std::vector<std::byte> opened;
  const auto kind = open(opener, Bytes(bytes).first(kUpdate), opened);
  ASSERT_TRUE(kind);
  EXPECT_EQ(*kind, Content::handshake);
  EXPECT_EQ(opened[0], std::byte{24});
  opener.renew();
  ASSERT_TRUE(open(opener, Bytes(bytes).subspan(kUpdate, 100 + kRecordExtraBytes), opened));
  EXPECT_EQ(opened, content);
}

TEST_F(BesideOpenSsl, its_alerts_are_opened) {
  SSL_set_quiet_shutdown(other_, 0);
  SSL_shutdown(other_);
  Opener opener(ours_->secured().receives, ours_->secured().received);
  std::vector<std::byte> record(2 + kRecordExtraBytes);
  ASSERT_EQ(::read(sockets_.caller.get(), record.data(), record.size()),
            static_cast<ssize_t>(record.size()));
  std::vector<std::byte> opened;
  const auto kind = open(opener, record, opened);
  ASSERT_TRUE(kind);
  EXPECT_EQ(*kind, Content::alert);
}

}  // namespace
}  // namespace penstock::tls
