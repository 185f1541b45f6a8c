// Saving tensors of GPU or host memory as a safetensors file.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "penstock/engine.h"
#include "penstock/load/distribute.h"
#include "penstock/model.h"

namespace penstock::load {

// A file that is being written, and is not to be found under its name before commit(). Calls may
// block; one thread. Destroyed without a commit it is gone.
class NewFile {
 public:
  virtual ~NewFile() = default;
  // All of it, from host memory.
  virtual Outcome<void> write(uint64_t offset, Bytes from) = 0;
  // What writes to it from device memory: the handle is files[0].
  virtual Outcome<FileTransfers> transfers() = 0;
  // All that was written is on stable storage, under the file's name; what had it before is gone.
  // Nothing is in flight. After a failure the name is what it was, unless only the directory could
  // not be made durable, which the failure says.
  virtual Outcome<void> commit() = 0;
};

// `tensor.bytes` and `tensor.offset` are filled in by save().
struct SavedTensor {
  model::Tensor tensor;
  std::optional<engine::DeviceSpan> device;  // of as many bytes as dtype and shape say
  Bytes host;                                // when it is in host memory
};

struct SaveRequest {
  std::vector<SavedTensor> tensors;
  std::map<std::string, std::string> metadata;
  engine::Time deadline = engine::kNever;
  Progress progress;  // may be null
};

// Writes the header and all tensors, those with the largest elements first, and commits.
// invalid_argument for tensors that no such file could hold. When it returns nothing reads the
// memory any more.
Outcome<void> save(NewFile& file, const engine::Clock& clock, SaveRequest request);

}  // namespace penstock::load
