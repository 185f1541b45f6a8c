#include "penstock/tls/certificate.h"

#include "internal.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>

#include "penstock/tls/limits.h"

namespace penstock::tls {
namespace {

constexpr std::string_view kScheme = "penstock://";
constexpr std::string_view kNode = "/node/";
constexpr std::string_view kRoles = "?roles=";
constexpr int64_t kDay = int64_t{24} * 3600;
constexpr int64_t kYears = 10 * 365 * kDay;

using internal::Handle;
using internal::kSecond;
using internal::seconds_of;

// A BIO's bytes, as text.
template <class Write>
std::string written(Write write) {
  const Handle<BIO, BIO_free_all> bio(BIO_new(BIO_s_mem()));
  ASSERT(bio != nullptr);
  ASSERT(write(bio.get()) == 1);
  char* bytes = nullptr;
  const long length = BIO_get_mem_data(bio.get(), &bytes);
  return {bytes, static_cast<size_t>(length)};
}

Handle<BIO, BIO_free_all> reader(std::string_view text) {
  Handle<BIO, BIO_free_all> bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  ASSERT(bio != nullptr);
  return bio;
}

// Nobody is asked for a passphrase.
int no_passphrase(char*, int, int, void*) {
  return 0;
}

bool is_p256(const EVP_PKEY* key) {
  char group[32] = {};
  size_t length = 0;
  return key != nullptr && EVP_PKEY_get_base_id(key) == EVP_PKEY_EC &&
         EVP_PKEY_get_group_name(key, group, sizeof group, &length) == 1 &&
         std::string_view(group) == SN_X9_62_prime256v1;
}

void set_time(ASN1_TIME* to, engine::WallTime time) {
  ASSERT(ASN1_TIME_set(to, seconds_of(time)) != nullptr);
}

engine::WallTime time_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) return {};
  // Certificates may end in the year 9999, and nanoseconds in 2262.
  constexpr int64_t kMost = INT64_MAX / kSecond;
  return {std::clamp<int64_t>(::timegm(&parts), -kMost, kMost) * kSecond};
}

void add_extension(X509* to, const X509V3_CTX& context, int what, const std::string& value) {
  X509V3_CTX copy = context;
  const Handle<X509_EXTENSION, X509_EXTENSION_free> extension(
      X509V3_EXT_conf_nid(nullptr, &copy, what, value.c_str()));
  ASSERT(extension != nullptr && X509_add_ext(to, extension.get(), -1) == 1);
}

// What all certificates have, but for their names, extensions and signature.
Handle<X509, X509_free> make_certificate(uint64_t serial, EVP_PKEY* key, engine::WallTime begins,
                                         engine::WallTime ends) {
  Handle<X509, X509_free> made(X509_new());
  ASSERT(made != nullptr && serial != 0);
  ASSERT(X509_set_version(made.get(), X509_VERSION_3) == 1 &&
         ASN1_INTEGER_set_uint64(X509_get_serialNumber(made.get()), serial) == 1 &&
         X509_set_pubkey(made.get(), key) == 1);
  set_time(X509_getm_notBefore(made.get()), begins);
  set_time(X509_getm_notAfter(made.get()), ends);
  return made;
}

void set_common_name(X509_NAME* name, const std::string& text) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
  ASSERT(X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8, bytes,
                                    static_cast<int>(text.size()), -1, 0) == 1);
}

std::string hex(const std::array<std::byte, 16>& bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

std::optional<std::array<std::byte, 16>> parse_hex(std::string_view text) {
  std::array<std::byte, 16> bytes{};
  if (text.size() != 2 * bytes.size()) return std::nullopt;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t digit = std::string_view("0123456789abcdef").find(text[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    bytes[i / 2] = bytes[i / 2] << 4 | static_cast<std::byte>(digit);
  }
  return bytes;
}

Fingerprint print_of(EVP_PKEY* key) {
  const internal::UseLibrary use;
  unsigned char* bytes = nullptr;
  const int length = key != nullptr ? i2d_PUBKEY(key, &bytes) : 0;
  if (length <= 0) return {};
  const auto digest =
      digest_of({reinterpret_cast<const std::byte*>(bytes), static_cast<size_t>(length)});
  OPENSSL_free(bytes);
  Fingerprint half{};
  std::memcpy(half.data(), digest.data(), half.size());
  return half;
}

// A request that its own key has signed, and that key, which is a part of it.
struct Asked {
  Handle<X509_REQ, X509_REQ_free> request;
  EVP_PKEY* key = nullptr;
};
Outcome<Asked> read_request(std::string_view text) {
  const internal::UseLibrary use;
  if (text.size() > limits::kRequestBytesMax)
    return Failure{Code::bad_message, "the request is too long"};
  Asked asked;
  asked.request.reset(PEM_read_bio_X509_REQ(reader(text).get(), nullptr, no_passphrase, nullptr));
  if (asked.request == nullptr)
    return Failure{Code::bad_message, "this is no request for a certificate"};
  asked.key = X509_REQ_get0_pubkey(asked.request.get());
  if (!is_p256(asked.key))
    return Failure{Code::not_supported, "the key is of another kind than P-256"};
  if (X509_REQ_verify(asked.request.get(), asked.key) != 1) {
    return Failure{Code::not_permitted, "the request is not signed with its key"};
  }
  return asked;
}

bool are_roles(std::string_view text) {
  return text.find_first_not_of("abcdefghijklmnopqrstuvwxyz,") == std::string_view::npos;
}

}  // namespace

std::string uri_of(const NodeName& name) {
  return fmt::format("{}{}{}{}{}{}", kScheme, hex(name.cluster), kNode, name.node.value, kRoles,
                     name.roles);
}

std::optional<NodeName> parse_uri(std::string_view uri) {
  const auto take = [&uri](std::string_view wanted) {
    if (uri.substr(0, wanted.size()) != wanted) return false;
    uri.remove_prefix(wanted.size());
    return true;
  };
  NodeName name;
  if (uri.size() > limits::kUriBytesMax || !take(kScheme)) return std::nullopt;
  const auto cluster = parse_hex(uri.substr(0, 2 * name.cluster.size()));
  if (!cluster) return std::nullopt;
  name.cluster = *cluster;
  uri.remove_prefix(2 * name.cluster.size());
  if (!take(kNode)) return std::nullopt;
  const size_t end = std::min(uri.find('?'), uri.size());
  uint64_t node = 0;
  // One way of writing each number.
  const bool is_number = parse_number(std::string(uri.substr(0, end)), &node) && node > 0 &&
                         node < UINT32_MAX && std::to_string(node) == uri.substr(0, end);
  if (!is_number) return std::nullopt;
  name.node = NodeId{static_cast<uint32_t>(node)};
  uri.remove_prefix(end);
  if (!take(kRoles) || !are_roles(uri)) return std::nullopt;
  name.roles = uri;
  return name;
}

PrivateKey::PrivateKey(evp_pkey_st* key) : key_(key, EVP_PKEY_free) {}

PrivateKey PrivateKey::make() {
  const internal::UseLibrary use;
  EVP_PKEY* const key = EVP_EC_gen(SN_X9_62_prime256v1);
  ASSERT(key != nullptr);
  return PrivateKey(key);
}

Outcome<PrivateKey> PrivateKey::parse(std::string_view pem) {
  const internal::UseLibrary use;
  EVP_PKEY* const key = PEM_read_bio_PrivateKey(reader(pem).get(), nullptr, no_passphrase, nullptr);
  if (key == nullptr) return Failure{Code::corrupt, "this is no private key (PEM)"};
  PrivateKey parsed(key);
  if (!is_p256(key)) return Failure{Code::not_supported, "the key is of another kind than P-256"};
  return parsed;
}

std::string PrivateKey::pem() const {
  const internal::UseLibrary use;
  return written([this](BIO* to) {
    return PEM_write_bio_PrivateKey(to, key_.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
}

std::string PrivateKey::request() const {
  const internal::UseLibrary use;
  const Handle<X509_REQ, X509_REQ_free> made(X509_REQ_new());
  ASSERT(made != nullptr);
  const bool done = X509_REQ_set_version(made.get(), X509_REQ_VERSION_1) == 1 &&
                    X509_REQ_set_pubkey(made.get(), key_.get()) == 1 &&
                    X509_REQ_sign(made.get(), key_.get(), EVP_sha256()) > 0;
  ASSERT(done);
  return written([&made](BIO* to) { return PEM_write_bio_X509_REQ(to, made.get()); });
}

Fingerprint PrivateKey::fingerprint() const {
  return print_of(key_.get());
}

Outcome<Fingerprint> key_of_request(std::string_view request) {
  TRY_ASSIGN(const Asked asked, read_request(request));
  return print_of(asked.key);
}

std::array<std::byte, 32> digest_of(Bytes bytes) {
  const internal::UseLibrary use;
  std::array<std::byte, 32> digest{};
  static_assert(sizeof digest == SHA256_DIGEST_LENGTH);
  const int done =
      EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()),
                 nullptr, EVP_sha256(), nullptr);
  ASSERT(done == 1);
  return digest;
}

std::array<std::byte, 16> random_secret() {
  const internal::UseLibrary use;
  std::array<std::byte, 16> secret{};
  const int done = RAND_priv_bytes(reinterpret_cast<unsigned char*>(secret.data()), sizeof secret);
  ASSERT(done == 1);
  return secret;
}

Certificate::Certificate(x509_st* certificate) : certificate_(certificate, X509_free) {}

Outcome<Certificate> Certificate::parse(std::string_view pem) {
  const internal::UseLibrary use;
  X509* const read = PEM_read_bio_X509(reader(pem).get(), nullptr, no_passphrase, nullptr);
  if (read == nullptr) return Failure{Code::corrupt, "this is no certificate (PEM)"};
  return Certificate(read);
}

Certificate Certificate::share(x509_st* certificate) {
  ASSERT(X509_up_ref(certificate) == 1);
  return Certificate(certificate);
}

std::string Certificate::pem() const {
  return written([this](BIO* to) { return PEM_write_bio_X509(to, certificate_.get()); });
}

Outcome<NodeName> Certificate::name() const {
  const Handle<GENERAL_NAMES, GENERAL_NAMES_free> names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate_.get(), NID_subject_alt_name, nullptr, nullptr)));
  if (names == nullptr || sk_GENERAL_NAME_num(names.get()) != 1) {
    return Failure{Code::not_permitted, "the certificate does not name one node"};
  }
  const GENERAL_NAME* const only = sk_GENERAL_NAME_value(names.get(), 0);
  if (only->type == GEN_URI) {
    const ASN1_IA5STRING* const uri = only->d.uniformResourceIdentifier;
    const std::string_view text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                                static_cast<size_t>(ASN1_STRING_length(uri)));
    if (auto name = parse_uri(text)) return *name;
  }
  return Failure{Code::not_permitted, "the certificate names something else than a node"};
}

uint64_t Certificate::serial() const {
  uint64_t serial = 0;
  if (ASN1_INTEGER_get_uint64(&serial, X509_get0_serialNumber(certificate_.get())) != 1) return 0;
  return serial;
}

engine::WallTime Certificate::begins() const {
  return time_of(X509_get0_notBefore(certificate_.get()));
}

engine::WallTime Certificate::ends() const {
  return time_of(X509_get0_notAfter(certificate_.get()));
}

Fingerprint Certificate::fingerprint() const {
  return print_of(X509_get0_pubkey(certificate_.get()));
}

Authority Authority::make(const std::array<std::byte, 16>& cluster, engine::WallTime now,
                          uint64_t number) {
  const internal::UseLibrary use;
  ASSERT(number > 0);
  PrivateKey key = PrivateKey::make();
  const engine::WallTime ends{now.nanoseconds + kYears * kSecond};
  const engine::WallTime begins{now.nanoseconds - kDay * kSecond};
  auto made = make_certificate(number, key.handle(), begins, ends);
  X509_NAME* const name = X509_get_subject_name(made.get());
  // Two of one name would be taken for one another where chains are put together.
  const std::string which = number == 1 ? "" : fmt::format(", authority {}", number);
  set_common_name(name, "Penstock cluster " + hex(cluster) + which);
  ASSERT(X509_set_issuer_name(made.get(), name) == 1);
  X509V3_CTX context;
  X509V3_set_ctx(&context, made.get(), made.get(), nullptr, nullptr, 0);
  // It signs nodes, and perhaps the authority that follows it.
  add_extension(made.get(), context, NID_basic_constraints, "critical,CA:TRUE,pathlen:1");
  add_extension(made.get(), context, NID_key_usage, "critical,keyCertSign");
  add_extension(made.get(), context, NID_subject_key_identifier, "hash");
  ASSERT(X509_sign(made.get(), key.handle(), EVP_sha256()) > 0);
  return {std::move(key), Certificate::share(made.get())};
}

Certificate Authority::cross_sign(const Certificate& next) const {
  const internal::UseLibrary use;
  auto made = make_certificate(next.serial(), X509_get0_pubkey(next.handle()),
                               std::max(next.begins(), certificate_.begins()),
                               std::min(next.ends(), certificate_.ends()));
  ASSERT(X509_set_subject_name(made.get(), X509_get_subject_name(next.handle())) == 1);
  ASSERT(X509_set_issuer_name(made.get(), X509_get_subject_name(certificate_.handle())) == 1);
  X509V3_CTX context;
  X509V3_set_ctx(&context, certificate_.handle(), made.get(), nullptr, nullptr, 0);
  add_extension(made.get(), context, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  add_extension(made.get(), context, NID_key_usage, "critical,keyCertSign");
  add_extension(made.get(), context, NID_subject_key_identifier, "hash");
  add_extension(made.get(), context, NID_authority_key_identifier, "keyid");
  ASSERT(X509_sign(made.get(), key_.handle(), EVP_sha256()) > 0);
  return Certificate::share(made.get());
}

Outcome<Authority> Authority::open(PrivateKey key, Certificate certificate) {
  const internal::UseLibrary use;
  if (X509_check_private_key(certificate.handle(), key.handle()) != 1) {
    return Failure{Code::corrupt, "the key and the certificate do not belong together"};
  }
  if (X509_check_ca(certificate.handle()) != 1) {
    return Failure{Code::corrupt, "the certificate is not an authority's"};
  }
  return Authority(std::move(key), std::move(certificate));
}

Outcome<Certificate> Authority::sign(std::string_view request, const NodeName& name,
                                     uint64_t serial, engine::WallTime begins,
                                     engine::WallTime ends) const {
  const internal::UseLibrary use;
  TRY_ASSIGN(const Asked asked, read_request(request));
  auto made = make_certificate(serial, asked.key, begins, ends);
  set_common_name(X509_get_subject_name(made.get()), fmt::format("node {}", name.node.value));
  ASSERT(X509_set_issuer_name(made.get(), X509_get_subject_name(certificate_.handle())) == 1);
  X509V3_CTX context;
  X509V3_set_ctx(&context, certificate_.handle(), made.get(), nullptr, nullptr, 0);
  add_extension(made.get(), context, NID_basic_constraints, "critical,CA:FALSE");
  add_extension(made.get(), context, NID_key_usage, "critical,digitalSignature");
  add_extension(made.get(), context, NID_ext_key_usage, "serverAuth,clientAuth");
  add_extension(made.get(), context, NID_authority_key_identifier, "keyid");
  // The commas of roles would begin other names.
  const Handle<GENERAL_NAMES, GENERAL_NAMES_free> names(GENERAL_NAMES_new());
  Handle<GENERAL_NAME, GENERAL_NAME_free> only(GENERAL_NAME_new());
  Handle<ASN1_IA5STRING, ASN1_IA5STRING_free> uri(ASN1_IA5STRING_new());
  const std::string text = uri_of(name);
  ASSERT(ASN1_STRING_set(uri.get(), text.data(), static_cast<int>(text.size())) == 1);
  GENERAL_NAME_set0_value(only.get(), GEN_URI, uri.release());
  ASSERT(sk_GENERAL_NAME_push(names.get(), only.release()) == 1);
  ASSERT(X509_add1_ext_i2d(made.get(), NID_subject_alt_name, names.get(), 1, X509V3_ADD_DEFAULT) ==
         1);
  ASSERT(X509_sign(made.get(), key_.handle(), EVP_sha256()) > 0);
  return Certificate::share(made.get());
}

}  // namespace penstock::tls
