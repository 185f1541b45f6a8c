// penstock_model.h: saving.
#include "devices.h"
#include "handles.h"
#include "model_options.h"

#include <cerrno>

#include "penstock/load.h"

using namespace penstock;       // NOLINT: this file is the C border
using namespace penstock::api;  // NOLINT

namespace penstock::api {
namespace {

// The memory is a GPU's, or this process's own; `gpus` is null where there are none.
Outcome<load::SavedTensor> tensor_from(const penstock_save_tensor& given,
                                       engine::DeviceMemory* gpus) {
  if (given.name == nullptr || given.dtype == nullptr) return wrong("a tensor without a name");
  if (given.reserved != 0) {
    return wrong(
        fmt::format("tensor '{}': a field that must be 0 is {}", given.name, given.reserved));
  }
  if (given.rank > model::kRankMax || (given.rank > 0 && given.shape == nullptr)) {
    return wrong(fmt::format("tensor '{}': rank {}, or no shape", given.name, given.rank));
  }
  load::SavedTensor out;
  out.tensor.name = given.name;
  out.tensor.dtype = given.dtype;
  out.tensor.shape.assign(given.shape, given.shape + given.rank);
  const Outcome<uint64_t> bytes = model::bytes_of(out.tensor);
  if (!bytes) return wrong(fmt::format("tensor '{}': {}", given.name, bytes.error().message));
  if (*bytes == 0) return out;
  if (given.data == nullptr) return wrong(fmt::format("tensor '{}': no memory", given.name));
  const auto* const host = static_cast<const std::byte*>(given.data);
  out.host = {host, *bytes};
  if (gpus == nullptr) return out;
  const Result<engine::DeviceSpan> span = gpus->find(given.data, *bytes);
  if (span) {
    out.host = {};
    out.device = *span;
    return out;
  }
  // What the driver does not know is host memory. When it cannot tell, the address may be a GPU's,
  // which the host must not read.
  if (span.error() == Code::not_found) return out;
  return find_failure(fmt::format("tensor '{}'", given.name), span.error());
}

Outcome<void> take_metadata(const penstock_save_options& options, load::SaveRequest* request) {
  if (options.metadata == nullptr && options.metadata_pairs > 0) return wrong("no metadata");
  for (uint32_t i = 0; i < options.metadata_pairs; ++i) {
    const char* const key = options.metadata[2 * i];
    const char* const value = options.metadata[2 * i + 1];
    if (key == nullptr || value == nullptr) return wrong("metadata: a null pointer");
    if (request->metadata.emplace(key, value).second) continue;
    return wrong(fmt::format("metadata: '{}' comes twice", key));
  }
  return {};
}

Outcome<void> save_tensors(penstock_session* session, const char* path,
                           std::span<const penstock_save_tensor> tensors,
                           const penstock_save_options& options) {
  load::SaveRequest request;
  request.deadline = deadline_from(options.deadline);
  request.progress = progress_from(options.progress, options.context);
  TRY(take_metadata(options, &request));
  // Without GPUs all memory is host memory.
  const Outcome<engine::DeviceMemory*> found = devices();
  engine::DeviceMemory* const gpus = found ? *found : nullptr;
  for (const penstock_save_tensor& tensor : tensors) {
    TRY_ASSIGN(load::SavedTensor one, tensor_from(tensor, gpus));
    request.tensors.push_back(std::move(one));
  }
  NewFileOrder order{.path = path, .devices = gpus, .deadline = request.deadline};
  if (options.mode != 0) order.mode = options.mode & 07777;
  const auto write = [&](load::NewFile& file) {
    return load::save(file, engine::system_clock(), std::move(request));
  };
  if (session != nullptr) {
    const CallsEndBy bound(with_grace(order.deadline));
    TRY_ASSIGN(const auto file, SessionNewFile::create(session_of(session), std::move(order)));
    return write(*file);
  }
  TRY_ASSIGN(const auto file, LocalNewFile::create(std::move(order)));
  return write(*file);
}

}  // namespace
}  // namespace penstock::api

int penstock_save(penstock_session* session, const char* path, const penstock_save_tensor* tensors,
                  uint64_t count, const penstock_save_options* options) {
  int error = 0;
  if (session != nullptr) {
    error = check_session(session, "save");
    if (error == 0) error = check_path(path, "save");
  }
  if (error != 0) return error;
  if (path == nullptr || (tensors == nullptr && count > 0)) {
    return fail_with(EINVAL, "save: a null pointer");
  }
  if (count > model::kTensorsMax) return fail_with(EINVAL, "save: more than a million tensors");
  penstock_save_options given{};
  if (options != nullptr && !take_options(*options, &given)) {
    return fail_with(EINVAL, "save: options of a size that this library does not know");
  }
  const Outcome<void> saved = save_tensors(session, path, {tensors, count}, given);
  if (saved) return 0;
  return fail({saved.error().status, fmt::format("save {}: {}", path, saved.error().message)});
}
