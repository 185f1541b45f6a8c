#include "message_codec.h"

#include <fmt/format.h>

#include "penstock/wire.h"

namespace penstock::wire {
namespace {

static_assert(codec::has_distinct_numbers(static_cast<RequestBody*>(nullptr), 2));
static_assert(codec::has_distinct_numbers(static_cast<ReplyBody*>(nullptr), 5));

template <class Message>
Result<std::string> encode_message(const Message& message) {
  std::string out;
  codec::put_message(message, out);
  if (out.size() > kSessionMessageMax) return Code::too_large;
  return out;
}

template <class Message>
Result<Message> decode_message(Bytes bytes) {
  if (bytes.size() > kSessionMessageMax) return Code::bad_message;
  const int size = static_cast<int>(bytes.size());
  codec::Input in(reinterpret_cast<const uint8_t*>(bytes.data()), size);
  in.PushLimit(size);
  Message message;
  if (!codec::take_message(in, &message)) return Code::bad_message;
  ASSERT(in.BytesUntilLimit() == 0);
  return message;
}

std::string versions_of(const Protocol& side) {
  if (side.lowest == side.highest) return fmt::format("version {}", side.lowest);
  return fmt::format("versions {} to {}", side.lowest, side.highest);
}

}  // namespace

size_t descriptors_of(const RequestBody& body) {
  return codec::descriptors_of(body);
}

size_t descriptors_of(const ReplyBody& body) {
  return codec::descriptors_of(body);
}

Result<std::string> encode(const Request& request) {
  return encode_message(request);
}

Result<std::string> encode(const Reply& reply) {
  return encode_message(reply);
}

Result<Request> decode_request(Bytes message) {
  return decode_message<Request>(message);
}

Result<Reply> decode_reply(Bytes message) {
  return decode_message<Reply>(message);
}

Result<Agreement> agree(const Protocol& mine, const Protocol& theirs) {
  ASSERT(mine.lowest > 0 && mine.lowest <= mine.highest);
  const uint32_t version = std::min(mine.highest, theirs.highest);
  if (version < std::max(mine.lowest, theirs.lowest)) return Status(Code::wrong_version, version);
  ASSERT(version >= mine.lowest && version <= mine.highest);
  return Agreement{version, mine.features & theirs.features};
}

Result<Agreement> agreed(const Protocol& mine, const Agreement& said) {
  const bool is_mine = said.version >= mine.lowest && said.version <= mine.highest;
  if (!is_mine || (said.features & ~mine.features) != 0) {
    return Status(Code::wrong_version, said.version);
  }
  return said;
}

std::string no_common_version(const Protocol& agent, const Protocol& application) {
  const bool agent_is_older = agent.highest < application.lowest;
  return fmt::format(
      "the agent is {} than the application's library: it speaks {} of the session protocol, the "
      "library {} (bring both to releases that share one: update {})",
      agent_is_older ? "older" : "newer", versions_of(agent), versions_of(application),
      agent_is_older ? "the node" : "the library, perhaps in a container's image");
}

}  // namespace penstock::wire
