// penstock run: starts the processes of a job on this machine.
#include "commands.h"

#include <cstdio>

#include "penstock/job.h"

namespace penstock::apps {
namespace {

// As shells have them.
constexpr int kExitCannotRun = 126;
constexpr int kExitNoProgram = 127;

}  // namespace

int run_run(const RunOptions& options) {
  job::LaunchOptions launch;
  launch.size = options.size;
  launch.command = options.command;
  launch.directory = options.directory;
  launch.label = options.label;
  launch.keep_going = options.keep_going;
  for (const std::string& word : options.environment) {
    const size_t equals = word.find('=');
    if (equals != std::string::npos) {
      launch.environment.emplace_back(word.substr(0, equals), word.substr(equals + 1));
    }
  }
  std::fflush(stdout);
  const auto code = job::launch(launch);
  if (code) return *code;
  const int failed = fail("run", code.error());
  switch (code.error().status.code()) {
    case Code::not_found:
      return kExitNoProgram;
    case Code::access_denied:
      return kExitCannotRun;
    case Code::invalid_argument:
      return kExitUsage;
    default:
      return failed;
  }
}

}  // namespace penstock::apps
