#include "calls.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <memory>
#include <utility>

namespace penstock::holds_net {
namespace {

std::optional<uint32_t> exposure_for(const engine::IncomingCall& call, engine::Access access) {
  for (uint32_t i = 0; i < call.exposure_count; ++i) {
    if (call.exposure_access(i) == access) return i;
  }
  return std::nullopt;
}

engine::MemoryRef memory_of(std::string& bytes) {
  return {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()};
}

}  // namespace

Calls::Calls(const HoldsServiceConfig& config, uint16_t life, std::function<void(Asked&)> take,
             std::function<void()> ended)
    : config_(config),
      life_(life),
      take_(std::move(take)),
      ended_(std::move(ended)),
      log_(config.loop->clock()) {}

void Calls::stop() {
  is_stopping_ = true;
  config_.net->withdraw(config_.address);
}

void Calls::on_call(engine::IncomingCall& call) {
  RequestHeader header;
  if (const Status good = check_header(call, header); !good.ok()) return refuse(call, good);
  const NodeId node = call.peer().node;
  size_t& open = open_[node];
  if (open >= limits::kCallsPerNode) return refuse(call, Code::busy);
  ++open;
  count([](Counts& counts) { ++counts.open; });
  auto* asked = new Asked;  // until reply()
  asked->calls = this;
  asked->call = &call;
  asked->header = header;
  asked->agent = {node, header.session};
  asked->transfer.owner = asked;
  const Bytes behind = call.request.subspan(sizeof header);
  if (behind.size() < header.length) return fetch(*asked);
  asked->words = text_of(behind);
  take(*asked);
}

// ok, or what the call ends with.
Status Calls::check_header(engine::IncomingCall& call, RequestHeader& header) const {
  if (is_stopping_) return Code::peer_gone;
  if ((call.peer().roles & engine::kRoleAgent) == 0) return Code::access_denied;
  if (call.method != kMethod || call.request.size() < sizeof header) return Code::bad_message;
  std::memcpy(&header, call.request.data(), sizeof header);
  const bool is_spoken =
      header.version >= config_.speaks.lowest && header.version <= config_.speaks.highest;
  if (!is_spoken) return Code::wrong_version;
  const auto kind = static_cast<Kind>(header.kind);
  const bool is_kind = kind >= Kind::begin && kind <= Kind::dropped;
  const size_t behind = call.request.size() - sizeof header;
  const auto exposure = exposure_for(call, engine::Access::fetch);
  const bool is_here = behind == header.length;
  const bool is_exposed =
      behind == 0 && exposure.has_value() && call.exposure_length(*exposure) >= header.length;
  const bool has_words = kind == Kind::say ? header.length > 0 && header.sequence > 0
                                           : header.length == 0 && header.sequence == 0;
  const bool is_good = is_kind && has_words && (is_here || is_exposed) && header.session > 0 &&
                       header.caller > 0 && header.life <= UINT16_MAX &&
                       header.length <= limits::kRequestBytesMax;
  return is_good ? Code::ok : Code::bad_message;
}

void Calls::fetch(Asked& asked) {
  asked.words.resize(asked.header.length);
  asked.transfer.call = asked.call;
  asked.transfer.exposure = *exposure_for(*asked.call, engine::Access::fetch);
  asked.transfer.local = memory_of(asked.words);
  asked.transfer.completion = [](engine::Op& op) {
    auto& self = op.owner_as<Asked>();
    if (!self.transfer.status.ok()) return self.calls->reply(self, self.transfer.status);
    self.calls->take(self);
  };
  asked.call->fetch(asked.transfer);
}

// All of it is here.
void Calls::take(Asked& asked) {
  if (is_stopping_) return reply(asked, Code::peer_gone);
  const bool is_whole = checksum_of(asked.header, asked.words) == asked.header.checksum;
  if (!is_whole) return refuse(asked, Code::bad_message);
  take_(asked);
}

size_t Calls::room_of(const Asked& asked) {
  const auto exposure = exposure_for(*asked.call, engine::Access::place);
  if (!exposure) return kShortTold;
  const uint64_t exposed = asked.call->exposure_length(*exposure);
  return std::max<size_t>(kShortTold, std::min<uint64_t>(exposed, limits::kAnswerBytesMax));
}

void Calls::answer(Asked& asked) {
  ASSERT(asked.bytes.size() <= room_of(asked));
  if (asked.bytes.size() <= kShortTold) return reply(asked, Code::ok);
  asked.transfer.call = asked.call;
  asked.transfer.exposure = *exposure_for(*asked.call, engine::Access::place);
  asked.transfer.local = memory_of(asked.bytes);
  asked.transfer.completion = [](engine::Op& op) {
    auto& self = op.owner_as<Asked>();
    self.calls->reply(self, self.transfer.status);
  };
  asked.call->place(asked.transfer);
}

ResponseHeader Calls::response() const {
  ResponseHeader header;
  header.lowest = static_cast<uint16_t>(config_.speaks.lowest);
  header.highest = static_cast<uint16_t>(config_.speaks.highest);
  header.life = life_;
  return header;
}

void Calls::reply(Asked& asked, Status status) {
  const std::unique_ptr<Asked> self(&asked);
  std::array<std::byte, engine::kNetMessageMax> message;
  ResponseHeader header = response();
  size_t length = sizeof header;
  if (status.ok()) {
    header.is_good = asked.is_good ? 1 : 0;
    header.next = asked.next;
    header.length = static_cast<uint32_t>(asked.bytes.size());
    header.checksum = crc32c(bytes_of(asked.bytes));
    if (asked.bytes.size() <= kShortTold) {
      std::memcpy(message.data() + length, asked.bytes.data(), asked.bytes.size());
      length += asked.bytes.size();
    }
  }
  std::memcpy(message.data(), &header, sizeof header);
  asked.call->reply(status, Bytes(message).first(length));
  const auto open = open_.find(asked.agent.node);
  ASSERT(open != open_.end() && open->second > 0);
  if (--open->second == 0) open_.erase(open);
  count([](Counts& counts) { ++counts.answered, --counts.open; });
  ended_();
}

// Not let in.
void Calls::refuse(engine::IncomingCall& call, Status status) {
  count_refusal(call.peer().node, status.code());
  const ResponseHeader header = response();
  call.reply(status, std::as_bytes(std::span(&header, 1)));
}

void Calls::refuse(Asked& asked, Status status) {
  count_refusal(asked.agent.node, status.code());
  reply(asked, status);
}

void Calls::count_refusal(NodeId node, Code code) {
  count([](Counts& counts) { ++counts.refused; });
  const auto say = [&](const char* why) {
    log_.warning(fmt::format("{} {}", why, node.value),
                 fmt::format("holds: a call of node {} is refused: {}", node.value, why));
  };
  if (code == Code::access_denied) say("its certificate does not give it the role of an agent");
  if (code == Code::bad_message) say("it cannot be understood");
  if (code == Code::wrong_version) say("it is in a version that is not spoken here");
  if (code == Code::busy) say("too many of that node wait");
}

Calls::Counts Calls::counts() {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace penstock::holds_net
