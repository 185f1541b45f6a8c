// Foreign bytes as calls of probes and as their documents: what decodes keeps the limits, and comes
// out again as it went in.
#include "fuzz.h"

#include <cstdlib>
#include <cstring>

#include "penstock/probe.h"

namespace penstock::fuzz {
namespace {

using namespace probe;

void check(bool holds) {
  if (!holds) std::abort();
}

Bytes bytes_in(const std::string& text) {
  return std::as_bytes(std::span(text));
}

void check_calls(Bytes input) {
  for (uint16_t method = 95; method <= 101; ++method) {
    const auto request = decode_request(method, input);
    if (!request) continue;
    check(method >= 96 && method <= 100);
    const bool measures = method == static_cast<uint16_t>(Method::measure);
    check((request->node != 0) == measures);
    check(request->milliseconds <= static_cast<uint64_t>(probe::limits::kTimeMax.count()));
  }
  for (const Method method : {Method::echo, Method::tell}) {
    const auto response = decode_response(method, input);
    if (response) check(response->length <= probe::limits::kDocumentMax);
  }
}

void check_documents(Bytes input) {
  if (const auto ways = decode_ways(input)) {
    check(ways->size() <= probe::limits::kWaysMax);
    const auto again = decode_ways(bytes_in(encode(*ways)));
    check(again && *again == *ways);
  }
  if (const auto machine = decode_machine(input)) {
    check(machine->cards.size() <= probe::limits::kCardsMax);
    const auto again = decode_machine(bytes_in(encode(*machine)));
    check(again && *again == *machine);
  }
}

}  // namespace

std::vector<std::string> seeds() {
  WayFacts way;
  way.transport = "tcp";
  way.to = "10.0.0.2:9180";
  way.path_mtu = 1500;
  way.reasons = {"no RDMA device on this machine"};
  MachineFacts machine;
  machine.cards = {{"eth0", "10.0.0.1", 0, 9000, true, 100'000}};
  machine.rdma_devices = {"mlx5_0"};
  return {bytes_of(Request{}), bytes_of(Request{kVersion, 2, 1000, 0}), bytes_of(Response{17, 0}),
          encode({way}), encode(machine)};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const penstock::Bytes input(reinterpret_cast<const std::byte*>(data), size);
  penstock::fuzz::check_calls(input);
  penstock::fuzz::check_documents(input);
  return 0;
}
