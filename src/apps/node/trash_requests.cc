#include "trash_requests.h"

#include "trash_contents.h"

#include <algorithm>
#include <fmt/format.h>

namespace penstock::apps {
namespace {

// What one request does, so that none takes long.
constexpr size_t kTrashListMost = 1'000;
constexpr size_t kTrashPutMost = 200;
constexpr size_t kTrashEmptyMost = 256;
constexpr int64_t kWallSecond = 1'000'000'000;

client::Credentials trash_owner() {
  client::Credentials unchecked;
  unchecked.enforce = false;
  return unchecked;
}

Json trash_error(const std::string& of, std::string_view why) {
  return {{"error", fmt::format("{}: {}", of, why)}};
}

std::optional<uint64_t> trash_number(const Json& request, const char* key) {
  const auto found = request.find(key);
  if (found == request.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<uint64_t>();
}

std::string why_no_days(Status status) {
  if (status == Code::access_denied || status == Code::read_only) {
    return "this node is restricted (say it on one that is not: 'penstock nodes' shows which)";
  }
  if (status == Code::not_directory) return "it is no directory";
  if (status == Code::not_supported) return "too many directories say for how long";
  if (status == Code::invalid_argument) return "it is in the trash, or these are too many days";
  if (status == Code::already_exists) {
    return "something of an older release has the name .trash in the root (rename it first)";
  }
  return std::string(status.name());
}

std::string why_not_back(Status status) {
  if (status == Code::already_exists) return "something else has its name";
  if (status == Code::stale) return "its directory is gone (say with --to where it is to go)";
  if (status == Code::not_found) return "it is not there any more";
  if (status == Code::over_quota) return "a quota has no room for it";
  return std::string(status.name());
}

Json get_days(client::FileSystem& files, const Json& request) {
  const std::string path = text_at(request, "path");
  const auto found = files.resolve(trash_owner(), path, true);
  if (!found) return trash_error(path, found.error().name());
  const auto days = files.trash_of(found->inode);
  if (!days) return trash_error(path, days.error().name());
  Json document = {{"path", path}, {"days", days->days}, {"set", days->set_at != InodeId()}};
  document["here"] = days->set_at == found->inode;
  const auto settings = files.trash_settings();
  // A node that is restricted hears for how long, and not by whom.
  if (!settings && settings.error() == Code::access_denied) return document;
  if (!settings) return trash_error(path, settings.error().name());
  for (const meta::TrashSetting& one : *settings) {
    if (one.directory == days->set_at) document["set_at"] = one.path;
  }
  return document;
}

Json set_days(client::FileSystem& files, const Json& request) {
  const std::string path = text_at(request, "path");
  const auto found = files.resolve(trash_owner(), path, true);
  if (!found) return trash_error(path, found.error().name());
  std::optional<uint32_t> days;
  if (const auto wanted = trash_number(request, "days")) {
    if (*wanted > meta::kTrashDaysMax) {
      return trash_error(path, fmt::format("at most {} days", meta::kTrashDaysMax));
    }
    days = static_cast<uint32_t>(*wanted);
  }
  const Status status = files.set_trash(found->inode, days, path);
  if (!status.ok()) return trash_error(path, why_no_days(status));
  log::info("trash of {}: {}", path,
            days ? fmt::format("{} days", *days) : std::string("as what is above says"));
  return get_days(files, request);
}

Json list_days(client::FileSystem& files) {
  const auto settings = files.trash_settings();
  if (!settings) return trash_error("trash", why_no_days(settings.error()));
  Json all = Json::array();
  for (const meta::TrashSetting& one : *settings) {
    const auto found = files.resolve(trash_owner(), one.path, true);
    all.push_back({{"path", one.path},
                   {"inode", one.directory.value},
                   {"found", found && found->inode == one.directory},
                   {"days", one.days}});
  }
  return {{"settings", all}};
}

Json json_of(client::FileSystem& files, TrashContents& trash, const TrashContents::Hour& hour,
             const TrashContents::Entry& entry) {
  Json document = {{"hour", hour.name}, {"entry", entry.name}, {"inode", entry.inode.value}};
  document["until"] = meta::over_at(hour.hour).nanoseconds / kWallSecond;
  const auto was = meta::parse_trash_entry(entry.name);
  document["path"] = was ? trash.path_of(*was) : std::string();
  const auto attributes = files.attributes(entry.inode);
  if (!attributes) return document;
  document["bytes"] = attributes->length;
  document["user"] = attributes->uid;
  document["directory"] = attributes->type == meta::FileType::directory;
  document["removed"] = attributes->changed.seconds();
  return document;
}

Json list_trash(client::FileSystem& files, const Json& request) {
  TrashContents trash(files);
  const std::string wanted = text_at(request, "hour");
  const auto hours = trash.hours(wanted);
  if (!hours) return trash_error("trash", hours.error().name());
  const size_t limit =
      std::min<uint64_t>(trash_number(request, "limit").value_or(100), kTrashListMost);
  Json entries = Json::array();
  bool more = false;
  // What was removed last comes first.
  for (auto hour = hours->rbegin(); hour != hours->rend() && !more; ++hour) {
    const auto some = trash.entries(hour->inode, 0, limit - entries.size() + 1);
    if (!some && some.error() == Code::not_found) continue;
    if (!some) return trash_error(hour->name, some.error().name());
    for (const TrashContents::Entry& entry : *some) {
      more = entries.size() == limit;
      if (more) break;
      entries.push_back(json_of(files, trash, *hour, entry));
    }
  }
  return {{"entries", entries}, {"more", more}, {"hours", hours->size()}};
}

// In an order in which a later request goes on by the number of an hour.
std::vector<TrashContents::Hour> in_steps(std::vector<TrashContents::Hour> hours) {
  std::sort(hours.begin(), hours.end(),
            [](const auto& a, const auto& b) { return a.inode < b.inode; });
  return hours;
}

struct PutBack {
  uint64_t restored = 0;
  Json failed = Json::array();
  void note(const std::string& what, Status status) {
    if (status.ok()) {
      ++restored;
    } else {
      failed.push_back({{"entry", what}, {"why", why_not_back(status)}});
    }
  }
  Json answer() const { return {{"restored", restored}, {"failed", failed}, {"finished", true}}; }
};

// "/a/b", HOUR or HOUR/ENTRY. Of an hour some, from "after" on.
Json restore(client::FileSystem& files, const Json& request) {
  TrashContents trash(files);
  const std::string what = text_at(request, "what");
  const std::string to = text_at(request, "to");
  std::optional<InodeId> directory;
  if (!to.empty()) {
    const auto found = files.resolve(trash_owner(), to, true);
    if (!found) return trash_error(to, found.error().name());
    if (found->type != meta::FileType::directory) return trash_error(to, "it is no directory");
    directory = found->inode;
  }
  PutBack done;
  const auto put = [&](const TrashContents::Hour& hour, const std::string& name) {
    const Status status =
        directory ? trash.put_to(hour, name, *directory) : trash.put_back(hour, name);
    done.note(hour.name + "/" + name, status);
  };
  if (what.starts_with('/')) {
    const auto end = files.resolve_parent(trash_owner(), what);
    if (!end) {
      return trash_error(what,
                         "its directory is not there ('penstock trash list' shows by which "
                         "name it lies in the trash)");
    }
    const auto newest = trash.newest(end->parent, end->name);
    if (!newest) return trash_error(what, newest.error().name());
    if (!*newest) return trash_error(what, "it is not in the trash");
    put((*newest)->first, (*newest)->second);
    return done.answer();
  }
  const size_t slash = what.find('/');
  const auto hours = trash.hours(what.substr(0, slash));
  if (!hours) return trash_error(what, hours.error().name());
  if (hours->empty()) return trash_error(what, "the trash has no such hour");
  if (slash != std::string::npos) {
    const std::string name = what.substr(slash + 1);
    if (hours->size() > 1) return trash_error(what, "say the hour with its days, as 'list' does");
    put(hours->front(), name);
    return done.answer();
  }
  const uint64_t from = trash_number(request, "from").value_or(0);
  for (const TrashContents::Hour& hour : in_steps(*hours)) {
    if (hour.inode.value < from) continue;
    const uint64_t after =
        hour.inode.value == from ? trash_number(request, "after").value_or(0) : 0;
    const auto some = trash.entries(hour.inode, after, kTrashPutMost);
    if (!some && some.error() == Code::not_found) continue;
    if (!some) return trash_error(hour.name, some.error().name());
    for (const TrashContents::Entry& entry : *some) {
      // One that another one has needed is back already.
      if (!files.lookup(trash_owner(), hour.inode, entry.name)) {
        ++done.restored;
      } else {
        put(hour, entry.name);
      }
    }
    const bool is_last = some->size() < kTrashPutMost;
    Json answer = done.answer();
    answer["finished"] = false;
    answer["after"] = is_last ? 0 : some->back().cookie;
    answer["from"] = is_last ? hour.inode.value + 1 : hour.inode.value;
    return answer;
  }
  return done.answer();
}

// Some of what was removed before that moment.
Json empty(client::FileSystem& files, const Json& request) {
  TrashContents trash(files);
  const auto hours = trash.hours(text_at(request, "hour"));
  if (!hours) return trash_error("trash", hours.error().name());
  const uint64_t before = trash_number(request, "before").value_or(UINT64_MAX);
  uint64_t after = trash_number(request, "after").value_or(0);
  const uint64_t from = trash_number(request, "from").value_or(0);
  for (const TrashContents::Hour& hour : in_steps(*hours)) {
    const auto end = static_cast<uint64_t>(meta::over_at({hour.hour.hour, 0}).nanoseconds);
    if (end / kWallSecond > before) continue;
    // What came to an hour that was done while this ran is left to the next one.
    if (hour.inode.value < from) continue;
    if (hour.inode.value > from) after = 0;
    const auto step = files.empty_trash(hour.inode, after, kTrashEmptyMost);
    if (!step && step.error() == Code::not_found) continue;
    if (!step) return trash_error(hour.name, step.error().name());
    return {{"removed", step->removed},
            {"from", step->finished ? hour.inode.value + 1 : hour.inode.value},
            {"after", step->finished ? 0 : step->last},
            {"finished", false}};
  }
  return {{"removed", 0}, {"finished", true}};
}

}  // namespace

std::optional<Json> answer_about_trash(client::FileSystem& files, const Json& request) {
  const std::string command = text_at(request, "command");
  if (command == "trash set") return set_days(files, request);
  if (command == "trash get") return get_days(files, request);
  if (command == "trash settings") return list_days(files);
  if (command == "trash list") return list_trash(files, request);
  if (command == "trash restore") return restore(files, request);
  if (command == "trash empty") return empty(files, request);
  return std::nullopt;
}

}  // namespace penstock::apps
