// Random reads of a file that is in the page cache, by threads that each wait for their own: one
// line for each size and number of threads. The same program runs with either library, so that
// their runs can be interleaved.
//
//   cufile_throughput [DIRECTORY [FILE_MIB [SECONDS [LARGEST_SIZE]]]]
#include "check.h"

#include <atomic>
#include <chrono>
#include <sys/resource.h>
#include <thread>

namespace {

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string directory = directory_of(argc, argv);
  const size_t file_bytes = static_cast<size_t>(argc > 2 ? std::atol(argv[2]) : 4096) << 20;
  const double seconds = argc > 3 ? std::atof(argv[3]) : 2;
  const size_t largest = argc > 4 ? static_cast<size_t>(std::atol(argv[4])) : 16 << 20;
  open_driver();
  const File disk(directory, "throughput", file_bytes);
  CUfileHandle_t file = register_file(disk.fd());
  Bytes buffer(16 << 20);
  for (size_t at = 0; at < file_bytes; at += buffer.size()) {
    if (::pread(disk.fd(), buffer.data(), buffer.size(), static_cast<off_t>(at)) <= 0) break;
  }
  // As old as files in use are.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  std::printf("%10s %8s %12s %10s %12s\n", "bytes", "threads", "reads/s", "GB/s", "CPU-s/GB");
  for (size_t size = 4096; size <= largest; size *= 4) {
    for (const unsigned count : {1U, 4U, 16U}) {
      std::atomic<uint64_t> reads{0};
      std::atomic<bool> failed{false};
      std::atomic<bool> counting{false};
      std::atomic<bool> stop{false};
      std::vector<std::thread> threads;
      for (unsigned t = 0; t < count; ++t) {
        threads.emplace_back([&, t] {
          unsigned char* const gpu = device_memory(size);
          cuFileBufRegister(gpu, size, 0);
          uint64_t state = t * 7919 + size;
          while (!stop) {
            state = state * 6364136223846793005ULL + 1442695040888963407ULL;
            const auto offset = static_cast<off_t>((state >> 20) % (file_bytes / size) * size);
            const ssize_t got = cuFileRead(file, gpu, size, offset, 0);
            if (got != static_cast<ssize_t>(size)) failed = true;
            if (counting) ++reads;
          }
          cuFileBufDeregister(gpu);
          cudaFree(gpu);
        });
      }
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds / 2));
      counting = true;
      const double cpu = cpu_seconds();
      const auto began = std::chrono::steady_clock::now();
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      counting = false;
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
      const double used = cpu_seconds() - cpu;
      stop = true;
      for (std::thread& thread : threads) thread.join();
      const double gigabytes = static_cast<double>(reads * size) * 1e-9;
      std::printf("%10zu %8u %12.0f %10.2f %12.3f%s\n", size, count,
                  static_cast<double>(reads) / took.count(), gigabytes / took.count(),
                  gigabytes > 0 ? used / gigabytes : 0.0, failed ? "  FAILED" : "");
      std::fflush(stdout);
      if (failed) ++failures;
    }
  }
  cuFileHandleDeregister(file);
  cuFileDriverClose();
  return failures == 0 ? 0 : 1;
}
