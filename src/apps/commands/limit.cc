// `penstock limit`: weights and limits of users and sessions.
#include "commands.h"
#include "node/admin.h"
#include "node/node_service.h"

#include <cstdio>
#include <vector>

#include "penstock/client.h"
#include "penstock/console.h"

namespace penstock::apps {
namespace {

constexpr const char* kNone = "-";

std::vector<std::string> row_of(const std::string& whose, const Json& limits) {
  const auto number = [&](const char* key) { return limits.value(key, uint64_t{0}); };
  const auto text = [&](const char* key) {
    return number(key) == 0 ? kNone : std::to_string(number(key));
  };
  const auto bytes = number("bytes_per_second");
  return {whose, text("weight"),
          bytes == 0 ? kNone : console::human_bytes(static_cast<double>(bytes)),
          text("operations_per_second"), text("operations_in_flight")};
}

bool is_default(const Json& limits) {
  const auto number = [&](const char* key) { return limits.value(key, uint64_t{0}); };
  return number("weight") == client::Allowance{}.weight && number("bytes_per_second") == 0 &&
         number("operations_per_second") == 0 && number("operations_in_flight") == 0;
}

console::Table limits_head() {
  return console::Table({"limits of", "weight", "bytes/s", "operations/s", "in flight"});
}

}  // namespace

std::string limits_table(const Json& status) {
  console::Table table = limits_head();
  for (const Json& user : status.value("limits", Json::array())) {
    table.add(row_of("user " + std::to_string(user.value("uid", 0u)), user));
  }
  for (const Json& session : status.value("sessions", Json::array())) {
    const Json limits = session.value("limits", Json::object());
    if (limits.empty() || is_default(limits)) continue;
    table.add(row_of("session " + std::to_string(session.value("session", uint64_t{0})), limits));
  }
  return table.empty() ? "" : table.text();
}

int run_limit(const LimitOptions& options) {
  const std::string directory = absolute_path(options.directory);
  if (!options.user && !options.session) {
    if (options.clear || options.weight || options.bytes_per_second ||
        options.operations_per_second || options.in_flight) {
      std::fprintf(stderr, "penstock limit: whose? (--user ID or --session NUMBER)\n");
      return kExitUsage;
    }
    auto status = ask_node(directory, {{"command", "status"}});
    if (!status) return fail("limit", status.error());
    if (options.json) {
      const Json out = {{"limits", (*status)["limits"]}, {"sessions", (*status)["sessions"]}};
      std::printf("%s\n", out.dump(2).c_str());
      return kExitOk;
    }
    const std::string table = limits_table(*status);
    std::printf("%s", table.empty() ? "no user and no session is limited\n" : table.c_str());
    return kExitOk;
  }
  Json request = {{"command", "limit"}, {"clear", options.clear}};
  if (options.user) request["user"] = *options.user;
  if (options.session) request["session"] = *options.session;
  if (options.weight) request["weight"] = *options.weight;
  if (options.bytes_per_second) request["bytes_per_second"] = *options.bytes_per_second;
  if (options.operations_per_second) {
    request["operations_per_second"] = *options.operations_per_second;
  }
  if (options.in_flight) request["operations_in_flight"] = *options.in_flight;
  auto answer = ask_node(directory, request);
  if (!answer) return fail("limit", answer.error());
  if (options.json) {
    std::printf("%s\n", answer->dump(2).c_str());
    return kExitOk;
  }
  console::Table table = limits_head();
  table.add(row_of(options.user ? "user " + std::to_string(*options.user)
                                : "session " + std::to_string(*options.session),
                   *answer));
  std::printf("%s", table.text().c_str());
  return kExitOk;
}

}  // namespace penstock::apps
