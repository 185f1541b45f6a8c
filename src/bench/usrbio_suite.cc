#include "usrbio_suite.h"

#include "hf3fs_usrbio.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <unistd.h>

#include "penstock/agent.h"
#include "penstock/bench.h"
#include "penstock/engine.h"
#include "penstock/fuse.h"

namespace penstock::bench {
namespace {

namespace fs = std::filesystem;

// Pairs of an iov and a ring that are there at once: costs must not grow with them.
constexpr uint32_t kPairs = 2000;
constexpr uint32_t kDescriptorRounds = 2000;
constexpr int kEntries = 64;

double milliseconds_of(const std::function<void()>& work) {
  const engine::Time begin = engine::system_clock().now();
  work();
  return std::chrono::duration<double, std::milli>(engine::system_clock().now() - begin).count();
}

Failure failed(const char* what, int error) {
  return {Status::from_errno(error), fmt::format("usrbio: {}: {}", what, std::strerror(error))};
}

BenchLine line_of(const char* name, const char* title, double value,
                  std::optional<double> budget = {}) {
  BenchLine line;
  line.name = name;
  line.title = title;
  line.value = value;
  line.unit = "ms";
  line.budget = budget;
  return line;
}

struct Pair {
  hf3fs_iov iov{};
  hf3fs_ior ior{};
};

Outcome<void> measure_pairs(const std::string& mount, std::vector<BenchLine>* lines) {
  std::vector<Pair> pairs(kPairs);
  std::vector<double> made, ended;
  int error = 0;
  for (Pair& pair : pairs) {
    made.push_back(milliseconds_of([&] {
      error = hf3fs_iovcreate(&pair.iov, mount.c_str(), 64 * kKiB, 0, -1);
      if (error == 0) {
        error = hf3fs_iorcreate4(&pair.ior, mount.c_str(), kEntries, true, 0, 0, -1, 0);
      }
    }));
    if (error != 0) break;
  }
  for (Pair& pair : pairs) {
    if (pair.iov.iovh == nullptr) continue;
    ended.push_back(milliseconds_of([&] {
      hf3fs_iordestroy(&pair.ior);
      hf3fs_iovdestroy(&pair.iov);
    }));
  }
  if (error != 0) return failed("many iovs and rings", -error);
  const std::vector<double> last(made.end() - kPairs / 10, made.end());
  lines->push_back(line_of("usrbio.iov_ring.create", "usrbio: an iov of 64 KiB with a ring, made",
                           median(made), 0.3));
  lines->push_back(line_of("usrbio.iov_ring.create.last",
                           "usrbio: the same, beside 1,800 others of the process", median(last),
                           0.3));
  lines->push_back(line_of("usrbio.iov_ring.destroy", "usrbio: the same, given up", median(ended)));
  return {};
}

Outcome<void> measure_large(const std::string& mount, uint32_t rounds,
                            std::vector<BenchLine>* lines) {
  std::vector<double> made, ended;
  for (uint32_t round = 0; round < rounds; ++round) {
    hf3fs_iov iov{};
    int error = 0;
    made.push_back(
        milliseconds_of([&] { error = hf3fs_iovcreate(&iov, mount.c_str(), kGiB, 0, -1); }));
    if (error != 0) return failed("an iov of 1 GiB", -error);
    ended.push_back(milliseconds_of([&] { hf3fs_iovdestroy(&iov); }));
  }
  lines->push_back(
      line_of("usrbio.iov1g.create", "usrbio: an iov of 1 GiB, made", median(made), 300));
  lines->push_back(line_of("usrbio.iov1g.destroy", "usrbio: the same, given up", median(ended)));
  return {};
}

Outcome<void> measure_descriptors(const std::string& path, std::vector<BenchLine>* lines) {
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file) return failed("a file", errno);
  std::vector<double> both;
  for (uint32_t round = 0; round < kDescriptorRounds; ++round) {
    int result = 0;
    both.push_back(milliseconds_of([&] {
      result = hf3fs_reg_fd(file.get(), 0);
      if (result <= 0) hf3fs_dereg_fd(file.get());
    }));
    if (result > 0) return failed("a descriptor", result);
  }
  lines->push_back(line_of("usrbio.fd.register_deregister",
                           "usrbio: a descriptor registered and deregistered", median(both), 0.1));
  return {};
}

}  // namespace

Outcome<void> usrbio_suite(const BenchOptions& options, std::vector<BenchLine>* lines) {
  auto scratch = Scratch::create(options.directory, 2 * kGiB);
  if (!scratch) return scratch.error();
  const std::string root = scratch->path();
  fs::create_directory(root + "/mnt");
  agent::AgentConfig config;
  config.directory = root + "/store";
  TRY_ASSIGN(const std::unique_ptr<agent::Agent> agent, agent::Agent::start(config));
  fuse::MountConfig mount_config;
  mount_config.mount_point = root + "/mnt";
  mount_config.source = config.directory;
  auto mount = fuse::Mount::start(agent->files(), agent.get(), mount_config);
  if (!mount) {
    std::fprintf(stderr, "usrbio: skipped: %s\n", mount.error().message.c_str());
    return {};
  }
  std::fprintf(stderr, "usrbio: memory, rings and descriptors\n");
  // The first call of a process connects it.
  hf3fs_iov first{};
  const int error = hf3fs_iovcreate(&first, mount_config.mount_point.c_str(), 4 * kKiB, 0, -1);
  if (error != 0) return failed("an iov", -error);
  Outcome<void> result = measure_pairs(mount_config.mount_point, lines);
  if (result) result = measure_large(mount_config.mount_point, options.rounds, lines);
  if (result) result = measure_descriptors(mount_config.mount_point + "/file", lines);
  hf3fs_iovdestroy(&first);
  (*mount)->stop();
  agent->stop();
  return result;
}

}  // namespace penstock::bench
