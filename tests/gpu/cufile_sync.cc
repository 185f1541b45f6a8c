// Reads and writes that return when they have ended.
#include "check.h"

#include <thread>

namespace {

constexpr size_t kFile = (8 << 20) + 777;
constexpr size_t kMemory = 16 << 20;

void odd_offsets(CUfileHandle_t file, const File& disk, unsigned char* gpu, const char* kind) {
  bool reads = true;
  for (const off_t offset : {0L, 1L, 511L, 4095L, 4096L, 4097L, 100'003L, 1L << 20}) {
    for (const size_t length : {size_t{1}, size_t{511}, size_t{4096}, size_t{4097}, size_t{70'001},
                                size_t{1} << 20, (size_t{4} << 20) + 3}) {
      const off_t at = offset % 5 * 1000;
      const ssize_t got = cuFileRead(file, gpu, length, offset, at);
      reads = reads && got == static_cast<ssize_t>(length) &&
              device_bytes(gpu + at, length) == pattern(static_cast<uint64_t>(offset), length);
    }
  }
  check(reads, (std::string("reads at odd offsets, ") + kind).c_str());
  bool writes = true;
  uint64_t round = 1;
  for (const off_t offset : {0L, 3L, 4096L, 100'003L}) {
    for (const size_t length : {size_t{1}, size_t{4096}, size_t{70'001}, size_t{1} << 20}) {
      const Bytes bytes = pattern(0, length, ++round);
      fill_device(gpu + 7, bytes);
      const ssize_t put = cuFileWrite(file, gpu, length, offset, 7);
      writes = writes && put == static_cast<ssize_t>(length) && disk.bytes(offset, length) == bytes;
    }
  }
  check(writes, (std::string("writes at odd offsets, ") + kind).c_str());
  const Bytes before = pattern(0, 4 << 20);
  CHECK(::pwrite(disk.fd(), before.data(), before.size(), 0) ==
        static_cast<ssize_t>(before.size()));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string directory = directory_of(argc, argv);
  open_driver();
  const File disk(directory, "sync", kFile);
  CUfileHandle_t file = register_file(disk.fd());
  unsigned char* gpu = device_memory(kMemory);

  odd_offsets(file, disk, gpu, "memory that is not registered");
  SUCCEEDS(cuFileBufRegister(gpu, kMemory, 0));
  odd_offsets(file, disk, gpu, "registered memory");
  SUCCEEDS(cuFileBufDeregister(gpu));

  RETURNS(cuFileRead(file, gpu, 8192, kFile - 100, 0), 100);
  RETURNS(cuFileRead(file, gpu, 8192, kFile, 0), 0);
  RETURNS(cuFileRead(file, gpu, 8192, 1LL << 40, 0), 0);
  RETURNS(cuFileRead(file, gpu, 0, 0, 0), 0);

  Bytes pageable(100'000);
  RETURNS(cuFileRead(file, pageable.data(), 50'001, 77, 3), 50'001);
  CHECK(Bytes(pageable.begin() + 3, pageable.begin() + 50'004) == pattern(77, 50'001));
  void* pinned = nullptr;
  void* managed = nullptr;
  CUDA(cudaMallocHost(&pinned, 100'000));
  CUDA(cudaMallocManaged(&managed, 100'000));
  for (void* const memory : {pinned, managed}) {
    std::memset(memory, 0, 100'000);
    RETURNS(cuFileRead(file, memory, 65'536, 4096, 0), 65'536);
    CUDA(cudaDeviceSynchronize());
    const auto* const bytes = static_cast<unsigned char*>(memory);
    CHECK(Bytes(bytes, bytes + 65'536) == pattern(4096, 65'536));
  }

  // A file that the page cache holds is read again and again, and changes in between.
  bool current = true;
  for (uint64_t round = 0; round < 20; ++round) {
    for (int i = 0; i < 20; ++i) cuFileRead(file, gpu, 1 << 20, 0, 0);
    ::usleep(60'000);
    cuFileRead(file, gpu, 1 << 20, 0, 0);
    cuFileRead(file, gpu, 1 << 20, 0, 0);
    const Bytes bytes = pattern(0, 1 << 20, round);
    if (round % 2 == 0) current = current && ::ftruncate(disk.fd(), 0) == 0;
    current = current && ::pwrite(disk.fd(), bytes.data(), bytes.size(), 0) == 1 << 20;
    current = current && cuFileRead(file, gpu, 1 << 20, 0, 0) == 1 << 20 &&
              device_bytes(gpu, 1 << 20) == bytes;
  }
  check(current, "a read after a write returned has its bytes");

  const File other(directory, "threads", kFile);
  CUfileHandle_t shared = register_file(other.fd());
  std::vector<std::thread> threads;
  std::vector<int> good(8);
  for (size_t t = 0; t < good.size(); ++t) {
    threads.emplace_back([&, t] {
      unsigned char* const mine = gpu + t * (2 << 20);
      for (int i = 0; i < 50; ++i) {
        const auto offset =
            static_cast<off_t>((t * 50 + static_cast<size_t>(i)) * 12'345 % (6 << 20));
        const size_t length = 1 + static_cast<size_t>(i) * 37'123 % (1 << 20);
        good[t] += cuFileRead(shared, mine, length, offset, 0) == static_cast<ssize_t>(length) &&
                   device_bytes(mine, length) == pattern(static_cast<uint64_t>(offset), length);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  bool all = true;
  for (const int count : good) all = all && count == 50;
  check(all, "threads do not mix their bytes");

  cuFileHandleDeregister(shared);
  cuFileHandleDeregister(file);
  SUCCEEDS(cuFileDriverClose());
  return finish();
}
