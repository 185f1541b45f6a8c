#include "penstock/load/load.h"

#include "headers.h"
#include "limits.h"

#include <algorithm>

namespace penstock::load {

using engine::DeviceId;
using engine::DeviceSpan;

namespace {

void give_back(engine::DeviceMemory& devices, const DeviceSpan& span) {
  const Status released = devices.release(span);
  if (!released.ok()) {
    log::error("GPU {}: give back {} bytes: {}", span.device.value, span.length, released.name());
  }
}

}  // namespace

Model::~Model() {
  for (const DeviceSpan& span : memory) give_back(devices_, span);
}

const Tensor* Model::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found != by_name_.end() ? &tensors[found->second] : nullptr;
}

// The steps of one load, in their order.
class Loader {
 public:
  Loader(Files& files, engine::DeviceMemory& devices, const engine::Clock& clock,
         const Request& request)
      : files_(files), devices_(devices), clock_(clock), request_(request) {}
  ~Loader() {
    for (const Link& link : order_.links) {
      if (link.staging.length > 0) give_back(devices_, link.staging);
    }
  }

  Outcome<std::unique_ptr<Model>> run() {
    TRY(check_request());
    model_ = std::make_unique<Model>(devices_);
    TRY(pack_tensors());
    TRY(allocate());
    // Not before there is memory for it: a file may say that it has terabytes.
    order_.pieces = cut(runs_, limits::kPieceBytes);
    TRY(add_lenders());
    TRY_ASSIGN(const std::vector<FileTransfers> transfers, files_.transfers(order_.links.size()));
    order_.files = request_.paths;
    order_.deadline = request_.deadline;
    order_.peers = peers();
    const engine::Time began = clock_.now();
    TRY_ASSIGN(model_->counts, distribute(order_, transfers, clock_, request_.progress));
    model_->transfer_time = clock_.now() - began;
    TRY(files_.check_unchanged());
    model_->links = order_.links;
    return std::move(model_);
  }

 private:
  Outcome<void> check_request() const;
  Outcome<void> check_device(DeviceId device) const;
  Outcome<void> pack_tensors();
  Outcome<void> add_tensor(Tensor tensor);
  Outcome<DeviceSpan> allocate_on(DeviceId device, uint64_t length) const;
  Outcome<void> allocate();
  Outcome<void> add_lenders();
  std::vector<uint64_t> peers() const;

  Files& files_;
  engine::DeviceMemory& devices_;
  const engine::Clock& clock_;
  const Request& request_;
  std::unique_ptr<Model> model_;
  Order order_;
  std::vector<model::Run> runs_;
  uint64_t memory_bytes_ = 0;  // of each device
};

Outcome<void> Loader::check_device(DeviceId device) const {
  const size_t count = devices_.devices().size();
  if (device.value < count) return {};
  return Failure{Code::invalid_argument,
                 fmt::format("GPU {}: there are {} here, from 0 on", device.value, count)};
}

Outcome<void> Loader::check_request() const {
  const auto refuse = [](std::string why) {
    return Failure{Code::invalid_argument, std::move(why)};
  };
  if (request_.paths.empty()) return refuse("no file is named");
  if (request_.paths.size() > limits::kFilesMax) {
    return refuse(fmt::format("{} files; at most {} are loaded at once", request_.paths.size(),
                              limits::kFilesMax));
  }
  if (request_.devices.empty()) return refuse("no GPU is named");
  if (!is_power_of_two(request_.alignment) || request_.alignment > limits::kAlignmentMax) {
    return refuse(fmt::format("alignment {}: it must be a power of two, at most {}",
                              request_.alignment, limits::kAlignmentMax));
  }
  std::vector<DeviceId> all = request_.devices;
  all.insert(all.end(), request_.lenders.begin(), request_.lenders.end());
  for (size_t i = 0; i < all.size(); ++i) {
    TRY(check_device(all[i]));
    if (std::find(all.begin(), all.begin() + static_cast<ptrdiff_t>(i), all[i]) !=
        all.begin() + static_cast<ptrdiff_t>(i)) {
      return refuse(fmt::format("GPU {} is named twice", all[i].value));
    }
  }
  return {};
}

Outcome<void> Loader::pack_tensors() {
  TRY_ASSIGN(std::vector<model::Safetensors> headers, read_headers(files_, request_.paths));
  model::Packing packing = model::pack(headers, request_.alignment);
  model_->files = request_.paths;
  for (uint32_t file = 0; file < headers.size(); ++file) {
    for (size_t i = 0; i < headers[file].tensors.size(); ++i) {
      TRY(add_tensor({std::move(headers[file].tensors[i]), file, packing.offsets[file][i]}));
    }
    model_->metadata.push_back(std::move(headers[file].metadata));
  }
  for (const model::Run& run : packing.runs) model_->bytes += run.length;
  runs_ = std::move(packing.runs);
  memory_bytes_ = packing.bytes;
  return {};
}

Outcome<void> Loader::add_tensor(Tensor tensor) {
  const auto [there, is_new] = model_->by_name_.emplace(tensor.name, model_->tensors.size());
  if (!is_new) {
    const Tensor& other = model_->tensors[there->second];
    return Failure{Code::already_exists,
                   fmt::format("tensor '{}' is in {} and in {}: load them apart", tensor.name,
                               request_.paths[other.file], request_.paths[tensor.file])};
  }
  model_->tensors.push_back(std::move(tensor));
  return {};
}

Outcome<DeviceSpan> Loader::allocate_on(DeviceId device, uint64_t length) const {
  Outcome<DeviceSpan> span = devices_.allocate(device, length);
  if (span || span.error().status != Code::peer_gone) return span;
  // A device that is lost is no peer of the caller's.
  return Failure{{Code::io_error, span.error().status.detail()}, span.error().message};
}

Outcome<void> Loader::allocate() {
  for (const DeviceId device : request_.devices) {
    // A model of empty tensors alone has addresses, too.
    TRY_ASSIGN(const DeviceSpan span,
               allocate_on(device, std::max(memory_bytes_, request_.alignment)));
    model_->memory.push_back(span);
    order_.links.push_back({.device = device, .staging = {}});
  }
  order_.destinations = model_->memory;
  return {};
}

// As far as is known now: a device that is used for the first time may turn out to reach fewer.
std::vector<uint64_t> Loader::peers() const {
  std::vector<uint64_t> out;
  for (const engine::DeviceFacts& facts : devices_.devices()) out.push_back(facts.peers);
  return out;
}

// Those that were named must be able to lend; of all others the ones that can do.
Outcome<void> Loader::add_lenders() {
  std::vector<DeviceId> lenders = request_.lenders;
  for (uint32_t i = 0; request_.lend_all && i < devices_.devices().size(); ++i) {
    const std::vector<DeviceId>& taken = request_.devices;
    if (std::find(taken.begin(), taken.end(), DeviceId(i)) == taken.end()) lenders.emplace_back(i);
  }
  for (const DeviceId lender : lenders) {
    if (!can_lend(lender, request_.devices, peers())) {
      if (request_.lend_all) continue;
      return Failure{
          Code::not_supported,
          fmt::format("GPU {} cannot lend its link: the GPUs that the model goes to, and "
                      "that reach one another, do not all reach its memory and it theirs",
                      lender.value)};
    }
    const Outcome<DeviceSpan> staging = allocate_on(lender, limits::kStagingBytes);
    if (staging) {
      order_.links.push_back({.device = lender, .staging = *staging});
    } else if (request_.lend_all) {
      log::info("GPU {} does not lend its link: {}", lender.value, staging.error().message);
    } else {
      return staging.error();
    }
  }
  return {};
}

Outcome<std::unique_ptr<Model>> load(Files& files, engine::DeviceMemory& devices,
                                     const engine::Clock& clock, const Request& request) {
  return Loader(files, devices, clock, request).run();
}

}  // namespace penstock::load
