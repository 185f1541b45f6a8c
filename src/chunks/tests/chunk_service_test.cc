#include <cstring>
#include <deque>
#include <gtest/gtest.h>

#include "penstock/chunks.h"
#include "penstock/sim.h"
#include "penstock/store_fake.h"
#include "penstock/wire.h"

namespace penstock::chunks {
namespace {

using wire::ChunkMethod;

// A call as a transport would deliver it, to memory that may be out of the target's reach.
struct FakeCall final : engine::IncomingCall {
  engine::Loop* loop = nullptr;
  wire::ChunkRequest message;
  std::string memory;
  engine::Access access = engine::Access::place;
  bool reachable = true;
  uint64_t declared_length = 0;
  std::string checksums;  // the second span, if any
  int replies = 0;
  Status status;
  std::string response;

  FakeCall(engine::Loop& on, ChunkMethod what, wire::ChunkRequest with, std::string bytes = {})
      : loop(&on), message(with), memory(std::move(bytes)) {
    method = static_cast<uint16_t>(what);
    request = wire::as_wire(message);
    if (!memory.empty() || what == ChunkMethod::read) exposure_count = 1;
    if (what == ChunkMethod::write) access = engine::Access::fetch;
    declared_length = memory.size();
  }
  void expose_checksums() {
    exposure_count = 2;
    checksums.resize(wire::checksum_bytes(message.length));
  }
  std::string& span(uint32_t index) { return index == 0 ? memory : checksums; }
  engine::Peer peer() const override { return {NodeId{1}}; }
  uint64_t exposure_length(uint32_t index) const override {
    return index == 0 ? declared_length : checksums.size();
  }
  engine::Access exposure_access(uint32_t) const override { return access; }
  std::optional<engine::MemoryRef> direct(uint32_t index) override {
    if (!reachable) return std::nullopt;
    std::string& to = span(index);
    return engine::MemoryRef{reinterpret_cast<std::byte*>(to.data()), to.size()};
  }
  void place(engine::TransferOp& op) override {
    std::string& to = span(op.exposure);
    ASSERT_LE(op.exposure_offset + op.local.length, to.size());
    std::memcpy(to.data() + op.exposure_offset, op.local.data, op.local.length);
    loop->complete(op, Code::ok);
  }
  void fetch(engine::TransferOp& op) override {
    std::memcpy(op.local.data, memory.data() + op.exposure_offset, op.local.length);
    loop->complete(op, Code::ok);
  }
  void reply(Status how, Bytes answer) override {
    ++replies;
    status = how;
    response.assign(reinterpret_cast<const char*>(answer.data()), answer.size());
  }
};

class ChunkServiceTest : public testing::Test {
 protected:
  void run() { world.run_for(std::chrono::milliseconds(1)); }
  Status answer(FakeCall& call) {
    service->on_call(call);
    run();
    EXPECT_EQ(call.replies, 1);
    return call.status;
  }
  static std::string pattern(size_t length) {
    std::string bytes(length, ' ');
    for (size_t i = 0; i < length; ++i) bytes[i] = static_cast<char>(mix64(i));
    return bytes;
  }

  sim::SimWorld world{1};
  sim::SimLoop loop{world};
  store::FakeTarget target{loop};
  std::unique_ptr<engine::Service> service = make_service(target, ChainId{}, 4);
};

TEST_F(ChunkServiceTest, refuses_requests_that_break_the_protocol_and_does_nothing) {
  FakeCall empty(loop, ChunkMethod::read, {.inode = 1}, "");
  EXPECT_EQ(answer(empty), Status(Code::bad_message));
  FakeCall other_length(loop, ChunkMethod::read, {.inode = 1, .length = 5}, "1234");
  EXPECT_EQ(answer(other_length), Status(Code::bad_message));
  FakeCall wrong_way(loop, ChunkMethod::read, {.inode = 1, .length = 4}, "1234");
  wrong_way.access = engine::Access::fetch;
  EXPECT_EQ(answer(wrong_way), Status(Code::bad_message));
  FakeCall exposed(loop, ChunkMethod::sync, {.inode = 1});
  exposed.exposure_count = 1;
  EXPECT_EQ(answer(exposed), Status(Code::bad_message));
  FakeCall unknown(loop, static_cast<ChunkMethod>(99), {.inode = 1});
  EXPECT_EQ(answer(unknown), Status(Code::bad_message));
  FakeCall cut_off(loop, ChunkMethod::sync, {});
  cut_off.request = cut_off.request.first(3);
  EXPECT_EQ(answer(cut_off), Status(Code::bad_message));
  constexpr uint32_t kChecksums = wire::kChunkChecksums;
  FakeCall no_room(loop, ChunkMethod::read, {.inode = 1, .length = 4, .flags = kChecksums}, "1234");
  EXPECT_EQ(answer(no_room), Status(Code::bad_message));
  FakeCall small_room(loop, ChunkMethod::read, {.inode = 1, .length = 4097, .flags = kChecksums},
                      std::string(4097, '?'));
  small_room.expose_checksums();
  small_room.checksums.resize(4);
  EXPECT_EQ(answer(small_room), Status(Code::bad_message));
  FakeCall within(loop, ChunkMethod::read,
                  {.inode = 1, .begin = 1, .length = 4, .flags = kChecksums}, "1234");
  within.expose_checksums();
  EXPECT_EQ(answer(within), Status(Code::bad_message));
  FakeCall uncalled_for(loop, ChunkMethod::read, {.inode = 1, .length = 4}, "1234");
  uncalled_for.expose_checksums();
  EXPECT_EQ(answer(uncalled_for), Status(Code::bad_message));
  EXPECT_EQ(target.operations, 0u);
}

TEST_F(ChunkServiceTest, tells_checksums_wherever_the_memory_is) {
  const std::string bytes = pattern(2'500'000);
  const auto length = static_cast<uint32_t>(bytes.size());
  FakeCall write(loop, ChunkMethod::write, {.inode = 1, .begin = 8192, .length = length}, bytes);
  EXPECT_TRUE(answer(write).ok());
  for (const bool reachable : {true, false}) {
    FakeCall read(loop, ChunkMethod::read,
                  {.inode = 1, .begin = 8192, .length = length, .flags = wire::kChunkChecksums},
                  std::string(length, '?'));
    read.expose_checksums();
    read.reachable = reachable;
    EXPECT_TRUE(answer(read).ok());
    EXPECT_EQ(read.memory, bytes);
    const auto* const told = reinterpret_cast<const uint32_t*>(read.checksums.data());
    for (size_t at = 0; at < length; at += 4096) {
      const std::string block = bytes.substr(at, 4096);
      EXPECT_EQ(told[at / 4096], crc32c(std::as_bytes(std::span(block)))) << at;
    }
  }
}

TEST_F(ChunkServiceTest, makes_all_updates_durable_where_it_is_told_to) {
  const auto written_by = [&](engine::Service& by, uint64_t inode) {
    FakeCall write(loop, ChunkMethod::write, {.inode = inode, .length = 4}, "1234");
    by.on_call(write);
    world.run_until([&] { return write.replies > 0; });
    EXPECT_TRUE(write.status.ok());
  };
  const auto durable = make_service(target, {}, kCallsMax, Durable::all);
  written_by(*service, 1);
  written_by(*durable, 2);
  written_by(*durable, 3);
  FakeCall remove(loop, ChunkMethod::remove, {.inode = 3});
  durable->on_call(remove);
  world.run_until([&] { return remove.replies > 0; });
  target.power_cut();
  ASSERT_EQ(target.chunks.size(), 1u);
  EXPECT_EQ(target.chunks.begin()->first.inode, InodeId(2));
}

TEST_F(ChunkServiceTest, stages_what_the_target_cannot_reach) {
  const std::string bytes = pattern(2'500'001);
  const auto length = static_cast<uint32_t>(bytes.size());
  FakeCall write(loop, ChunkMethod::write, {.inode = 1, .begin = 77, .length = length}, bytes);
  write.reachable = false;
  EXPECT_TRUE(answer(write).ok());
  EXPECT_EQ(target.operations, 3u);
  EXPECT_EQ((target.chunks[{InodeId{1}, 0}].substr(77)), bytes);
  FakeCall read(loop, ChunkMethod::read, {.inode = 1, .begin = 77, .length = length},
                std::string(length, '?'));
  read.reachable = false;
  EXPECT_TRUE(answer(read).ok());
  EXPECT_EQ(read.memory, bytes);
  ASSERT_EQ(read.response.size(), sizeof(wire::ChunkIoResponse));
  EXPECT_EQ(read.response[0], static_cast<char>(engine::Route::disk_direct));
}

TEST_F(ChunkServiceTest, ends_a_staged_call_at_the_first_failure) {
  int calls = 0;
  target.fault = [&] { return ++calls == 2 ? Code::no_space : Code::ok; };
  const std::string bytes = pattern(5'000'000);
  FakeCall write(loop, ChunkMethod::write, {.inode = 1, .length = 5'000'000}, bytes);
  write.reachable = false;
  EXPECT_EQ(answer(write), Status(Code::no_space));
  EXPECT_EQ(calls, 2);
}

TEST_F(ChunkServiceTest, staged_calls_wait_for_a_buffer) {
  service = make_service(target, ChainId{}, 100);
  std::deque<FakeCall> calls;
  target.hold = true;
  for (uint32_t i = 0; i < 40; ++i) {
    calls.emplace_back(loop, ChunkMethod::write, wire::ChunkRequest{.inode = 1 + i, .length = 100},
                       pattern(100));
    calls.back().reachable = false;
    service->on_call(calls.back());
  }
  run();
  EXPECT_EQ(target.held.size(), 16u);
  target.release();
  run();
  for (const FakeCall& call : calls) {
    EXPECT_EQ(call.replies, 1);
    EXPECT_TRUE(call.status.ok());
  }
}

TEST_F(ChunkServiceTest, calls_beyond_its_contexts_wait_in_order) {
  std::deque<FakeCall> calls;
  target.hold = true;
  for (uint32_t i = 0; i < 10; ++i) {
    calls.emplace_back(loop, ChunkMethod::end_query, wire::ChunkRequest{.inode = 1 + i});
    service->on_call(calls.back());
  }
  // A bad one among them is refused when its turn comes.
  calls.emplace_back(loop, ChunkMethod::end_query, wire::ChunkRequest{});
  service->on_call(calls.back());
  run();
  EXPECT_EQ(target.held.size(), 4u);
  target.release();
  run();
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(calls[i].replies, 1);
  EXPECT_EQ(calls.back().status, Status(Code::bad_message));
}

TEST_F(ChunkServiceTest, answers_control_calls) {
  FakeCall write(loop, ChunkMethod::write, {.inode = 9, .chunk = 2, .length = 1000}, pattern(1000));
  EXPECT_TRUE(answer(write).ok());
  FakeCall clear(loop, ChunkMethod::clear,
                 {.inode = 9, .chunk = 2, .begin = 600, .length = wire::kChunkEnd});
  EXPECT_TRUE(answer(clear).ok());
  FakeCall end(loop, ChunkMethod::end_query, {.inode = 9});
  EXPECT_TRUE(answer(end).ok());
  wire::ChunkEndResponse where;
  ASSERT_EQ(end.response.size(), sizeof where);
  std::memcpy(&where, end.response.data(), sizeof where);
  EXPECT_EQ(where.any, 1u);
  EXPECT_EQ(where.last_chunk, 2u);
  EXPECT_EQ(where.end_in_chunk, 600u);
  FakeCall remove(loop, ChunkMethod::remove, {.inode = 9});
  EXPECT_TRUE(answer(remove).ok());
  EXPECT_EQ(remove.response.size(), sizeof(wire::ChunkRemoveResponse));
  EXPECT_TRUE(target.chunks.empty());
}

TEST_F(ChunkServiceTest, tells_which_inodes_have_chunks) {
  for (const uint64_t inode : {3, 5, 5, 8, 9}) {
    static uint32_t chunk = 0;
    FakeCall write(loop, ChunkMethod::write, {.inode = inode, .chunk = ++chunk, .length = 4},
                   "1234");
    EXPECT_TRUE(answer(write).ok());
  }
  const auto ask = [this](uint64_t first, uint32_t limit) {
    FakeCall call(loop, ChunkMethod::inodes, {.inode = first, .length = limit},
                  std::string(limit * sizeof(uint64_t), '\0'));
    EXPECT_TRUE(answer(call).ok());
    wire::ChunkInodesResponse response;
    EXPECT_EQ(call.response.size(), sizeof response);
    std::memcpy(&response, call.response.data(), sizeof response);
    std::vector<uint64_t> found(response.count);
    std::memcpy(found.data(), call.memory.data(), response.count * sizeof(uint64_t));
    return std::pair(found, response.next);
  };
  EXPECT_EQ(ask(4, 2), std::pair(std::vector<uint64_t>({5, 8}), uint64_t{9}));
  EXPECT_EQ(ask(9, 2), std::pair(std::vector<uint64_t>({9}), uint64_t{0}));
  EXPECT_EQ(ask(10, 2), std::pair(std::vector<uint64_t>(), uint64_t{0}));
  FakeCall small(loop, ChunkMethod::inodes, {.inode = 1, .length = 2}, std::string(15, '\0'));
  EXPECT_EQ(answer(small), Status(Code::bad_message));
  FakeCall much(loop, ChunkMethod::inodes, {.inode = 1, .length = wire::kInodesMax + 1},
                std::string((wire::kInodesMax + 1) * sizeof(uint64_t), '\0'));
  EXPECT_EQ(answer(much), Status(Code::bad_message));
}

}  // namespace
}  // namespace penstock::chunks
