#include "penstock/probe/messages.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

namespace penstock::probe {
namespace {

// What people read comes from other machines: only what can be seen stays, and no more than fits.
std::string plain(std::string_view text, size_t most) {
  std::string out(text.substr(0, most));
  for (char& one : out) {
    if (one < ' ' || one > '~') one = '?';
  }
  return out;
}

std::string text_in(const Json& object, const char* key, size_t most) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return "";
  return plain(found->get_ref<const std::string&>(), most);
}

std::vector<std::string> texts_in(const Json& object, const char* key, size_t most, size_t bytes) {
  std::vector<std::string> texts;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return texts;
  for (const Json& one : *found) {
    if (texts.size() == most) break;
    if (one.is_string()) texts.push_back(plain(one.get_ref<const std::string&>(), bytes));
  }
  return texts;
}

// By the word of each value; the first where it is none of them.
template <class Value, size_t kCount>
Value word_in(const Json& object, const char* key, const char* const (&words)[kCount]) {
  const std::string text = text_in(object, key, limits::kWordBytesMax);
  for (size_t i = 0; i < kCount; ++i) {
    if (text == words[i]) return static_cast<Value>(i);
  }
  return Value{};
}

constexpr const char* kProtections[] = {"none", "user space", "kernel"};
constexpr const char* kKernelTls[] = {"absent", "loadable", "loaded"};

Json list_of(const std::vector<std::string>& texts, size_t most, size_t bytes) {
  Json list = Json::array();
  for (const std::string& text : texts) {
    if (list.size() < most) list.push_back(plain(text, bytes));
  }
  return list;
}

WayFacts way_of(const Json& json) {
  WayFacts way;
  const auto word = [&](const char* key) { return text_in(json, key, limits::kWordBytesMax); };
  way.transport = word("transport");
  way.from = word("from");
  way.to = word("to");
  way.used = flag_at(json, "used");
  way.protection = word_in<Protection>(json, "protection", kProtections);
  way.card = word("card");
  way.card_mtu = number_at(json, "card_mtu");
  way.path_mtu = number_at(json, "path_mtu");
  way.segment_bytes = number_at(json, "segment_bytes");
  way.segments = number_at(json, "segments");
  way.retransmissions = number_at(json, "retransmissions");
  way.congestion = word("congestion");
  way.latency_median_ns = number_at(json, "latency_median_ns");
  way.latency_p99_ns = number_at(json, "latency_p99_ns");
  way.place_bytes_per_second = number_at(json, "place_bytes_per_second");
  way.fetch_bytes_per_second = number_at(json, "fetch_bytes_per_second");
  way.reasons = texts_in(json, "reasons", limits::kReasonsMax, limits::kTextBytesMax);
  way.trouble = text_in(json, "trouble", limits::kTextBytesMax);
  return way;
}

CardFacts card_of(const Json& json) {
  CardFacts card;
  card.name = text_in(json, "name", limits::kWordBytesMax);
  card.address = text_in(json, "address", limits::kWordBytesMax);
  card.rail = number_at(json, "rail");
  card.mtu = number_at(json, "mtu");
  card.is_up = flag_at(json, "up");
  card.megabits = number_at(json, "megabits");
  return card;
}

Json parse(Bytes document) {
  if (document.size() > limits::kDocumentMax) return Json();
  return parse_json({reinterpret_cast<const char*>(document.data()), document.size()});
}

}  // namespace

Result<Request> decode_request(uint16_t method, Bytes message) {
  Request request;
  if (message.size() != sizeof request) return Code::bad_message;
  std::memcpy(&request, message.data(), sizeof request);
  if (request.version != kVersion) return Code::wrong_version;
  const bool is_known = method >= static_cast<uint16_t>(Method::echo) &&
                        method <= static_cast<uint16_t>(Method::measure);
  if (!is_known) return Code::not_supported;
  const bool measures = method == static_cast<uint16_t>(Method::measure);
  const std::chrono::milliseconds time(request.milliseconds);
  const bool is_good =
      request.reserved == 0 &&
      (measures ? request.node != 0 && time >= limits::kTimeMin && time <= limits::kTimeMax
                : request.node == 0 && request.milliseconds == 0);
  if (!is_good) return Code::bad_message;
  return request;
}

Result<Response> decode_response(Method method, Bytes message) {
  Response response;
  if (message.size() != sizeof response) return Code::bad_message;
  std::memcpy(&response, message.data(), sizeof response);
  const bool has_document = method == Method::tell || method == Method::measure;
  const bool is_good = response.reserved == 0 && (response.length > 0) == has_document &&
                       response.length <= limits::kDocumentMax;
  if (!is_good) return Code::bad_message;
  return response;
}

Json json_of(const WayFacts& way) {
  constexpr size_t kWord = limits::kWordBytesMax;
  return {{"transport", plain(way.transport, kWord)},
          {"from", plain(way.from, kWord)},
          {"to", plain(way.to, kWord)},
          {"used", way.used},
          {"protection", kProtections[static_cast<size_t>(way.protection)]},
          {"card", plain(way.card, kWord)},
          {"card_mtu", way.card_mtu},
          {"path_mtu", way.path_mtu},
          {"segment_bytes", way.segment_bytes},
          {"segments", way.segments},
          {"retransmissions", way.retransmissions},
          {"congestion", plain(way.congestion, kWord)},
          {"latency_median_ns", way.latency_median_ns},
          {"latency_p99_ns", way.latency_p99_ns},
          {"place_bytes_per_second", way.place_bytes_per_second},
          {"fetch_bytes_per_second", way.fetch_bytes_per_second},
          {"reasons", list_of(way.reasons, limits::kReasonsMax, limits::kTextBytesMax)},
          {"trouble", plain(way.trouble, limits::kTextBytesMax)}};
}

Json json_of(const MachineFacts& machine) {
  Json cards = Json::array();
  for (const CardFacts& card : machine.cards) {
    if (cards.size() == limits::kCardsMax) break;
    cards.push_back({{"name", plain(card.name, limits::kWordBytesMax)},
                     {"address", plain(card.address, limits::kWordBytesMax)},
                     {"rail", card.rail},
                     {"mtu", card.mtu},
                     {"up", card.is_up},
                     {"megabits", card.megabits}});
  }
  return {
      {"cards", cards},
      {"kernel_tls", kKernelTls[static_cast<size_t>(machine.kernel_tls)]},
      {"rdma_devices", list_of(machine.rdma_devices, limits::kDevicesMax, limits::kWordBytesMax)},
      {"rdma_without_library", machine.rdma_without_library},
      {"memlock_bytes", machine.memlock_bytes},
      {"insecure", machine.insecure}};
}

// The parts are bounded so that all of them together are.
static_assert(limits::kCardsMax * (2 * limits::kWordBytesMax + 128) +
                  limits::kDevicesMax * (limits::kWordBytesMax + 8) + 256 <=
              limits::kDocumentMax);

std::string encode(const std::vector<WayFacts>& ways) {
  Json list = Json::array();
  std::string document = "[]";
  for (const WayFacts& way : ways) {
    if (list.size() == limits::kWaysMax) break;
    list.push_back(json_of(way));
    std::string longer = list.dump();
    if (longer.size() > limits::kDocumentMax) break;
    document = std::move(longer);
  }
  return document;
}

std::string encode(const MachineFacts& machine) {
  return json_of(machine).dump();
}

Result<std::vector<WayFacts>> decode_ways(Bytes document) {
  const Json list = parse(document);
  if (!list.is_array() || list.size() > limits::kWaysMax) return Code::bad_message;
  std::vector<WayFacts> ways;
  for (const Json& one : list) {
    if (!one.is_object()) return Code::bad_message;
    ways.push_back(way_of(one));
  }
  return ways;
}

Result<MachineFacts> decode_machine(Bytes document) {
  const Json json = parse(document);
  if (!json.is_object()) return Code::bad_message;
  MachineFacts machine;
  const auto cards = json.find("cards");
  if (cards != json.end() && cards->is_array()) {
    for (const Json& one : *cards) {
      if (machine.cards.size() == limits::kCardsMax || !one.is_object()) return Code::bad_message;
      machine.cards.push_back(card_of(one));
    }
  }
  machine.kernel_tls = word_in<KernelTls>(json, "kernel_tls", kKernelTls);
  machine.rdma_devices = texts_in(json, "rdma_devices", limits::kDevicesMax, limits::kWordBytesMax);
  machine.rdma_without_library = flag_at(json, "rdma_without_library");
  machine.memlock_bytes = number_at(json, "memlock_bytes");
  machine.insecure = flag_at(json, "insecure");
  return machine;
}

}  // namespace penstock::probe
