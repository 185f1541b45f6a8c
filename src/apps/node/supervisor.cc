#include "supervisor.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>

#include "penstock/base.h"

namespace penstock::apps {
namespace {

std::string_view address_text() {
  const char* const text = std::getenv("NOTIFY_SOCKET");
  return text != nullptr ? text : "";
}

}  // namespace

bool is_supervised() {
  const std::string_view text = address_text();
  return text.starts_with('/') || text.starts_with('@');
}

void tell_supervisor(std::string_view lines) {
  const std::string_view text = address_text();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (!is_supervised() || text.size() >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, text.data(), text.size());
  // An abstract name begins with a zero and ends with its length.
  if (text[0] == '@') address.sun_path[0] = '\0';
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + text.size());
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return;
  static_cast<void>(::sendto(socket.get(), lines.data(), lines.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                             reinterpret_cast<const sockaddr*>(&address), length));
}

}  // namespace penstock::apps
