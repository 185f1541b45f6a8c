// Commands about files and models.
#include "command_line.h"
#include "commands/model_files.h"
#include "sizes.h"

#include "penstock/client.h"

namespace penstock::apps {
namespace {

CLI::Validator gpu_list() {
  return CLI::Validator(
      [](std::string& text) {
        return parse_gpus(text) ? std::string() : "not a list of GPUs: " + text + " (write 0,1)";
      },
      "GPUS");
}

CLI::Validator stripe_width() {
  return CLI::Validator(
      [](std::string& text) {
        const bool fits = !text.empty() && text.size() <= 2 &&
                          text.find_first_not_of("0123456789") == std::string::npos;
        const unsigned long width = fits ? std::stoul(text) : 0;
        const bool good = text == "all" || (width > 0 && width <= meta::kListedChainsMax);
        return good ? std::string() : "not a number of chains from 1 to 64, or all: " + text;
      },
      "WIDTH");
}

}  // namespace

void CommandLine::add_tree_options(CLI::App* sub) {
  sub->add_option("SRC", tree_.source, "A directory or file of this machine")->required();
  sub->add_option("DST", tree_.destination, "STORE:/path, or a path inside a mount")->required();
  sub->add_option("--store", tree_.store, "The store of a bare /path (or PENSTOCK_STORE)");
  sub->add_option("--threads", tree_.threads, "Files in progress at a time")
      ->check(CLI::Range(1, 64));
  sub->add_flag("--json", tree_.json, "Print the result as JSON");
  sub->add_flag("-q,--quiet", tree_.quiet, "No progress");
}

void CommandLine::add_data_commands() {
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
  add_layout_commands(group);
  add_quota_commands(group);
  add_trash_commands(group);
  CLI::App* scrub = command("scrub", group, "Read and verify everything that a node stores",
                            [this] { return run_scrub(node_); });
  scrub->add_option("DIR", node_.directory, "The store directory")->required();
  scrub->add_flag("--json", node_.json, "For machines");
  add_metadata_commands(group);
}

void CommandLine::add_metadata_commands(const char* group) {
  CLI::App* metadata =
      command("metadata", group, "Names of a store: keep them as text, check them, move them",
              [] { return kExitOk; });
  metadata->require_subcommand(1);
  const auto add = [&](const char* name, const char* description,
                       int (*action)(const MetadataOptions&)) {
    CLI::App* sub = metadata->add_subcommand(name, description);
    sub->callback([this, action] { metadata_action_ = action; });
    return sub;
  };
  // Runs after that of the subcommand.
  metadata->callback([this] { action_ = [this] { return metadata_action_(metadata_); }; });
  CLI::App* dump =
      add("dump", "Write every name, attribute and number of a store as text", run_metadata_dump);
  dump->add_option("DIR", metadata_.directory, "The store directory")->required();
  dump->add_option("FILE", metadata_.file,
                   "Replaced when the dump is complete (default: standard output)");
  CLI::App* load =
      add("load", "Bring back the names of a store whose 'meta' is lost", run_metadata_load);
  load->add_option("FILE", metadata_.file, "A dump, or - for standard input")->required();
  load->add_option("DIR", metadata_.directory, "The store directory, without its directory 'meta'")
      ->required();
  load->footer(
      "All of the dump is verified first. What happened after it was made is lost: files "
      "made since have no names any more, and files removed since come back with holes.");
  CLI::App* move = add("move", "Move the names of a store to another database, while they are used",
                       run_metadata_move);
  move->add_option("DIR", metadata_.directory, "The store directory; its node may run")->required();
  move->add_option("--to", metadata_.to,
                   "postgresql://USER@HOST:PORT/DATABASE, or rocksdb: the store's directory")
      ->required();
  move->footer(
      "Changes wait for less than 5 s at the end. Whatever ends in the middle of it, the names are "
      "in one place, which 'penstock status' shows. Passwords: ~/.pgpass.");
  CLI::App* check =
      add("check", "Look whether the names of a store are consistent", run_metadata_check);
  check
      ->add_option("PLACE", metadata_.directory,
                   "The store directory, its node may run; or postgresql://...")
      ->required();
  check->footer(
      "Reads one moment's names and changes nothing. Ends with 3 when something is wrong.");
  for (CLI::App* sub : {dump, load, move, check}) {
    sub->add_flag("--json", metadata_.json, "For machines");
    sub->add_flag("-q,--quiet", metadata_.quiet, "No result");
  }
}

void CommandLine::add_layout_commands(const char* group) {
  CLI::App* layout = command("layout", group,
                             "Show how files lie on chains, what a directory's new files get, "
                             "and what there is to choose from",
                             [this] { return run_layout(layout_); });
  layout->add_option("PATH", layout_.paths, "STORE:/path, or inside a mount")->required();
  layout->add_option("--store", layout_.store, "The store of a bare /path (or PENSTOCK_STORE)");
  layout->add_flag("--json", layout_.json, "For machines");

  CLI::App* set = command("set", group, "Say how new files in a directory lie on chains",
                          [this] { return run_set(set_); });
  set->add_option("PATH", set_.path, "A directory: STORE:/path, or inside a mount")->required();
  set->add_option("--store", set_.store, "The store of a bare /path (or PENSTOCK_STORE)");
  set->add_option("--chunk", set_.chunk_bytes, "Chunk size")->transform(chunk_size());
  set->add_option_function<std::string>(
         "--stripe",
         [this](const std::string& text) {
           set_.stripe = text == "all" ? 0 : static_cast<uint32_t>(std::stoul(text));
         },
         "Chains of a file: 1 to 64, or all")
      ->check(stripe_width());
  set->add_option("--copies", set_.copies, "Of each chunk, on different nodes")
      ->check(CLI::Range(1u, meta::kCopiesMax));
  set->add_option("--media", set_.media, "Kind of disks")
      ->check(CLI::IsMember({"any", "flash", "disk", "memory"}));
  set->add_flag("-R,--recursive", set_.recursive, "Also in all directories below");
  set->add_flag("--json", set_.json, "For machines");
  set->footer(
      "For files that are made from now on, and directories pass it on to those made in them; "
      "what is there stays as it is. docs/layouts.md");
}

void CommandLine::add_quota_commands(const char* group) {
  CLI::App* quota = command("quota", group, "Limit what directories and users may take up",
                            [] { return kExitOk; });
  quota->require_subcommand(1);
  // Runs after that of the subcommand.
  quota->callback([this] { action_ = [this] { return quota_action_(quota_); }; });
  const auto add = [&](const char* name, const char* description,
                       int (*action)(const QuotaOptions&)) {
    CLI::App* sub = quota->add_subcommand(name, description);
    sub->callback([this, action] { quota_action_ = action; });
    sub->add_option("DIR", quota_.directory, "The store directory of a node")->required();
    sub->add_flag("--json", quota_.json, "For machines");
    return sub;
  };
  CLI::App* set = add("set", "Set limits, and count what is there", run_quota_set);
  CLI::App* get = add("get", "Show one, and what of it is used", run_quota_get);
  add("list", "Show all, and what of them is used", run_quota_list);
  CLI::App* remove = add("delete", "Limit and count no more", run_quota_delete);
  CLI::App* check = add("check", "Count anew, and compare", run_quota_check);
  for (CLI::App* sub : {set, get, remove, check}) {
    CLI::Option* const path = sub->add_option("--path", quota_.path, "A directory inside: /a/b");
    sub->add_option("--user", quota_.user, "The number of a user")->excludes(path);
  }
  for (CLI::App* sub : {remove, check}) {
    sub->add_option("--inode", quota_.inode,
                    "A directory by its number, as 'list' shows one that was moved or removed");
  }
  set->add_option("--capacity", quota_.capacity, "Bytes: 500M, 10G; 0: any")
      ->transform(byte_size());
  set->add_option("--inodes", quota_.inodes, "Files, directories and all else; 0: any");
  check->add_flag("--repair", quota_.repair, "Correct what is counted");
  quota->footer(
      "A directory's quota is for all below it, and for everybody; a user's for what the user "
      "owns. "
      "docs/quotas.md");
}

void CommandLine::add_trash_commands(const char* group) {
  CLI::App* trash = command("trash", group, "Keep what is removed for some days, and give it back",
                            [] { return kExitOk; });
  trash->require_subcommand(1);
  // Runs after that of the subcommand.
  trash->callback([this] { action_ = [this] { return trash_action_(trash_); }; });
  const auto add = [&](const char* name, const char* description, const char* place,
                       const char* what, int (*action)(const TrashOptions&)) {
    CLI::App* sub = trash->add_subcommand(name, description);
    sub->callback([this, action] { trash_action_ = action; });
    sub->add_option(place, trash_.place, what)->required();
    sub->add_flag("--json", trash_.json, "For machines");
    return sub;
  };
  const char* const store = "The store directory of a node";
  CLI::App* set =
      add("set", "Say for how many days what is removed below a directory is kept", "DIR",
          "A directory: STORE:/path, or inside a mount; STORE: all", run_trash_set);
  set->add_option("DAYS", trash_.days, "A number, 'off', or 'inherit': as what is above says")
      ->required();
  add("get", "Show what is said, or what holds in a directory", "DIR",
      "STORE, or a directory: STORE:/path, or inside a mount", run_trash_get);
  CLI::App* list =
      add("list", "Show what was removed, the last of it first", "DIR", store, run_trash_list);
  list->add_option("HOUR", trash_.hour, "Only of that: 2026-11-28-08");
  list->add_option("--limit", trash_.limit, "So many at most");
  CLI::App* restore = add("restore", "Put back what was removed", "DIR", store, run_trash_restore);
  restore
      ->add_option("WHAT", trash_.what,
                   "/where/it/was, HOUR/ENTRY as 'list' shows it, or a whole HOUR")
      ->required();
  restore->add_option("--to", trash_.to, "Into this directory: /a/b");
  CLI::App* empty =
      add("empty", "Remove for good what is in the trash", "DIR", store, run_trash_empty);
  empty->add_option("--older-than", trash_.older_than, "What was removed so many days ago");
  empty->add_option("--hour", trash_.hour, "What was removed in that hour: 2026-11-28-08");
  empty->add_flag("--all", trash_.all, "Everything");
  trash->footer("What is kept lies in .trash at the root of the mount. docs/trash.md");
}

void CommandLine::add_model_commands() {
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
  save->add_option("FROM", save_.source, "A safetensors file, as for 'penstock load'")->required();
  save->add_option("TO", save_.destination,
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

}  // namespace penstock::apps
