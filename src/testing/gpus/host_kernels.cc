#include "penstock/testing_gpus/host_kernels.h"

#include <map>

#include "penstock/base.h"

namespace penstock::test {
namespace {

// Made by the first constructor that adds one, whatever the order of sources.
std::map<std::string_view, HostKernel>& all_kernels() {
  static std::map<std::string_view, HostKernel> all;
  return all;
}

}  // namespace

bool add_host_kernel(const char* name, HostKernel kernel) {
  const bool is_new = all_kernels().emplace(name, kernel).second;
  ASSERT(is_new);
  return true;
}

HostKernel find_host_kernel(std::string_view name) {
  const auto found = all_kernels().find(name);
  return found != all_kernels().end() ? found->second : nullptr;
}

}  // namespace penstock::test
