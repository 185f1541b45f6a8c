// What goes wrong with GPU memory, one step a run; bad_input.sh starts the node and runs them all.
//
//   bad_input STORE gpu|host STEP
//
// With `host` the same is done to host memory, as far as it means anything there.
#include "penstock.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

constexpr uint64_t kFileBytes = 64 << 20;
constexpr uint64_t kPiece = 1 << 20;
constexpr uint64_t kBlock = 4096;
constexpr int64_t kFailures[] = {-EINVAL, -EIO, -EFAULT};

bool on_gpu = true;
int failed = 0;

bool check(bool good, const std::string& what) {
  std::printf("%s %s%s%s\n", good ? "PASS" : "FAIL", what.c_str(), good ? "" : ": ",
              good ? "" : penstock_last_error());
  std::fflush(stdout);
  failed += good ? 0 : 1;
  return good;
}

void must(bool good, const char* what) {
  if (check(good, what)) return;
  std::exit(1);
}

// Word `i` of the file as it was written in `round`.
uint64_t word_of(uint64_t i, uint64_t round) {
  uint64_t x = (i + round * 77'777'777) * 0x9e3779b97f4a7c15ULL;
  x ^= x >> 29;
  return x * 0xbf58476d1ce4e5b9ULL;
}

class Client {
 public:
  explicit Client(const char* store) {
    must(penstock_connect(store, &session) == 0, "connect");
    must(penstock_ring_create(session, 64, 4, &ring) == 0, "a ring");
    file = penstock_open(session, "/file", O_RDWR | O_CREAT, 0644);
    must(file >= 0, "open");
  }
  ~Client() { penstock_close(session); }

  penstock_region* make_region(uint64_t bytes) const {
    penstock_region* region = nullptr;
    const int error = on_gpu ? penstock_region_create_device(session, 0, bytes, &region)
                             : penstock_region_create(session, bytes, &region);
    must(error == 0, "a region");
    return region;
  }
  penstock_io io(uint8_t operation, penstock_region* region, uint64_t offset,
                 uint64_t length) const {
    penstock_io io{};
    io.operation = operation;
    io.file = file;
    io.region = region;
    io.offset = offset;
    io.length = length;
    return io;
  }
  // The result, or why it could not be submitted.
  int64_t run(const penstock_io& io) const {
    const int prepared = penstock_prepare(ring, &io);
    if (prepared != 0) return prepared;
    if (penstock_submit(ring) < 0) return -ECANCELED;
    return wait();
  }
  int64_t wait() const { return take().result; }
  penstock_completion take() const {
    penstock_completion completion{};
    const uint64_t deadline = penstock_now() + 60'000'000'000;
    if (penstock_wait(ring, &completion, 1, 1, deadline) != 1) completion.result = -ETIME;
    return completion;
  }

  // Of `round`, durable.
  void write(uint64_t round) {
    penstock_region* staging = nullptr;
    must(penstock_region_create(session, kPiece, &staging) == 0, "memory to write from");
    auto* const words = static_cast<uint64_t*>(penstock_region_base(staging));
    for (uint64_t at = 0; at < kFileBytes; at += kPiece) {
      for (uint64_t i = 0; i < kPiece / 8; ++i) words[i] = word_of(at / 8 + i, round);
      penstock_io one = io(PENSTOCK_WRITE, staging, at, kPiece);
      one.flags = PENSTOCK_DURABLE;
      if (run(one) != static_cast<int64_t>(kPiece)) must(false, "write");
    }
    penstock_region_release(staging);
  }

  penstock_session* session = nullptr;
  penstock_ring* ring = nullptr;
  penstock_file file = -1;
};

std::vector<uint64_t> look(const penstock_region* region, uint64_t bytes) {
  std::vector<uint64_t> words(bytes / 8);
  const void* const from = penstock_region_base(region);
  if (!on_gpu) {
    std::memcpy(words.data(), from, bytes);
  } else if (cudaMemcpy(words.data(), from, bytes, cudaMemcpyDeviceToHost) != cudaSuccess) {
    must(false, "look into GPU memory");
  }
  return words;
}

// Whether these words are the block's of one of the rounds [first, last], or, if it may be, a hole.
bool is_block(const uint64_t* words, uint64_t at, uint64_t first, uint64_t last, bool or_zeros) {
  for (uint64_t round = first; round <= last; ++round) {
    bool same = true;
    for (uint64_t i = 0; i < kBlock / 8 && same; ++i) same = words[i] == word_of(at / 8 + i, round);
    if (same) return true;
  }
  return or_zeros && std::all_of(words, words + kBlock / 8, [](uint64_t w) { return w == 0; });
}

void verify(Client& client) {
  penstock_region* const region = client.make_region(kPiece);
  bool good = true;
  for (uint64_t at = 0; at < kFileBytes && good; at += kPiece) {
    good = client.run(client.io(PENSTOCK_READ, region, at, kPiece)) == static_cast<int64_t>(kPiece);
    const std::vector<uint64_t> words = look(region, kPiece);
    for (uint64_t b = 0; b < kPiece && good; b += kBlock) {
      good = is_block(&words[b / 8], at + b, 0, 0, false);
    }
  }
  check(good, "every byte is as it was written");
}

void arguments(Client& client) {
  penstock_region* region = nullptr;
  std::vector<char> host(kPiece);
  if (on_gpu) {
    check(penstock_region_register_device(client.session, host.data(), kPiece, &region) == -EINVAL,
          "host memory is no GPU memory");
    check(penstock_region_create_device(client.session, 99, kPiece, &region) < 0, "no GPU 99");
    std::printf("     %s\n", penstock_last_error());
    check(penstock_region_create_device(client.session, 0, uint64_t{1} << 42, &region) == -ENOMEM,
          "more than the GPU has");
    std::printf("     %s\n", penstock_last_error());
    void* memory = nullptr;
    cudaMalloc(&memory, kPiece);
    check(
        penstock_region_register_device(client.session, memory, kPiece * 1024, &region) == -EINVAL,
        "more than was allocated");
    cudaFree(memory);
    check(penstock_region_register_device(client.session, memory, kPiece, &region) == -EINVAL,
          "memory that was freed");
  }
  region = client.make_region(kPiece);
  penstock_io io = client.io(PENSTOCK_READ, region, 0, kPiece);
  io.region_offset = 1;
  check(client.run(io) == -EINVAL, "a range that leaves its region");
  io.region_offset = UINT64_MAX - 10;
  check(client.run(io) == -EINVAL, "a range that wraps");
  io = client.io(PENSTOCK_READ, region, 0, kPiece);
  io.file = 77;
  check(client.run(io) == -EBADF, "a file that is not open");
  if (on_gpu) {
    io = client.io(PENSTOCK_READ, region, 0, kPiece);
    io.route = PENSTOCK_ROUTE_DEVICE_PEER;
    check(client.run(io) == -EOPNOTSUPP, "a route that is not possible");
  }
  check(penstock_region_release(region) == 0, "release");
}

// Memory that goes while reads into it are under way. CUDA does not forgive that always: a copy
// that is issued while another thread frees its memory breaks the context, also with CUDA alone.
// Then every operation must say so.
void freed(Client& client) {
  if (!on_gpu) return;
  uint64_t landed = 0;
  uint64_t refused = 0;
  uint64_t other = 0;
  int rounds = 0;
  void* memory = nullptr;
  for (; rounds < 100 && cudaMalloc(&memory, 16 * kPiece) == cudaSuccess; ++rounds) {
    penstock_region* region = nullptr;
    must(penstock_region_register_device(client.session, memory, 16 * kPiece, &region) == 0,
         "register");
    for (uint64_t i = 0; i < 16; ++i) {
      penstock_io io = client.io(PENSTOCK_READ, region, i * kPiece, kPiece);
      io.region_offset = i * kPiece;
      must(penstock_prepare(client.ring, &io) == 0, "prepare");
    }
    must(penstock_submit(client.ring) >= 0, "submit");
    if (rounds % 2 == 1) ::usleep(static_cast<useconds_t>(rounds) * 20);
    cudaFree(memory);
    for (int i = 0; i < 16; ++i) {
      const int64_t result = client.wait();
      const bool known = std::count(std::begin(kFailures), std::end(kFailures), result) > 0;
      ++(result == static_cast<int64_t>(kPiece) ? landed : known ? refused : other);
    }
    penstock_region_release(region);
  }
  check(rounds > 0 && other == 0, "reads end with a status when their memory is freed");
  std::printf("     %d rounds: %llu landed, %llu were refused\n", rounds,
              static_cast<unsigned long long>(landed), static_cast<unsigned long long>(refused));
  if (cudaDeviceSynchronize() == cudaSuccess) return;
  std::printf("     the last one broke the context of this process\n");
  penstock_region* region = nullptr;
  check(penstock_region_create_device(client.session, 0, kPiece, &region) < 0 ||
            client.run(client.io(PENSTOCK_READ, region, 0, kPiece)) == -EIO,
        "a broken context is told");
  must(penstock_region_create(client.session, kPiece, &region) == 0, "host memory");
  check(client.run(client.io(PENSTOCK_READ, region, 0, kPiece)) == static_cast<int64_t>(kPiece),
        "and reads into host memory go on");
}

void forked(Client& client) {
  penstock_region* const region = client.make_region(kPiece);
  const penstock_io io = client.io(PENSTOCK_READ, region, 0, kPiece);
  must(client.run(io) == static_cast<int64_t>(kPiece), "a read before the fork");
  const pid_t child = ::fork();
  if (child == 0) {
    penstock_region* none = nullptr;
    struct stat st;
    const bool refused =
        penstock_prepare(client.ring, &io) == -ECHILD &&
        penstock_region_create_device(client.session, 0, kPiece, &none) == -ECHILD &&
        penstock_fstat(client.session, client.file, &st) == -ECHILD;
    penstock_close(client.session);
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  check(status == 0, "calls in a forked child fail");
  check(client.run(io) == static_cast<int64_t>(kPiece), "and the parent goes on");
}

// Rewritten, cut and grown while it is read.
void changes(Client& client) {
  // Both go on until each has done enough, however fast the machine is; neither may starve.
  constexpr uint64_t kRounds = 6;
  constexpr uint64_t kReads = 300;
  constexpr uint64_t kPatience = 60'000'000'000;
  std::atomic<uint64_t> written{0};
  std::atomic<bool> has_read{false};
  std::atomic<bool> done{false};
  penstock_region* const region = client.make_region(kPiece);
  // What the first read has to make ready takes longer than a round.
  must(client.run(client.io(PENSTOCK_READ, region, 0, kPiece)) > 0, "a first read");
  const uint64_t began = penstock_now();
  const auto is_late = [&] { return penstock_now() - began > kPatience; };
  std::thread writer([&] {
    for (uint64_t round = 1; (round <= kRounds || !has_read) && !is_late(); ++round) {
      client.write(round);
      written = round;
      penstock_ftruncate(client.session, client.file, kFileBytes / 2 + 100);
      penstock_ftruncate(client.session, client.file, kFileBytes);
    }
    done = true;
  });
  uint64_t state = 7;
  uint64_t reads = 0;
  uint64_t wrong = 0;
  uint64_t odd = 0;
  while (!done) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const uint64_t at = (state >> 20) % (kFileBytes / kPiece) * kPiece;
    const uint64_t first = written;
    const int64_t got = client.run(client.io(PENSTOCK_READ, region, at, kPiece));
    if (got < 0 || got > static_cast<int64_t>(kPiece)) {
      ++odd;
      continue;
    }
    has_read = ++reads >= kReads;
    const std::vector<uint64_t> words = look(region, kPiece);
    for (uint64_t b = 0; b + kBlock <= static_cast<uint64_t>(got); b += kBlock) {
      // The block that the cut goes through is partly a hole.
      if (at + b == kFileBytes / 2) continue;
      wrong += is_block(&words[b / 8], at + b, first, written + 1, true) ? 0 : 1;
    }
  }
  writer.join();
  const double seconds = static_cast<double>(penstock_now() - began) / 1e9;
  check(wrong == 0 && odd == 0, "blocks of a file that changes are old or new");
  check(has_read && written >= kRounds, "neither the reader nor the writer starves");
  std::printf(
      "     %llu reads (%llu failed) beside %llu rounds in %.1f s, %llu blocks were wrong\n",
      static_cast<unsigned long long>(reads), static_cast<unsigned long long>(odd),
      static_cast<unsigned long long>(written), seconds, static_cast<unsigned long long>(wrong));
  client.write(0);
}

// Until somebody kills it. Each part of the region takes one read after the other.
void hammer(Client& client) {
  constexpr uint64_t kParts = 32;
  penstock_region* const region = client.make_region(kParts * kPiece);
  uint64_t reads = 0;
  const auto read_into = [&](uint64_t part) {
    penstock_io io =
        client.io(PENSTOCK_READ, region, reads++ % (kFileBytes / kPiece) * kPiece, kPiece);
    io.region_offset = part * kPiece;
    io.user_data = part;
    must(penstock_prepare(client.ring, &io) == 0 && penstock_submit(client.ring) >= 0, "submit");
  };
  for (uint64_t part = 0; part < kParts; ++part) read_into(part);
  for (;;) {
    const penstock_completion ended = client.take();
    if (ended.result != static_cast<int64_t>(kPiece)) must(false, "read");
    if (reads % 1000 == 0) check(true, "hammering");
    read_into(ended.user_data);
  }
}

// One block's bytes on the disk are not what they were.
void damaged(Client& client) {
  penstock_region* const region = client.make_region(kPiece);
  uint64_t refused = 0;
  uint64_t good = 0;
  for (uint64_t at = 0; at < kFileBytes; at += kPiece) {
    const int64_t got = client.run(client.io(PENSTOCK_READ, region, at, kPiece));
    ++(got == static_cast<int64_t>(kPiece) ? good : refused);
    if (got != static_cast<int64_t>(kPiece)) check(got == -EIO, "a damaged block is EIO");
  }
  check(refused == 1 && good == kFileBytes / kPiece - 1, "and no other read fails");
}

}  // namespace

int main(int count, char** words) {
  const struct {
    const char* name;
    void (*run)(Client& client);
  } steps[] = {{"write", [](Client& client) { client.write(0); }},
               {"verify", verify},
               {"arguments", arguments},
               {"freed", freed},
               {"fork", forked},
               {"changes", changes},
               {"hammer", hammer},
               {"damaged", damaged}};
  if (count == 4) {
    on_gpu = std::strcmp(words[2], "gpu") == 0;
    for (const auto& step : steps) {
      if (std::strcmp(words[3], step.name) != 0) continue;
      Client client(words[1]);
      step.run(client);
      return failed == 0 ? 0 : 1;
    }
  }
  std::fprintf(stderr, "usage: %s STORE gpu|host STEP\n", words[0]);
  return 2;
}
