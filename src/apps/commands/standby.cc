// `penstock standby`: a directory from which another machine goes on with names and controller.
#include "commands.h"
#include "node/node_service.h"

#include <cstdio>

#include "penstock/agent.h"

namespace penstock::apps {

int run_standby(const StandbyOptions& options) {
  const std::string made = absolute_path(options.made);
  const auto done = agent::make_standby(absolute_path(options.directory), made, options.listen);
  if (!done) return fail("standby", done.error());
  std::printf(
      "made: %s\n"
      "It has the secrets of the first node: carry it as such (scp -rp), and leave no copy "
      "behind.\n"
      "\nNext, on the other machine, whose user can reach the database (~/.pgpass):\n"
      "  penstock up %s   stands by at %s, and goes on when the one before is lost\n",
      made.c_str(), "DIR", options.listen.c_str());
  return kExitOk;
}

}  // namespace penstock::apps
