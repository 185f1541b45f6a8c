// Who nodes are, and TLS 1.3 between them: certificates, handshakes, and records that are sealed
// and opened where bytes are (decision 0057).
#pragma once

#include "penstock/tls/certificate.h"
#include "penstock/tls/handshake.h"
#include "penstock/tls/kernel.h"
#include "penstock/tls/record.h"
#include "penstock/tls/signing.h"
