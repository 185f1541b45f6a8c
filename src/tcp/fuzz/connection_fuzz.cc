// What the other side of a connection sends, in random pieces: a caller and a server get through it
// with all calls ended once, no byte outside the exposed memory, none after a call's end, and the
// same results however the stream was cut.
#include "caller_side.h"
#include "fuzz.h"
#include "incoming.h"
#include "server_side.h"

#include <cstdlib>
#include <cstring>
#include <optional>

#include "penstock/tcp.h"

namespace penstock::fuzz {
namespace {

using namespace tcp;
using engine::Access;
using engine::Loop;
using engine::MemoryKind;
using engine::Op;

namespace bounds = tcp::limits;

void check(bool holds) {
  if (!holds) std::abort();
}

// A frame of the stream, with a header whose checksum is right.
struct Frame {
  std::vector<std::byte> bytes;
};

// Headers follow one another as their lengths say; a fuzzer finds no checksums and no magic.
std::vector<Frame> frames_of(Bytes input) {
  std::vector<Frame> frames;
  while (input.size() >= bounds::kHeaderBytes) {
    Frame frame;
    std::array<std::byte, bounds::kHeaderBytes> header;
    std::memcpy(header.data(), input.data(), header.size());
    std::memcpy(header.data(), "PNST", 4);
    const uint32_t checksum = crc32c(Bytes(header).first(header.size() - 4));
    std::memcpy(header.data() + header.size() - 4, &checksum, sizeof checksum);
    size_t rest = 0;
    if (const auto decoded = decode_header(header)) {
      rest = decoded->message_bytes + decoded->payload_bytes;
    }
    frame.bytes.assign(header.begin(), header.end());
    input = input.subspan(header.size());
    rest = std::min(rest, input.size());
    frame.bytes.insert(frame.bytes.end(), input.begin(),
                       input.begin() + static_cast<std::ptrdiff_t>(rest));
    input = input.subspan(rest);
    frames.push_back(std::move(frame));
  }
  return frames;
}

// Carries a side's frames nowhere but into `sent`.
class Carrier final : public Pipe {
 public:
  explicit Carrier(Side& side) : side_(side), reader_(side) {}

  void send_soon() override {}
  Batch* batch() override { return nullptr; }
  void fail(Status status, std::string_view) override {
    if (!failed) failed = status;
  }
  void finish() override { finishing = true; }
  bool divert() override {
    reader_.divert();
    return true;
  }
  bool release(Op&) override { return true; }

  // Cut as `cuts` says; whole without.
  void feed(Bytes bytes, engine::Random* cuts) {
    while (!bytes.empty() && !failed) {
      size_t count = bytes.size();
      if (cuts != nullptr) count = 1 + cuts->below(std::min<size_t>(count, 200));
      const MutableBytes place = reader_.place();
      Status status;
      if (cuts != nullptr && !place.empty() && cuts->chance(1, 2)) {
        count = std::min(count, place.size());
        std::memcpy(place.data(), bytes.data(), count);
        status = reader_.placed(count);
      } else {
        status = reader_.take(bytes.first(count));
      }
      bytes = bytes.subspan(count);
      if (!status.ok() && !failed) failed = status;
    }
  }
  void flush() {
    while (!failed && side_.has_to_send()) {
      auto batch = std::make_unique<Batch>();
      side_.fill(*batch);
      check(!batch->empty());
      const msghdr* const message = batch->unsent();
      for (size_t i = 0; i < message->msg_iovlen; ++i) {
        const iovec& piece = message->msg_iov[i];
        const auto* const data = static_cast<const std::byte*>(piece.iov_base);
        sent = crc32c({data, piece.iov_len}, sent);
      }
      batch->drop();
      batch->end([this](Op& owner) { side_.on_sent(owner); });
    }
  }
  void end() { side_.on_end(failed.value_or(Code::peer_gone)); }

  std::optional<Status> failed;
  bool finishing = false;
  uint32_t sent = 0;  // a checksum of all of it

 private:
  Side& side_;
  FrameReader reader_;
};

// Side and carrier need one another.
template <class T>
struct Late final : Pipe {
  void send_soon() override { to->send_soon(); }
  Batch* batch() override { return to->batch(); }
  void fail(Status status, std::string_view why) override { to->fail(status, why); }
  void finish() override { to->finish(); }
  bool divert() override { return to->divert(); }
  bool release(Op& owner) override { return to->release(owner); }
  T* to = nullptr;
};

struct Result {
  std::optional<Status> failed;
  uint32_t sent = 0;
  uint64_t served = 0;
  std::vector<uint64_t> ends;
  friend bool operator==(const Result&, const Result&) = default;
};

class Machine {
 protected:
  engine::SeededRandom random_{1};
  engine::FutexParker parker_{engine::system_clock()};
  Loop loop_{engine::system_clock(), random_, parker_};
  void settle() {
    while (loop_.poll()) {
    }
  }
};

// Replies, places or fetches, as the method says.
class TestService final : public engine::Service {
 public:
  void on_call(engine::IncomingCall& call) override {
    ++calls;
    if (call.method % 3 == 0 || call.exposure_count == 0) return call.reply(Code::ok, call.request);
    auto* const op = new Transfer;
    op->bytes.resize(std::min<uint64_t>(call.exposure_length(0), 64 * kKiB), std::byte{1});
    op->call = &call;
    op->local = {op->bytes.data(), op->bytes.size(), engine::kNoBuffer, MemoryKind::host};
    op->completion = [](Op& done) {
      const std::unique_ptr<Transfer> self(static_cast<Transfer*>(&done));
      self->call->reply(self->status,
                        Bytes(self->bytes).first(std::min<size_t>(8, self->bytes.size())));
    };
    if (call.method % 3 == 1) {
      call.place(*op);
    } else {
      call.fetch(*op);
    }
  }
  uint64_t calls = 0;

 private:
  struct Transfer final : engine::TransferOp {
    std::vector<std::byte> bytes;
  };
};

struct ServerRun final : Machine, ServerSide::Watcher {
  void on_server_end() override { ended = true; }
  Result run(const std::vector<Frame>& frames, engine::Random* cuts) {
    IncomingPool pool;
    TestService service;
    Late<Carrier> pipe;
    Welcome welcome;
    welcome.version = kVersion;
    welcome.calls_max = 8;
    welcome.node = NodeId{1};
    Result result;
    {
      ServerSide side(loop_, pipe, *this, pool, service, {NodeId{2}}, welcome);
      Carrier carrier(side);
      pipe.to = &carrier;
      carrier.flush();
      for (const Frame& frame : frames) {
        carrier.feed(frame.bytes, cuts);
        settle();
        carrier.flush();
        settle();
      }
      result = {carrier.failed, carrier.sent, service.calls, {}};
      carrier.end();
      settle();
      check(ended);
    }
    check(pool.taken() == 0);
    return result;
  }
  bool ended = false;
};

struct CallerRun final : Machine, CallerSide::Watcher {
  static constexpr size_t kGuard = 64;
  struct Call : engine::CallOp {
    std::vector<std::byte> memory = std::vector<std::byte>(kGuard + 8192 + kGuard, std::byte{0x5a});
    std::vector<std::byte> at_end;
    std::array<std::byte, 32> reply{};
    int ends = 0;
  };
  void on_welcome(const Welcome&) override {}
  void on_refusal(const Refused&) override {}
  void on_caller_end(Status) override { ended = true; }

  Result run(const std::vector<Frame>& frames, engine::Random* cuts) {
    Hello hello;
    hello.lowest_version = hello.highest_version = kVersion;
    hello.node = NodeId{2};
    hello.wanted = NodeId{1};
    std::array<Call, 4> calls;
    Late<Carrier> pipe;
    CallerSide side(loop_, pipe, *this, hello);
    Carrier carrier(side);
    pipe.to = &carrier;
    for (size_t i = 0; i < calls.size(); ++i) start(side, calls[i], i);
    carrier.flush();
    welcome(carrier);
    for (const Frame& frame : frames) {
      carrier.flush();
      carrier.feed(frame.bytes, cuts);
      settle();
    }
    carrier.flush();
    Result result{carrier.failed, carrier.sent, 0, {}};
    for (const Call& call : calls) {
      result.ends.push_back(call.ends == 0 ? UINT64_MAX
                                           : static_cast<uint64_t>(call.status.code()));
    }
    carrier.end();
    settle();
    check(ended);
    for (const Call& call : calls) {
      check(call.ends == 1);
      check(call.memory == call.at_end);
      check(call.response_length <= call.reply.size());
      for (size_t i = 0; i < kGuard; ++i) {
        check(call.memory[i] == std::byte{0x5a} &&
              call.memory[call.memory.size() - 1 - i] == std::byte{0x5a});
      }
    }
    return result;
  }

  static void start(CallerSide& side, Call& call, size_t index) {
    call.to = {NodeId{1}, 0};
    call.response = call.reply;
    const Access access = index % 2 == 0 ? Access::place : Access::fetch;
    call.exposures[0] = {{call.memory.data() + kGuard, 8192, engine::kNoBuffer, MemoryKind::host},
                         access};
    call.exposure_count = 1;
    call.completion = [](Op& op) {
      auto& ended_call = static_cast<Call&>(op);
      ++ended_call.ends;
      ended_call.at_end = ended_call.memory;
    };
    side.call(call);
  }

  static void welcome(Carrier& carrier) {
    Welcome answer;
    answer.version = kVersion;
    answer.calls_max = 3;  // the fourth waits
    answer.node = NodeId{1};
    std::array<std::byte, bounds::kMessageBytesMax> message;
    const uint32_t length = encode_welcome(answer, message);
    carrier.feed(encode_header({.version = 0, .kind = FrameKind::welcome, .message_bytes = length}),
                 nullptr);
    carrier.feed(Bytes(message).first(length), nullptr);
  }
  bool ended = false;
};

template <class Run>
Result run(const std::vector<Frame>& frames, engine::Random* cuts) {
  Run machine;
  return machine.run(frames, cuts);
}

std::string text(Header header, Bytes message, size_t payload) {
  header.message_bytes = static_cast<uint32_t>(message.size());
  header.payload_bytes = static_cast<uint32_t>(payload);
  const HeaderBytes bytes = encode_header(header);
  std::string out(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  out.append(reinterpret_cast<const char*>(message.data()), message.size());
  return out.append(payload, 'p');
}

std::string request(uint16_t method, uint64_t number, Access access, uint64_t length, bool comes) {
  Request made;
  made.span_count = 1;
  made.spans[0] = {length, access, comes};
  std::array<std::byte, bounds::kMessageBytesMax> message;
  const uint32_t bytes = encode_request(made, message);
  return text({.kind = FrameKind::request, .method = method, .call = number, .exposure = 1},
              Bytes(message).first(bytes), comes ? length : 0);
}

}  // namespace

std::vector<std::string> seeds() {
  // The caller's numbers: the n-th use of a slot, above the slot.
  constexpr uint64_t kFirst = 1 << 10, kSecond = 2 << 10 | 1, kThird = 3 << 10 | 2;
  const std::string data = text({.kind = FrameKind::data, .call = kFirst, .offset = 5}, {}, 300);
  const std::string want =
      text({.kind = FrameKind::want, .call = kSecond, .length = 4096, .transfer = 3}, {}, 0);
  const std::string end = text({.kind = FrameKind::response, .call = kFirst}, {}, 0);
  std::vector<std::string> out;
  out.push_back("1a" + data + want + data + end);
  out.push_back("1b" + text({.kind = FrameKind::data, .call = kThird}, {}, 8192) + end + want +
                text({.kind = FrameKind::response, .call = kSecond}, {}, 0) +
                text({.kind = FrameKind::ping, .call = 1}, {}, 0));
  out.push_back("1c" + end + end);
  out.push_back("1d" + want + text({.kind = FrameKind::goodbye}, {}, 0));
  out.push_back("0a" + request(3, 1, Access::place, 100, false) +
                request(1, 2, Access::place, 50'000, false) +
                text({.kind = FrameKind::ping}, {}, 0));
  out.push_back("0b" + request(2, 7, Access::fetch, 300, false) +
                text({.kind = FrameKind::data, .call = 7, .transfer = 1}, {}, 100) +
                text({.kind = FrameKind::data, .call = 7, .offset = 100, .transfer = 1}, {}, 200));
  out.push_back("0c" + request(2, 7, Access::fetch, 300, true) +
                request(2, 8, Access::fetch, 9000, false) +
                text({.kind = FrameKind::abandon, .call = 8}, {}, 0));
  return out;
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  if (size < 2) return 0;
  const auto frames = fuzz::frames_of(std::as_bytes(std::span(data, size)).subspan(2));
  engine::SeededRandom cuts(data[1]);
  // Of a server, or of a caller.
  if (data[0] % 2 == 0) {
    fuzz::check(fuzz::run<fuzz::ServerRun>(frames, nullptr) ==
                fuzz::run<fuzz::ServerRun>(frames, &cuts));
  } else {
    fuzz::check(fuzz::run<fuzz::CallerRun>(frames, nullptr) ==
                fuzz::run<fuzz::CallerRun>(frames, &cuts));
  }
  return 0;
}
