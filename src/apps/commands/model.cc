#include "model.h"

#include <algorithm>

#include "penstock/console.h"

namespace penstock::apps {
namespace {

std::vector<penstock_model_link> links_of(const console::Model& model, uint32_t count) {
  std::vector<penstock_model_link> links(count);
  for (uint32_t i = 0; i < count; ++i) {
    if (penstock_model_get_link(model.get(), i, &links[i]) != 0) links.resize(i);
  }
  return links;
}

double rate(uint64_t bytes, double seconds) {
  return seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
}

double seconds_of(const penstock_model_traffic& traffic) {
  return static_cast<double>(traffic.nanoseconds) / 1e9;
}

}  // namespace

int tell_progress(void* context, uint64_t done, uint64_t total) {
  auto& progress = *static_cast<console::Progress*>(context);
  progress.bytes_total = total;
  progress.totals_known = true;
  progress.bytes = done;
  return 0;
}

Outcome<console::Model> load_model(const ModelFiles& models, const LoadOptions& options,
                                   console::Progress* progress) {
  std::vector<const char*> paths;
  for (const std::string& path : models.paths) paths.push_back(path.c_str());
  penstock_load_options given{};
  given.size = sizeof given;
  given.gpus = options.gpus.data();
  given.gpu_count = static_cast<uint32_t>(options.gpus.size());
  given.lenders = options.lenders.empty() ? nullptr : options.lenders.data();
  given.lender_count = static_cast<uint32_t>(options.lenders.size());
  given.lend_all = options.lend_all ? 1 : 0;
  given.threads = options.threads;
  given.alignment = options.alignment;
  given.progress = tell_progress;
  given.context = progress;
  progress->files_total = paths.size();
  penstock_model* model = nullptr;
  const int error = penstock_load(models.session.get(), paths.data(),
                                  static_cast<uint32_t>(paths.size()), &given, &model);
  if (error != 0) return console::api_failure(error);
  progress->files = paths.size();
  return console::Model(model);
}

Json describe(const console::Model& model, double seconds) {
  penstock_model_traffic traffic{};
  if (penstock_model_get_traffic(model.get(), &traffic) != 0) return {};
  Json out = {{"tensors", penstock_model_tensors(model.get())},
              {"bytes", traffic.bytes},
              {"seconds", seconds},
              {"transfer_seconds", seconds_of(traffic)},
              {"bytes_per_second", rate(traffic.bytes, seconds_of(traffic))},
              {"links", Json::array()},
              {"routes", Json::object()}};
  for (const penstock_model_link& link : links_of(model, traffic.links)) {
    out["links"].push_back({{"gpu", link.gpu},
                            {"lends", link.lends != 0},
                            {"bytes", link.bytes},
                            {"forwarded", link.forwarded}});
  }
  for (uint32_t route = 0; route < PENSTOCK_ROUTES; ++route) {
    const uint64_t bytes = traffic.by_route[route];
    if (bytes > 0) out["routes"][penstock_route_name(static_cast<penstock_route>(route))] = bytes;
  }
  return out;
}

std::string describe_for_people(const console::Model& model, double seconds) {
  penstock_model_traffic traffic{};
  if (penstock_model_get_traffic(model.get(), &traffic) != 0) return {};
  const auto bytes = [](uint64_t count) {
    return console::human_bytes(static_cast<double>(count));
  };
  const double moving = seconds_of(traffic);
  std::string out = fmt::format("{} tensors, {}, in {} ({} at {} while bytes moved)\n",
                                penstock_model_tensors(model.get()), bytes(traffic.bytes),
                                console::human_duration(seconds), fmt::format("{:.3f} s", moving),
                                console::human_rate(rate(traffic.bytes, moving)));
  console::Table links({"link of", "from host memory", "rate", "on to other GPUs"});
  for (const penstock_model_link& link : links_of(model, traffic.links)) {
    links.add({fmt::format("GPU {}{}", link.gpu, link.lends != 0 ? " (lent)" : ""),
               bytes(link.bytes), console::human_rate(rate(link.bytes, moving)),
               bytes(link.forwarded)});
  }
  console::Table routes({"route", "bytes"});
  for (uint32_t route = 0; route < PENSTOCK_ROUTES; ++route) {
    if (traffic.by_route[route] == 0) continue;
    routes.add(
        {penstock_route_name(static_cast<penstock_route>(route)), bytes(traffic.by_route[route])});
  }
  return out + "\n" + links.text() + "\n" + routes.text();
}

}  // namespace penstock::apps
