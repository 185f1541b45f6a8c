// What nodes say to one another about how they reach one another: calls to the service of probes,
// and the documents that two of them answer with. Format: docs/formats/probe.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base.h"
#include "penstock/json.h"
#include "penstock/probe/limits.h"

namespace penstock::probe {

// Of every node, beside the services of the controller (UINT32_MAX and the one before it).
inline constexpr uint32_t kService = UINT32_MAX - 2;
inline constexpr uint32_t kVersion = 1;

enum class Method : uint16_t {
  echo = 96,      // answers
  place = 97,     // exposure 0, access place: is filled with bytes that mean nothing
  fetch = 98,     // exposure 0, access fetch: is fetched, and dropped
  tell = 99,      // exposure 0, access place: gets MachineFacts
  measure = 100,  // exposure 0, access place: gets WayFacts of all ways to another node
};

struct Request {
  uint32_t version = kVersion;
  uint32_t node = 0;          // measure: to which; of others 0
  uint32_t milliseconds = 0;  // measure: how long each way; of others 0
  uint32_t reserved = 0;
};
struct Response {
  uint32_t length = 0;  // tell, measure: of the document; of others 0
  uint32_t reserved = 0;
};
static_assert(sizeof(Request) == 16 && sizeof(Response) == 8);

// Foreign input: bad_message for what cannot be, wrong_version for what this code does not speak,
// not_supported for a method that it does not know.
Result<Request> decode_request(uint16_t method, Bytes message);
// Of a call that has ended well.
Result<Response> decode_response(Method method, Bytes message);

// Who seals what travels.
enum class Protection : uint8_t { none = 0, user_space = 1, kernel = 2 };

// One way from a node to another: a transport, and the address at which the other is reached.
struct WayFacts {
  std::string transport;  // "tcp"
  std::string from;       // the own end of its connection; empty: there is none
  std::string to;
  bool used = false;  // calls of the process go this way
  Protection protection = Protection::none;
  // The own card, and what it sends at most in one packet; 0: not known.
  std::string card;
  uint64_t card_mtu = 0;
  // Of the connection: the largest packet on the whole way, and what of a packet is payload.
  uint64_t path_mtu = 0;
  uint64_t segment_bytes = 0;
  uint64_t segments = 0;  // sent by both measurements
  uint64_t retransmissions = 0;
  std::string congestion;  // "cubic"
  uint64_t latency_median_ns = 0;
  uint64_t latency_p99_ns = 0;
  uint64_t place_bytes_per_second = 0;  // towards the node that measures
  uint64_t fetch_bytes_per_second = 0;  // away from it
  std::vector<std::string> reasons;     // why no better way is taken, each for people
  std::string trouble;                  // why it could not be measured; empty while all is well

  friend bool operator==(const WayFacts&, const WayFacts&) = default;
};

// A network card with an address.
struct CardFacts {
  std::string name;  // "eth0"
  std::string address;
  uint64_t rail = 0;
  uint64_t mtu = 0;
  bool is_up = false;
  uint64_t megabits = 0;  // of its link; 0: the kernel does not tell

  friend bool operator==(const CardFacts&, const CardFacts&) = default;
};

enum class KernelTls : uint8_t { absent = 0, loadable = 1, loaded = 2 };

// What a machine has for its network.
struct MachineFacts {
  std::vector<CardFacts> cards;  // at which the node listens
  KernelTls kernel_tls = KernelTls::absent;
  std::vector<std::string> rdma_devices;
  bool rdma_without_library = false;  // the kernel has devices that the process cannot open
  uint64_t memlock_bytes = 0;         // that the process may pin; UINT64_MAX: any
  bool insecure = false;              // the node was started without TLS

  friend bool operator==(const MachineFacts&, const MachineFacts&) = default;
};

Json json_of(const WayFacts& way);
Json json_of(const MachineFacts& machine);

// As a document of at most limits::kDocumentMax: what has too many parts, or too long ones, is cut.
std::string encode(const std::vector<WayFacts>& ways);
std::string encode(const MachineFacts& machine);
// Foreign input: bad_message for what is no such document. Words that it does not know are skipped.
Result<std::vector<WayFacts>> decode_ways(Bytes document);
Result<MachineFacts> decode_machine(Bytes document);

}  // namespace penstock::probe
