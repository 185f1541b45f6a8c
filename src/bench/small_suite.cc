#include "small_suite.h"

#include "small_files_set.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "penstock/agent.h"
#include "penstock/bench.h"
#include "penstock/console.h"

namespace penstock::bench {
namespace {

constexpr uint32_t kReferenceThreads = 8;
// Paths of one call.
constexpr size_t kListFiles = 2048;
constexpr uint64_t kTreeFiles = 20'000;
// What the node cache keeps a file's bytes in, and how often all is read to bring it in.
constexpr uint64_t kCachedTogether = 64 * kKiB;
constexpr int kWarmPassesMax = 12;
// Open, read and close of a file that the node cache has, at most.
constexpr double kWarmNanoseconds = 10'000;

// A node in this process, for sessions of this one and others.
class Node {
 public:
  static Outcome<Node> start(const std::string& directory, uint64_t cache_bytes) {
    agent::AgentConfig config;
    config.directory = directory;
    config.cache_bytes = cache_bytes;
    TRY_ASSIGN(std::unique_ptr<agent::Agent> agent, agent::Agent::start(config));
    TRY_ASSIGN(console::Session session, console::connect_session(directory));
    return Node(std::move(agent), std::move(session));
  }
  Node(Node&&) = default;
  Node& operator=(Node&&) = delete;
  ~Node() {
    session_.reset();
    if (agent_ != nullptr) agent_->stop();
  }
  penstock_session* session() const { return session_.get(); }
  // Of the node cache.
  uint64_t cached_bytes() const {
    uint64_t bytes = 0;
    for (const agent::CacheStatus& part : agent_->status().cache) bytes += part.used_bytes;
    return bytes;
  }

 private:
  Node(std::unique_ptr<agent::Agent> agent, console::Session session)
      : agent_(std::move(agent)), session_(std::move(session)) {}
  std::unique_ptr<agent::Agent> agent_;
  console::Session session_;
};

// Reads all, list after list, into a region. Seconds; only of the calls.
Outcome<double> read_by_lists(penstock_session* session, const std::string& root,
                              const std::vector<const SmallFile*>& files) {
  std::vector<std::string> paths;
  std::vector<penstock_file_read> list;
  uint64_t most = 0;
  for (size_t first = 0; first < files.size(); first += kListFiles) {
    uint64_t bytes = 0;
    for (size_t i = first; i < std::min(files.size(), first + kListFiles); ++i) {
      bytes += align_up(files[i]->bytes, limits::kBlockBytes);
    }
    most = std::max(most, bytes);
  }
  TRY_ASSIGN(const console::Region region, console::create_region(session, align_up(most, kMiB)));
  engine::Duration spent{};
  for (size_t first = 0; first < files.size(); first += kListFiles) {
    const size_t count = std::min(files.size() - first, kListFiles);
    paths.clear();
    list.assign(count, {});
    for (size_t i = 0; i < count; ++i) paths.push_back(root + files[first + i]->path);
    uint64_t at = 0;
    for (size_t i = 0; i < count; ++i) {
      list[i].path = paths[i].c_str();
      list[i].region = region.get();
      list[i].region_offset = at;
      list[i].length = files[first + i]->bytes;
      at += align_up(list[i].length, limits::kBlockBytes);
    }
    const engine::Time begin = engine::system_clock().now();
    const ssize_t read = penstock_read_files(session, list.data(), count);
    spent += engine::system_clock().now() - begin;
    if (read < 0) return console::api_failure(static_cast<int>(read));
    for (const penstock_file_read& one : list) {
      if (one.result == static_cast<int64_t>(one.length)) continue;
      return Failure{Code::io_error, "bench: " + std::string(one.path) + " could not be read"};
    }
  }
  return std::chrono::duration<double>(spent).count();
}

BenchLine ratio_line(const std::string& name, const std::string& title, const char* unit,
                     const std::vector<double>& ours, const std::vector<double>& theirs) {
  std::vector<double> ratios;
  for (size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / theirs[i]);
  BenchLine line;
  line.name = name;
  line.title = title;
  line.unit = unit;
  line.value = median(ours);
  line.reference = median(theirs);
  line.ratio = median(ratios);
  return line;
}

// A set on the disk's own file system and, imported, in a store beside it.
class FilesAndStore {
 public:
  static Outcome<FilesAndStore> make(const BenchOptions& options, SmallFilesSet set) {
    TRY_ASSIGN(Scratch scratch, Scratch::create(options.directory, set.bytes() * 3 + 4 * kGiB));
    FilesAndStore both(std::move(scratch), std::move(set));
    std::fprintf(stderr, "%zu small files ", both.set.files().size());
    TRY(both.set.make(both.files()));
    TRY_ASSIGN(const Node node, Node::start(both.store(), 0));
    TRY(both.run("import", "/files"));
    return both;
  }
  std::string files() const { return scratch_.path() + "/files"; }
  std::string store() const { return scratch_.path() + "/store"; }
  std::string copy(const std::string& number) const { return scratch_.path() + "/copy" + number; }

  // A command of ours over the files and a path of the store. Seconds.
  Outcome<double> run(const char* command, const std::string& path) const {
    return run_program({"/proc/self/exe", command, files(), store() + ":" + path, "-q"});
  }
  // The reference of imports, with everything on the disk at its end.
  Outcome<double> run_copy(const std::string& number) const {
    ::sync();
    return run_program(
        {"sh", "-c", R"(cp -rT "$1" "$2" && sync -f "$2")", "sh", files(), copy(number)});
  }

  SmallFilesSet set;

 private:
  FilesAndStore(Scratch scratch, SmallFilesSet files)
      : set(std::move(files)), scratch_(std::move(scratch)) {}
  Scratch scratch_;
};

SmallFilesSet mixed_sizes(const BenchOptions& options) {
  return SmallFilesSet::of_sizes(4 * kKiB, 200 * kKiB, options.file_bytes);
}

SmallFilesSet one_block_each() {
  return SmallFilesSet::of_sizes(4 * kKiB, 4 * kKiB, kTreeFiles * 4 * kKiB);
}

// Each round reads, in random order, files that no other round reads: from the disk on both sides,
// with nothing in memory and no node cache.
Outcome<void> measure_cold(const BenchOptions& options, std::vector<BenchLine>* lines) {
  TRY_ASSIGN(FilesAndStore both, FilesAndStore::make(options, mixed_sizes(options)));
  std::vector<double> ours, theirs;
  const auto all = both.set.shuffled();
  for (uint32_t round = 0; round < options.rounds; ++round) {
    std::fprintf(stderr, ".");
    if (!drop_kernel_caches()) {
      std::fprintf(stderr, " skipped: only root can make the kernel forget files\n");
      return {};
    }
    const auto share = [&](uint32_t number) {
      return all.begin() + static_cast<ptrdiff_t>(all.size() * number / options.rounds);
    };
    const std::vector<const SmallFile*> order(share(round), share(round + 1));
    const auto files = static_cast<double>(order.size());
    {
      TRY_ASSIGN(const Node node, Node::start(both.store(), 0));
      TRY_ASSIGN(const double seconds, read_by_lists(node.session(), "/files", order));
      ours.push_back(files / seconds);
    }
    drop_kernel_caches();
    TRY_ASSIGN(const double seconds, read_by_threads(both.files(), order, kReferenceThreads));
    theirs.push_back(files / seconds);
  }
  BenchLine line = ratio_line("small.read.cold", "small: 4 to 200 KiB opened, read, closed, cold",
                              "files/s", ours, theirs);
  line.budget = 0.8;
  line.note = "small, cold: 8 threads on the disk's own file system, caches dropped before";
  lines->push_back(line);
  return {};
}

Outcome<void> measure_warm(const BenchOptions& options, const std::string& name,
                           const std::string& title, SmallFilesSet of,
                           std::vector<BenchLine>* lines) {
  TRY_ASSIGN(FilesAndStore both, FilesAndStore::make(options, std::move(of)));
  SmallFilesSet& set = both.set;
  uint64_t cache_bytes = kGiB / 4;
  for (const SmallFile& file : set.files()) cache_bytes += align_up(file.bytes, kCachedTogether);
  TRY_ASSIGN(const Node node, Node::start(both.store(), cache_bytes));
  // What is read once may pass by; what is read again comes in, soon.
  uint64_t before = 0;
  uint64_t cached = 0;
  for (int pass = 0; pass < 3 || (pass < kWarmPassesMax && cached > before); ++pass) {
    before = cached;
    TRY_ASSIGN(const double filled, read_by_lists(node.session(), "/files", set.shuffled()));
    TRY_ASSIGN(const double known, read_by_threads(both.files(), set.shuffled(), 2));
    (void)filled;
    (void)known;
    cached = node.cached_bytes();
  }
  std::vector<double> ours, theirs, nanoseconds;
  for (uint32_t round = 0; round < options.rounds; ++round) {
    std::fprintf(stderr, ".");
    const auto order = set.shuffled();
    const auto files = static_cast<double>(order.size());
    TRY_ASSIGN(const double mine, read_by_lists(node.session(), "/files", order));
    TRY_ASSIGN(const double other, read_by_threads(both.files(), order, kReferenceThreads));
    ours.push_back(files / mine);
    theirs.push_back(files / other);
    nanoseconds.push_back(mine * 1e9 / files);
  }
  BenchLine line = ratio_line("small.read.warm." + name,
                              "small: " + title + " opened, read, closed, from the node cache",
                              "files/s", ours, theirs);
  line.note = "small, warm: 8 threads on the disk's own file system, out of the page cache";
  lines->push_back(line);
  BenchLine cost;
  cost.name = line.name + ".ns";
  cost.title = "small: the same, a file";
  cost.unit = "ns";
  cost.value = median(nanoseconds);
  cost.budget = kWarmNanoseconds;
  lines->push_back(cost);
  return {};
}

// What our commands do with files of 4 KiB, beside others' that do the same.
struct TreeRow {
  using Run = std::function<Outcome<double>(const FilesAndStore& both, const std::string& round)>;
  const char* name;
  const char* title;
  const char* note;
  std::optional<double> budget;
  Run ours;
  Run theirs;
};

const TreeRow kTreeRows[] = {
    {"small.import.4k", "small: import of files of 4 KiB, with a sync",
     "small, import: cp -r onto the disk's own file system, and sync -f", 1.5,
     [](const FilesAndStore& both, const std::string& round) {
       return both.run("import", "/new" + round);
     },
     [](const FilesAndStore& both, const std::string& round) { return both.run_copy(round); }},
    {"small.reimport.4k", "small: the same over files that are there",
     "small, import over files: cp -r over files that are there, and sync -f", std::nullopt,
     [](const FilesAndStore& both, const std::string&) { return both.run("import", "/files"); },
     [](const FilesAndStore& both, const std::string&) { return both.run_copy(""); }},
    {"small.verify.4k", "small: verify of files of 4 KiB",
     "small, verify: diff -r of two such trees", std::nullopt,
     [](const FilesAndStore& both, const std::string&) { return both.run("verify", "/files"); },
     [](const FilesAndStore& both, const std::string&) {
       return run_program({"diff", "-r", both.files(), both.copy("")});
     }},
};

Outcome<void> measure_tree(const BenchOptions& options, const TreeRow& row,
                           std::vector<BenchLine>* lines) {
  TRY_ASSIGN(const FilesAndStore both, FilesAndStore::make(options, one_block_each()));
  TRY(both.run_copy(""));
  TRY_ASSIGN(const Node node, Node::start(both.store(), 0));
  std::vector<double> ours, theirs;
  for (uint32_t round = 0; round < options.rounds; ++round) {
    std::fprintf(stderr, ".");
    const auto files = static_cast<double>(both.set.files().size());
    const std::string number = std::to_string(round);
    ::sync();
    TRY_ASSIGN(const double mine, row.ours(both, number));
    TRY_ASSIGN(const double other, row.theirs(both, number));
    ours.push_back(files / mine);
    theirs.push_back(files / other);
  }
  BenchLine line = ratio_line(row.name, row.title, "files/s", ours, theirs);
  line.budget = row.budget;
  line.note = row.note;
  lines->push_back(line);
  return {};
}

}  // namespace

// Each row has its files for itself, so that it can be measured alone. The only reference that
// makes files comes first: ext4 makes them slowly for minutes after many were removed.
Outcome<void> small_suite(const BenchOptions& options, const std::string& name,
                          std::vector<BenchLine>* lines) {
  const auto asked = [&](std::string_view row) { return name == "small" || name == row; };
  for (const TreeRow& row : kTreeRows) {
    if (asked(row.name)) TRY(measure_tree(options, row, lines));
  }
  if (asked("small.read.cold")) TRY(measure_cold(options, lines));
  if (asked("small.read.warm.4k")) {
    TRY(measure_warm(options, "4k", "4 KiB", one_block_each(), lines));
  }
  if (asked("small.read.warm.mixed")) {
    TRY(measure_warm(options, "mixed", "4 to 200 KiB", mixed_sizes(options), lines));
  }
  std::fprintf(stderr, "\n");
  return {};
}

}  // namespace penstock::bench
