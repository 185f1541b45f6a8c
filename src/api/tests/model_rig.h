// Simulated GPUs under the C interface, and safetensors files with known tensors.
#pragma once

#include "client.h"
#include "devices.h"
#include "penstock_model.h"

#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <vector>

#include "penstock/model.h"
#include "penstock/sim.h"

namespace penstock::api {

// The content of a safetensors file in which every byte tells its tensor and its place there.
struct ModelFile {
  std::vector<model::Tensor> tensors;
  std::string bytes;

  static uint64_t seed_of(const std::string& name) {
    return std::hash<std::string>()(name) % 1'000'003;
  }
  static ModelFile make(const std::vector<std::pair<std::string, uint64_t>>& sizes,
                        const std::map<std::string, std::string>& metadata = {}) {
    ModelFile file;
    for (const auto& [name, size] : sizes) {
      file.tensors.push_back({.name = name, .dtype = "U8", .shape = {size}, .bytes = size});
    }
    file.bytes = model::make_header(&file.tensors, metadata);
    for (const model::Tensor& tensor : file.tensors) {
      file.bytes.resize(tensor.offset + tensor.bytes);
      auto* const to = reinterpret_cast<std::byte*>(file.bytes.data()) + tensor.offset;
      test::fill({to, tensor.bytes}, seed_of(tensor.name));
    }
    return file;
  }
};

inline void write_local(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// A model that was loaded, freed at the end.
class Loaded {
 public:
  Loaded() = default;
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  ~Loaded() { penstock_model_free(model); }

  // Onto these GPUs, unless the options name others.
  int load(penstock_session* session, const std::vector<std::string>& paths,
           const std::vector<int32_t>& gpus, penstock_load_options options = {}) {
    if (options.size == 0) options.size = sizeof options;
    if (options.gpus == nullptr && options.gpu_count == 0) {
      options.gpus = gpus.data();
      options.gpu_count = static_cast<uint32_t>(gpus.size());
    }
    std::vector<const char*> names;
    for (const std::string& path : paths) names.push_back(path.c_str());
    return penstock_load(session, names.data(), static_cast<uint32_t>(names.size()), &options,
                         &model);
  }

  penstock_model* model = nullptr;
};

class ModelTest : public testing::Test {
 protected:
  explicit ModelTest(uint32_t gpus = 4)
      : gpus_(random_, {.devices = gpus, .memory_bytes = 160 * kMiB}) {
    replace_devices(&gpus_);
  }
  ~ModelTest() override { replace_devices(nullptr); }

  // Whether every tensor of these files is there, whole, on GPU number `which` of the model.
  testing::AssertionResult holds(const penstock_model* model, uint32_t which,
                                 const std::vector<const ModelFile*>& files) {
    uint64_t size = 0;
    auto* const base = static_cast<std::byte*>(penstock_model_base(model, which, &size));
    if (base == nullptr) return testing::AssertionFailure() << "no GPU number " << which;
    uint64_t count = 0;
    for (const ModelFile* const file : files) {
      for (const model::Tensor& tensor : file->tensors) {
        penstock_tensor found{};
        if (penstock_model_find(model, tensor.name.c_str(), &found) != 0 ||
            found.bytes != tensor.bytes || !range_within(found.offset, found.bytes, size)) {
          return testing::AssertionFailure() << tensor.name << " is not there";
        }
        std::vector<std::byte> got(found.bytes);
        gpus_.peek(base + found.offset, got);
        if (!test::is_content({got.data(), got.size()}, ModelFile::seed_of(tensor.name))) {
          return testing::AssertionFailure() << tensor.name << " has other bytes";
        }
        ++count;
      }
    }
    if (count == penstock_model_tensors(model)) return testing::AssertionSuccess();
    return testing::AssertionFailure() << penstock_model_tensors(model) << " tensors";
  }
  // Nothing of a load is left on any GPU: all of its memory can be had.
  testing::AssertionResult all_memory_is_free() {
    for (uint32_t gpu = 0; gpu < gpus_.devices().size(); ++gpu) {
      const auto span =
          gpus_.allocate(engine::DeviceId(gpu), gpus_.devices()[gpu].memory_bytes - kMiB);
      if (!span) return testing::AssertionFailure() << "GPU " << gpu << " is not empty";
      (void)!gpus_.release(*span).ok();
    }
    return testing::AssertionSuccess();
  }

  test::ScratchDirectory scratch_;
  engine::SeededRandom random_{1};
  sim::SimDeviceMemory gpus_;
};

}  // namespace penstock::api
