#include "openssl_cipher.h"

#include <cstring>
#include <openssl/evp.h>
#include <vector>

namespace penstock::tls::bench {
namespace {

constexpr unsigned char kKey[16] = {1, 2, 3};

const unsigned char* chars(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* chars(std::byte* bytes) {
  return reinterpret_cast<unsigned char*>(bytes);
}

EVP_CIPHER_CTX* make(RecordKey::Use use) {
  constexpr unsigned char kNonce[12] = {4, 5, 6};
  EVP_CIPHER_CTX* const context = EVP_CIPHER_CTX_new();
  ASSERT(context != nullptr);
  const int seals = use == RecordKey::Use::seal ? 1 : 0;
  ASSERT(EVP_CipherInit_ex(context, EVP_aes_128_gcm(), nullptr, kKey, kNonce, seals) == 1);
  return context;
}

void update(EVP_CIPHER_CTX* context, const std::byte* from, size_t count, std::byte* to) {
  int length = 0;
  ASSERT(EVP_CipherUpdate(context, chars(to), &length, chars(from), static_cast<int>(count)) == 1);
}

}  // namespace

double openssl_speed(RecordKey::Use use, std::chrono::nanoseconds duration) {
  using Clock = std::chrono::steady_clock;
  constexpr int kBetweenLooks = 64;
  const std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> context(
      make(use), EVP_CIPHER_CTX_free);
  std::vector<std::byte> bytes(limits::kContentMax, std::byte{7});
  double done = 0;
  const auto start = Clock::now();
  auto seen = start;
  while (seen - start < duration) {
    for (int i = 0; i < kBetweenLooks; ++i) {
      update(context.get(), bytes.data(), bytes.size(), bytes.data());
    }
    done += kBetweenLooks * static_cast<double>(bytes.size());
    seen = Clock::now();
  }
  return done / std::chrono::duration<double>(seen - start).count();
}

void OpensslRecords::Free::operator()(evp_cipher_ctx_st* context) const {
  EVP_CIPHER_CTX_free(context);
}

OpensslRecords::OpensslRecords(RecordKey::Use use) : context_(make(use)) {}

void OpensslRecords::begin(const std::byte* header) {
  std::array<std::byte, 12> nonce{};
  std::memcpy(nonce.data(), &sequence_, sizeof sequence_);
  ++sequence_;
  ASSERT(EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, chars(nonce.data()), -1) ==
         1);
  update(context_.get(), header, limits::kRecordHeaderBytes, nullptr);
}

void OpensslRecords::seal(Bytes content, std::byte* to) {
  constexpr std::byte kType{23};
  const size_t behind = content.size() + limits::kTrailerBytes;
  const std::byte header[] = {kType, std::byte{3}, std::byte{3},
                              static_cast<std::byte>(behind >> 8), static_cast<std::byte>(behind)};
  std::memcpy(to, header, sizeof header);
  begin(to);
  to += sizeof header;
  update(context_.get(), content.data(), content.size(), to);
  to += content.size();
  update(context_.get(), &kType, 1, to++);
  int none = 0;
  ASSERT(EVP_CipherFinal_ex(context_.get(), chars(to), &none) == 1);
  ASSERT(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, limits::kTagBytes, to) == 1);
}

bool OpensslRecords::open(Bytes record, std::byte* to) {
  begin(record.data());
  const Bytes content =
      record.subspan(limits::kRecordHeaderBytes, record.size() - limits::kRecordExtraBytes);
  update(context_.get(), content.data(), content.size(), to);
  std::byte type{};
  update(context_.get(), content.data() + content.size(), 1, &type);
  std::array<std::byte, limits::kTagBytes> tag{};
  std::memcpy(tag.data(), record.last(tag.size()).data(), tag.size());
  int none = 0;
  unsigned char nothing = 0;
  return EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, limits::kTagBytes,
                             tag.data()) == 1 &&
         EVP_CipherFinal_ex(context_.get(), &nothing, &none) == 1;
}

}  // namespace penstock::tls::bench
