#include "penstock/tls/signing.h"

#include "internal.h"

#include <openssl/evp.h>

namespace penstock::tls {
namespace {

struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct FreeDigest {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using KeyPointer = std::unique_ptr<EVP_PKEY, FreeKey>;
using DigestPointer = std::unique_ptr<EVP_MD_CTX, FreeDigest>;

const unsigned char* raw(Bytes bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

class Ed25519Key final : public SigningKey {
 public:
  explicit Ed25519Key(KeyPointer key, const VerifyingKey& verifying)
      : key_(std::move(key)), verifying_(verifying) {}

  const VerifyingKey& verifying() const override { return verifying_; }

  Result<Signature> sign(Bytes bytes) const override {
    const internal::UseLibrary ours;
    const DigestPointer context(EVP_MD_CTX_new());
    Signature signature{};
    size_t length = signature.size();
    const bool is_done =
        context != nullptr &&
        EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) == 1 &&
        EVP_DigestSign(context.get(), signature.data(), &length, raw(bytes), bytes.size()) == 1;
    if (!is_done) return Code::no_memory;
    ASSERT(length == signature.size());
    return signature;
  }

 private:
  const KeyPointer key_;
  const VerifyingKey verifying_;
};

}  // namespace

Outcome<std::unique_ptr<SigningKey>> SigningKey::make() {
  const internal::UseLibrary ours;
  KeyPointer key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  VerifyingKey verifying{};
  size_t length = verifying.size();
  const bool is_made = key != nullptr &&
                       EVP_PKEY_get_raw_public_key(key.get(), verifying.data(), &length) == 1 &&
                       length == verifying.size();
  if (!is_made) return Failure{Code::no_memory, "OpenSSL made no key to sign with"};
  return std::unique_ptr<SigningKey>(std::make_unique<Ed25519Key>(std::move(key), verifying));
}

bool is_signed(Bytes bytes, const Signature& signature, const VerifyingKey& by) {
  const internal::UseLibrary ours;
  const KeyPointer key(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, by.data(), by.size()));
  const DigestPointer context(EVP_MD_CTX_new());
  return key != nullptr && context != nullptr &&
         EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
         EVP_DigestVerify(context.get(), signature.data(), signature.size(), raw(bytes),
                          bytes.size()) == 1;
}

}  // namespace penstock::tls
