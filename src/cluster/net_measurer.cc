#include "net_measurer.h"

#include "limits.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "penstock/cluster/listening.h"
namespace penstock::cluster {

using probe::MeasuredWay;
using probe::WayFacts;

namespace {

std::string bare_host_of(const tcp::SocketAddress& address) {
  return card_of({address, 0, uint16_t{0}}).host;
}

// `without_rdma`: why no call goes by it; empty: those between targets and clients do.
std::vector<std::string> reasons_of_tcp(bool has_tls, const tcp::ConnectionFacts* connection,
                                        const std::string& without_rdma) {
  std::vector<std::string> reasons;
  if (!has_tls) reasons.emplace_back("no TLS: the cluster is insecure (--insecure)");
  if (connection != nullptr && connection->sealed && !connection->by_kernel) {
    const auto why = tls::why_no_kernel_tls();
    reasons.push_back("TLS in user space: " + why.value_or("this connection was made before"));
  }
  if (!without_rdma.empty()) reasons.push_back(without_rdma);
  return reasons;
}

uint64_t whole(double value) {
  return value > 0 ? static_cast<uint64_t>(value) : 0;
}

// Of the check's plan; of others these say little, and their figures all.
void add_figures(const probe::MeasureOp& op, MeasuredWay& way) {
  for (size_t i = 0; i < way.figures.size(); ++i) {
    const probe::Figures& figures = way.figures[i];
    const probe::Workload& workload = op.plan[i];
    const uint64_t rate = whole(figures.calls_per_second() * workload.bytes);
    if (workload.kind == probe::Workload::Kind::echo) {
      way.facts.latency_median_ns = static_cast<uint64_t>(figures.median.count());
      way.facts.latency_p99_ns = static_cast<uint64_t>(figures.p99.count());
    } else if (workload.kind == probe::Workload::Kind::place) {
      way.facts.place_bytes_per_second = std::max(way.facts.place_bytes_per_second, rate);
    } else {
      way.facts.fetch_bytes_per_second = std::max(way.facts.fetch_bytes_per_second, rate);
    }
  }
}

}  // namespace

// Only one of the addresses of the node that is measured.
class NetMeasurer::OneAddress final : public tcp::Resolver {
 public:
  OneAddress(NodeId node, const tcp::SocketAddress& address, const Addresses& all)
      : node_(node), address_(address), all_(all) {}
  std::vector<tcp::SocketAddress> addresses_of(NodeId node) const override {
    return node == node_ ? std::vector{address_} : std::vector<tcp::SocketAddress>();
  }
  bool was_removed(NodeId node) const override { return all_.was_removed(node); }

 private:
  const NodeId node_;
  const tcp::SocketAddress address_;
  const Addresses& all_;
};

// One address while it is measured.
struct NetMeasurer::Way {
  Way(NodeId node, const tcp::SocketAddress& at, const Addresses& all)
      : address(at), resolver(node, at, all) {}
  ~Way() {
    if (net != nullptr) net->close();
  }

  const tcp::SocketAddress address;
  const OneAddress resolver;
  bool has_tls = false;
  std::unique_ptr<tcp::TcpNetwork> network;
  std::unique_ptr<tcp::TcpNet> net;
  probe::ProbeOp op;
};

// The way by RDMA while it is prepared and measured.
struct NetMeasurer::Rdma {
  engine::Timer look;
  engine::Time until{};  // a connection stands by then, or never
  probe::ProbeOp op;
};

NetMeasurer::NetMeasurer(Config config) : config_(std::move(config)) {}

NetMeasurer::~NetMeasurer() {
  ASSERT(op_ == nullptr);
}

void NetMeasurer::measure(probe::MeasureOp& op) {
  if (op_ != nullptr) return config_.loop->complete(op, Code::busy);
  op_ = &op;
  op.ways.clear();
  stopped_ = false;
  next_ = 0;
  addresses_ = config_.addresses->addresses_of(op.to);
  constexpr size_t kMost = probe::limits::kWaysMax - 1;  // and RDMA
  if (addresses_.size() > kMost) addresses_.erase(addresses_.begin() + kMost, addresses_.end());
  if (addresses_.empty()) return finish(Code::not_found);
  try_next();
}

void NetMeasurer::stop() {
  stopped_ = true;
  if (way_ != nullptr) way_->net->close();
}

void NetMeasurer::try_next() {
  while (!stopped_ && next_ < addresses_.size()) {
    way_ = std::make_unique<Way>(op_->to, addresses_[next_++], *config_.addresses);
    const Outcome<void> begun = begin(*way_);
    if (begun) return;
    MeasuredWay& failed = op_->ways.emplace_back();
    failed.facts.transport = "tcp";
    failed.facts.to = way_->address.text();
    failed.facts.trouble = begun.error().message;
    way_.reset();
  }
  if (!stopped_ && config_.without_rdma.empty()) return try_rdma();
  finish(Code::ok);
}

void NetMeasurer::try_rdma() {
  rdma_ = std::make_unique<Rdma>();
  rdma_->until = config_.loop->now() + limits::kRdmaPrepareTime;
  rdma_->look.owner = this;
  rdma_->look.completion = [](engine::Op& op) { op.owner_as<NetMeasurer>().on_rdma_look(); };
  rdma_->op.net = config_.rails;
  rdma_->op.to = {op_->to, probe::kService};
  rdma_->op.plan = op_->plan;
  rdma_->op.owner = this;
  rdma_->op.completion = [](engine::Op& op) { op.owner_as<NetMeasurer>().on_rdma_probed(); };
  on_rdma_look();
}

// Until then the same calls would go by TCP.
void NetMeasurer::on_rdma_look() {
  if (!stopped_ && config_.rails->prepare(rdma_->op.to)) {
    return probe::probe(*config_.loop, rdma_->op);
  }
  if (stopped_ || config_.loop->now() >= rdma_->until) return add_rdma(false);
  config_.loop->start(rdma_->look, config_.loop->now() + limits::kOpenLook);
}

void NetMeasurer::on_rdma_probed() {
  add_rdma(true);
}

// Where there is none, the other ways say why.
void NetMeasurer::add_rdma(bool has_measured) {
  const std::unique_ptr<Rdma> rdma = std::move(rdma_);
  std::string device;
  std::string reason;
  for (const rails::RailFacts& rail : config_.rails->facts()) {
    if (rail.address != rdma->op.to) continue;
    device = rail.device;
    reason = rail.reason;
  }
  if (has_measured && rdma->op.status.ok()) {
    MeasuredWay& measured = op_->ways.emplace_back();
    measured.facts.transport = "rdma";
    measured.facts.to = device;
    measured.figures = std::move(rdma->op.figures);
    add_figures(*op_, measured);
    return finish(Code::ok);
  }
  if (has_measured) reason = rdma->op.status.name();
  if (reason.empty()) reason = config_.rails->trouble();
  if (reason.empty()) reason = "no connection came about in time";
  for (MeasuredWay& way : op_->ways) way.facts.reasons.push_back("no RDMA: " + reason);
  finish(Code::ok);
}

Outcome<void> NetMeasurer::begin(Way& way) {
  TRY_ASSIGN(tcp::NetworkConfig config, config_.network());
  config.resolver = &way.resolver;
  way.has_tls = config.credentials != nullptr;
  way.network = std::make_unique<tcp::TcpNetwork>(config);
  TRY_ASSIGN(way.net, tcp::TcpNet::create(*way.network, *config_.loop, *config_.parker));
  way.op.net = way.net.get();
  way.op.to = {op_->to, probe::kService};
  way.op.plan = op_->plan;
  way.op.owner = this;
  way.op.completion = [](engine::Op& op) { op.owner_as<NetMeasurer>().on_probed(); };
  probe::probe(*config_.loop, way.op);
  return {};
}

void NetMeasurer::on_probed() {
  MeasuredWay measured;
  measured.figures = way_->op.figures;
  add_facts(measured);
  op_->ways.push_back(std::move(measured));
  way_.reset();
  try_next();
}

void NetMeasurer::add_facts(MeasuredWay& measured) const {
  WayFacts& facts = measured.facts;
  facts.transport = "tcp";
  facts.to = way_->address.text();
  add_figures(*op_, measured);
  const Status status = way_->op.status;
  if (!status.ok()) {
    for (const tcp::PeerFacts& peer : way_->net->peers()) facts.trouble = peer.trouble;
    if (facts.trouble.empty()) facts.trouble = status.name();
  }
  const auto connection = way_->net->connection(way_->op.to);
  facts.reasons =
      reasons_of_tcp(way_->has_tls, connection ? &*connection : nullptr, config_.without_rdma);
  if (!connection) return;
  facts.from = connection->local.text();
  const probe::CardFacts card = probe::card_at(bare_host_of(connection->local));
  facts.card = card.name;
  facts.card_mtu = card.mtu;
  facts.protection = !connection->sealed     ? probe::Protection::none
                     : connection->by_kernel ? probe::Protection::kernel
                                             : probe::Protection::user_space;
  facts.path_mtu = connection->path_mtu;
  facts.segment_bytes = connection->segment_bytes;
  facts.segments = connection->segments;
  facts.retransmissions = connection->retransmissions;
  facts.congestion = connection->congestion;
}

void NetMeasurer::finish(Status status) {
  // Calls take RDMA where it is there, else the first address at which the node is reached.
  const auto is_there = [](const MeasuredWay& way) { return way.facts.trouble.empty(); };
  const auto by_rdma = std::ranges::find_if(op_->ways, [&](const MeasuredWay& way) {
    return way.facts.transport == "rdma" && is_there(way);
  });
  const auto first =
      by_rdma != op_->ways.end() ? by_rdma : std::ranges::find_if(op_->ways, is_there);
  if (first != op_->ways.end()) first->facts.used = true;
  config_.loop->complete(*std::exchange(op_, nullptr), stopped_ ? Status(Code::cancelled) : status);
}

}  // namespace penstock::cluster
