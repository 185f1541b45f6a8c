#include "penstock/symm/rdma.h"

#include <cstdlib>
#include <string_view>

namespace penstock::symm {

Outcome<RdmaChoice> rdma_from_environment() {
  RdmaChoice choice;
  if (const char* const device = std::getenv("PENSTOCK_RDMA_DEVICE")) choice.device = device;
  const char* const text = std::getenv("PENSTOCK_RDMA");
  const std::string_view use = text == nullptr ? "auto" : text;
  if (use == "off") {
    choice.use = RdmaChoice::Use::off;
  } else if (use == "required") {
    choice.use = RdmaChoice::Use::required;
  } else if (use != "auto") {
    return Failure{Code::invalid_argument,
                   fmt::format("PENSTOCK_RDMA is '{}': say auto, off or required", use)};
  }
  return choice;
}

}  // namespace penstock::symm
