#include "small_suite.h"

#include "../session.h"
#include "measure.h"
#include "scratch.h"
#include "small_files_set.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "penstock/agent.h"

namespace penstock::apps {
namespace {

constexpr uint32_t kReferenceThreads = 8;
// Paths of one call.
constexpr size_t kListFiles = 2048;
constexpr uint64_t kImportFiles = 20'000;
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
    TRY_ASSIGN(Session session, connect_session(directory));
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
  Node(std::unique_ptr<agent::Agent> agent, Session session)
      : agent_(std::move(agent)), session_(std::move(session)) {}
  std::unique_ptr<agent::Agent> agent_;
  Session session_;
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
  TRY_ASSIGN(const Region region, create_region(session, align_up(most, kMiB)));
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
    if (read < 0) return api_failure(static_cast<int>(read));
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

Outcome<void> import_into(const std::string& source, const std::string& store,
                          const std::string& path) {
  TRY_ASSIGN(const double seconds,
             run_program({"/proc/self/exe", "import", source, store + ":" + path, "-q"}));
  (void)seconds;
  return {};
}

// Random orders of more files than the kernel or the node keeps anything of: with nothing in memory
// and no node cache.
Outcome<void> measure_cold(const std::string& scratch, SmallFilesSet* set, uint32_t rounds,
                           std::vector<BenchLine>* lines) {
  std::vector<double> ours, theirs;
  for (uint32_t round = 0; round < rounds; ++round) {
    std::fprintf(stderr, ".");
    if (!drop_kernel_caches()) {
      std::fprintf(stderr, " skipped: only root can make the kernel forget files\n");
      return {};
    }
    const auto order = set->shuffled();
    const auto files = static_cast<double>(order.size());
    {
      TRY_ASSIGN(const Node node, Node::start(scratch + "/store", 0));
      TRY_ASSIGN(const double seconds, read_by_lists(node.session(), "/mixed", order));
      ours.push_back(files / seconds);
    }
    drop_kernel_caches();
    TRY_ASSIGN(const double seconds, read_by_threads(scratch + "/mixed", order, kReferenceThreads));
    theirs.push_back(files / seconds);
  }
  BenchLine line = ratio_line("small.read.cold", "small: 4 to 200 KiB opened, read, closed, cold",
                              "files/s", ours, theirs);
  line.budget = 0.8;
  line.note = "small, cold: 8 threads on the disk's own file system, caches dropped before";
  lines->push_back(line);
  return {};
}

Outcome<void> measure_warm(const std::string& scratch, const std::string& name,
                           const std::string& title, SmallFilesSet* set, uint32_t rounds,
                           std::vector<BenchLine>* lines) {
  uint64_t cache_bytes = kGiB / 4;
  for (const SmallFile& file : set->files()) cache_bytes += align_up(file.bytes, kCachedTogether);
  TRY_ASSIGN(const Node node, Node::start(scratch + "/store", cache_bytes));
  // What is read once may pass by; what is read again comes in, soon.
  uint64_t before = 0;
  uint64_t cached = 0;
  for (int pass = 0; pass < 3 || (pass < kWarmPassesMax && cached > before); ++pass) {
    before = cached;
    TRY_ASSIGN(const double filled, read_by_lists(node.session(), "/" + name, set->shuffled()));
    TRY_ASSIGN(const double known, read_by_threads(scratch + "/" + name, set->shuffled(), 2));
    (void)filled;
    (void)known;
    cached = node.cached_bytes();
  }
  std::vector<double> ours, theirs, nanoseconds;
  for (uint32_t round = 0; round < rounds; ++round) {
    std::fprintf(stderr, ".");
    const auto order = set->shuffled();
    const auto files = static_cast<double>(order.size());
    TRY_ASSIGN(const double mine, read_by_lists(node.session(), "/" + name, order));
    TRY_ASSIGN(const double other, read_by_threads(scratch + "/" + name, order, kReferenceThreads));
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

// Both end with everything on the disk.
Outcome<void> measure_import(const std::string& scratch, const SmallFilesSet& set, uint32_t rounds,
                             std::vector<BenchLine>* lines) {
  TRY_ASSIGN(const Node node, Node::start(scratch + "/store", 0));
  const std::string source = scratch + "/4k";
  std::vector<double> ours, theirs;
  for (uint32_t round = 0; round < rounds; ++round) {
    std::fprintf(stderr, ".");
    const auto files = static_cast<double>(set.files().size());
    const std::string number = std::to_string(round);
    ::sync();
    TRY_ASSIGN(const double mine, run_program({"/proc/self/exe", "import", source,
                                               scratch + "/store:/import" + number, "-q"}));
    ::sync();
    const std::string copy = scratch + "/copy" + number;
    TRY_ASSIGN(const double other,
               run_program({"sh", "-c", R"(cp -r "$1" "$2" && sync -f "$2")", "sh", source, copy}));
    ours.push_back(files / mine);
    theirs.push_back(files / other);
  }
  BenchLine line = ratio_line("small.import.4k", "small: import of files of 4 KiB, with a sync",
                              "files/s", ours, theirs);
  line.budget = 1.5;
  line.note = "small, import: cp -r onto the disk's own file system, and sync -f";
  lines->push_back(line);
  return {};
}

}  // namespace

Outcome<void> small_suite(const BenchOptions& options, std::vector<BenchLine>* lines) {
  auto scratch = Scratch::create(options.directory, options.file_bytes * 3 + 4 * kGiB);
  if (!scratch) return scratch.error();
  const std::string& root = scratch->path();
  SmallFilesSet mixed = SmallFilesSet::of_sizes(4 * kKiB, 200 * kKiB, options.file_bytes);
  SmallFilesSet equal = SmallFilesSet::of_sizes(4 * kKiB, 4 * kKiB, kImportFiles * 4 * kKiB);
  std::fprintf(stderr, "small: %zu files of 4 to 200 KiB, %zu of 4 KiB ", mixed.files().size(),
               equal.files().size());
  TRY(mixed.make(root + "/mixed"));
  TRY(equal.make(root + "/4k"));
  {
    TRY_ASSIGN(const Node node, Node::start(root + "/store", 0));
    TRY(import_into(root + "/mixed", root + "/store", "/mixed"));
    TRY(import_into(root + "/4k", root + "/store", "/4k"));
  }
  TRY(measure_import(root, equal, options.rounds, lines));
  TRY(measure_cold(root, &mixed, options.rounds, lines));
  TRY(measure_warm(root, "4k", "4 KiB", &equal, options.rounds, lines));
  TRY(measure_warm(root, "mixed", "4 to 200 KiB", &mixed, options.rounds, lines));
  std::fprintf(stderr, "\n");
  return {};
}

}  // namespace penstock::apps
