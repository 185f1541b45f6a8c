#include "penstock/tls/handshake.h"

#include "internal.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <sys/socket.h>

namespace penstock::tls {
namespace {

using internal::Handle;
using internal::seconds_of;

// What both sides must speak, by ALPN (RFC 7301): its length and its text.
constexpr unsigned char kProtocol[] = {10, 'p', 'e', 'n', 's', 't', 'o', 'c', 'k', '/', '1'};

// At least 112 bits (SSL_CTX_set_security_level(3)): P-256 and SHA-256 have 128.
constexpr int kSecurityLevel = 2;

// Of this thread, which is left without any.
std::string openssl_trouble() {
  std::string text;
  while (const unsigned long error = ERR_get_error()) {
    const char* const reason = ERR_reason_error_string(error);
    if (!text.empty()) text += ", ";
    text += reason != nullptr ? reason : "unknown";
  }
  return text.empty() ? "unknown" : text;
}

int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* length,
                    const unsigned char* offered, unsigned int offered_length, void*) {
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, length, kProtocol, sizeof kProtocol, offered, offered_length) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

// OpenSSL's own BIO of a socket raises SIGPIPE when the other side has gone, in whatever program
// this is a part of.
int own_socket(BIO* bio) {
  return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio)));
}

int answer(BIO* bio, ssize_t result) {
  BIO_clear_retry_flags(bio);
  return static_cast<int>(result);
}

BIO_METHOD* socket_method() {
  static BIO_METHOD* const kMethod = [] {
    BIO_METHOD* const method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    ASSERT(method != nullptr);
    BIO_meth_set_read(method, [](BIO* bio, char* to, int length) {
      const ssize_t count = ::recv(own_socket(bio), to, static_cast<size_t>(length), MSG_DONTWAIT);
      const int done = answer(bio, count);
      if (count < 0 && errno == EAGAIN) BIO_set_retry_read(bio);
      return done;
    });
    BIO_meth_set_write(method, [](BIO* bio, const char* from, int length) {
      const ssize_t count =
          ::send(own_socket(bio), from, static_cast<size_t>(length), MSG_DONTWAIT | MSG_NOSIGNAL);
      const int done = answer(bio, count);
      if (count < 0 && errno == EAGAIN) BIO_set_retry_write(bio);
      return done;
    });
    BIO_meth_set_ctrl(
        method, [](BIO*, int what, long, void*) -> long { return what == BIO_CTRL_FLUSH ? 1 : 0; });
    return method;
  }();
  return kMethod;
}

BIO* bio_of(int socket) {
  BIO* const bio = BIO_new(socket_method());
  ASSERT(bio != nullptr);
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(socket)));
  BIO_set_init(bio, 1);
  return bio;
}

// A guest knows an authority by its fingerprint: it is among what the server has shown. The key
// counts, in whatever certificate it is: in one by the authority before, too.
int verify_by_fingerprint(X509_STORE_CTX* store, void* of_credentials) {
  const auto& config = static_cast<const Credentials*>(of_credentials)->config();
  STACK_OF(X509)* const shown = X509_STORE_CTX_get0_untrusted(store);
  const Handle<STACK_OF(X509), [](STACK_OF(X509) * stack) { sk_X509_free(stack); }> trusted(
      sk_X509_new_null());
  for (int i = 0; i < sk_X509_num(shown); ++i) {
    X509* const one = sk_X509_value(shown, i);
    const bool is_it =
        X509_check_ca(one) == 1 && Certificate::share(one).fingerprint() == *config.expected;
    if (is_it) sk_X509_push(trusted.get(), one);
  }
  for (const Certificate& known : config.authorities) sk_X509_push(trusted.get(), known.handle());
  X509_STORE_CTX_set0_trusted_stack(store, trusted.get());
  // Its own clock may be wrong, which it will hear then.
  X509_VERIFY_PARAM_set_flags(X509_STORE_CTX_get0_param(store),
                              X509_V_FLAG_NO_CHECK_TIME | X509_V_FLAG_PARTIAL_CHAIN);
  return X509_verify_cert(store);
}

}  // namespace

Credentials::Credentials(Config config)
    : config_(std::move(config)),
      context_(SSL_CTX_new_ex(internal::library(), nullptr, TLS_method()), SSL_CTX_free) {
  ASSERT(context_ != nullptr && config_.clock != nullptr);
}

Credentials::~Credentials() = default;

Outcome<std::shared_ptr<Credentials>> Credentials::make(Config config) {
  const internal::UseLibrary use;
  std::shared_ptr<Credentials> made(new Credentials(std::move(config)));
  TRY(made->prepare());
  return made;
}

Outcome<void> Credentials::prepare() {
  SSL_CTX* const context = context_.get();
  const bool done =
      SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
      SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
      SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1 &&
      SSL_CTX_set1_groups_list(context, "P-256") == 1 &&
      SSL_CTX_set1_sigalgs_list(context, "ECDSA+SHA256") == 1 &&
      SSL_CTX_set_alpn_protos(context, kProtocol, sizeof kProtocol) == 0 &&
      // Keys are taken out after the handshake, so nothing of OpenSSL's may come later.
      SSL_CTX_set_num_tickets(context, 0) == 1;
  ASSERT(done);
  // What an openssl.cnf of the machine says of all programs is not for this one.
  SSL_CTX_set_security_level(context, kSecurityLevel);
  SSL_CTX_clear_options(context, SSL_CTX_get_options(context));
  SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  // A record header first, then the record: never a byte of what follows the handshake.
  SSL_CTX_set_read_ahead(context, 0);
  SSL_CTX_set_keylog_callback(context, [](const SSL* ssl, const char* line) {
    auto* const handshake = static_cast<Handshake*>(SSL_get_app_data(ssl));
    if (handshake != nullptr) handshake->note_secret(line);
  });
  int mode = SSL_VERIFY_PEER;
  if (!config_.admit_guests) mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
  // OpenSSL does not keep what it refuses, and people are told of it.
  SSL_CTX_set_verify(context, mode, [](int holds, X509_STORE_CTX* store) {
    const auto* const ssl = static_cast<const SSL*>(
        X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
    auto* const handshake = static_cast<Handshake*>(SSL_get_app_data(ssl));
    X509* const shown = X509_STORE_CTX_get_current_cert(store);
    if (holds == 0 && handshake != nullptr && shown != nullptr) {
      handshake->refused_ = Certificate::share(shown);
    }
    return holds;
  });
  if (config_.expected) SSL_CTX_set_cert_verify_callback(context, verify_by_fingerprint, this);
  for (const Certificate& authority : config_.authorities) {
    ASSERT(X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.handle()) == 1);
  }
  if (!config_.certificate) return {};
  if (!config_.key ||
      X509_check_private_key(config_.certificate->handle(), config_.key->handle()) != 1) {
    return Failure{Code::corrupt, "the key and the certificate do not belong together"};
  }
  if (config_.authorities.empty()) {
    return Failure{Code::invalid_argument, "there is no authority to be believed"};
  }
  bool used = SSL_CTX_use_certificate(context, config_.certificate->handle()) == 1 &&
              SSL_CTX_use_PrivateKey(context, config_.key->handle()) == 1;
  const std::vector<Certificate> first = {config_.authorities.front()};
  for (const Certificate& one : config_.shown.empty() ? first : config_.shown) {
    used = used && SSL_CTX_add1_chain_cert(context, one.handle()) == 1;
  }
  if (!used)
    return Failure{Code::not_supported, "the certificate cannot be used: " + openssl_trouble()};
  return {};
}

void Handshake::Free::operator()(ssl_st* ssl) const {
  SSL_free(ssl);
}

Handshake::Handshake(std::shared_ptr<const Credentials> credentials, Part part, int socket)
    : credentials_(std::move(credentials)), part_(part), ssl_(SSL_new(credentials_->context())) {
  ASSERT(ssl_ != nullptr);
  BIO* const bio = bio_of(socket);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_app_data(ssl_.get(), this);
  // The socket's owner closes it, and says nothing of TLS's.
  SSL_set_quiet_shutdown(ssl_.get(), 1);
  const time_t now = seconds_of(credentials_->config().clock->wall());
  X509_VERIFY_PARAM_set_time(SSL_get0_param(ssl_.get()), now);
  part_ == Part::caller ? SSL_set_connect_state(ssl_.get()) : SSL_set_accept_state(ssl_.get());
}

Handshake::~Handshake() = default;

// "LABEL client_random secret", in hexadecimal digits.
void Handshake::note_secret(std::string_view line) {
  const size_t space = line.find(' ');
  const std::string_view label = line.substr(0, space);
  const bool of_caller = label == "CLIENT_TRAFFIC_SECRET_0";
  if (!of_caller && label != "SERVER_TRAFFIC_SECRET_0") return;
  const std::string_view digits = line.substr(line.rfind(' ') + 1);
  std::array<std::byte, TrafficSecret::kBytes> bytes{};
  if (digits.size() != 2 * bytes.size()) return;
  for (size_t i = 0; i < digits.size(); ++i) {
    const char digit = digits[i];
    const int value = digit <= '9' ? digit - '0' : digit - 'a' + 10;
    bytes[i / 2] = bytes[i / 2] << 4 | static_cast<std::byte>(value);
  }
  const bool is_own = of_caller == (part_ == Part::caller);
  (is_own ? secured_.sends : secured_.receives) = TrafficSecret(bytes);
  (is_own ? has_sends_ : has_receives_) = true;
}

Handshake::Step Handshake::step() {
  const internal::UseLibrary use;
  if (step_ == Step::done || step_ == Step::failed) return step_;
  ERR_clear_error();
  errno = 0;
  return step_ = after(SSL_do_handshake(ssl_.get()));
}

Handshake::Step Handshake::after(int result) {
  if (result == 1) return finish();
  const int saved = errno;
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return Step::wants_to_read;
    case SSL_ERROR_WANT_WRITE:
      return Step::wants_to_write;
    case SSL_ERROR_SYSCALL:
    case SSL_ERROR_ZERO_RETURN:
      return fail(Code::peer_gone, saved != 0 ? std::strerror(saved) : "the connection has ended");
    default:
      break;
  }
  const unsigned long error = ERR_peek_error();
  const std::string trouble = openssl_trouble();
  if (SSL_get_verify_result(ssl_.get()) != X509_V_OK)
    return fail(Code::not_permitted, why_not_verified());
  const int reason = ERR_GET_REASON(error);
  // Alerts of the other side are numbered from there on.
  if (reason >= SSL_AD_REASON_OFFSET) {
    return fail(Code::access_denied, "the other side does not accept this one: " + trouble);
  }
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
    return fail(Code::not_permitted, "it shows no certificate");
  }
  if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST) {
    return fail(Code::wrong_version,
                "it does not speak TLS: is one of the two started with --insecure?");
  }
  return fail(Code::bad_message, trouble);
}

std::string Handshake::why_not_verified() const {
  const long result = SSL_get_verify_result(ssl_.get());
  std::string why = X509_verify_cert_error_string(result);
  const bool is_unknown = result == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY ||
                          result == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN;
  if (is_unknown) return why + ": its certificate is by an authority that is not believed here";
  const bool is_time =
      result == X509_V_ERR_CERT_NOT_YET_VALID || result == X509_V_ERR_CERT_HAS_EXPIRED;
  if (!is_time || !refused_) return why;
  return fmt::format("{}: it is good from {} to {}, and here it is {}", why,
                     text_of(refused_->begins()), text_of(refused_->ends()),
                     text_of(credentials_->config().clock->wall()));
}

Handshake::Step Handshake::finish() {
  const unsigned char* protocol = nullptr;
  unsigned int length = 0;
  SSL_get0_alpn_selected(ssl_.get(), &protocol, &length);
  if (length + 1 != sizeof kProtocol || std::memcmp(protocol, kProtocol + 1, length) != 0) {
    return fail(Code::bad_message, "it speaks TLS, and nothing of Penstock's");
  }
  if (!has_sends_ || !has_receives_)
    return fail(Code::bad_message, "OpenSSL does not tell its secrets");
  X509* const shown = SSL_get0_peer_certificate(ssl_.get());
  if (shown == nullptr) return Step::done;  // a guest, who was let in
  secured_.certificate = Certificate::share(shown);
  auto name = secured_.certificate->name();
  if (!name) return fail(name.error().status.code(), name.error().message);
  secured_.peer = std::move(*name);
  return Step::done;
}

Handshake::Step Handshake::fail(Code code, std::string why) {
  failure_ = {code, std::move(why)};
  return Step::failed;
}

}  // namespace penstock::tls
