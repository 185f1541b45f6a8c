#include "mount_suite.h"

#include "mount_small.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/agent.h"
#include "penstock/bench.h"
#include "penstock/engine.h"
#include "penstock/fuse.h"

extern char** environ;

namespace penstock::bench {
namespace {

namespace fs = std::filesystem;

// libfuse's passthrough_ll, mounted by a process of its own and ended with this object.
class Passthrough {
 public:
  static std::unique_ptr<Passthrough> start(const std::string& program, const std::string& source,
                                            const std::string& mount_point);
  ~Passthrough();

 private:
  Passthrough(pid_t pid, std::string mount_point)
      : pid_(pid), mount_point_(std::move(mount_point)) {}
  const pid_t pid_;
  const std::string mount_point_;
};

bool is_mount_point(const std::string& path) {
  struct stat here {
  }, above{};
  return ::stat(path.c_str(), &here) == 0 && ::stat((path + "/..").c_str(), &above) == 0 &&
         here.st_dev != above.st_dev;
}

std::unique_ptr<Passthrough> Passthrough::start(const std::string& program,
                                                const std::string& source,
                                                const std::string& mount_point) {
  const std::string option = "source=" + source;
  const char* arguments[] = {program.c_str(),     "-f",   "-o", option.c_str(),
                             mount_point.c_str(), nullptr};
  // It warns about a setting of its own at every start.
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const int spawned = ::posix_spawn(&pid, program.c_str(), &actions, nullptr,
                                    const_cast<char**>(arguments), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (spawned != 0) return nullptr;
  std::unique_ptr<Passthrough> running(new Passthrough(pid, mount_point));
  const auto& clock = engine::system_clock();
  const engine::Time deadline = clock.now() + std::chrono::seconds(5);
  while (clock.now() < deadline) {
    if (is_mount_point(mount_point)) return running;
    if (::waitpid(pid, nullptr, WNOHANG) != 0) break;
    ::usleep(10'000);
  }
  return nullptr;
}

Passthrough::~Passthrough() {
  ::kill(pid_, SIGTERM);  // its signal handler unmounts
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// The kernel forgets the file's clean pages, so that the next read comes from below.
void drop_pages(const std::string& file) {
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd) ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
}

std::string find_passthrough(const BenchOptions& options) {
  if (!options.passthrough.empty()) return options.passthrough;
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const fs::path beside = self.parent_path() / "passthrough_ll";
  return fs::exists(beside, error) ? beside.string() : "";
}

Outcome<void> small_things(const BenchOptions& options, bool passthrough, const std::string& root,
                           std::vector<BenchLine>* lines) {
  if (passthrough) {
    return measure_small_things(options, {root + "/mnt", root + "/passthrough"}, lines);
  }
  std::fprintf(stderr,
               "mount: small things: skipped: libfuse's passthrough_ll was not found (say where it "
               "is with --passthrough)\n");
  return {};
}

}  // namespace

Outcome<void> mount_suite(const BenchOptions& options, std::vector<BenchLine>* lines) {
  if (!fio_present()) {
    std::fprintf(stderr, "mount: skipped: fio is not installed\n");
    return {};
  }
  auto scratch = Scratch::create(options.directory, options.file_bytes * 2 + kGiB);
  if (!scratch) return scratch.error();
  const std::string root = scratch->path();
  for (const char* name : {"/mnt", "/plain", "/passthrough"}) fs::create_directory(root + name);

  agent::AgentConfig config;
  config.directory = root + "/store";
  TRY_ASSIGN(const std::unique_ptr<agent::Agent> agent, agent::Agent::start(config));
  fuse::MountConfig mount_config;
  mount_config.mount_point = root + "/mnt";
  mount_config.source = config.directory;
  auto mount = fuse::Mount::start(agent->files(), agent.get(), mount_config);
  if (!mount) {
    std::fprintf(stderr, "mount: skipped: %s\n", mount.error().message.c_str());
    return {};
  }
  const std::string ours = root + "/mnt/data", plain = root + "/plain/data";
  TRY(make_plain_file(ours, options.file_bytes));
  TRY(make_plain_file(plain, options.file_bytes));
  const std::string program = find_passthrough(options);
  std::unique_ptr<Passthrough> passthrough;
  if (!program.empty()) {
    passthrough = Passthrough::start(program, root + "/plain", root + "/passthrough");
  }
  const std::string reference = passthrough ? root + "/passthrough/data" : plain;

  Workload workload;
  workload.random = false;
  workload.block_bytes = kMiB;
  workload.depth = 1;
  workload.file_bytes = options.file_bytes;
  workload.seconds = options.seconds;
  std::fprintf(stderr, "mount: %s ", workload.name().c_str());
  std::vector<double> values, references, ratios;
  for (uint32_t round = 0; round < options.rounds; ++round) {
    std::fprintf(stderr, ".");
    drop_pages(ours);
    TRY_ASSIGN(const Measurement a, run_fio(ours, workload, "psync", false));
    drop_pages(reference);
    drop_pages(plain);
    TRY_ASSIGN(const Measurement b, run_fio(reference, workload, "psync", false));
    values.push_back(a.bytes_per_second() / 1e6);
    references.push_back(b.bytes_per_second() / 1e6);
    ratios.push_back(a.bytes_per_second() / b.bytes_per_second());
  }
  BenchLine line;
  line.name = "mount.read.1m.sequential";
  line.title = "mount: 1.00 MiB sequential read, page cache cold";
  line.unit = "MB/s";
  line.value = median(values);
  line.reference = median(references);
  line.ratio = median(ratios);
  if (passthrough) line.budget = 0.9;
  line.note = passthrough
                  ? "mount: libfuse's passthrough_ll over a plain file on the same disk"
                  : "mount: a plain file on the same disk (libfuse's passthrough_ll was not "
                    "found, so there is no budget)";
  lines->push_back(line);
  std::fprintf(stderr, " %.2f\n", *line.ratio);
  TRY(small_things(options, passthrough != nullptr, root, lines));
  passthrough.reset();
  (*mount)->stop();
  agent->stop();
  return {};
}

}  // namespace penstock::bench
