// `penstock top`: what a node does right now.
#include "commands.h"
#include "commands/difference.h"
#include "node/admin.h"
#include "node/node_service.h"

#include <chrono>
#include <cstdio>
#include <thread>
#include <unistd.h>
#include <utility>

#include "penstock/console.h"

namespace penstock::apps {
namespace {

using Clock = std::chrono::steady_clock;

Outcome<Json> look(const std::string& directory) {
  return ask_node(directory, {{"command", "status"}});
}

}  // namespace

int run_top(const TopOptions& options) {
  const std::string directory = absolute_path(options.directory);
  const bool is_live = console::is_terminal(STDOUT_FILENO) && !options.once && !options.json;
  auto before = look(directory);
  if (!before) return fail("top", before.error());
  Clock::time_point then = Clock::now();
  while (true) {
    std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
    auto after = look(directory);
    if (!after) return fail("top", after.error());
    const Clock::time_point now = Clock::now();
    const Json difference =
        difference_of(*before, *after, std::chrono::duration<double>(now - then).count());
    if (options.json) {
      std::printf("%s\n", difference.dump(2).c_str());
    } else {
      // The cursor goes home and the rest of the old screen away; nothing else of the terminal
      // changes, so Ctrl-C leaves it as it was.
      std::printf("%s%s", is_live ? "\033[H\033[J" : "", screen_of(difference).c_str());
      if (is_live) std::printf("\nevery %.3g s; Ctrl-C ends\n", options.seconds);
    }
    if (!is_live) return kExitOk;
    std::fflush(stdout);
    before = std::move(after);
    then = now;
  }
}

}  // namespace penstock::apps
