#include "launching.h"
#include "spread_launching.h"

#include "penstock/job.h"

namespace penstock::job {

Outcome<int> launch(const LaunchOptions& options) {
  const bool all_here =
      options.nodes.empty() || (options.nodes.size() == 1 && options.nodes[0].here);
  if (!all_here) {
    SpreadLaunching launching(options);
    TRY(launching.prepare());
    return launching.run();
  }
  Launching launching(options);
  TRY(launching.prepare());
  TRY(launching.start_all());
  return launching.run();
}

}  // namespace penstock::job
