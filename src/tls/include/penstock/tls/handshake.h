// The handshake of TLS 1.3 on a connected socket: afterwards both sides know who the other is, and
// have the secrets that records are sealed with (record.h). The socket carries nothing of OpenSSL's
// any more.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/tls/certificate.h"
#include "penstock/tls/record.h"

struct ssl_ctx_st;
struct ssl_st;

namespace penstock::tls {

// What a process shows of itself, and whom it believes. Any thread; outlives its handshakes.
class Credentials {
 public:
  struct Config {
    // Its own; none: a guest, which can only call.
    std::optional<PrivateKey> key;
    std::optional<Certificate> certificate;
    // Whose signatures count: the cluster's, and a second one while it changes. The first has
    // signed the own certificate.
    std::vector<Certificate> authorities;
    // What goes along with the own certificate, so that newcomers, and those who know only an
    // authority before, see it; empty: the first of the authorities.
    std::vector<Certificate> shown{};
    // A guest knows none yet: the authority of whoever it calls has to have this fingerprint, or be
    // one of the above, if it does know some. Times are not looked at then: its clock may be wrong,
    // and whoever it calls will say so.
    std::optional<Fingerprint> expected;
    // Whether those without a certificate may call: what they may do is for services to decide.
    bool admit_guests = false;
    const engine::Clock* clock = nullptr;
  };
  // Fails if the key, the certificate and the authorities do not belong together.
  static Outcome<std::shared_ptr<Credentials>> make(Config config);

  ~Credentials();
  Credentials(const Credentials&) = delete;
  Credentials& operator=(const Credentials&) = delete;

  const Config& config() const { return config_; }
  ssl_ctx_st* context() const { return context_.get(); }

 private:
  explicit Credentials(Config config);
  Outcome<void> prepare();

  const Config config_;
  std::shared_ptr<ssl_ctx_st> context_;
};

enum class Part : uint8_t { caller, server };

// What a handshake has led to.
struct Secured {
  TrafficSecret sends;
  TrafficSecret receives;
  // Records that went with these secrets already.
  uint64_t sent = 0;
  uint64_t received = 0;
  std::optional<NodeName> peer;            // none: a guest
  std::optional<Certificate> certificate;  // the peer's
};

// One thread at a time. `socket` is connected and outlives it; nobody else uses it meanwhile.
class Handshake {
 public:
  Handshake(std::shared_ptr<const Credentials> credentials, Part part, int socket);
  ~Handshake();
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  // done and failed stay so. The others say for what of the socket to wait before the next call.
  enum class Step : uint8_t { wants_to_read, wants_to_write, done, failed };
  Step step();

  // Once it is done.
  Secured& secured() { return secured_; }
  // Why it has failed, for people; and what a caller reacts to: not_permitted (the peer's
  // certificate does not hold, or its roles), access_denied (the peer does not accept ours),
  // wrong_version (it does not speak TLS), peer_gone, bad_message.
  const Failure& failure() const { return failure_; }

 private:
  struct Free {
    void operator()(ssl_st* ssl) const;
  };
  friend class Credentials;
  void note_secret(std::string_view line);
  Step after(int result);
  Step finish();
  Step fail(Code code, std::string why);
  std::string why_not_verified() const;

  const std::shared_ptr<const Credentials> credentials_;
  const Part part_;
  std::unique_ptr<ssl_st, Free> ssl_;
  Step step_ = Step::wants_to_write;
  bool has_sends_ = false;
  bool has_receives_ = false;
  std::optional<Certificate> refused_;
  Secured secured_;
  Failure failure_{Code::peer_gone, ""};
};

}  // namespace penstock::tls
