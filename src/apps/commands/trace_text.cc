#include "commands/trace_text.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <map>
#include <utility>
#include <vector>

#include "penstock/console.h"

namespace penstock::apps {
namespace {

constexpr size_t kSlowestShown = 20;

int64_t integer(const Json& object, const char* key) {
  return object.value(key, int64_t{0});
}

// Of one operation, in nanoseconds; 0 for a step that it did not have.
struct Steps {
  int64_t turn = 0;    // from the ring to its first call of a target: waiting for its turn
  int64_t store = 0;   // to the last answer of a target: store, disk and verifying
  int64_t answer = 0;  // to its completion in the ring
  int64_t all = 0;
};

Steps steps_of(const Json& one) {
  const int64_t taken = integer(one, "taken");
  const int64_t completed = integer(one, "completed");
  const int64_t sent = integer(one, "sent");
  const int64_t landed = integer(one, "landed");
  Steps steps;
  steps.all = completed - taken;
  if (sent == 0 || landed == 0) return steps;
  steps.turn = sent - taken;
  steps.store = landed - sent;
  steps.answer = completed - landed;
  return steps;
}

std::string microseconds(double nanoseconds) {
  return fmt::format("{:.1f}", nanoseconds / 1e3);
}

std::string microseconds(int64_t nanoseconds) {
  return microseconds(static_cast<double>(nanoseconds));
}

std::string averages(const Json& operations) {
  struct Sum {
    Steps steps;
    uint64_t count = 0;
  };
  std::map<std::pair<std::string, std::string>, Sum> sums;
  for (const Json& one : operations) {
    Sum& sum = sums[{one.value("operation", ""), one.value("route", "")}];
    const Steps steps = steps_of(one);
    sum.steps.turn += steps.turn;
    sum.steps.store += steps.store;
    sum.steps.answer += steps.answer;
    sum.steps.all += steps.all;
    ++sum.count;
  }
  console::Table table(
      {"us, on average", "route", "recorded", "its turn", "store and disk", "answer", "all"}, {1});
  for (const auto& [key, sum] : sums) {
    const auto mean = [&count = sum.count](int64_t total) {
      return microseconds(static_cast<double>(total) / static_cast<double>(count));
    };
    table.add({key.first, key.second, std::to_string(sum.count), mean(sum.steps.turn),
               mean(sum.steps.store), mean(sum.steps.answer), mean(sum.steps.all)});
  }
  return table.text();
}

std::string slowest(const Json& operations) {
  std::vector<const Json*> order;
  for (const Json& one : operations) order.push_back(&one);
  std::ranges::stable_sort(
      order, [](const Json* a, const Json* b) { return steps_of(*a).all > steps_of(*b).all; });
  if (order.size() > kSlowestShown) order.resize(kSlowestShown);
  console::Table table({"slowest", "route", "at ms", "user", "inode", "offset", "bytes", "pieces",
                        "its turn", "store and disk", "answer", "all us"},
                       {1});
  const int64_t begin = operations.empty() ? 0 : integer(operations.front(), "taken");
  for (const Json* one : order) {
    const Steps steps = steps_of(*one);
    const int64_t result = integer(*one, "result");
    table.add({one->value("operation", ""), one->value("route", ""),
               fmt::format("{:.2f}", static_cast<double>(integer(*one, "taken") - begin) / 1e6),
               std::to_string(integer(*one, "uid")), std::to_string(integer(*one, "inode")),
               std::to_string(integer(*one, "offset")),
               result < 0 ? fmt::format("error {}", -result) : std::to_string(result),
               std::to_string(integer(*one, "pieces")), microseconds(steps.turn),
               microseconds(steps.store), microseconds(steps.answer), microseconds(steps.all)});
  }
  return table.text();
}

// An interval of an operation; those of one operation lie within each other.
void add_interval(Json& events, const Json& one, size_t id, const std::string& name, int64_t from,
                  int64_t to) {
  for (const char* phase : {"b", "e"}) {
    events.push_back({{"name", name},
                      {"cat", "operation"},
                      {"ph", phase},
                      {"id", id},
                      {"pid", 1},
                      {"tid", integer(one, "shard")},
                      {"ts", static_cast<double>(phase[0] == 'b' ? from : to) / 1e3}});
  }
}

}  // namespace

std::string table_of_trace(const Json& operations) {
  if (operations.empty()) return "no operation of a ring ended meanwhile\n";
  return averages(operations) + "\n" + slowest(operations);
}

Json trace_events_of(const Json& operations) {
  Json events = Json::array();
  events.push_back(
      {{"name", "process_name"}, {"ph", "M"}, {"pid", 1}, {"args", {{"name", "penstock"}}}});
  size_t id = 0;
  for (const Json& one : operations) {
    ++id;
    const int64_t taken = integer(one, "taken");
    const int64_t completed = integer(one, "completed");
    const int64_t sent = integer(one, "sent");
    const int64_t landed = integer(one, "landed");
    const size_t first = events.size();
    add_interval(events, one, id, one.value("operation", "") + " " + one.value("route", ""), taken,
                 completed);
    events[first]["args"] = one;
    if (sent == 0 || landed == 0) continue;
    add_interval(events, one, id, "its turn", taken, sent);
    add_interval(events, one, id, "store and disk", sent, landed);
    add_interval(events, one, id, "answer", landed, completed);
  }
  return {{"displayTimeUnit", "ns"}, {"traceEvents", events}};
}

}  // namespace penstock::apps
