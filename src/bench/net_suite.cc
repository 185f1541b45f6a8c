#include "net_suite.h"

#include "comparison.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>

#include "penstock/loopback.h"
#include "penstock/rails.h"

namespace penstock::bench {
namespace {

using NetKind = probe::Workload::Kind;

constexpr const char* kBareNote =
    "bare sockets over loopback, blocking, with a thread for each side: requests and answers of "
    "the "
    "same bytes";
constexpr const char* kCipherNote =
    "AES-128-GCM of OpenSSL on one processor, as openssl speed counts it, which does nothing else";

std::string size_text(uint32_t bytes) {
  return bytes == kMiB ? "1 MiB" : fmt::format("{} KiB", bytes / kKiB);
}
std::string short_text(uint32_t bytes) {
  return bytes == kMiB ? "1m" : fmt::format("{}k", bytes / kKiB);
}

NetRow row_of(NetKind kind, uint32_t bytes, uint32_t depth, engine::Duration each) {
  const bool places = kind == NetKind::place;
  const std::string at_once = depth == 1 ? "one at a time" : fmt::format("{} at once", depth);
  return {fmt::format("{}.{}.qd{}", places ? "place" : "fetch", short_text(bytes), depth),
          fmt::format("{} {}, {}", size_text(bytes), places ? "placed" : "fetched", at_once),
          {kind, bytes, depth, each}};
}

// What is measured in the same way over each transport.
struct Transport {
  std::string name;  // in the rows' names
  std::unique_ptr<loopback::Nodes> nodes;
};

// A row over all transports, and over bare sockets.
struct Measured {
  NetRow row;
  std::vector<std::vector<probe::Figures>> by_transport;
  std::vector<double> bare;
};

std::chrono::milliseconds in_milliseconds(engine::Duration time) {
  return std::max(std::chrono::milliseconds(1),
                  std::chrono::duration_cast<std::chrono::milliseconds>(time));
}

double measure_bare(const NetRow& row) {
  constexpr size_t kSmall = 64;
  const probe::Workload& of = row.workload;
  loopback::Exchange exchange{kSmall, kSmall, static_cast<int>(of.depth)};
  if (of.kind == NetKind::place) exchange.answer = of.bytes;
  if (of.kind == NetKind::fetch) exchange.request = of.bytes;
  return row.value_of_rate(loopback::bare_exchange(exchange, in_milliseconds(of.time)).rate);
}

Outcome<void> measure_round(std::vector<Transport>& transports, std::vector<Measured>& rows) {
  for (Measured& one : rows) {
    one.by_transport.resize(transports.size());
    for (size_t i = 0; i < transports.size(); ++i) {
      TRY_ASSIGN(const probe::Figures figures, transports[i].nodes->probe(one.row.workload));
      one.by_transport[i].push_back(figures);
    }
    one.bare.push_back(measure_bare(one.row));
  }
  return {};
}

// Those that this machine has.
Outcome<std::vector<Transport>> start_transports() {
  std::vector<Transport> transports;
  for (const auto& [name, wire] :
       {std::pair{"tcp", loopback::Wire::plain}, std::pair{"tls", loopback::Wire::sealed}}) {
    TRY_ASSIGN(auto nodes, loopback::Nodes::start(wire));
    transports.push_back({name, std::move(nodes)});
  }
  std::string lack = rails::why_none();
  if (lack.empty()) {
    auto nodes = loopback::Nodes::start(loopback::Wire::verbs);
    if (nodes) {
      transports.push_back({"verbs", std::move(*nodes)});
    } else {
      lack = nodes.error().message;
    }
  }
  if (!lack.empty()) std::fprintf(stderr, "without verbs: %s\n", lack.c_str());
  return transports;
}

// Sealed bytes beside the cipher alone, which no seal is faster than.
void add_beside_cipher(const Measured& sealed, size_t transport, const std::vector<double>& cipher,
                       std::vector<BenchLine>* lines) {
  BenchLine line = net_line(sealed.row, "tls", sealed.by_transport[transport], cipher);
  line.name += ".of.cipher";
  line.title += ", of the cipher";
  line.note = kCipherNote;
  lines->push_back(std::move(line));
}

}  // namespace

double NetRow::value_of(const probe::Figures& figures) const {
  if (workload.kind == NetKind::echo) {
    return std::chrono::duration<double, std::micro>(figures.median).count();
  }
  return value_of_rate(figures.calls_per_second());
}

double NetRow::value_of_rate(double calls_per_second) const {
  if (workload.kind == NetKind::echo) return 1e6 / calls_per_second;
  return workload.bytes < 64 * kKiB ? calls_per_second : calls_per_second * workload.bytes / 1e6;
}

const char* NetRow::unit() const {
  if (workload.kind == NetKind::echo) return "us";
  return workload.bytes < 64 * kKiB ? "IOPS" : "MB/s";
}

std::vector<NetRow> net_rows(engine::Duration each) {
  std::vector<NetRow> rows;
  for (const NetKind kind : {NetKind::place, NetKind::fetch}) {
    for (const uint32_t bytes : {uint32_t{kMiB}, uint32_t{64 * kKiB}}) {
      for (const uint32_t depth : {1U, 8U}) rows.push_back(row_of(kind, bytes, depth, each));
    }
  }
  for (const uint32_t depth : {1U, 64U}) {
    rows.push_back(row_of(NetKind::place, 4 * kKiB, depth, each));
  }
  rows.push_back({"latency", "small call, one at a time", {NetKind::echo, 0, 1, each}});
  return rows;
}

engine::Duration net_time(double seconds) {
  constexpr double kShare = 8;
  const std::chrono::duration<double> each(std::clamp(seconds / kShare, 0.01, 5.0));
  return std::chrono::duration_cast<engine::Duration>(each);
}

BenchLine net_line(const NetRow& row, const std::string& transport,
                   const std::vector<probe::Figures>& ours, const std::vector<double>& references) {
  BenchLine line;
  line.name = fmt::format("net.{}.{}", transport, row.name);
  line.title = fmt::format("{}: {}", transport, row.title);
  line.unit = row.unit();
  std::vector<double> values, ratios, medians, p99s;
  const auto micro = [](engine::Duration time) {
    return std::chrono::duration<double, std::micro>(time).count();
  };
  for (size_t i = 0; i < ours.size(); ++i) {
    values.push_back(row.value_of(ours[i]));
    medians.push_back(micro(ours[i].median));
    p99s.push_back(micro(ours[i].p99));
    if (i < references.size()) ratios.push_back(values.back() / references[i]);
  }
  line.value = median(values);
  if (!references.empty()) {
    line.reference = median(references);
    line.ratio = median(ratios);
    line.note = kBareNote;
  }
  line.latency = fmt::format("{:.0f} / {:.0f} µs", median(medians), median(p99s));
  return line;
}

Outcome<void> net_suite(const BenchOptions& options, std::vector<BenchLine>* lines) {
  TRY_ASSIGN(std::vector<Transport> transports, start_transports());
  const engine::Duration each = net_time(options.seconds);
  std::vector<Measured> rows;
  for (NetRow& row : net_rows(each)) rows.push_back({std::move(row), {}, {}});
  const uint32_t rounds = std::max(options.rounds, kNetRoundsLeast);
  std::fprintf(stderr, "calls between two nodes over loopback, %u rounds ", rounds);
  std::vector<double> cipher;
  for (uint32_t round = 0; round < rounds; ++round) {
    TRY(measure_round(transports, rows));
    cipher.push_back(loopback::openssl_opens(in_milliseconds(each)).rate * kMiB / 1e6);
    std::fprintf(stderr, ".");
  }
  std::fprintf(stderr, "\n");
  for (size_t i = 0; i < transports.size(); ++i) {
    for (const Measured& one : rows) {
      lines->push_back(net_line(one.row, transports[i].name, one.by_transport[i], one.bare));
      const bool is_of_cipher = transports[i].name == "tls" && one.row.workload.bytes == kMiB &&
                                one.row.workload.depth > 1;
      if (is_of_cipher) add_beside_cipher(one, i, cipher, lines);
    }
  }
  return {};
}

}  // namespace penstock::bench
