// Certificates for nodes of tests.
#pragma once

#include "penstock/tls.h"

namespace penstock::test {

// Of one cluster, whose id is zeros, and whose authority is made anew in each process. Guests may
// call whoever has these.
std::shared_ptr<const tls::Credentials> credentials_of(NodeId node,
                                                       const std::string& roles = "storage");
// The same, good for so long from now on.
std::shared_ptr<const tls::Credentials> short_credentials_of(NodeId node, engine::Duration lasts);
// Of somebody who knows the cluster, and has no certificate.
std::shared_ptr<const tls::Credentials> credentials_of_guest();
// Of a node of that number in a cluster that nobody else knows.
std::shared_ptr<const tls::Credentials> foreign_credentials_of(NodeId node);

}  // namespace penstock::test
