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
  // What goes along with the certificate, where that is not the first authority: on the node with
  // the controller, the way to it from the authority before. Not in this file.
  std::vector<tls::Certificate> shown;

  // In the form that TLS wants them. Fails for papers that do not go with the key.
  Outcome<std::shared_ptr<const tls::Credentials>> credentials() const;
};

// Nothing if there is none. Fails, with a reason for people that names the file, if it is damaged,
// if it cannot be read, or if others than its owner can.
Outcome<std::optional<Identity>> read_identity(const std::string& directory);
// Durable when it returns.
Outcome<void> keep(const std::string& directory, const Identity& identity);

// As if there had never been one.
void forget_identity(const std::string& directory);

// What a controller has said, for that key: foreign, so that all is looked at. `cluster` and `node`
// are whom the certificate has to name.
Outcome<Identity> with_papers(const Identity& identity, const membership::Papers& papers,
                              const controller::Uuid& cluster, NodeId node);

// As messages name a key, and an authority.
controller::KeyPrint print_of(const tls::Fingerprint& fingerprint);
controller::KeyPrint print_of(const tls::Certificate& authority);

// As certificates name a cluster.
std::array<std::byte, 16> bytes_of(const controller::Uuid& uuid);

// When a certificate is to be renewed: in the last third of its time.
bool is_due(const tls::Certificate& certificate, engine::WallTime now);

}  // namespace penstock::cluster
