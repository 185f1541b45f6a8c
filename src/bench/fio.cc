// The reference: fio on a plain file.

#include "programs.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <unistd.h>

#include "penstock/bench.h"
#include "penstock/engine.h"
#include "penstock/json.h"

namespace penstock::bench {
namespace {

// What describes one job, after its name.
std::vector<std::string> job_arguments(const Workload& workload) {
  std::vector<std::string> arguments = {
      std::string("--rw=") + (workload.random ? "rand" : "") + (workload.write ? "write" : "read"),
      "--bs=" + std::to_string(workload.block_bytes),
      "--iodepth=" + std::to_string(workload.depth),
      "--numjobs=" + std::to_string(workload.threads),
      "--size=" + std::to_string(workload.file_bytes),
      "--runtime=" + std::to_string(static_cast<int>(workload.seconds * 1000)) + "ms",
      "--time_based",
      "--randrepeat=0",
      "--norandommap",
  };
  if (workload.write) arguments.push_back("--sync=dsync");
  return arguments;
}

Measurement measurement_of(const Json& job, const Workload& workload) {
  const Json& side = job.at(workload.write ? "write" : "read");
  Measurement result;
  result.operations = side.value("total_ios", uint64_t{0});
  result.bytes = side.value("io_bytes", uint64_t{0});
  result.seconds = side.value("runtime", 0.0) / 1000.0;
  const double busy = result.seconds * workload.threads / 100.0;
  result.user_seconds = job.value("usr_cpu", 0.0) * busy;
  result.system_seconds = job.value("sys_cpu", 0.0) * busy;
  const Json percentiles =
      side.value("clat_ns", Json::object()).value("percentile", Json::object());
  result.latency_p50_ns = percentiles.value("50.000000", uint64_t{0});
  result.latency_p99_ns = percentiles.value("99.000000", uint64_t{0});
  result.latency_p999_ns = percentiles.value("99.900000", uint64_t{0});
  return result;
}

// One measurement for each of `jobs`.
Outcome<std::vector<Measurement>> run_jobs(const std::string& file, const std::string& engine,
                                           bool direct, const std::vector<Workload>& jobs) {
  std::vector<std::string> arguments = {
      "fio",
      "--filename=" + file,
      "--ioengine=" + engine,
      std::string("--direct=") + (direct ? "1" : "0"),
      "--thread",
      "--output-format=json",
      "--group_reporting",
  };
  for (size_t i = 0; i < jobs.size(); ++i) {
    arguments.push_back("--name=reference" + std::to_string(i));
    // Each is reported by itself.
    if (i > 0) arguments.emplace_back("--new_group");
    for (std::string& argument : job_arguments(jobs[i])) arguments.push_back(std::move(argument));
  }
  const Failure failed{Code::io_error, file +
                                           ": fio failed; run it by hand to see why: fio --name=x "
                                           "--filename=" +
                                           file +
                                           " --rw=randread --direct=1 "
                                           "--ioengine=" +
                                           engine};
  const auto text = output_of(arguments);
  if (!text) return failed;
  // Notes may stand before the document.
  const size_t start = text->find('{');
  const Json document =
      Json::parse(text->substr(start == std::string::npos ? 0 : start), nullptr, false);
  const auto done = document.is_object() ? document.value("jobs", Json::array()) : Json::array();
  if (!done.is_array() || done.size() != jobs.size()) return failed;
  std::vector<Measurement> results;
  for (size_t i = 0; i < jobs.size(); ++i) results.push_back(measurement_of(done[i], jobs[i]));
  if (results[0].operations == 0) return failed;
  return results;
}

}  // namespace

bool fio_present() {
  static const bool present = output_of({"fio", "--version"}).has_value();
  return present;
}

Outcome<Measurement> run_fio(const std::string& file, const Workload& workload,
                             const std::string& engine, bool direct) {
  TRY_ASSIGN(const std::vector<Measurement> results, run_jobs(file, engine, direct, {workload}));
  return results[0];
}

Outcome<Measurement> run_fio_beside(const std::string& file, const Workload& workload,
                                    const Workload& beside, Measurement* beside_result) {
  TRY_ASSIGN(const std::vector<Measurement> results,
             run_jobs(file, "io_uring", true, {workload, beside}));
  *beside_result = results[1];
  return results[0];
}

Outcome<void> make_plain_file(const std::string& file, uint64_t bytes) {
  const UniqueFd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  const auto failure = [&] {
    return Failure{Status::from_errno(errno), file + ": " + std::strerror(errno)};
  };
  if (!fd) return failure();
  std::vector<uint64_t> words(kMiB / sizeof(uint64_t));
  engine::SeededRandom random(9);
  for (uint64_t& word : words) word = random.next();
  for (uint64_t offset = 0; offset < bytes;) {
    const size_t length = std::min<uint64_t>(kMiB, bytes - offset);
    const ssize_t n = ::pwrite(fd.get(), words.data(), length, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failure();
    offset += static_cast<uint64_t>(n);
  }
  if (::fsync(fd.get()) != 0) return failure();
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  return {};
}

}  // namespace penstock::bench
