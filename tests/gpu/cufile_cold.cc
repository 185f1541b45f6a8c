// Random reads of a file in the page cache that the library has not read before, none of them
// twice: what a program sees whose data are far more than can be pinned. One cell a run, so that
// either library begins without having seen the file:
//
//   cufile_cold make FILE MIB              a file whose blocks tell their place
//   cufile_cold FILE SIZE THREADS SECONDS  reads until all of it was read, or for so long
#include "check.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace {

constexpr size_t kBlock = 4096;

uint64_t word_of(uint64_t block) {
  return (block + 1) * 0x9e3779b97f4a7c15ULL;
}

int make(const char* path, size_t bytes) {
  const int fd = ::open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
  std::vector<uint64_t> words((16 << 20) / 8);
  for (size_t at = 0; at < bytes; at += words.size() * 8) {
    for (size_t i = 0; i < words.size(); i += kBlock / 8) words[i] = word_of((at + i * 8) / kBlock);
    if (::pwrite(fd, words.data(), words.size() * 8, static_cast<off_t>(at)) < 0) {
      std::perror(path);
      return 1;
    }
  }
  ::fsync(fd);
  ::close(fd);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "make") {
    return make(argv[2], static_cast<size_t>(std::atol(argv[3])) << 20);
  }
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s make FILE MIB | FILE SIZE THREADS SECONDS\n", argv[0]);
    return 2;
  }
  const auto size = static_cast<size_t>(std::atol(argv[2]));
  const auto count = static_cast<unsigned>(std::atol(argv[3]));
  const double seconds = std::atof(argv[4]);
  open_driver();
  const int fd = ::open(argv[1], O_RDONLY);
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return 1;
  CUfileHandle_t file = register_file(fd);
  // A power of two of pieces, each of which is read once, in an order that looks like none.
  uint64_t pieces = 1;
  while (2 * pieces * size <= static_cast<uint64_t>(facts.st_size)) pieces *= 2;
  std::atomic<unsigned> ready{0};
  std::atomic<bool> go{false};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> reads{0};
  std::atomic<uint64_t> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      unsigned char* const gpu = device_memory(size);
      cuFileBufRegister(gpu, size, 0);
      ++ready;
      while (!go) std::this_thread::yield();
      uint64_t done = 0;
      uint64_t last = 0;
      for (uint64_t i = t; i < pieces && !stop; i += count) {
        last = (i * 0x9e3779b97f4a7c15ULL + 12345) % pieces;
        const ssize_t got = cuFileRead(file, gpu, size, static_cast<off_t>(last * size), 0);
        if (got != static_cast<ssize_t>(size)) ++wrong;
        ++done;
      }
      reads += done;
      uint64_t word = 0;
      CUDA(cudaMemcpy(&word, gpu, sizeof word, cudaMemcpyDeviceToHost));
      if (done > 0 && word != word_of(last * size / kBlock)) ++wrong;
      --ready;
      cuFileBufDeregister(gpu);
      cudaFree(gpu);
    });
  }
  while (ready < count) std::this_thread::yield();
  const auto began = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  go = true;
  while (ready > 0 && elapsed() < seconds)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const double took = elapsed();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  std::printf("%10zu %4u threads %12.0f reads/s %8.2f GB/s  %5.1f%% of the file%s\n", size, count,
              static_cast<double>(reads) / took, static_cast<double>(reads * size) / took * 1e-9,
              100.0 * static_cast<double>(reads) / static_cast<double>(pieces),
              wrong > 0 ? "  FAILED" : "");
  cuFileHandleDeregister(file);
  cuFileDriverClose();
  ::close(fd);
  return wrong == 0 ? 0 : 1;
}
