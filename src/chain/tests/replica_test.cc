// One replica at a time, asked for what its neighbours and clients never would, or for too much.
#include <algorithm>
#include <deque>
#include <gtest/gtest.h>

#include "penstock/chain.h"
#include "penstock/chain_store_fake.h"
#include "penstock/sim.h"
#include "penstock/wire.h"

namespace penstock::chain {
namespace {

constexpr ChainId kChain{1};
constexpr NodeId kReplica{2};
constexpr NodeId kOther{3};  // a client, or the replica's neighbour
constexpr uint64_t kIncarnation = 5;
constexpr uint64_t kNeighbour = 9;  // its incarnation
constexpr auto kLong = std::chrono::hours(1);
constexpr uint32_t kHeldPart = 256 * kKiB;

// A target with a replica, and whoever asks it.
class ReplicaTest : public testing::Test {
 protected:
  ReplicaTest() {
    host_ = Host::make({.target = TargetId{2},
                        .incarnation = kIncarnation,
                        .loop = &loop_,
                        .net = &net_,
                        .store = &store_,
                        .held_bytes_max = 4 * kHeldPart,
                        .passed_bytes_max = 4 * kHeldPart,
                        .report = [this](const Report& report) { reports_.push_back(report); }});
    net_.serve({kReplica, 0}, host_->service());
    host_->lease(loop_.now() + kLong);
  }
  ~ReplicaTest() override {
    net_.kill();
    other_.kill();
    store_.die();
    host_ = nullptr;
    world_.run_for(std::chrono::seconds(10));
  }

  Member replica(Standing standing) { return {TargetId{2}, kIncarnation, {kReplica, 0}, standing}; }
  Member neighbour(Standing standing) { return {TargetId{3}, kNeighbour, {kOther, 0}, standing}; }

  // A call that the test makes, with memory of its own.
  struct Asked : engine::CallOp {
    std::vector<std::byte> message;
    std::array<std::byte, 64> answer{};
    std::vector<std::byte> exposed[2];
    bool ended = false;
  };
  template <class T>
  Asked& ask(wire::ChainMethod method, const T& words) {
    Asked& asked = asked_.emplace_back();
    const Bytes bytes = wire::as_wire(words);
    asked.message.assign(bytes.begin(), bytes.end());
    asked.to = {kReplica, 0};
    asked.method = static_cast<uint16_t>(method);
    asked.request = asked.message;
    asked.response = asked.answer;
    asked.deadline = world_.now() + kLong;
    asked.completion = [](engine::Op& done) { static_cast<Asked&>(done).ended = true; };
    return asked;
  }
  static void expose(Asked& asked, Bytes bytes, engine::Access access) {
    std::vector<std::byte>& kept = asked.exposed[asked.exposure_count];
    kept.assign(bytes.begin(), bytes.end());
    asked.exposures[asked.exposure_count++] = {{kept.data(), kept.size()}, access};
  }
  Status wait(Asked& asked) {
    other_.call(asked);
    EXPECT_TRUE(world_.run_until([&] { return asked.ended; }, kLong));
    return asked.status;
  }
  void wait_for_all() {
    const auto all_ended = [&] {
      return std::all_of(asked_.begin(), asked_.end(), [](const Asked& a) { return a.ended; });
    };
    EXPECT_TRUE(world_.run_until(all_ended, kLong));
  }

  // Of the newest version that it was told of.
  wire::ChainHeader header(uint32_t chunk) const { return {version_, 7, kChain.value, chunk}; }

  // The replica is the last of two, and its predecessor has nothing pending.
  void be_second() {
    adopt_behind(Standing::serving);
    hear_hello({});
  }
  // A version in which the neighbour serves before it.
  void adopt_behind(Standing standing) {
    host_->adopt({kChain, version_, {neighbour(Standing::serving), replica(standing)}});
  }
  void hear_hello(const std::vector<wire::PendingEntry>& pending) {
    wire::ChainHelloRequest hello{.header = {version_, 0, kChain.value, 0},
                                  .from_incarnation = kNeighbour,
                                  .to_incarnation = kIncarnation};
    hello.pending = static_cast<uint32_t>(pending.size());
    hello.repair = repair_;
    Asked& asked = ask(wire::ChainMethod::hello, hello);
    expose(asked, std::as_bytes(std::span(pending)), engine::Access::fetch);
    ASSERT_EQ(wait(asked), Code::ok);
  }
  void be_alone() { host_->adopt({kChain, 1, {replica(Standing::serving)}}); }

  // An update from the predecessor, of one part with `bytes` zeros.
  Status forward(const store::UpdatePart& part, size_t bytes) {
    wire::ChainForwardRequest request{
        .header = header(0), .name = {1, 1, part.request}, .base = {}};
    request.parts = 1;
    request.flags = wire::kForwardDurable;
    Asked& asked = ask(wire::ChainMethod::forward, request);
    expose(asked, std::as_bytes(std::span(&part, 1)), engine::Access::fetch);
    if (bytes > 0) expose(asked, std::vector<std::byte>(bytes), engine::Access::fetch);
    return wait(asked);
  }
  // One that nobody says to be durable at the predecessor: it stays pending.
  void leave_pending(const UpdateName& name) {
    wire::ChainForwardRequest request{.header = header(0), .name = name, .base = {}};
    request.parts = 1;
    Asked& sent = ask(wire::ChainMethod::forward, request);
    const store::UpdatePart part{name.request, 0, 1, store::UpdateKind::write};
    expose(sent, std::as_bytes(std::span(&part, 1)), engine::Access::fetch);
    expose(sent, std::array{std::byte{5}}, engine::Access::fetch);
    other_.call(sent);
    world_.run_for(std::chrono::milliseconds(10));
  }
  // A whole chunk with a byte, from repair, which expects this name there.
  Status replace(const UpdateName& expected, const UpdateName& committed, std::byte byte) {
    wire::ChainReplaceRequest request{
        .header = header(0), .expected = expected, .committed = committed};
    request.length = 1;
    Asked& asked = ask(wire::ChainMethod::replace, request);
    expose(asked, {}, engine::Access::fetch);
    expose(asked, std::span(&byte, 1), engine::Access::fetch);
    return wait(asked);
  }
  // What a client reads: a byte of chunk 0, or that the replica does not serve.
  static constexpr int kNotServing = -1;
  int read() {
    Asked& asked =
        ask(wire::ChainMethod::read, wire::ChainReadRequest{.header = header(0), .length = 1});
    expose(asked, std::array{std::byte{0xff}}, engine::Access::place);
    const Status status = wait(asked);
    if (status == Code::not_serving) return kNotServing;
    EXPECT_TRUE(status.ok()) << status.name();
    return std::to_integer<int>(asked.exposed[0][0]);
  }
  Asked& write(uint32_t chunk, uint32_t slot, uint32_t length) {
    wire::ChainUpdateRequest request;
    request.header = header(chunk);
    request.request = {1, 1, kOther.value, slot};
    request.end = length;
    request.kind = static_cast<uint8_t>(store::UpdateKind::write);
    Asked& asked = ask(wire::ChainMethod::update, request);
    expose(asked, std::vector<std::byte>(length), engine::Access::fetch);
    return asked;
  }

  uint64_t version_ = 1;
  uint64_t repair_ = 0;
  sim::SimWorld world_{1};
  sim::SimNetwork network_{world_};
  sim::SimLoop loop_{world_, sim::LoopDriver::world_when_called};
  sim::SimNet net_{network_, loop_, kReplica};
  sim::SimNet other_{network_, loop_, kOther};
  store::FakeChainImage image_;
  store::FakeChainStore store_{image_, loop_};
  std::vector<Report> reports_;
  std::deque<Asked> asked_;
  std::unique_ptr<Host> host_;
};

constexpr RequestId kRequest{1, 1, 3, 0};

TEST_F(ReplicaTest, takes_no_parts_that_cannot_be) {
  be_second();
  const uint32_t end = 4096;
  const auto write_of = [](uint32_t begin, uint32_t to, RequestId request) {
    return store::UpdatePart{request, begin, to, store::UpdateKind::write};
  };
  EXPECT_EQ(forward(write_of(end, end, kRequest), 0), Code::bad_message) << "empty";
  EXPECT_EQ(forward(write_of(0, end, kRequest), end - 1), Code::bad_message) << "bytes are missing";
  EXPECT_EQ(forward(write_of(0, end, kRequest), 0), Code::bad_message) << "all of them";
  EXPECT_EQ(forward(write_of(0, end, {1, 0, 3, 0}), end), Code::bad_message) << "no sequence";
  EXPECT_EQ(forward(write_of(UINT32_MAX - 1, UINT32_MAX, kRequest), 1), Code::bad_message)
      << "outside any chunk";
  const store::UpdatePart unknown{kRequest, 0, 0, static_cast<store::UpdateKind>(9)};
  EXPECT_EQ(forward(unknown, 0), Code::bad_message) << "of no kind";
  EXPECT_EQ(forward(write_of(0, end, kRequest), end), Code::ok) << "a good one";
  EXPECT_TRUE(reports_.empty()) << "nothing of it is a failure of the replica";
}

TEST_F(ReplicaTest, an_update_that_follows_what_it_does_not_have_makes_it_leave) {
  be_second();
  wire::ChainForwardRequest request{
      .header = header(0), .name = {1, 3, kRequest}, .base = {1, 2, kRequest}};
  request.parts = 1;
  Asked& asked = ask(wire::ChainMethod::forward, request);
  const store::UpdatePart part{kRequest, 0, 0, store::UpdateKind::remove};
  expose(asked, std::as_bytes(std::span(&part, 1)), engine::Access::fetch);
  EXPECT_EQ(wait(asked), Code::not_serving);
  ASSERT_FALSE(reports_.empty());
  EXPECT_EQ(reports_.front().kind, Report::Kind::failed);
}

// On a quick disk the predecessor says so while this one still looks at what it has of the chunk.
// To be asked again would take the predecessor a pause.
TEST_F(ReplicaTest, hears_at_once_that_an_update_is_durable_before_it) {
  network_.faults.delay_min = network_.faults.delay_max = std::chrono::microseconds(20);
  be_second();
  for (uint32_t chunk = 0; chunk < 50; ++chunk) {
    const store::UpdatePart part{kRequest, 0, 8, store::UpdateKind::write};
    const UpdateName name{1, 1, kRequest};
    wire::ChainForwardRequest request{.header = header(chunk), .name = name, .base = {}};
    request.parts = 1;
    Asked& update = ask(wire::ChainMethod::forward, request);
    expose(update, std::as_bytes(std::span(&part, 1)), engine::Access::fetch);
    expose(update, std::vector<std::byte>(8), engine::Access::fetch);
    other_.call(update);
    world_.run_for(std::chrono::microseconds(1));
    Asked& word = ask(wire::ChainMethod::durable,
                      wire::ChainWordRequest{.header = header(chunk), .name = name, .from = 3});
    ASSERT_EQ(wait(word), Code::ok);
    ASSERT_TRUE(world_.run_until([&] { return update.ended; }, kLong));
    EXPECT_EQ(update.status, Code::ok);
  }
}

// The head's word takes a shorter way than the update itself, and is answered with the commit.
TEST_F(ReplicaTest, takes_the_word_of_an_update_that_is_still_to_come) {
  host_->adopt({kChain,
                version_,
                {{TargetId{4}, kNeighbour, {kOther, 1}, Standing::serving},
                 neighbour(Standing::serving),
                 replica(Standing::serving)}});
  hear_hello({});
  const UpdateName name{1, 1, kRequest};
  const auto word_of = [&](uint32_t target) {
    return wire::ChainWordRequest{.header = header(0), .name = name, .from = target};
  };
  EXPECT_EQ(wait(ask(wire::ChainMethod::durable, word_of(2))), Code::bad_message) << "its own";
  EXPECT_EQ(wait(ask(wire::ChainMethod::durable, word_of(5))), Code::bad_message) << "of no member";
  Asked& first = ask(wire::ChainMethod::durable, word_of(4));
  other_.call(first);
  world_.run_for(std::chrono::milliseconds(10));
  Asked& again = ask(wire::ChainMethod::durable, word_of(4));
  other_.call(again);
  world_.run_for(std::chrono::milliseconds(10));
  EXPECT_EQ(first.status, Code::cancelled) << "its caller asks again";
  const store::UpdatePart part{kRequest, 0, 1, store::UpdateKind::write};
  wire::ChainForwardRequest request{.header = header(0), .name = name, .base = {}};
  request.parts = 1;
  Asked& sent = ask(wire::ChainMethod::forward, request);
  expose(sent, std::as_bytes(std::span(&part, 1)), engine::Access::fetch);
  expose(sent, std::array{std::byte{5}}, engine::Access::fetch);
  other_.call(sent);
  world_.run_for(std::chrono::milliseconds(10));
  EXPECT_EQ(read(), 0) << "its predecessor has not said that it is durable there";
  EXPECT_FALSE(again.ended || sent.ended);
  EXPECT_EQ(wait(ask(wire::ChainMethod::durable, word_of(3))), Code::ok);
  EXPECT_EQ(read(), 5);
  wait_for_all();
  EXPECT_EQ(again.status, Code::ok);
  EXPECT_EQ(sent.status, Code::ok);
  EXPECT_EQ(wait(ask(wire::ChainMethod::durable, word_of(4))), Code::ok) << "late";
}

// Others have counted the lease to its end meanwhile, and may have gone on without this one.
TEST_F(ReplicaTest, a_lease_ends_while_the_machine_is_suspended) {
  be_alone();
  EXPECT_EQ(read(), 0);
  world_.suspend(kLong);
  EXPECT_EQ(read(), kNotServing);
  host_->lease(loop_.clock().lease_now() + kLong);
  EXPECT_EQ(read(), 0);
}

TEST_F(ReplicaTest, does_nothing_in_a_version_before_its_predecessor_says_hello) {
  adopt_behind(Standing::serving);
  EXPECT_EQ(read(), kNotServing) << "the predecessor may serve by an older version";
  const store::UpdatePart part{kRequest, 0, 1, store::UpdateKind::write};
  EXPECT_EQ(forward(part, 1), Code::not_serving);
  hear_hello({});
  EXPECT_EQ(read(), 0);
  EXPECT_EQ(forward(part, 1), Code::ok);
}

// What it has pending beside what the hello names is committed: by name, as the predecessor may
// have gone on to another update of the same chunk.
TEST_F(ReplicaTest, a_hello_that_names_another_update_of_a_chunk_commits_the_one_before) {
  be_second();
  const UpdateName first{1, 1, kRequest};
  leave_pending(first);
  EXPECT_EQ(read(), 0) << "nobody said that it is durable at the predecessor";
  version_ = 2;
  adopt_behind(Standing::serving);
  hear_hello({{7, 0, 0, first}});
  EXPECT_EQ(read(), kNotServing) << "the same, which the last version may have shown: it goes on";
  version_ = 3;
  adopt_behind(Standing::serving);
  hear_hello({{7, 0, 0, {1, 2, {1, 2, 3, 0}}}});
  EXPECT_EQ(read(), 5) << "another: it has ended with the predecessor";
}

// Else a power cut brings it back to a chunk of which nothing else may be left, as the newest.
TEST_F(ReplicaTest, takes_part_in_a_repair_once_what_it_had_pending_is_gone_for_good) {
  be_second();
  leave_pending({1, 1, kRequest});
  ASSERT_EQ(store_.pending(kChain).size(), 1U);
  store_.stall = std::chrono::seconds(1);
  repair_ = version_ = 2;
  adopt_behind(Standing::syncing);
  const engine::Time begun = world_.now();
  hear_hello({});
  EXPECT_GE(world_.now() - begun, store_.stall);
  image_.power_cut(world_.random());
  EXPECT_FALSE(image_.chunks().begin()->second.pending.has_value());
}

TEST_F(ReplicaTest, a_late_copy_of_a_chunk_replaces_nothing_that_came_after_it) {
  repair_ = version_;
  adopt_behind(Standing::syncing);
  hear_hello({});
  const UpdateName first{1, 1, kRequest};
  const UpdateName second{1, 2, {1, 2, 3, 0}};
  EXPECT_EQ(replace({}, first, std::byte{1}), Code::ok);
  EXPECT_EQ(replace(first, second, std::byte{2}), Code::ok);
  EXPECT_EQ(replace({}, first, std::byte{1}), Code::stale) << "of a time when nothing was there";
  ASSERT_EQ(image_.chunks().size(), 1U);
  EXPECT_EQ(image_.chunks().begin()->second.committed, second);
  EXPECT_EQ(replace({}, second, std::byte{2}), Code::ok) << "it is there already";
}

TEST_F(ReplicaTest, what_waits_for_others_ends_when_it_is_closed) {
  // Its successor never answers, so that nothing is committed and hellos are said again for ever.
  host_->adopt({kChain, 1, {replica(Standing::serving), neighbour(Standing::serving)}});
  Asked& waits = write(0, 0, 4096);
  other_.call(waits);
  wire::ChainReadRequest read{.header = header(0), .length = 4096};
  Asked& reads = ask(wire::ChainMethod::read, read);
  expose(reads, std::vector<std::byte>(4096), engine::Access::place);
  other_.call(reads);
  world_.run_for(std::chrono::milliseconds(200));
  EXPECT_FALSE(waits.ended);
  net_.withdraw({kReplica, 0});
  engine::Op done;
  bool closed = false;
  done.owner = &closed;
  done.completion = [](engine::Op& op) { op.owner_as<bool>() = true; };
  host_->close(done);
  EXPECT_TRUE(world_.run_until([&] { return closed; }, std::chrono::seconds(5)));
  EXPECT_TRUE(world_.run_until([&] { return waits.ended && reads.ended; }, kLong));
  EXPECT_EQ(waits.status, Code::closed);
  const size_t said = reports_.size();
  host_ = nullptr;
  world_.run_for(kLong);
  EXPECT_EQ(reports_.size(), said) << "nothing of it is left";
}

TEST_F(ReplicaTest, more_updates_than_may_be_pending_have_their_turn) {
  be_alone();
  constexpr uint32_t kMany = wire::kChainListMax + 1000;
  for (uint32_t i = 0; i < kMany; ++i) other_.call(write(i, i, 8));
  wait_for_all();
  for (const Asked& asked : asked_) EXPECT_EQ(asked.status, Code::ok);
  EXPECT_EQ(image_.chunks().size(), kMany);
}

TEST_F(ReplicaTest, holds_no_more_of_its_clients_bytes_than_it_may) {
  be_alone();
  constexpr uint32_t kMany = 6;
  for (uint32_t i = 0; i < kMany; ++i) other_.call(write(i, i, kHeldPart));
  wait_for_all();
  const auto refused = std::count_if(asked_.begin(), asked_.end(),
                                     [](const Asked& a) { return a.status == Code::busy; });
  EXPECT_EQ(refused, 2);
  // The memory is there again afterwards.
  EXPECT_EQ(wait(write(kMany, kMany, kHeldPart)), Code::ok);
}

// What it has no memory for waits where it is, whatever its caller thinks of that, and keeps its
// turn when it is said again.
TEST_F(ReplicaTest, holds_no_more_of_its_predecessors_bytes_than_it_may) {
  be_second();
  constexpr uint32_t kMany = 12;
  const store::UpdatePart part{kRequest, 0, kHeldPart, store::UpdateKind::write};
  const UpdateName name{1, 1, kRequest};
  const auto send = [&](uint32_t chunk) -> Asked& {
    wire::ChainForwardRequest request{.header = header(chunk), .name = name, .base = {}};
    request.parts = 1;
    Asked& asked = ask(wire::ChainMethod::forward, request);
    expose(asked, std::as_bytes(std::span(&part, 1)), engine::Access::fetch);
    expose(asked, std::vector<std::byte>(kHeldPart), engine::Access::fetch);
    other_.call(asked);
    return asked;
  };
  std::vector<Asked*> updates;
  for (uint32_t chunk = 0; chunk < kMany; ++chunk) {
    updates.push_back(&send(chunk));
    world_.run_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(host_->status().pending, 3U) << "and a little of each is more than its bytes";
  Asked& first = *updates[3];
  send(3);
  world_.run_for(std::chrono::milliseconds(10));
  EXPECT_EQ(first.status, Code::cancelled);
  // Words are noted before the bytes are there.
  for (uint32_t chunk = kMany; chunk-- > 0;) {
    const wire::ChainWordRequest word{.header = header(chunk), .name = name, .from = 3};
    other_.call(ask(wire::ChainMethod::durable, word));
  }
  const auto all_ended = [&] {
    EXPECT_LE(host_->status().passed_bytes, 4 * kHeldPart);
    return std::all_of(asked_.begin(), asked_.end(), [](const Asked& a) { return a.ended; });
  };
  EXPECT_TRUE(world_.run_until(all_ended, kLong));
  for (const Asked& asked : asked_) {
    EXPECT_EQ(asked.status, &asked == &first ? Code::cancelled : Code::ok);
  }
  EXPECT_EQ(host_->status().passed_bytes, 0U);
}

TEST_F(ReplicaTest, what_a_newer_release_asks_is_told_what_it_speaks) {
  be_alone();
  wire::ChainReadRequest read{.header = header(0), .length = 1};
  read.header.protocol = wire::kNodeVersion + 1;
  Asked& asked = ask(wire::ChainMethod::read, read);
  EXPECT_EQ(wait(asked), Code::wrong_version);
  ASSERT_EQ(asked.response_length, sizeof(wire::ChainProtocolResponse));
  wire::ChainProtocolResponse response;
  std::memcpy(&response, asked.answer.data(), sizeof response);
  EXPECT_EQ(response.lowest, wire::kNodeVersionLeast);
  EXPECT_EQ(response.highest, wire::kNodeVersion);
}

// Keeps in which version its last call came.
class Listener final : public engine::Service {
 public:
  void on_call(engine::IncomingCall& call) override {
    std::memcpy(&said_in, call.request.data(), sizeof said_in);
    call.reply(Code::ok, {});
  }
  uint16_t said_in = 0;
};

TEST_F(ReplicaTest, speaks_to_each_neighbour_in_its_version) {
  Listener listener;
  other_.serve({kOther, 0}, listener);
  for (const uint16_t protocol : {uint16_t{2}, uint16_t{1}, uint16_t{3}}) {
    Member next = neighbour(Standing::serving);
    next.protocol = protocol;
    host_->adopt({kChain, ++version_, {replica(Standing::serving), next}});
    world_.run_for(std::chrono::milliseconds(100));
    EXPECT_EQ(listener.said_in, protocol);
  }
  other_.withdraw({kOther, 0});
}

// One that has nothing, and takes all that it is brought.
class EmptyNeighbour final : public engine::Service {
 public:
  void on_call(engine::IncomingCall& call) override {
    const auto method = static_cast<wire::ChainMethod>(call.method);
    if (method == wire::ChainMethod::replace) ++brought;
    const wire::ChainListResponse nothing;
    call.reply(Code::ok, method == wire::ChainMethod::list ? wire::as_wire(nothing) : Bytes());
  }
  size_t brought = 0;
};

TEST_F(ReplicaTest, a_copy_that_ends_in_a_later_version_keeps_no_repair_from_its_chunk) {
  EmptyNeighbour next;
  other_.serve({kOther, 0}, next);
  repair_ = version_;
  adopt_behind(Standing::syncing);
  hear_hello({});
  wire::ChainReplaceRequest request{
      .header = header(0), .expected = {}, .committed = {1, 1, {1, 1, kOther.value, 0}}};
  request.length = 1;
  Asked& copy = ask(wire::ChainMethod::replace, request);
  expose(copy, {}, engine::Access::fetch);
  expose(copy, std::array{std::byte{5}}, engine::Access::fetch);
  store_.stall = std::chrono::milliseconds(500);
  other_.call(copy);
  world_.run_for(
      std::chrono::milliseconds(520));  // it was looked up, and is on its way to the disk
  ASSERT_FALSE(copy.ended);
  store_.stall = {};
  host_->adopt({kChain, ++version_, {replica(Standing::serving), neighbour(Standing::syncing)}});
  EXPECT_TRUE(world_.run_until([&] { return next.brought > 0; }, std::chrono::seconds(5)));
  other_.withdraw({kOther, 0});
}

TEST_F(ReplicaTest, what_is_meant_for_another_target_goes_there) {
  be_alone();
  wire::ChainReadRequest read{.header = header(0), .length = 1};
  read.header.target = 3;
  Asked& asked = ask(wire::ChainMethod::read, read);
  expose(asked, std::vector<std::byte>(1), engine::Access::place);
  EXPECT_EQ(wait(asked), Code::moved);
}

TEST_F(ReplicaTest, a_read_sees_as_many_updates_as_it_wants) {
  be_alone();
  EXPECT_EQ(wait(write(0, 0, 8)), Code::ok);
  for (const uint64_t wanted : {0, 1, 2}) {
    wire::ChainReadRequest read{.header = header(0), .length = 8};
    read.header.chunk_version = wanted;
    Asked& asked = ask(wire::ChainMethod::read, read);
    expose(asked, std::vector<std::byte>(8), engine::Access::place);
    EXPECT_EQ(wait(asked), wanted <= 1 ? Code::ok : Code::stale);
    if (wanted > 1) continue;
    wire::ChainIoResponse response;
    ASSERT_EQ(asked.response_length, sizeof response);
    std::memcpy(&response, asked.answer.data(), sizeof response);
    EXPECT_EQ(response.chunk_version, 1U);
  }
}

TEST_F(ReplicaTest, an_update_whose_turn_comes_too_late_never_happens) {
  be_alone();
  store_.delay_max = std::chrono::milliseconds(50);
  store_.stall = std::chrono::milliseconds(100);
  other_.call(write(0, 0, 8));
  // Both wait for the first one; one of them not for so long.
  Asked& late = write(0, 1, 16);
  wire::ChainUpdateRequest words;
  std::memcpy(&words, late.message.data(), sizeof words);
  words.header.deadline_us = 20'000;
  std::memcpy(late.message.data(), &words, sizeof words);
  other_.call(late);
  Asked& patient = write(0, 2, 4);
  other_.call(patient);
  wait_for_all();
  EXPECT_EQ(late.status, Code::timed_out);
  EXPECT_EQ(patient.status, Code::ok);
  EXPECT_EQ(image_.chunks().begin()->second.bytes.size(), 8U) << "it was not done";
}

TEST_F(ReplicaTest, without_a_lease_it_says_that_it_does_not_serve) {
  be_alone();
  world_.run_for(2 * kLong);
  EXPECT_EQ(wait(write(0, 0, 8)), Code::not_serving);
}

}  // namespace
}  // namespace penstock::chain
