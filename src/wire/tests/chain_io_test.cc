#include <gtest/gtest.h>

#include "penstock/wire.h"

namespace penstock::wire {
namespace {

constexpr RequestId kId{5, 6, 7, 8};
constexpr UpdateName kName{3, 4, kId};
constexpr uint64_t kSession = AgentSession{NodeId(kId.node), 9}.word();

ChainHeader good_header() {
  return {3, 7, 1024, 2};
}

template <class T>
Code decoded(const T& request) {
  const Result<T> result = decode_chain_request<T>(as_wire(request));
  return result ? Code::ok : result.error().code();
}

TEST(ChainRequestTest, bytes_are_those_of_the_format) {
  ChainUpdateRequest request;
  request.header = {0x0102030405060708, 0x1112131415161718, 0x21222324, 0x31323334};
  request.header.traffic = Traffic::throughput;
  request.header.target = 0x41424344;
  request.header.user = 0x51525354;
  request.header.deadline_us = 0x61;
  request.header.capability = AgentSession{NodeId(0x73), 0x0a0b0c0d0e0f}.word();
  request.request = {0x71, 0x72, 0x73, 0x74};
  request.begin = 0x81;
  request.end = 0x82;
  request.kind = 1;
  const unsigned char expected[] = {
      1,    0,    72,   0,    1,    0,    0,    0,     // protocol, header, traffic
      8,    7,    6,    5,    4,    3,    2,    1,     // chain version
      0,    0,    0,    0,    0,    0,    0,    0,     // snapshot
      0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,  // inode
      0x24, 0x23, 0x22, 0x21, 0x34, 0x33, 0x32, 0x31,  // chain, chunk
      0,    0,    0,    0,    0,    0,    0,    0,     // chunk version
      0x0f, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0x73, 0,     // capability: session, node
      0x44, 0x43, 0x42, 0x41, 0x54, 0x53, 0x52, 0x51,  // target, user
      0x61, 0,    0,    0,    0,    0,    0,    0,     // deadline
      0x71, 0,    0,    0,    0,    0,    0,    0,     // incarnation
      0x72, 0,    0,    0,    0,    0,    0,    0,     // sequence
      0x73, 0,    0,    0,    0x74, 0,    0,    0,     // node, slot
      0x81, 0,    0,    0,    0x82, 0,    0,    0,     // begin, end
      1,    0,    0,    0,    0,    0,    0,    0,     // kind
  };
  ASSERT_EQ(as_wire(request).size(), sizeof expected);
  EXPECT_EQ(std::memcmp(as_wire(request).data(), expected, sizeof expected), 0);
  const auto back = decode_chain_request<ChainUpdateRequest>(as_wire(request));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->header.user, 0x51525354U);
  EXPECT_EQ(back->request, request.request);
  EXPECT_EQ(chain_of_request(as_wire(request)), ChainId{0x21222324});
  EXPECT_EQ(chain_of_request(as_wire(request).first(35)), ChainId{});
}

TEST(ChainRequestTest, what_a_newer_release_says_is_told_so) {
  ChainAskRequest request{good_header()};
  EXPECT_EQ(decoded(request), Code::ok);
  request.header.protocol = kNodeVersion + 1;
  EXPECT_EQ(decoded(request), Code::wrong_version);
  // Whatever it may look like.
  std::vector<std::byte> longer(as_wire(request).begin(), as_wire(request).end());
  longer.resize(longer.size() + 16);
  EXPECT_EQ(decode_chain_request<ChainAskRequest>(longer).error(), Code::wrong_version);
  request.header.protocol = 0;
  EXPECT_EQ(decoded(request), Code::bad_message);
  EXPECT_EQ(decode_chain_request<ChainAskRequest>({}).error(), Code::bad_message);
}

TEST(ChainRequestTest, fields_of_the_header_that_cannot_be_are_refused) {
  const auto with = [](auto change) {
    ChainAskRequest request{good_header()};
    change(request.header);
    return decoded(request);
  };
  EXPECT_EQ(with([](ChainHeader& h) { h.target = h.user = 5; }), Code::ok);
  EXPECT_EQ(with([](ChainHeader& h) { h.deadline_us = UINT64_MAX; }), Code::ok);
  EXPECT_EQ(with([](ChainHeader& h) { h.traffic = Traffic::repair; }), Code::ok);
  EXPECT_EQ(with([](ChainHeader& h) { h.traffic = static_cast<Traffic>(3); }), Code::bad_message);
  EXPECT_EQ(with([](ChainHeader& h) { h.reserved[2] = 1; }), Code::bad_message);
  EXPECT_EQ(with([](ChainHeader& h) { h.chain = 0; }), Code::bad_message);
  EXPECT_EQ(with([](ChainHeader& h) { h.chain_version = 0; }), Code::bad_message);
  EXPECT_EQ(with([](ChainHeader& h) { h.snapshot = 1; }), Code::bad_message);
  EXPECT_EQ(with([](ChainHeader& h) { h.capability = kSession; }), Code::bad_message)
      << "only updates of clients are made for a session";
  EXPECT_EQ(with([](ChainHeader& h) { h.chunk_version = 1; }), Code::bad_message);
  EXPECT_EQ(with([](ChainHeader& h) { h.inode = 0; }), Code::bad_message);
  EXPECT_EQ(with([](ChainHeader& h) { h.header_bytes = 71; }), Code::bad_message);
  EXPECT_EQ(with([](ChainHeader& h) { h.header_bytes = 73; }), Code::bad_message);
  ChainReadRequest read{good_header(), 0, 1, 0, 0};
  read.header.chunk_version = 1;
  EXPECT_EQ(decoded(read), Code::ok) << "a read may say what it wants to see";
  read.header.capability = kSession;
  EXPECT_EQ(decoded(read), Code::ok);
  read.header.capability = 1;
  EXPECT_EQ(decoded(read), Code::bad_message);
}

TEST(ChainRequestTest, updates_are_of_a_kind_and_of_somebody) {
  ChainUpdateRequest update;
  update.header = good_header();
  update.request = kId;
  update.end = 10;
  update.kind = 1;
  EXPECT_EQ(decoded(update), Code::ok);
  const auto with = [&update](auto change) {
    ChainUpdateRequest other = update;
    change(other);
    return decoded(other);
  };
  EXPECT_EQ(with([](ChainUpdateRequest& r) { r.header.capability = kSession; }), Code::ok);
  EXPECT_EQ(with([](ChainUpdateRequest& r) { r.header.capability = kSession | UINT64_MAX >> 16; }),
            Code::ok);
  EXPECT_EQ(with([](ChainUpdateRequest& r) { r.header.capability = 1; }), Code::bad_message)
      << "a session of no node";
  EXPECT_EQ(with([](ChainUpdateRequest& r) { r.header.capability = kSession - 9; }),
            Code::bad_message)
      << "a node without a session";
  EXPECT_EQ(with([](ChainUpdateRequest& r) {
              r.header.capability = AgentSession{NodeId(kId.node + 1), 9}.word();
            }),
            Code::bad_message)
      << "a session of another node than the one that asks";
  EXPECT_EQ(with([](ChainUpdateRequest& r) { r.header.chunk_version = 1; }), Code::bad_message);
  EXPECT_EQ(with([](ChainUpdateRequest& r) { r.kind = 4; }), Code::bad_message);
  EXPECT_EQ(with([](ChainUpdateRequest& r) { r.reserved[0] = 1; }), Code::bad_message);
  EXPECT_EQ(with([](ChainUpdateRequest& r) { r.request.sequence = 0; }), Code::bad_message);
  EXPECT_EQ(with([](ChainUpdateRequest& r) { r.request.node = 0; }), Code::bad_message);
  EXPECT_EQ(with([](ChainUpdateRequest& r) { r.begin = 10; }), Code::bad_message);
  EXPECT_EQ(with([](ChainUpdateRequest& r) { r.kind = 3; }), Code::bad_message);
}

TEST(AgentSessionTest, a_word_has_the_node_above_the_number) {
  const AgentSession session{NodeId(0x1234), 0x56789abcdef0};
  EXPECT_EQ(session.word(), 0x123456789abcdef0U);
  EXPECT_EQ(AgentSession::of_word(session.word()), session);
  const AgentSession last{NodeId(AgentSession::kNodeMost), AgentSession::kNumberMost};
  EXPECT_EQ(last.word(), UINT64_MAX);
  EXPECT_EQ(AgentSession::of_word(UINT64_MAX), last);
  EXPECT_EQ(AgentSession::of_word(0), AgentSession());
}

TEST(ChainRequestTest, copies_are_of_blocks_of_a_chunk) {
  ChainCopyRequest copy{good_header(), kName, 0, 64};
  EXPECT_EQ(decoded(copy), Code::ok);
  copy.blocks = 65;
  EXPECT_EQ(decoded(copy), Code::bad_message);
  copy.blocks = 0;
  EXPECT_EQ(decoded(copy), Code::bad_message);
  copy.blocks = 2;
  copy.first_block = static_cast<uint32_t>(limits::kChunkBytesMax / limits::kBlockBytes) - 1;
  EXPECT_EQ(decoded(copy), Code::bad_message);
  copy.blocks = 1;
  EXPECT_EQ(decoded(copy), Code::ok);
  copy.committed.counter = 0;
  EXPECT_EQ(decoded(copy), Code::bad_message);
}

TEST(ChainRequestTest, no_more_blocks_are_damaged_than_there_are) {
  ChainReplaceRequest replace;
  replace.header = good_header();
  replace.committed = kName;
  replace.length = 4097;
  replace.damaged = 2;
  EXPECT_EQ(decoded(replace), Code::ok);
  replace.damaged = 3;
  EXPECT_EQ(decoded(replace), Code::bad_message);
  replace.length = replace.damaged = 0;
  replace.removed = 1;
  EXPECT_EQ(decoded(replace), Code::ok);
  replace.damaged = 1;
  EXPECT_EQ(decoded(replace), Code::bad_message);
}

Capability good_capability() {
  Capability one;
  one.rights = kMayRead | kMayWrite;
  one.key = 3;
  one.chain_last = UINT32_MAX;
  one.inode_first = one.inode_last = 7;
  one.session = kSession;
  return one;
}

TEST(CapabilityTest, only_good_ones_are_read) {
  EXPECT_TRUE(decode_capability(as_wire(good_capability())).has_value());
  const auto changed = [](const auto& change) {
    Capability one = good_capability();
    change(one);
    const auto read = decode_capability(as_wire(one));
    return read ? Code::ok : read.error().code();
  };
  EXPECT_EQ(changed([](Capability& one) { one.version = 2; }), Code::wrong_version);
  EXPECT_EQ(changed([](Capability& one) { one.version = 0; }), Code::bad_message);
  EXPECT_EQ(changed([](Capability& one) { one.rights = 0; }), Code::bad_message);
  EXPECT_EQ(changed([](Capability& one) { one.rights = 4; }), Code::bad_message);
  EXPECT_EQ(changed([](Capability& one) { one.reserved[4] = 1; }), Code::bad_message);
  EXPECT_EQ(changed([](Capability& one) { one.reserved_too = 1; }), Code::bad_message);
  EXPECT_EQ(changed([](Capability& one) { one.key = 0; }), Code::bad_message);
  EXPECT_EQ(changed([](Capability& one) { one.chain_first = 9, one.chain_last = 8; }),
            Code::bad_message);
  EXPECT_EQ(changed([](Capability& one) { one.inode_first = 0; }), Code::bad_message);
  EXPECT_EQ(changed([](Capability& one) { one.inode_last = 8; }), Code::bad_message)
      << "one file, or all";
  EXPECT_EQ(changed([](Capability& one) { one.inode_first = 1, one.inode_last = UINT64_MAX; }),
            Code::ok);
  EXPECT_EQ(changed([](Capability& one) { one.session = 0; }), Code::bad_message);
  EXPECT_EQ(changed([](Capability& one) { one.session = 5; }), Code::bad_message) << "of no node";
  const Capability good = good_capability();
  EXPECT_FALSE(decode_capability(as_wire(good).first(119)).has_value());
  EXPECT_FALSE(decode_capability({}).has_value());
}

TEST(ChainRequestTest, a_capability_is_shown_in_its_own_session) {
  ChainShowRequest request;
  request.header = ChainHeader(3, 0, 1024, 0);
  request.header.capability = kSession;
  request.capability = good_capability();
  EXPECT_EQ(decoded(request), Code::ok);
  ChainShowRequest other = request;
  other.header.capability = AgentSession{NodeId(kId.node), 10}.word();
  EXPECT_EQ(decoded(other), Code::bad_message);
  other = request;
  other.header.inode = 7;
  EXPECT_EQ(decoded(other), Code::bad_message);
  other = request;
  other.capability.rights = 0;
  EXPECT_EQ(decoded(other), Code::bad_message);
}

}  // namespace
}  // namespace penstock::wire
