#include "far_nodes.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace penstock::symm {

namespace {

constexpr uint64_t kScratchBytes = 512;  // of each team: several pieces in most reductions
constexpr uint64_t kStaging = 3 * kMailBodyMax;

}  // namespace

// ---- mail ----

class SlowMail::End final : public DeviceMail {
 public:
  End(SlowMail& of, uint32_t me) : of_(of), me_(me) {}

  uint64_t room(uint32_t pe, MailLane lane) override {
    return of_.lane_bytes_ - of_.lane(me_, pe, lane).bytes;
  }
  Status send(uint32_t pe, MailLane lane, const MailFrame& frame, Bytes body) override {
    if (of_.cut_ == me_ || of_.cut_ == pe) return Code::peer_gone;
    ASSERT(frame.bytes == body.size() && room(pe, lane) >= mail_bytes(body.size()));
    Lane& to = of_.lane(me_, pe, lane);
    to.bytes += mail_bytes(body.size());
    to.body_bytes += body.size();
    to.letters.push_back(
        {frame, {body.begin(), body.end()}, static_cast<uint32_t>(of_.random_() % to.turns)});
    return {};
  }
  Result<bool> peek(uint32_t pe, MailLane lane, MailFrame* out) override {
    Lane& from = of_.lane(pe, me_, lane);
    if (from.letters.empty()) return false;
    if (from.letters.front().turns > 0) {
      --from.letters.front().turns;
      return false;
    }
    *out = from.letters.front().frame;
    return true;
  }
  void take(uint32_t pe, MailLane lane, MutableBytes body) override {
    Lane& from = of_.lane(pe, me_, lane);
    const Letter& letter = from.letters.front();
    ASSERT(body.size() == letter.body.size());
    if (!body.empty()) std::memcpy(body.data(), letter.body.data(), body.size());
    from.bytes -= mail_bytes(body.size());
    from.letters.pop_front();
  }
  Status flush(uint32_t) override { return {}; }
  void progress() override {}

 private:
  SlowMail& of_;
  const uint32_t me_;
};

SlowMail::SlowMail(uint64_t seed, int pes, uint64_t lane_bytes)
    : random_(seed),
      pes_(static_cast<uint32_t>(pes)),
      lane_bytes_(lane_bytes),
      lanes_(uint64_t{pes_} * pes_ * kMailLanes) {
  // Some are much slower than others: what is told by one way overtakes what goes by another.
  for (Lane& lane : lanes_) lane.turns = random_() % 3 == 0 ? 150 : 6;
}

std::unique_ptr<DeviceMail> SlowMail::of(uint32_t pe) {
  return std::make_unique<End>(*this, pe);
}
SlowMail::Lane& SlowMail::lane(uint32_t from, uint32_t to, MailLane which) {
  return lanes_[(from * pes_ + to) * kMailLanes + static_cast<uint32_t>(which)];
}
void SlowMail::forge(uint32_t from, uint32_t to, MailLane which, const MailFrame& frame,
                     size_t body) {
  Lane& forged = lane(from, to, which);
  forged.bytes += mail_bytes(body);
  forged.letters.push_back({frame, std::vector<std::byte>(body), 0});
}
bool SlowMail::is_empty() const {
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [](const Lane& one) { return one.letters.empty(); });
}

uint64_t SlowMail::body_bytes(uint32_t from, uint32_t to) const {
  uint64_t all = 0;
  for (uint32_t which = 0; which < kMailLanes; ++which)
    all += lanes_[(from * pes_ + to) * kMailLanes + which].body_bytes;
  return all;
}

// ---- nodes ----

class FarNodes::Device final : public ProxyDevice {
 public:
  Device(FarNodes& of, Node& node) : of_(of), node_(node) {}
  // As the driver may: all of it only when finish() is called.
  Status copy_in(uint64_t to, Bytes from) override {
    copies_.push_back(
        [to, from] { std::memcpy(reinterpret_cast<void*>(to), from.data(), from.size()); });
    return {};
  }
  Status copy_out(MutableBytes to, uint64_t from) override {
    copies_.push_back(
        [to, from] { std::memcpy(to.data(), reinterpret_cast<const void*>(from), to.size()); });
    return {};
  }
  Status finish() override {
    for (const auto& one : copies_) one();
    copies_.clear();
    return {};
  }
  bool holds(uint64_t address, uint64_t bytes) override {
    return of_.gpus_.is_for_engines(reinterpret_cast<const void*>(address), bytes);
  }
  bool is_programs(uint64_t) override { return false; }
  Status make_changes(uint64_t) override;

 private:
  FarNodes& of_;
  Node& node_;
  std::vector<std::function<void()>> copies_;
};

struct FarNodes::Node {
  uint32_t pe = 0;
  uint32_t trouble = 0;
  bool is_launched = false;
  std::unique_ptr<std::byte, void (*)(void*)> host{nullptr, std::free};
  AskedGeometry geometry;
  std::unique_ptr<device::FarControl> control;
  std::vector<uint32_t> waiting;
  std::vector<char> scratch;
  std::vector<std::byte> staging;
  device::SymmFar far{};
  std::unique_ptr<AskedQueue> queue;
  std::unique_ptr<DeviceMail> mail;
  std::unique_ptr<Device> device;
  std::unique_ptr<DeviceProxy> proxy;

  // A kernel of one thread, between what others do.
  void run_launched() {
    device::FarChanges& changes = *far.changes;
    if (!is_launched || control->changes_lock != 0) return;
    for (; control->changes_served != changes.posted; ++control->changes_served) {
      const uint64_t index = control->changes_served % device::kFarPosted;
      const device::FarPosted& posted = changes.entry[index];
      uint64_t before = 0;
      std::memcpy(&before, reinterpret_cast<void*>(posted.address), posted.bytes);
      const uint64_t after = changed(posted, before);
      std::memcpy(reinterpret_cast<void*>(posted.address), &after, posted.bytes);
      changes.before[index] = before;
    }
    changes.served = control->changes_served;
    is_launched = false;
  }
  static uint64_t changed(const device::FarPosted& posted, uint64_t before) {
    switch (static_cast<device::FarChange>(posted.change)) {
      case device::FarChange::swap:
        return posted.value;
      case device::FarChange::compare_swap:
        return before == posted.expected ? posted.value : before;
      case device::FarChange::add:
        return before + posted.value;
      case device::FarChange::bit_and:
        return before & posted.value;
      case device::FarChange::bit_or:
        return before | posted.value;
      case device::FarChange::bit_xor:
        return before ^ posted.value;
      default:
        ASSERT(false);
        return 0;
    }
  }
};

Status FarNodes::Device::make_changes(uint64_t) {
  node_.is_launched = true;
  return {};
}

FarNodes::FarNodes(uint64_t seed, const FarShape& shape)
    : random_(seed),
      shape_(shape),
      gpus_(seed, {.pes = shape.pes, .lanes = shape.lanes}),
      mail_(seed, shape.pes, shape.lane_bytes) {
  for (int pe = 0; pe < shape.pes; ++pe) {
    auto node = std::make_unique<Node>();
    node->pe = static_cast<uint32_t>(pe);
    node->geometry = *AskedGeometry::make(shape.entries);
    const uint64_t bytes = node->geometry.host_bytes();
    node->host.reset(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)));
    std::memset(node->host.get(), 0, bytes);
    node->queue = std::make_unique<AskedQueue>(MutableBytes(node->host.get(), bytes),
                                               node->geometry, static_cast<uint32_t>(shape.pes));
    node->control = std::make_unique<device::FarControl>();
    node->waiting.resize(node->geometry.entries);
    node->scratch.resize(device::kSymmTeamsMax * kScratchBytes);
    node->staging.resize(kStaging);
    node->far = node->queue->view();
    node->far.control = node->control.get();
    node->far.waiting = node->waiting.data();
    node->far.scratch = node->scratch.data();
    node->far.scratch_bytes = kScratchBytes;
    gpus_.add_engine_memory(node->scratch.data(), node->scratch.size());
    node->mail = mail_.of(node->pe);
    node->device = std::make_unique<Device>(*this, *node);
    ProxyOptions options;
    options.me = node->pe;
    options.pes = static_cast<uint32_t>(shape.pes);
    for (int other = 0; other < shape.pes; ++other) {
      if ((near(pe) >> other & 1) == 0) options.far.set(static_cast<size_t>(other));
    }
    options.heap = reinterpret_cast<uintptr_t>(gpus_.state(pe).heap);
    options.heap_bytes = SimulatedGpus::kHeapBytes;
    options.private_begin = SimulatedGpus::kHeapBytes - 4096;
    options.private_end = SimulatedGpus::kHeapBytes;
    options.trouble = &node->trouble;
    options.staging = node->staging;
    node->proxy = std::make_unique<DeviceProxy>(options, *node->queue, *node->device, *node->mail);
    nodes_.push_back(std::move(node));
  }
  bool is_far = false;
  for (int pe = 0; pe < shape.pes; ++pe) {
    is_far = is_far || std::popcount(near(pe)) != shape.pes;
    gpus_.make_near(pe, near(pe), &nodes_[static_cast<size_t>(pe)]->far);
  }
  make_team_far(0, is_far);
  gpus_.let_host_run([this] {
    turn(*nodes_[random_() % nodes_.size()]);
    turn(*nodes_[random_() % nodes_.size()]);
  });
}

FarNodes::~FarNodes() = default;

uint64_t FarNodes::near(int pe) const {
  if (!shape_.near.empty()) return shape_.near[static_cast<size_t>(pe)];
  const int first = pe / shape_.node_pes * shape_.node_pes;
  uint64_t near = 0;
  for (int other = first; other < std::min(first + shape_.node_pes, shape_.pes); ++other)
    near |= uint64_t{1} << other;
  return near;
}

void FarNodes::make_team_far(int team, bool is_far) {
  for (const auto& node : nodes_) {
    uint64_t& word = node->far.far_teams[team / 64];
    const uint64_t bit = uint64_t{1} << (team % 64);
    word = is_far ? word | bit : word & ~bit;
  }
}

void FarNodes::turn(Node& node) {
  ASSERT(node.proxy->turn().has_value());
  if (!shape_.is_full && random_() % 4 == 0) node.run_launched();
  // As the job's word of trouble reaches all.
  if (node.trouble != 0) gpus_.set_trouble();
}

bool FarNodes::run(const std::function<void(int pe)>& kernel) {
  const bool ended = gpus_.run(kernel);
  settle();
  return ended;
}
bool FarNodes::run(const std::vector<int>& pes, const std::function<void(int pe)>& kernel) {
  const bool ended = gpus_.run(pes, kernel);
  settle();
  return ended;
}

void FarNodes::settle() {
  for (int idle = 0; idle < 40;) {
    bool worked = !mail_.is_empty();
    for (const auto& node : nodes_) {
      ASSERT(node->proxy->turn().has_value());
      worked = worked || node->is_launched;
      node->run_launched();
    }
    idle = worked ? idle : idle + 1;
    if (worked && ++settling_ > 100'000) return;
  }
}

DeviceProxy& FarNodes::proxy(int pe) {
  return *nodes_[static_cast<size_t>(pe)]->proxy;
}
MutableBytes FarNodes::ring(int pe) {
  Node& node = *nodes_[static_cast<size_t>(pe)];
  return {node.host.get(), node.geometry.host_bytes()};
}
device::SymmFar& FarNodes::view(int pe) {
  return nodes_[static_cast<size_t>(pe)]->far;
}
uint32_t FarNodes::trouble(int pe) const {
  return nodes_[static_cast<size_t>(pe)]->trouble;
}

}  // namespace penstock::symm
