#include "gpu_check.h"

#include "gpu_network.h"
#include "local_ways.h"

#include <filesystem>

#include "penstock/bench.h"

namespace penstock::apps {
namespace {

using engine::DeviceId;

bool has_peer_memory() {
  std::error_code error;
  for (const auto& device : std::filesystem::directory_iterator("/sys/bus/pci/devices", error)) {
    if (std::filesystem::exists(device.path() / "p2pmem", error)) return true;
  }
  return false;
}

// What would spare the way through host memory, and why it is not there.
std::string why_not_straight_from_disk() {
  if (std::filesystem::exists("/proc/driver/nvidia-fs") || has_peer_memory()) {
    return "straight from disk: not supported yet";
  }
  return "straight from disk: the kernel has neither nvidia-fs nor PCI peer-to-peer memory";
}

// The library maps the node cache and pins it beside the reads, soon after the first that could use
// it.
Outcome<bool> wait_for_cache(penstock_session* session, bench::Workload workload) {
  workload.seconds = 0.05;
  const engine::Clock& clock = engine::system_clock();
  const engine::Time until = clock.now() + std::chrono::seconds(10);
  while (clock.now() < until) {
    workload.route = PENSTOCK_ROUTE_ANY;
    TRY(bench::run_on_ring(session, "/data", workload));
    workload.route = PENSTOCK_ROUTE_DEVICE_CACHE;
    const Outcome<bench::Measurement> tried = bench::run_on_ring(session, "/data", workload);
    if (tried) return true;
    if (tried.error().status != Code::not_supported) return tried.error();
  }
  return false;
}

// One way between a file of the node and a GPU, forced. What is written is another file: rewriting
// this one would take it out of the node cache, and leave it there in pieces for the next GPU.
Outcome<GpuWay> node_way(penstock_session* session, GpuWay way, bench::Workload workload) {
  workload.gpu = static_cast<int>(way.gpu);
  const Outcome<bench::Measurement> measured =
      bench::run_on_ring(session, workload.write ? "/written" : "/data", workload);
  if (measured) {
    way.bytes_per_second = measured->bytes_per_second();
  } else if (measured.error().status != Code::not_supported) {
    return measured.error();
  }
  return way;
}

Outcome<std::vector<GpuWay>> node_ways(penstock_session* session, uint32_t gpu,
                                       const GpuCheckOptions& options) {
  bench::Workload large;
  large.block_bytes = 16 * kMiB;
  large.random = false;
  large.depth = 4;
  large.file_bytes = options.file_bytes;
  large.seconds = options.seconds;
  large.route = PENSTOCK_ROUTE_DEVICE_CACHE;
  bench::Workload small = large;
  small.block_bytes = 64 * kKiB;
  small.random = true;
  small.depth = 512;
  small.batch = 64;
  small.route = PENSTOCK_ROUTE_DEVICE_GATHER;
  bench::Workload disk = large;
  disk.block_bytes = kMiB;
  disk.random = true;
  disk.depth = 16;
  disk.route = PENSTOCK_ROUTE_DEVICE_SLOTS;
  bench::Workload write = disk;
  write.write = true;
  std::vector<GpuWay> ways;
  const auto add = [&](const char* source, const char* name, const std::string& note,
                       const bench::Workload& workload) -> Outcome<void> {
    TRY_ASSIGN(GpuWay way, node_way(session, {gpu, source, name, {}, note}, workload));
    ways.push_back(std::move(way));
    return {};
  };
  large.gpu = static_cast<int>(gpu);
  TRY_ASSIGN(const bool cached, wait_for_cache(session, large));
  const char* const why = cached ? "" : "the node cache could not be pinned";
  TRY(add("node cache", "copy engine", why, large));
  TRY(add("node cache", "gather kernel, pieces of 64 KiB", why, small));
  TRY(add("disk", "pinned slots", why_not_straight_from_disk(), disk));
  TRY(add("(to disk, durable)", "pinned slots", "", write));
  return ways;
}

// Copies of one device's memory to another's, for a while.
class PeerCopies {
 public:
  PeerCopies(engine::DeviceMemory& devices, DeviceId from, DeviceId to)
      : devices_(devices), from_(from), to_(to), lanes_(devices.make_lanes(loop_)) {
    loop_.add(*lanes_);
  }
  ~PeerCopies() {
    loop_.remove(*lanes_);
    lanes_.reset();
    for (const engine::DeviceSpan& span : {source_, destination_}) {
      if (span.length > 0) static_cast<void>(devices_.release(span));
    }
  }
  Outcome<double> measure(double seconds);

 private:
  static constexpr uint64_t kBytes = 64 * kMiB;

  engine::DeviceMemory& devices_;
  const DeviceId from_;
  const DeviceId to_;
  engine::SeededRandom random_{1};
  engine::FutexParker parker_{engine::system_clock()};
  engine::Loop loop_{engine::system_clock(), random_, parker_};
  std::unique_ptr<engine::CopyLanes> lanes_;
  engine::DeviceSpan source_;
  engine::DeviceSpan destination_;
};

Outcome<double> PeerCopies::measure(double seconds) {
  TRY_ASSIGN(source_, devices_.allocate(from_, kBytes));
  TRY_ASSIGN(destination_, devices_.allocate(to_, kBytes));
  const engine::CopyPiece piece{
      .source = source_.data, .destination = destination_.data, .length = kBytes};
  struct State {
    engine::CopyLanes* lanes = nullptr;
    uint64_t copies = 0;
    bool stop = false;
    Status status;
  } state{.lanes = lanes_.get(), .copies = 0, .stop = false, .status = {}};
  engine::CopyOp copies[2];
  const engine::Time began = loop_.clock().now();
  for (engine::CopyOp& copy : copies) {
    copy.device = to_;
    copy.direction = engine::CopyDirection::device_to_device;
    copy.pieces = {&piece, 1};
    copy.owner = &state;
    copy.completion = [](engine::Op& op) {
      auto& shared = op.owner_as<State>();
      ++shared.copies;
      if (!op.status.ok()) shared.status = op.status;
      if (!shared.stop && op.status.ok()) {
        shared.lanes->submit(static_cast<engine::CopyOp&>(op));
      }
    };
    lanes_->submit(copy);
  }
  const engine::Time end = began + engine::Duration(static_cast<int64_t>(seconds * 1e9));
  while (loop_.clock().now() < end && state.status.ok()) loop_.poll();
  state.stop = true;
  while (lanes_->busy()) loop_.poll();
  loop_.poll();
  if (!state.status.ok()) return Failure{state.status, "copies between GPUs fail"};
  const std::chrono::duration<double> took = loop_.clock().now() - began;
  return static_cast<double>(state.copies * kBytes) / took.count();
}

std::vector<GpuWay> peer_ways(engine::DeviceMemory& devices, DeviceId to, double seconds) {
  std::vector<GpuWay> ways;
  for (uint32_t from = 0; from < devices.devices().size(); ++from) {
    if (from == to.value) continue;
    GpuWay way{to.value, fmt::format("GPU {}", from), "from GPU to GPU", {}, {}};
    const Outcome<double> rate = PeerCopies(devices, DeviceId(from), to).measure(seconds);
    const bool direct = (devices.devices()[to.value].peers >> from & 1) != 0;
    if (rate) way.bytes_per_second = *rate;
    if (!rate) way.note = rate.error().message;
    if (rate && !direct) way.note = "by way of host memory: the two have no direct way";
    ways.push_back(std::move(way));
  }
  return ways;
}

}  // namespace

Outcome<std::vector<GpuWay>> check_gpus(engine::DeviceMemory& devices,
                                        const GpuCheckOptions& options) {
  TRY_ASSIGN(const bench::Scratch scratch,
             bench::Scratch::create(options.directory, 4 * options.file_bytes + kGiB));
  const std::string plain = scratch.path() + "/local.dat";
  TRY(bench::make_plain_file(plain, options.file_bytes));
  TRY_ASSIGN(const auto node,
             bench::BenchNode::start(scratch.path() + "/store", options.file_bytes + 256 * kMiB));
  TRY(bench::make_ring_file(node->session(), "/written", options.file_bytes));
  TRY(bench::make_ring_file(node->session(), "/data", options.file_bytes));
  TRY(bench::warm_up(node->session(), "/data", options.file_bytes));
  const std::unique_ptr<rails::Devices> cards = rails::machine_devices();
  const std::string no_cards = rails::why_none();
  std::vector<GpuWay> all;
  const auto append = [&](std::vector<GpuWay> ways) {
    for (GpuWay& way : ways) all.push_back(std::move(way));
  };
  for (uint32_t gpu = 0; gpu < devices.devices().size(); ++gpu) {
    TRY_ASSIGN(std::vector<GpuWay> by_node, node_ways(node->session(), gpu, options));
    append(std::move(by_node));
    TRY_ASSIGN(std::vector<GpuWay> local,
               local_ways(devices, DeviceId(gpu), plain, options.file_bytes, options.seconds));
    append(std::move(local));
    append(peer_ways(devices, DeviceId(gpu), options.seconds));
    append(network_ways(devices, DeviceId(gpu), *cards, no_cards));
  }
  return all;
}

}  // namespace penstock::apps
