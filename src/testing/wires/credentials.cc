#include <atomic>

#include "penstock/testing_wires.h"

namespace penstock::test {
namespace {

constexpr int64_t kHour = int64_t{3600} * 1'000'000'000;

engine::WallTime hours_from_now(int64_t hours) {
  return {engine::system_clock().wall().nanoseconds + hours * kHour};
}

std::shared_ptr<const tls::Credentials> make(const tls::Authority& authority, NodeId node,
                                             const std::string& roles = "storage") {
  static std::atomic<uint64_t> serials{1};
  tls::Credentials::Config config;
  config.key = tls::PrivateKey::make();
  auto certificate = authority.sign(config.key->request(), {.node = node, .roles = roles},
                                    ++serials, hours_from_now(-1), hours_from_now(1));
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
  static const tls::Authority kAuthority = tls::Authority::make({}, hours_from_now(-1));
  return kAuthority;
}

}  // namespace

std::shared_ptr<const tls::Credentials> credentials_of(NodeId node, const std::string& roles) {
  return make(authority(), node, roles);
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
  return make(tls::Authority::make({}, hours_from_now(-1)), node);
}

}  // namespace penstock::test
