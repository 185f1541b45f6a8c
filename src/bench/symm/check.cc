// How the PEs of a job reach one another's memory, pair by pair.
#include "gpus.h"
#include "host.h"
#include "pes.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <set>

#include "penstock/bench.h"

namespace penstock::bench {
namespace {

constexpr uint64_t kHostBytes = 16 * kMiB;
constexpr uint64_t kGpuBytes = 64 * kMiB;
constexpr uint64_t kWordBytes = 8;
constexpr int kRoundsOfPair = 5;  // of each figure, of which the median is told
// All pairs of so many PEs are measured. Of more, each PE with those at distances of powers of two,
// as long as that makes no more pairs than this; neighbours always.
constexpr uint32_t kPesAll = 16;
constexpr uint64_t kPairsMost = 512;
constexpr uint64_t kPingsOfPair = uint64_t{1} << 24;  // a pair's words begin at multiples of it

// The median of some rounds that fill the time.
template <class Batch>
Outcome<double> median_call(double seconds, Batch&& batch) {
  const double each = seconds / kRoundsOfPair;
  TRY_ASSIGN(const uint64_t calls, calls_in(each, batch));
  std::vector<double> figures;
  for (int i = 0; i < kRoundsOfPair; ++i) {
    TRY_ASSIGN(const double one, seconds_per_call(calls, batch));
    figures.push_back(one);
  }
  return median(std::move(figures));
}

// ---- host memory ----

// RDMA is tried beside a connection that is used, which takes a moment.
Outcome<symm::FarWay> far_way(SymmHost& host, uint32_t pe) {
  constexpr std::chrono::seconds kDecideTime{5};
  if (const Status reached = host.gets(1, kWordBytes, pe); !reached.ok())
    return Failure{reached, fmt::format("PE {} is not reached", pe)};
  const auto until = std::chrono::steady_clock::now() + kDecideTime;
  symm::FarWay way = host.group().far_way(pe);
  while (!way.is_decided && std::chrono::steady_clock::now() < until) {
    host.group().progress();
    way = host.group().far_way(pe);
  }
  return way;
}

Outcome<void> tell_far(SymmHost& host, const std::vector<PeFacts>& pes, SymmWay* told) {
  TRY_ASSIGN(const symm::FarWay far, far_way(host, told->to));
  told->way = far.is_rdma ? fmt::format("verbs ({})", far.device) : "TCP";
  told->note = fmt::format("PE {} is on another node", told->to);
  if (pes[told->from].host != pes[told->to].host) told->note += " (" + pes[told->to].host + ")";
  if (!far.is_rdma) told->note += "; not by RDMA: " + far.why;
  return {};
}

Outcome<SymmWay> host_way(SymmHost& host, const std::vector<PeFacts>& pes, const SymmPair& pair,
                          double seconds) {
  SymmWay way{pair.from, pair.to, "host", "shared memory", {}, {}, {}, {}, {}, {}};
  if (host.group().at(host.there(), 1, pair.to) == nullptr) {
    TRY(tell_far(host, pes, &way));
  }
  const double each = seconds / 5;
  TRY_ASSIGN(const double put, median_call(each, [&](uint64_t calls) {
               return host.puts(calls, kHostBytes, pair.to);
             }));
  TRY_ASSIGN(const double get, median_call(each, [&](uint64_t calls) {
               return host.gets(calls, kHostBytes, pair.to);
             }));
  TRY_ASSIGN(way.put_seconds, median_call(each, [&](uint64_t calls) {
               return host.quiet_puts(calls, kWordBytes, pair.to);
             }));
  TRY_ASSIGN(way.get_seconds, median_call(each, [&](uint64_t calls) {
               return host.gets(calls, kWordBytes, pair.to);
             }));
  way.put_bytes_per_second = kHostBytes / put;
  way.get_bytes_per_second = kHostBytes / get;
  return way;
}

// The other one is in echo() by then.
Outcome<void> add_signals(SymmHost& host, const SymmPair& pair, double seconds, SymmWay* way) {
  TRY_ASSIGN(const double ping, median_call(seconds / 5, [&](uint64_t calls) {
               return host.pings(calls, 0, pair.to);
             }));
  if (const Status ended = host.end_echo(pair.to); !ended.ok())
    return Failure{ended, fmt::format("PE {} answers no more", pair.to)};
  way->signal_seconds = ping / 2;
  return {};
}

// ---- GPUs' memory ----

// Many calls in one kernel, so that its launch does not count.
template <class Run>
Outcome<double> median_kernel(double seconds, Run&& run) {
  constexpr uint64_t kRoundsMost = uint64_t{1} << 20;
  uint64_t rounds = 1;
  TRY_ASSIGN(double took, run(rounds));
  while (took < seconds / kRoundsOfPair / 4 && rounds < kRoundsMost) {
    rounds *= 4;
    TRY_ASSIGN(took, run(rounds));
  }
  std::vector<double> figures;
  for (int i = 0; i < kRoundsOfPair; ++i) {
    TRY_ASSIGN(const double one, run(rounds));
    figures.push_back(one / static_cast<double>(rounds));
  }
  return median(std::move(figures));
}

struct PairOfGpus {
  SymmPair pes;  // of the group
  uint32_t to;   // among those of the node
  GpuLink link;
};

// Where one GPU does not reach the other's memory.
constexpr const char* kByHosts = "through shared memory of the host";

std::string no_access(const PeFacts& from, const PeFacts& to) {
  return fmt::format("the driver gives GPU {} no access to the memory of GPU {}", from.gpu, to.gpu);
}

const char* way_of(GpuLink link) {
  switch (link) {
    case GpuLink::same:
      return "kernels, within the GPU";
    case GpuLink::nvlink:
      return "kernels, over NVLink";
    case GpuLink::pcie:
      return "kernels, over PCIe";
    case GpuLink::unknown:
    case GpuLink::none:
      break;
  }
  return "kernels, to another GPU";
}

std::string note_of(const std::vector<PeFacts>& pes, const PairOfGpus& pair) {
  if (pair.link == GpuLink::same) {
    return fmt::format("the PEs share GPU {}, in turns of some ms unless MPS runs",
                       pes[pair.pes.from].gpu);
  }
  if (pair.link == GpuLink::pcie) return "no NVLink between these two";
  return "";
}

Outcome<std::optional<double>> gpu_rate(uint64_t bytes, double seconds,
                                        const std::function<Outcome<double>(uint64_t)>& run) {
  TRY_ASSIGN(const double took, median_kernel(seconds, run));
  return std::optional<double>(static_cast<double>(bytes) / took);
}

// By kernels; where their GPUs do not reach each other they ask the hosts.
Outcome<SymmWay> kernels_way(SymmGpus& gpus, const std::vector<PeFacts>& pes,
                             const PairOfGpus& pair, double each) {
  SymmWay way{pair.pes.from,     pair.pes.to, "GPU", way_of(pair.link), {}, {}, {}, {}, {},
              note_of(pes, pair)};
  if (!gpus.is_near(pair.to)) {
    way.way = kByHosts;
    way.note = no_access(pes[pair.pes.from], pes[pair.pes.to]);
  }
  const uint64_t bytes = gpus.bytes();
  const SymmGpus::Copy large{bytes, pair.to, gpus.multiprocessors()};
  TRY_ASSIGN(way.put_bytes_per_second,
             gpu_rate(bytes, each, [&](uint64_t rounds) { return gpus.puts(large, rounds); }));
  TRY_ASSIGN(way.get_bytes_per_second,
             gpu_rate(bytes, each, [&](uint64_t rounds) { return gpus.gets(large, rounds); }));
  TRY_ASSIGN(way.put_seconds, median_kernel(each, [&](uint64_t rounds) {
               return gpus.words(WordCall::put_quiet, pair.to, rounds);
             }));
  TRY_ASSIGN(way.get_seconds, median_kernel(each, [&](uint64_t rounds) {
               return gpus.words(WordCall::get, pair.to, rounds);
             }));
  return way;
}

Outcome<std::vector<SymmWay>> gpu_ways(SymmGpus& gpus, const std::vector<PeFacts>& pes,
                                       const PairOfGpus& pair, double seconds) {
  const double each = seconds / 6;
  TRY_ASSIGN(SymmWay kernels, kernels_way(gpus, pes, pair, each));
  std::vector<SymmWay> ways{std::move(kernels)};
  if (!gpus.is_near(pair.to)) return ways;
  SymmWay engine{pair.pes.from, pair.pes.to, "GPU", "copy engine", {}, {}, {}, {}, {}, ""};
  const SymmGpus::Copy large{gpus.bytes(), pair.to, 1};
  TRY_ASSIGN(engine.put_bytes_per_second, gpu_rate(large.bytes, each, [&](uint64_t rounds) {
               return gpus.engine_puts(large, rounds);
             }));
  TRY_ASSIGN(engine.get_bytes_per_second, gpu_rate(large.bytes, each, [&](uint64_t rounds) {
               return gpus.engine_gets(large, rounds);
             }));
  ways.push_back(std::move(engine));
  return ways;
}

// ---- all together ----

Json json_of(const std::vector<SymmWay>& ways) {
  Json json = Json::array();
  for (const SymmWay& way : ways) json.push_back(bench::json_of(way));
  return json;
}

class Check {
 public:
  Check(job::Member& member, double seconds) : member_(member), seconds_(seconds) {}
  Outcome<SymmReport> run();

 private:
  Outcome<void> begin();
  Outcome<void> begin_gpus();
  Outcome<void> take_part(const SymmPair& pair, uint64_t number);
  Outcome<std::vector<SymmWay>> measure(const SymmPair& pair, uint64_t number);
  void add_refused(const SymmPair& pair, std::vector<SymmWay>* ways) const;
  Outcome<void> answer(const SymmPair& pair, uint64_t number);
  Outcome<void> barriers();
  Outcome<std::vector<std::string>> meet(const std::string& name, std::vector<uint32_t> ranks,
                                         const std::string& text = "");
  Outcome<double> gpu_pings(const SymmPair& pair, uint64_t number, bool first);
  uint32_t me() const { return member_.place().rank; }
  bool has_gpus_for(const SymmPair& pair) const {
    return gpus_ != nullptr && pes_[pair.from].node == pes_[pair.to].node;
  }
  uint32_t in_node(uint32_t pe) const {
    return static_cast<uint32_t>(std::ranges::find(of_node_, pe) - of_node_.begin());
  }

  job::Member& member_;
  const double seconds_;
  std::vector<PeFacts> pes_;
  std::vector<uint32_t> of_node_;
  bool is_sharing_ = false;  // PEs of the node share a GPU
  std::unique_ptr<SymmHost> host_;
  std::unique_ptr<SymmGpus> gpus_;
  SymmReport report_;
};

// Of some ranks, asleep; each of them once.
Outcome<std::vector<std::string>> Check::meet(const std::string& name, std::vector<uint32_t> ranks,
                                              const std::string& text) {
  std::ranges::sort(ranks);
  ranks.erase(std::ranges::unique(ranks).begin(), ranks.end());
  return tell_others(member_, name, ranks, text);
}

Outcome<void> Check::begin() {
  TRY_ASSIGN(pes_, exchange_facts(member_, facts_of(member_)));
  of_node_ = ranks_of_own_node(member_);
  TRY_ASSIGN(host_, SymmHost::join(member_, kHostBytes));
  for (const PeFacts& pe : pes_) {
    SymmPe shown{pe.host, pe.node, {}, pe.gpu_name, pe.no_gpu};
    if (pe.gpus > 0) shown.gpu = pe.gpu;
    report_.pes.push_back(std::move(shown));
  }
  report_.pairs = pes_.size() * (pes_.size() - 1) / 2;
  std::vector<RailPe> on_rails;
  for (const PeFacts& pe : pes_) {
    on_rails.push_back({pe.node, {}, pe.rails});
    if (pe.gpus > 0) on_rails.back().gpu = pe.gpu;
  }
  report_.rails = rails_between(on_rails, pairs_to_measure(member_.place().size));
  return begin_gpus();
}

// Without GPUs hosts are measured.
Outcome<void> Check::begin_gpus() {
  std::vector<PeFacts> here;
  for (const uint32_t rank : of_node_) here.push_back(pes_[rank]);
  std::set<std::string> uuids;
  for (const PeFacts& pe : here) is_sharing_ = !uuids.insert(pe.gpu_uuid).second || is_sharing_;
  report_.gpus = why_no_gpus(here, may_hosts_carry());
  if (!report_.gpus.empty()) return {};
  auto made = SymmGpus::make(member_, pes_[me()], kGpuBytes, may_hosts_carry());
  if (made) {
    gpus_ = std::move(*made);
  } else if (made.error().status == Code::peer_gone || made.error().status == Code::closed) {
    return made.error();
  } else {
    report_.gpus = made.error().message;
  }
  return {};
}

Outcome<double> Check::gpu_pings(const SymmPair& pair, uint64_t number, bool first) {
  constexpr uint64_t kShared = 8;  // each a hand-over of the GPU
  constexpr uint64_t kApart = 4'000;
  SymmGpus::Pings pings{(number + 1) * kPingsOfPair, 1};
  const uint32_t other = in_node(first ? pair.to : pair.from);
  TRY(gpus_->pings(other, first, pings));
  pings.begin += pings.rounds;
  pings.rounds = pes_[pair.from].gpu_uuid == pes_[pair.to].gpu_uuid ? kShared : kApart;
  TRY_ASSIGN(const double took, gpus_->pings(other, first, pings));
  return took / static_cast<double>(pings.rounds) / 2;
}

Outcome<std::vector<SymmWay>> Check::measure(const SymmPair& pair, uint64_t number) {
  const double each = has_gpus_for(pair) ? seconds_ / 2 : seconds_;
  const std::string signals = fmt::format("pair {} signals", number);
  TRY_ASSIGN(SymmWay host, host_way(*host_, pes_, pair, each));
  TRY(meet(signals, {pair.from, pair.to}));
  TRY(add_signals(*host_, pair, each, &host));
  std::vector<SymmWay> ways{std::move(host)};
  if (!has_gpus_for(pair)) {
    add_refused(pair, &ways);
    return ways;
  }
  const PairOfGpus gpus{pair, in_node(pair.to), link_between(pes_[pair.from], pes_[pair.to])};
  TRY_ASSIGN(std::vector<SymmWay> more, gpu_ways(*gpus_, pes_, gpus, each));
  TRY(meet(signals + " of GPUs", {pair.from, pair.to}));
  TRY_ASSIGN(more.front().signal_seconds, gpu_pings(pair, number, true));
  ways.insert(ways.end(), more.begin(), more.end());
  return ways;
}

// Two GPUs of a node of which one does not reach the other one's memory.
void Check::add_refused(const SymmPair& pair, std::vector<SymmWay>* ways) const {
  const PeFacts& from = pes_[pair.from];
  const PeFacts& to = pes_[pair.to];
  if (from.node != to.node || from.gpus == 0 || to.gpus == 0 ||
      link_between(from, to) != GpuLink::none)
    return;
  SymmWay way;
  way.from = pair.from;
  way.to = pair.to;
  way.memory = "GPU";
  way.note =
      fmt::format("{}; PENSTOCK_GPUS_OF_NODES=0 forbids it {}", no_access(from, to), kByHosts);
  ways->push_back(std::move(way));
}

Outcome<void> Check::answer(const SymmPair& pair, uint64_t number) {
  const std::string signals = fmt::format("pair {} signals", number);
  TRY(meet(signals, {pair.from, pair.to}));
  if (const Status status = host_->echo(0, pair.from); !status.ok())
    return Failure{status, fmt::format("PE {} asks no more", pair.from)};
  if (!has_gpus_for(pair)) return {};
  TRY(meet(signals + " of GPUs", {pair.from, pair.to}));
  TRY(gpu_pings(pair, number, false));
  return {};
}

// One pair after the other, as PE 0 has it: the others sleep.
Outcome<void> Check::take_part(const SymmPair& pair, uint64_t number) {
  if (me() != 0 && me() != pair.from && me() != pair.to) return {};
  const std::vector<uint32_t> ranks = {0, pair.from, pair.to};
  TRY(meet(fmt::format("pair {}", number), ranks));
  std::string text;
  if (me() == pair.from) {
    TRY_ASSIGN(const std::vector<SymmWay> ways, measure(pair, number));
    text = json_of(ways).dump();
  } else if (me() == pair.to) {
    TRY(answer(pair, number));
  }
  TRY_ASSIGN(const auto told, meet(fmt::format("pair {} done", number), ranks, text));
  for (const std::string& one : told) {
    const Json json = parse_json(one);
    if (!json.is_array()) continue;
    for (const Json& way : json) report_.ways.push_back(way_from(way));
  }
  return {};
}

Outcome<void> Check::barriers() {
  constexpr double kSeconds = 0.1;
  constexpr uint64_t kMost = 100'000;
  const auto batch = [&](uint64_t calls) -> Status {
    for (uint64_t i = 0; i < calls; ++i) TRY(host_->group().barrier(host_->group().world()));
    return {};
  };
  TRY(meet("barriers", all_ranks(member_)));
  TRY_ASSIGN(const double first, seconds_per_call(10, batch));
  // As many as PE 0 says.
  TRY_ASSIGN(const auto told,
             meet("how many barriers", all_ranks(member_), fmt::format("{}", first)));
  const double each = std::max(std::strtod(told.front().c_str(), nullptr), 1e-8);
  TRY_ASSIGN(report_.barrier_seconds,
             seconds_per_call(
                 std::clamp(static_cast<uint64_t>(kSeconds / each), uint64_t{1}, kMost), batch));
  if (gpus_ != nullptr) {
    TRY(gpus_->stream_barriers(1));
    const uint64_t rounds = is_sharing_ ? 10 : 1'000;
    TRY_ASSIGN(const double took, gpus_->stream_barriers(rounds));
    report_.stream_barrier_seconds = took / static_cast<double>(rounds);
  }
  return {};
}

Outcome<SymmReport> Check::run() {
  TRY(begin());
  const std::vector<SymmPair> pairs = pairs_to_measure(member_.place().size);
  for (uint64_t number = 0; number < pairs.size(); ++number) TRY(take_part(pairs[number], number));
  TRY(barriers());
  // Nobody goes while others use its memory.
  TRY(meet("end", all_ranks(member_)));
  return std::move(report_);
}

}  // namespace

std::vector<SymmPair> pairs_to_measure(uint32_t pes) {
  std::vector<SymmPair> pairs;
  if (pes <= kPesAll) {
    for (uint32_t from = 0; from < pes; ++from) {
      for (uint32_t to = from + 1; to < pes; ++to) pairs.push_back({from, to});
    }
    return pairs;
  }
  std::set<SymmPair> chosen;
  for (uint64_t distance = 1; distance <= pes / 2; distance *= 2) {
    if (distance > 1 && chosen.size() + pes > kPairsMost) break;
    for (uint32_t pe = 0; pe < pes; ++pe) {
      const auto other = static_cast<uint32_t>((pe + distance) % pes);
      chosen.insert({std::min(pe, other), std::max(pe, other)});
    }
  }
  return {chosen.begin(), chosen.end()};
}

Outcome<SymmReport> check_symm(job::Member& member, double seconds) {
  ASSERT(member.place().size > 1);
  return Check(member, seconds).run();
}

}  // namespace penstock::bench
