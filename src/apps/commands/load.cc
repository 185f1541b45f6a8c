// `penstock load` and `penstock save`: models between files and GPU memory.
#include "commands.h"
#include "model.h"

#include <cstdio>

#include "penstock/console.h"

namespace penstock::apps {
namespace {

// What penstock_save() is told of a model that is in GPU memory: views of it, and of `model`.
std::vector<penstock_save_tensor> tensors_of(const console::Model& model) {
  std::vector<penstock_save_tensor> out;
  const auto* const base =
      static_cast<const std::byte*>(penstock_model_base(model.get(), 0, nullptr));
  for (uint64_t i = 0; i < penstock_model_tensors(model.get()); ++i) {
    penstock_tensor tensor{};
    if (penstock_model_tensor(model.get(), i, &tensor) != 0) continue;
    penstock_save_tensor one{};
    one.name = tensor.name;
    one.dtype = tensor.dtype;
    one.shape = tensor.shape;
    one.rank = tensor.rank;
    one.data = base + tensor.offset;
    out.push_back(one);
  }
  return out;
}

std::vector<const char*> metadata_of(const console::Model& model) {
  std::vector<const char*> out;
  const auto visit = [](void* context, uint32_t, const char* key, const char* value) {
    auto& pairs = *static_cast<std::vector<const char*>*>(context);
    pairs.push_back(key);
    pairs.push_back(value);
    return 0;
  };
  (void)penstock_model_each_metadata(model.get(), visit, &out);
  return out;
}

Outcome<void> save_model(const console::Model& model, const ModelFiles& to,
                         console::Progress* progress) {
  const std::vector<penstock_save_tensor> tensors = tensors_of(model);
  const std::vector<const char*> metadata = metadata_of(model);
  penstock_save_options options{};
  options.size = sizeof options;
  options.metadata = metadata.data();
  options.metadata_pairs = static_cast<uint32_t>(metadata.size() / 2);
  options.progress = tell_progress;
  options.context = progress;
  progress->files_total = 1;
  const int error = penstock_save(to.session.get(), to.paths.front().c_str(), tensors.data(),
                                  tensors.size(), &options);
  if (error != 0) return console::api_failure(error);
  progress->files = 1;
  return {};
}

}  // namespace

int run_load(const LoadOptions& options) {
  const Outcome<ModelFiles> models = find_models(options.paths, options.store);
  if (!models) return fail("load", models.error());
  const Outcome<void> readable = check_readable(*models);
  if (!readable) return fail("load", readable.error());
  console::Progress progress("load", options.quiet);
  const Outcome<console::Model> model = load_model(*models, options, &progress);
  progress.finish(model.has_value());
  // What the library says begins with the name of the call.
  if (!model) return fail_plainly(model.error());
  const double seconds = progress.seconds();
  if (options.json) {
    std::printf("%s\n", describe(*model, seconds).dump(2).c_str());
  } else if (!options.quiet) {
    std::printf("%s", describe_for_people(*model, seconds).c_str());
  }
  return kExitOk;
}

int run_save(const SaveOptions& options) {
  const Outcome<ModelFiles> from = find_models({options.source}, options.store);
  if (!from) return fail("save", from.error());
  const Outcome<void> readable = check_readable(*from);
  if (!readable) return fail("save", readable.error());
  const Outcome<ModelFiles> to = find_models({options.destination}, options.store);
  if (!to) return fail("save", to.error());
  LoadOptions load;
  load.gpus = {options.gpu};
  console::Progress loading("load", options.quiet);
  const Outcome<console::Model> model = load_model(*from, load, &loading);
  loading.finish(model.has_value());
  // The library names the step, which is not all that was asked for.
  if (!model) return fail("save", model.error());
  console::Progress saving("save", options.quiet);
  const Outcome<void> saved = save_model(*model, *to, &saving);
  saving.finish(saved.has_value());
  if (!saved) return fail_plainly(saved.error());
  const double seconds = saving.seconds();
  const auto bytes = static_cast<double>(saving.bytes.load());
  if (options.json) {
    const Json json = {{"tensors", penstock_model_tensors(model->get())},
                       {"bytes", saving.bytes.load()},
                       {"seconds", seconds},
                       {"bytes_per_second", bytes / seconds}};
    std::printf("%s\n", json.dump(2).c_str());
  } else if (!options.quiet) {
    std::printf("%lu tensors, %s, from the memory of GPU %d to stable storage in %s (%s)\n",
                penstock_model_tensors(model->get()), console::human_bytes(bytes).c_str(),
                options.gpu, console::human_duration(seconds).c_str(),
                console::human_rate(bytes / seconds).c_str());
  }
  return kExitOk;
}

}  // namespace penstock::apps
