#include "penstock/job/hosts.h"

#include "sockets.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <unistd.h>

#include "penstock/job/limits.h"

namespace penstock::job {
namespace {

Failure no_host(std::string_view word, const std::string& why) {
  return {Code::invalid_argument, fmt::format("'{}' is no host: {}", word, why)};
}

Outcome<uint32_t> slots_of(std::string_view word, std::string_view text) {
  uint64_t slots = 0;
  if (!parse_number(std::string(text), &slots) || slots == 0 || slots > limits::kRanksMax) {
    return no_host(word, fmt::format("slots are 1 to {}", limits::kRanksMax));
  }
  return static_cast<uint32_t>(slots);
}

Outcome<Host> parse_host(std::string_view word) {
  Host host;
  std::string_view name = word;
  std::optional<std::string_view> slots;
  if (word.starts_with('[')) {
    const size_t end = word.find(']');
    if (end == std::string_view::npos) return no_host(word, "a ']' is missing");
    name = word.substr(1, end - 1);
    const std::string_view rest = word.substr(end + 1);
    if (!rest.empty() && rest[0] != ':') return no_host(word, "':' and slots may follow ']'");
    if (!rest.empty()) slots = rest.substr(1);
  } else if (const size_t colon = word.find(':');
             colon != std::string_view::npos && word.find(':', colon + 1) == word.npos) {
    name = word.substr(0, colon);
    slots = word.substr(colon + 1);
  }
  if (name.empty()) return no_host(word, "its name is empty");
  // To ssh it would be an option.
  if (name[0] == '-') return no_host(word, "its name begins with '-'");
  for (const char each : name) {
    const auto byte = static_cast<unsigned char>(each);
    if (byte <= ' ' || byte == 0x7f) return no_host(word, "its name has a space in it");
  }
  host.name = name;
  if (slots) {
    TRY_ASSIGN(host.slots, slots_of(word, *slots));
  }
  return host;
}

bool is_space(char each) {
  return std::isspace(static_cast<unsigned char>(each)) != 0;
}

// Words between spaces; those around '=' are none.
std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  bool begin_new = true;
  for (size_t at = 0; at < line.size(); ++at) {
    const char each = line[at];
    if (is_space(each)) {
      begin_new = words.empty() || !words.back().ends_with('=');
      continue;
    }
    if (words.empty() || (begin_new && each != '=')) words.emplace_back();
    begin_new = false;
    words.back() += each;
  }
  return words;
}

Outcome<std::optional<Host>> parse_line(std::string_view line) {
  const std::vector<std::string> words = words_of(line.substr(0, line.find('#')));
  if (words.empty()) return std::optional<Host>();
  TRY_ASSIGN(Host host, parse_host(words[0]));
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    const std::string key = words[i].substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : words[i].substr(equals + 1);
    if (key == "slots") {
      TRY_ASSIGN(host.slots, slots_of(words[i], value));
    } else if (key == "max_slots" || key == "max-slots") {
      TRY_ASSIGN(const uint32_t most, slots_of(words[i], value));
      (void)most;
    } else {
      return Failure{Code::invalid_argument,
                     fmt::format("'{}': behind a host may stand slots=N", words[i])};
    }
  }
  return std::optional(std::move(host));
}

bool is_own_address(const std::string& name) {
  const auto own = parse_address(name);
  if (!own) return false;
  if (is_loopback(*own)) return true;
  const auto all = own_addresses("");
  return std::any_of(all.begin(), all.end(), [&](const HostAddress& each) {
    return each.family == own->family && each.bytes == own->bytes;
  });
}

std::string lower(std::string text) {
  for (char& each : text) each = static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
  return text;
}

struct Node {
  NodeShare share;
  bool open = false;  // its slots were not said
  uint64_t slots = 0;
};

// Each name once, this machine by whatever names.
std::vector<Node> nodes_of(const std::vector<Host>& hosts, const Spread& spread,
                           const std::function<bool(const std::string&)>& is_here) {
  struct Mentioned {
    Node node;
    uint32_t times = 0;
  };
  std::vector<Mentioned> all;
  std::map<std::string, size_t> by_name;
  std::optional<size_t> own;
  for (const Host& host : hosts) {
    auto [at, is_new] = by_name.emplace(host.name, all.size());
    const bool here = is_new && is_here(host.name);
    if (here && own) at->second = *own;
    if (at->second == all.size()) all.push_back({{{host.name, 0, here}}, 0});
    if (here) own = at->second;
    Mentioned& mentioned = all[at->second];
    ++mentioned.times;
    mentioned.node.slots += host.slots.value_or(1);
    if (!host.slots) mentioned.node.open = true;
  }
  std::vector<Node> nodes;
  for (Mentioned& mentioned : all) {
    Node& node = mentioned.node;
    // Twice there is two slots, as the files of batch systems have it.
    node.open = node.open && mentioned.times == 1;
    if (spread.per_node > 0) {
      node.open = false;
      node.slots = spread.per_node;
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

Failure too_many(uint64_t size, const std::vector<Node>& nodes) {
  uint64_t slots = 0;
  for (const Node& node : nodes) slots += node.slots;
  return {Code::invalid_argument,
          fmt::format("{} processes, and {} for {} of them (say more slots, a larger --ppn, or "
                      "--oversubscribe)",
                      size,
                      nodes.size() == 1 ? "the host has slots"
                                        : fmt::format("the {} hosts have slots", nodes.size()),
                      slots)};
}

}  // namespace

Outcome<std::vector<Host>> parse_hosts(std::string_view list) {
  std::vector<Host> hosts;
  while (true) {
    const size_t comma = list.find(',');
    const std::string_view word = list.substr(0, comma);
    // One at the end, or two in a row, mean nothing.
    if (!word.empty()) {
      TRY_ASSIGN(Host host, parse_host(word));
      hosts.push_back(std::move(host));
    }
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  if (hosts.empty()) return Failure{Code::invalid_argument, "say at least one host"};
  return hosts;
}

Outcome<std::vector<Host>> parse_host_file(std::string_view text, const std::string& place) {
  std::vector<Host> hosts;
  for (uint32_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    auto host = parse_line(text.substr(0, end));
    if (!host) {
      return Failure{host.error().status,
                     fmt::format("{}, line {}: {}", place, number, host.error().message)};
    }
    if (*host) hosts.push_back(std::move(**host));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  if (hosts.empty()) return Failure{Code::invalid_argument, place + ": no host is in it"};
  return hosts;
}

bool is_this_machine(const std::string& name) {
  std::string own(256, 0);
  if (::gethostname(own.data(), own.size()) != 0) own.clear();
  own = lower(own.c_str());
  const std::string asked = lower(name);
  if (asked == "localhost" || is_own_address(asked)) return true;
  return !own.empty() && (asked == own || asked == own.substr(0, own.find('.')));
}

Outcome<std::vector<NodeShare>> place_ranks(
    const std::vector<Host>& hosts, const Spread& spread,
    const std::function<bool(const std::string&)>& is_here) {
  std::vector<Node> nodes = nodes_of(hosts, spread, is_here);
  if (nodes.empty()) return Failure{Code::invalid_argument, "say at least one host"};
  uint64_t slots = 0;
  bool any_open = false;
  for (const Node& node : nodes) {
    slots += node.slots;
    any_open = any_open || node.open;
  }
  const uint64_t size = spread.size.value_or(
      static_cast<uint32_t>(std::min<uint64_t>(slots, uint64_t{limits::kRanksMax} + 1)));
  if (size == 0 || size > limits::kRanksMax) {
    return Failure{Code::invalid_argument,
                   fmt::format("a job has 1 to {} ranks", limits::kRanksMax)};
  }
  if (size > slots && !any_open && !spread.oversubscribe) return too_many(size, nodes);
  uint64_t left = size;
  // Whoever is open has one slot in the first round; more rounds are for what does not fit.
  do {
    for (Node& node : nodes) {
      const uint64_t taken = std::min(left, node.slots);
      node.share.ranks += static_cast<uint32_t>(taken);
      left -= taken;
    }
  } while (left > 0 && !any_open);
  if (left > 0) {
    std::vector<Node*> open;
    for (Node& node : nodes) {
      if (node.open) open.push_back(&node);
    }
    const uint64_t all = left + open.size();
    for (size_t i = 0; i < open.size(); ++i) {
      ASSERT(open[i]->share.ranks == 1);
      open[i]->share.ranks =
          static_cast<uint32_t>(all / open.size() + (i < all % open.size() ? 1 : 0));
    }
  }
  std::vector<NodeShare> shares;
  uint64_t placed = 0;
  for (Node& node : nodes) {
    placed += node.share.ranks;
    if (node.share.ranks > 0) shares.push_back(std::move(node.share));
  }
  ASSERT(placed == size);
  return shares;
}

}  // namespace penstock::job
