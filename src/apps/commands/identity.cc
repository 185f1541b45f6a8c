// Commands about the authority of a cluster: identity begin, renew, status.
#include "commands.h"
#include "node/admin.h"
#include "node/node_service.h"

#include <cstdio>
#include <fmt/format.h>

#include "penstock/console.h"

namespace penstock::apps {
namespace {

constexpr int64_t kSecondInNs = 1'000'000'000;

Outcome<Json> ask(const char* command, const IdentityOptions& options, Json request) {
  request["command"] = command;
  return ask_node(absolute_path(options.directory), request);
}

std::string nodes_in(const Json& status, const char* key) {
  std::string text;
  for (const Json& node : status[key]) {
    text += (text.empty() ? "node " : ", ") + std::to_string(node.get<uint64_t>());
  }
  return text;
}

std::string text_of(const Json& authority) {
  return fmt::format("{}, good until {}", authority.value("fingerprint", ""),
                     engine::text_of({authority.value("ends", int64_t{0}) * kSecondInNs}));
}

void show(const Json& status) {
  std::printf("authority  %s\n", text_of(status["authority"]).c_str());
  if (const std::string lost = status.value("lost", ""); !lost.empty()) {
    std::printf("           its key is LOST: %s\n", lost.c_str());
  }
  if (!status.contains("next")) {
    if (status.value("ends_soon", false)) {
      std::printf("           it ends SOON: have another one follow ('penstock identity renew')\n");
    }
    return;
  }
  const bool signs = status.value("stage", "") == "signs";
  const bool is_crossed = status["next"].value("signed_by_the_one_before", false);
  std::printf("next       %s\n", text_of(status["next"]).c_str());
  std::printf("           %s\n",
              signs ? "it signs; nodes get certificates by it" : "nodes learn to believe it");
  if (!is_crossed) {
    std::printf(
        "           it is not signed by the one before: who does not hear of it in time "
        "joins by a token\n");
  }
  const std::string waiting = nodes_in(status, "waiting"), left = nodes_in(status, "left");
  std::printf("waits for  %s%s\n", waiting.empty() ? "nobody" : waiting.c_str(),
              waiting.empty() ? ""
              : signs         ? " (no certificate by it yet)"
                              : " (not heard of it yet)");
  if (!left.empty()) std::printf("left       %s (by --force)\n", left.c_str());
}

int show_as_asked(const IdentityOptions& options, const Json& status) {
  if (options.json) {
    std::printf("%s\n", status.dump(2).c_str());
  } else {
    show(status);
  }
  return kExitOk;
}

}  // namespace

int run_identity_begin(const IdentityOptions& options) {
  const std::string directory = absolute_path(options.directory);
  const auto is_of_cluster = cluster::Participant::was_let_in(directory);
  if (is_of_cluster && *is_of_cluster && node_runs(directory)) {
    return fail("identity begin",
                {Code::in_use, directory + ": its node runs (stop it by 'penstock down')"});
  }
  const auto begun = cluster::Participant::begin_identity(directory, options.again);
  if (!begun) return fail("identity begin", begun.error());
  std::printf(
      "the cluster has %s authority now: start this node%s, make a token for each\n"
      "other node ('penstock token create DIR --node N'), and let it join by that\n",
      options.again ? "another" : "an", options.again ? "" : " without --insecure");
  return kExitOk;
}

int run_identity_renew(const IdentityOptions& options) {
  const auto status = ask("identity renew", options, {{"force", options.force}});
  if (!status) return fail("identity renew", status.error());
  return show_as_asked(options, *status);
}

int run_identity_status(const IdentityOptions& options) {
  const auto status = ask("identity status", options, Json::object());
  if (!status) return fail("identity status", status.error());
  return show_as_asked(options, *status);
}

}  // namespace penstock::apps
