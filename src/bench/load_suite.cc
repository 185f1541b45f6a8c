#include "load_suite.h"

#include "comparison.h"
#include "gpu_reference.h"
#include "penstock_model.h"
#include "torch_reference.h"

#include <algorithm>
#include <cstdio>
#include <thread>

#include "penstock/bench.h"
#include "penstock/console.h"
#include "penstock/gpu.h"

namespace penstock::bench {
namespace {

// As those of a language model are: a few large tensors in each layer, and small ones between.
constexpr uint64_t kLargeBytes = 64 * kMiB;
constexpr uint64_t kSmallBytes = 16 * kKiB;

// Makes a file of at least so many bytes; returns how many its tensors have.
Outcome<uint64_t> make_model(penstock_session* session, const std::string& path, uint64_t bytes) {
  std::vector<uint64_t> words(kLargeBytes / sizeof(uint64_t));
  engine::SeededRandom random(7);
  for (uint64_t& word : words) word = random.next();
  const uint64_t large[] = {kLargeBytes / 2};
  const uint64_t small[] = {kSmallBytes / 2};
  std::vector<std::string> names;
  uint64_t total = 0;
  while (total < bytes) {
    total += names.size() % 4 == 0 ? kSmallBytes : kLargeBytes;
    names.push_back(fmt::format("layers.{}.tensor.{}", names.size() / 4, names.size() % 4));
  }
  std::vector<penstock_save_tensor> tensors;
  for (size_t i = 0; i < names.size(); ++i) {
    penstock_save_tensor one{};
    one.name = names[i].c_str();
    one.dtype = "BF16";
    one.shape = i % 4 == 0 ? small : large;
    one.rank = 1;
    one.data = words.data();
    tensors.push_back(one);
  }
  const int error = penstock_save(session, path.c_str(), tensors.data(), tensors.size(), nullptr);
  if (error != 0) return console::api_failure(error);
  return total;
}

// A way of loading: onto which GPUs, with whose links.
struct Shape {
  const char* name;
  const char* title;
  uint32_t gpus = 1;
  uint32_t lenders = 0;
  double budget = 0;  // of the bandwidth of one link
};
constexpr Shape kShapes[] = {
    {.name = "one", .title = "one GPU", .budget = 0.95},
    {.name = "two", .title = "two GPUs", .gpus = 2, .budget = 1 / 0.55},
    {.name = "four", .title = "four GPUs", .gpus = 4, .budget = 1 / 0.3},
    {.name = "lend1", .title = "one GPU, a neighbour lends", .lenders = 1, .budget = 1.8},
    {.name = "lend3", .title = "one GPU, three neighbours lend", .lenders = 3, .budget = 3.3},
};

// A model's file: in the file system of a session, or (`session` null) of this machine.
struct ModelFile {
  console::Session session;
  std::string path;
};

// One source that models are loaded from.
class LoadBench {
 public:
  LoadBench(const BenchOptions& options, GpuReference& reference, uint32_t gpus, const char* source,
            ModelFile model, std::vector<BenchLine>* lines)
      : options_(options),
        reference_(reference),
        gpus_(gpus),
        source_(source),
        model_(std::move(model)),
        lines_(lines) {}

  // Loads until all bytes come from the node cache itself: the library pins it meanwhile.
  Outcome<void> load_until_pinned() const {
    for (int tries = 0; tries < 600; ++tries) {
      TRY_ASSIGN(const console::Model model, load(kShapes[0]));
      penstock_model_traffic traffic{};
      if (penstock_model_get_traffic(model.get(), &traffic) == 0 &&
          traffic.by_route[PENSTOCK_ROUTE_DEVICE_SLOTS] == 0) {
        return {};
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return Failure{Code::timed_out, "bench: the node cache could not be pinned within a minute"};
  }

  // Each shape that there are GPUs for, beside bare copies over one link. Only the time in which
  // bytes move counts.
  Outcome<void> compare_shapes(bool with_budgets) const {
    for (const Shape& shape : kShapes) {
      if (shape.gpus + shape.lenders > gpus_) {
        std::fprintf(stderr, "load from %s, %s: left out: there are %u GPUs\n", source_.c_str(),
                     shape.title, gpus_);
        continue;
      }
      TRY(compare(shape, with_budgets));
    }
    return {};
  }

  // The whole call, with headers and memory, beside PyTorch's.
  Outcome<void> compare_calls(TorchReference& torch) const {
    std::fprintf(stderr, "load from %s, beside safetensors.torch ", source_.c_str());
    Comparison comparison(options_.rounds);
    TRY(comparison.run([&] { return run(kShapes[0], true); }, [&] { return torch.run(); }));
    BenchLine line = comparison.line({}, false);
    line.name = fmt::format("load.{}.one.call", source_);
    line.title = fmt::format("load from {} onto one GPU, the whole call", source_);
    line.budget = 8;
    line.note = "safetensors.torch.load_file onto the same GPU, the same file, warm";
    finish(std::move(line));
    return {};
  }

 private:
  Outcome<console::Model> load(const Shape& shape) const {
    std::vector<int32_t> gpus, lenders;
    for (uint32_t i = 0; i < shape.gpus; ++i) gpus.push_back(static_cast<int32_t>(i));
    for (uint32_t i = 0; i < shape.lenders; ++i) {
      lenders.push_back(static_cast<int32_t>(shape.gpus + i));
    }
    penstock_load_options how{};
    how.size = sizeof how;
    how.gpus = gpus.data();
    how.gpu_count = static_cast<uint32_t>(gpus.size());
    how.lenders = lenders.empty() ? nullptr : lenders.data();
    how.lender_count = static_cast<uint32_t>(lenders.size());
    how.threads = options_.threads > 1 ? options_.threads : 0;
    const char* const path = model_.path.c_str();
    penstock_model* model = nullptr;
    const int error = penstock_load(model_.session.get(), &path, 1, &how, &model);
    if (error != 0) return console::api_failure(error);
    return console::Model(model);
  }

  Outcome<Measurement> run(const Shape& shape, bool whole_call) const {
    Measurement result;
    const ProcessMeter meter;
    TRY_ASSIGN(const console::Model model, load(shape));
    meter.stop(&result);
    penstock_model_traffic traffic{};
    (void)penstock_model_get_traffic(model.get(), &traffic);
    result.operations = 1;
    result.bytes = traffic.bytes;
    if (!whole_call) result.seconds = static_cast<double>(traffic.nanoseconds) / 1e9;
    return result;
  }

  Outcome<void> compare(const Shape& shape, bool with_budgets) const {
    std::fprintf(stderr, "load from %s, %s ", source_.c_str(), shape.title);
    Comparison comparison(options_.rounds);
    TRY(comparison.run([&] { return run(shape, false); },
                       [&] {
                         return reference_.run({.means = engine::CopyMeans::copy_engine,
                                                .piece_bytes = 64 * kMiB,
                                                .seconds = std::min(options_.seconds, 0.5)});
                       }));
    BenchLine line = comparison.line({}, false);
    line.name = fmt::format("load.{}.{}", source_, shape.name);
    line.title = fmt::format("load from {} onto {}", source_, shape.title);
    if (with_budgets) line.budget = shape.budget;
    line.note = "pinned copies of 64 MiB onto GPU 0 over its own link, two in flight";
    finish(std::move(line));
    return {};
  }

  void finish(BenchLine line) const {
    line.latency.clear();
    line.system_calls.clear();
    line.allocations.clear();
    std::fprintf(stderr, " %.2f\n", line.ratio.value_or(0));
    lines_->push_back(std::move(line));
  }

  const BenchOptions& options_;
  GpuReference& reference_;
  const uint32_t gpus_;
  const std::string source_;
  const ModelFile model_;
  std::vector<BenchLine>* const lines_;
};

Outcome<void> cache_lines(const BenchOptions& options, GpuReference& reference, uint32_t gpus,
                          std::vector<BenchLine>* lines) {
  const uint64_t bytes = options.file_bytes;
  auto scratch = Scratch::create(options.directory, bytes + kGiB);
  if (!scratch) return scratch.error();
  const std::string store = scratch->path() + "/store";
  TRY_ASSIGN(const auto node, BenchNode::start(store, bytes + kGiB));
  TRY_ASSIGN(const uint64_t made, make_model(node->session(), "/model", bytes));
  struct stat facts {};
  if (penstock_stat(node->session(), "/model", &facts) != 0 ||
      static_cast<uint64_t>(facts.st_size) < made) {
    return Failure{Code::io_error, "bench: the model was not saved whole"};
  }
  TRY(warm_up(node->session(), "/model", static_cast<uint64_t>(facts.st_size)));
  ModelFile model;
  TRY_ASSIGN(model.session, console::connect_session(store));
  model.path = "/model";
  const LoadBench bench(options, reference, gpus, "cache", std::move(model), lines);
  TRY(bench.load_until_pinned());
  return bench.compare_shapes(true);
}

Outcome<void> local_lines(const BenchOptions& options, GpuReference& reference, uint32_t gpus,
                          std::vector<BenchLine>* lines) {
  auto scratch = Scratch::create("/dev/shm", options.file_bytes + 128 * kMiB);
  if (!scratch) return scratch.error();
  ModelFile model;
  model.path = scratch->path() + "/model.safetensors";
  TRY_ASSIGN(const uint64_t bytes, make_model(nullptr, model.path, options.file_bytes));
  const std::string file = model.path;
  const LoadBench bench(options, reference, gpus, "tmpfs", std::move(model), lines);
  TRY(bench.compare_shapes(false));
  const auto torch = TorchReference::start(file, bytes);
  if (torch) return bench.compare_calls(**torch);
  std::fprintf(stderr, "beside safetensors.torch: left out: %s\n", torch.error().message.c_str());
  return {};
}

}  // namespace

Outcome<void> load_suite(const BenchOptions& options, std::vector<BenchLine>* lines) {
  const Outcome<engine::DeviceMemory*> devices = gpu::devices();
  if (!devices) {
    std::fprintf(stderr, "load: skipped: %s\n", devices.error().message.c_str());
    return {};
  }
  const auto gpus = static_cast<uint32_t>((*devices)->devices().size());
  TRY_ASSIGN(const auto reference,
             GpuReference::create(**devices, engine::DeviceId(0),
                                  std::min<uint64_t>(options.file_bytes, 2 * kGiB)));
  TRY(cache_lines(options, *reference, gpus, lines));
  return local_lines(options, *reference, gpus, lines);
}

}  // namespace penstock::bench
