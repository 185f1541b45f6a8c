// Random reads through USRBIO beside fio with io_uring and direct I/O on a plain file of the same
// disk, interleaved: `usrbio_bench MOUNT PLAIN_DIRECTORY [options]`, both on one disk. Prints one
// line for each round and the ratio of the medians.
#include "hf3fs_usrbio.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "penstock/base.h"

namespace {

using penstock::Histogram;
using penstock::kMiB;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string mount;
  std::string plain;
  size_t block = 4096;
  int depth = 64;
  size_t file_bytes = 1024 * kMiB;
  int seconds = 3;
  int rounds = 5;
};

struct Figure {
  double operations_per_second = 0;
  double median_us = 0;
  double tail_us = 0;  // 99 %
};

[[noreturn]] void fail(const std::string& what, int error) {
  std::fprintf(stderr, "usrbio_bench: %s: %s\n", what.c_str(), std::strerror(std::abs(error)));
  std::exit(1);
}

// A file of that many incompressible bytes, on stable storage.
std::string make_file(const std::string& directory, size_t bytes) {
  const std::string path = directory + "/usrbio-bench.data";
  const penstock::UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) fail(path, errno);
  std::vector<uint64_t> piece(kMiB / 8);
  uint64_t counter = 0;
  for (size_t done = 0; done < bytes; done += kMiB) {
    for (uint64_t& word : piece) word = penstock::mix64(++counter);
    if (::write(fd.get(), piece.data(), kMiB) != static_cast<ssize_t>(kMiB)) fail(path, errno);
  }
  if (::fsync(fd.get()) != 0) fail(path, errno);
  return path;
}

class UsrbioReader {
 public:
  UsrbioReader(const Options& options, const std::string& path) : options_(options) {
    fd_ = penstock::UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const auto depth = static_cast<size_t>(options.depth);
    const char* mount = options.mount.c_str();
    int error = hf3fs_reg_fd(fd_.get(), 0);
    if (error > 0) fail(path, error);
    error = hf3fs_iovcreate(&iov_, mount, depth * options.block, options.block, -1);
    if (error < 0) fail("hf3fs_iovcreate", error);
    error = hf3fs_iorcreate4(&ior_, mount, options.depth, true, 0, 0, -1, 0);
    if (error < 0) fail("hf3fs_iorcreate4", error);
    begun_.resize(depth);
    cqes_.resize(depth);
  }
  ~UsrbioReader() {
    hf3fs_iordestroy(&ior_);
    hf3fs_iovdestroy(&iov_);
    hf3fs_dereg_fd(fd_.get());
  }

  Figure run() {
    Histogram latency;
    const auto begin = Clock::now();
    const auto end = begin + std::chrono::seconds(options_.seconds);
    for (size_t slot = 0; slot < begun_.size(); ++slot) prepare(slot);
    hf3fs_submit_ios(&ior_);
    uint64_t in_flight = begun_.size();
    auto now = begin;
    while (in_flight > 0) {
      const int n = hf3fs_wait_for_ios(&ior_, cqes_.data(), options_.depth, 1, nullptr);
      if (n < 0) fail("hf3fs_wait_for_ios", n);
      now = Clock::now();
      for (int i = 0; i < n; ++i) {
        const hf3fs_cqe& cqe = cqes_[static_cast<size_t>(i)];
        if (cqe.result < 0) fail("read", static_cast<int>(cqe.result));
        const size_t slot = reinterpret_cast<uintptr_t>(cqe.userdata);
        latency.record(static_cast<uint64_t>((now - begun_[slot]).count()));
        if (now < end) {
          prepare(slot);
        } else {
          --in_flight;
        }
      }
      hf3fs_submit_ios(&ior_);
    }
    const double seconds = std::chrono::duration<double>(now - begin).count();
    return {static_cast<double>(latency.count()) / seconds,
            static_cast<double>(latency.percentile(0.5)) / 1000,
            static_cast<double>(latency.percentile(0.99)) / 1000};
  }

 private:
  void prepare(size_t slot) {
    const size_t blocks = options_.file_bytes / options_.block;
    const size_t block = penstock::mix64(++counter_) % blocks;
    begun_[slot] = Clock::now();
    const int index =
        hf3fs_prep_io(&ior_, &iov_, true, iov_.base + slot * options_.block, fd_.get(),
                      block * options_.block, options_.block, reinterpret_cast<void*>(slot));
    if (index < 0) fail("hf3fs_prep_io", index);
  }

  const Options& options_;
  penstock::UniqueFd fd_;
  hf3fs_iov iov_{};
  hf3fs_ior ior_{};
  std::vector<Clock::time_point> begun_;
  std::vector<hf3fs_cqe> cqes_;
  uint64_t counter_ = 0;
};

// fio's terse format, version 3: field 8 is read IOPS; percentiles look like "50.000000%=123" (us).
Figure run_fio(const Options& options, const std::string& path) {
  const std::string command = fmt::format(
      "fio --name=reference --filename={} --rw=randread --ioengine=io_uring --direct=1 --bs={} "
      "--iodepth={} --runtime={} --time_based --size={} --norandommap --randrepeat=0 "
      "--output-format=terse --terse-version=3",
      path, options.block, options.depth, options.seconds, options.file_bytes);
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) fail("fio", errno);
  std::string text;
  char buffer[4096];
  while (const size_t n = std::fread(buffer, 1, sizeof(buffer), pipe)) text.append(buffer, n);
  if (::pclose(pipe) != 0) fail("fio", EIO);
  std::vector<std::string> fields(1);
  for (const char c : text) {
    if (c == ';') {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  if (fields.size() < 40) fail("fio's output", EPROTO);
  const auto percentile = [&](const std::string& name) {
    for (const std::string& field : fields) {
      if (field.starts_with(name)) return std::atof(field.c_str() + field.find('=') + 1);
    }
    return 0.0;
  };
  return {std::atof(fields[7].c_str()), percentile("50.0"), percentile("99.0")};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

bool parse(int argc, char** argv, Options& options) {
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] { return i + 1 < argc ? std::atoll(argv[++i]) : 0; };
    if (word == "--block") {
      options.block = static_cast<size_t>(value());
    } else if (word == "--depth") {
      options.depth = static_cast<int>(value());
    } else if (word == "--mib") {
      options.file_bytes = static_cast<size_t>(value()) * kMiB;
    } else if (word == "--seconds") {
      options.seconds = static_cast<int>(value());
    } else if (word == "--rounds") {
      options.rounds = static_cast<int>(value());
    } else {
      paths.push_back(word);
    }
  }
  if (paths.size() != 2 || options.block == 0 || options.depth <= 0 || options.rounds <= 0 ||
      options.seconds <= 0 || options.file_bytes < options.block) {
    return false;
  }
  options.mount = paths[0];
  options.plain = paths[1];
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: usrbio_bench MOUNT PLAIN_DIRECTORY [--block BYTES] [--depth N] [--mib N] "
                 "[--seconds N] [--rounds N]\n");
    return 2;
  }
  const std::string ours = make_file(options.mount, options.file_bytes);
  const std::string plain = make_file(options.plain, options.file_bytes);
  std::vector<double> usrbio_rates;
  std::vector<double> fio_rates;
  {
    UsrbioReader reader(options, ours);
    for (int round = 0; round < options.rounds; ++round) {
      const Figure fio = run_fio(options, plain);
      const Figure usrbio = reader.run();
      fio_rates.push_back(fio.operations_per_second);
      usrbio_rates.push_back(usrbio.operations_per_second);
      fmt::print("fio {:9.0f}/s {:7.1f} us ({:.1f})   usrbio {:9.0f}/s {:7.1f} us ({:.1f})\n",
                 fio.operations_per_second, fio.median_us, fio.tail_us,
                 usrbio.operations_per_second, usrbio.median_us, usrbio.tail_us);
    }
  }
  fmt::print("{} bytes, depth {}: {:.3f} of fio (medians of {} rounds)\n", options.block,
             options.depth, median(usrbio_rates) / median(fio_rates), options.rounds);
  ::unlink(ours.c_str());
  ::unlink(plain.c_str());
  return 0;
}
