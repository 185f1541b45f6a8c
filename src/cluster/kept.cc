#include "kept.h"

#include <algorithm>
#include <fmt/format.h>

#include "penstock/cluster/listening.h"

namespace penstock::cluster {
namespace {

constexpr uint64_t kVersion = 1;
// Of a node that plays other roles than the first release knew, or has several cards: that one
// does not understand it.
constexpr uint64_t kNodeVersion = 2;

Failure damaged(const std::string& path) {
  return {Code::corrupt, path + ": is damaged (restore the file from a backup)"};
}

using Words = std::map<std::string, std::string>;

// Of a file that begins with `first` and its version, which is `most` at most; nothing if there is
// none.
Outcome<std::optional<Words>> read_words(const std::string& path, const char* first,
                                         uint64_t most = kVersion) {
  const Result<std::string> text = read_kept_file(path);
  if (!text && text.error() == Code::not_found) return std::optional<Words>();
  if (!text) {
    return Failure{text.error(), fmt::format("{}: cannot be read: {}", path, text.error().name())};
  }
  std::optional<Words> words = words_of(*text);
  uint64_t version = 0;
  if (!parse_number((*words)[first], &version)) return damaged(path);
  if (version < kVersion || version > most) {
    return Failure{Code::wrong_version,
                   fmt::format("{}: has format {}, this program reads format {} (use the version "
                               "of penstock that wrote it)",
                               path, version, most)};
  }
  return words;
}

Outcome<void> write(const std::string& path, const std::string& text) {
  ASSERT(text.size() <= kKeptFileBytesMax);
  const Status status = keep_file(path, text, 0600);
  if (status.ok()) return {};
  return Failure{status, fmt::format("{}: cannot be written: {}", path, status.name())};
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    if (end > begin) words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

bool is_good(const KeptNode& node) {
  return !node.listen.empty() && node.listen.size() <= controller::limits::kCardsMax &&
         std::all_of(node.listen.begin(), node.listen.end(),
                     [](const std::string& text) { return parse_listen(text).has_value(); }) &&
         tcp::SocketAddress::parse(node.controller) &&
         node.others.size() <= controller::limits::kCardsMax &&
         std::all_of(node.others.begin(), node.others.end(), [](const std::string& text) {
           return tcp::SocketAddress::parse(text).has_value();
         });
}

// In format 1 a word stands for them.
std::optional<uint8_t> roles_of(Words& words) {
  const std::string& role = words["role"];
  if (role == "controller") return kAllRoles;
  if (role == "storage") return kStorageOnly;
  const auto roles = parse_roles(words["roles"]);
  return roles && role.empty() ? std::optional(*roles) : std::nullopt;
}

}  // namespace

Outcome<std::optional<KeptNode>> read_kept_node(const std::string& directory) {
  const std::string path = directory + "/" + kKeptNodeName;
  TRY_ASSIGN(auto words, read_words(path, "penstock-cluster", kNodeVersion));
  if (!words) return std::optional<KeptNode>();
  KeptNode kept;
  uint64_t node = 0;
  const auto cluster = parse_uuid((*words)["cluster"]);
  const auto roles = roles_of(*words);
  kept.listen = split((*words)["listen"]);
  kept.controller = (*words)["controller"];
  kept.others = split((*words)["others"]);
  kept.rack = (*words)["rack"];
  if (!cluster || !roles || !parse_number((*words)["node"], &node) || node >= UINT32_MAX ||
      !is_good(kept)) {
    return damaged(path);
  }
  kept.cluster = *cluster;
  kept.node = NodeId(static_cast<uint32_t>(node));
  kept.roles = *roles;
  return std::optional(kept);
}

Outcome<std::optional<KeptTarget>> read_kept_target(const std::string& directory) {
  const std::string path = directory + "/" + kKeptTargetName;
  TRY_ASSIGN(auto words, read_words(path, "penstock-target"));
  if (!words) return std::optional<KeptTarget>();
  KeptTarget kept;
  uint64_t incarnation = 0;
  const auto uuid = parse_uuid((*words)["uuid"]);
  const auto cluster = parse_uuid((*words)["cluster"]);
  if (!uuid || !cluster || !parse_number((*words)["incarnation"], &incarnation)) {
    return damaged(path);
  }
  if (const auto node = words->find("node"); node != words->end()) {
    const auto of = parse_uuid(node->second);
    if (!of) return damaged(path);
    kept.node = *of;
  }
  kept.uuid = *uuid;
  kept.cluster = *cluster;
  kept.incarnation = controller::Incarnation(incarnation);
  return std::optional(kept);
}

Outcome<void> keep(const std::string& directory, const KeptNode& node) {
  ASSERT(is_good(node) && parse_roles(roles_text(node.roles)));
  const bool is_simple = (node.roles == kAllRoles || node.roles == kStorageOnly) &&
                         node.listen.size() == 1 &&
                         node.listen.front().find(',') == std::string::npos;
  const std::string role =
      !is_simple ? "roles " + roles_text(node.roles)
                 : std::string("role ") + (runs_controller(node.roles) ? "controller" : "storage");
  std::string text = fmt::format(
      "penstock-cluster {}\ncluster {}\n{}\nnode {}\nlisten {}\ncontroller {}\nrack {}\n",
      is_simple ? kVersion : kNodeVersion, text_of(node.cluster), role, node.node.value,
      fmt::join(node.listen, " "), node.controller, node.rack);
  // Earlier releases do not look at it.
  if (!node.others.empty()) text += fmt::format("others {}\n", fmt::join(node.others, " "));
  return write(directory + "/" + kKeptNodeName, text);
}

Outcome<void> keep(const std::string& directory, const KeptTarget& target) {
  ASSERT(target.uuid != controller::Uuid() && target.cluster != controller::Uuid());
  ASSERT(target.node != controller::Uuid());
  return write(directory + "/" + kKeptTargetName,
               fmt::format("penstock-target {}\nuuid {}\ncluster {}\nnode {}\nincarnation {}\n",
                           kVersion, text_of(target.uuid), text_of(target.cluster),
                           text_of(target.node), target.incarnation.value));
}

}  // namespace penstock::cluster
