// What clients hear of a chain of one replica, and what they make of answers that are none.
#include <algorithm>
#include <deque>
#include <gtest/gtest.h>

#include "penstock/chain.h"
#include "penstock/chain_store_fake.h"
#include "penstock/sim.h"
#include "penstock/wire.h"

namespace penstock::chain {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::ChunkMethod;

constexpr ChainId kOneChain{1};
constexpr NodeId kServer{2};
constexpr NodeId kClient{3};
constexpr uint64_t kInode = 7;

// Answers all calls in one way, and counts them.
class Oracle final : public engine::Service {
 public:
  void on_call(engine::IncomingCall& call) override {
    const Code now = answers.size() > calls ? answers[calls] : answers.back();
    ++calls;
    std::memcpy(&said_in, call.request.data(), sizeof said_in);
    wire::ChainHeader header;
    std::memcpy(&header, call.request.data(), sizeof header);
    sessions.push_back(header.capability);
    methods.push_back(static_cast<wire::ChainMethod>(call.method));
    if (on_said) on_said();
    if (call.method == static_cast<uint16_t>(wire::ChainMethod::chunks)) return list(call);
    call.reply(now, now == Code::ok ? wire::as_wire(response) : Bytes());
  }
  std::vector<Code> answers = {Code::ok};
  size_t calls = 0;
  uint16_t said_in = 0;            // the version of the last one
  std::vector<uint64_t> sessions;  // that calls named
  std::vector<wire::ChainMethod> methods;
  std::function<void()> on_said;
  wire::ChainIoResponse response;
  std::vector<wire::ChunkEntry> entries;  // that it lists, as the last ones
  uint32_t next = wire::kChunkEnd;

 private:
  void list(engine::IncomingCall& call) {
    transfer_.call = &call;
    transfer_.local = {reinterpret_cast<std::byte*>(entries.data()),
                       entries.size() * sizeof(wire::ChunkEntry)};
    transfer_.owner = this;
    transfer_.completion = [](engine::Op& done) {
      auto& self = done.owner_as<Oracle>();
      const wire::ChainChunksResponse words{static_cast<uint32_t>(self.entries.size()), self.next};
      self.transfer_.call->reply(Code::ok, wire::as_wire(words));
    };
    call.place(transfer_);
  }
  engine::TransferOp transfer_;
};

// Has capabilities for what it is told.
struct PlayedSource final : CapabilitySource {
  std::optional<wire::Capability> has;
  std::optional<Code> refuses;
  int asked = 0;
  int dropped = 0;
  Result<std::optional<wire::Capability>> find(InodeId, uint64_t, uint8_t rights) override {
    ++asked;
    asked_rights = rights;
    if (refuses) return *refuses;
    return has;
  }
  void drop(const wire::Capability&) override { ++dropped; }
  uint8_t asked_rights = 0;
};

class ChainNetTest : public testing::Test {
 protected:
  ChainNetTest() {
    chain_net_ = ChainNet::make({.loop = &loop_,
                                 .net = &client_,
                                 .chains = &chains_,
                                 .node = kClient,
                                 .incarnation = 1,
                                 .first_slot = 0,
                                 .slots = 2,
                                 .session = [this] { return session_; },
                                 .capabilities = &source_});
    chains_.learn({kOneChain, 1, {member()}});
  }
  ~ChainNetTest() override {
    server_.kill();
    client_.kill();
    store_.die();
    host_ = nullptr;
    world_.run_for(seconds(30));
  }

  static Member member() { return {TargetId{2}, 1, {kServer, 0}, Standing::serving}; }

  void serve_oracle() { server_.serve({kServer, 0}, oracle_); }
  void serve_replica() {
    host_ = Host::make({.target = TargetId{2},
                        .incarnation = 1,
                        .loop = &loop_,
                        .net = &server_,
                        .store = &store_});
    server_.serve({kServer, 0}, host_->service());
    host_->lease(world_.now() + std::chrono::hours(1));
    host_->adopt({kOneChain, 1, {member()}});
  }

  struct Asked : engine::CallOp {
    wire::ChunkRequest words;
    std::array<std::byte, 64> answer{};
    bool ended = false;
    template <class T>
    T said() const {
      const auto decoded = wire::decode_chunk_response<T>(Bytes(answer).first(response_length));
      EXPECT_TRUE(decoded);
      return decoded ? *decoded : T{};
    }
  };
  Asked& ask(ChunkMethod method, const wire::ChunkRequest& words, std::vector<std::byte>* memory) {
    Asked& asked = asked_.emplace_back();
    asked.words = words;
    asked.to = address_of(kOneChain);
    asked.method = static_cast<uint16_t>(method);
    asked.request = wire::as_wire(asked.words);
    asked.response = asked.answer;
    asked.deadline = world_.now() + seconds(5);
    if (memory != nullptr) {
      const bool read = method == ChunkMethod::read;
      asked.exposures[asked.exposure_count++] = {
          {memory->data(), memory->size()}, read ? engine::Access::place : engine::Access::fetch};
    }
    asked.completion = [](engine::Op& done) { static_cast<Asked&>(done).ended = true; };
    return asked;
  }
  Status end(Asked& asked) {
    EXPECT_TRUE(world_.run_until([&] { return asked.ended; }, seconds(60)));
    return asked.status;
  }
  Status run(Asked& asked) {
    chain_net_->call(asked);
    return end(asked);
  }
  Asked& write(uint32_t chunk, uint32_t begin, std::vector<std::byte>& bytes) {
    return ask(ChunkMethod::write,
               {.inode = kInode,
                .chunk = chunk,
                .begin = begin,
                .length = static_cast<uint32_t>(bytes.size())},
               &bytes);
  }
  Asked& read(uint32_t chunk, uint32_t begin, std::vector<std::byte>& bytes, uint32_t flags = 0) {
    return ask(ChunkMethod::read,
               {.inode = kInode,
                .chunk = chunk,
                .begin = begin,
                .length = static_cast<uint32_t>(bytes.size()),
                .flags = flags},
               &bytes);
  }

  sim::SimWorld world_{1};
  sim::SimNetwork network_{world_};
  sim::SimLoop loop_{world_, sim::LoopDriver::world_when_called};
  sim::SimNet server_{network_, loop_, kServer};
  sim::SimNet client_{network_, loop_, kClient};
  store::FakeChainImage image_;
  store::FakeChainStore store_{image_, loop_};
  std::unique_ptr<Host> host_;
  Oracle oracle_;
  PlayedSource source_;
  uint64_t session_ = 0;
  size_t refreshed_ = 0;
  KnownChains chains_{[this](ChainId) { ++refreshed_; }};
  std::unique_ptr<ChainNet> chain_net_;
  std::deque<Asked> asked_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(8192, std::byte{5});
};

TEST_F(ChainNetTest, what_was_written_is_read_with_its_checksums) {
  serve_replica();
  EXPECT_EQ(run(write(0, 4096, bytes_)), Code::ok);
  std::vector<std::byte> found(3 * 4096);
  std::array<uint32_t, 3> checksums{};
  Asked& asked = read(0, 0, found, wire::kChunkChecksums);
  asked.exposures[asked.exposure_count++] = {
      {reinterpret_cast<std::byte*>(checksums.data()), sizeof checksums}, engine::Access::place};
  EXPECT_EQ(run(asked), Code::ok);
  EXPECT_TRUE(std::all_of(found.begin(), found.begin() + 4096,
                          [](std::byte byte) { return byte == std::byte{0}; }));
  EXPECT_TRUE(std::equal(bytes_.begin(), bytes_.end(), found.begin() + 4096));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(checksums[i], crc32c(Bytes(found).subspan(i * 4096, 4096)));
  }
}

TEST_F(ChainNetTest, speaks_to_each_replica_in_its_version) {
  serve_oracle();
  uint64_t version = 1;
  for (const uint16_t protocol : {uint16_t{2}, uint16_t{1}, uint16_t{3}}) {
    Member of_release = member();
    of_release.protocol = protocol;
    chains_.learn({kOneChain, ++version, {of_release}});
    EXPECT_EQ(run(write(0, 0, bytes_)), Code::ok);
    EXPECT_EQ(oracle_.said_in, protocol);
    EXPECT_EQ(run(read(0, 0, bytes_)), Code::ok);
    EXPECT_EQ(oracle_.said_in, protocol);
  }
}

// The node was started as another release since the table was read.
TEST_F(ChainNetTest, looks_for_the_table_where_its_version_is_not_spoken) {
  serve_oracle();
  oracle_.answers = {Code::wrong_version, Code::wrong_version, Code::ok};
  EXPECT_EQ(run(write(0, 0, bytes_)), Code::ok);
  EXPECT_EQ(oracle_.calls, 3U);
  EXPECT_EQ(refreshed_, 2U);
  // It surely was not done.
  oracle_.answers = {Code::wrong_version};
  Asked& refused = write(0, 0, bytes_);
  refused.deadline = world_.now() + seconds(1);
  EXPECT_EQ(run(refused), Code::wrong_version);
}

TEST_F(ChainNetTest, all_tries_of_a_call_are_for_the_session_in_which_it_began) {
  serve_oracle();
  const auto word = [](uint64_t number) { return wire::AgentSession{kClient, number}.word(); };
  session_ = word(7);
  oracle_.on_said = [&] { ++session_; };  // the agent's session ends meanwhile
  oracle_.answers = {Code::busy, Code::moved, Code::ok};
  EXPECT_EQ(run(write(0, 0, bytes_)), Code::ok);
  EXPECT_EQ(oracle_.sessions, (std::vector<uint64_t>{word(7), word(7), word(7)}));
  oracle_.sessions.clear();
  EXPECT_EQ(run(write(0, 0, bytes_)), Code::ok);
  EXPECT_EQ(oracle_.sessions, std::vector<uint64_t>{word(10)});
  // All chunks of a removal the same.
  oracle_.sessions.clear();
  EXPECT_EQ(run(read(0, 0, bytes_)), Code::ok);
  EXPECT_EQ(oracle_.sessions, std::vector<uint64_t>{word(11)});
  oracle_.sessions.clear();
  oracle_.entries = {{1, 5}, {2, 5}};
  EXPECT_EQ(run(ask(ChunkMethod::remove, {.inode = kInode, .chunk = 1}, nullptr)), Code::ok);
  EXPECT_EQ(oracle_.sessions, (std::vector<uint64_t>{word(12), word(12), word(12)}));
}

TEST_F(ChainNetTest, what_a_target_wants_to_see_is_shown_and_the_call_repeated) {
  using Method = wire::ChainMethod;
  serve_oracle();
  session_ = wire::AgentSession{kClient, 7}.word();
  source_.has = wire::Capability{};
  source_.has->rights = wire::kCapabilityRights;
  source_.has->key = 1;
  source_.has->inode_first = source_.has->inode_last = kInode;
  source_.has->session = session_;
  oracle_.answers = {Code::bad_handle, Code::ok};
  EXPECT_EQ(run(write(0, 0, bytes_)), Code::ok);
  EXPECT_EQ(oracle_.methods, (std::vector{Method::update, Method::show, Method::update}));
  EXPECT_EQ(source_.asked_rights, wire::kMayWrite);
  EXPECT_EQ(run(read(0, 0, bytes_)), Code::ok);
  EXPECT_EQ(oracle_.methods.size(), 4u) << "once";
  // It is not known yet, and then it is.
  oracle_.methods.clear();
  oracle_.calls = 0;
  const wire::Capability known = *std::exchange(source_.has, std::nullopt);
  oracle_.on_said = [&] { source_.has = known; };
  EXPECT_EQ(run(read(0, 0, bytes_)), Code::ok);
  EXPECT_EQ(oracle_.methods, (std::vector{Method::read, Method::show, Method::read}));
  EXPECT_EQ(source_.asked_rights, wire::kMayRead);
  // The key is not known there: another is asked for.
  oracle_.methods.clear();
  oracle_.calls = 0;
  oracle_.answers = {Code::bad_handle, Code::bad_handle, Code::bad_handle, Code::ok};
  EXPECT_EQ(run(read(0, 0, bytes_)), Code::ok);
  EXPECT_EQ(source_.dropped, 1);
  // Refused, by the target, and by who has the names: nothing has happened.
  oracle_.calls = 0;
  oracle_.answers = {Code::bad_handle, Code::access_denied};
  EXPECT_EQ(run(write(0, 0, bytes_)), Code::access_denied);
  oracle_.calls = 0;
  source_.refuses = Code::access_denied;
  EXPECT_EQ(run(write(0, 0, bytes_)), Code::access_denied);
  // What never helps ends with the time, and not in a storm.
  oracle_.calls = 0;
  source_.refuses.reset();
  oracle_.methods.clear();
  oracle_.answers.clear();
  for (int i = 0; i < 1000; ++i) {
    oracle_.answers.insert(oracle_.answers.end(), {Code::bad_handle, Code::ok});
  }
  Asked& never = read(0, 0, bytes_);
  never.deadline = world_.now() + seconds(2);
  EXPECT_EQ(run(never), Code::bad_handle);
  EXPECT_LT(oracle_.methods.size(), 200u);
}

TEST_F(ChainNetTest, who_waits_for_a_slot_keeps_its_session) {
  serve_oracle();
  const auto word = [](uint64_t number) { return wire::AgentSession{kClient, number}.word(); };
  std::vector<Asked*> all;
  for (uint64_t number = 1; number <= 4; ++number) {
    session_ = word(number);
    all.push_back(&write(0, 0, bytes_));
    chain_net_->call(*all.back());
  }
  session_ = 0;
  for (Asked* asked : all) EXPECT_EQ(end(*asked), Code::ok);
  std::sort(oracle_.sessions.begin(), oracle_.sessions.end());
  EXPECT_EQ(oracle_.sessions, (std::vector<uint64_t>{word(1), word(2), word(3), word(4)}));
}

// Nothing will make it possible: it is not tried again.
TEST_F(ChainNetTest, what_is_fenced_ends_for_good) {
  serve_oracle();
  oracle_.answers = {Code::stale};
  EXPECT_EQ(run(write(0, 0, bytes_)), Code::stale);
  EXPECT_EQ(oracle_.calls, 1U);
  // An earlier try, of which nothing is known, may have got its number before.
  oracle_.calls = 0;
  oracle_.answers = {Code::peer_gone, Code::stale};
  EXPECT_EQ(run(write(0, 0, bytes_)), Code::may_have_happened);
  EXPECT_EQ(oracle_.calls, 2U);
}

TEST_F(ChainNetTest, holes_are_seen_and_refused) {
  serve_replica();
  ASSERT_EQ(run(write(0, 0, bytes_)), Code::ok);
  std::vector<std::byte> beyond(4096);
  EXPECT_EQ(run(read(0, 8192, beyond, wire::kChunkRefuseHoles)), Code::no_data);
  EXPECT_EQ(run(read(0, 8192, beyond)), Code::ok);
  const auto probe = [&](uint32_t begin) {
    Asked& asked =
        ask(ChunkMethod::probe, {.inode = kInode, .begin = begin, .length = 16384}, nullptr);
    EXPECT_EQ(run(asked), Code::ok);
    return asked.said<wire::ChunkIoResponse>();
  };
  EXPECT_NE(probe(0).route, static_cast<uint8_t>(engine::Route::hole));
  EXPECT_EQ(probe(0).bad_block, 2U) << "two blocks of data";
  EXPECT_EQ(probe(8192).route, static_cast<uint8_t>(engine::Route::hole));
  EXPECT_EQ(probe(8192).bad_block, 4U) << "all that was asked of is a hole";
}

TEST_F(ChainNetTest, ends_are_found_and_chunks_removed) {
  serve_replica();
  constexpr uint32_t kChunks = 1200;  // more than are told of at a time
  for (uint32_t i = 0; i < kChunks; ++i) ASSERT_EQ(run(write(i, 0, bytes_)), Code::ok);
  const auto end_query = [&] {
    Asked& asked = ask(ChunkMethod::end_query, {.inode = kInode}, nullptr);
    EXPECT_EQ(run(asked), Code::ok);
    return asked.said<wire::ChunkEndResponse>();
  };
  const wire::ChunkEndResponse before = end_query();
  EXPECT_EQ(before.any, 1U);
  EXPECT_EQ(before.last_chunk, kChunks - 1);
  EXPECT_EQ(before.end_in_chunk, 8192U);
  EXPECT_EQ(before.allocated_bytes, kChunks * 8192U);
  Asked& asked = ask(ChunkMethod::remove, {.inode = kInode, .chunk = 2}, nullptr);
  asked.deadline = world_.now() + seconds(60);
  EXPECT_EQ(run(asked), Code::ok);
  EXPECT_EQ(asked.said<wire::ChunkRemoveResponse>().removed_bytes, (kChunks - 2) * 8192U);
  EXPECT_EQ(end_query().last_chunk, 1U);
  ASSERT_EQ(
      run(ask(ChunkMethod::clear,
              {.inode = kInode, .chunk = 1, .begin = 100, .length = wire::kChunkEnd}, nullptr)),
      Code::ok);
  EXPECT_EQ(end_query().end_in_chunk, 100U);
  EXPECT_EQ(run(ask(ChunkMethod::sync, {}, nullptr)), Code::ok);
}

TEST_F(ChainNetTest, the_head_tells_which_inodes_have_chunks) {
  serve_replica();
  const auto write_to = [&](uint64_t inode, uint32_t chunk) -> Asked& {
    return ask(ChunkMethod::write, {.inode = inode, .chunk = chunk, .length = 8192}, &bytes_);
  };
  constexpr uint32_t kMany = wire::kInodesMax + 3;
  for (uint64_t inode = 1; inode <= kMany; ++inode) {
    ASSERT_EQ(run(write_to(2 * inode, 0)), Code::ok);
  }
  ASSERT_EQ(run(write_to(8, 1)), Code::ok);
  ASSERT_EQ(run(ask(ChunkMethod::remove, {.inode = 6}, nullptr)), Code::ok);
  std::vector<uint64_t> numbers(wire::kInodesMax);
  const auto inodes_from = [&](uint64_t first) {
    Asked& asked = ask(ChunkMethod::inodes, {.inode = first, .length = wire::kInodesMax}, nullptr);
    const auto memory = std::as_writable_bytes(std::span(numbers));
    asked.exposures[0] = {{memory.data(), memory.size()}, engine::Access::place};
    asked.exposure_count = 1;
    EXPECT_EQ(run(asked), Code::ok);
    const auto said = asked.said<wire::ChunkInodesResponse>();
    return std::pair(std::vector(numbers.begin(), numbers.begin() + said.count), said.next);
  };
  std::vector<uint64_t> all;
  for (uint64_t inode = 1; inode <= kMany; ++inode) {
    if (inode != 3) all.push_back(2 * inode);
  }
  const auto [first, next] = inodes_from(1);
  EXPECT_EQ(first, std::vector(all.begin(), all.begin() + wire::kInodesMax));
  EXPECT_EQ(next, all[wire::kInodesMax]);
  const auto [rest, none] = inodes_from(next);
  EXPECT_EQ(rest, std::vector(all.begin() + wire::kInodesMax, all.end()));
  EXPECT_EQ(none, 0U);
  // Also what is not committed yet: here it waits for the store.
  Asked& pending = write_to(2 * kMany + 1, 0);
  chain_net_->call(pending);
  EXPECT_TRUE(world_.run_until([&] { return host_->status().pending == 1; }, seconds(1)));
  EXPECT_EQ(inodes_from(2 * kMany + 1).first, std::vector<uint64_t>{2 * kMany + 1});
  EXPECT_EQ(end(pending), Code::ok);
}

// Behind as many names of removed chunks as the head looks at in one go.
TEST_F(ChainNetTest, an_inode_has_chunks_behind_those_that_were_removed) {
  serve_replica();
  constexpr uint32_t kRemoved = 2048;
  bytes_.resize(1);
  for (uint32_t i = 0; i < kRemoved; ++i) ASSERT_EQ(run(write(i, 0, bytes_)), Code::ok);
  Asked& remove = ask(ChunkMethod::remove, {.inode = kInode}, nullptr);
  remove.deadline = world_.now() + seconds(60);
  ASSERT_EQ(run(remove), Code::ok);
  ASSERT_EQ(run(write(kRemoved, 0, bytes_)), Code::ok);
  uint64_t number = 0;
  Asked& asked = ask(ChunkMethod::inodes, {.inode = 1, .length = 1}, nullptr);
  asked.exposures[0] = {{reinterpret_cast<std::byte*>(&number), sizeof number},
                        engine::Access::place};
  asked.exposure_count = 1;
  ASSERT_EQ(run(asked), Code::ok);
  EXPECT_EQ(asked.said<wire::ChunkInodesResponse>().count, 1U);
  EXPECT_EQ(number, kInode);
}

TEST_F(ChainNetTest, busy_moved_and_not_serving_are_tried_again) {
  oracle_.answers = {Code::busy, Code::not_serving, Code::moved, Code::cancelled, Code::ok};
  serve_oracle();
  EXPECT_EQ(run(read(0, 0, bytes_)), Code::ok);
  EXPECT_EQ(oracle_.calls, 5U);
  EXPECT_EQ(refreshed_, 1U) << "moved: what is known is old";
  oracle_.calls = 0;
  EXPECT_EQ(run(write(0, 0, bytes_)), Code::ok);
}

TEST_F(ChainNetTest, an_update_that_was_only_ever_refused_has_not_happened) {
  oracle_.answers = {Code::no_space};
  serve_oracle();
  EXPECT_EQ(run(write(0, 0, bytes_)), Code::no_space);
  oracle_.answers = {Code::timed_out, Code::no_space};
  oracle_.calls = 0;
  EXPECT_EQ(run(write(0, 0, bytes_)), Code::may_have_happened) << "the first may still do it";
  oracle_.answers = {Code::busy};
  oracle_.calls = 0;
  EXPECT_EQ(run(write(0, 0, bytes_)), Code::busy);
  EXPECT_GT(oracle_.calls, 10U) << "until its deadline";
  EXPECT_LT(oracle_.calls, 200U) << "and not in a circle";
}

TEST_F(ChainNetTest, nobody_who_serves_is_said_at_the_deadline) {
  EXPECT_EQ(run(write(0, 0, bytes_)), Code::may_have_happened) << "nobody answered";
  EXPECT_EQ(run(read(0, 0, bytes_)), Code::peer_gone);
  chains_.learn({kOneChain, 2, {}});
  EXPECT_EQ(run(write(0, 0, bytes_)), Code::not_serving);
  EXPECT_EQ(run(read(0, 0, bytes_)), Code::not_serving);
}

TEST_F(ChainNetTest, what_waits_for_a_slot_has_its_turn_or_its_deadline) {
  serve_replica();
  for (int i = 0; i < 100; ++i) chain_net_->call(write(0, 0, bytes_));
  for (Asked& asked : asked_) EXPECT_EQ(end(asked), Code::ok);
  asked_.clear();
  server_.withdraw({kServer, 0});
  for (int i = 0; i < 5; ++i) chain_net_->call(write(0, 0, bytes_));
  EXPECT_EQ(end(asked_[0]), Code::may_have_happened);
  EXPECT_EQ(end(asked_[1]), Code::may_have_happened);
  EXPECT_EQ(end(asked_[2]), Code::timed_out) << "it was never sent";
  EXPECT_EQ(end(asked_[4]), Code::timed_out);
}

TEST_F(ChainNetTest, what_waits_is_cancelled_and_what_was_sent_is_not) {
  oracle_.answers = {Code::timed_out, Code::timed_out, Code::ok};
  serve_oracle();
  chain_net_->call(write(0, 0, bytes_));
  chain_net_->call(write(0, 0, bytes_));
  Asked& third = write(0, 0, bytes_);
  chain_net_->call(third);
  chain_net_->cancel(third);
  EXPECT_EQ(end(third), Code::cancelled) << "it had no slot yet";
  chain_net_->cancel(asked_[0]);
  EXPECT_EQ(end(asked_[0]), Code::ok);
  EXPECT_EQ(end(asked_[1]), Code::ok);
  oracle_.answers = {Code::busy};
  Asked& reading = read(0, 0, bytes_);
  chain_net_->call(reading);
  world_.run_for(milliseconds(100));
  chain_net_->cancel(reading);
  EXPECT_EQ(end(reading), Code::cancelled);
}

TEST_F(ChainNetTest, a_further_try_asks_another_replica) {
  Oracle silent;
  serve_oracle();
  server_.serve({kServer, 1}, silent);
  silent.answers = {Code::corrupt};
  const Member second{TargetId{4}, 1, {kServer, 1}, Standing::serving};
  chains_.learn({kOneChain, 2, {member(), second}});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(run(read(0, 0, bytes_)), Code::ok);
  EXPECT_EQ(oracle_.calls, 10U);
  EXPECT_GT(silent.calls, 2U) << "they share the work";
  oracle_.answers = {Code::corrupt};
  EXPECT_EQ(run(read(0, 0, bytes_)), Code::corrupt) << "no copy is whole";
}

// Answers when it is told to.
class Patient final : public engine::Service {
 public:
  void on_call(engine::IncomingCall& call) override { calls.push_back(&call); }
  void answer() {
    for (engine::IncomingCall* call : std::exchange(calls, {})) {
      call->reply(Code::ok, wire::as_wire(wire::ChainIoResponse{}));
    }
  }
  std::vector<engine::IncomingCall*> calls;
};

TEST_F(ChainNetTest, reads_ask_the_nearest_and_of_those_the_one_that_has_least_to_do) {
  ChainNetConfig config{.loop = &loop_, .net = &client_, .chains = &chains_, .node = kClient};
  config.incarnation = 1;
  config.rack = "here";
  chain_net_ = ChainNet::make(config);
  std::array<Patient, 3> replicas;
  View view{kOneChain, 2, {}};
  for (uint32_t i = 0; i < 3; ++i) {
    server_.serve({kServer, 10 + i}, replicas[i]);
    view.members.push_back({TargetId{10 + i}, 1, {kServer, 10 + i}, Standing::serving, "there"});
  }
  chains_.learn(view);
  const auto ask_all = [&](int count) {
    for (int i = 0; i < count; ++i) chain_net_->call(read(0, 0, bytes_));
    world_.run_for(milliseconds(10));
  };
  const auto asked = [&] {
    return std::array{replicas[0].calls.size(), replicas[1].calls.size(), replicas[2].calls.size()};
  };
  ask_all(6);
  EXPECT_EQ(asked(), (std::array<size_t, 3>{2, 2, 2}));
  replicas[1].answer();
  world_.run_for(milliseconds(10));
  ask_all(2);
  EXPECT_EQ(asked(), (std::array<size_t, 3>{2, 2, 2})) << "it had the least to do";
  view.version = 3;
  view.members[2].rack = "here";
  chains_.learn(view);
  ask_all(3);
  EXPECT_EQ(asked(), (std::array<size_t, 3>{2, 2, 5})) << "of this rack, though it has more to do";
  view.version = 4;
  view.members[0].address.node = kClient;
  client_.serve({kClient, 10}, replicas[0]);
  chains_.learn(view);
  ask_all(2);
  EXPECT_EQ(asked(), (std::array<size_t, 3>{4, 2, 5}))
      << "of this node, though another is of its rack";
  for (Patient& replica : replicas) replica.answer();
  for (Asked& one : asked_) EXPECT_EQ(end(one), Code::ok);
}

TEST_F(ChainNetTest, only_what_was_asked_for_is_removed) {
  serve_oracle();
  const auto remove = [&](std::vector<wire::ChunkEntry> entries, uint32_t next) {
    oracle_.entries = std::move(entries);
    oracle_.next = next;
    oracle_.calls = 0;
    return run(ask(ChunkMethod::remove, {.inode = kInode, .chunk = 5}, nullptr));
  };
  EXPECT_EQ(remove({{5, 1}, {7, 1}}, wire::kChunkEnd), Code::ok);
  EXPECT_EQ(oracle_.calls, 3U);
  EXPECT_EQ(remove({{4, 1}}, wire::kChunkEnd), Code::bad_message) << "before it";
  EXPECT_EQ(remove({{7, 1}, {7, 1}}, wire::kChunkEnd), Code::bad_message) << "twice";
  EXPECT_EQ(remove({{7, 1}}, 7), Code::bad_message) << "behind where the list ends";
  EXPECT_EQ(remove({{7, 0}}, wire::kChunkEnd), Code::bad_message) << "nothing is there";
  EXPECT_EQ(remove({}, 5), Code::bad_message) << "it would go on for ever";
  EXPECT_EQ(oracle_.calls, 1U) << "nothing of it was removed";
}

TEST_F(ChainNetTest, other_addresses_are_the_other_nets) {
  serve_oracle();
  Asked& asked = read(0, 0, bytes_);
  asked.to = {kServer, 0};
  EXPECT_EQ(run(asked), Code::ok);
  EXPECT_EQ(oracle_.calls, 1U);
}

TEST_F(ChainNetTest, what_is_no_request_is_refused) {
  serve_replica();
  EXPECT_EQ(run(ask(ChunkMethod::read, {.inode = 0, .length = 1}, &bytes_)), Code::bad_message);
  EXPECT_EQ(run(ask(static_cast<ChunkMethod>(99), {.inode = 1}, nullptr)), Code::bad_message);
  std::vector<std::byte> less(10);
  Asked& asked = read(0, 0, bytes_);
  asked.exposures[0].memory = {less.data(), less.size()};
  EXPECT_EQ(run(asked), Code::bad_message) << "the memory is shorter than the request says";
}

}  // namespace
}  // namespace penstock::chain
