#include "commands/difference.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>
#include <vector>

#include "penstock/console.h"
#include "penstock/telemetry.h"

namespace penstock::apps {
namespace {

uint64_t number(const Json& object, const char* key) {
  return object.value(key, uint64_t{0});
}

double rate(uint64_t before, uint64_t after, double seconds) {
  // What went down began anew.
  return seconds > 0 && after > before ? static_cast<double>(after - before) / seconds : 0;
}

telemetry::LatencySample latency_of(const Json& operation) {
  telemetry::LatencySample sample;
  const auto counts = operation.value("counts", std::vector<uint64_t>());
  std::copy_n(counts.begin(), std::min(counts.size(), sample.counts.size()), sample.counts.begin());
  return sample;
}

// One entry of `list` whose `key` says the same as that of `like`, and of whose other key, too.
Json entry_like(const Json& list, const Json& like, const std::vector<const char*>& keys) {
  for (const Json& one : list) {
    const bool is_same = std::ranges::all_of(
        keys, [&](const char* key) { return one.value(key, Json()) == like.value(key, Json()); });
    if (is_same) return one;
  }
  return Json::object();
}

// What histograms gained: operations a second, bytes a second, and percentiles of the new ones.
Json operations_between(const Json& before, const Json& after, const std::vector<const char*>& keys,
                        double seconds) {
  Json out = Json::array();
  for (const Json& now : after) {
    const Json then = entry_like(before, now, keys);
    telemetry::LatencySample gained = latency_of(now);
    const telemetry::LatencySample old = latency_of(then);
    for (size_t i = 0; i < gained.counts.size(); ++i) {
      gained.counts[i] -= std::min(gained.counts[i], old.counts[i]);
    }
    if (gained.count() == 0) continue;
    Json one = {{"per_second", static_cast<double>(gained.count()) / seconds},
                {"bytes_per_second", rate(number(then, "bytes"), number(now, "bytes"), seconds)},
                {"p50_ns", gained.percentile_nanoseconds(0.5)},
                {"p99_ns", gained.percentile_nanoseconds(0.99)},
                {"p999_ns", gained.percentile_nanoseconds(0.999)}};
    for (const char* key : keys) one[key] = now.value(key, "");
    out.push_back(std::move(one));
  }
  return out;
}

Json sessions_between(const Json& before, const Json& after, double seconds) {
  std::vector<Json> sessions;
  for (const Json& now : after) {
    Json one = now;
    one["per_second"] = rate(number(entry_like(before, now, {"session"}), "operations"),
                             number(now, "operations"), seconds);
    sessions.push_back(std::move(one));
  }
  std::ranges::stable_sort(sessions, [](const Json& a, const Json& b) {
    return a.value("per_second", 0.0) > b.value("per_second", 0.0);
  });
  return sessions;
}

// What the node's part in its cluster did; null where it has none.
Json cluster_between(const Json& before, const Json& after, double seconds) {
  const auto found = after.find("cluster");
  if (found == after.end()) return {};
  const Json then = before.value("cluster", Json::object()).value("traffic", Json::object());
  Json rates = Json::object();
  const Json traffic = found->value("traffic", Json::object());
  for (const auto& [what, count] : traffic.items()) {
    rates[what] = rate(number(then, what.c_str()), count.get<uint64_t>(), seconds);
  }
  return {{"node", number(*found, "node")},
          {"lease_seconds_left", found->value("lease_seconds_left", 0.0)},
          {"targets", found->value("targets", Json::array())},
          {"peers", found->value("peers", Json::array())},
          {"traffic_per_second", rates}};
}

std::string microseconds(const Json& one, const char* key) {
  const double us = static_cast<double>(number(one, key)) / 1e3;
  if (us < 1e3) return fmt::format("{:.3g} us", us);
  return us < 1e6 ? fmt::format("{:.3g} ms", us / 1e3) : fmt::format("{:.3g} s", us / 1e6);
}

std::string per_second(const Json& one, const char* key) {
  return console::human_count(one.value(key, 0.0)) + "/s";
}

std::string operations_table(const Json& list, const char* title, bool has_route) {
  console::Table table({title, has_route ? "route" : "", "rate", "bytes", "p50", "p99", "p99.9"},
                       {1});
  for (const Json& one : list) {
    const double bytes = one.value("bytes_per_second", 0.0);
    table.add({one.value("operation", ""), one.value("route", ""), per_second(one, "per_second"),
               bytes > 0 ? console::human_rate(bytes) : "-", microseconds(one, "p50_ns"),
               microseconds(one, "p99_ns"), microseconds(one, "p999_ns")});
  }
  return table.empty() ? "" : "\n" + table.text();
}

std::string sessions_table(const Json& sessions) {
  constexpr size_t kShown = 20;
  console::Table table({"session", "user", "pid", "rate", "rings", "files", "memory", "limits"},
                       {7});
  size_t shown = 0;
  for (const Json& one : sessions) {
    const Json limits = one.value("limits", Json::object());
    std::string held;
    if (number(limits, "weight") != 100)
      held += fmt::format("weight {} ", number(limits, "weight"));
    if (number(limits, "bytes_per_second") > 0) {
      held += console::human_rate(static_cast<double>(number(limits, "bytes_per_second"))) + " ";
    }
    if (number(limits, "operations_per_second") > 0) {
      held += console::human_count(static_cast<double>(number(limits, "operations_per_second"))) +
              "/s ";
    }
    if (number(limits, "operations_in_flight") > 0) {
      held += fmt::format("{} in flight", number(limits, "operations_in_flight"));
    }
    table.add({std::to_string(number(one, "session")), std::to_string(number(one, "uid")),
               std::to_string(one.value("pid", 0)), per_second(one, "per_second"),
               std::to_string(number(one, "rings")), std::to_string(number(one, "open_files")),
               console::human_bytes(one.value("region_bytes", 0.0)), held});
    if (++shown == kShown) break;
  }
  if (table.empty()) return "\nno sessions\n";
  std::string text = "\n" + table.text();
  if (sessions.size() > kShown) text += fmt::format("... and {} more\n", sessions.size() - kShown);
  return text;
}

std::string traffic_line(const Json& rates) {
  const auto bytes = [&](const char* key) { return console::human_rate(rates.value(key, 0.0)); };
  return fmt::format("reads {} {}, updates {} {}, repair {}, retries {}\n",
                     per_second(rates, "reads"), bytes("read_bytes"), per_second(rates, "updates"),
                     bytes("written_bytes"), bytes("repaired_bytes"), per_second(rates, "retries"));
}

std::string peers_table(const Json& peers) {
  console::Table table({"to node", "service", "is", "why"}, {2, 3});
  for (const Json& peer : peers) {
    table.add({std::to_string(number(peer, "node")), std::to_string(number(peer, "service")),
               peer.value("connected", false) ? "connected" : "not connected",
               peer.value("trouble", "")});
  }
  return table.empty() ? "" : "\n" + table.text();
}

std::string cluster_text(const Json& cluster) {
  std::string text = fmt::format("\nnode {} of its cluster{}\n", number(cluster, "node"),
                                 cluster.value("lease_seconds_left", 0.0) > 0
                                     ? ""
                                     : ", without a lease: its targets serve no chains now");
  text += traffic_line(cluster.value("traffic_per_second", Json::object()));
  console::Table table({"target", "chains", "used", "of", "pending", "waiting", "in"}, {6});
  for (const Json& target : cluster.value("targets", Json::array())) {
    const std::string trouble = target.value("trouble", "");
    table.add({std::to_string(number(target, "target")), std::to_string(number(target, "chains")),
               console::human_bytes(target.value("used_bytes", 0.0)),
               console::human_bytes(target.value("capacity_bytes", 0.0)),
               std::to_string(number(target, "updates_pending")),
               std::to_string(number(target, "calls_waiting")),
               trouble.empty() ? target.value("directory", "") : "does not serve: " + trouble});
  }
  if (!table.empty()) text += "\n" + table.text();
  return text + peers_table(cluster.value("peers", Json::array()));
}

// Of what only a node with names has.
std::string names_text(const Json& difference) {
  std::string out = fmt::format("{} in flight; waited for their turn {}, held back by limits {}\n",
                                number(difference, "operations_in_flight"),
                                per_second(difference, "waited_per_second"),
                                per_second(difference, "slowed_per_second"));
  const Json routes = difference.value("routes_per_second", Json::object());
  if (!routes.empty()) {
    out += "routes ";
    for (const auto& [route, count] : routes.items()) {
      out += fmt::format(" {} {}/s ", route, console::human_count(count.get<double>()));
    }
    out += "\n";
  }
  out += operations_table(difference.value("ring_operations", Json::array()), "rings", true);
  out += operations_table(difference.value("mount_requests", Json::array()), "mounts", false);
  return out + sessions_table(difference.value("sessions", Json::array()));
}

}  // namespace

Json difference_of(const Json& before, const Json& after, double seconds) {
  const auto list = [](const Json& status, const char* key) {
    return status.value(key, Json::array());
  };
  const auto gained = [&](const char* key) {
    return rate(number(before, key), number(after, key), seconds);
  };
  Json routes = Json::object();
  const Json old_routes = before.value("operations_by_route", Json::object());
  const Json new_routes = after.value("operations_by_route", Json::object());
  for (const auto& [route, count] : new_routes.items()) {
    const double now = rate(number(old_routes, route.c_str()), count.get<uint64_t>(), seconds);
    if (now > 0) routes[route] = now;
  }
  uint64_t in_flight = 0;
  for (const Json& shard : list(after, "shards"))
    in_flight += number(shard, "operations_in_flight");
  Json difference = {
      {"directory", after.value("directory", "")},
      {"seconds", seconds},
      {"uptime_seconds", number(after, "uptime_seconds")},
      {"free_bytes", number(after, "free_bytes")},
      {"total_bytes", number(after, "total_bytes")},
      {"ring_operations",
       operations_between(list(before, "ring_operations"), list(after, "ring_operations"),
                          {"operation", "route"}, seconds)},
      {"mount_requests", operations_between(list(before, "mount_requests"),
                                            list(after, "mount_requests"), {"operation"}, seconds)},
      {"routes_per_second", routes},
      {"operations_in_flight", in_flight},
      {"waited_per_second", gained("operations_waited")},
      {"slowed_per_second", gained("operations_slowed")},
      {"sessions", sessions_between(list(before, "sessions"), list(after, "sessions"), seconds)}};
  const Json cluster = cluster_between(before, after, seconds);
  if (!cluster.is_null()) difference["cluster"] = cluster;
  // Only a node with names has mounts, and sessions.
  difference["has_names"] = !cluster.is_object() || after.contains("mounts");
  return difference;
}

std::string screen_of(const Json& difference) {
  std::string out = fmt::format("{}  up {}, {} free of {}\n", difference.value("directory", ""),
                                console::human_duration(difference.value("uptime_seconds", 0.0)),
                                console::human_bytes(difference.value("free_bytes", 0.0)),
                                console::human_bytes(difference.value("total_bytes", 0.0)));
  if (difference.value("has_names", true)) out += names_text(difference);
  const auto cluster = difference.find("cluster");
  return cluster == difference.end() ? out : out + cluster_text(*cluster);
}

}  // namespace penstock::apps
