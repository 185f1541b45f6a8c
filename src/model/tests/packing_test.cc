#include <gtest/gtest.h>

#include "penstock/model.h"

namespace penstock::model {
namespace {

Safetensors file_of(const std::vector<uint64_t>& sizes, uint64_t data_begin) {
  Safetensors file;
  uint64_t at = data_begin;
  for (const uint64_t bytes : sizes) {
    file.tensors.push_back({.dtype = "U8", .shape = {bytes}, .offset = at, .bytes = bytes});
    at += bytes;
  }
  return file;
}

// Every tensor is aligned, covered by exactly one run at its own offset, and runs do not overlap.
void expect_sound(std::span<const Safetensors> files, const Packing& packing, uint64_t alignment) {
  uint64_t end = 0;
  for (const Run& run : packing.runs) {
    EXPECT_GE(run.memory_offset, end);
    EXPECT_GT(run.length, 0U);
    end = run.memory_offset + run.length;
  }
  EXPECT_EQ(end, packing.bytes);
  for (uint32_t file = 0; file < files.size(); ++file) {
    for (size_t i = 0; i < files[file].tensors.size(); ++i) {
      const Tensor& tensor = files[file].tensors[i];
      const uint64_t offset = packing.offsets[file][i];
      EXPECT_EQ(offset % alignment, 0U);
      int covered = 0;
      for (const Run& run : packing.runs) {
        if (run.file != file || tensor.offset < run.offset) continue;
        const uint64_t within = tensor.offset - run.offset;
        if (within + tensor.bytes > run.length || tensor.bytes == 0) continue;
        EXPECT_EQ(run.memory_offset + within, offset);
        ++covered;
      }
      EXPECT_EQ(covered, tensor.bytes > 0 ? 1 : 0);
    }
  }
}

TEST(Packing, one_run_when_tensors_lie_aligned_to_one_another) {
  const Safetensors file = file_of({4096, 256, 512, 0, 100}, 1234);
  const Packing packing = pack({&file, 1}, 256);
  EXPECT_EQ(packing.runs.size(), 1U);
  EXPECT_EQ(packing.runs[0].offset, 1234U);
  expect_sound({&file, 1}, packing, 256);
}

TEST(Packing, new_run_where_a_tensor_would_not_be_aligned) {
  const Safetensors file = file_of({100, 4096, 8, 8, 300}, 77);
  expect_sound({&file, 1}, pack({&file, 1}, 256), 256);
  EXPECT_EQ(pack({&file, 1}, 256).runs.size(), 4U);
  EXPECT_EQ(pack({&file, 1}, 4).runs.size(), 1U);
}

TEST(Packing, files_follow_one_another) {
  const std::vector<Safetensors> files = {file_of({1000}, 8), file_of({}, 8), file_of({5, 7}, 16)};
  const Packing packing = pack(files, 64);
  expect_sound(files, packing, 64);
  EXPECT_EQ(packing.offsets[2][0], 1024U);
}

}  // namespace
}  // namespace penstock::model
