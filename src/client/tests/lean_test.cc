// The steady state of the data path allocates nothing, and is cheap.
#include "node.h"

#include <ctime>
#include <deque>

#include "penstock/testing.h"

namespace penstock::client {
namespace {

// Keeps `depth` operations going until `count` have completed.
class Load {
 public:
  Load(Node& node, FileRef file, IoKind kind, uint32_t length, size_t depth) : node_(node) {
    user_.join(nullptr, &terms_);
    session_.join(&user_, &terms_);
    flow_.join(&session_, nullptr);
    ios_.resize(depth);
    buffer_.resize(depth * length, 'x');
    for (size_t i = 0; i < depth; ++i) {
      Io& io = ios_[i];
      io.file = file;
      io.kind = kind;
      io.offset = i * length;
      io.memory = {reinterpret_cast<std::byte*>(buffer_.data()) + i * length, length};
      io.load = this;
      io.flow = &flow_;
      io.completion = [](engine::Op& op) { static_cast<Io&>(op).load->completed(op); };
    }
  }
  void run(uint64_t count) {
    left_ = count;
    active_ = 0;
    for (Io& io : ios_) start(io);
    while (active_ > 0) {
      for (auto& loop : node_.loops) loop->poll();
    }
  }

 private:
  struct Io : IoOp {
    Load* load = nullptr;
  };
  void start(Io& io) {
    if (left_ == 0) return;
    --left_;
    ++active_;
    node_.files->client(0).submit(io);
  }
  void completed(engine::Op& op) {
    ASSERT(op.status.ok());
    --active_;
    start(static_cast<Io&>(op));
  }

  Node& node_;
  Terms terms_;
  Flow user_, session_, flow_;
  std::deque<Io> ios_;
  std::string buffer_;
  uint64_t left_ = 0;
  size_t active_ = 0;
};

void expect_lean(const char* what, IoKind kind, uint32_t length) {
  Node node(1, 1);
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, std::string(64 * length, 'x')).has_value());
  Load load(node, file, kind, length, 64);
  load.run(10'000);
  constexpr uint64_t kOps = 200'000;
  const uint64_t before = test::allocations();
  const std::clock_t began = std::clock();
  load.run(kOps);
  const double seconds = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  EXPECT_EQ(test::allocations(), before);
  // For people: the client, the transport and the target in memory together.
  std::printf("%s: %.0f ns of CPU each\n", what, seconds * 1e9 / kOps);
}

TEST(LeanTest, reads_allocate_nothing) {
  expect_lean("4 KiB reads", IoKind::read, 4096);
  expect_lean("512 byte reads", IoKind::read, 512);
}

TEST(LeanTest, reads_over_many_chunks_allocate_nothing) {
  Node node(1, 1);
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, std::string(1 << 20, 'x')).has_value());
  Load load(node, file, IoKind::read, 1 << 20, 1);
  load.run(100);
  const uint64_t before = test::allocations();
  load.run(1000);
  EXPECT_EQ(test::allocations(), before);
}

TEST(LeanTest, waiting_for_turns_allocates_nothing) {
  Node node(1, 1);
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, std::string(1 << 20, 'x')).has_value());
  // More than may be under way, and more than there are slots.
  Load many(node, file, IoKind::read, 4096, 5000);
  Load large(node, file, IoKind::read, 1 << 20, 40);
  many.run(20'000);
  large.run(100);
  const uint64_t before = test::allocations();
  many.run(20'000);
  large.run(1000);
  EXPECT_EQ(test::allocations(), before);
}

TEST(LeanTest, writes_allocate_nothing) {
  expect_lean("512 byte writes", IoKind::write, 512);
}

}  // namespace
}  // namespace penstock::client
