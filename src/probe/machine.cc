#include "penstock/probe/machine.h"

#include <arpa/inet.h>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>

#include "penstock/verbs.h"

namespace penstock::probe {
namespace {

namespace fs = std::filesystem;

// Empty for what is no address of the internet.
std::string host_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address == nullptr) return "";
  if (address->sa_family == AF_INET) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(address);
    (void)::inet_ntop(AF_INET, &four->sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(address);
    (void)::inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof text);
  }
  return text;
}

// The first line of a small file of the kernel's; empty where there is none.
std::string line_of(const std::string& path) {
  const auto text = read_kept_file(path);
  return text ? text->substr(0, text->find('\n')) : "";
}

uint64_t mtu_of(const std::string& name) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  if (!socket || name.size() >= sizeof request.ifr_name) return 0;
  std::memcpy(request.ifr_name, name.c_str(), name.size());
  if (::ioctl(socket.get(), SIOCGIFMTU, &request) != 0 || request.ifr_mtu < 0) return 0;
  return static_cast<uint64_t>(request.ifr_mtu);
}

CardFacts facts_of(const ifaddrs& one, std::string host) {
  CardFacts card;
  card.name = one.ifa_name;
  card.address = std::move(host);
  card.mtu = mtu_of(card.name);
  card.is_up = (one.ifa_flags & IFF_UP) != 0 && (one.ifa_flags & IFF_RUNNING) != 0;
  uint64_t megabits = 0;
  // The kernel says -1 of a link that is down, and nothing of one that has no speed.
  if (parse_number(line_of("/sys/class/net/" + card.name + "/speed"), &megabits)) {
    card.megabits = megabits;
  }
  return card;
}

// All cards with an address that others can be reached by, or be reached at.
std::vector<CardFacts> all_cards(bool with_loopback) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<CardFacts> cards;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    std::string host = host_of(one->ifa_addr);
    const bool is_loopback = (one->ifa_flags & IFF_LOOPBACK) != 0;
    if (host.empty() || (is_loopback && !with_loopback)) continue;
    // Link-local ones lead nowhere without the name of the card.
    if (host.starts_with("fe80:")) continue;
    cards.push_back(facts_of(*one, std::move(host)));
  }
  return cards;
}

KernelTls kernel_tls() {
  if (fs::exists("/proc/net/tls_stat") || fs::exists("/sys/module/tls")) return KernelTls::loaded;
  utsname system{};
  if (::uname(&system) != 0) return KernelTls::absent;
  const std::string directory = fmt::format("/lib/modules/{}/kernel/net/tls", system.release);
  std::error_code error;
  return fs::exists(directory, error) ? KernelTls::loadable : KernelTls::absent;
}

uint64_t memlock_bytes() {
  rlimit limit{};
  (void)::getrlimit(RLIMIT_MEMLOCK, &limit);
  return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

}  // namespace

CardFacts card_at(const std::string& host) {
  for (CardFacts& card : all_cards(true)) {
    if (card.address == host) return std::move(card);
  }
  CardFacts none;
  none.address = host;
  return none;
}

MachineFacts look_at_machine(const std::vector<OwnAddress>& own) {
  MachineFacts machine;
  if (own.empty()) machine.cards = all_cards(false);
  for (const OwnAddress& at : own) {
    CardFacts card = card_at(at.host);
    card.rail = at.rail;
    machine.cards.push_back(std::move(card));
  }
  machine.kernel_tls = kernel_tls();
  machine.rdma_devices = verbs::device_names();
  std::error_code error;
  const bool has_kernels =
      fs::directory_iterator("/sys/class/infiniband", error) != fs::directory_iterator();
  machine.rdma_without_library = machine.rdma_devices.empty() && !error && has_kernels;
  machine.memlock_bytes = memlock_bytes();
  return machine;
}

}  // namespace penstock::probe
