// Commands that ask a running node: down, status, mount, unmount, scrub.
#include "commands.h"
#include "node/admin.h"
#include "node/node_service.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#include "penstock/base.h"
#include "penstock/console.h"

namespace penstock::apps {

std::string absolute_path(const std::string& path) {
  std::error_code error;
  std::string result = std::filesystem::absolute(path, error).lexically_normal();
  while (result.size() > 1 && result.back() == '/') result.pop_back();
  return result;
}

namespace {

constexpr int kDownTimeoutMs = 60'000;
constexpr int kDownLookMs = 500;

// Whether the process has done all that it had to, and is held only by a thread in a system call
// that cannot be interrupted: the first thread is a zombie then.
bool is_over_but_held(pid_t pid) {
  std::ifstream facts("/proc/" + std::to_string(pid) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(facts), {}};
  const size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text.compare(name_end, 3, ") Z") == 0;
}

enum class Ending { gone, held, stopping };

// Waits until the process has ended: its last act is to give the directory back.
Ending wait_until_gone(pid_t pid) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return errno == ESRCH ? Ending::gone : Ending::stopping;
  pollfd ended{process.get(), POLLIN, 0};
  bool was_held = false;
  for (int waited_ms = 0; waited_ms < kDownTimeoutMs; waited_ms += kDownLookMs) {
    if (::poll(&ended, 1, kDownLookMs) == 1) return Ending::gone;
    // Every process is so for a moment.
    if (is_over_but_held(pid) && std::exchange(was_held, true)) return Ending::held;
  }
  return Ending::stopping;
}

// "heap_bytes" is of bytes, and so is shown as them.
std::string amount_text(const std::string& what, uint64_t amount) {
  return what.ends_with("_bytes") ? console::human_bytes(static_cast<double>(amount))
                                  : std::to_string(amount);
}

// What sessions hold of what the node has for them, all together and each user.
void print_resources(const Json& status) {
  console::Table of_all({"for sessions", "held", "of", "of one user", "refused"});
  const Json resources = status.value("resources", Json::object());
  for (const auto& [what, one] : resources.items()) {
    const std::string name = what;
    const Json& figures = one;
    const auto text = [&](const char* key) {
      return amount_text(name, figures.value(key, uint64_t{0}));
    };
    of_all.add({name, text("held"), text("all"), text("user"),
                std::to_string(figures.value("refused", uint64_t{0}))});
  }
  if (!of_all.empty()) std::printf("\n%s", of_all.text().c_str());
  console::Table of_users({"user", "of", "held", "at most"}, {1});
  const Json users = status.value("users", Json::array());
  for (const Json& user : users) {
    for (const auto& [what, share] : user.items()) {
      if (!share.is_object() || share.value("held", uint64_t{0}) == 0) continue;
      of_users.add({std::to_string(user.value("uid", 0u)), what,
                    amount_text(what, share.value("held", uint64_t{0})),
                    amount_text(what, share.value("most", uint64_t{0}))});
    }
  }
  if (!of_users.empty()) std::printf("\n%s", of_users.text().c_str());
}

void print_files(const Json& status) {
  std::printf("  files     %s inodes, %s open",
              console::human_count(status.value("inodes", 0.0)).c_str(),
              console::human_count(status.value("open_files", 0.0)).c_str());
  if (status.value("removed_waiting", 0) > 0) {
    std::printf(", %s removed and being collected",
                console::human_count(status.value("removed_waiting", 0.0)).c_str());
  }
  std::printf("\n");
}

void print_status(const Json& status) {
  std::printf("%s\n", status.value("directory", "").c_str());
  std::printf("  process   %d, up for %s\n", status.value("pid", 0),
              console::human_duration(status.value("uptime_seconds", 0.0)).c_str());
  const AgentFacts facts = facts_of(status);
  for (const std::string& line : facts.lines) std::printf("  %s\n", line.c_str());
  if (facts.has_names) print_files(status);
  const Json routes = status.value("operations_by_route", Json::object());
  console::Table by_route({"route", "operations"});
  for (const auto& [route, count] : routes.items()) {
    if (count != 0) by_route.add({route, std::to_string(count.get<uint64_t>())});
  }
  if (!by_route.empty()) std::printf("\n%s", by_route.text().c_str());
  const std::string limits = limits_table(status);
  if (!limits.empty()) std::printf("\n%s", limits.c_str());
  print_resources(status);
  const Json cache = status.value("cache", Json::array());
  if (!cache.empty()) {
    console::Table table(
        {"cache of", "sessions", "memory", "used", "slots", "hits", "fills", "evictions"});
    for (const Json& one : cache) {
      const auto text = [&](const char* key) {
        return std::to_string(one.value(key, uint64_t{0}));
      };
      const uint64_t groups = one.value("groups", uint64_t{0});
      table.add({text("uid") + ":" + text("gid") + (groups > 0 ? "+" + text("groups") : ""),
                 text("sessions"), console::human_bytes(one.value("bytes", 0.0)),
                 console::human_bytes(one.value("used_bytes", 0.0)), text("slots"), text("hits"),
                 text("fills"), text("evictions")});
    }
    std::printf("\n%s", table.text().c_str());
  }
  const Json sessions = status.value("sessions", Json::array());
  if (!sessions.empty()) {
    console::Table table(
        {"session", "pid", "uid", "regions", "memory", "rings", "files", "operations"});
    for (const Json& s : sessions) {
      const auto text = [&](const char* key) { return std::to_string(s.value(key, uint64_t{0})); };
      table.add({text("session"), text("pid"), text("uid"), text("regions"),
                 console::human_bytes(s.value("region_bytes", 0.0)), text("rings"),
                 text("open_files"), text("operations")});
    }
    std::printf("\n%s", table.text().c_str());
  }
}

}  // namespace

int run_down(const NodeOptions& options) {
  auto answer = ask_node(absolute_path(options.directory), {{"command", "down"}});
  if (!answer) return fail("down", answer.error());
  const pid_t pid = answer->value("pid", 0);
  const Ending ending = wait_until_gone(pid);
  if (ending == Ending::stopping) {
    return fail("down", {Code::timed_out, options.directory + ": process " + std::to_string(pid) +
                                              " is still stopping after a minute; look at " +
                                              options.directory + "/agent.log"});
  }
  if (ending == Ending::held) {
    std::fprintf(stderr,
                 "penstock down: %s: everything is stored and the directory is free; process %d "
                 "stays until the file system of an application's descriptor answers its close "
                 "(%s/agent.log says whose)\n",
                 options.directory.c_str(), pid, options.directory.c_str());
  }
  if (!options.json)
    std::printf("penstock is down: %s\n", absolute_path(options.directory).c_str());
  return kExitOk;
}

int run_status(const NodeOptions& options) {
  auto status = ask_node(absolute_path(options.directory), {{"command", "status"}});
  if (!status) return fail("status", status.error());
  if (options.json) {
    std::printf("%s\n", status->dump(2).c_str());
  } else {
    print_status(*status);
  }
  return kExitOk;
}

int run_mount(const NodeOptions& options) {
  const std::string path = absolute_path(options.mount_point);
  auto answer =
      ask_node(absolute_path(options.directory),
               {{"command", "mount"}, {"path", path}, {"options", options.mount_options}});
  if (!answer) return fail("mount", answer.error());
  if (options.quiet) return kExitOk;
  std::printf("mounted %s on %s (%s)\n", absolute_path(options.directory).c_str(), path.c_str(),
              answer->value("options", "").c_str());
  return kExitOk;
}

int run_unmount(const NodeOptions& options) {
  const std::string path = absolute_path(options.mount_point);
  const std::vector<MountEntry> mounts = read_mounts();
  const MountEntry* const mine = mount_at(mounts, path);
  if (mine == nullptr || !fuse::is_ours(*mine)) {
    return fail("unmount", {Code::not_found, path + ": not a mount of Penstock (see 'findmnt -t "
                                                    "fuse.penstock')"});
  }
  auto answer = ask_node(mine->source, {{"command", "unmount"}, {"path", path}});
  if (!answer) {
    // The node is dead and its mount is left over.
    auto gone = fuse::unmount(path, true);
    if (!gone) return fail("unmount", gone.error());
  }
  std::printf("unmounted %s\n", path.c_str());
  return kExitOk;
}

int run_scrub(const NodeOptions& options) {
  const std::string directory = absolute_path(options.directory);
  const bool show = console::is_terminal(STDERR_FILENO) && !options.json;
  auto report = ask_node(directory, {{"command", "scrub"}}, [&](const Json& line) {
    if (!show) return;
    std::fprintf(stderr, "\r\033[Kscrub  %s verified",
                 console::human_bytes(line.value("verified_bytes", 0.0)).c_str());
  });
  if (show) std::fprintf(stderr, "\r\033[K");
  if (!report) return fail("scrub", report.error());
  const Json bad = report->value("bad", Json::array());
  if (options.json) {
    std::printf("%s\n", report->dump(2).c_str());
  } else {
    for (const Json& b : bad) {
      std::printf("%s: chunk %u, block %u: %s\n", b.value("path", "").c_str(), b.value("chunk", 0u),
                  b.value("block", 0u), b.value("reason", "").c_str());
    }
    const auto healed = report->value("healed_blocks", uint64_t{0});
    std::printf("scrubbed %s: %s verified, %zu bad blocks\n", directory.c_str(),
                console::human_bytes(report->value("verified_bytes", 0.0)).c_str(), bad.size());
    if (healed > 0) {
      std::printf("%llu damaged blocks were healed from other copies\n",
                  static_cast<unsigned long long>(healed));
    }
  }
  if (!report->value("complete", false)) {
    return fail("scrub",
                {Code::cancelled, directory + ": ended early: the node is going down, or a disk "
                                              "failed (see its log)"});
  }
  return bad.empty() ? kExitOk : kExitDifferent;
}

}  // namespace penstock::apps
