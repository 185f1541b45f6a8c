// Flows through a whole client: how much of a flood is ahead of what another flow asks for.
// Counted in operations of the target, so that no machine is too slow for it.
#include "node.h"

#include <deque>

namespace penstock::client {
namespace {

// A file, and operations that read it all the time.
class Crowd {
 public:
  struct Io : IoOp {
    Crowd* crowd = nullptr;
    bool done = false;
  };

  Crowd() : node(3, 1), target(*node.targets[0]), file(node.open("/a")), buffer(kLarge, 'x') {
    EXPECT_TRUE(node.write(file, 0, buffer).has_value());
    target.hold = true;
  }
  ~Crowd() {
    run_out();
    target.hold = false;
  }

  Io& submit(Flow& flow, IoKind kind, uint64_t length, engine::Time deadline = engine::kNever) {
    Io& io = ios.emplace_back();
    io.crowd = this;
    io.file = file;
    io.kind = kind;
    io.flow = &flow;
    io.memory = {reinterpret_cast<std::byte*>(buffer.data()), length};
    io.deadline = deadline;
    io.completion = [](engine::Op& op) {
      auto& self = static_cast<Io&>(op);
      self.done = true;
      ++self.crowd->completed;
    };
    node.files->client(0).submit(io);
    run_until_idle();
    return io;
  }
  void run_until_idle() {
    while (node.loops[0]->poll()) {
    }
  }
  // The target answers the oldest.
  void answer() {
    ASSERT_FALSE(target.held.empty());
    const auto complete = std::move(target.held.front());
    target.held.erase(target.held.begin());
    complete();
    run_until_idle();
  }
  // Others' answers before that of `io`.
  size_t answers_until(const Io& io) {
    size_t count = 0;
    while (!io.done) {
      answer();
      ++count;
    }
    return count;
  }
  void run_out() {
    while (!target.held.empty()) answer();
    EXPECT_EQ(completed, ios.size());
  }

  static constexpr uint64_t kLarge = 4 * kMiB;
  Node node;
  store::FakeTarget& target;
  FileRef file;
  std::string buffer;
  std::deque<Io> ios;
  size_t completed = 0;
};

TEST(FairnessTest, a_small_read_is_behind_little_of_a_flood) {
  Flow flood, small;
  Crowd crowd;
  for (int i = 0; i < 1000; ++i) crowd.submit(flood, IoKind::read, Crowd::kLarge);
  // The first finds what the disk is given when there is nothing small: 16 MiB, in chunks of 64
  // KiB.
  EXPECT_LE(crowd.answers_until(crowd.submit(small, IoKind::read, 4096)), 257u);
  for (int i = 0; i < 100; ++i) {
    EXPECT_LE(crowd.answers_until(crowd.submit(small, IoKind::read, 4096)), 5u);
  }
  // The flood goes on meanwhile.
  EXPECT_GT(crowd.target.operations, 300u);
}

TEST(FairnessTest, a_flood_of_small_reads_takes_turns_with_others) {
  Flow flood, other;
  Crowd crowd;
  for (int i = 0; i < 8000; ++i) crowd.submit(flood, IoKind::read, 4096);
  for (int i = 0; i < 20; ++i) {
    EXPECT_LE(crowd.answers_until(crowd.submit(other, IoKind::read, 4096)), 520u);
  }
}

TEST(FairnessTest, writes_are_behind_little_of_a_flood) {
  Flow flood, small;
  Crowd crowd;
  for (int i = 0; i < 300; ++i) crowd.submit(flood, IoKind::read, Crowd::kLarge);
  crowd.answers_until(crowd.submit(small, IoKind::read, 4096));
  for (int i = 0; i < 20; ++i) {
    EXPECT_LE(crowd.answers_until(crowd.submit(small, IoKind::write, 4096)), 5u);
  }
}

TEST(FairnessTest, what_waits_ends_at_its_deadline_or_when_it_is_taken_back) {
  Flow flood, other;
  Crowd crowd;
  const engine::Time soon = crowd.node.world.now() + std::chrono::milliseconds(5);
  for (int i = 0; i < 100; ++i) crowd.submit(flood, IoKind::read, Crowd::kLarge);
  Crowd::Io& late = crowd.submit(other, IoKind::read, Crowd::kLarge, soon);
  Crowd::Io& late_write = crowd.submit(other, IoKind::write, Crowd::kLarge, soon);
  Crowd::Io& unwanted = crowd.submit(other, IoKind::read, Crowd::kLarge);
  crowd.node.files->client(0).cancel(unwanted);
  crowd.run_until_idle();
  EXPECT_TRUE(unwanted.done);
  EXPECT_EQ(unwanted.status, Status(Code::cancelled));
  crowd.node.world.run_for(std::chrono::milliseconds(6));
  EXPECT_TRUE(late.done);
  EXPECT_EQ(late.status, Status(Code::timed_out));
  EXPECT_EQ(late.transferred, 0u);
  // What has begun waits for what is under way.
  EXPECT_FALSE(late_write.done);
  crowd.run_out();
  EXPECT_EQ(late_write.status, Status(Code::timed_out));
}

TEST(FairnessTest, deadline_of_what_has_ended_does_not_end_what_comes_next) {
  Flow flow;
  Crowd crowd;
  const engine::Time soon = crowd.node.world.now() + std::chrono::milliseconds(5);
  const Crowd::Io& early = crowd.submit(flow, IoKind::read, 4096, soon);
  crowd.answer();
  EXPECT_TRUE(early.done);
  const Crowd::Io& next = crowd.submit(flow, IoKind::read, 4096);
  crowd.node.world.run_for(std::chrono::milliseconds(6));
  EXPECT_FALSE(next.done);
  crowd.run_out();
  EXPECT_EQ(next.status, Status());
}

TEST(FairnessTest, what_has_begun_and_waits_again_can_be_taken_back) {
  Flow flood, small;
  Crowd crowd;
  std::vector<Crowd::Io*> all;
  for (int i = 0; i < 20; ++i) all.push_back(&crowd.submit(flood, IoKind::read, Crowd::kLarge));
  // Less may be under way from now on, so that some wait with nothing under way.
  crowd.answers_until(crowd.submit(small, IoKind::read, 4096));
  for (int i = 0; i < 400; ++i) crowd.answer();
  for (Crowd::Io* io : all) {
    if (!io->done) crowd.node.files->client(0).cancel(*io);
  }
  crowd.run_until_idle();
  crowd.run_out();
  size_t cancelled = 0;
  for (const Crowd::Io* io : all) cancelled += io->status == Status(Code::cancelled) ? 1 : 0;
  EXPECT_GT(cancelled, 5u);
}

TEST(FairnessTest, every_byte_arrives_in_pieces) {
  Flow flow;
  Crowd crowd;
  crowd.target.hold = false;
  for (size_t i = 0; i < crowd.buffer.size(); ++i) crowd.buffer[i] = static_cast<char>(mix64(i));
  const std::string bytes = crowd.buffer;
  EXPECT_TRUE(crowd.submit(flow, IoKind::write, bytes.size()).done);
  crowd.buffer.assign(bytes.size(), '?');
  crowd.submit(flow, IoKind::read, 4096);
  EXPECT_TRUE(crowd.submit(flow, IoKind::read, bytes.size()).done);
  EXPECT_EQ(crowd.buffer, bytes);
}

TEST(FairnessTest, an_early_end_lets_its_flow_go) {
  Crowd crowd;
  crowd.target.hold = false;
  // Durable writes that lengthen the file wait for its length after their bytes have moved.
  Flow flow;
  Crowd::Io& io = crowd.ios.emplace_back();
  io.crowd = &crowd;
  io.file = crowd.file;
  io.kind = IoKind::write;
  io.durable = true;
  io.offset = 2 * Crowd::kLarge;
  io.flow = &flow;
  io.memory = {reinterpret_cast<std::byte*>(crowd.buffer.data()), 4096};
  io.completion = [](engine::Op& op) {
    auto& self = static_cast<Crowd::Io&>(op);
    self.done = true;
    ++self.crowd->completed;
  };
  crowd.node.files->client(0).submit(io);
  for (int i = 0; i < 3 && !io.done; ++i) {
    crowd.node.loops[0]->poll();
  }
  crowd.node.files->client(0).cancel(io);
  crowd.run_until_idle();
  EXPECT_TRUE(io.done) << "its flow may go";
}

}  // namespace
}  // namespace penstock::client
