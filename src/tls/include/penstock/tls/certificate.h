// Keys, certificates, and the authority of a cluster that signs them (decision 0057). All of it is
// PEM outside: texts that other tools read, too.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "penstock/base.h"
#include "penstock/engine.h"

struct evp_pkey_st;
struct x509_st;

namespace penstock::tls {

// Whose certificate it is. As a URI: penstock://CLUSTER/node/7?roles=storage,agent
struct NodeName {
  std::array<std::byte, 16> cluster{};
  NodeId node;
  std::string roles;  // words of lower-case letters with commas between them; may be empty

  friend bool operator==(const NodeName&, const NodeName&) = default;
};
std::string uri_of(const NodeName& name);
// Foreign text.
std::optional<NodeName> parse_uri(std::string_view uri);

// Half of SHA-256 of a public key: what a token says of a cluster's authority.
using Fingerprint = std::array<std::byte, 16>;

// P-256. The private half is never shown but by pem().
class PrivateKey {
 public:
  static PrivateKey make();
  static Outcome<PrivateKey> parse(std::string_view pem);

  std::string pem() const;
  // A PKCS #10 request that proves that its sender has this key. It asks for no name: who signs
  // decides.
  std::string request() const;
  Fingerprint fingerprint() const;
  evp_pkey_st* handle() const { return key_.get(); }

 private:
  explicit PrivateKey(evp_pkey_st* key);
  std::shared_ptr<evp_pkey_st> key_;
};

// Of the key that a request proves to have. Foreign bytes, as for Authority::sign().
Outcome<Fingerprint> key_of_request(std::string_view request);

// SHA-256.
std::array<std::byte, 32> digest_of(Bytes bytes);
// That nobody can guess.
std::array<std::byte, 16> random_secret();

class Certificate {
 public:
  static Outcome<Certificate> parse(std::string_view pem);
  // Takes a reference of its own.
  static Certificate share(x509_st* certificate);

  std::string pem() const;
  // Fails for a certificate that names no node, or more than one, or something else besides.
  Outcome<NodeName> name() const;
  uint64_t serial() const;
  engine::WallTime begins() const;
  engine::WallTime ends() const;
  // Of its key; zeros where it has none that can be read, and so proves nothing.
  Fingerprint fingerprint() const;
  x509_st* handle() const { return certificate_.get(); }

 private:
  explicit Certificate(x509_st* certificate);
  std::shared_ptr<x509_st> certificate_;
};

// Signs for a cluster. Any thread.
class Authority {
 public:
  // Valid for ten years from `now`, and for a day before that: clocks differ. `number` counts a
  // cluster's authorities, each of which follows the one before; it is the certificate's serial.
  static Authority make(const std::array<std::byte, 16>& cluster, engine::WallTime now,
                        uint64_t number = 1);
  // Fails if they do not belong together, or if the certificate is no authority's.
  static Outcome<Authority> open(PrivateKey key, Certificate certificate);

  const PrivateKey& key() const { return key_; }
  const Certificate& certificate() const { return certificate_; }

  // Foreign bytes: a request whose signature does not hold, or of another kind of key, is refused
  // with the reason. `serial` is never 0, and never the same for two.
  Outcome<Certificate> sign(std::string_view request, const NodeName& name, uint64_t serial,
                            engine::WallTime begins, engine::WallTime ends) const;
  // Of the authority that follows this one, with the same key and name as its own certificate: who
  // believes this one alone believes that one by it, as long as both last. It may sign nodes, and
  // no authority after it.
  Certificate cross_sign(const Certificate& next) const;

 private:
  Authority(PrivateKey key, Certificate certificate)
      : key_(std::move(key)), certificate_(std::move(certificate)) {}

  PrivateKey key_;
  Certificate certificate_;
};

}  // namespace penstock::tls
