// What a GPU's link gives without anything above it: the references of the GPU suite.
#pragma once

#include <memory>

#include "penstock/bench.h"
#include "penstock/engine.h"

namespace penstock::bench {

// Pinned host memory, and memory of one GPU, with bare copies between them.
class GpuReference {
 public:
  static Outcome<std::unique_ptr<GpuReference>> create(engine::DeviceMemory& devices,
                                                       engine::DeviceId device,
                                                       uint64_t host_bytes);
  ~GpuReference();

  struct Copies {
    engine::CopyMeans means = engine::CopyMeans::copy_engine;
    uint64_t piece_bytes = 0;
    uint32_t pieces = 1;  // of one operation
    uint32_t depth = 2;   // operations in flight
    double seconds = 1;
  };
  // Copies from random offsets of the host memory, at multiples of the piece's size, whose lists
  // are made before the time counts.
  Outcome<Measurement> run(const Copies& copies);

 private:
  GpuReference(engine::DeviceMemory& devices, engine::DeviceId device);

  engine::DeviceMemory& devices_;
  const engine::DeviceId device_;
  engine::SeededRandom random_{3};
  engine::FutexParker parker_{engine::system_clock()};
  engine::Loop loop_{engine::system_clock(), random_, parker_};
  std::unique_ptr<engine::CopyLanes> lanes_;
  MutableBytes host_;
  engine::DeviceSpan memory_;
  bool pinned_ = false;
};

}  // namespace penstock::bench
