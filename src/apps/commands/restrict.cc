// What a node may do: restrict.
#include "commands.h"
#include "node/admin.h"
#include "node/node_service.h"

#include <cstdio>

namespace penstock::apps {

int run_restrict(const RestrictOptions& options) {
  Json request = {{"command", "restrict"}, {"node", options.node}};
  put(request, options.words);
  const auto what = restriction_in(request);
  if (!what) {
    std::fprintf(stderr, "penstock restrict: %s\n", what.error().message.c_str());
    return kExitUsage;
  }
  if (what->is_nothing() != options.nothing) {
    std::fprintf(stderr,
                 options.nothing
                     ? "penstock restrict: --nothing goes with no other restriction\n"
                     : "penstock restrict: say what the node is limited to (--uids, --gids, "
                       "--squash, --subtree, --read-only), or --nothing\n");
    return kExitUsage;
  }
  auto answer = ask_node(absolute_path(options.directory), request);
  if (!answer) return fail("restrict", answer.error());
  if (options.json) {
    std::printf("%s\n", answer->dump(2).c_str());
    return kExitOk;
  }
  const std::string text = rights::text_of(*what);
  std::printf("node %u is %s\n", options.node,
              text.empty() ? "not restricted any more" : ("restricted to " + text).c_str());
  if (!text.empty() && answer->value("has_disks", false)) {
    std::printf(
        "it has disks of the cluster: that binds its mounts and programs, and not who owns the\n"
        "machine, who has the chunks that lie there\n");
  }
  if (!text.empty() && answer->value("insecure", false)) {
    std::printf(
        "this cluster was begun with --insecure: that binds only nodes that say who they are\n");
  }
  return kExitOk;
}

}  // namespace penstock::apps
