// What one PE's GPU does to another one's memory.
#pragma once

#include "kernel_numbers.h"
#include "pes.h"
#include "timing.h"

#include "penstock/gpu.h"
#include "penstock/symm.h"

namespace penstock::bench {

// How kernels of one GPU reach the memory of another one.
enum class GpuLink : uint8_t { same, nvlink, pcie, unknown, none };
// As the first sees it. `none`: it says that it does not reach it.
GpuLink link_between(const PeFacts& from, const PeFacts& to);

// Whether hosts may carry what GPUs do not reach (PENSTOCK_GPUS_OF_NODES=0 forbids it).
bool may_hosts_carry();

// Why GPUs' memory cannot be measured among these PEs of one node; empty: it can be tried.
// `hosts_carry`: also where some do not reach others.
std::string why_no_gpus(const std::vector<PeFacts>& of_node, bool hosts_carry);

// A PE of a node, with a GPU, and the heap in it. One thread. Other PEs are named by their number
// among those of the node.
class SymmGpus {
 public:
  // Together with all ranks of the node, of which why_no_gpus() says nothing. Two buffers of so
  // many bytes, and `beside` for more. All of them fail, or none.
  static Outcome<std::unique_ptr<SymmGpus>> make(job::Member& member, const PeFacts& own,
                                                 uint64_t bytes, bool hosts_carry);

  symm::Group& group() { return *group_; }
  // Whether the PE's GPU and this one's reach each other's memory. All others are asked for by
  // kernels, and carried by the hosts.
  bool is_near(uint32_t pe) const { return heap_->is_near(pe); }
  uint64_t bytes() const { return bytes_; }
  uint32_t multiprocessors() const { return multiprocessors_; }

  // Seconds of all of it.
  struct Copy {
    uint64_t bytes = 8;
    uint32_t pe = 0;
    uint32_t blocks = 1;
  };
  Outcome<double> puts(const Copy& copy, uint64_t rounds) {
    return copies(Kernel::put, copy, rounds);
  }
  Outcome<double> gets(const Copy& copy, uint64_t rounds) {
    return copies(Kernel::get, copy, rounds);
  }
  Outcome<double> put_signals(const Copy& copy, uint64_t rounds);
  Outcome<double> engine_puts(const Copy& copy, uint64_t rounds);
  Outcome<double> engine_gets(const Copy& copy, uint64_t rounds);
  Outcome<double> words(WordCall call, uint32_t pe, uint64_t rounds);
  // Both PEs call it with the same numbers; both ways are one round. Its words go from `begin` up,
  // where no earlier ones of these PEs have been.
  struct Pings {
    uint64_t begin = 0;
    uint64_t rounds = 1;
  };
  Outcome<double> pings(uint32_t pe, bool first, const Pings& pings);
  // All PEs of the node call it with the same arguments.
  Outcome<double> together(Together what, uint64_t bytes, uint64_t rounds);
  Outcome<double> stream_barriers(uint64_t rounds);

 private:
  enum class Kernel : uint32_t { put, get, put_signal, words, pings, together };
  SymmGpus() = default;
  Outcome<void> begin(job::Member& member, const PeFacts& own, uint64_t bytes, bool hosts_carry);
  template <class... Argument>
  Outcome<double> timed(Kernel kernel, uint32_t blocks, uint32_t threads, Argument... argument);
  Outcome<double> copies(Kernel kernel, const Copy& copy, uint64_t rounds);
  template <class Give>
  Outcome<double> timed_stream(Give&& give);
  Status end_of_stream();

  std::unique_ptr<symm::Group> group_;
  std::unique_ptr<gpu::SymmetricDevice> heap_device_;  // with the library's kernels
  std::unique_ptr<gpu::SymmetricDevice> device_;       // the same one, with those that measure
  std::unique_ptr<symm::DeviceHeap> heap_;
  std::unique_ptr<symm::DeviceStreams> streams_;
  uint32_t multiprocessors_ = 0;
  uint64_t bytes_ = 0;
  std::byte* here_ = nullptr;
  std::byte* there_ = nullptr;
  uint64_t* words_ = nullptr;
};

}  // namespace penstock::bench
