// Commands about a cluster: join, cluster, nodes, chains, drain, remove.
#include "commands.h"
#include "node/admin.h"
#include "node/node_service.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <optional>

#include "penstock/console.h"

namespace penstock::apps {
namespace {

// A document that has been asked for: shown as it is, or by `show`.
int print_answer(const char* command, const ClusterOptions& options, Json request,
                 void (*show)(const Json&)) {
  request["command"] = command;
  auto answer = ask_node(absolute_path(options.directory), request);
  if (!answer) return fail(command, answer.error());
  if (options.json) {
    std::printf("%s\n", answer->dump(2).c_str());
  } else {
    show(*answer);
  }
  return kExitOk;
}

std::string number_text(const Json& of, const char* key) {
  return std::to_string(of.value(key, uint64_t{0}));
}

std::string time_text(const Json& of, const char* key) {
  const auto found = of.find(key);
  if (found == of.end() || !found->is_number()) return "";
  return ", about " + console::human_duration(found->get<double>());
}

void show_nowhere(const Json& of) {
  if (of.value("chains_without_place", uint64_t{0}) == 0) return;
  std::printf(
      "%s of them can go NOWHERE now: each other node has a copy already, is down, or has no "
      "room;\nthey go when another node joins ('penstock drain --undo': it may stay)\n",
      number_text(of, "chains_without_place").c_str());
}

// What a node that is to go still has.
void show_drain(const Json& node) {
  const auto left = node.value("chains_left", uint64_t{0});
  const std::string name = "node " + number_text(node, "node");
  const Json roles = node.value("roles", Json::array());
  const auto plays = [&roles](const char* role) {
    return std::find(roles.begin(), roles.end(), role) != roles.end();
  };
  if (left == 0 && (plays("controller") || plays("meta"))) {
    std::printf("%s has handed over all chains; it still has %s, and must stay\n", name.c_str(),
                plays("controller") ? "the controller" : "the names");
    return;
  }
  if (left == 0) {
    std::printf(
        "%s has handed over all chains: end it ('penstock down' there), then 'penstock "
        "remove' it\n",
        name.c_str());
    return;
  }
  std::printf(
      "%s has %s chains to hand over%s; it serves until then ('penstock nodes' says how far "
      "it is)\n",
      name.c_str(), number_text(node, "chains_left").c_str(),
      time_text(node, "drain_seconds").c_str());
  show_nowhere(node);
}

// The same of a disk, or of a target of which nobody here knows on which disk it is.
void show_disk_drain(const Json& of, const std::string& name) {
  if (of.value("chains_left", uint64_t{0}) == 0) {
    std::printf("%s has handed over all chains: 'penstock remove DIR --disk' takes it off\n",
                name.c_str());
    return;
  }
  std::printf(
      "%s has %s chains to hand over%s; it serves until then ('penstock nodes' says how far it "
      "is)\n",
      name.c_str(), number_text(of, "chains_left").c_str(), time_text(of, "drain_seconds").c_str());
  show_nowhere(of);
}

void show_drained_targets(const Json& node) {
  for (const Json& target : node.value("targets", Json::array())) {
    if (!target.value("is_to_go", false)) continue;
    const Json of = {{"chains_left", target.value("chains", uint64_t{0})},
                     {"chains_without_place", node.value("chains_without_place", uint64_t{0})},
                     {"drain_seconds", node.value("drain_seconds", Json())}};
    show_disk_drain(
        of, "target " + number_text(target, "target") + " of node " + number_text(node, "node"));
  }
}

void show_cluster(const Json& cluster) {
  const auto number = [&](const char* key) { return cluster.value(key, uint64_t{0}); };
  std::printf("cluster %s\n", cluster.value("cluster", "").c_str());
  std::printf("  nodes     %s", number_text(cluster, "nodes").c_str());
  if (number("clients") > 0) {
    std::printf(", and %s clients without disks", number_text(cluster, "clients").c_str());
  }
  if (number("missing") > 0) std::printf(", %s missing", number_text(cluster, "missing").c_str());
  if (number("suspected") > 0) {
    std::printf(", %s not reached by their neighbours", number_text(cluster, "suspected").c_str());
  }
  std::printf("\n  chains    %s: %s whole", number_text(cluster, "chains").c_str(),
              number_text(cluster, "whole").c_str());
  if (number("partial") > 0) {
    std::printf(", %s with copies missing", number_text(cluster, "partial").c_str());
  }
  if (number("unavailable") > 0) {
    std::printf(", %s without any copy", number_text(cluster, "unavailable").c_str());
  }
  if (number("syncing") > 0) {
    std::printf("; %s are being repaired", number_text(cluster, "syncing").c_str());
  }
  std::printf("\n");
  if (number("moves_left") > 0) {
    std::printf("  moving    %s copies to where there is more room, %s of them now%s%s\n",
                number_text(cluster, "moves_left").c_str(), number_text(cluster, "moving").c_str(),
                time_text(cluster, "moves_seconds").c_str(),
                cluster.value("moves_wait", false) ? "; waiting until no chain lacks a copy" : "");
  }
  for (const Json& table : cluster.value("tables", Json::array())) {
    std::printf("  table %-3s %s copies, %s chains\n", number_text(table, "table").c_str(),
                number_text(table, "copies").c_str(), number_text(table, "chains").c_str());
    if (!table.value("outgrown", false)) continue;
    std::printf(
        "            fewer than there are disks: 'penstock set DIR:/ --copies %s' again makes\n"
        "            more for new files\n",
        number_text(table, "copies").c_str());
  }
  std::printf(
      "  names     on one node only, and the controller's records on one: if the disk of the "
      "names\n"
      "            is lost, so are all files, whatever copies of bytes there are (keep a dump of\n"
      "            them elsewhere: 'penstock metadata dump')\n");
  if (cluster.value("insecure", false)) {
    std::printf(
        "  INSECURE  nobody proves who they are, and bytes travel in the clear (--insecure)\n"
        "\nOther nodes join by:\n  penstock join %s DIR --insecure\n",
        cluster.value("invitation", "").c_str());
    return;
  }
  std::printf(
      "\nOther nodes join by the line that 'penstock token create DIR' prints on the first node;\n"
      "those that were of the cluster find it by\n  penstock join %s DIR\n",
      cluster.value("invitation", "").c_str());
}

std::string address_text(const Json& node) {
  std::string text;
  for (const Json& card : node.value("cards", Json::array())) {
    if (!text.empty()) text += " ";
    text += card.value("host", "") + ":" + number_text(card, "port");
  }
  return text;
}

std::string roles_words(const Json& node) {
  std::string text;
  for (const Json& role : node.value("roles", Json::array())) {
    if (!text.empty()) text += ",";
    text += role.get<std::string>();
  }
  return text == "controller,meta,storage,agent" ? "all" : text;
}

void show_nodes(const Json& document) {
  console::Table table(
      {"node", "name", "roles", "at", "rack", "state", "heard", "target", "is", "size", "chains"},
      {1, 2, 3, 4, 5, 8});
  for (const Json& node : document.value("nodes", Json::array())) {
    std::vector<std::string> row = {
        number_text(node, "node"),
        node.value("name", ""),
        roles_words(node),
        address_text(node),
        node.value("rack", ""),
        node.value("state", ""),
        node.contains("heard_seconds_ago")
            ? console::human_duration(node.value("heard_seconds_ago", 0.0)) + " ago"
            : "-"};
    const Json targets = node.value("targets", Json::array());
    if (targets.empty()) {
      row.insert(row.end(), 4, "-");
      table.add(row);
    }
    for (const Json& target : targets) {
      row.resize(7);
      row.push_back(number_text(target, "target"));
      row.push_back(target.value("state", "") +
                    std::string(target.value("full", false) ? ", full" : "") +
                    std::string(target.value("is_to_go", false) ? ", draining" : ""));
      row.push_back(console::human_bytes(target.value("capacity_bytes", 0.0)));
      row.push_back(number_text(target, "chains"));
      table.add(row);
      row.assign(7, "");
    }
  }
  std::printf("%s", table.text().c_str());
  for (const Json& node : document.value("nodes", Json::array())) {
    const std::string limits = node.value("restriction", "");
    if (limits.empty() || node.value("state", "") == "removed") continue;
    std::printf("node %s is restricted to %s\n", number_text(node, "node").c_str(), limits.c_str());
  }
  for (const Json& node : document.value("nodes", Json::array())) {
    if (node.value("is_to_go", false)) {
      show_drain(node);
    } else {
      show_drained_targets(node);
    }
  }
}

void show_chains(const Json& document) {
  console::Table table({"chain", "version", "is", "copies, the head first"}, {2, 3});
  for (const Json& chain : document.value("chains", Json::array())) {
    std::string members;
    for (const Json& member : chain.value("members", Json::array())) {
      if (!members.empty()) members += "  ";
      members += "node " + number_text(member, "node") + ": " + member.value("state", "");
      if (member.value("leaving", false)) members += " (leaves)";
      if (member.value("doubtful", false)) members += " (to be trusted by a person)";
    }
    table.add({number_text(chain, "chain"), number_text(chain, "version"),
               chain.value("state", "") + (chain.value("moves", false) ? ", moves" : ""), members});
  }
  if (table.empty()) {
    std::printf("no chains yet: they are made with the first table of copies\n");
    return;
  }
  std::printf("%s", table.text().c_str());
}

// Of what a node or a disk is to go; nothing if that was not said.
std::optional<Json> request_of(const char* command, const ClusterOptions& options) {
  if (!options.disk.empty()) return Json{{"disk", absolute_path(options.disk)}};
  if (options.node != 0) return Json{{"node", options.node}};
  std::fprintf(stderr, "penstock %s: name a node, or a disk of this one by --disk PATH\n", command);
  return std::nullopt;
}

}  // namespace

namespace {

// Where a client keeps who it is, that was given no directory.
Outcome<std::string> client_directory(const controller::Uuid& cluster) {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value != nullptr && value[0] == '/' ? value : "");
  };
  std::string base = variable("XDG_STATE_HOME");
  if (base.empty() && ::geteuid() == 0) base = "/var/lib";
  if (base.empty() && !variable("HOME").empty()) base = variable("HOME") + "/.local/state";
  if (base.empty()) {
    return Failure{Code::invalid_argument,
                   "there is no place for who this client is: neither XDG_STATE_HOME nor HOME is "
                   "set (or give a DIR)"};
  }
  base += "/penstock";
  std::error_code error;
  std::filesystem::create_directories(base, error);
  if (!error) return base + "/" + cluster::text_of(cluster);
  return Failure{Status::from_errno(error.value()),
                 base + ": cannot be made: " + error.message() + " (give a DIR)"};
}

}  // namespace

int run_join(const JoinOptions& given) {
  JoinOptions options = given;
  if (options.invitation == "-") {
    // A token need not be seen by all who list processes.
    std::string line;
    std::getline(std::cin, line);
    options.invitation = line;
  }
  auto invitation = cluster::parse_invitation(options.invitation);
  if (!invitation) return fail("join", invitation.error());
  options.up.invitation = *invitation;
  if (options.up.directory.empty()) {
    if (options.up.mount_point.empty()) {
      std::fprintf(stderr,
                   "penstock join: say a DIR, or --mount PATH for a client without disks\n");
      return kExitUsage;
    }
    if (options.up.roles.empty()) options.up.roles = "agent";
    auto chosen = client_directory(invitation->cluster);
    if (!chosen) return fail("join", chosen.error());
    options.up.directory = *chosen;
  }
  auto roles = cluster::Participant::roles_of(absolute_path(options.up.directory));
  if (!roles) return fail("join", roles.error());
  // What an earlier try has left, that was ended before the cluster let it in, does not count.
  auto was_let_in = cluster::Participant::was_let_in(absolute_path(options.up.directory));
  if (!was_let_in) return fail("join", was_let_in.error());
  if (options.up.listen.empty() && (*roles == 0 || !*was_let_in)) {
    auto listen = cluster::choose_listen(invitation->controller);
    if (!listen) return fail("join", listen.error());
    options.up.listen = {*listen};
  }
  return run_up(options.up);
}

int run_cluster(const ClusterOptions& options) {
  return print_answer("cluster", options, {}, show_cluster);
}

int run_nodes(const ClusterOptions& options) {
  return print_answer("nodes", options, {}, show_nodes);
}

int run_chains(const ClusterOptions& options) {
  return print_answer("chains", options, {}, show_chains);
}

int run_drain(const ClusterOptions& options) {
  auto request = request_of("drain", options);
  if (!request) return kExitUsage;
  (*request)["undo"] = options.undo;
  const bool is_disk = !options.disk.empty();
  if (options.undo) {
    return print_answer("drain", options, *request, [](const Json& answer) {
      std::printf("the %s stays\n", answer.contains("disk") ? "disk" : "node");
    });
  }
  if (!is_disk) return print_answer("drain", options, *request, show_drain);
  return print_answer("drain", options, *request, [](const Json& answer) {
    show_disk_drain(answer, answer.value("disk", ""));
  });
}

int run_remove(const ClusterOptions& options) {
  auto request = request_of("remove", options);
  if (!request) return kExitUsage;
  (*request)["force"] = options.force;
  if (options.disk.empty()) {
    return print_answer("remove", options, *request,
                        [](const Json&) { std::printf("the node was removed\n"); });
  }
  return print_answer("remove", options, *request, [](const Json& answer) {
    std::printf("%s was taken off%s\n", answer.value("disk", "").c_str(),
                answer.value("is_open", false)
                    ? "; the node has it open until its next start ('penstock down', 'penstock "
                      "up')"
                    : "; what it had gets copies elsewhere");
  });
}

}  // namespace penstock::apps
