// `penstock metadata`: the names of a store as text, and back; checked; moved to another database.
#include "commands.h"
#include "node/admin.h"
#include "node/node_service.h"
#include "node/status_document.h"
#include "text_files.h"

#include <cinttypes>
#include <cstdio>
#include <fmt/format.h>
#include <unistd.h>

#include "penstock/cluster.h"
#include "penstock/console.h"
#include "penstock/engine.h"
#include "penstock/json.h"
#include "penstock/kv.h"
#include "penstock/kv_move.h"
#include "penstock/meta_copy.h"
#include "penstock/meta_text.h"
#include "penstock/stopped_store.h"

namespace penstock::apps {
namespace {

constexpr const char* kMetaName = "/meta";
constexpr const char* kRocksDb = "rocksdb";
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

Outcome<void> ask_for_copy(const std::string& directory) {
  const Outcome<Json> answer = ask_node(directory, {{"command", "checkpoint"}});
  if (answer) return {};
  return answer.error();
}

// Names as they are at one moment, to be read.
struct Readable {
  std::unique_ptr<agent::MetaCopy> copy;  // ends after the Kv
  std::unique_ptr<engine::Kv> kv;
};

// Those that were moved away, or are not complete, are no names.
Outcome<void> refuse_unless_here(const std::string& name, engine::Kv& kv) {
  const auto place = kv::place_of(kv);
  if (!place) {
    return Failure{place.error(), fmt::format("{}: what it says of itself cannot be read: {}", name,
                                              place.error().name())};
  }
  if (!*place || (*place)->state == kv::Place::State::here) return {};
  if ((*place)->state == kv::Place::State::moved) {
    return Failure{Code::stale,
                   fmt::format("{}: the names were moved from there to {}", name, (*place)->to)};
  }
  return Failure{Code::corrupt, name + ": is a copy of names that was not finished"};
}

Outcome<Readable> open_database(const std::string& url, const std::string& store) {
  Readable readable;
  TRY_ASSIGN(const kv::PostgresUrl shown, kv::without_password(url));
  TRY_ASSIGN(readable.kv, kv::open_postgres({.url = url, .cluster = store, .read_only = true}));
  TRY(refuse_unless_here(shown.url, *readable.kv));
  return readable;
}

// The names of a store, whether its node runs or not.
Outcome<Readable> open_store(const std::string& directory) {
  std::string at;
  Readable readable;
  const bool runs = node_runs(directory);
  if (runs) {
    // While they move it knows where they are.
    TRY_ASSIGN(const Json status, ask_node(directory, {{"command", "status"}}));
    at = status.value("names", Json::object()).value("at", "");
    if (at == kRocksDb) at.clear();
  } else {
    TRY_ASSIGN(const agent::NamesFound found, agent::find_names(directory));
    at = found.at;
  }
  if (!at.empty()) return open_database(at, "");
  if (runs) {
    TRY_ASSIGN(readable.copy,
               agent::MetaCopy::make(directory, [&] { return ask_for_copy(directory); }));
  }
  const std::string path = readable.copy == nullptr ? directory + kMetaName : readable.copy->path();
  TRY_ASSIGN(readable.kv, kv::open_rocksdb({.path = path, .read_only = true}));
  TRY(refuse_unless_here(path, *readable.kv));
  return readable;
}

Outcome<meta_text::Counts> dump_store(const std::string& directory, const std::string& path) {
  TRY_ASSIGN(const auto file, DumpFile::open(path));
  TRY_ASSIGN(const Readable names, open_store(directory));
  engine::SeededRandom random(engine::system_seed());
  TRY_ASSIGN(const meta_text::Counts counts, meta_text::dump(*names.kv, random, *file));
  TRY(file->finish());
  return counts;
}

bool is_url(const std::string& text) {
  return text.find("://") != std::string::npos || text.find("dbname=") != std::string::npos;
}

// Keeps the first ones, for people.
class KeptProblems final : public meta_text::Problems {
 public:
  void begin() override { first_.clear(); }
  void add(const std::string& problem) override {
    if (first_.size() < kMost) first_.push_back(problem);
  }
  const std::vector<std::string>& first() const { return first_; }

 private:
  static constexpr size_t kMost = 1000;
  std::vector<std::string> first_;
};

Json json_of(const meta_text::CheckCounts& counts) {
  return {{"inodes", counts.inodes},    {"directories", counts.directories},
          {"entries", counts.entries},  {"extended_attributes", counts.xattrs},
          {"orphans", counts.orphans},  {"open_for_writing", counts.sessions},
          {"problems", counts.problems}};
}

void tell_problems(const meta_text::CheckCounts& counts, const KeptProblems& problems) {
  for (const std::string& problem : problems.first()) std::printf("%s\n", problem.c_str());
  if (counts.problems > problems.first().size()) {
    std::printf("... and %" PRIu64 " more\n", counts.problems - problems.first().size());
  }
}

// By the node, if one runs, else here.
Outcome<Json> move_names(const MetadataOptions& options, const std::string& directory) {
  const bool shows = !options.quiet && !options.json && ::isatty(STDERR_FILENO) != 0;
  const auto show = [&](uint64_t records, uint64_t bytes) {
    if (!shows) return;
    std::fprintf(stderr, "\r%" PRIu64 " records, %s \033[K", records,
                 console::human_bytes(static_cast<double>(bytes)).c_str());
  };
  if (node_runs(directory)) {
    auto answer =
        ask_node(directory, {{"command", "move names"}, {"to", options.to}}, [&](const Json& line) {
          show(line.value("records", uint64_t{0}), line.value("bytes", uint64_t{0}));
        });
    if (shows) std::fprintf(stderr, "\r\033[K");
    return answer;
  }
  TRY_ASSIGN(const auto store, agent::StoppedStore::open(directory));
  TRY_ASSIGN(const agent::NamesMoved moved,
             store->move_names(options.to, [&](const agent::NamesMoving& at) {
               show(at.records, at.bytes);
               return true;
             }));
  if (shows) std::fprintf(stderr, "\r\033[K");
  return apps::json_of(moved);
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

int run_metadata_move(const MetadataOptions& options) {
  const std::string directory = absolute_path(options.directory);
  if (options.to != kRocksDb) {
    const auto address = kv::without_password(options.to);
    if (!address) return fail("metadata move", address.error());
    if (address->had_password) {
      std::fprintf(
          stderr,
          "penstock metadata move: warning: the password is not kept: put it into the file "
          "~/.pgpass of the user that runs the node (mode 0600, a line "
          "HOST:PORT:DATABASE:USER:PASSWORD) before the node starts again\n");
    }
  }
  const auto moved = move_names(options, directory);
  if (!moved) return fail("metadata move", moved.error());
  if (options.json) {
    std::printf("%s\n", moved->dump(2).c_str());
  } else if (!options.quiet) {
    std::printf("moved the names of %s from %s to %s: %" PRIu64
                " records; changes waited for %.3f s\n",
                directory.c_str(), moved->value("from", "").c_str(), moved->value("to", "").c_str(),
                moved->value("records", uint64_t{0}), moved->value("pause_seconds", 0.0));
  }
  return kExitOk;
}

int run_metadata_check(const MetadataOptions& options) {
  const bool by_url = is_url(options.directory);
  const std::string where = by_url ? options.directory : absolute_path(options.directory);
  const auto names = by_url ? open_database(where, "") : open_store(where);
  if (!names) return fail("metadata check", names.error());
  engine::SeededRandom random(engine::system_seed());
  KeptProblems problems;
  const auto counts = meta_text::check(*names->kv, random, problems);
  if (!counts) return fail("metadata check", counts.error());
  if (options.json) {
    Json document = json_of(*counts);
    document["first_problems"] = problems.first();
    std::printf("%s\n", document.dump(2).c_str());
  } else {
    tell_problems(*counts, problems);
    if (!options.quiet) {
      std::printf("%" PRIu64 " inodes, %" PRIu64 " names, %" PRIu64 " open for writing, %" PRIu64
                  " removed and not collected yet: %" PRIu64 " problems\n",
                  counts->inodes, counts->entries, counts->sessions, counts->orphans,
                  counts->problems);
    }
  }
  return counts->problems == 0 ? kExitOk : kExitDifferent;
}

}  // namespace penstock::apps
