// Asking what `penstock up --metrics` serves.
#pragma once

#include <arpa/inet.h>
#include <cstring>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "penstock/base.h"

namespace penstock::test {

// At a port of loopback, or the path of a socket. None: nobody listens.
inline UniqueFd connect_to(const std::string& address) {
  sockaddr_storage name{};
  if (address.starts_with('/')) {
    auto& path = reinterpret_cast<sockaddr_un&>(name);
    path.sun_family = AF_UNIX;
    std::strncpy(path.sun_path, address.c_str(), sizeof path.sun_path - 1);
  } else {
    auto& port = reinterpret_cast<sockaddr_in&>(name);
    port.sin_family = AF_INET;
    port.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  UniqueFd socket(::socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const socklen_t length = name.ss_family == AF_UNIX ? sizeof(sockaddr_un) : sizeof(sockaddr_in);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), length) != 0) return {};
  return socket;
}

// All that comes back; empty when nobody answers.
inline std::string ask(const std::string& address, const std::string& request) {
  const UniqueFd socket = connect_to(address);
  if (!socket) return "";
  (void)!::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL);
  ::shutdown(socket.get(), SHUT_WR);
  std::string out;
  char buffer[16384];
  for (ssize_t got = 0; (got = ::recv(socket.get(), buffer, sizeof buffer, 0)) > 0;) {
    out.append(buffer, static_cast<size_t>(got));
  }
  return out;
}

// The answer, with its head.
inline std::string get(const std::string& address, const std::string& path) {
  return ask(address, "GET " + path + " HTTP/1.0\r\n\r\n");
}

}  // namespace penstock::test
