// `penstock warmup`: brings files and trees into the node cache.
#include "commands.h"
#include "node/admin.h"
#include "tree.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <sys/stat.h>
#include <thread>
#include <vector>

#include "penstock/console.h"

namespace penstock::apps {
namespace {

// A piece is one operation: small enough for a progress bar to move.
constexpr uint64_t kWarmUpBytes = 4 * kMiB;
constexpr uint32_t kPiecesInFlight = 4;

// What there is to do in one file system, through one session.
class Warmer {
 public:
  Warmer(console::Session session, console::Ring ring, uint32_t workers,
         console::Progress* progress, Problems* problems)
      : session_(std::move(session)),
        ring_(std::move(ring)),
        workers_(workers),
        progress_(progress),
        problems_(problems) {}

  // Adds a file, or all files below a directory.
  void add(const std::string& path);
  // Brings all of it in. False if that is not possible at all.
  bool warm() { return run(0); }
  // Bytes of it that are there now.
  uint64_t look() {
    resident_ = 0;
    run(PENSTOCK_LOOK);
    return resident_.load();
  }

 private:
  struct File {
    std::string path;
    uint64_t length = 0;
  };

  bool run(uint8_t flags);
  void work(uint8_t flags);
  int run_file(const File& file, penstock_file handle, uint8_t flags);
  int reap(uint32_t* in_flight, uint8_t flags);

  console::Session session_;
  console::Ring ring_;
  const uint32_t workers_;
  console::Progress* const progress_;
  Problems* const problems_;
  std::vector<File> files_;
  std::atomic<size_t> next_{0};
  std::atomic<uint64_t> resident_{0};
  std::atomic<bool> impossible_{false};
};

void Warmer::add(const std::string& path) {
  // Deep trees are walked without recursion.
  std::vector<std::string> open{path};
  while (!open.empty()) {
    const std::string here = std::move(open.back());
    open.pop_back();
    struct stat st {};
    const int found = here == path ? penstock_stat(session_.get(), here.c_str(), &st)
                                   : penstock_lstat(session_.get(), here.c_str(), &st);
    if (found < 0) {
      problems_->add(here, penstock_last_error());
      continue;
    }
    if (S_ISREG(st.st_mode)) {
      files_.push_back({here, static_cast<uint64_t>(st.st_size)});
      progress_->files_total.fetch_add(1);
      progress_->bytes_total.fetch_add(files_.back().length);
    }
    if (!S_ISDIR(st.st_mode)) continue;
    std::vector<std::string> names;
    const auto visit = [](void* context, const char* name, uint64_t, unsigned char) {
      static_cast<std::vector<std::string>*>(context)->emplace_back(name);
      return 0;
    };
    const int listed = penstock_list(session_.get(), here.c_str(), visit, &names);
    if (listed < 0) problems_->add(here, penstock_last_error());
    for (const std::string& name : names) {
      open.push_back(here == "/" ? "/" + name : here + "/" + name);
    }
  }
}

bool Warmer::run(uint8_t flags) {
  next_ = 0;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < workers_; ++i) threads.emplace_back([this, flags] { work(flags); });
  for (std::thread& thread : threads) thread.join();
  return !impossible_.load();
}

void Warmer::work(uint8_t flags) {
  while (!impossible_.load()) {
    const size_t index = next_.fetch_add(1);
    if (index >= files_.size()) return;
    const File& file = files_[index];
    const penstock_file handle = penstock_open(session_.get(), file.path.c_str(), O_RDONLY, 0);
    int result = handle;
    std::string why = handle < 0 ? penstock_last_error() : "";
    if (handle >= 0) {
      result = run_file(file, handle, flags);
      if (result < 0) why = std::strerror(-result);
      penstock_file_close(session_.get(), handle);
    }
    if (result == -EOPNOTSUPP) impossible_ = true;
    // The second time round the same problems are known.
    if (result < 0 && flags == 0) problems_->add(file.path, why);
    if (result >= 0 && flags == 0) progress_->files.fetch_add(1);
  }
}

int Warmer::run_file(const File& file, penstock_file handle, uint8_t flags) {
  int result = 0;
  uint32_t in_flight = 0;
  for (uint64_t offset = 0; offset < file.length && result == 0; offset += kWarmUpBytes) {
    penstock_io io{};
    io.operation = PENSTOCK_WARM;
    io.flags = flags;
    io.file = handle;
    io.offset = offset;
    io.length = std::min(kWarmUpBytes, file.length - offset);
    result = penstock_prepare(ring_.get(), &io);
    if (result < 0) break;
    penstock_submit(ring_.get());
    if (++in_flight == kPiecesInFlight) result = reap(&in_flight, flags);
  }
  while (in_flight > 0) {
    const int ended = reap(&in_flight, flags);
    if (result == 0) result = ended;
    if (ended == -ECONNRESET) break;
  }
  return result;
}

int Warmer::reap(uint32_t* in_flight, uint8_t flags) {
  penstock_completion done[kPiecesInFlight];
  const int count = penstock_wait(ring_.get(), done, kPiecesInFlight, 1, PENSTOCK_FOREVER);
  if (count < 0) return count;
  int result = 0;
  for (int i = 0; i < count; ++i) {
    --*in_flight;
    if (done[i].result < 0) {
      result = static_cast<int>(done[i].result);
      continue;
    }
    const auto bytes = static_cast<uint64_t>(done[i].result);
    (flags == 0 ? progress_->bytes : resident_).fetch_add(bytes);
  }
  return result;
}

Outcome<std::unique_ptr<Warmer>> make_warmer(const std::string& where, uint32_t workers,
                                             console::Progress* progress, Problems* problems) {
  TRY_ASSIGN(console::Session session, console::connect_session(where));
  TRY_ASSIGN(console::Ring ring, console::create_ring(session.get(), kPiecesInFlight, workers));
  return std::make_unique<Warmer>(std::move(session), std::move(ring), workers, progress, problems);
}

void print_result(const WarmOptions& options, const console::Progress& progress,
                  uint64_t resident) {
  const uint64_t bytes = progress.bytes_total.load();
  if (options.json) {
    const Json line = {{"files", progress.files.load()},
                       {"bytes", bytes},
                       {"resident_bytes", resident},
                       {"seconds", progress.seconds()}};
    std::printf("%s\n", line.dump().c_str());
    return;
  }
  std::printf("resident: %s of %s, %lu files, in %s\n",
              console::human_bytes(static_cast<double>(resident)).c_str(),
              console::human_bytes(static_cast<double>(bytes)).c_str(), progress.files.load(),
              console::human_duration(progress.seconds()).c_str());
  if (resident < bytes) {
    std::printf(
        "The cache has no room for the rest (see 'penstock status', 'penstock up --cache')\n");
  }
}

}  // namespace

int run_warmup(const WarmOptions& options) {
  Problems problems("warmup");
  console::Progress progress("warmup", options.quiet || options.json);
  std::map<std::string, std::unique_ptr<Warmer>> warmers;  // by file system
  for (const std::string& path : options.paths) {
    auto location = console::parse_location(path, options.store);
    if (!location) return fail("warmup", location.error());
    std::unique_ptr<Warmer>& warmer = warmers[location->where];
    if (warmer == nullptr) {
      auto made = make_warmer(location->where, options.threads, &progress, &problems);
      if (!made) return fail("warmup", made.error());
      warmer = std::move(*made);
    }
    warmer->add(location->path);
  }
  progress.totals_known = true;
  uint64_t resident = 0;
  for (const auto& [where, warmer] : warmers) {
    if (!warmer->warm()) {
      progress.finish();
      return fail("warmup", {Code::not_supported, where + ": the node has no cache (start it with "
                                                          "'penstock up --cache SIZE')"});
    }
    resident += warmer->look();
  }
  progress.finish();
  print_result(options, progress, resident);
  return problems.count() == 0 ? kExitOk : kExitFailed;
}

}  // namespace penstock::apps
