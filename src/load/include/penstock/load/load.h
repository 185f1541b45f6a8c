// Loading a model: the tensors of safetensors files, in the memory of GPUs.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "penstock/engine.h"
#include "penstock/load/distribute.h"
#include "penstock/load/spread.h"
#include "penstock/model.h"

namespace penstock::load {

// The files of one load. Calls may block; one thread. Whatever was opened is closed with it. What
// fails says which file.
class Files {
 public:
  virtual ~Files() = default;
  // For reading; the files have numbers in the order in which they were opened. Their length.
  virtual Outcome<uint64_t> open(const std::string& path) = 0;
  // All of `to`, into host memory; corrupt when the file ends before.
  virtual Outcome<void> read(uint32_t file, uint64_t offset, MutableBytes to) = 0;
  // Transfers that reach all files that are open, for so many links, each with its own as far as
  // there are enough. They stay until the files are closed, or longer.
  virtual Outcome<std::vector<FileTransfers>> transfers(size_t links) = 0;
  // corrupt when a file is not what it was when it was opened, as far as its length and times tell.
  virtual Outcome<void> check_unchanged() = 0;
};

struct Request {
  std::vector<std::string> paths;
  std::vector<engine::DeviceId> devices;  // where everything goes to; different ones
  // GPUs whose links and a little of whose memory may be used, too; different ones, of which none
  // is among `devices`.
  std::vector<engine::DeviceId> lenders;
  bool lend_all = false;     // all others that can_lend(), instead
  uint64_t alignment = 256;  // of each tensor's address: a power of two, up to kAlignmentMax
  engine::Time deadline = engine::kNever;
  Progress progress;  // may be null
};

struct Tensor : model::Tensor {
  uint32_t file = 0;           // an index of the request's paths
  uint64_t memory_offset = 0;  // from the beginning of the memory of each device
};

// What was loaded. Its memory is given back when it is destroyed: no operation uses it then.
class Model {
 public:
  explicit Model(engine::DeviceMemory& devices) : devices_(devices) {}
  ~Model();

  // The tensor of that name; null: there is none.
  const Tensor* find(const std::string& name) const;

  std::vector<std::string> files;
  std::vector<std::map<std::string, std::string>> metadata;  // of each file
  std::vector<Tensor> tensors;  // file by file, in the order of their bytes
  // One allocation for each of the request's devices, in its order, as long as all tensors.
  std::vector<engine::DeviceSpan> memory;
  uint64_t bytes = 0;       // of all tensors
  std::vector<Link> links;  // that were used, as in `counts`
  Counts counts;
  engine::Duration transfer_time{};  // of the bytes alone

 private:
  friend class Loader;
  engine::DeviceMemory& devices_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

// All or nothing: after a failure nothing is left behind. Fails with corrupt when a file is not
// what it says, or was changed while it was read, and names the file; already_exists when a name
// comes in two files; no_memory when a GPU is full; invalid_argument for GPUs that are not there.
Outcome<std::unique_ptr<Model>> load(Files& files, engine::DeviceMemory& devices,
                                     const engine::Clock& clock, const Request& request);

}  // namespace penstock::load
