#include "bench/wire.h"

#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace penstock::verbs::bench {
namespace {

constexpr uint16_t kPort = 9187;
constexpr int kAttempts = 100;

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}

sockaddr_in address_of(const std::string& text) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kPort);
  if (::inet_pton(AF_INET, text.c_str(), &address.sin_addr) != 1) give_up("no address: " + text);
  return address;
}

bool send_all(int socket, Bytes bytes) {
  return ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

bool receive_all(int socket, MutableBytes bytes) {
  return ::recv(socket, bytes.data(), bytes.size(), MSG_WAITALL) ==
         static_cast<ssize_t>(bytes.size());
}

Result<Offer> ask(const sockaddr_in& address, const Offer& ours) {
  for (int i = 0; i < kAttempts; ++i) {
    const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      ::usleep(100'000);
      continue;
    }
    OfferBytes theirs;
    if (!send_all(socket.get(), encode_offer(ours)) || !receive_all(socket.get(), theirs)) break;
    return decode_offer(theirs);
  }
  return Code::peer_gone;
}

}  // namespace

engine::Duration spin() {
  const char* const text = std::getenv("PENSTOCK_SPIN_US");
  return std::chrono::microseconds(text != nullptr ? std::atoi(text) : 0);
}

Node::Node(NodeId id, Introducer& introducer, Patience patience) {
  auto opened = open_device({});
  if (!opened) give_up(opened.error().message);
  device = std::move(*opened);
  NetConfig config;
  config.self = id;
  config.introducer = &introducer;
  config.patience = patience;
  auto made = VerbsNet::create(config, *device, loop, &driver->parker());
  if (!made) give_up(made.error().message);
  net = std::move(*made);
}

Node::~Node() {
  net->close();
  while (loop.poll()) {
  }
  net.reset();
  loop.remove(disk);
}

void SocketIntroducer::introduce(Introduction& introduction) {
  join();
  thread_ = std::thread([this, &introduction] {
    const auto answer = ask(address_of(address_), introduction.ours);
    if (answer) introduction.theirs = *answer;
    loop->complete_remote(introduction, answer ? Status() : answer.error());
  });
}

void answer_offers(Node& node) {
  const UniqueFd listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  (void)::setsockopt(listening.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const sockaddr_in any = address_of("0.0.0.0");
  if (::bind(listening.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0 ||
      ::listen(listening.get(), 16) != 0) {
    give_up("cannot listen");
  }
  for (;;) {
    const UniqueFd socket(::accept(listening.get(), nullptr, nullptr));
    OfferBytes theirs;
    if (!receive_all(socket.get(), theirs)) continue;
    const auto offer = decode_offer(theirs);
    if (!offer) continue;
    (void)engine::thread_caller().call(node.loop, [&](engine::Op& done) {
      const auto answer = node.net->accept({kCaller}, kService.service, *offer);
      if (answer) (void)send_all(socket.get(), encode_offer(*answer));
      node.loop.complete(done, Code::ok);
    });
  }
}

}  // namespace penstock::verbs::bench
