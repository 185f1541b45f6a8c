// What a node proves who it is by, as files of its directory (decision 0057). All are 0600, in a
// directory 0700, and replaced as a whole.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "penstock/cluster/invitation.h"
#include "penstock/membership.h"
#include "penstock/tls.h"

namespace penstock::cluster {

// Its key, and once it was let in the papers that it was given.
struct Identity {
  tls::PrivateKey key = tls::PrivateKey::make();
  std::optional<tls::Certificate> certificate;
  std::vector<tls::Certificate> authorities;  // the first has signed it

  // In the form that TLS wants them. Fails for papers that do not go with the key.
  Outcome<std::shared_ptr<const tls::Credentials>> credentials() const;
};

inline constexpr const char* kIdentityName = "identity";

// Nothing if there is none. Fails, with a reason for people that names the file, if it is damaged,
// if it cannot be read, or if others than its owner can.
Outcome<std::optional<Identity>> read_identity(const std::string& directory);
// Durable when it returns.
Outcome<void> keep(const std::string& directory, const Identity& identity);

// As if there had never been one.
void forget_identity(const std::string& directory);

// The cluster's own key and certificate, on the node with the controller.
Outcome<std::optional<tls::Authority>> read_authority(const std::string& directory);
Outcome<void> keep(const std::string& directory, const tls::Authority& authority);

// What a controller has said, for that key: foreign, so that all is looked at. `cluster` and `node`
// are whom the certificate has to name.
Outcome<Identity> with_papers(const Identity& identity, const membership::Papers& papers,
                              const controller::Uuid& cluster, NodeId node);

// As certificates name a cluster.
std::array<std::byte, 16> bytes_of(const controller::Uuid& uuid);

// When a certificate is to be renewed: in the last third of its time.
bool is_due(const tls::Certificate& certificate, engine::WallTime now);

// Signs with the authority. Thread safe.
class ClusterSigner final : public membership::Signer {
 public:
  ClusterSigner(tls::Authority authority, const controller::Uuid& cluster, engine::Duration lasts)
      : authority_(std::move(authority)), cluster_(cluster), lasts_(lasts) {}

  Outcome<controller::KeyPrint> key_of(const std::string& request) const override;
  controller::TokenHash hash_of(const std::string& secret) const override;
  Outcome<membership::Papers> sign(const std::string& request, NodeId node, uint8_t roles) override;

 private:
  const tls::Authority authority_;
  const controller::Uuid cluster_;
  const engine::Duration lasts_;
};

}  // namespace penstock::cluster
