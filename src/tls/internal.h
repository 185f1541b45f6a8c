// What the sources here share: OpenSSL's library, things that it gives to be freed, and its times.
#pragma once

#include <ctime>
#include <memory>
#include <openssl/crypto.h>

#include "penstock/engine.h"

namespace penstock::tls::internal {

// OpenSSL's algorithms for all that is done here, of its own providers: what an openssl.cnf of the
// machine says about providers does not matter. Never freed. Any thread.
OSSL_LIB_CTX* library();

// While it lives, what this thread asks of OpenSSL without naming a library is asked of that one:
// not all functions let one be named.
class UseLibrary {
 public:
  UseLibrary() : before_(OSSL_LIB_CTX_set0_default(library())) {}
  ~UseLibrary() { OSSL_LIB_CTX_set0_default(before_); }
  UseLibrary(const UseLibrary&) = delete;
  UseLibrary& operator=(const UseLibrary&) = delete;

 private:
  OSSL_LIB_CTX* const before_;
};

template <auto kFree>
struct Free {
  template <class T>
  void operator()(T* one) const {
    kFree(one);
  }
};

template <class T, auto kFree>
using Handle = std::unique_ptr<T, Free<kFree>>;

inline constexpr int64_t kSecond = 1'000'000'000;

inline time_t seconds_of(engine::WallTime time) {
  return static_cast<time_t>(time.nanoseconds / kSecond);
}

}  // namespace penstock::tls::internal
