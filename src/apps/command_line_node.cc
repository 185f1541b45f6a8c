// Commands about nodes and clusters.
#include "command_line.h"
#include "sizes.h"

#include "penstock/client.h"
#include "penstock/fuse.h"
#include "penstock/http.h"

namespace penstock::apps {
namespace {

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

}  // namespace

void CommandLine::add_node_commands() {
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

void CommandLine::add_limit_command(const char* group) {
  CLI::App* limit = command("limit", group, "Say what share a user or a session of a node gets",
                            [this] { return run_limit(limit_); });
  limit->add_option("DIR", limit_.directory, "The store directory")->required();
  auto* user = limit->add_option("--user", limit_.user,
                                 "A user's id: all its sessions together, kept for restarts");
  limit->add_option("--session", limit_.session, "A session's number, for as long as it lives")
      ->excludes(user);
  limit
      ->add_option("--weight", limit_.weight, "Its share beside others who wait, too (default 100)")
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

void CommandLine::add_up_command(const char* group) {
  CLI::App* up = command("up", group, "Start a node on a store directory (made if missing)",
                         [this] { return run_up(up_); });
  up->add_option("DIR", up_.directory, "The store directory")->required();
  up->add_option("--kv", up_.kv,
                 "Where the names are: postgresql://USER@HOST:PORT/DATABASE, or rocksdb (default: "
                 "as the store was made, in its directory; kept, without a password)");
  up->add_option("--chunk-size", up_.chunk_bytes, "A new store: chunk size of its files")
      ->transform(chunk_size());
  up->add_option("--listen", up_.listen,
                 "HOST:PORT: other nodes may join, and reach it there (kept for later starts); "
                 "with ,rail=N and ,numa=N behind it; once for each network card")
      ->allow_extra_args(false);
  up->add_option("--certificate-time", up_.certificate_seconds,
                 "Of the first node: how long certificates last that it signs (default: 30d; they "
                 "are renewed in the last third)")
      ->transform(duration());
  add_start_options(up, &up_);
}

void CommandLine::add_start_options(CLI::App* sub, UpOptions* to) {
  sub->add_flag("-b,--background", to->background, "Return once the node is ready");
  sub->add_option("--mount", to->mount_point, "Also mount the file system there");
  sub->add_option("--mount-options", to->mount_options,
                  "Options of the mount as after mount -o: ro,noatime,... (docs/mounting.md)")
      ->check(mount_option_list());
  sub->add_flag_callback(
      "--allow-other", [to] { add_option_to(&to->mount_options, "allow_other"); },
      "Other users may use the mount");
  sub->add_option("--cache", to->cache_bytes,
                  "Memory for the node cache, 0 for none (default: an eighth, at most 16GiB)")
      ->transform(byte_size());
  sub->add_option("--shards", to->shards, "A new store: polling threads, each with a target")
      ->check(CLI::Range(1, 64));
  sub->add_option("--capacity", to->capacity_bytes, "A new store: at most so many bytes")
      ->transform(byte_size());
  sub->add_option("--spin-us", to->spin_microseconds,
                  "How long a shard polls after work before it sleeps, at most")
      ->check(CLI::Range(0, 1'000'000));
  sub->add_option("--log-format", to->log_format,
                  "Lines of the log as text, or each as a JSON object (or PENSTOCK_LOG_FORMAT)")
      ->check(CLI::IsMember({"text", "json"}));
  sub->add_flag("--no-io-uring", to->force_threads, "Use a thread pool for disk I/O");
  sub->add_flag_callback(
      "--no-defragment", [to] { to->defragment = false; },
      "Leave blocks that overwriting scattered over the disk where they are");
  sub->add_flag("--json", to->json, "With --background: print the status as JSON");
  sub->add_flag("--insecure", to->insecure,
                "Without TLS: whoever reaches this node can read and change everything (all nodes "
                "of a cluster, or none)");
  sub->add_option(
         "--rdma", to->rdma,
         "Move bytes between nodes by RDMA: auto (with --insecure, as it does not encrypt), "
         "trusted (nobody else can send into its fabric) or off")
      ->check(CLI::IsMember({"auto", "trusted", "off"}));
  sub->add_option("--metrics", to->metrics,
                  "Serve Prometheus' figures and /healthz there over HTTP: PORT (of this machine "
                  "only), HOST:PORT, or a path with a slash (docs/metrics.md)")
      ->check(metrics_address());
  sub->add_option("--rack", to->rack, "What it shares with nodes that fail together with it");
  sub->add_option("--disk", to->disks,
                  "A directory of a disk, for a target of the cluster; once for each (kept for "
                  "later starts)")
      ->allow_extra_args(false);
  sub->add_option(
      "--roles", to->roles,
      "A new node of a cluster: what it plays, of controller,meta,storage,agent,admin "
      "(default: all but admin; of a node that joins storage,agent, without DIR agent)");
}

void CommandLine::add_cluster_commands() {
  const char* group = "Clusters";
  CLI::App* join = command("join", group, "Start a node or a client of a cluster",
                           [this] { return run_join(join_); });
  join->add_option(
          "INVITATION", join_.invitation,
          "TOKEN@HOST:PORT, as 'penstock token create' prints it on the first node; - reads "
          "it from standard input")
      ->required();
  join->add_option("DIR", join_.up.directory,
                   "The store directory (made if missing); with --mount and without DIR: a client "
                   "without disks");
  join->add_option("--listen", join_.up.listen,
                   "HOST:PORT where others reach it (default: chosen, and kept); with ,rail=N "
                   "and ,numa=N behind it; once for each network card")
      ->allow_extra_args(false);
  add_start_options(join, &join_.up);
  join->footer(
      "A client without DIR keeps who it is in XDG_STATE_HOME/penstock/CLUSTER: in /var/lib of "
      "root, "
      "in ~/.local/state of others where that is not set.");

  const auto look = [&](const char* name, const char* what, int (*act)(const ClusterOptions&)) {
    CLI::App* sub = command(name, group, what, [this, act] { return act(cluster_); });
    sub->add_option("DIR", cluster_.directory, "The store directory of any of its nodes")
        ->required();
    sub->add_flag("--json", cluster_.json, "For machines");
    return sub;
  };
  look("cluster", "What a cluster has, and how it is", run_cluster);
  look("nodes", "The nodes and targets of a cluster", run_nodes);
  look("chains", "The chains of a cluster: who has copies, and how they are", run_chains);
  CLI::App* drain =
      look("drain", "Move what a node or a disk has to others, while it serves", run_drain);
  add_what_goes(drain);
  drain->add_flag("--undo", cluster_.undo, "It may stay after all");
  CLI::App* remove = look("remove", "Have a node or a disk in the cluster no more", run_remove);
  add_what_goes(remove);
  remove->add_flag("--force", cluster_.force,
                   "Although it has copies, the last one of something perhaps");
  CLI::App* standby = command("standby", group,
                              "Make a directory from which another machine goes on when this one "
                              "is lost: of the first node, whose names are on a server",
                              [this] { return run_standby(standby_); });
  standby->add_option("DIR", standby_.directory, "The store directory of the first node")
      ->required();
  standby->add_option("NEW", standby_.made, "The directory that is made, to be carried there")
      ->required();
  standby->add_option("--listen", standby_.listen, "HOST:PORT where nodes reach that machine then")
      ->required();
  standby->footer("Started there with 'penstock up' it waits for its turn (docs/cluster.md).");
  add_token_commands(group);
  add_restrict_command(group);
  add_identity_commands(group);
}

void CommandLine::add_token_commands(const char* group) {
  CLI::App* token = command("token", group, "Let others join: on the first node of a cluster",
                            [] { return kExitOk; });
  token->require_subcommand(1);
  // Runs after that of the subcommand.
  token->callback([this] { action_ = [this] { return token_action_(token_); }; });
  const auto add = [&](const char* name, const char* description,
                       int (*action)(const TokenOptions&)) {
    CLI::App* sub = token->add_subcommand(name, description);
    sub->callback([this, action] { token_action_ = action; });
    sub->add_option("DIR", token_.directory, "The store directory of the first node")->required();
    return sub;
  };
  CLI::App* create = add("create", "Print a line by which another node joins", run_token_create);
  create->add_option("--roles", token_.roles,
                     "What it may play, of meta,storage,agent,admin (default: storage,agent)");
  create->add_option("--uses", token_.uses, "How many nodes it lets in (default: 1)")
      ->check(CLI::Range(1, 1024));
  create->add_option("--for", token_.seconds, "How long it is good (default: 1h)")
      ->transform(duration());
  create->add_option("--node", token_.node,
                     "Only for the node of that number, whose key was lost, or which has none yet");
  add_restrictions(create, &token_.words);
  CLI::App* list = add("list", "Show tokens, and what became of them", run_token_list);
  CLI::App* revoke = add("revoke", "Have a token let nobody in any more", run_token_revoke);
  revoke->add_option("TOKEN", token_.token, "Its number, as 'penstock token list' shows it")
      ->required();
  for (CLI::App* sub : {create, list, revoke}) sub->add_flag("--json", token_.json, "For machines");
}

void CommandLine::add_restrictions(CLI::App* sub, RestrictionWords* to) {
  sub->add_option("--uids", to->uids,
                  "Users that act there, as 1000-1999,5000; others are refused, or squashed");
  sub->add_option("--gids", to->gids, "The same of groups (default: the numbers of users)");
  sub->add_option(
      "--squash", to->squash,
      "UID[:GID]: who is not among the users becomes this one; without --uids everybody");
  sub->add_option("--subtree", to->subtree,
                  "A directory of the file system that is the root there: nothing else is seen");
  sub->add_flag("--read-only", to->read_only, "Nothing is changed from there");
}

void CommandLine::add_restrict_command(const char* group) {
  CLI::App* sub = command("restrict", group, "Limit what a node may do: on the first node",
                          [this] { return run_restrict(restrict_); });
  sub->add_option("DIR", restrict_.directory, "The store directory of the first node")->required();
  sub->add_option("NODE", restrict_.node, "The number of a node")
      ->required()
      ->check(CLI::Range(1u, UINT32_MAX));
  add_restrictions(sub, &restrict_.words);
  sub->add_flag("--nothing", restrict_.nothing, "It may do everything again");
  sub->add_flag("--json", restrict_.json, "For machines");
}

void CommandLine::add_identity_commands(const char* group) {
  CLI::App* identity = command("identity", group, "By what nodes of a cluster know one another",
                               [] { return kExitOk; });
  identity->require_subcommand(1);
  identity->callback([this] { action_ = [this] { return identity_action_(identity_); }; });
  const auto add = [&](const char* name, const char* description,
                       int (*action)(const IdentityOptions&)) {
    CLI::App* sub = identity->add_subcommand(name, description);
    sub->callback([this, action] { identity_action_ = action; });
    sub->add_option("DIR", identity_.directory, "The store directory of the first node")
        ->required();
    return sub;
  };
  CLI::App* begin =
      add("begin", "Have a cluster that was begun with --insecure prove who its nodes are",
          run_identity_begin);
  begin->add_flag("--again", identity_.again,
                  "Of one whose authority has lost its key, when certificates have ended: all "
                  "other nodes join anew then");
  CLI::App* renew =
      add("renew", "Have another authority follow the one that signs, while nodes serve",
          run_identity_renew);
  renew->add_flag("--force", identity_.force,
                  "Leave behind nodes that are down and have not heard of it");
  CLI::App* status =
      add("status", "Show the authority, and how far the next one is, if one follows",
          run_identity_status);
  for (CLI::App* sub : {renew, status}) sub->add_flag("--json", identity_.json, "For machines");
}

void CommandLine::add_what_goes(CLI::App* sub) {
  CLI::Option* node = sub->add_option("NODE", cluster_.node, "The number of a node");
  node->check(CLI::Range(1u, UINT32_MAX));
  CLI::Option* disk = sub->add_option("--disk", cluster_.disk,
                                      "Instead: a disk of the node in DIR, as it was given to it");
  node->excludes(disk);
}

}  // namespace penstock::apps
