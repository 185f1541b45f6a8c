// A service that the test calls itself, as any peer with any bytes.
#pragma once

#include "../answers.h"
#include "../frame.h"

#include <gtest/gtest.h>
#include <memory>
#include <set>

#include "penstock/meta_net.h"
#include "penstock/testing_meta.h"

namespace penstock::meta_net {

// What a peer sends, and what it gets.
class PlayedCall final : public engine::IncomingCall {
 public:
  explicit PlayedCall(engine::Loop& loop) : loop_(loop) { method = kMethod; }

  engine::Peer from{NodeId{5}};
  std::string message;   // the request
  std::string asked;     // exposed to be fetched, unless it is empty
  std::string answered;  // exposed to be placed into, unless it is empty
  bool is_ended = false;
  Status status;
  ResponseHeader header;
  std::string answer;  // also of a long one

  engine::Peer peer() const override { return from; }
  uint64_t exposure_length(uint32_t index) const override { return exposed(index).size(); }
  engine::Access exposure_access(uint32_t index) const override {
    return index == 0 && !asked.empty() ? engine::Access::fetch : engine::Access::place;
  }
  std::optional<engine::MemoryRef> direct(uint32_t) override { return std::nullopt; }
  void place(engine::TransferOp& op) override {
    std::memcpy(answered.data() + op.exposure_offset, op.local.data, op.local.length);
    loop_.complete(op, Code::ok);
  }
  void fetch(engine::TransferOp& op) override {
    std::memcpy(op.local.data, asked.data() + op.exposure_offset, op.local.length);
    loop_.complete(op, Code::ok);
  }
  void reply(Status with, Bytes response) override {
    EXPECT_FALSE(is_ended);
    is_ended = true;
    status = with;
    if (!read_header(response, header)) return;
    const bool is_long = with.ok() && response.size() == sizeof header && header.length > 0;
    answer = is_long ? answered.substr(0, header.length)
                     : std::string(text_of(response.subspan(sizeof header)));
  }

  // As the header says it, with the right checksum.
  void prepare(RequestHeader with, const Request& what) {
    std::string bytes = encode(what);
    with.length = static_cast<uint32_t>(bytes.size());
    with.checksum = checksum_of(with, bytes);
    message.assign(reinterpret_cast<const char*>(&with), sizeof with);
    exposure_count = answered.empty() ? 0 : 1;
    if (bytes.size() <= kShortRequest) {
      message += bytes;
    } else {
      asked = std::move(bytes);
      ++exposure_count;
    }
    request = bytes_of(message);
  }

 private:
  const std::string& exposed(uint32_t index) const {
    return index == 0 && !asked.empty() ? asked : answered;
  }
  engine::Loop& loop_;
};

// Keeps what it is to serve.
class PlayedNet final : public engine::Net {
 public:
  void call(engine::CallOp&) override { ASSERT(false); }
  void cancel(engine::CallOp&) override { ASSERT(false); }
  void serve(engine::Address, engine::Service& its_service) override { service = &its_service; }
  void withdraw(engine::Address) override { service = nullptr; }
  engine::Service* service = nullptr;
};

class ServiceTest : public testing::Test {
 protected:
  ServiceTest() { begin({}); }
  ~ServiceTest() override { end(); }

  // A Meta of the test's own may stand before the one with the database.
  void begin(MetaServiceConfig config) {
    config.loop = &loop_;
    config.net = &net_;
    config.address = {NodeId{2}, 1};
    if (config.meta == nullptr) config.meta = meta_.get();
    service_ = MetaService::make(config);
    service_->start();
  }
  void end() {
    if (service_ == nullptr) return;
    struct Stop : engine::Op {
      bool is_over = false;
    } stop;
    stop.completion = [](engine::Op& op) { static_cast<Stop&>(op).is_over = true; };
    service_->stop(stop);
    while (!stop.is_over) loop_.poll_or_park(soon());
    service_ = nullptr;
  }

  static RequestHeader looking() {
    RequestHeader header;
    header.version = wire::kNodeVersion;
    header.caller = 77;
    return header;
  }
  static RequestHeader changing(uint64_t sequence, uint32_t slot = 0) {
    RequestHeader header = looking();
    header.sequence = sequence;
    header.slot = slot;
    return header;
  }
  static ask::Create create(std::string name) {
    ask::Create asked;
    asked.parent = meta::kRootInode;
    asked.name = std::move(name);
    asked.mode = 0644;
    asked.exclusive = true;
    return asked;
  }

  void send(PlayedCall& call) { net_.service->on_call(call); }
  void await(const PlayedCall& call) {
    while (!call.is_ended) loop_.poll_or_park(soon());
  }
  // The whole of it.
  PlayedCall& play(const RequestHeader& header, const Request& request, size_t room = 0) {
    PlayedCall& call = prepared(header, request, room);
    send(call);
    await(call);
    return call;
  }
  PlayedCall& prepared(const RequestHeader& header, const Request& request, size_t room = 0) {
    PlayedCall& call = *calls_.emplace_back(std::make_unique<PlayedCall>(loop_));
    call.answered.resize(room);
    call.prepare(header, request);
    return call;
  }
  template <class Call>
  static Result<typename Call::Answer> answer_of(const PlayedCall& call) {
    if (!call.status.ok()) return call.status;
    EXPECT_EQ(crc32c(bytes_of(call.answer)), call.header.checksum);
    auto answer = decode_answer<Call>(call.answer);
    EXPECT_TRUE(answer.has_value());
    return answer ? *answer : Result<typename Call::Answer>(Code::bad_message);
  }
  engine::Time soon() { return engine::system_clock().now() + std::chrono::milliseconds(50); }

  meta::TickingClock clock_;
  std::unique_ptr<meta::Storage> storage_ = meta::make_storage("memory");
  std::unique_ptr<meta::Meta> meta_ = meta::open_meta(storage_->kv(), clock_);
  engine::SeededRandom random_{3};
  engine::FutexParker parker_{engine::system_clock()};
  engine::Loop loop_{engine::system_clock(), random_, parker_};
  PlayedNet net_;
  std::unique_ptr<MetaService> service_;
  std::vector<std::unique_ptr<PlayedCall>> calls_;
};

}  // namespace penstock::meta_net
