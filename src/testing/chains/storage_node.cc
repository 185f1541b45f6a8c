#include "penstock/testing_chains.h"

namespace penstock::test {

using controller::ChainReport;
using std::chrono::milliseconds;

namespace {

// Neighbours that are not reached for so long are accused, until they were reached for as long.
constexpr auto kAccuseAfter = milliseconds(1500);

}  // namespace

controller::Uuid StorageNode::uuid() const {
  controller::Uuid uuid;
  uuid.bytes[0] = static_cast<uint8_t>(number_);
  return uuid;
}

void StorageNode::start() {
  ASSERT(net_ == nullptr && !is_up_);
  is_up_ = true;
  for (uint8_t& byte : process.bytes) byte = static_cast<uint8_t>(world_.random().below(256));
  opening = world_.random().next() | 1;
  loop_ = std::make_unique<sim::SimLoop>(world_, sim::LoopDriver::world_when_called);
  net_ = wires_.plug(*loop_, NodeId{number_});
  store_ = &storage_->begin(*loop_);
}

void StorageNode::open(controller::Incarnation incarnation) {
  ASSERT(is_up() && host == nullptr && incarnation > incarnation_);
  incarnation_ = incarnation;
  host = chain::Host::make({.target = target(),
                            .incarnation = incarnation_.value,
                            .loop = loop_.get(),
                            .net = net_.get(),
                            .store = store_,
                            .tombstone_pause = tombstone_pause,
                            .report = [this](const chain::Report& report) { on_report(report); }});
  net_->serve(address(), host->service());
}

void StorageNode::on_report(const chain::Report& report) {
  if (report.kind == chain::Report::Kind::unreachable) {
    Accused& other = unreachable[report.other.value];
    if (world_.now() - other.last > kAccuseAfter) other.first = world_.now();
    other.last = world_.now();
    return;
  }
  const auto kind = report.kind == chain::Report::Kind::repaired ? ChainReport::Kind::repaired
                                                                 : ChainReport::Kind::failed;
  // Each is made again and again as long as it holds.
  reports.push_back({kind, report.chain, controller::ChainVersion(report.version), target()});
  speak(*this);
}

std::vector<NodeId> StorageNode::accused() const {
  std::vector<NodeId> accused;
  for (const auto& [number, other] : unreachable) {
    const bool lasts = other.last - other.first >= kAccuseAfter;
    if (lasts && world_.now() - other.last < kAccuseAfter) accused.push_back(NodeId{number});
  }
  return accused;
}

void StorageNode::die(bool power_cut) {
  world_.trace("node.dies", number_, power_cut ? 1 : 0);
  net_->kill();
  storage_->die(power_cut);
  host = nullptr;
  is_up_ = false;
  process = {};
  admitted = {};
  sequence = answered = 0;
  applied = {};
  sent.clear();
  reports.clear();
  unreachable.clear();
  // Calls and timers that were under way end; nobody hears of it.
  world_.run_for(std::chrono::seconds(2));
  net_ = nullptr;
  store_ = nullptr;
  storage_->end();
}

}  // namespace penstock::test
