#include "penstock/tls/record.h"

#include "internal.h"

#include <algorithm>
#include <cstring>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <string_view>
#include <utility>

namespace penstock::tls {
namespace {

constexpr std::byte kApplicationData{23};  // the type that all sealed records show
constexpr std::byte kLegacyVersion{3};     // twice

const unsigned char* chars(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* chars(std::byte* bytes) {
  return reinterpret_cast<unsigned char*>(bytes);
}

// HKDF-Expand-Label(secret, label, "", length of `to`) with SHA-256 (RFC 8446, 7.1).
void expand(Bytes secret, std::string_view label, MutableBytes to) {
  static EVP_KDF* const kKdf = EVP_KDF_fetch(internal::library(), "TLS13-KDF", nullptr);
  ASSERT(kKdf != nullptr);
  EVP_KDF_CTX* const context = EVP_KDF_CTX_new(kKdf);
  ASSERT(context != nullptr);
  int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
  const auto octets = [](const char* name, const void* bytes, size_t length) {
    return OSSL_PARAM_construct_octet_string(name, const_cast<void*>(bytes), length);
  };
  constexpr std::string_view kPrefix = "tls13 ";
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, const_cast<char*>("SHA256"), 0),
      octets(OSSL_KDF_PARAM_KEY, secret.data(), secret.size()),
      octets(OSSL_KDF_PARAM_PREFIX, kPrefix.data(), kPrefix.size()),
      octets(OSSL_KDF_PARAM_LABEL, label.data(), label.size()),
      OSSL_PARAM_construct_end()};
  const int done = EVP_KDF_derive(context, chars(to.data()), to.size(), parameters);
  EVP_KDF_CTX_free(context);
  ASSERT(done == 1);
}

// Looked up once, as that takes as long as some records do. Never freed.
const EVP_CIPHER* cipher() {
  static const EVP_CIPHER* const kCipher =
      EVP_CIPHER_fetch(internal::library(), "AES-128-GCM", nullptr);
  ASSERT(kCipher != nullptr);
  return kCipher;
}

}  // namespace

TrafficSecret::TrafficSecret(std::span<const std::byte, kBytes> bytes) {
  std::copy(bytes.begin(), bytes.end(), bytes_.begin());
}

TrafficSecret::~TrafficSecret() {
  OPENSSL_cleanse(bytes_.data(), bytes_.size());
}

TrafficSecret TrafficSecret::next() const {
  TrafficSecret next;
  expand(bytes_, "traffic upd", next.bytes_);
  return next;
}

void RecordKey::Free::operator()(evp_cipher_ctx_st* context) const {
  EVP_CIPHER_CTX_free(context);
}

RecordKey::RecordKey(Use use, const TrafficSecret& secret, uint64_t sequence)
    : use_(use), secret_(secret), sequence_(sequence) {
  use_secret();
}

RecordKey::~RecordKey() {
  OPENSSL_cleanse(nonce_.data(), nonce_.size());
}

RecordKey::Raw RecordKey::raw() const {
  Raw raw{};
  expand(secret_.bytes(), "key", raw.key);
  expand(secret_.bytes(), "iv", raw.nonce);
  return raw;
}

void RecordKey::use_secret() {
  contexts_.clear();
  nonce_ = raw().nonce;
  use_key(1);
}

// By so many hands.
void RecordKey::use_key(uint32_t hands) {
  if (contexts_.size() >= hands) return;
  Raw raw = this->raw();
  while (contexts_.size() < hands) {
    Context const made = contexts_.emplace_back(EVP_CIPHER_CTX_new()).get();
    const bool done =
        made != nullptr && EVP_CipherInit_ex2(made, cipher(), chars(raw.key.data()), nullptr,
                                              use_ == Use::seal ? 1 : 0, nullptr) == 1;
    ASSERT(done);
  }
  OPENSSL_cleanse(&raw, sizeof raw);
}

void RecordKey::renew() {
  secret_ = secret_.next();
  sequence_ = 0;
  use_secret();
}

uint64_t RecordKey::share(uint32_t hands, uint64_t count) {
  use_key(hands);
  return std::exchange(sequence_, sequence_ + count);
}

void RecordKey::begin(Context context, uint64_t number, Bytes header) const {
  std::array<std::byte, 12> nonce = nonce_;
  for (size_t i = 0; i < sizeof number; ++i) {
    nonce[nonce.size() - 1 - i] ^= static_cast<std::byte>(number >> (8 * i));
  }
  int length = 0;
  const bool done =
      EVP_CipherInit_ex2(context, nullptr, nullptr, chars(nonce.data()), -1, nullptr) == 1 &&
      EVP_CipherUpdate(context, nullptr, &length, chars(header.data()),
                       static_cast<int>(header.size())) == 1;
  ASSERT(done);
}

void RecordKey::pass(Context context, Bytes from, std::byte* to) {
  int length = 0;
  const int done = EVP_CipherUpdate(context, chars(to), &length, chars(from.data()),
                                    static_cast<int>(from.size()));
  ASSERT(done == 1 && static_cast<size_t>(length) == from.size());
}

size_t Sealer::seal(Context context, uint64_t number, Content content,
                    std::span<const Bytes> pieces, MutableBytes to) const {
  size_t length = 0;
  for (const Bytes piece : pieces) length += piece.size();
  ASSERT(length > 0 && length <= limits::kContentMax &&
         to.size() >= length + limits::kRecordExtraBytes);
  const size_t behind = length + limits::kTrailerBytes;
  std::byte* at = to.data();
  at[0] = kApplicationData;
  at[1] = at[2] = kLegacyVersion;
  at[3] = static_cast<std::byte>(behind >> 8);
  at[4] = static_cast<std::byte>(behind);
  begin(context, number, {at, limits::kRecordHeaderBytes});
  at += limits::kRecordHeaderBytes;
  for (const Bytes piece : pieces) {
    pass(context, piece, at);
    at += piece.size();
  }
  const auto type = static_cast<std::byte>(content);
  pass(context, {&type, 1}, at);
  ++at;
  int none = 0;
  const bool done = EVP_CipherFinal_ex(context, chars(at), &none) == 1 &&
                    EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, limits::kTagBytes, at) == 1;
  ASSERT(done);
  return length + limits::kRecordExtraBytes;
}

Result<uint32_t> Opener::content_behind(
    std::span<const std::byte, limits::kRecordHeaderBytes> header) {
  const bool is_sealed =
      header[0] == kApplicationData && header[1] == kLegacyVersion && header[2] == kLegacyVersion;
  const uint32_t behind = bytes_behind(header);
  const bool is_right = is_sealed && behind > limits::kTrailerBytes &&
                        behind <= limits::kContentMax + limits::kTrailerBytes;
  if (!is_right) return Code::bad_message;
  return behind - limits::kTrailerBytes;
}

Result<uint32_t> Opener::begin(std::span<const std::byte, limits::kRecordHeaderBytes> header) {
  TRY_ASSIGN(const uint32_t content, content_behind(header));
  if (records() >= limits::kRecordsOfKeyMax) return Code::bad_message;
  RecordKey::begin(context(), next(), header);
  return content;
}

Result<Content> Opener::end(std::span<const std::byte, limits::kTrailerBytes> trailer) {
  std::byte type{};
  pass(context(), trailer.first<1>(), &type);
  return end(type, trailer.last<limits::kTagBytes>());
}

std::byte Opener::open_with_type(Bytes part_and_type, std::byte* to) {
  pass(context(), part_and_type, to);
  return to[part_and_type.size() - 1];
}

Result<Content> Opener::open_shared(uint32_t hand, uint64_t number, Bytes record,
                                    std::byte* to) const {
  constexpr size_t kHeader = limits::kRecordHeaderBytes;
  Context const own = context(hand);
  const Bytes content = record.subspan(kHeader, record.size() - limits::kRecordExtraBytes);
  const auto trailer = record.last<limits::kTrailerBytes>();
  std::byte type{};
  RecordKey::begin(own, number, record.first(kHeader));
  pass(own, content, to);
  pass(own, trailer.first<1>(), &type);
  return end(own, type, trailer.last<limits::kTagBytes>());
}

Result<Content> Opener::end(Context context, std::byte type,
                            std::span<const std::byte, limits::kTagBytes> tag) {
  // OpenSSL copies it.
  auto* const wanted = const_cast<std::byte*>(tag.data());
  std::byte nothing{};
  int none = 0;
  const bool is_true =
      EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, limits::kTagBytes, wanted) == 1 &&
      EVP_CipherFinal_ex(context, chars(&nothing), &none) == 1;
  if (!is_true) return Code::corrupt;
  const auto content = static_cast<Content>(type);
  // Padding ends in a zero, and no sealer of ours pads.
  const bool is_known =
      content == Content::alert || content == Content::handshake || content == Content::bytes;
  if (!is_known) return Code::bad_message;
  return content;
}

}  // namespace penstock::tls
