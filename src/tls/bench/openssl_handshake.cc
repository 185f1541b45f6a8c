#include "openssl_handshake.h"

#include "../internal.h"

#include <ctime>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

namespace penstock::tls::bench {
namespace {

using internal::Handle;
using Connection = Handle<SSL, SSL_free>;

constexpr unsigned char kOfServer[] = "penstock";

std::shared_ptr<SSL_CTX> context_of(const Credentials& credentials) {
  const Credentials::Config& config = credentials.config();
  ASSERT(config.key && config.certificate && !config.authorities.empty());
  const std::shared_ptr<SSL_CTX> made(SSL_CTX_new_ex(internal::library(), nullptr, TLS_method()),
                                      SSL_CTX_free);
  SSL_CTX* const context = made.get();
  const Certificate& authority = config.authorities.front();
  const bool done = SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
                    SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1 &&
                    SSL_CTX_set1_groups_list(context, "P-256") == 1 &&
                    SSL_CTX_set1_sigalgs_list(context, "ECDSA+SHA256") == 1 &&
                    SSL_CTX_set_session_id_context(context, kOfServer, sizeof kOfServer) == 1 &&
                    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.handle()) == 1 &&
                    SSL_CTX_use_certificate(context, config.certificate->handle()) == 1 &&
                    SSL_CTX_use_PrivateKey(context, config.key->handle()) == 1 &&
                    SSL_CTX_add1_chain_cert(context, authority.handle()) == 1;
  ASSERT(done);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  // The ticket is kept by whoever asked for it.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_sess_set_new_cb(context, [](SSL* ssl, SSL_SESSION* session) {
    auto* const kept = static_cast<std::shared_ptr<SSL_SESSION>*>(SSL_get_app_data(ssl));
    if (kept == nullptr) return 0;
    kept->reset(session, SSL_SESSION_free);
    return 1;
  });
  return made;
}

Handle<BIO, BIO_free_all> memory() {
  Handle<BIO, BIO_free_all> made(BIO_new(BIO_s_mem()));
  ASSERT(made != nullptr);
  BIO_set_mem_eof_return(made.get(), -1);
  return made;
}

Connection connection(SSL_CTX& context, BIO& from, BIO& to) {
  Connection made(SSL_new(&context));
  ASSERT(made != nullptr && BIO_up_ref(&from) == 1 && BIO_up_ref(&to) == 1);
  SSL_set_bio(made.get(), &from, &to);
  return made;
}

// How long `work` takes is added.
template <class Work>
void measure(double& us, Work&& work) {
  const double before = thread_us();
  work();
  us += thread_us() - before;
}

}  // namespace

double thread_us() {
  timespec time{};
  ASSERT(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

OpensslHandshakes::OpensslHandshakes(const Credentials& caller, const Credentials& server)
    : shown_by_caller_(caller), caller_(context_of(caller)), server_(context_of(server)) {}

OpensslHandshakes::~OpensslHandshakes() = default;

HandshakeCost OpensslHandshakes::resumed() {
  if (session_ == nullptr) (void)shake(Kind::whole_with_ticket);
  ASSERT(session_ != nullptr);
  return shake(Kind::resumed);
}

HandshakeCost OpensslHandshakes::shake(Kind kind) {
  const internal::UseLibrary use;
  const auto to_server = memory();
  const auto to_caller = memory();
  // OpenSSL lets a session of TLS 1.3 be used once.
  const Handle<SSL_SESSION, SSL_SESSION_free> session(
      kind == Kind::resumed ? SSL_SESSION_dup(session_.get()) : nullptr);
  HandshakeCost cost;
  Connection caller;
  Connection server;
  measure(cost.caller_us, [&] {
    caller = connection(*caller_, *to_caller, *to_server);
    if (session != nullptr) ASSERT(SSL_set_session(caller.get(), session.get()) == 1);
    ASSERT(SSL_connect(caller.get()) < 0);
  });
  measure(cost.server_us, [&] {
    server = connection(*server_, *to_server, *to_caller);
    SSL_set_num_tickets(server.get(), kind == Kind::whole_with_ticket ? 1 : 0);
    ASSERT(SSL_accept(server.get()) < 0);
  });
  measure(cost.caller_us, [&] { ASSERT(SSL_connect(caller.get()) == 1); });
  measure(cost.server_us, [&] { ASSERT(SSL_accept(server.get()) == 1); });
  ASSERT((SSL_session_reused(server.get()) == 1) == (kind == Kind::resumed));
  if (kind == Kind::whole_with_ticket) {
    // It comes behind the handshake, and is taken where bytes are asked for.
    SSL_set_app_data(caller.get(), &session_);
    char none = 0;
    (void)SSL_read(caller.get(), &none, 1);
  }
  // Ended well, as a session counts no more otherwise; and without a word.
  for (SSL* const one : {caller.get(), server.get()}) {
    SSL_set_quiet_shutdown(one, 1);
    (void)SSL_shutdown(one);
  }
  measure(cost.caller_us, [&] { caller.reset(); });
  measure(cost.server_us, [&] { server.reset(); });
  return cost;
}

double OpensslHandshakes::chain_us() const {
  const internal::UseLibrary use;
  X509_STORE* const believed = SSL_CTX_get_cert_store(server_.get());
  X509* const shown = shown_by_caller_.config().certificate->handle();
  double us = 0;
  measure(us, [&] {
    const Handle<X509_STORE_CTX, X509_STORE_CTX_free> store(
        X509_STORE_CTX_new_ex(internal::library(), nullptr));
    const bool holds = X509_STORE_CTX_init(store.get(), believed, shown, nullptr) == 1 &&
                       X509_verify_cert(store.get()) == 1;
    ASSERT(holds);
  });
  return us;
}

}  // namespace penstock::tls::bench
