// Lists of small files, read into the memory of GPUs by penstock_read_files().
//
//   many_files STORE
//
// STORE is a node's that runs with a node cache of at least 512 MiB. Makes a few thousand files,
// reads them from the disk and out of the node cache, and compares every byte.
#include "penstock.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <vector>

namespace {

constexpr size_t kFiles = 4000;
constexpr size_t kListFiles = 1500;
constexpr uint64_t kLarge = 9 << 20;  // more than goes through the library's memory at once
constexpr uint64_t kGuard = 64;       // bytes behind each file, which nobody may touch
constexpr unsigned char kUntouched = 0xee;

int failed = 0;

bool check(bool good, const std::string& what) {
  std::printf("%s %s%s%s\n", good ? "PASS" : "FAIL", what.c_str(), good ? "" : ": ",
              good ? "" : penstock_last_error());
  std::fflush(stdout);
  failed += good ? 0 : 1;
  return good;
}

void must(bool good, const char* what) {
  if (good) return;
  check(false, what);
  std::exit(1);
}

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// From nothing to 200 KiB, small ones more often; the last one is large.
uint64_t size_of(size_t file) {
  if (file + 1 == kFiles) return kLarge;
  if (file % 50 == 0) return 0;
  const uint64_t magnitude = 512ULL << (mix(file) % 9);
  return std::min<uint64_t>(magnitude + mix(file + 7) % magnitude, 200 << 10);
}

// What file `file` holds when it was written for the `round`th time.
unsigned char byte_of(size_t file, unsigned round, uint64_t at) {
  const uint64_t word = mix((file * 131 + round) * 0x9e3779b97f4a7c15ULL + at / 8);
  return static_cast<unsigned char>(word >> (at % 8 * 8));
}

std::string path_of(size_t file) {
  return "/many-files/" + std::to_string(file % 16) + "/" + std::to_string(file);
}

class Test {
 public:
  explicit Test(const char* store) : rounds_(kFiles, 0) {
    must(penstock_connect(store, &session_) == 0, "connect");
    must(penstock_region_create(session_, 16 << 20, &source_) == 0, "memory to write from");
    must(penstock_mkdir(session_, "/many-files", 0755) == 0, "make a directory");
    for (int i = 0; i < 16; ++i) {
      const std::string path = "/many-files/" + std::to_string(i);
      must(penstock_mkdir(session_, path.c_str(), 0755) == 0, "make a directory");
    }
    for (size_t i = 0; i < kFiles; ++i) order_.push_back(i);
    make(order_);
  }
  ~Test() { penstock_close(session_); }

  // Everything into one GPU, in lists, at random.
  void into(int gpu) {
    const std::string where = "GPU " + std::to_string(gpu) + ": ";
    must(cudaSetDevice(gpu) == cudaSuccess, "the GPU");
    uint64_t bytes = 0;
    for (size_t i = 0; i < kFiles; ++i) bytes += size_of(i) + kGuard;
    penstock_region* region = nullptr;
    must(penstock_region_create_device(session_, gpu, bytes, &region) == 0, "GPU memory");
    for (const char* const pass : {"first", "second", "third", "fourth"}) {
      check(read_all(region, bytes), where + pass + " reading has every byte");
    }
    std::vector<size_t> some(order_.begin(), order_.begin() + 300);
    for (const size_t file : some) {
      must(penstock_unlink(session_, path_of(file).c_str()) == 0, "unlink");
      ++rounds_[file];
    }
    make(some);
    check(read_all(region, bytes), where + "files that were written anew are read anew");
    check(packed(region, bytes), where + "packed, every byte");
    check(mixed(region), where + "beside host memory, and what cannot be read");
    penstock_region_release(region);
  }

 private:
  void make(const std::vector<size_t>& files) {
    auto* const memory = static_cast<unsigned char*>(penstock_region_base(source_));
    for (size_t first = 0; first < files.size();) {
      std::vector<penstock_new_file> list;
      std::vector<std::string> names;
      names.reserve(512);
      uint64_t used = 0;
      for (; first < files.size() && list.size() < 512; ++first) {
        const size_t file = files[first];
        const uint64_t size = size_of(file);
        if (used + size > penstock_region_size(source_)) break;
        for (uint64_t at = 0; at < size; ++at) memory[used + at] = byte_of(file, rounds_[file], at);
        names.push_back(path_of(file));
        penstock_new_file one{};
        one.path = names.back().c_str();
        one.region = source_;
        one.region_offset = used;
        one.length = size;
        one.mode = 0644;
        one.uid = static_cast<uid_t>(-1);
        one.gid = static_cast<gid_t>(-1);
        one.times[0].tv_nsec = one.times[1].tv_nsec = UTIME_NOW;
        list.push_back(one);
        used += (size + 4095) / 4096 * 4096;
        if (used > penstock_region_size(source_)) used = penstock_region_size(source_);
      }
      const ssize_t made = penstock_create_files(session_, list.data(), list.size());
      must(made == static_cast<ssize_t>(list.size()), "make files");
    }
  }

  void shuffle() {
    for (size_t i = order_.size(); i > 1; --i) {
      std::swap(order_[i - 1], order_[mix(++shuffles_) % i]);
    }
  }

  bool holds(const unsigned char* bytes, size_t file, uint64_t length) const {
    for (uint64_t at = 0; at < length; ++at) {
      if (bytes[at] == byte_of(file, rounds_[file], at)) continue;
      std::printf("     file %zu differs from byte %llu on\n", file,
                  static_cast<unsigned long long>(at));
      return false;
    }
    return true;
  }

  static std::vector<unsigned char> copy_of(penstock_region* region) {
    std::vector<unsigned char> host(penstock_region_size(region));
    must(cudaMemcpy(host.data(), penstock_region_base(region), host.size(),
                    cudaMemcpyDeviceToHost) == cudaSuccess,
         "copy from the GPU");
    return host;
  }

  bool read_all(penstock_region* region, uint64_t bytes) {
    must(cudaMemset(penstock_region_base(region), kUntouched, bytes) == cudaSuccess, "memset");
    must(cudaDeviceSynchronize() == cudaSuccess, "memset");
    shuffle();
    std::vector<uint64_t> places(kFiles);
    uint64_t at = 0, spent = 0;
    for (size_t first = 0; first < kFiles; first += kListFiles) {
      const size_t count = std::min(kListFiles, kFiles - first);
      std::vector<penstock_file_read> list(count);
      std::vector<std::string> names(count);
      for (size_t i = 0; i < count; ++i) {
        const size_t file = order_[first + i];
        names[i] = path_of(file);
        list[i].path = names[i].c_str();
        list[i].region = region;
        list[i].region_offset = places[file] = at;
        list[i].length = size_of(file);
        at += size_of(file) + kGuard;
      }
      const uint64_t began = penstock_now();
      const ssize_t read = penstock_read_files(session_, list.data(), count);
      spent += penstock_now() - began;
      if (read != static_cast<ssize_t>(count)) return false;
      for (size_t i = 0; i < count; ++i) {
        const uint64_t size = size_of(order_[first + i]);
        if (list[i].result != static_cast<int64_t>(size) || list[i].size != size) return false;
      }
    }
    std::printf("     %.0f files/s, %.2f GB/s\n", static_cast<double>(kFiles) * 1e9 / spent,
                static_cast<double>(at) / spent);
    const std::vector<unsigned char> host = copy_of(region);
    for (size_t file = 0; file < kFiles; ++file) {
      const unsigned char* const from = host.data() + places[file];
      const uint64_t size = size_of(file);
      if (!holds(from, file, size)) return false;
      const bool kept = std::all_of(from + size, from + size + kGuard,
                                    [](unsigned char byte) { return byte == kUntouched; });
      if (!kept) {
        std::printf("     bytes behind file %zu were touched\n", file);
        return false;
      }
    }
    return true;
  }

  bool packed(penstock_region* region, uint64_t bytes) {
    constexpr size_t kCount = 700;
    constexpr uint64_t kAlignment = 256;
    std::vector<std::string> names(kCount);
    std::vector<penstock_file_read> list(kCount);
    for (size_t i = 0; i < kCount; ++i) {
      names[i] = i == 10 ? "/many-files/none" : path_of(order_[i]);
      list[i].path = names[i].c_str();
    }
    const ssize_t read =
        penstock_read_files_packed(session_, list.data(), kCount, region, 0, bytes, kAlignment);
    if (read != kCount - 1 || list[10].result != -ENOENT) return false;
    const std::vector<unsigned char> host = copy_of(region);
    for (size_t i = 0; i < kCount; ++i) {
      if (i == 10) continue;
      if (list[i].region_offset % kAlignment != 0) return false;
      if (!holds(host.data() + list[i].region_offset, order_[i], size_of(order_[i]))) return false;
    }
    return true;
  }

  // One list that goes everywhere, with rooms that are too small, and with what is missing.
  bool mixed(penstock_region* region) {
    constexpr uint64_t kRoom = 20'000;
    constexpr size_t kCount = 300;
    std::vector<unsigned char> plain(kCount * kRoom, kUntouched);
    std::vector<std::string> names(kCount);
    std::vector<penstock_file_read> list(kCount);
    for (size_t i = 0; i < kCount; ++i) {
      names[i] = i % 30 == 29 ? "/many-files" : path_of(order_[i]);
      list[i].path = names[i].c_str();
      list[i].length = kRoom;
      if (i % 3 == 0) {
        list[i].buffer = plain.data() + i * kRoom;
      } else {
        list[i].region = i % 3 == 1 ? region : source_;
        list[i].region_offset = i * kRoom;
      }
    }
    list[1].region_offset = penstock_region_size(region) - kRoom + 1;  // leaves it
    if (penstock_read_files(session_, list.data(), kCount) != kCount - 11) return false;
    const std::vector<unsigned char> host = copy_of(region);
    const auto* const from_region = static_cast<unsigned char*>(penstock_region_base(source_));
    for (size_t i = 0; i < kCount; ++i) {
      if (i == 1 || i % 30 == 29) {
        if (list[i].result != (i == 1 ? -EINVAL : -EISDIR)) return false;
        continue;
      }
      const unsigned char* const all = i % 3 == 0   ? plain.data()
                                       : i % 3 == 1 ? host.data()
                                                    : from_region;
      const uint64_t length = std::min(kRoom, size_of(order_[i]));
      if (list[i].result != static_cast<int64_t>(length)) return false;
      if (!holds(all + i * kRoom, order_[i], length)) return false;
    }
    return true;
  }

  penstock_session* session_ = nullptr;
  penstock_region* source_ = nullptr;
  std::vector<unsigned> rounds_;
  std::vector<size_t> order_;
  uint64_t shuffles_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s STORE\n", argv[0]);
    return 2;
  }
  const int gpus = penstock_gpu_count();
  if (gpus <= 0) {
    std::printf("SKIP no GPU: %s\n", penstock_last_error());
    return 77;
  }
  Test test(argv[1]);
  for (int gpu = 0; gpu < gpus; ++gpu) test.into(gpu);
  return failed == 0 ? 0 : 1;
}
