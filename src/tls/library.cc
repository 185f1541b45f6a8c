#include "internal.h"

#include <openssl/crypto.h>

namespace penstock::tls::internal {

OSSL_LIB_CTX* library() {
  static OSSL_LIB_CTX* const kLibrary = [] {
    OSSL_LIB_CTX* const made = OSSL_LIB_CTX_new();
    ASSERT(made != nullptr);
    return made;
  }();
  return kLibrary;
}

}  // namespace penstock::tls::internal
