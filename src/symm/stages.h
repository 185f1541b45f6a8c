// Device memory by way of which streams move what proxies do not reach, or not for long enough:
// pageable memory of the host, and memory of pools.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "penstock/gpu.h"

namespace penstock::symm {

// Of one device. Thread safe. Has as much memory as streams use at once, and keeps it: the driver
// would forget memory that a stream is to give back before the stream comes to that.
class Stages {
 public:
  explicit Stages(gpu::SymmetricDevice& device) : device_(device) {}
  // No stream uses any of it.
  ~Stages();
  Stages(const Stages&) = delete;
  Stages& operator=(const Stages&) = delete;

 private:
  struct Stage {
    void* memory = nullptr;
    uint64_t bytes = 0;
    bool is_taken = false;     // by a Use
    bool is_captured = false;  // by a graph, which may be launched whenever
    uint64_t stream = 0;       // that used it last; 0: its number is not known
    uint64_t number = 0;       // of its uses
    uint64_t* done = nullptr;  // how many of them streams have done; in the host's memory
  };

 public:
  // Memory for what a stream is given while this lives.
  class Use {
   public:
    // no_memory.
    static Result<Use> take(Stages& stages, uint64_t bytes, engine::DeviceStream stream);
    Use(Use&& other) noexcept;
    ~Use();
    Use& operator=(Use&&) = delete;

    void* memory() const { return stage_->memory; }

   private:
    Use(Stages& stages, Stage* stage, engine::DeviceStream stream)
        : stages_(stages), stage_(stage), stream_(stream) {}

    Stages& stages_;
    Stage* stage_;
    engine::DeviceStream stream_;
  };

 private:
  // `stream` is 0 where its number is not known.
  Result<Stage*> take(uint64_t bytes, uint64_t stream, bool is_captured);
  Stage* find(uint64_t bytes, uint64_t stream);
  Result<uint64_t*> take_word();
  void give_back(Stage& stage, engine::DeviceStream stream);

  gpu::SymmetricDevice& device_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Stage>> all_;
  std::span<uint64_t> words_;  // that no stage has yet
};

}  // namespace penstock::symm
