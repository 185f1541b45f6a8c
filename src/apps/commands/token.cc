// Commands about who may join: token create, list, revoke.
#include "commands.h"
#include "node/admin.h"
#include "node/node_service.h"

#include <cstdio>

#include "penstock/console.h"

namespace penstock::apps {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

Outcome<Json> ask(const char* command, const TokenOptions& options, Json request) {
  request["command"] = command;
  return ask_node(absolute_path(options.directory), request);
}

std::string state_of(const Json& token) {
  const auto used = token.value("used", uint64_t{0}), uses = token.value("uses", uint64_t{0});
  if (token.value("ended", false)) return "ended";
  return used >= uses ? "used up" : "good";
}

void show_tokens(const Json& tokens) {
  if (tokens.empty()) {
    std::printf("there are no tokens ('penstock token create DIR' makes one)\n");
    return;
  }
  console::Table table({"token", "is", "used", "roles", "node", "restricted to", "ends"},
                       {1, 2, 3, 5, 6});
  for (const Json& token : tokens) {
    const auto node = token.value("node", uint64_t{0});
    table.add({std::to_string(token.value("token", uint64_t{0})), state_of(token),
               std::to_string(token.value("used", uint64_t{0})) + " of " +
                   std::to_string(token.value("uses", uint64_t{0})),
               token.value("roles", ""), node == 0 ? "any" : std::to_string(node),
               token.value("restriction", ""),
               engine::text_of({token.value("ends", int64_t{0}) * kSecond})});
  }
  std::printf("%s", table.text().c_str());
}

}  // namespace

int run_token_create(const TokenOptions& options) {
  const auto roles = cluster::parse_roles(options.roles);
  if (!roles) return fail("token create", roles.error());
  Json request = {{"roles", *roles},
                  {"uses", options.uses},
                  {"seconds", options.seconds},
                  {"node", options.node}};
  put(request, options.words);
  const auto restriction = restriction_in(request);
  if (!restriction) {
    std::fprintf(stderr, "penstock token create: %s\n", restriction.error().message.c_str());
    return kExitUsage;
  }
  auto answer = ask("token create", options, request);
  if (!answer) return fail("token create", answer.error());
  if (options.json) {
    std::printf("%s\n", answer->dump(2).c_str());
    return kExitOk;
  }
  const std::string what = options.node != 0   ? "node " + std::to_string(options.node) + " joins"
                           : options.uses == 1 ? "one node joins"
                                               : std::to_string(options.uses) + " nodes join";
  const bool is_default = *roles == cluster::kJoiningRoles;
  std::printf("within %s %s by\n  penstock join %s DIR%s\n",
              console::human_duration(static_cast<double>(options.seconds)).c_str(), what.c_str(),
              answer->value("invitation", "").c_str(),
              is_default ? "" : (" --roles " + options.roles).c_str());
  if (is_default) {
    std::printf("or, as a client without disks, by\n  penstock join %s --mount PATH\n",
                answer->value("invitation", "").c_str());
  }
  const std::string limits = rights::text_of(*restriction);
  if (!limits.empty()) std::printf("restricted to %s\n", limits.c_str());
  const bool has_disks = (*roles & controller::kRoleStorage) != 0;
  if (!limits.empty() && has_disks) {
    std::printf(
        "a node with disks can see what lies on them, whatever it is restricted to: '--roles "
        "agent'\nlets in clients only\n");
  }
  return kExitOk;
}

int run_token_list(const TokenOptions& options) {
  auto answer = ask("token list", options, Json::object());
  if (!answer) return fail("token list", answer.error());
  if (options.json) {
    std::printf("%s\n", answer->dump(2).c_str());
  } else {
    show_tokens((*answer)["tokens"]);
  }
  return kExitOk;
}

int run_token_revoke(const TokenOptions& options) {
  auto answer = ask("token revoke", options, {{"token", options.token}});
  if (!answer) return fail("token revoke", answer.error());
  if (options.json) {
    std::printf("%s\n", answer->dump(2).c_str());
  } else {
    std::printf("token %u lets nobody in any more; nodes that it has let in stay\n", options.token);
  }
  return kExitOk;
}

}  // namespace penstock::apps
