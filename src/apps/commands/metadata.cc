// `penstock metadata dump` and `penstock metadata load`: the names of a store as text, and back.
#include "commands.h"
#include "node/admin.h"
#include "node/node_service.h"
#include "text_files.h"

#include <cstdio>
#include <fmt/format.h>

#include "penstock/cluster.h"
#include "penstock/console.h"
#include "penstock/engine.h"
#include "penstock/json.h"
#include "penstock/kv.h"
#include "penstock/meta_copy.h"
#include "penstock/meta_text.h"
#include "penstock/stopped_store.h"

namespace penstock::apps {
namespace {

constexpr const char* kMetaName = "/meta";
// Numbers that are left out where chunks are on other nodes, and nobody can ask for the newest:
// more than files can be made between a dump and its load, and a small part of all there are.
constexpr uint64_t kNextGap = uint64_t{1} << 40;

Json json_of(const meta_text::Counts& counts) {
  return {{"inodes", counts.inodes},
          {"extended_attributes", counts.xattrs},
          {"entries", counts.entries},
          {"open_for_writing", counts.sessions}};
}

std::string words_of(const meta_text::Counts& counts) {
  return fmt::format("{} inodes, {} names", counts.inodes, counts.entries);
}

Outcome<meta_text::Counts> dump_database(const std::string& path, DumpFile& file) {
  TRY_ASSIGN(const auto kv, kv::open_rocksdb({.path = path, .read_only = true}));
  engine::SeededRandom random(engine::system_seed());
  return meta_text::dump(*kv, random, file);
}

Outcome<void> ask_for_copy(const std::string& directory) {
  const Outcome<Json> answer = ask_node(directory, {{"command", "checkpoint"}});
  if (answer) return {};
  return answer.error();
}

Outcome<meta_text::Counts> dump_store(const std::string& directory, const std::string& path) {
  TRY_ASSIGN(const auto file, DumpFile::open(path));
  std::unique_ptr<agent::MetaCopy> copy;
  if (node_runs(directory)) {
    TRY_ASSIGN(copy, agent::MetaCopy::make(directory, [&] { return ask_for_copy(directory); }));
  }
  const std::string database = copy == nullptr ? directory + kMetaName : copy->path();
  TRY_ASSIGN(const meta_text::Counts counts, dump_database(database, *file));
  TRY(file->finish());
  return counts;
}

Outcome<meta_text::Counts> load_store(const std::string& path, const std::string& directory) {
  TRY_ASSIGN(const auto store, agent::StoppedStore::open(directory));
  TRY_ASSIGN(const auto source, open_dump(path));
  TRY_ASSIGN(const uint8_t roles, cluster::Participant::roles_of(directory));
  meta_text::Counts counts;
  TRY(store->make_meta([&](engine::Kv& kv) -> Outcome<void> {
    // Numbers that were given after the dump was made may have chunks.
    TRY_ASSIGN(const InodeId newest, store->newest_inode());
    engine::SeededRandom random(engine::system_seed());
    meta_text::LoadOptions options;
    options.next_min = InodeId(newest.value + 1);
    options.chains = store->targets();
    options.has_cluster = roles != 0 && !cluster::runs_controller(roles);
    if (roles != 0) options.next_gap = kNextGap;
    TRY_ASSIGN(counts, meta_text::load(kv, random, *source, options));
    return {};
  }));
  return counts;
}

}  // namespace

int run_metadata_dump(const MetadataOptions& options) {
  const std::string directory = absolute_path(options.directory);
  const auto counts = dump_store(directory, options.file);
  if (!counts) {
    return fail("metadata dump",
                {counts.error().status, directory + ": " + counts.error().message});
  }
  const auto roles = cluster::Participant::roles_of(directory);
  if (roles && cluster::runs_controller(*roles)) {
    std::fprintf(stderr,
                 "penstock metadata dump: the records of the cluster's controller are not in it: "
                 "if they are lost, too, files on its chains are (see docs/cluster.md)\n");
  }
  // Standard output may be the dump.
  std::FILE* const out = options.file.empty() ? stderr : stdout;
  if (options.json) {
    std::fprintf(out, "%s\n", json_of(*counts).dump(2).c_str());
  } else if (!options.quiet) {
    std::fprintf(out, "dumped %s: %s\n", directory.c_str(), words_of(*counts).c_str());
  }
  return kExitOk;
}

int run_metadata_load(const MetadataOptions& options) {
  const std::string directory = absolute_path(options.directory);
  const auto counts = load_store(options.file, directory);
  if (!counts) {
    return fail("metadata load", {counts.error().status,
                                  fmt::format("{} into {}: {} (nothing was changed)", options.file,
                                              directory, counts.error().message)});
  }
  if (options.json) {
    std::printf("%s\n", json_of(*counts).dump(2).c_str());
  } else if (!options.quiet) {
    std::printf("loaded %s: %s\nstart it with 'penstock up %s'\n", directory.c_str(),
                words_of(*counts).c_str(), directory.c_str());
  }
  return kExitOk;
}

}  // namespace penstock::apps
