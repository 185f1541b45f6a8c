#include "switchboard.h"

#include "loop_net.h"

#include <cstring>
#include <sys/socket.h>

#include "penstock/tcp/frame.h"

namespace penstock::tcp::internal {
namespace {

struct Handover final : engine::Op {
  std::shared_ptr<Inbox> inbox;
  Greeted greeted;
};

std::unique_ptr<Crew> crew_of(const NetworkConfig& config) {
  const uint32_t helpers = config.record_helpers.value_or(Crew::helpers_here());
  if (config.credentials == nullptr || helpers == 0) return nullptr;
  return std::make_unique<Crew>(helpers);
}

}  // namespace

Switchboard::Switchboard(const NetworkConfig& config)
    : config_(config),
      handshaker_(config.credentials != nullptr ? std::make_unique<Handshaker>(config.credentials)
                                                : nullptr),
      crew_(crew_of(config)) {}

Switchboard::~Switchboard() {
  ASSERT(served_.empty());
}

void Switchboard::serve(uint32_t service, const std::shared_ptr<Inbox>& inbox) {
  const std::lock_guard lock(mutex_);
  const bool added = served_.emplace(service, inbox).second;
  ASSERT(added);
}

void Switchboard::withdraw(uint32_t service) {
  const std::lock_guard lock(mutex_);
  served_.erase(service);
}

std::optional<Refusal> Switchboard::hand_over(Greeted& greeted) {
  const std::lock_guard lock(mutex_);
  const auto found = served_.find(greeted.service);
  if (found == served_.end()) return Refusal::no_service;
  const std::shared_ptr<Inbox>& inbox = found->second;
  if (inbox->connections.fetch_add(1, std::memory_order_relaxed) >= limits::kConnectionsMax) {
    inbox->connections.fetch_sub(1, std::memory_order_relaxed);
    return Refusal::too_many;
  }
  auto* const handover = new Handover;
  handover->inbox = inbox;
  handover->greeted = std::move(greeted);
  handover->completion = [](engine::Op& op) {
    const std::unique_ptr<Handover> self(static_cast<Handover*>(&op));
    if (self->inbox->net != nullptr) self->inbox->net->adopt(std::move(self->greeted));
  };
  // While the lock is held the loop's net cannot have withdrawn the service, and thus not be gone.
  inbox->loop->complete_remote(*handover, Code::ok);
  return std::nullopt;
}

void refuse(UniqueFd socket, Seal* seal, const Identity& self, Refusal reason) {
  std::array<std::byte, limits::kHeaderBytes + limits::kMessageBytesMax> frame;
  const auto message = std::span(frame).subspan<limits::kHeaderBytes>();
  const uint32_t length = encode_refused(
      {reason, self.lowest_version, self.highest_version, refusal_name(reason)}, message);
  const HeaderBytes header =
      encode_header({.version = 0, .kind = FrameKind::refusal, .message_bytes = length});
  std::memcpy(frame.data(), header.data(), header.size());
  const Bytes plain = Bytes(frame).first(header.size() + length);
  std::array<std::byte, frame.size() + tls::limits::kRecordExtraBytes> record;
  const Bytes said = seal == nullptr ? plain : Bytes(record).first(seal->seal(plain, record));
  // Where the caller has gone meanwhile, nobody needs to know.
  (void)!::send(socket.get(), said.data(), said.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace penstock::tcp::internal

namespace penstock::tcp {

TcpNetwork::TcpNetwork(const NetworkConfig& config)
    : board_(std::make_unique<internal::Switchboard>(config)) {
  ASSERT(config.identity.node != NodeId() && config.resolver != nullptr);
  ASSERT(config.calls_max > 0 && config.calls_max <= limits::kCallsMax);
}

TcpNetwork::~TcpNetwork() = default;

void TcpNetwork::renew(std::shared_ptr<const tls::Credentials> credentials) {
  internal::Handshaker* const handshaker = board_->handshaker();
  ASSERT(handshaker != nullptr);
  handshaker->renew(std::move(credentials));
}

}  // namespace penstock::tcp
