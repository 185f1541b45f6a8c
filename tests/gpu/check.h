// What the programs here share: checks, files and device memory. Nothing of Penstock's.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cufile.h>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

inline int failures = 0;

inline void check(bool good, const char* what, long long got = 0) {
  if (good) {
    std::printf("PASS %s\n", what);
  } else {
    std::printf("FAIL %s (%lld, errno %d)\n", what, got, errno);
    ++failures;
  }
}

#define CHECK(condition) check((condition), #condition)
// A control call that must succeed.
#define SUCCEEDS(call)                                         \
  do {                                                         \
    const CUfileError_t status_ = (call);                      \
    check(status_.err == CU_FILE_SUCCESS, #call, status_.err); \
  } while (0)
// A data call and what it must return.
#define RETURNS(call, wanted)                                                  \
  do {                                                                         \
    const long long got_ = (call);                                             \
    check(got_ == static_cast<long long>(wanted), #call " == " #wanted, got_); \
  } while (0)
#define CUDA(call)                                                     \
  do {                                                                 \
    const cudaError_t error_ = (call);                                 \
    if (error_ != cudaSuccess) {                                       \
      std::printf("FAIL %s: %s\n", #call, cudaGetErrorString(error_)); \
      std::exit(1);                                                    \
    }                                                                  \
  } while (0)

using Bytes = std::vector<unsigned char>;

inline Bytes pattern(uint64_t offset, size_t length, uint64_t round = 0) {
  Bytes bytes(length);
  for (size_t i = 0; i < length; ++i) {
    uint64_t x = (offset + i + round * 1'000'003) * 0x9e3779b97f4a7c15ULL;
    x ^= x >> 29;
    bytes[i] = static_cast<unsigned char>((x * 0xbf58476d1ce4e5b9ULL) >> 56);
  }
  return bytes;
}

// A file with pattern() in it.
class File {
 public:
  File(const std::string& directory, const char* name, size_t bytes, int flags = O_RDWR)
      : path_(directory + "/penstock-gpu-" + std::to_string(::getpid()) + "-" + name) {
    const int fd = ::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644);
    const Bytes all = pattern(0, bytes);
    for (size_t done = 0; done < bytes;) {
      const ssize_t n = ::write(fd, all.data() + done, bytes - done);
      if (n <= 0) {
        std::perror(path_.c_str());
        std::exit(1);
      }
      done += static_cast<size_t>(n);
    }
    ::fsync(fd);
    ::close(fd);
    fd_ = ::open(path_.c_str(), flags);
  }
  ~File() {
    ::close(fd_);
    ::unlink(path_.c_str());
  }
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  // As POSIX sees it.
  Bytes bytes(off_t offset, size_t length) const {
    const int fd = ::open(path_.c_str(), O_RDONLY);
    Bytes out(length);
    const ssize_t got = ::pread(fd, out.data(), length, offset);
    ::close(fd);
    out.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return out;
  }

 private:
  std::string path_;
  int fd_ = -1;
};

inline CUfileHandle_t register_file(int fd) {
  CUfileDescr_t description{};
  description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = fd;
  CUfileHandle_t handle = nullptr;
  const CUfileError_t status = cuFileHandleRegister(&handle, &description);
  check(status.err == CU_FILE_SUCCESS, "cuFileHandleRegister", status.err);
  return handle;
}

inline unsigned char* device_memory(size_t bytes) {
  void* memory = nullptr;
  CUDA(cudaMalloc(&memory, bytes));
  CUDA(cudaMemset(memory, 0xee, bytes));
  return static_cast<unsigned char*>(memory);
}

inline Bytes device_bytes(const unsigned char* from, size_t length) {
  Bytes bytes(length);
  CUDA(cudaMemcpy(bytes.data(), from, length, cudaMemcpyDeviceToHost));
  return bytes;
}

inline void fill_device(unsigned char* to, const Bytes& bytes) {
  CUDA(cudaMemcpy(to, bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
}

inline std::string directory_of(int argc, char** argv) {
  return argc > 1 ? argv[1] : "/var/tmp";
}

// Opens the driver, or says why not and ends with 77: there is nothing to test.
inline void open_driver() {
  const cudaError_t begun = cudaFree(nullptr);
  if (begun != cudaSuccess) {
    std::printf("SKIP CUDA: %s\n", cudaGetErrorString(begun));
    std::exit(77);
  }
  const CUfileError_t opened = cuFileDriverOpen();
  if (opened.err == CU_FILE_SUCCESS) return;
  std::printf("SKIP cuFileDriverOpen: %s\n", cufileop_status_error(opened.err));
  std::exit(77);
}

inline int finish() {
  std::printf("%s: %d failed\n", failures == 0 ? "PASS" : "FAIL", failures);
  return failures == 0 ? 0 : 1;
}
