#include "penstock/sessions/packet.h"

namespace penstock::sessions {

Result<Message> message_of(Bytes packet, std::vector<resources::ForeignFd> descriptors) {
  Message message;
  message.descriptors = std::move(descriptors);
  message.bytes = packet.size();
  TRY_ASSIGN(message.request, wire::decode_request(packet));
  if (message.descriptors.size() != wire::descriptors_of(message.request.body)) {
    return Code::bad_message;
  }
  for (resources::ForeignFd& descriptor : message.descriptors) TRY(descriptor.charge());
  return message;
}

}  // namespace penstock::sessions
