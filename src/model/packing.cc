#include "penstock/model.h"

namespace penstock::model {

Packing pack(std::span<const Safetensors> files, uint64_t alignment) {
  Packing packing;
  const auto round_up = [&](uint64_t value) { return (value + alignment - 1) & ~(alignment - 1); };
  for (uint32_t file = 0; file < files.size(); ++file) {
    std::vector<uint64_t>& offsets = packing.offsets.emplace_back();
    Run run{.file = file};
    const auto finish = [&] {
      if (run.length > 0) packing.runs.push_back(run);
      packing.bytes = run.memory_offset + run.length;
    };
    run.memory_offset = round_up(packing.bytes);
    for (const Tensor& tensor : files[file].tensors) {
      const bool begins = run.length == 0;
      if (begins) run.offset = tensor.offset;
      // The run goes on as long as its tensors lie aligned behind its first one.
      if (!begins && (tensor.offset - run.offset) % alignment != 0) {
        finish();
        run = {.file = file,
               .offset = tensor.offset,
               .length = 0,
               .memory_offset = round_up(packing.bytes)};
      }
      offsets.push_back(run.memory_offset + (tensor.offset - run.offset));
      run.length = tensor.offset + tensor.bytes - run.offset;
    }
    finish();
  }
  return packing;
}

}  // namespace penstock::model
