#include "cluster_nodes.h"

#include <algorithm>
#include <filesystem>

#include "penstock/cluster.h"

namespace penstock::bench {
namespace {

namespace fs = std::filesystem;

// Starts a node in the background, says so, and ends it when its input ends. The first words are
// this program and the node's directory, which may be gone by then. A node that does not end within
// 10 s is killed.
constexpr const char* kScript =
    "program=$1; directory=$2; shift 2; "
    "\"$program\" \"$@\" -b >/dev/null || exit 1; "
    "node=$(\"$program\" status \"$directory\" --json | "
    "sed -n 's/^ *\"pid\": \\([0-9]*\\).*/\\1/p'); "
    "echo ready; read -r end; "
    "kill \"$node\"; for look in $(seq 200); do kill -0 \"$node\" 2>/dev/null || exit 0; sleep "
    "0.05; done; "
    "kill -9 \"$node\"";

// On loopback, with a port that is free at this moment.
Outcome<std::string> free_address() {
  const auto usual = tcp::SocketAddress::parse("127.0.0.1:9180");
  ASSERT(usual);
  return cluster::choose_listen(*usual);
}

Failure not_started(const std::string& directory) {
  return {Code::io_error, directory + ": the node did not start; its log is " + directory + "/log"};
}

const Json* member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

uint64_t number(const Json& object, const char* key) {
  const Json* const found = member(object, key);
  return found != nullptr && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

const Json& list(const Json& object, const char* key) {
  static const Json none = Json::array();
  const Json* const found = member(object, key);
  return found != nullptr && found->is_array() ? *found : none;
}

}  // namespace

Outcome<ClusterNodes> ClusterNodes::start(const std::string& directory, uint32_t count) {
  std::error_code error;
  const std::string program = fs::read_symlink("/proc/self/exe", error);
  if (error) return Failure{Status::from_errno(error.value()), "/proc/self/exe"};
  const auto directory_of = [&](uint32_t node) {
    return directory + "/node" + std::to_string(node);
  };
  ClusterNodes cluster(program, directory_of(1));
  const auto add = [&](const std::string& at, const std::vector<std::string>& words) {
    std::vector<std::string> arguments = {"sh", "-c", kScript, "sh", program, at};
    arguments.insert(arguments.end(), words.begin(), words.end());
    return Companion::start(arguments);
  };
  TRY_ASSIGN(const std::string address, free_address());
  auto first = add(directory_of(1), {"up", directory_of(1), "--listen", address, "--cache", "0"});
  if (!first) return not_started(directory_of(1));
  cluster.nodes_.push_back(std::move(*first));
  for (uint32_t node = 2; node <= count; ++node) {
    TRY_ASSIGN(const Json made, cluster.ask("token", {"create", directory_of(1)}));
    const Json* const invitation = member(made, "invitation");
    if (invitation == nullptr || !invitation->is_string()) return not_started(directory_of(1));
    auto other =
        add(directory_of(node), {"join", invitation->get<std::string>(), directory_of(node)});
    if (!other) return not_started(directory_of(node));
    cluster.nodes_.push_back(std::move(*other));
  }
  return cluster;
}

Outcome<Json> ClusterNodes::ask(const std::string& command,
                                const std::vector<std::string>& words) const {
  std::vector<std::string> arguments = {program_, command};
  if (words.empty()) arguments.push_back(first_);
  for (const std::string& word : words) {
    arguments.push_back(word.starts_with('/') ? first_ + ":" + word : word);
  }
  arguments.emplace_back("--json");
  const auto text = output_of(arguments);
  Json document = text ? Json::parse(*text, nullptr, false) : Json();
  if (!text || document.is_discarded()) {
    return Failure{Code::io_error, "penstock " + command + " " + first_ + " failed"};
  }
  return document;
}

Outcome<void> ClusterNodes::set_copies(const std::string& path, uint32_t copies,
                                       bool one_chain) const {
  TRY(ask("set", {path, "--copies", std::to_string(copies), "--stripe", one_chain ? "1" : "all"}));
  return {};
}

Outcome<bool> ClusterNodes::is_elsewhere(const std::string& path) const {
  TRY_ASSIGN(const Json layouts, ask("layout", {path}));
  TRY_ASSIGN(const Json known, ask("chains", {}));
  if (!layouts.is_array() || layouts.empty()) return false;
  const Json& chains = list(layouts[0], "chains");
  const auto has_first = [&](const Json& chain) {
    const bool is_of_file =
        std::ranges::any_of(chains, [&](const Json& one) { return one == number(chain, "chain"); });
    return is_of_file && std::ranges::any_of(list(chain, "members"), [](const Json& each) {
             return number(each, "node") == 1;
           });
  };
  return !chains.empty() && std::ranges::none_of(list(known, "chains"), has_first);
}

Outcome<console::Session> ClusterNodes::connect() const {
  return console::connect_session(first_);
}

}  // namespace penstock::bench
