#include <atomic>

#include "penstock/testing_wires.h"

namespace penstock::test {
namespace {

engine::WallTime from_now(engine::Duration duration) {
  return {engine::system_clock().wall().nanoseconds + duration.count()};
}

std::shared_ptr<const tls::Credentials> make(const tls::Authority& authority, NodeId node,
                                             const std::string& roles = "storage",
                                             engine::Duration lasts = std::chrono::hours(1)) {
  static std::atomic<uint64_t> serials{1};
  tls::Credentials::Config config;
  config.key = tls::PrivateKey::make();
  auto certificate = authority.sign(config.key->request(), {.node = node, .roles = roles},
                                    ++serials, from_now(std::chrono::hours(-1)), from_now(lasts));
  ASSERT(certificate);
  config.certificate = *certificate;
  config.authorities = {authority.certificate()};
  config.admit_guests = true;
  config.clock = &engine::system_clock();
  auto made = tls::Credentials::make(std::move(config));
  ASSERT(made);
  return *made;
}

const tls::Authority& authority() {
  static const tls::Authority kAuthority =
      tls::Authority::make({}, from_now(std::chrono::hours(-1)));
  return kAuthority;
}

}  // namespace

std::shared_ptr<const tls::Credentials> credentials_of(NodeId node, const std::string& roles) {
  return make(authority(), node, roles);
}

std::shared_ptr<const tls::Credentials> short_credentials_of(NodeId node, engine::Duration lasts) {
  return make(authority(), node, "storage", lasts);
}

std::shared_ptr<const tls::Credentials> credentials_of_guest() {
  tls::Credentials::Config config;
  config.expected = authority().certificate().fingerprint();
  config.clock = &engine::system_clock();
  auto made = tls::Credentials::make(std::move(config));
  ASSERT(made);
  return *made;
}

std::shared_ptr<const tls::Credentials> foreign_credentials_of(NodeId node) {
  return make(tls::Authority::make({}, from_now(std::chrono::hours(-1))), node);
}

}  // namespace penstock::test
