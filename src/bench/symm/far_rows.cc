// Host memory of another node: beside a bare socket.
#include "bare_socket.h"
#include "rows.h"

namespace penstock::bench {
namespace {

constexpr const char* kSocketNote =
    "other nodes: a bare TCP socket that spins, the same bytes; of times, less than 1 is better";

}  // namespace

Outcome<void> far_rows(const SymmBench& bench, SymmHost& host, uint32_t far) {
  std::unique_ptr<BareSocket> socket;
  if (bench.me() == 0 || bench.me() == far) {
    TRY_ASSIGN(socket, BareSocket::connect(bench.member, 0, far));
  }
  if (bench.me() == 0) {
    std::fprintf(stderr, "another node's memory, PE 0 and PE %u ", far);
    const auto round_trips = [&](uint64_t calls) { return socket->pings(calls, 8); };
    const auto quiet_puts = [&](uint64_t calls) { return host.quiet_puts(calls, 8, far); };
    TRY_ASSIGN(const CallTimes put, in_turn(bench, quiet_puts, round_trips));
    bench.lines->push_back(
        line_of_time("far.put.8", "to another node: put and quiet, 8 B", put, kSocketNote));
    const auto gets = [&](uint64_t calls) { return host.gets(calls, 8, far); };
    TRY_ASSIGN(const CallTimes get, in_turn(bench, gets, round_trips));
    bench.lines->push_back(
        line_of_time("far.get.8", "to another node: get, 8 B", get, kSocketNote));
    for (const uint64_t bytes : {64 * kKiB, kMiB, 16 * kMiB}) {
      const auto large = [&](uint64_t calls) { return host.puts(calls, bytes, far); };
      const auto streams = [&](uint64_t calls) { return socket->streams(calls, bytes); };
      TRY_ASSIGN(const CallTimes times, in_turn(bench, large, streams));
      bench.lines->push_back(
          line_of_bytes("far.put", "to another node: put", bytes, times, kSocketNote));
      const auto back = [&](uint64_t calls) { return host.gets(calls, bytes, far); };
      TRY_ASSIGN(const CallTimes gotten, in_turn(bench, back, streams));
      bench.lines->push_back(
          line_of_bytes("far.get", "to another node: get", bytes, gotten, kSocketNote));
      std::fprintf(stderr, ".");
    }
    TRY(told(socket->end()));
  } else if (bench.me() == far) {
    TRY(told(socket->serve()));
  }
  TRY(bench.meet("end of far copies"));
  CallTimes times;
  for (uint32_t round = 0; round < bench.rounds; ++round) {
    if (bench.me() == far) {
      TRY(told(host.echo(8, 0)));
      TRY(told(socket->serve()));
    }
    if (bench.me() != 0) continue;
    const auto ours = [&](uint64_t calls) { return host.pings(calls, 8, far); };
    TRY_ASSIGN(const uint64_t calls, calls_in(bench.seconds, ours));
    TRY_ASSIGN(const double one, seconds_per_call(calls, ours));
    times.ours.push_back(one);
    TRY(told(host.end_echo(far)));
    const auto bare = [&](uint64_t pings) { return socket->pings(pings, 8); };
    TRY_ASSIGN(const uint64_t others, calls_in(bench.seconds, bare));
    TRY_ASSIGN(const double other, seconds_per_call(others, bare));
    times.references.push_back(other);
    TRY(told(socket->end()));
  }
  if (bench.me() == 0) {
    bench.lines->push_back(line_of_time("far.put_signal.8",
                                        "to another node: put with signal, 8 B, and one back",
                                        times, kSocketNote));
    std::fprintf(stderr, "\n");
  }
  return bench.meet("end of far signals");
}

}  // namespace penstock::bench
