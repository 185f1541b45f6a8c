// A node's process that is stopped for longer than its lease while another node writes: what the
// stopped node's programs read into GPU memory, by kernels and by rings, meanwhile from memory that
// it shares with them and afterwards from itself, is never older than what had been written when
// they asked. Prints PASS or FAIL for each check, and ends with 1 when one failed.
//
//   kernel_ring_stopped WRITER READER PID
//
// WRITER and READER are directories of nodes of one cluster, PID the reader's process. By
// stopped_node.sh, which starts them.
#include "check_kernels.cuh"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

using namespace checks;  // NOLINT: a program

namespace {

constexpr uint64_t kFileBytes = 4 << 20;
constexpr uint64_t kBlock = 4096;

int failures = 0;

void check(bool good, const std::string& what, long long got) {
  std::printf("%s %s (%lld)\n", good ? "PASS" : "FAIL", what.c_str(), got);
  std::fflush(stdout);
  failures += good ? 0 : 1;
}

// What host and kernels share.
struct Words {
  uint32_t* const all = shared_array<uint32_t>(64);
  const uint32_t* writes() const { return all; }
  const uint32_t* stop() const { return all + 32; }
  uint32_t written() const { return std::atomic_ref(all[0]).load(); }
  void tell(uint32_t round) { std::atomic_ref(all[0]).store(round); }
  void end() { std::atomic_ref(all[32]).store(1); }
};

// A program's thread that has blocks put into GPU memory by a ring, by one way.
class RingReader {
 public:
  RingReader(const char* store, const Words& words, penstock_route route)
      : words_(words), route_(route) {
    must(penstock_connect(store, &session_), "connect");
    must(penstock_region_create_device(session_, 0, kBlock, &region_), "GPU region");
    must(penstock_ring_create(session_, 8, 1, &ring_), "ring");
    file_ = must(penstock_open(session_, "/bytes", O_RDONLY, 0), "open");
    CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    CUDA(cudaHostAlloc(&bytes_, kBlock, cudaHostAllocDefault));
    thread_ = std::thread([this] { run(); });
  }
  void join() { thread_.join(); }
  ~RingReader() { penstock_close(session_); }
  RingReader(const RingReader&) = delete;
  RingReader& operator=(const RingReader&) = delete;

  uint64_t good() const { return good_.load(); }
  uint64_t old() const { return old_.load(); }
  uint64_t errors() const { return errors_.load(); }
  std::string name() const { return penstock_route_name(route_); }

 private:
  void run() {
    for (uint64_t round = 0; std::atomic_ref(words_.all[32]).load() == 0; ++round) {
      const uint64_t block = round * 7919 % (kFileBytes / kBlock);
      const uint32_t returned = words_.written();
      penstock_io io{};
      io.operation = PENSTOCK_READ;
      io.file = file_;
      io.region = region_;
      io.offset = block * kBlock;
      io.length = kBlock;
      io.route = route_;
      penstock_completion done{};
      must(penstock_prepare(ring_, &io), "prepare");
      must(penstock_submit(ring_), "submit");
      if (penstock_wait(ring_, &done, 1, 1, penstock_now() + 60 * kSecond) != 1) {
        stop("a read takes more than a minute");
      }
      if (done.result != static_cast<int64_t>(kBlock)) {
        ++errors_;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      CUDA(cudaMemcpyAsync(bytes_, penstock_region_base(region_), kBlock, cudaMemcpyDeviceToHost,
                           stream_));
      CUDA(cudaStreamSynchronize(stream_));
      bool matches = false;
      for (uint32_t r = returned; r <= words_.written() + 1 && !matches; ++r) {
        matches = is_of(block, r);
      }
      ++(matches ? good_ : old_);
    }
  }
  bool is_of(uint64_t block, uint32_t round) const {
    for (uint64_t i = 0; i < kBlock / 8; ++i) {
      if (bytes_[i] != word_of(block * (kBlock / 8) + i, round)) return false;
    }
    return true;
  }

  const Words& words_;
  const penstock_route route_;
  penstock_session* session_ = nullptr;
  penstock_region* region_ = nullptr;
  penstock_ring* ring_ = nullptr;
  penstock_file file_ = -1;
  cudaStream_t stream_ = nullptr;
  uint64_t* bytes_ = nullptr;
  std::atomic<uint64_t> good_{0}, old_{0}, errors_{0};
  std::thread thread_;
};

bool eventually(const std::function<bool()>& what) {
  const double until = seconds_now() + 60;
  while (!what()) {
    if (seconds_now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

class Story {
 public:
  Story(const char* writer, const char* reader, int pid)
      : pid_(pid),
        writer_(writer),
        written_(writer_.make_file("/bytes", kFileBytes)),
        reader_(reader),
        read_(must(penstock_open(reader_.session, "/bytes", O_RDONLY, 0), "open")),
        gpu_(reader_, 64 << 20, 1024),
        number_(gpu_.add(read_)),
        tally_(shared_array<Tally>(1)) {
    CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    for (const penstock_route route :
         {PENSTOCK_ROUTE_ANY, PENSTOCK_ROUTE_DEVICE_CACHE, PENSTOCK_ROUTE_DEVICE_GATHER}) {
      rings_.push_back(std::make_unique<RingReader>(reader, words_, route));
    }
    read_while_written<<<8, 128, 0, stream_>>>(gpu_.view, number_, kFileBytes, words_.writes(),
                                               words_.stop(), tally_);
  }

  void run() {
    // Kernels and all three ways of rings find the file in the node cache.
    const bool cached =
        eventually([this] { return warm() && gpu_.stats().places > 1000 && all_read(100); });
    check(cached, "blocks come from the node cache", static_cast<long long>(gpu_.stats().places));
    must(::kill(pid_, SIGSTOP), "stop the reader's node");
    write(1);
    // Whoever does not ask the stopped process would go on.
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    must(::kill(pid_, SIGCONT), "let it go on");
    go_on("after it goes on");
    write(2);
    go_on("and is told of changes again");
    words_.end();
    CUDA(cudaStreamSynchronize(stream_));
    check(tally_->wrong_bytes == 0, "kernels read nothing old",
          static_cast<long long>(tally_->wrong_bytes));
    std::printf("     good %llu, places %llu, guessed %llu, landed %llu, failed %llu (last %lld)\n",
                tally_->good, tally_->places, tally_->guessed, tally_->landed, tally_->failed,
                tally_->last_error);
    for (const auto& ring : rings_) {
      ring->join();
      check(ring->old() == 0, "rings read nothing old: " + ring->name(),
            static_cast<long long>(ring->old()));
      std::printf("     good %llu, failed %llu\n", static_cast<unsigned long long>(ring->good()),
                  static_cast<unsigned long long>(ring->errors()));
    }
  }

 private:
  bool warm() {
    reader_.warm(read_, kFileBytes);
    return true;
  }
  bool all_read(uint64_t more) {
    return std::all_of(rings_.begin(), rings_.end(),
                       [&](const auto& ring) { return ring->good() > more; });
  }
  void write(uint32_t round) {
    const double begun = seconds_now();
    writer_.write(written_, 0, kFileBytes, round);
    words_.tell(round);
    std::printf("     written after %.2f s\n", seconds_now() - begun);
  }
  // Each reads what was written last, by its own way.
  void go_on(const std::string& when) {
    const unsigned long long kernels = std::atomic_ref(tally_->good).load();
    std::vector<uint64_t> before;
    for (const auto& ring : rings_) before.push_back(ring->good());
    const bool well = eventually([&] {
      warm();
      bool all = std::atomic_ref(tally_->good).load() > kernels + 1000;
      for (size_t i = 0; i < rings_.size(); ++i) all = all && rings_[i]->good() > before[i] + 100;
      return all;
    });
    check(well, "kernels and rings read " + when,
          static_cast<long long>(std::atomic_ref(tally_->good).load() - kernels));
  }

  const int pid_;
  Words words_;
  Rig writer_;
  penstock_file written_;
  Rig reader_;
  penstock_file read_;
  GpuRing gpu_;
  uint8_t number_;
  Tally* tally_;
  cudaStream_t stream_ = nullptr;
  std::vector<std::unique_ptr<RingReader>> rings_;
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    std::fprintf(stderr, "usage: %s WRITER READER PID\n", arguments[0]);
    return 2;
  }
  Story(arguments[1], arguments[2], std::atoi(arguments[3])).run();
  std::printf("%d failed\n", failures);
  return failures == 0 ? 0 : 1;
}
