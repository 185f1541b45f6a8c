// `penstock trash`: set, get, list, restore, empty.
#include "commands.h"
#include "node/admin.h"
#include "node/node_service.h"

#include <charconv>
#include <chrono>
#include <cstdio>
#include <unistd.h>

#include "penstock/console.h"
#include "penstock/engine.h"

namespace penstock::apps {
namespace {

constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;
constexpr int64_t kSecondsPerDay = 86'400;
constexpr size_t kFailuresShown = 20;

uint64_t trash_count(const Json& from, const char* key) {
  return from.value(key, uint64_t{0});
}

std::string trash_time(const Json& from, const char* key) {
  return engine::text_of({from.value(key, int64_t{0}) * kNanosecondsPerSecond});
}

std::string days_text(uint64_t days) {
  if (days == 0) return "off";
  return std::to_string(days) + (days == 1 ? " day" : " days");
}

int refuse_trash(const char* command, const std::string& what) {
  std::fprintf(stderr, "penstock trash %s: %s\n", command, what.c_str());
  return kExitUsage;
}

// The directory of a store is its root.
Outcome<console::Location> trash_place(const TrashOptions& options) {
  const std::string& place = options.place;
  const std::string socket = place + "/" + kAdminSocketName;
  if (place.find(":/") == std::string::npos && ::access(socket.c_str(), F_OK) == 0) {
    return console::Location{absolute_path(place), "/"};
  }
  return console::parse_location(place, "");
}

void print_days(const Json& one) {
  std::string from;
  if (one.value("set", false) && !one.value("here", false)) {
    from = " (as " + one.value("set_at", std::string("what is above")) + " says)";
  }
  std::printf("trash of %s: %s%s\n", one.value("path", "").c_str(),
              days_text(trash_count(one, "days")).c_str(), from.c_str());
}

void print_trash_json(const Json& document) {
  std::printf("%s\n", document.dump(2).c_str());
}

// Until the node has done all of it.
Outcome<Json> ask_in_steps(const std::string& directory, Json request,
                           const std::function<void(const Json&)>& on_step) {
  while (true) {
    TRY_ASSIGN(const Json answer, ask_node(directory, request));
    on_step(answer);
    if (answer.value("finished", true)) return answer;
    for (const char* key : {"after", "from"}) {
      if (answer.contains(key)) request[key] = answer[key];
    }
  }
}

}  // namespace

int run_trash_set(const TrashOptions& options) {
  Json request = {{"command", "trash set"}};
  uint32_t days = 0;
  if (options.days != "off" && options.days != "inherit") {
    const char* const end = options.days.data() + options.days.size();
    const auto parsed = std::from_chars(options.days.data(), end, days);
    if (parsed.ec != std::errc() || parsed.ptr != end) {
      return refuse_trash("set", options.days + ": a number of days, 'off' or 'inherit'");
    }
  }
  if (options.days != "inherit") request["days"] = days;
  const auto place = trash_place(options);
  if (!place) return fail("trash set", place.error());
  request["path"] = place->path;
  auto answer = ask_node(place->where, request);
  if (!answer) return fail("trash set", answer.error());
  if (options.json) {
    print_trash_json(*answer);
  } else {
    print_days(*answer);
  }
  return kExitOk;
}

int run_trash_get(const TrashOptions& options) {
  const auto place = trash_place(options);
  if (!place) return fail("trash get", place.error());
  const bool is_all = options.place.find(":/") == std::string::npos && place->path == "/";
  Json request = {{"command", is_all ? "trash settings" : "trash get"}, {"path", place->path}};
  auto answer = ask_node(place->where, request);
  if (!answer) return fail("trash get", answer.error());
  if (options.json) {
    print_trash_json(*answer);
  } else if (!is_all) {
    print_days(*answer);
  } else if ((*answer)["settings"].empty()) {
    std::printf("nothing is kept of what is removed ('penstock trash set DIR 1' keeps it a day)\n");
  } else {
    console::Table table({"trash of", "kept"}, {});
    for (const Json& one : (*answer)["settings"]) {
      std::string path = one.value("path", "");
      if (!one.value("found", false)) {
        path = "inode " + std::to_string(trash_count(one, "inode")) + " (was " + path + ")";
      }
      table.add({path, days_text(trash_count(one, "days"))});
    }
    std::printf("%s", table.text().c_str());
  }
  return kExitOk;
}

int run_trash_list(const TrashOptions& options) {
  auto answer =
      ask_node(absolute_path(options.place),
               {{"command", "trash list"}, {"hour", options.hour}, {"limit", options.limit}});
  if (!answer) return fail("trash list", answer.error());
  if (options.json) {
    print_trash_json(*answer);
    return kExitOk;
  }
  console::Table table({"removed", "kept until", "size", "user", "was", "in .trash"}, {2, 3});
  for (const Json& one : (*answer)["entries"]) {
    const bool is_directory = one.value("directory", false);
    table.add(
        {trash_time(one, "removed"), trash_time(one, "until"),
         is_directory ? "-" : console::human_bytes(static_cast<double>(trash_count(one, "bytes"))),
         std::to_string(trash_count(one, "user")), one.value("path", ""),
         one.value("hour", "") + "/" + one.value("entry", "")});
  }
  if ((*answer)["entries"].empty()) {
    std::printf("the trash is empty\n");
  } else {
    std::printf("%s", table.text().c_str());
  }
  if (answer->value("more", false)) std::printf("and more (--limit)\n");
  return kExitOk;
}

int run_trash_restore(const TrashOptions& options) {
  uint64_t restored = 0;
  uint64_t failed = 0;
  Json failures = Json::array();
  for (const std::string& what : options.what) {
    Json request = {{"command", "trash restore"}, {"what", what}, {"to", options.to}};
    auto answer = ask_in_steps(absolute_path(options.place), request, [&](const Json& step) {
      restored += trash_count(step, "restored");
      for (const Json& one : step.value("failed", Json::array())) {
        if (++failed <= kFailuresShown) failures.push_back(one);
      }
    });
    if (!answer) return fail("trash restore", answer.error());
  }
  if (options.json) {
    print_trash_json({{"restored", restored}, {"failed", failed}, {"failures", failures}});
  } else {
    for (const Json& one : failures) {
      std::fprintf(stderr, "penstock trash restore: %s: %s\n", one.value("entry", "").c_str(),
                   one.value("why", "").c_str());
    }
    if (failed > kFailuresShown) {
      std::fprintf(stderr, "and %llu more\n",
                   static_cast<unsigned long long>(failed - kFailuresShown));
    }
    std::printf("%llu restored\n", static_cast<unsigned long long>(restored));
  }
  return failed == 0 ? kExitOk : kExitFailed;
}

int run_trash_empty(const TrashOptions& options) {
  Json request = {{"command", "trash empty"}, {"hour", options.hour}};
  if (options.older_than) {
    const int64_t now = engine::system_clock().wall().nanoseconds / kNanosecondsPerSecond;
    const int64_t before = now - static_cast<int64_t>(*options.older_than) * kSecondsPerDay;
    request["before"] = static_cast<uint64_t>(std::max<int64_t>(before, 0));
  } else if (options.hour.empty() && !options.all) {
    return refuse_trash("empty", "what? (--older-than DAYS, --hour HOUR, or --all)");
  }
  uint64_t removed = 0;
  auto answer = ask_in_steps(absolute_path(options.place), request,
                             [&](const Json& step) { removed += trash_count(step, "removed"); });
  if (!answer) return fail("trash empty", answer.error());
  if (options.json) {
    print_trash_json({{"removed", removed}});
  } else {
    std::printf("%llu removed for good\n", static_cast<unsigned long long>(removed));
  }
  return kExitOk;
}

}  // namespace penstock::apps
