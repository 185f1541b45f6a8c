// Stands in the place of the real devices where libibverbs was missing.
#include "penstock/verbs/device.h"

namespace penstock::verbs {

std::vector<std::string> device_names() {
  return {};
}

std::vector<PortFound> find_ports() {
  return {};
}

Outcome<std::unique_ptr<Provider>> open_device(const DeviceChoice&) {
  return Failure{Code::not_supported, "verbs: built without libibverbs (package libibverbs-dev)"};
}

}  // namespace penstock::verbs
