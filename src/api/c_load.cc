// penstock_model.h: loading.
#include "devices.h"
#include "handles.h"
#include "model_options.h"

#include <algorithm>
#include <cerrno>
#include <thread>

#include "penstock/load.h"

using namespace penstock;       // NOLINT: this file is the C border
using namespace penstock::api;  // NOLINT

namespace penstock::api {
namespace {

std::vector<engine::DeviceId> devices_of(const int32_t* numbers, uint32_t count) {
  std::vector<engine::DeviceId> out;
  // A negative number is no GPU's, whatever is made of it.
  for (uint32_t i = 0; i < count; ++i) out.emplace_back(static_cast<uint32_t>(numbers[i]));
  return out;
}

uint32_t usual_threads() {
  return std::clamp(std::thread::hardware_concurrency() / 2, files::limits::kLocalThreads,
                    files::limits::kLocalThreadsMany);
}

Outcome<void> check(const penstock_load_options& options) {
  if ((options.gpus != nullptr) != (options.gpu_count > 0)) {
    return wrong("gpus and gpu_count do not agree");
  }
  if ((options.lenders != nullptr) != (options.lender_count > 0)) {
    return wrong("lenders and lender_count do not agree");
  }
  if (options.gpu_count > engine::kDevicesMax || options.lender_count > engine::kDevicesMax) {
    return wrong(fmt::format("more GPUs than {}", engine::kDevicesMax));
  }
  if (options.lend_all > 1 || (options.lend_all == 1 && options.lender_count > 0)) {
    return wrong("lend_all is 0, or 1 without lenders");
  }
  if (options.threads > files::limits::kLocalThreadsMax) {
    return wrong(fmt::format("{} threads; {} are the most", options.threads,
                             files::limits::kLocalThreadsMax));
  }
  return {};
}

Outcome<load::Request> request_of(penstock_session* session, const char* const* paths,
                                  uint32_t count, const penstock_load_options& options) {
  TRY(check(options));
  if (paths == nullptr && count > 0) return wrong("no paths");
  load::Request request;
  for (uint32_t i = 0; i < count; ++i) {
    if (paths[i] == nullptr || paths[i][0] == '\0') return wrong("an empty path");
    if (session != nullptr && paths[i][0] != '/') {
      return wrong(fmt::format("{}: not an absolute path", paths[i]));
    }
    request.paths.emplace_back(paths[i]);
  }
  request.devices = devices_of(options.gpus, options.gpu_count);
  if (request.devices.empty()) request.devices.emplace_back(0U);
  request.lenders = devices_of(options.lenders, options.lender_count);
  request.lend_all = options.lend_all != 0;
  if (options.alignment != 0) request.alignment = options.alignment;
  request.deadline = deadline_from(options.deadline);
  request.progress = progress_from(options.progress, options.context);
  return request;
}

Outcome<std::unique_ptr<load::Model>> load_model(penstock_session* session,
                                                 const char* const* paths, uint32_t count,
                                                 const penstock_load_options& options) {
  TRY_ASSIGN(const load::Request request, request_of(session, paths, count, options));
  TRY_ASSIGN(engine::DeviceMemory * gpus, devices());
  if (session != nullptr) {
    const CallsEndBy bound(with_grace(request.deadline));
    SessionFiles files(session_of(session), *gpus, request.deadline);
    return load::load(files, *gpus, engine::system_clock(), request);
  }
  LocalFiles files(*gpus, options.threads != 0 ? options.threads : usual_threads());
  return load::load(files, *gpus, engine::system_clock(), request);
}

}  // namespace
}  // namespace penstock::api

int penstock_load(penstock_session* session, const char* const* paths, uint32_t count,
                  const penstock_load_options* options, penstock_model** model) {
  const int error = session != nullptr ? check_session(session, "load") : 0;
  if (error != 0) return error;
  if (model == nullptr) return fail_with(EINVAL, "load: no place for the result");
  penstock_load_options given{};
  if (options != nullptr && !take_options(*options, &given)) {
    return fail_with(EINVAL, "load: options of a size that this library does not know");
  }
  Outcome<std::unique_ptr<load::Model>> loaded = load_model(session, paths, count, given);
  if (!loaded) return fail({loaded.error().status, "load: " + loaded.error().message});
  *model = to_handle(loaded->release());
  return 0;
}

void penstock_model_free(penstock_model* model) {
  delete from_handle(model);
}
