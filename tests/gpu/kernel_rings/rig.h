// What the programs here stand on: an agent in a process of its own, a session, and files whose
// bytes tell their place. Only penstock.h: this is included by code that nvcc compiles.
#pragma once

#include "penstock.h"
#include "penstock_device_ring.h"

#include <cstdint>
#include <string>

// Word `i` (of 8 bytes) of a file that was written in `round`.
#if defined(__CUDACC__)
__host__ __device__
#endif
    inline uint64_t
    word_of(uint64_t i, uint64_t round = 0) {
  uint64_t x = (i + round * 77'777'777) * 0x9e3779b97f4a7c15ULL;
  x ^= x >> 29;
  return x * 0xbf58476d1ce4e5b9ULL;
}

// Ends the program with a sentence.
[[noreturn]] void stop(const std::string& why);
// A call of penstock.h that must succeed; returns what it returned.
int must(int result, const char* what);

double seconds_now();

class Rig {
 public:
  // When the program was started as an agent: serves, and never returns.
  static void serve_if_asked(int count, char** arguments);

  // `directory` is made, and removed at the end. Before any use of CUDA, as this forks.
  Rig(const std::string& directory, uint64_t cache_bytes);
  // At a node that runs already, and goes on.
  explicit Rig(const std::string& store);
  ~Rig();

  void start_agent();
  void kill_agent();

  // A file of `bytes`, open for reading and writing.
  penstock_file make_file(const char* path, uint64_t bytes);
  // Writes [offset, offset + bytes), whole words, as of `round`.
  void write(penstock_file file, uint64_t offset, uint64_t bytes, uint64_t round);
  // Bytes of the file that are in the node cache afterwards.
  uint64_t warm(penstock_file file, uint64_t bytes);
  int64_t run(const penstock_io& io);

  penstock_session* session = nullptr;

 private:
  void connect(const std::string& store);

  std::string directory_;  // of its own agent; empty: there is none
  std::string cache_bytes_;
  int pid_ = 0;
  int input_ = -1;
  penstock_region* staging_ = nullptr;
  penstock_ring* ring_ = nullptr;
};
