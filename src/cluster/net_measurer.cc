#include "net_measurer.h"

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
  if (addresses_.size() > probe::limits::kWaysMax) addresses_.resize(probe::limits::kWaysMax);
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
  // Calls take the first address at which the node is reached.
  for (MeasuredWay& way : op_->ways) {
    way.facts.used = way.facts.trouble.empty();
    if (way.facts.used) break;
  }
  config_.loop->complete(*std::exchange(op_, nullptr), stopped_ ? Status(Code::cancelled) : status);
}

}  // namespace penstock::cluster
