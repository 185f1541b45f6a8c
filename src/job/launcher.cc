#include "launching.h"

#include "penstock/job.h"

namespace penstock::job {

Outcome<int> launch(const LaunchOptions& options) {
  Launching launching(options);
  TRY(launching.prepare());
  TRY(launching.start_all());
  return launching.run();
}

}  // namespace penstock::job
