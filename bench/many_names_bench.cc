// How names do when there are very many: a store is filled with files through meta itself, and then
// the same work is done in it and in a store that is nearly empty, in turn.
//
//   many_names_bench DIR [files=1000000] [shape=directory|trees] [rounds=5] [seconds=1]
//                    [cached=65536] [batch=512] [spare=12] [minutes=0] [bars=0] [json=FILE]
//
// DIR is made; one that this program has filled before is measured again as it is. All files are in
// one directory, or a thousand each in directories of a tree of two levels. It stops filling when
// the disk has less than `spare` GiB left, or after `minutes`. With bars=1 it fails where a ratio
// is below a bar of ours by more than a busy machine explains: for tests.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "penstock/kv.h"
#include "penstock/kv_move.h"
#include "penstock/meta.h"

namespace penstock::bench {
namespace {

using meta::Meta;
using Steady = std::chrono::steady_clock;

constexpr uint64_t kFilesPerDirectory = 1000;
constexpr uint64_t kBranches = 512;      // directories of the tree's first level, at most
constexpr uint64_t kNearFiles = 10'000;  // what a program works with at a time
constexpr int kFillThreads = 2;
constexpr size_t kListedTogether = 1024;

struct Settings {
  std::string path;
  uint64_t files = 1'000'000;
  bool trees = false;
  int rounds = 5;
  double seconds = 1;
  uint64_t cached = 65'536;  // the least that an agent keeps
  uint64_t batch = 512;
  uint64_t spare = 12;
  double minutes = 0;  // 0: as long as it takes
  bool bars = false;
  std::string json;
};

// As long as names of files that programs make, and in no order.
std::string name_of(InodeId id) {
  return fmt::format("sample-{:016x}.jpg", mix64(id.value));
}

void check(const Status& status, const char* what) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", what, std::string(status.name()).c_str());
  std::exit(1);
}
template <class Value>
Value check(Result<Value> result, const char* what) {
  if (!result) check(Status(result.error()), what);
  return std::move(*result);
}

// A store's names as an agent has them, without the node around.
class Store {
 public:
  Store(const std::string& path, uint64_t cached) {
    auto opened = kv::open_rocksdb({.path = path, .create = true});
    if (!opened) fail(opened.error().message);
    kv_ = std::make_unique<kv::MovableKv>(std::move(*opened), 1);
    meta::MetaOptions options;
    options.cached_records = cached;
    auto made = Meta::open(*kv_, engine::system_clock(), options);
    if (!made) fail(made.error().message);
    meta_ = std::move(*made);
  }
  ~Store() { check(meta_->close(), "close"); }
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  Meta& operator*() const { return *meta_; }
  Meta* operator->() const { return meta_.get(); }

 private:
  [[noreturn]] static void fail(const std::string& message) {
    std::fprintf(stderr, "%s\n", message.c_str());
    std::exit(1);
  }
  std::unique_ptr<kv::MovableKv> kv_;
  std::unique_ptr<Meta> meta_;
};

// Files that were made here. Those of a batch have numbers that follow one another; of each batch
// the first is known, and all names come from the numbers.
class Files {
 public:
  Files(Meta& meta, InodeId root, uint64_t directories) : meta_(meta) {
    if (directories <= 1) {
      directories_.push_back(root);
      return;
    }
    std::vector<InodeId> branches;
    for (uint64_t i = 0; i < std::min(directories, kBranches); ++i) {
      branches.push_back(directory(root, fmt::format("set-{:04}", i)));
    }
    for (uint64_t i = 0; i < directories; ++i) {
      directories_.push_back(
          directory(branches[i % branches.size()], fmt::format("part-{:06}", i)));
    }
  }

  void fill(uint64_t files, const Settings& settings, bool tell) {
    std::vector<std::thread> threads;
    std::atomic<uint64_t> next{0};
    std::atomic<bool> full{false};
    batches_.resize((files + settings.batch - 1) / settings.batch);
    batch_files_ = settings.batch;
    const Steady::time_point begin = Steady::now();
    for (int i = 0; i < kFillThreads; ++i) {
      threads.emplace_back([&] {
        for (uint64_t batch; !full && (batch = next++) < batches_.size();) {
          make_batch(batch, std::min(settings.batch, files - batch * settings.batch));
          if (tell && batch % 2048 == 0) full = !has_room(settings) || is_late(begin, settings);
          if (tell && batch % 8192 == 8191) {
            const double took = std::chrono::duration<double>(Steady::now() - begin).count();
            const double done = static_cast<double>((batch + 1) * settings.batch);
            std::fprintf(stderr, "filled %.1f million, %.0f a second\n", done / 1e6, done / took);
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (full) {
      std::fprintf(stderr, "stopped filling: less than %llu GiB are left, or it took too long\n",
                   static_cast<unsigned long long>(settings.spare));
      batches_.resize(std::min<uint64_t>(next, batches_.size()));
    }
    check(meta_.sync(), "sync");
    count_ = full ? batches_.size() * settings.batch : files;
  }

  // As fill() left them.
  void save(const std::string& path) const {
    std::ofstream out(path);
    out << count_ << ' ' << batch_files_ << '\n';
    for (const InodeId first : batches_) out << first.value << '\n';
  }
  void load(const std::string& path) {
    std::ifstream in(path);
    in >> count_ >> batch_files_;
    for (uint64_t first; in >> first;) batches_.emplace_back(first);
    ASSERT(count_ > 0 && !batches_.empty());
  }

  uint64_t count() const { return count_; }
  // File number `i`, and the directory that it is in.
  InodeId file(uint64_t i) const {
    return InodeId(batches_[i / batch_files_].value + i % batch_files_);
  }
  InodeId parent(uint64_t i) const {
    return directories_[i / batch_files_ * batch_files_ / kFilesPerDirectory % directories_.size()];
  }
  const std::vector<InodeId>& directories() const { return directories_; }

 private:
  InodeId directory(InodeId parent, const std::string& name) {
    const auto found = meta_.lookup({}, parent, name);
    if (found) return found->inode;
    return check(meta_.make_directory({}, parent, name, 0755), "make a directory").inode;
  }

  static bool has_room(const Settings& settings) {
    return std::filesystem::space(settings.path).available >= settings.spare * kGiB;
  }

  static bool is_late(Steady::time_point begin, const Settings& settings) {
    const double took = std::chrono::duration<double>(Steady::now() - begin).count();
    return settings.minutes > 0 && took > settings.minutes * 60;
  }

  // Numbers come one after the other but where another thread has taken some; then from anew.
  InodeId take_ids(uint64_t count) {
    const std::lock_guard lock(ids_mutex_);
    InodeId first = check(meta_.unused_id(), "a number");
    InodeId last = first;
    while (last.value - first.value + 1 < count) {
      const InodeId id = check(meta_.unused_id(), "a number");
      if (id.value != last.value + 1) first = id;
      last = id;
    }
    return first;
  }

  void make_batch(uint64_t batch, uint64_t count) {
    const InodeId first = take_ids(count);
    const InodeId parent = this->parent(batch * batch_files_);
    std::vector<meta::CompleteFile> files(count);
    for (uint64_t i = 0; i < count; ++i) {
      const InodeId id(first.value + i);
      files[i].place = {id, parent, name_of(id), {}, false};
      files[i].place.layout.seed = mix64(id.value);
      files[i].mode = 0644;
      files[i].length = 110'000 + mix64(id.value) % 100'000;
    }
    std::vector<Result<meta::MadeFile>> made;
    check(meta_.create_files({}, files, &made), "fill");
    for (const auto& one : made) {
      if (!one) check(Status(one.error()), "fill a file");
    }
    batches_[batch] = first;
  }

  Meta& meta_;
  std::vector<InodeId> directories_;
  std::vector<InodeId> batches_;
  std::mutex ids_mutex_;
  uint64_t batch_files_ = 1;
  uint64_t count_ = 0;
};

struct Rate {
  double per_second = 0;
  double cpu_us = 0;  // of the thread that asks
};

double thread_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// `one` does some and says how many; again until the time is over or it says 0.
Rate measure(double seconds, const std::function<uint64_t()>& one) {
  const Steady::time_point begin = Steady::now();
  const double cpu = thread_seconds();
  uint64_t done = 0;
  double took = 0;
  for (uint64_t now = 1; now > 0 && took < seconds;) {
    now = one();
    done += now;
    took = std::chrono::duration<double>(Steady::now() - begin).count();
  }
  if (done == 0) return {};
  const auto all = static_cast<double>(done);
  return {all / took, (thread_seconds() - cpu) / all * 1e6};
}

enum Row {
  kCreate,
  kCreateNew,
  kLookNear,
  kLookFar,
  kMissing,
  kMissingFar,
  kStatNear,
  kStatFar,
  kListBegin,
  kListMiddle,
  kListEnd,
  kListStat,
  kRemove,
  kRows
};
struct RowText {
  const char* name;
  const char* title;
  double bar;  // of the nearly empty store; 0: none
};
constexpr std::array<RowText, kRows> kTexts{{
    {"create", "make files beside the others", 0.8},
    {"create.new", "make files in a new directory", 0.7},
    {"lookup.near", "look up names of 10,000 files", 0.7},
    {"lookup.far", "look up names of all files", 0},
    {"missing.near", "look up what is not there, near those", 0.7},
    {"missing.far", "look up what is not there, anywhere", 0},
    {"stat.near", "attributes of 10,000 files", 0.7},
    {"stat.far", "attributes of all files", 0},
    {"list.begin", "list, at the beginning", 0.7},
    {"list.middle", "list, in the middle", 0.7},
    {"list.end", "list, at the end", 0.7},
    {"list.stat", "list with attributes, in the middle", 0.7},
    {"remove", "remove and forget files", 0.7},
}};

// What is done in one store.
class Subject {
 public:
  Subject(Meta& meta, const Files& files, const Settings& settings)
      : meta_(meta), files_(files), settings_(settings) {}

  Rate run(Row row, uint64_t round) {
    const uint64_t salt = mix64(round * kRows + row + engine::system_seed());
    near_first_ = mix64(round + 1) % (files_.count() - std::min(files_.count() - 1, kNearFiles));
    switch (row) {
      case kCreate:
        return create(salt, std::nullopt);
      case kCreateNew: {
        // The one of the round before is empty again.
        const std::string name = fmt::format("new-{:016x}", salt);
        const auto made = check(meta_.make_directory({}, meta::kRootInode, name, 0755), "mkdir");
        return create(salt, made.inode);
      }
      case kLookNear:
        look_up(salt, true, true);  // brings them in
        return look_up(salt, true, false);
      case kLookFar:
        return look_up(salt, false, false);
      case kMissing:
        return miss(salt, true);
      case kMissingFar:
        return miss(salt, false);
      case kStatNear:
        stat(salt, true, true);
        return stat(salt, true, false);
      case kStatFar:
        return stat(salt, false, false);
      case kListBegin:
        return list(0, false);
      case kListMiddle:
        return list(files_.count() / 2, false);
      case kListEnd:
        return list(files_.count() - files_.count() / 10, false);
      case kListStat:
        return list(files_.count() / 2, true);
      case kRemove:
        return remove();
      case kRows:
        break;
    }
    return {};
  }

 private:
  struct MadeFile {
    InodeId parent;
    std::string name;
  };

  uint64_t any(uint64_t& state, bool near) const {
    state = mix64(state + 1);
    if (!near) return state % files_.count();
    return near_first_ + state % std::min(kNearFiles, files_.count() - near_first_);
  }

  Rate create(uint64_t state, std::optional<InodeId> directory) {
    return measure(settings_.seconds, [&, this] {
      const InodeId parent = directory ? *directory : files_.parent(any(state, true));
      const std::string name = fmt::format("new-{:016x}.jpg", state = mix64(state + 1));
      check(meta_.create({}, parent, name, 0644, true), "create");
      made_.push_back({parent, name});
      return uint64_t{1};
    });
  }

  Rate look_up(uint64_t state, bool near, bool each) {
    return over(state, near, each, [this](uint64_t i) {
      const auto found = check(meta_.lookup({}, files_.parent(i), name_of(files_.file(i))), "look");
      ASSERT(found.inode == files_.file(i));
    });
  }
  Rate stat(uint64_t state, bool near, bool each) {
    return over(state, near, each,
                [this](uint64_t i) { check(meta_.attributes(files_.file(i)), "attributes"); });
  }
  // With `each` every one of the near ones, once.
  Rate over(uint64_t state, bool near, bool each, const std::function<void(uint64_t)>& one) {
    uint64_t next = near_first_;
    const uint64_t end = std::min(near_first_ + kNearFiles, files_.count());
    return measure(each ? 3600 : settings_.seconds, [&, this]() -> uint64_t {
      if (each && next == end) return 0;
      one(each ? next++ : any(state, near));
      return 1;
    });
  }
  Rate miss(uint64_t state, bool near) {
    return measure(settings_.seconds, [&, this] {
      const InodeId parent = files_.parent(any(state, near));
      const auto found = meta_.lookup({}, parent, fmt::format("missing-{:016x}.jpg", state));
      ASSERT(!found && found.error().code() == Code::not_found);
      return uint64_t{1};
    });
  }
  // Goes on from there; at the end of a directory in that of a file behind it, at last from the
  // beginning.
  Rate list(uint64_t first, bool with_attributes) {
    uint64_t at = first;
    InodeId directory = files_.parent(at);
    uint64_t after = first == 0 ? 0 : files_.file(at).value - 1;
    return measure(settings_.seconds, [&, this]() -> uint64_t {
      uint64_t found = 0;
      const auto visit = [&](const meta::DirectoryEntry& entry, const meta::Attributes*) {
        after = entry.cookie;
        ++found;
        return true;
      };
      check(meta_.read_directory(directory, after, kListedTogether, with_attributes, visit),
            "list");
      if (found < kListedTogether) {
        at = (at + kFilesPerDirectory) % files_.count();
        directory = files_.parent(at);
        after = 0;
      }
      return std::max<uint64_t>(found, 1);
    });
  }
  // All that was made in this round.
  Rate remove() {
    return measure(3600, [this]() -> uint64_t {
      if (made_.empty()) return 0;
      const MadeFile& file = made_.back();
      meta::Removed removed;
      check(meta_.unlink({}, file.parent, file.name, &removed), "unlink");
      check(meta_.forget(removed.inode), "forget");
      made_.pop_back();
      return 1;
    });
  }

  Meta& meta_;
  const Files& files_;
  const Settings& settings_;
  std::vector<MadeFile> made_;
  uint64_t near_first_ = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Column {
  std::vector<double> rate, cpu;
};
struct Figures {
  Column large, small;
  std::vector<double> ratios, cpu_ratios;
};

uint64_t bytes_of(const std::string& path) {
  uint64_t bytes = 0;
  for (const auto& each : std::filesystem::recursive_directory_iterator(path)) {
    if (each.is_regular_file()) bytes += each.file_size();
  }
  return bytes;
}

bool report(const Settings& settings, uint64_t files, std::array<Figures, kRows>& figures) {
  std::printf("%-38s %12s %12s %7s %9s %9s %7s\n", "", "here 1/s", "empty 1/s", "ratio", "here us",
              "empty us", "cpu");
  std::string json = "[";
  bool met = true;
  for (size_t row = 0; row < kRows; ++row) {
    const RowText& text = kTexts[row];
    Figures& of = figures[row];
    const double ratio = median(of.ratios);
    const double cpu = median(of.cpu_ratios);
    std::printf("%-38s %12.0f %12.0f %7.2f %9.2f %9.2f %7.2f\n", text.title, median(of.large.rate),
                median(of.small.rate), ratio, median(of.large.cpu), median(of.small.cpu), cpu);
    // Twice as slow as the bar allows is no noise, if the processor's time says so too.
    if (text.bar > 0 && ratio < text.bar / 2 && cpu > 2 / text.bar) met = false;
    json += fmt::format(
        R"({}
 {{
  "name": "names.{}.{}.{}",
  "title": "{}",
  "unit": "1/s",
  "value": {:.0f},
  "reference": {:.0f},
  "ratio": {:.3f},
  "cpu_us": {:.2f},
  "reference_cpu_us": {:.2f},
  {}"note": "the same in a store of 10,000 files, in turn"
 }})",
        row == 0 ? "" : ",", settings.trees ? "trees" : "directory", files, text.name, text.title,
        median(of.large.rate), median(of.small.rate), ratio, median(of.large.cpu),
        median(of.small.cpu),
        text.bar > 0 ? fmt::format("\"budget\": {}, \"met\": {}, ", text.bar, ratio >= text.bar)
                     : std::string());
  }
  if (!settings.json.empty()) std::ofstream(settings.json) << json << "\n]\n";
  return met;
}

int run(const Settings& settings) {
  std::filesystem::create_directories(settings.path);
  const std::string filled = settings.path + "/filled";
  std::filesystem::remove_all(settings.path + "/small");
  Store store(settings.path + "/large", settings.cached);
  Store small_store(settings.path + "/small", settings.cached);
  const auto home = [](Meta& meta) {
    const auto found = meta.lookup({}, meta::kRootInode, "files");
    if (found) return found->inode;
    return check(meta.make_directory({}, meta::kRootInode, "files", 0755), "mkdir").inode;
  };
  const auto directories = [&](uint64_t files) {
    return settings.trees ? files / kFilesPerDirectory : 1;
  };
  Files files(*store, home(*store), directories(settings.files));
  if (std::filesystem::exists(filled)) {
    files.load(filled);
  } else {
    const Steady::time_point begin = Steady::now();
    files.fill(settings.files, settings, true);
    const double took = std::chrono::duration<double>(Steady::now() - begin).count();
    files.save(filled);
    std::printf("filled with %llu files in %.1f s, %.0f a second\n",
                static_cast<unsigned long long>(files.count()), took,
                static_cast<double>(files.count()) / took);
  }
  Files small(*small_store, home(*small_store), directories(kNearFiles));
  small.fill(kNearFiles, settings, false);
  const uint64_t bytes = bytes_of(settings.path + "/large");
  std::printf("%llu files, %s, %.1f GB on disk, %.0f bytes a file\n",
              static_cast<unsigned long long>(files.count()),
              settings.trees ? "a thousand in a directory" : "in one directory",
              static_cast<double>(bytes) / 1e9,
              static_cast<double>(bytes) / static_cast<double>(files.count()));
  std::fflush(stdout);
  Subject here(*store, files, settings);
  Subject there(*small_store, small, settings);
  std::array<Figures, kRows> figures;
  for (int round = 0; round < settings.rounds; ++round) {
    for (int row = 0; row < kRows; ++row) {
      Figures& of = figures[static_cast<size_t>(row)];
      std::array<Rate, 2> rates;
      for (int turn = 0; turn < 2; ++turn) {
        const bool large = (turn + round) % 2 == 0;
        Subject& subject = large ? here : there;
        rates[large ? 0 : 1] = subject.run(static_cast<Row>(row), static_cast<uint64_t>(round));
      }
      of.large.rate.push_back(rates[0].per_second);
      of.large.cpu.push_back(rates[0].cpu_us);
      of.small.rate.push_back(rates[1].per_second);
      of.small.cpu.push_back(rates[1].cpu_us);
      of.ratios.push_back(rates[0].per_second / rates[1].per_second);
      of.cpu_ratios.push_back(rates[0].cpu_us / rates[1].cpu_us);
    }
  }
  const bool met = report(settings, files.count(), figures);
  return settings.bars && !met ? 1 : 0;
}

bool parse(int argc, char** argv, Settings* to) {
  if (argc < 2) return false;
  to->path = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string_view word = argv[i];
    const size_t at = word.find('=');
    if (at == std::string_view::npos) return false;
    const std::string_view name = word.substr(0, at);
    const char* value = argv[i] + at + 1;
    if (name == "files")
      to->files = std::max(std::strtoull(value, nullptr, 10), 20'000ULL);
    else if (name == "shape")
      to->trees = std::strcmp(value, "trees") == 0;
    else if (name == "rounds")
      to->rounds = std::max(std::atoi(value), 1);
    else if (name == "seconds")
      to->seconds = std::atof(value);
    else if (name == "cached")
      to->cached = std::strtoull(value, nullptr, 10);
    else if (name == "batch")
      to->batch = std::clamp(std::strtoull(value, nullptr, 10), 1ULL, 1000ULL);
    else if (name == "spare")
      to->spare = std::strtoull(value, nullptr, 10);
    else if (name == "minutes")
      to->minutes = std::atof(value);
    else if (name == "bars")
      to->bars = std::atoi(value) != 0;
    else if (name == "json")
      to->json = value;
    else
      return false;
  }
  return true;
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) {
  penstock::bench::Settings settings;
  if (!penstock::bench::parse(argc, argv, &settings)) {
    std::fprintf(stderr, "many_names_bench DIR [files=N] [shape=directory|trees] ...\n");
    return 2;
  }
  return penstock::bench::run(settings);
}
