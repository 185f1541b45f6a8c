// Handshakes by OpenSSL alone, in memory: what a handshake takes is measured against these, and
// what resumption would spare is seen from them. This file is for benchmarks.
#pragma once

#include <memory>

#include "penstock/tls.h"

struct ssl_ctx_st;
struct ssl_session_st;

namespace penstock::tls::bench {

// Of a processor, in microseconds, from the making of a side's state to its end.
struct HandshakeCost {
  double caller_us = 0;
  double server_us = 0;
};

// Of the calling thread, in microseconds.
double thread_us();

// TLS 1.3 as src/tls speaks it, between two that show certificates to one another. One thread.
class OpensslHandshakes {
 public:
  // Both have keys and certificates.
  OpensslHandshakes(const Credentials& caller, const Credentials& server);
  ~OpensslHandshakes();
  OpensslHandshakes(const OpensslHandshakes&) = delete;
  OpensslHandshakes& operator=(const OpensslHandshakes&) = delete;

  HandshakeCost whole() { return shake(Kind::whole); }
  // By a ticket of an earlier one, with a key of its own (psk_dhe_ke): no certificate is shown.
  HandshakeCost resumed();
  // Whether the caller's certificate still holds: what a server would have to see to before it
  // resumes, so that a session proves no more than a certificate does. In microseconds.
  double chain_us() const;

 private:
  enum class Kind : uint8_t { whole, whole_with_ticket, resumed };
  HandshakeCost shake(Kind kind);

  const Credentials& shown_by_caller_;
  const std::shared_ptr<ssl_ctx_st> caller_;
  const std::shared_ptr<ssl_ctx_st> server_;
  std::shared_ptr<ssl_session_st> session_;
};

}  // namespace penstock::tls::bench
