// The command line of `penstock`.
#include "commands.h"
#include "commands/model_files.h"
#include "describe.h"
#include "penstock.h"
#include "sizes.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>

#include "penstock/client.h"
#include "penstock/console.h"
#include "penstock/fuse.h"
#include "penstock/http.h"

namespace penstock::apps {

int fail(const char* command, const Failure& failure) {
  std::fprintf(stderr, "penstock %s: %s\n", command, failure.message.c_str());
  return kExitFailed;
}

int fail_plainly(const Failure& failure) {
  std::fprintf(stderr, "penstock %s\n", failure.message.c_str());
  return kExitFailed;
}

namespace {

CLI::Validator gpu_list() {
  return CLI::Validator(
      [](std::string& text) {
        return parse_gpus(text) ? std::string() : "not a list of GPUs: " + text + " (write 0,1)";
      },
      "GPUS");
}

std::string default_store() {
  const char* store = std::getenv("PENSTOCK_STORE");
  return store != nullptr ? store : "";
}

// What follows -o.
CLI::Validator mount_option_list() {
  return CLI::Validator(
      [](std::string& text) {
        const auto parsed = fuse::parse_mount_options(text, {});
        return parsed ? std::string() : parsed.error().message;
      },
      "OPTIONS");
}

CLI::Validator metrics_address() {
  return CLI::Validator(
      [](std::string& text) {
        const auto address = http::parse_address(text);
        return address ? std::string() : address.error().message;
      },
      "ADDRESS");
}

void add_option_to(std::string* list, const char* word) {
  if (!list->empty()) *list += ",";
  *list += word;
}

// By which this program was called.
std::string_view own_name(int argc, char** argv) {
  const std::string_view path(argc > 0 ? argv[0] : "");
  return path.substr(path.rfind('/') + 1);
}

// Whether mount(8) called this program, by one of the names under which it looks for the type, or
// the program of libfuse that runs it as `penstock STORE MOUNTPOINT`.
bool is_mount_helper(int argc, char** argv) {
  if (own_name(argc, argv).starts_with("mount.")) return true;
  return argc >= 3 && argv[1][0] == '/' && argv[2][0] == '/';
}

// What it was told, and the type that its name alone tells.
std::vector<std::string> helper_arguments(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (own_name(argc, argv).ends_with("hf3fs")) {
    words.insert(words.begin(), {"-t", fuse::kMountTypeOf3fs});
  }
  return words;
}

class CommandLine {
 public:
  CommandLine() {
    app_.require_subcommand(1);
    app_.set_version_flag("--version",
                          [] { return std::string("penstock ") + penstock_version(); });
    app_.get_formatter()->column_width(34);
    app_.footer(
        "Sizes are bytes or 4k, 64MiB, 10G. Exit codes: 0 done, 1 failed, 2 wrong usage, "
        "3 damage or differences found.");
    load_.store = save_.store = default_store();
    add_node_commands();
    add_data_commands();
    add_model_commands();
    add_other_commands();
  }

  int run(int argc, char** argv) {
    const int result = parse_and_run(argc, argv);
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return result;
    std::fprintf(stderr, "penstock: the output cannot be written\n");
    return result == kExitOk ? kExitFailed : result;
  }

 private:
  bool has_command(const std::string& name) const {
    const auto names = names_of_commands();
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  std::vector<std::string> names_of_commands() const {
    std::vector<std::string> names;
    for (const CLI::App* each : app_.get_subcommands(nullptr)) {
      names.push_back(each->get_name());
      for (const std::string& other : each->get_aliases()) names.push_back(other);
    }
    return names;
  }

  int refuse(const std::string& name) const {
    const std::string near = console::nearest_word(name, names_of_commands());
    const std::string meant = near.empty() ? "" : "did you mean '" + near + "'? ";
    std::fprintf(stderr, "penstock: no command is called '%s' (%spenstock help lists them)\n",
                 name.c_str(), meant.c_str());
    return kExitUsage;
  }

  int parse_and_run(int argc, char** argv) {
    std::vector<std::string> words(argv + 1, argv + argc);
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
    try {
      std::reverse(words.begin(), words.end());  // as the library wants them
      app_.parse(std::move(words));
    } catch (const CLI::ParseError& error) {
      return app_.exit(error) == 0 ? kExitOk : kExitUsage;
    }
    return action_();
  }

  CLI::App* command(const char* name, const char* group, const char* description,
                    std::function<int()> action) {
    CLI::App* sub = app_.add_subcommand(name, description);
    sub->group(group);
    sub->callback([this, action] { action_ = action; });
    return sub;
  }

  void add_up_command(const char* group) {
    CLI::App* up = command("up", group, "Start a node on a store directory (made if missing)",
                           [this] { return run_up(up_); });
    up->add_option("DIR", up_.directory, "The store directory")->required();
    up->add_option("--mount", up_.mount_point, "Also mount the file system there");
    up->add_flag("-b,--background", up_.background, "Return once the node is ready");
    up->add_option("--mount-options", up_.mount_options,
                   "Options of the mount as after mount -o: ro,noatime,... (docs/mounting.md)")
        ->check(mount_option_list());
    up->add_flag_callback(
        "--allow-other", [this] { add_option_to(&up_.mount_options, "allow_other"); },
        "Other users may use the mount");
    up->add_option("--shards", up_.shards, "A new store: polling threads, each with a target")
        ->check(CLI::Range(1, 64));
    up->add_option("--chunk-size", up_.chunk_bytes, "A new store: chunk size of its files")
        ->transform(chunk_size());
    up->add_option("--capacity", up_.capacity_bytes, "A new store: at most so many bytes")
        ->transform(byte_size());
    up->add_option("--spin-us", up_.spin_microseconds,
                   "How long a shard polls after work before it sleeps, at most")
        ->check(CLI::Range(0, 1'000'000));
    up->add_option("--cache", up_.cache_bytes,
                   "Memory for the node cache, 0 for none (default: an eighth, at most 16GiB)")
        ->transform(byte_size());
    up->add_option("--metrics", up_.metrics,
                   "Serve Prometheus' figures and /healthz there over HTTP: PORT (of this machine "
                   "only), HOST:PORT, or a path with a slash (docs/metrics.md)")
        ->check(metrics_address());
    up->add_option("--log-format", up_.log_format,
                   "Lines of the log as text, or each as a JSON object (or PENSTOCK_LOG_FORMAT)")
        ->check(CLI::IsMember({"text", "json"}));
    up->add_flag("--no-io-uring", up_.force_threads, "Use a thread pool for disk I/O");
    up->add_flag_callback(
        "--no-defragment", [this] { up_.defragment = false; },
        "Leave blocks that overwriting scattered over the disk where they are");
    up->add_flag("--json", up_.json, "With --background: print the status as JSON");
  }

  void add_node_commands() {
    const char* group = "Running a node";
    add_up_command(group);

    CLI::App* down = command("down", group, "Stop a node", [this] { return run_down(node_); });
    down->add_option("DIR", node_.directory, "The store directory")->required();

    CLI::App* status =
        command("status", group, "What a node is and does", [this] { return run_status(node_); });
    status->add_option("DIR", node_.directory, "The store directory")->required();
    status->add_flag("--json", node_.json, "For machines");

    CLI::App* top = command("top", group, "What a node does right now: rates, latencies, sessions",
                            [this] { return run_top(top_); });
    top->add_option("DIR", top_.directory, "The store directory")->required();
    top->add_option("--seconds", top_.seconds, "Between two looks (default 2)")
        ->check(CLI::Range(0.1, 3600.0));
    top->add_flag("--once", top_.once, "One screen; so it is where standard output is no terminal");
    top->add_flag("--json", top_.json, "One document, for machines");

    CLI::App* trace = command("trace", group, "Operations of rings with their steps and times",
                              [this] { return run_trace(trace_); });
    trace->add_option("DIR", trace_.directory, "The store directory")->required();
    trace->add_option("SECONDS", trace_.seconds, "For how long (default 1)")
        ->check(CLI::Range(0.01, 60.0));
    trace->add_flag("--json", trace_.json, "Trace events, for chrome://tracing and Perfetto");
    trace->add_option("-o,--output", trace_.file, "Write trace events to this file");
    trace->footer("At most 4096 operations of each shard are kept, spread over the time.");

    add_limit_command(group);

    CLI::App* mount =
        command("mount", group, "Mount a running node", [this] { return run_mount(node_); });
    mount->add_option("DIR", node_.directory, "The store directory")->required();
    mount->add_option("MOUNTPOINT", node_.mount_point, "An empty directory")->required();
    mount
        ->add_option("-o,--options", node_.mount_options,
                     "As for mount -o: ro,noatime,remount,... (docs/mounting.md)")
        ->check(mount_option_list());
    mount->add_flag_callback(
        "--allow-other", [this] { add_option_to(&node_.mount_options, "allow_other"); },
        "Other users may use the mount");

    CLI::App* unmount =
        command("unmount", group, "Remove a mount", [this] { return run_unmount(node_); });
    unmount->add_option("MOUNTPOINT", node_.mount_point)->required();
  }

  void add_limit_command(const char* group) {
    CLI::App* limit = command("limit", group, "Say what share a user or a session of a node gets",
                              [this] { return run_limit(limit_); });
    limit->add_option("DIR", limit_.directory, "The store directory")->required();
    auto* user = limit->add_option("--user", limit_.user,
                                   "A user's id: all its sessions together, kept for restarts");
    limit->add_option("--session", limit_.session, "A session's number, for as long as it lives")
        ->excludes(user);
    limit
        ->add_option("--weight", limit_.weight,
                     "Its share beside others who wait, too (default 100)")
        ->check(CLI::Range(1u, client::kWeightMax));
    limit->add_option("--bytes-per-second", limit_.bytes_per_second, "At most; 0: no limit")
        ->transform(byte_size());
    limit->add_option("--operations-per-second", limit_.operations_per_second,
                      "At most; 0: no limit");
    limit->add_option("--in-flight", limit_.in_flight,
                      "Operations under way on each shard, at most; 0: no limit");
    limit->add_flag("--clear", limit_.clear, "Without any limit but those given here");
    limit->add_flag("--json", limit_.json, "For machines");
    limit->footer("Without --user and --session: prints what is set. Mounts are not limited.");
  }

  void add_tree_options(CLI::App* sub) {
    sub->add_option("SRC", tree_.source, "A directory or file of this machine")->required();
    sub->add_option("DST", tree_.destination, "STORE:/path, or a path inside a mount")->required();
    sub->add_option("--store", tree_.store, "The store of a bare /path (or PENSTOCK_STORE)");
    sub->add_option("--threads", tree_.threads, "Files in progress at a time")
        ->check(CLI::Range(1, 64));
    sub->add_flag("--json", tree_.json, "Print the result as JSON");
    sub->add_flag("-q,--quiet", tree_.quiet, "No progress");
  }

  void add_data_commands() {
    const char* group = "Data";
    add_tree_options(command("import", group, "Copy a directory tree into a running node",
                             [this] { return run_import(tree_); }));
    add_tree_options(command("verify", group, "Compare a directory tree with its import",
                             [this] { return run_verify(tree_); }));
    CLI::App* warm = command("warmup", group, "Bring files into the node cache",
                             [this] { return run_warmup(warm_); });
    warm->add_option("PATH", warm_.paths, "Files and trees: STORE:/path, or inside a mount")
        ->required();
    warm->add_option("--store", warm_.store, "The store of a bare /path (or PENSTOCK_STORE)");
    warm->add_option("--threads", warm_.threads, "Files in progress at a time")
        ->check(CLI::Range(1, 64));
    warm->add_flag("--json", warm_.json, "Print the result as JSON");
    warm->add_flag("-q,--quiet", warm_.quiet, "No progress");
    CLI::App* scrub = command("scrub", group, "Read and verify everything that a node stores",
                              [this] { return run_scrub(node_); });
    scrub->add_option("DIR", node_.directory, "The store directory")->required();
    scrub->add_flag("--json", node_.json, "For machines");
  }

  void add_model_commands() {
    const char* group = "Models";
    CLI::App* load = command("load", group,
                             "Bring the tensors of safetensors files into the memory of GPUs, and "
                             "say how fast and by which ways",
                             [this] { return run_load(load_); });
    load->add_option("FILE", load_.paths,
                     "STORE:/path, a path inside a mount, or any other file of this machine")
        ->required();
    load->add_option("--store", load_.store, "The store of a bare /path (or PENSTOCK_STORE)");
    load->add_option_function<std::string>(
            "--gpu", [this](const std::string& text) { load_.gpus = *parse_gpus(text); },
            "The GPUs that want it, 0,1,...: read once, each over its own link and then from GPU "
            "to GPU (default 0)")
        ->check(gpu_list());
    load->add_option_function<std::string>(
            "--lend",
            [this](const std::string& text) {
              load_.lend_all = text == "all";
              if (!load_.lend_all) load_.lenders = *parse_gpus(text);
            },
            "GPUs that lend their links, 2,3,... or all: each needs 64MiB of free memory for the "
            "load, and some hundreds of MiB for CUDA until the process ends")
        ->check(gpu_list() | CLI::IsMember({"all"}));
    load->add_option("--align", load_.alignment, "Tensors begin at multiples of it (default 256)")
        ->transform(byte_size());
    load->add_option("--threads", load_.threads,
                     "Files of this machine: threads that read for each link (default 8 to 16)")
        ->check(CLI::Range(1, 256));
    load->add_flag("--json", load_.json, "Print the result as JSON");
    load->add_flag("-q,--quiet", load_.quiet, "No progress and no table");
    load->footer(
        "The memory is given back when the command ends: it measures a load, and checks "
        "that one is possible. Programs call penstock_load() (penstock_model.h).");

    CLI::App* save = command("save", group,
                             "Write a checkpoint from GPU memory: load FROM onto a GPU, then write "
                             "its tensors from there to TO, durably",
                             [this] { return run_save(save_); });
    save->add_option("FROM", save_.source, "A safetensors file, as for 'penstock load'")
        ->required();
    save->add_option(
            "TO", save_.destination,
            "The new file, likewise; one that is there is replaced at the end, in one step")
        ->required();
    save->add_option("--store", save_.store, "The store of a bare /path (or PENSTOCK_STORE)");
    save->add_option("--gpu", save_.gpu, "The GPU (default 0)")->check(CLI::Range(0, 63));
    save->add_flag("--json", save_.json, "Print the result as JSON");
    save->add_flag("-q,--quiet", save_.quiet, "No progress and no result");
    save->footer(
        "Only the second step is timed. It ends when the file is on stable storage. "
        "Programs call penstock_save() (penstock_model.h).");
  }

  void add_other_commands() {
    const char* group = "Other";
    CLI::App* bench = command("bench", group, "Measure this machine side by side with fio",
                              [this] { return run_bench(bench_); });
    bench
        ->add_option("NAME", bench_.suites,
                     "ring, cache, mount, store (default: these), small, aged, durable, fair, gpu, "
                     "load, usrbio, metrics; one row of small: small.import.4k, small.reimport.4k, "
                     "small.verify.4k, small.read.cold, small.read.warm.4k, small.read.warm.mixed")
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

    CLI::App* help =
        command("help", group, "What a command does, and its options", [] { return kExitOk; });
    help->add_option("COMMAND", "Without it: all commands");
    help->add_flag("--json")->description("All commands with their options, for machines");
    command("version", group, "Print the version", [] {
      std::printf("penstock %s\n", penstock_version());
      return kExitOk;
    });
  }

  CLI::App app_{"Penstock: the data plane between storage and GPUs", "penstock"};
  UpOptions up_;
  NodeOptions node_;
  TreeOptions tree_{.source = {}, .destination = {}, .store = default_store()};
  WarmOptions warm_{.paths = {}, .store = default_store()};
  LoadOptions load_;
  SaveOptions save_;
  CheckOptions check_;
  BenchOptions bench_;
  LimitOptions limit_;
  TopOptions top_;
  TraceOptions trace_;
  std::function<int()> action_;
};

}  // namespace
}  // namespace penstock::apps

int main(int argc, char** argv) {
  // What is opened later must not take the place of what the shell has closed.
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) < 0) (void)!::open("/dev/null", O_RDWR);
  }
  if (penstock::apps::is_mount_helper(argc, argv)) {
    return penstock::apps::run_mount_helper(penstock::apps::helper_arguments(argc, argv));
  }
  return penstock::apps::CommandLine().run(argc, argv);
}
