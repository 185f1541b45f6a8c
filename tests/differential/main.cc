// Random programs on a mount and on the host's file system at once; `./dev differential` calls it.
#include "generator.h"
#include "run.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fmt/core.h>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace penstock::differential;

namespace {

struct Arguments {
  Settings settings;
  uint64_t first = 1, seeds = 10, operations = 10'000;
  std::string program;
  std::string users = "both";
  std::string fault = "none";
  int64_t shrink_seconds = 300;
  uint64_t lose_every = 0;
  bool go_on = false, list_intended = false, answers = false, prints = false;
};

struct Totals {
  uint64_t operations = 0, programs = 0, differences = 0;
  Outcome outcome;
};

void add(Totals& totals, const Outcome& outcome) {
  totals.programs++;
  for (size_t kind = 0; kind < kKinds; kind++) {
    for (size_t i = 0; i < 2; i++) {
      totals.outcome.answers[kind][i] += outcome.answers[kind][i];
      totals.operations += outcome.answers[kind][i];
    }
  }
  for (size_t i = 0; i < rule_count(); i++) totals.outcome.intended[i] += outcome.intended[i];
}

void print_totals(const Totals& totals, bool answers) {
  if (answers) {
    fmt::print("{:16}{:>12}{:>12}\n", "operation", "succeeded", "failed");
    for (size_t kind = 0; kind < kKinds; kind++) {
      const auto& [succeeded, failed] = totals.outcome.answers[kind];
      if (succeeded + failed != 0)
        fmt::print("{:16}{:>12}{:>12}\n", name_of(static_cast<Kind>(kind)), succeeded, failed);
    }
  }
  for (size_t i = 0; i < rule_count(); i++) {
    if (totals.outcome.intended[i] != 0)
      fmt::print("intended: {} ({} times)\n", rules()[i].name, totals.outcome.intended[i]);
  }
  fmt::print("{} operations in {} programs, {} differences\n", totals.operations, totals.programs,
             totals.differences);
}

void print_program(const Program& program) {
  for (const Operation& operation : program) fmt::print("{}\n", to_text(operation));
}

// True when nothing differed.
bool check(const Program& program, const Arguments& arguments, const std::string& called,
           Totals& totals) {
  const Outcome outcome = run(program, arguments.settings);
  add(totals, outcome);
  if (!outcome.difference) return true;
  totals.differences++;
  fmt::print("{}: operation {} of {}: {}\n", called, outcome.difference->step, program.size(),
             outcome.difference->text);
  std::fflush(stdout);
  if (arguments.shrink_seconds == 0) return false;
  const Program small =
      shrink(program, *outcome.difference, arguments.settings, arguments.shrink_seconds * 1000);
  fmt::print("These {} operations are enough (save them, and give them with --program):\n",
             small.size());
  print_program(small);
  const Outcome again = run(small, arguments.settings);
  fmt::print("{}\n", again.difference ? again.difference->text : "but not every time");
  std::fflush(stdout);
  return false;
}

std::optional<Program> program_in(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  Program program;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const auto operation = operation_of(line);
    if (!operation) {
      fmt::print(stderr, "differential: {}: no operation: {}\n", path, line);
      return std::nullopt;
    }
    program.push_back(*operation);
  }
  return program;
}

int run_seeds(const Arguments& arguments, Totals& totals) {
  bool all = true;
  for (uint64_t seed = arguments.first; seed < arguments.first + arguments.seeds; seed++) {
    // Every second one acts as several users, which only root can; every fourth one looks at all
    // bytes.
    const bool root = ::geteuid() == 0;
    const bool several =
        root && (arguments.users == "many" || (arguments.users == "both" && seed % 2 == 0));
    Arguments here = arguments;
    here.settings.thorough = seed % 4 < 2;
    const Program program =
        program_of(seed, {.length = arguments.operations,
                          .several_users = several,
                          .mounts = static_cast<uint32_t>(here.settings.mounts.size()),
                          .lose_every = arguments.lose_every});
    if (arguments.prints) {
      print_program(program);
      continue;
    }
    const bool same =
        check(program, here,
              fmt::format("seed {}, {}", seed, several ? "several users" : "one user"), totals);
    all = all && same;
    if (!same && !arguments.go_on) break;
  }
  return all ? 0 : 1;
}

int start(Arguments& arguments) {
  if (arguments.list_intended) {
    for (size_t i = 0; i < rule_count(); i++)
      fmt::print("{}: {}\n", rules()[i].name, rules()[i].why);
    return 0;
  }
  static const std::map<std::string, Fault> kFaults{{"none", Fault::none},
                                                    {"append", Fault::append_loses_a_byte},
                                                    {"grow", Fault::old_bytes_after_growing},
                                                    {"rename", Fault::rename_keeps_the_target}};
  arguments.settings.fault = kFaults.at(arguments.fault);
  Totals totals;
  int result = 0;
  if (arguments.program.empty()) {
    result = run_seeds(arguments, totals);
  } else {
    const auto program = program_in(arguments.program);
    if (!program) {
      fmt::print(stderr, "differential: {} cannot be read\n", arguments.program);
      return 2;
    }
    arguments.settings.thorough = true;
    result = check(*program, arguments, arguments.program, totals) ? 0 : 1;
  }
  print_totals(totals, arguments.answers);
  return result;
}

}  // namespace

int main(int count, char** words) {
  Arguments arguments;
  CLI::App app("Runs random programs on two trees at once and compares all that can be seen");
  app.add_option("--mount", arguments.settings.mounts,
                 "the tree under test; once for each node's mount of it")
      ->allow_extra_args(false)
      ->expected(1, kMountsMax);
  app.add_option("--nodes-command", arguments.settings.nodes,
                 "is told `lose MOUNT HOW MILLISECONDS` and `restore MOUNT`");
  app.add_option("--kill", arguments.lose_every,
                 "kill or stop a node about every so many operations");
  app.add_option("--host", arguments.settings.host, "the tree that is right");
  app.add_option("--first", arguments.first, "the first seed");
  app.add_option("--seeds", arguments.seeds, "how many seeds");
  app.add_option("--operations", arguments.operations, "operations for each seed");
  app.add_option("--program", arguments.program, "a program in a file, instead");
  app.add_option("--users", arguments.users)->check(CLI::IsMember({"one", "many", "both"}));
  app.add_option("--fault", arguments.fault, "do this wrongly on the first tree, on purpose")
      ->check(CLI::IsMember({"none", "append", "grow", "rename"}));
  app.add_option("--shrink-seconds", arguments.shrink_seconds, "0: do not shrink");
  app.add_flag("--same-kind", arguments.settings.same_kind,
               "both trees are the host's, to test this program");
  app.add_flag("--print", arguments.prints, "print programs, and run none");
  app.add_flag("--copies", arguments.settings.copies,
               "files of the tree under test have copies on several targets");
  app.add_flag("--go-on", arguments.go_on, "with the next seed after a difference");
  app.add_flag("--answers", arguments.answers, "how many of each kind succeeded");
  app.add_flag("--intended", arguments.list_intended, "print what may differ, and why");
  CLI11_PARSE(app, count, words);
  if (!arguments.list_intended &&
      (arguments.settings.mounts.empty() || arguments.settings.host.empty())) {
    fmt::print(stderr, "differential: --mount and --host are needed\n");
    return 2;
  }
  return start(arguments);
}
