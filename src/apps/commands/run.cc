// penstock run: starts the processes of a job, on this machine or on several.
#include "commands.h"
#include "penstock.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <unistd.h>

#include "penstock/job.h"

namespace penstock::apps {
namespace {

// As shells have them.
constexpr int kExitCannotRun = 126;
constexpr int kExitNoProgram = 127;

// Of a job's other hosts, besides what -x names: what programs are found by, and what those for
// these interfaces, and the libraries below, are told by.
constexpr const char* kPassed[] = {"PATH",       "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES",
                                   "PENSTOCK_*", "SHMEM_*",         "SMA_*",
                                   "OSHMEM_*",   "NVSHMEM_*",       "NCCL_*"};

std::string variable_or(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == 0 ? otherwise : value;
}

// The words of a command, as a shell parts them where nothing but quotes are special.
Outcome<std::vector<std::string>> words_of_command(const std::string& text) {
  std::vector<std::string> words;
  bool inside = false;
  char quote = 0;
  for (const char each : text) {
    if (quote != 0 && each == quote) {
      quote = 0;
    } else if (quote == 0 && (each == '\'' || each == '"')) {
      quote = each;
      if (!inside) words.emplace_back();
      inside = true;
    } else if (quote == 0 && (each == ' ' || each == '\t' || each == '\n')) {
      inside = false;
    } else {
      if (!inside) words.emplace_back();
      inside = true;
      words.back() += each;
    }
  }
  if (quote != 0 || words.empty() || words[0].empty()) {
    return Failure{Code::invalid_argument,
                   fmt::format("--rsh '{}': say a program and its options", text)};
  }
  return words;
}

// Where this program is.
std::string own_path() {
  std::string path(4096, 0);
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) return "penstock";
  path.resize(static_cast<size_t>(length));
  return path;
}

Outcome<std::vector<job::Host>> hosts_of(const RunOptions& options) {
  std::vector<job::Host> all;
  const auto add = [&](std::vector<job::Host> more) {
    all.insert(all.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
  };
  for (const std::string& list : options.hosts) {
    TRY_ASSIGN(auto hosts, job::parse_hosts(list));
    add(std::move(hosts));
  }
  if (options.host_file.empty()) return all;
  std::ifstream file(options.host_file);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file) {
    return Failure{Code::invalid_argument,
                   fmt::format("{}: {}", options.host_file, std::strerror(errno))};
  }
  TRY_ASSIGN(auto hosts, job::parse_host_file(text, options.host_file));
  add(std::move(hosts));
  return all;
}

// What -x says. NAME=VALUE, or NAME: what it is here. Ranks of this machine have that one anyway.
Result<void, Failure> add_variables(const RunOptions& options, job::LaunchOptions* launch) {
  for (const std::string& word : options.environment) {
    const size_t equals = word.find('=');
    if (word.empty() || equals == 0) {
      return Failure{Code::invalid_argument, fmt::format("-x '{}': say NAME or NAME=VALUE", word)};
    }
    if (equals != std::string::npos) {
      launch->environment.emplace_back(word.substr(0, equals), word.substr(equals + 1));
    } else if (std::getenv(word.c_str()) == nullptr) {
      std::fprintf(stderr, "penstock run: -x %s: there is no such variable here\n", word.c_str());
    } else {
      launch->remote.passed.push_back(word);
    }
  }
  return {};
}

Result<void, Failure> add_nodes(const RunOptions& options, job::LaunchOptions* launch) {
  TRY_ASSIGN(const auto hosts, hosts_of(options));
  TRY_ASSIGN(launch->nodes, job::place_ranks(hosts, {.size = options.size,
                                                     .per_node = options.per_node,
                                                     .oversubscribe = options.oversubscribe}));
  launch->size = 0;
  for (const job::NodeShare& node : launch->nodes) launch->size += node.ranks;
  job::RemoteOptions& remote = launch->remote;
  TRY_ASSIGN(
      remote.shell,
      words_of_command(options.shell.empty() ? variable_or("PENSTOCK_RSH", "ssh") : options.shell));
  remote.program = own_path();
  remote.remote_program = options.remote_penstock.empty()
                              ? variable_or("PENSTOCK_REMOTE_PENSTOCK", remote.program)
                              : options.remote_penstock;
  remote.version = penstock_version();
  // The network by which ranks reach one another's memory is mostly that by which they start.
  remote.address = options.address.empty()
                       ? variable_or("PENSTOCK_ADDRESS", variable_or("PENSTOCK_INTERFACE", ""))
                       : options.address;
  return {};
}

Outcome<job::LaunchOptions> launch_of(const RunOptions& options) {
  job::LaunchOptions launch;
  launch.size = options.size.value_or(1);
  launch.command = options.command;
  launch.directory = options.directory;
  launch.label = options.label;
  launch.keep_going = options.keep_going;
  launch.remote.passed.assign(std::begin(kPassed), std::end(kPassed));
  TRY(add_variables(options, &launch));
  if (!options.hosts.empty() || !options.host_file.empty()) {
    TRY(add_nodes(options, &launch));
  } else if (options.per_node != 0 && launch.size > options.per_node && !options.oversubscribe) {
    return Failure{Code::invalid_argument,
                   fmt::format("{} processes, {} on a node, take several nodes; there is one (say "
                               "--hosts, -n {}, or a larger --ppn)",
                               launch.size, options.per_node, options.per_node)};
  }
  return launch;
}

int code_of(const Failure& failure) {
  const int failed = fail("run", failure);
  switch (failure.status.code()) {
    case Code::not_found:
      return kExitNoProgram;
    case Code::access_denied:
      return kExitCannotRun;
    case Code::invalid_argument:
      return kExitUsage;
    default:
      return failed;
  }
}

}  // namespace

int run_run(const RunOptions& options) {
  const auto launch = launch_of(options);
  if (!launch) return code_of(launch.error());
  std::fflush(stdout);
  const auto code = job::launch(*launch);
  return code ? *code : code_of(code.error());
}

int run_node_part() {
  const auto code = job::serve_node(STDIN_FILENO, penstock_version());
  return code ? *code : fail("run-node", code.error());
}

}  // namespace penstock::apps
