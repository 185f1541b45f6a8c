// What the sources here share: things that OpenSSL gives to be freed, and its times.
#pragma once

#include <ctime>
#include <memory>

#include "penstock/engine.h"

namespace penstock::tls::internal {

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
