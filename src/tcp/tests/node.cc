#include "tests/node.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace penstock::tcp {

using engine::Access;
using engine::IncomingCall;
using engine::Loop;
using engine::Op;

std::vector<SocketAddress> Table::addresses_of(NodeId node) const {
  const auto found = nodes.find(node);
  return found == nodes.end() ? std::vector<SocketAddress>() : found->second;
}

NetworkConfig config_of(NodeId node, const Resolver& resolver) {
  NetworkConfig config;
  config.identity.node = node;
  config.identity.lowest_version = config.identity.highest_version = kVersion;
  config.identity.incarnation = Incarnation{1};
  config.resolver = &resolver;
  return config;
}

Node::Node(const NetworkConfig& config, engine::Net* local)
    : driver_(std::move(*disk::DiskDriver::create({.root = directory_.path()}))),
      loop_(engine::system_clock(), random_, driver_->parker()),
      disk_(driver_->attach(loop_)),
      network_(config),
      net_(std::move(*TcpNet::create(network_, loop_, driver_->parker(), local))) {}

Node::~Node() {
  listener_.reset();
  net_->close();
  while (loop_.poll()) {
  }
  net_.reset();
  loop_.remove(disk_);
}

SocketAddress Node::listen(const std::string& at) {
  listener_ = std::move(*TcpListener::listen(network_, *net_, *SocketAddress::parse(at)));
  return listener_->address();
}

void run_until(std::initializer_list<Loop*> loops, const std::function<bool()>& holds) {
  const bool came = test::eventually(
      [&] {
        bool worked = true;
        while (worked && !holds()) {
          worked = false;
          for (Loop* const loop : loops) worked |= loop->poll();
        }
        // What waits in the kernel is submitted when a loop goes to sleep.
        for (Loop* const loop : loops) loop->poll_or_park(loop->clock().now());
        return holds();
      },
      test::kPatience, std::chrono::microseconds(50));
  ASSERT_TRUE(came) << "it does not come";
}

struct TestService::Transfer final : engine::TransferOp {
  std::vector<std::byte> bytes;
  TestService* service = nullptr;
};

TestService::~TestService() {
  EXPECT_EQ(transfers_under_way, 0);
}

void TestService::on_call(IncomingCall& call) {
  ++calls;
  last = call.peer();
  switch (call.method) {
    case kEcho:
      return call.reply(Code::ok, call.request);
    case kHold:
      held.push_back(&call);
      return;
    case kPlace:
      return transfer(call, true);
    case kFetch:
      return transfer(call, false);
    default: {
      const std::byte has{call.direct(0).has_value()};
      return call.reply(Code::ok, std::span(&has, 1));
    }
  }
}

void TestService::release() {
  for (IncomingCall* const call : std::exchange(held, {})) call->reply(Code::stale, {});
}

void TestService::transfer(IncomingCall& call, bool place) {
  auto* const op = new Transfer;
  op->service = this;
  op->bytes.assign(call.exposure_length(0), call.request[0]);
  op->call = &call;
  op->local = {op->bytes.data(), op->bytes.size(), engine::kNoBuffer, engine::MemoryKind::host};
  op->completion = [](Op& done) {
    const std::unique_ptr<Transfer> self(static_cast<Transfer*>(&done));
    --self->service->transfers_under_way;
    self->service->transfers_failed += !self->status.ok();
    const uint32_t checksum = crc32c(self->bytes);
    self->call->reply(self->status, std::as_bytes(std::span(&checksum, 1)));
  };
  ++transfers_under_way;
  if (place) {
    call.place(*op);
  } else {
    call.fetch(*op);
  }
}

TestCall::TestCall(uint16_t wanted, engine::Address address) {
  to = address;
  method = wanted;
  request = request_bytes;
  response = response_bytes;
  completion = [](Op& op) { ++static_cast<TestCall&>(op).completions; };
}

void TestCall::expose(MutableBytes memory, Access access) {
  exposures[exposure_count++] = {
      {memory.data(), memory.size(), engine::kNoBuffer, engine::MemoryKind::host}, access};
}

RawPeer::RawPeer(UniqueFd socket) : socket_(std::move(socket)) {
  EXPECT_TRUE(socket_);
}

RawPeer RawPeer::connect(const SocketAddress& to) {
  UniqueFd socket(::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(socket.get(), static_cast<const sockaddr*>(to.data()), to.length()), 0)
      << std::strerror(errno);
  return RawPeer(std::move(socket));
}

void RawPeer::send(Bytes bytes, std::initializer_list<Loop*> loops) {
  run_until(loops, [&] {
    if (bytes.empty()) return true;
    const auto sent =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    // A peer that has closed takes everything.
    if (sent < 0 && errno != EAGAIN) bytes = {};
    if (sent > 0) bytes = bytes.subspan(static_cast<size_t>(sent));
    return bytes.empty();
  });
}

void RawPeer::send(const Header& header, Bytes message, Bytes payload,
                   std::initializer_list<Loop*> loops) {
  Header whole = header;
  whole.message_bytes = static_cast<uint32_t>(message.size());
  send(encode_header(whole), loops);
  send(message, loops);
  send(payload, loops);
}

void RawPeer::send_hello(const Hello& hello, std::initializer_list<Loop*> loops) {
  std::array<std::byte, limits::kMessageBytesMax> message;
  const uint32_t length = encode_hello(hello, message);
  send({.version = 0, .kind = FrameKind::hello}, Bytes(message).first(length), {}, loops);
}

bool RawPeer::receive_exactly(MutableBytes to, std::initializer_list<Loop*> loops) {
  bool open = true;
  run_until(loops, [&] {
    if (to.empty() || !open) return true;
    const auto got = ::recv(socket_.get(), to.data(), to.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) open = false;
    if (got > 0) to = to.subspan(static_cast<size_t>(got));
    return to.empty() || !open;
  });
  return to.empty();
}

std::optional<RawPeer::Frame> RawPeer::receive(std::initializer_list<Loop*> loops) {
  HeaderBytes bytes;
  if (!receive_exactly(bytes, loops)) return std::nullopt;
  const auto header = decode_header(bytes);
  EXPECT_TRUE(header);
  if (!header) return std::nullopt;
  Frame frame{*header, std::vector<std::byte>(header->message_bytes),
              std::vector<std::byte>(header->payload_bytes)};
  if (!receive_exactly(frame.message, loops) || !receive_exactly(frame.payload, loops)) {
    return std::nullopt;
  }
  return frame;
}

bool RawPeer::closed(std::initializer_list<Loop*> loops) {
  std::byte one;
  return !receive_exactly({&one, 1}, loops);
}

RawServer::RawServer(int receive_buffer)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (receive_buffer != 0) {
    EXPECT_EQ(
        ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer),
        0);
  }
  const SocketAddress any = *SocketAddress::parse("127.0.0.1:0");
  EXPECT_EQ(::bind(socket_.get(), static_cast<const sockaddr*>(any.data()), any.length()), 0);
  EXPECT_EQ(::listen(socket_.get(), 16), 0);
  address_ = *SocketAddress::of_socket(socket_.get());
}

RawPeer RawServer::accept(std::initializer_list<Loop*> loops) {
  int socket = -1;
  // accept() does not wait any longer than this for its next look.
  const timeval moment{0, 1000};
  EXPECT_EQ(::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment), 0);
  run_until(loops, [&] {
    if (socket < 0) socket = ::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    return socket >= 0;
  });
  return RawPeer(UniqueFd(socket));
}

RawPeer RawServer::welcome(std::initializer_list<Loop*> loops) {
  RawPeer peer = accept(loops);
  const auto frame = peer.receive(loops);
  EXPECT_TRUE(frame && frame->header.kind == FrameKind::hello);
  if (!frame) return peer;
  const auto hello = decode_hello(frame->message);
  EXPECT_TRUE(hello);
  Welcome welcome;
  welcome.version = kVersion;
  welcome.calls_max = 64;
  welcome.node = hello->wanted;
  welcome.incarnation = Incarnation{9};
  std::array<std::byte, limits::kMessageBytesMax> message;
  const uint32_t length = encode_welcome(welcome, message);
  peer.send({.version = 0, .kind = FrameKind::welcome}, Bytes(message).first(length), {}, loops);
  return peer;
}

Hello hello_of(NodeId caller, engine::Address wanted) {
  Hello hello;
  hello.lowest_version = hello.highest_version = kVersion;
  hello.node = caller;
  hello.wanted = wanted.node;
  hello.service = wanted.service;
  return hello;
}

}  // namespace penstock::tcp
