#include "connection_facts.h"

#include <array>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace penstock::tcp {
namespace {

// 0 where the kernel does not tell.
uint64_t path_mtu(int socket, int family) {
  int mtu = 0;
  socklen_t length = sizeof mtu;
  const bool is_six = family == AF_INET6;
  const int told = ::getsockopt(socket, is_six ? IPPROTO_IPV6 : IPPROTO_IP,
                                is_six ? IPV6_MTU : IP_MTU, &mtu, &length);
  return told == 0 && mtu > 0 ? static_cast<uint64_t>(mtu) : 0;
}

std::string congestion(int socket) {
  std::array<char, 64> name{};
  socklen_t length = name.size() - 1;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), &length) != 0) return "";
  return name.data();
}

}  // namespace

ConnectionFacts facts_of(int socket, bool sealed) {
  ConnectionFacts facts;
  facts.sealed = sealed;
  if (const auto local = SocketAddress::of_socket(socket)) facts.local = *local;
  if (const auto remote = SocketAddress::of_peer(socket)) facts.remote = *remote;
  facts.path_mtu = path_mtu(socket, facts.remote.family());
  facts.congestion = congestion(socket);
  tcp_info info{};
  socklen_t length = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return facts;
  facts.segment_bytes = info.tcpi_snd_mss;
  facts.segments = info.tcpi_segs_out;
  facts.retransmissions = info.tcpi_total_retrans;
  return facts;
}

}  // namespace penstock::tcp
