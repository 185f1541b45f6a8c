#include <gtest/gtest.h>
#include <span>

#include "penstock/probe.h"

namespace penstock::probe {
namespace {

template <class Message>
Bytes bytes_of(const Message& message) {
  return std::as_bytes(std::span(&message, 1));
}
Bytes bytes_in(const std::string& text) {
  return std::as_bytes(std::span(text));
}

constexpr uint16_t number(Method method) {
  return static_cast<uint16_t>(method);
}

WayFacts some_way() {
  WayFacts way;
  way.transport = "tcp";
  way.from = "10.0.0.1:40000";
  way.to = "10.0.0.2:9180";
  way.used = true;
  way.protection = Protection::user_space;
  way.card = "eth0";
  way.card_mtu = 9000;
  way.path_mtu = 1500;
  way.segment_bytes = 1448;
  way.segments = 1'000'000;
  way.retransmissions = 3;
  way.congestion = "cubic";
  way.latency_median_ns = 30'000;
  way.latency_p99_ns = 90'000;
  way.place_bytes_per_second = 3'000'000'000;
  way.fetch_bytes_per_second = UINT64_MAX;
  way.reasons = {"no RDMA device on this machine", "another"};
  way.trouble = "it is gone";
  return way;
}

TEST(ProbeMessages, keep_every_field_of_a_way) {
  const std::vector<WayFacts> ways = {some_way(), WayFacts()};
  const auto decoded = decode_ways(bytes_in(encode(ways)));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(*decoded, ways);
}

TEST(ProbeMessages, keep_every_field_of_a_machine) {
  MachineFacts machine;
  machine.cards = {{"eth0", "10.0.0.1", 1, 9000, true, 200'000},
                   {"eth1", "fd00::1", 0, 1500, false, 0}};
  machine.kernel_tls = KernelTls::loadable;
  machine.rdma_devices = {"mlx5_0"};
  machine.rdma_without_library = true;
  machine.memlock_bytes = UINT64_MAX;
  machine.insecure = true;
  const auto decoded = decode_machine(bytes_in(encode(machine)));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(*decoded, machine);
}

TEST(ProbeMessages, are_cut_where_they_are_longer_than_people_read) {
  WayFacts way = some_way();
  way.trouble = std::string(5000, 'x');
  way.reasons.assign(100, std::string(5000, 'y'));
  const std::string document = encode(std::vector<WayFacts>(100, way));
  EXPECT_LE(document.size(), limits::kDocumentMax);
  const auto decoded = decode_ways(bytes_in(document));
  ASSERT_TRUE(decoded);
  ASSERT_FALSE(decoded->empty());
  EXPECT_LE(decoded->size(), limits::kWaysMax);
  EXPECT_EQ(decoded->front().trouble.size(), limits::kTextBytesMax);
  EXPECT_EQ(decoded->front().reasons.size(), limits::kReasonsMax);
}

TEST(ProbeMessages, show_nothing_that_a_terminal_would_obey) {
  WayFacts way = some_way();
  way.trouble = "\x1b[2Jgone\xff\n";
  const auto decoded = decode_ways(bytes_in(encode({way})));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->front().trouble, "?[2Jgone??");
  const auto foreign = decode_ways(bytes_in(R"([{"trouble": "\u001b[2J"}])"));
  ASSERT_TRUE(foreign);
  EXPECT_EQ(foreign->front().trouble, "?[2J");
}

TEST(ProbeMessages, refuse_documents_of_another_shape) {
  for (const char* text : {"", "{}", "[1]", "[", "null", "[[]]"}) {
    EXPECT_EQ(decode_ways(bytes_in(text)).error(), Code::bad_message) << text;
  }
  for (const char* text : {"", "[]", R"({"cards": [1]})", "{"}) {
    EXPECT_EQ(decode_machine(bytes_in(text)).error(), Code::bad_message) << text;
  }
  const std::string many(limits::kDocumentMax + 1, ' ');
  EXPECT_EQ(decode_ways(bytes_in(many)).error(), Code::bad_message);
  std::string list = "[{}";
  for (size_t i = 0; i < limits::kWaysMax; ++i) list += ",{}";
  EXPECT_EQ(decode_ways(bytes_in(list + "]")).error(), Code::bad_message);
}

TEST(ProbeMessages, take_a_field_of_the_wrong_type_for_one_that_is_not_there) {
  const auto decoded = decode_ways(bytes_in(
      R"([{"transport": 7, "used": 1, "path_mtu": -5, "reasons": "no", "of a later release": 1}])"));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->front(), WayFacts());
}

TEST(ProbeMessages, refuse_requests_that_cannot_be) {
  EXPECT_TRUE(decode_request(number(Method::echo), bytes_of(Request())));
  EXPECT_TRUE(decode_request(number(Method::measure), bytes_of(Request{kVersion, 2, 1000, 0})));
  const Request good;
  EXPECT_EQ(decode_request(number(Method::echo), bytes_of(good).first(15)).error(),
            Code::bad_message);
  EXPECT_EQ(decode_request(95, bytes_of(good)).error(), Code::not_supported);
  EXPECT_EQ(decode_request(101, bytes_of(good)).error(), Code::not_supported);
  EXPECT_EQ(decode_request(number(Method::echo), bytes_of(Request{2, 0, 0, 0})).error(),
            Code::wrong_version);
  for (const Request& bad :
       {Request{kVersion, 1, 0, 0}, Request{kVersion, 0, 1, 0}, Request{kVersion, 0, 0, 1}}) {
    EXPECT_EQ(decode_request(number(Method::place), bytes_of(bad)).error(), Code::bad_message);
  }
  for (const Request& bad : {Request{kVersion, 0, 1000, 0}, Request{kVersion, 2, 0, 0},
                             Request{kVersion, 2, 60'001, 0}, Request{kVersion, 2, 9, 0}}) {
    EXPECT_EQ(decode_request(number(Method::measure), bytes_of(bad)).error(), Code::bad_message);
  }
}

TEST(ProbeMessages, refuse_responses_without_the_document_that_they_should_have) {
  EXPECT_TRUE(decode_response(Method::tell, bytes_of(Response{1, 0})));
  EXPECT_TRUE(decode_response(Method::echo, bytes_of(Response())));
  EXPECT_FALSE(decode_response(Method::tell, bytes_of(Response())));
  EXPECT_FALSE(decode_response(Method::echo, bytes_of(Response{1, 0})));
  EXPECT_FALSE(decode_response(Method::tell, bytes_of(Response{limits::kDocumentMax + 1, 0})));
  EXPECT_FALSE(decode_response(Method::tell, bytes_of(Response{1, 1})));
  EXPECT_FALSE(decode_response(Method::tell, {}));
}

TEST(Machine, knows_the_card_of_this_machine_itself) {
  const CardFacts card = card_at("127.0.0.1");
  EXPECT_FALSE(card.name.empty());
  EXPECT_TRUE(card.is_up);
  EXPECT_GE(card.mtu, 1280U);
  EXPECT_EQ(card_at("192.0.2.77").name, "") << "an address that no machine has";
}

TEST(Machine, tells_of_the_cards_where_it_listens) {
  const MachineFacts machine = look_at_machine({{"127.0.0.1", 3}, {"192.0.2.77", 0}});
  ASSERT_EQ(machine.cards.size(), 2U);
  EXPECT_EQ(machine.cards[0].rail, 3U);
  EXPECT_TRUE(machine.cards[0].is_up);
  EXPECT_FALSE(machine.cards[1].is_up);
  EXPECT_GT(machine.memlock_bytes, 0U);
}

}  // namespace
}  // namespace penstock::probe
