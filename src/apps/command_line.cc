#include "command_line.h"

#include "describe.h"
#include "penstock.h"
#include "sizes.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "penstock/console.h"

namespace penstock::apps {
namespace {

std::string default_store() {
  const char* store = std::getenv("PENSTOCK_STORE");
  return store != nullptr ? store : "";
}

// The arguments of a process can be read by all users, as long as it lives.
void hide_passwords(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word(argv[i]);
    const auto hide = [&](size_t from, size_t to) {
      for (size_t at = from; at < std::min(to, word.size()); ++at) argv[i][at] = '*';
    };
    const size_t scheme = word.find("postgres");
    if (scheme == std::string_view::npos && word.find("dbname=") == std::string_view::npos)
      continue;
    if (const size_t begin = word.find("://"); begin != std::string_view::npos) {
      const size_t end = word.find_first_of("@/?", begin + 3);
      const size_t colon = word.find(':', begin + 3);
      if (end != std::string_view::npos && word[end] == '@' && colon < end) hide(colon + 1, end);
    }
    if (const size_t begin = word.find("password="); begin != std::string_view::npos) {
      hide(begin + 9, word.find_first_of("& ", begin));
    }
  }
}

}  // namespace

CommandLine::CommandLine() {
  app_.require_subcommand(1);
  app_.set_version_flag("--version", [] { return std::string("penstock ") + penstock_version(); });
  app_.get_formatter()->column_width(34);
  app_.footer(
      "Sizes are bytes or 4k, 64MiB, 10G. Exit codes: 0 done, 1 failed, 2 wrong usage, "
      "3 damage or differences found.");
  for (std::string* const store : {&tree_.store, &warm_.store, &load_.store, &save_.store,
                                   &layout_.store, &set_.store, &net_check_.store, &bench_.store}) {
    *store = default_store();
  }
  add_node_commands();
  add_cluster_commands();
  add_data_commands();
  add_model_commands();
  add_job_commands();
  add_other_commands();
}

int CommandLine::run(int argc, char** argv) {
  const int result = parse_and_run(argc, argv);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return result;
  std::fprintf(stderr, "penstock: the output cannot be written\n");
  return result == kExitOk ? kExitFailed : result;
}

bool CommandLine::has_command(const std::string& name) const {
  const auto names = names_of_commands();
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> CommandLine::names_of_commands() const {
  std::vector<std::string> names;
  for (const CLI::App* each : app_.get_subcommands(nullptr)) {
    names.push_back(each->get_name());
    for (const std::string& other : each->get_aliases()) names.push_back(other);
  }
  return names;
}

int CommandLine::refuse(const std::string& name) const {
  const std::string near = console::nearest_word(name, names_of_commands());
  const std::string meant = near.empty() ? "" : "did you mean '" + near + "'? ";
  std::fprintf(stderr, "penstock: no command is called '%s' (%spenstock help lists them)\n",
               name.c_str(), meant.c_str());
  return kExitUsage;
}

int CommandLine::parse_and_run(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  hide_passwords(argc, argv);
  if (words == std::vector<std::string>{"help", "--json"}) {
    std::printf("%s\n", describe(app_).dump(2).c_str());
    return kExitOk;
  }
  // Help on a command is what it says itself.
  if (!words.empty() && words[0] == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  if (!words.empty() && !words[0].starts_with('-') && !has_command(words[0])) {
    return refuse(words[0]);
  }
  if (!words.empty() && words[0] == "run") mark_program(&words);
  try {
    std::reverse(words.begin(), words.end());  // as the library wants them
    app_.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return app_.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  return action_();
}

CLI::App* CommandLine::command(const char* name, const char* group, const char* description,
                               std::function<int()> action) {
  CLI::App* sub = app_.add_subcommand(name, description);
  sub->group(group);
  sub->callback([this, action] { action_ = action; });
  return sub;
}

void CommandLine::add_check_net(CLI::App* check) {
  CLI::App* net = check->add_subcommand(
      "net", "How well the nodes of a cluster reach one another, and why not better");
  net->callback([this] { action_ = [this] { return run_check_net(net_check_); }; });
  net->add_option("NODE", net_check_.node,
                  "Only to and from this node, by its number or name (default: all pairs)");
  net->add_option("--store", net_check_.store,
                  "The store directory of any node of the cluster, which asks the others (or "
                  "PENSTOCK_STORE); without it, only this machine is looked at");
  net->add_option("--seconds", net_check_.seconds, "How long each way is measured (default 1)")
      ->check(CLI::Range(0.05, 10.0));
  net->add_flag("--json", net_check_.json, "For machines");
  net->footer(
      "Ends with 3 when something is bad: a node that is not reached, a card that is down.");
}

void CommandLine::add_check_symm(CLI::App* check) {
  CLI::App* symm = check->add_subcommand(
      "symm", "How the PEs of a job reach one another's memory, and why not better");
  symm->callback([this] { action_ = [this] { return run_check_symm(symm_check_); }; });
  symm->add_option("-n", symm_check_.pes,
                   "How many PEs are started on this machine (default: one for each GPU, two at "
                   "least); in a job its processes are the PEs")
      ->check(CLI::Range(2, 4096));
  symm->add_option("--seconds", symm_check_.seconds, "How long each pair is measured (default 0.5)")
      ->check(CLI::Range(0.02, 60.0));
  symm->add_flag("--json", symm_check_.json, "For machines");
  symm->footer(
      "In a job: penstock run -n 4 penstock check symm; PE 0 prints. Ends with 3 when PEs do not "
      "reach one another.");
}

void CommandLine::add_other_commands() {
  const char* group = "Other";
  CLI::App* bench = command("bench", group, "Measure this machine side by side with fio",
                            [this] { return run_bench(bench_); });
  bench
      ->add_option("NAME", bench_.suites,
                   "ring, cache, mount, store (default: these), small, aged, durable, fair, gpu, "
                   "load, usrbio, metrics, cluster, net, symm; one row of small: small.import.4k, "
                   "small.reimport.4k, small.verify.4k, small.read.cold, small.read.warm.4k, "
                   "small.read.warm.mixed")
      ->check(CLI::IsMember(bench::suite_names()));
  bench->add_option("--dir", bench_.how.directory, "Scratch space on the disk to measure");
  bench->add_option("--json", bench_.json_file, "Also write the results to this file");
  bench->add_option("--size", bench_.how.file_bytes, "Size of the test file")
      ->transform(byte_size());
  bench->add_option("--rounds", bench_.how.rounds, "Interleaved rounds (default 5)")
      ->check(CLI::Range(1, 100));
  bench->add_option("--seconds", bench_.how.seconds, "Length of one measurement")
      ->check(CLI::Range(0.1, 600.0));
  bench->add_option("--depth", bench_.how.depth, "Operations in flight of small requests")
      ->check(CLI::Range(1, 4096));
  bench->add_option("--threads", bench_.how.threads, "Submitting threads")
      ->check(CLI::Range(1, 64));
  bench->add_option("--passthrough", bench_.how.passthrough,
                    "libfuse's passthrough_ll, the reference of the mount");
  bench->add_option("--to", bench_.to,
                    "net: measure to this node of a running cluster, by its number or name");
  bench->add_option("--store", bench_.store,
                    "net, with --to: the store directory of the node that measures (or "
                    "PENSTOCK_STORE)");
  bench
      ->add_option("-n", bench_.how.pes,
                   "symm: how many PEs are started (default: one for each GPU, two at least); in "
                   "a job its processes are the PEs")
      ->check(CLI::Range(2, 4096));
  bench->add_flag("--quick", bench_.how.quick, "Shorter: for a first look");
  bench->add_flag("--full", bench_.how.full,
                  "Every size from 4 KiB to 4 MiB, random and sequential");

  CLI::App* check =
      command("check", group,
              "What of this machine keeps Penstock from working, and the command that mends it",
              [this] { return run_check(check_); });
  check->alias("doctor");
  // Runs after that of a subcommand, whose action stays.
  check->callback([this, check] {
    if (check->get_subcommands().empty()) action_ = [this] { return run_check(check_); };
  });
  check->require_subcommand(0, 1);
  check->add_option("--dir", check_.directory, "A directory on the disk to look at");
  check->add_flag("--json", check_.json, "For machines");
  check->footer("Ends with 3 when something is bad; notes are about speed and comfort.");
  CLI::App* gpus = check->add_subcommand(
      "gpu", "Every way to and from every GPU: its bandwidth, or why it cannot be taken");
  gpus->callback([this] { action_ = [this] { return run_check_gpu(check_); }; });
  gpus->add_option("--dir", check_.directory, "Scratch space on the disk to measure");
  gpus->add_flag("--json", check_.json, "For machines");
  add_check_net(check);
  add_check_symm(check);

  CLI::App* help =
      command("help", group, "What a command does, and its options", [] { return kExitOk; });
  help->add_option("COMMAND", "Without it: all commands");
  help->add_flag("--json")->description("All commands with their options, for machines");
  command("version", group, "Print the version", [] {
    std::printf("penstock %s\n", penstock_version());
    return kExitOk;
  });
}

}  // namespace penstock::apps
