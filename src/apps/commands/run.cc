// penstock run: starts the processes of a job on this machine.
#include "commands.h"

#include <cstdio>
#include <cstdlib>

#include "penstock/job.h"

namespace penstock::apps {
namespace {

// As shells have them.
constexpr int kExitCannotRun = 126;
constexpr int kExitNoProgram = 127;

// NAME=VALUE, or NAME: what it is here. Ranks of this machine have that one anyway.
job::LaunchOptions launch_of(const RunOptions& options) {
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
    } else if (std::getenv(word.c_str()) == nullptr) {
      std::fprintf(stderr, "penstock run: -x %s: there is no such variable here\n", word.c_str());
    }
  }
  return launch;
}

}  // namespace

int run_run(const RunOptions& options) {
  if (options.per_node != 0 && options.size > options.per_node) {
    std::fprintf(stderr,
                 "penstock run: %u processes, %u on a node, take several nodes; there is one (say "
                 "-n %u, or a larger --ppn)\n",
                 options.size, options.per_node, options.per_node);
    return kExitUsage;
  }
  for (const std::string& word : options.environment) {
    if (!word.empty() && word[0] != '=') continue;
    std::fprintf(stderr, "penstock run: -x '%s': say NAME or NAME=VALUE\n", word.c_str());
    return kExitUsage;
  }
  std::fflush(stdout);
  const auto code = job::launch(launch_of(options));
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
