#include <charconv>

#include "penstock/http.h"

namespace penstock::http {

Outcome<Address> parse_address(const std::string& text) {
  Address address;
  if (text.find('/') != std::string::npos) {
    address.path = text;
    return address;
  }
  const size_t colon = text.rfind(':');
  std::string host = colon == std::string::npos ? "" : text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  const char* const end = port.data() + port.size();
  const auto [rest, error] = std::from_chars(port.data(), end, address.port);
  if (error != std::errc() || rest != end) {
    return Failure{Code::invalid_argument,
                   "'" + text +
                       "' is no address to listen on (write 127.0.0.1:9180, 9180, or a path with a "
                       "slash for a UNIX socket)"};
  }
  address.host = host.empty() ? "127.0.0.1" : host;
  return address;
}

}  // namespace penstock::http
