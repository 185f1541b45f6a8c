// Runs the tests of meta with a Meta that is asked over a net.
#include "over_net.h"

namespace penstock::meta_net {
namespace {

[[maybe_unused]] const bool kOpened = [] {
  meta::opener() = open_over_net;
  meta::one_run_in() = 15;
  return true;
}();

}  // namespace
}  // namespace penstock::meta_net
