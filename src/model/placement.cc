#include "penstock/model.h"

namespace penstock::model {

Placement place(std::span<const Safetensors> files, uint64_t alignment) {
  Placement placement;
  const auto round_up = [&](uint64_t value) { return (value + alignment - 1) & ~(alignment - 1); };
  for (uint32_t file = 0; file < files.size(); ++file) {
    std::vector<uint64_t>& targets = placement.targets.emplace_back();
    Run run{.file = file};
    const auto finish = [&] {
      if (run.length > 0) placement.runs.push_back(run);
      placement.bytes = run.target + run.length;
    };
    run.target = round_up(placement.bytes);
    for (const Tensor& tensor : files[file].tensors) {
      const bool begins = run.length == 0;
      if (begins) run.offset = tensor.offset;
      // The run goes on as long as its tensors lie aligned behind its first one.
      if (!begins && (tensor.offset - run.offset) % alignment != 0) {
        finish();
        run = {.file = file,
               .offset = tensor.offset,
               .length = 0,
               .target = round_up(placement.bytes)};
      }
      targets.push_back(run.target + (tensor.offset - run.offset));
      run.length = tensor.offset + tensor.bytes - run.offset;
    }
    finish();
  }
  return placement;
}

}  // namespace penstock::model
