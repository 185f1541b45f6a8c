// What loading a model costs with safetensors and PyTorch: the reference of the load suite.
#pragma once

#include <memory>
#include <string>
#include <sys/types.h>

#include "penstock/base.h"
#include "penstock/bench.h"

namespace penstock::bench {

// A Python process that has loaded the file once, and does it again when asked, onto GPU 0. Only
// the call itself is timed, there.
class TorchReference {
 public:
  // not_found when there is no Python with torch, safetensors and a GPU.
  static Outcome<std::unique_ptr<TorchReference>> start(const std::string& file, uint64_t bytes);
  ~TorchReference();

  Outcome<Measurement> run();

 private:
  TorchReference() = default;
  std::string read_line();

  uint64_t bytes_ = 0;
  pid_t process_ = 0;
  UniqueFd input_;
  UniqueFd output_;
};

}  // namespace penstock::bench
