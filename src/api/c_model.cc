// penstock_model.h: what was loaded.
#include "border.h"
#include "devices.h"
#include "model_options.h"

#include <cerrno>
#include <cstring>

#include "penstock/load.h"

using namespace penstock;       // NOLINT: this file is the C border
using namespace penstock::api;  // NOLINT

namespace penstock::api {
namespace {

static_assert(PENSTOCK_ROUTES >= engine::kRouteCount);

void describe(const load::Tensor& tensor, penstock_tensor* out) {
  *out = {};
  out->name = tensor.name.c_str();
  out->dtype = tensor.dtype.c_str();
  out->shape = tensor.shape.data();
  out->rank = static_cast<uint32_t>(tensor.shape.size());
  out->file = tensor.file;
  out->bytes = tensor.bytes;
  out->offset = tensor.memory_offset;
}

}  // namespace
}  // namespace penstock::api

uint64_t penstock_model_tensors(const penstock_model* model) {
  return model != nullptr ? from_handle(model)->tensors.size() : 0;
}

int penstock_model_tensor(const penstock_model* model, uint64_t index, penstock_tensor* tensor) {
  if (model == nullptr || tensor == nullptr) return fail_with(EINVAL, "tensor: a null pointer");
  const std::vector<load::Tensor>& all = from_handle(model)->tensors;
  if (index >= all.size()) {
    return fail(EINVAL, fmt::format("tensor {}: the model has {}", index, all.size()));
  }
  describe(all[index], tensor);
  return 0;
}

int penstock_model_find(const penstock_model* model, const char* name, penstock_tensor* tensor) {
  if (model == nullptr || name == nullptr || tensor == nullptr) {
    return fail_with(EINVAL, "find: a null pointer");
  }
  const load::Tensor* const found = from_handle(model)->find(name);
  if (found == nullptr) return fail(ENOENT, fmt::format("the model has no tensor '{}'", name));
  describe(*found, tensor);
  return 0;
}

void* penstock_model_base(const penstock_model* model, uint32_t which, uint64_t* size) {
  const bool is_there = model != nullptr && which < from_handle(model)->memory.size();
  if (size != nullptr) *size = is_there ? from_handle(model)->memory[which].length : 0;
  return is_there ? from_handle(model)->memory[which].data : nullptr;
}

int penstock_model_export(const penstock_model* model, uint32_t which,
                          penstock_device_handle* handle) {
  if (model == nullptr || handle == nullptr) return fail_with(EINVAL, "export: a null pointer");
  const std::vector<engine::DeviceSpan>& memory = from_handle(model)->memory;
  if (which >= memory.size()) {
    return fail(EINVAL, fmt::format("export: the model is on {} GPUs", memory.size()));
  }
  return export_span(memory[which], handle);
}

const char* penstock_model_metadata(const penstock_model* model, uint32_t file, const char* key) {
  if (model == nullptr || key == nullptr) return nullptr;
  const auto& all = from_handle(model)->metadata;
  if (file >= all.size()) return nullptr;
  const auto found = all[file].find(key);
  return found != all[file].end() ? found->second.c_str() : nullptr;
}

int penstock_model_each_metadata(const penstock_model* model,
                                 int (*visit)(void* context, uint32_t file, const char* key,
                                              const char* value),
                                 void* context) {
  if (model == nullptr || visit == nullptr) return fail_with(EINVAL, "metadata: a null pointer");
  const auto& all = from_handle(model)->metadata;
  for (uint32_t file = 0; file < all.size(); ++file) {
    for (const auto& [key, value] : all[file]) {
      if (visit(context, file, key.c_str(), value.c_str()) != 0) return 0;
    }
  }
  return 0;
}

int penstock_model_get_traffic(const penstock_model* model, penstock_model_traffic* traffic) {
  if (model == nullptr || traffic == nullptr) return fail_with(EINVAL, "traffic: a null pointer");
  const load::Model& loaded = *from_handle(model);
  *traffic = {};
  traffic->bytes = loaded.bytes;
  traffic->nanoseconds = static_cast<uint64_t>(loaded.transfer_time.count());
  traffic->links = static_cast<uint32_t>(loaded.links.size());
  std::copy(loaded.counts.routes.begin(), loaded.counts.routes.end(), traffic->by_route);
  return 0;
}

int penstock_model_get_link(const penstock_model* model, uint32_t index,
                            penstock_model_link* link) {
  if (model == nullptr || link == nullptr) return fail_with(EINVAL, "link: a null pointer");
  const load::Model& loaded = *from_handle(model);
  if (index >= loaded.links.size()) {
    return fail(EINVAL, fmt::format("link {}: there are {}", index, loaded.links.size()));
  }
  *link = {};
  link->gpu = static_cast<int32_t>(loaded.links[index].device.value);
  link->lends = index >= loaded.memory.size() ? 1 : 0;
  link->bytes = loaded.counts.links[index].bytes;
  link->forwarded = loaded.counts.links[index].forwarded;
  return 0;
}
