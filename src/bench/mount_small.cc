#include "mount_small.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/bench.h"
#include "penstock/engine.h"

extern char** environ;

namespace penstock::bench {
namespace {

// What is measured together in one directory.
struct Row {
  const char* name;
  const char* title;
  const char* unit;
  double budget;
};
using Rates = std::vector<double>;  // one for each row

constexpr const char* kNote = "mount: libfuse's passthrough_ll (without writeback), same disk";

Failure failed(const std::string& what) {
  return {Status::from_errno(errno), what + ": " + std::strerror(errno)};
}

double seconds_since(engine::Time begin) {
  return std::chrono::duration<double>(engine::system_clock().now() - begin).count();
}

struct Pieces {
  uint64_t bytes = 4 * kKiB;  // of each
  int flags = 0;
  double seconds = 0;
  uint64_t total_max = 0;
};

// One piece behind the other, without a sync; the close counts.
Outcome<double> write_pieces(const std::string& file, const Pieces& pieces) {
  const std::string piece(pieces.bytes, 'p');
  const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | pieces.flags;
  UniqueFd fd(::open(file.c_str(), flags, 0644));
  if (!fd) return failed(file);
  uint64_t written = 0;
  const engine::Time begin = engine::system_clock().now();
  while (seconds_since(begin) < pieces.seconds && written < pieces.total_max) {
    // Looking at the clock costs little beside so many bytes.
    for (uint64_t i = 0; i < 256 * kKiB; i += pieces.bytes, written += pieces.bytes) {
      if (::write(fd.get(), piece.data(), piece.size()) != static_cast<ssize_t>(piece.size())) {
        return failed(file);
      }
    }
  }
  if (::close(fd.release()) != 0) return failed(file);
  const double took = seconds_since(begin);
  ::unlink(file.c_str());
  return static_cast<double>(written) / took / 1e6;
}

// The kernel forgets names, attributes and the pages of files, where it lets us. What a server of
// the mount holds open stays: passthrough_ll has its files' pages in memory all the same.
void drop_names() {
  std::ofstream("/proc/sys/vm/drop_caches") << "2\n";
}

// Everything: the second time what the server has let go of since the first.
void drop_all() {
  for (int i = 0; i < 2; ++i) {
    ::sync();
    std::ofstream("/proc/sys/vm/drop_caches") << "3\n";
    ::usleep(200'000);
  }
}

Outcome<double> timed(uint32_t count, const std::function<bool(uint32_t)>& one) {
  const engine::Time begin = engine::system_clock().now();
  for (uint32_t i = 0; i < count; ++i) {
    if (!one(i)) return failed("file " + std::to_string(i) + " of the benchmark");
  }
  return count / seconds_since(begin);
}

bool read_whole(const std::string& file, char* into, size_t size) {
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  return fd && ::read(fd.get(), into, size) == static_cast<ssize_t>(size);
}

bool write_whole(const std::string& file, const std::string& bytes) {
  const UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  return fd && ::write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
}

Outcome<double> list_with_attributes(const std::string& directory, uint32_t count) {
  const engine::Time begin = engine::system_clock().now();
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::opendir(directory.c_str()), ::closedir);
  if (list == nullptr) return failed(directory);
  uint32_t seen = 0;
  while (const dirent* const entry = ::readdir(list.get())) {
    struct stat info {};
    if (::fstatat(::dirfd(list.get()), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
      return failed(directory);
    }
    seen += S_ISREG(info.st_mode) ? 1 : 0;
  }
  if (seen != count) return Failure{Code::corrupt, directory + ": not all names were listed"};
  return count / seconds_since(begin);
}

constexpr Row kNameRows[] = {
    {"mount.create.4k", "mount: create, write 4 KiB, close", "files/s", 1.0},
    {"mount.stat", "mount: stat, names not in the kernel", "files/s", 1.0},
    {"mount.readdirplus", "mount: list with attributes, not in the kernel", "files/s", 1.0},
    {"mount.open_read.4k", "mount: open, read 4 KiB, close, first since written", "files/s", 1.0},
    {"mount.open_read.4k.warm", "mount: the same once more", "files/s", 1.0},
    {"mount.open_read.4k.cold", "mount: the same, both from the disk", "files/s", 1.0},
    {"mount.unlink", "mount: unlink", "files/s", 1.0},
};

// In the order of kNameRows.
Outcome<Rates> work_with_names(const std::string& parent, uint32_t count) {
  const std::string directory = parent + "/names";
  if (::mkdir(directory.c_str(), 0755) != 0) return failed(directory);
  const auto name = [&](uint32_t i) { return directory + "/" + std::to_string(i); };
  std::string bytes(4 * kKiB, 'b');
  const auto read_one = [&](uint32_t i) { return read_whole(name(i), bytes.data(), bytes.size()); };
  Rates rates(std::size(kNameRows));
  TRY_ASSIGN(rates[0], timed(count, [&](uint32_t i) { return write_whole(name(i), bytes); }));
  drop_names();
  TRY_ASSIGN(rates[1], timed(count, [&](uint32_t i) {
               struct stat info {};
               return ::stat(name(i).c_str(), &info) == 0;
             }));
  drop_names();
  TRY_ASSIGN(rates[2], list_with_attributes(directory, count));
  drop_names();
  TRY_ASSIGN(rates[3], timed(count, read_one));
  TRY_ASSIGN(rates[4], timed(count, read_one));
  drop_all();
  TRY_ASSIGN(rates[5], timed(count, read_one));
  TRY_ASSIGN(rates[6], timed(count, [&](uint32_t i) { return ::unlink(name(i).c_str()) == 0; }));
  if (::rmdir(directory.c_str()) != 0) return failed(directory);
  return rates;
}

// Transactions of one row each, by sqlite's own program: 0 when it is not installed.
Outcome<double> run_sqlite(const std::string& directory, const std::string& settings,
                           uint32_t transactions) {
  const std::string database = directory + "/sqlite.db", script = directory + "/script";
  {
    std::ofstream out(script);
    out << settings << "create table t(a integer primary key, b text);\n";
    for (uint32_t i = 0; i < transactions; ++i) {
      out << "begin;insert into t(b) values('" << std::string(100, 'x') << "');commit;\n";
    }
  }
  const std::string read = ".read " + script;
  const char* arguments[] = {"sqlite3", database.c_str(), read.c_str(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  const engine::Time begin = engine::system_clock().now();
  pid_t pid = 0;
  const int spawned =
      ::posix_spawnp(&pid, "sqlite3", &actions, nullptr, const_cast<char**>(arguments), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (spawned == ENOENT) return 0.0;
  int status = -1;
  while (spawned == 0 && ::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  const double took = seconds_since(begin);
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    ::unlink((database + suffix).c_str());
  }
  ::unlink(script.c_str());
  if (status != 0) return Failure{Code::io_error, directory + ": sqlite3 failed there"};
  return transactions / took;
}

Outcome<void> compare(const BenchOptions& options, const MountPair& mounts,
                      std::span<const Row> rows, std::vector<BenchLine>* lines,
                      const std::function<Outcome<Rates>(const std::string&)>& work) {
  std::fprintf(stderr, "%s ", rows.front().title);
  std::vector<Rates> ours, references;
  for (uint32_t round = 0; round < options.rounds; ++round) {
    std::fprintf(stderr, ".");
    TRY_ASSIGN(ours.emplace_back(), work(mounts.ours));
    TRY_ASSIGN(references.emplace_back(), work(mounts.reference));
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    std::vector<double> values, against, ratios;
    for (size_t round = 0; round < ours.size(); ++round) {
      values.push_back(ours[round][i]);
      against.push_back(references[round][i]);
      ratios.push_back(ours[round][i] / references[round][i]);
    }
    BenchLine line;
    line.name = rows[i].name;
    line.title = rows[i].title;
    line.unit = rows[i].unit;
    line.value = median(values);
    line.reference = median(against);
    line.ratio = median(ratios);
    line.budget = rows[i].budget;
    line.note = kNote;
    lines->push_back(line);
    std::fprintf(stderr, " %.2f", *line.ratio);
  }
  std::fprintf(stderr, "\n");
  return {};
}

}  // namespace

Outcome<void> measure_small_things(const BenchOptions& options, const MountPair& mounts,
                                   std::vector<BenchLine>* lines) {
  const auto pieces = [&](uint64_t bytes, int flags) {
    const Pieces wanted{bytes, flags, options.seconds, options.file_bytes};
    return [wanted](const std::string& directory) -> Outcome<Rates> {
      TRY_ASSIGN(const double rate, write_pieces(directory + "/pieces", wanted));
      return Rates{rate};
    };
  };
  const Row large[] = {
      {"mount.write.1m.sequential", "mount: 1 MiB sequential write, no sync", "MB/s", 0.9}};
  const Row sequential[] = {
      {"mount.write.4k.sequential", "mount: 4 KiB sequential write, no sync", "MB/s", 1.0}};
  const Row append[] = {{"mount.write.4k.append", "mount: 4 KiB append, no sync", "MB/s", 1.0}};
  TRY(compare(options, mounts, large, lines, pieces(kMiB, 0)));
  TRY(compare(options, mounts, sequential, lines, pieces(4 * kKiB, 0)));
  TRY(compare(options, mounts, append, lines, pieces(4 * kKiB, O_APPEND)));
  const uint32_t count = options.quick ? 1000 : 10'000;
  TRY(compare(options, mounts, kNameRows, lines,
              [&](const std::string& directory) { return work_with_names(directory, count); }));

  const auto sqlite = [&](const char* settings, uint32_t transactions) {
    return [=](const std::string& directory) -> Outcome<Rates> {
      TRY_ASSIGN(const double rate, run_sqlite(directory, settings, transactions));
      return Rates{rate};
    };
  };
  TRY_ASSIGN(const double there, run_sqlite(mounts.reference, "", 1));
  if (there == 0) {
    std::fprintf(stderr, "mount: sqlite: skipped: the program sqlite3 is not installed\n");
    return {};
  }
  const Row wal[] = {
      {"mount.sqlite.wal", "mount: sqlite, WAL, synchronous=normal", "transactions/s", 0.7}};
  const Row rollback[] = {
      {"mount.sqlite.rollback", "mount: sqlite, rollback journal", "transactions/s", 0.7}};
  TRY(compare(options, mounts, wal, lines,
              sqlite("pragma journal_mode=wal;pragma synchronous=normal;\n",
                     options.quick ? 2000 : 10'000)));
  return compare(options, mounts, rollback, lines, sqlite("", options.quick ? 50 : 200));
}

}  // namespace penstock::bench
