#include "penstock/loopback/bare.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl_cipher.h>
#include <sys/socket.h>
#include <thread>
#include <vector>

#include "penstock/tcp.h"

namespace penstock::loopback {
namespace {

using tcp::SocketAddress;
using tls::RecordKey;
using tls::bench::OpensslRecords;
using tls::limits::kContentMax;
using tls::limits::kRecordExtraBytes;

constexpr size_t kRecordBytes = kContentMax + kRecordExtraBytes;
// Of a send, and of a receive: enough that system calls do not count, and little for the caches.
constexpr size_t kRecordsAtOnce = 8;

void send_all(int socket, Bytes bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) std::exit(0);
    bytes = bytes.subspan(static_cast<size_t>(sent));
  }
}

bool receive_all(int socket, MutableBytes bytes) {
  while (!bytes.empty()) {
    // Work of the thread's rings may cut it short.
    const auto got = ::recv(socket, bytes.data(), bytes.size(), MSG_WAITALL);
    if (got == 0 || (got < 0 && errno != EINTR)) return false;
    if (got > 0) bytes = bytes.subspan(static_cast<size_t>(got));
  }
  return true;
}

// Two connected sockets over loopback.
struct Pair {
  Pair() {
    const UniqueFd door(::socket(AF_INET, SOCK_STREAM, 0));
    SocketAddress any = *SocketAddress::parse("127.0.0.1:0");
    if (::bind(door.get(), static_cast<const sockaddr*>(any.data()), any.length()) != 0 ||
        ::listen(door.get(), 1) != 0) {
      std::exit(1);
    }
    any = *SocketAddress::of_socket(door.get());
    near = UniqueFd(::socket(AF_INET, SOCK_STREAM, 0));
    if (::connect(near.get(), static_cast<const sockaddr*>(any.data()), any.length()) != 0) {
      std::exit(1);
    }
    far = UniqueFd(::accept(door.get(), nullptr, nullptr));
    const int on = 1;
    for (const int socket : {near.get(), far.get()}) {
      (void)::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
  }
  UniqueFd near, far;
};

// Takes pieces for so long, and tells how many came.
template <class Take>
Figures take_for(std::chrono::milliseconds duration, std::thread& sender, double calls, Take take) {
  const double near_before = processor_time(::pthread_self());
  const double far_before = processor_time(sender.native_handle());
  double done = 0;
  const engine::Time start = now();
  while (now() < start + duration) {
    take();
    ++done;
  }
  const double seconds = seconds_since(start);
  return {.rate = done / seconds,
          .calls = calls,
          .near_us = (processor_time(::pthread_self()) - near_before) / done * 1e6,
          .far_us = (processor_time(sender.native_handle()) - far_before) / done * 1e6};
}

void send_until_closed(int socket, MutableBytes bytes) {
  while (::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0) {
  }
}

// One way, from far to near.
Figures stream(Pair& pair, size_t bytes, bool checked, std::chrono::milliseconds duration) {
  std::thread sender([&] {
    std::vector<std::byte> sent(bytes, std::byte{7});
    send_until_closed(pair.far.get(), sent);
  });
  std::vector<std::byte> memory(bytes);
  const Figures figures = take_for(duration, sender, 1, [&] {
    if (!receive_all(pair.near.get(), memory)) std::abort();
    if (checked && crc32c(memory) == 0) std::abort();
  });
  (void)::shutdown(pair.near.get(), SHUT_RDWR);
  pair.near.reset();
  sender.join();
  return figures;
}

// On both sides, both ways.
void let_kernel_seal(const Pair& pair) {
  const auto secret_of = [](std::byte fill) {
    std::array<std::byte, tls::TrafficSecret::kBytes> bytes{};
    bytes.fill(fill);
    return tls::TrafficSecret(bytes);
  };
  const tls::TrafficSecret to_near = secret_of(std::byte{1});
  const tls::TrafficSecret to_far = secret_of(std::byte{2});
  tls::KernelTls kernel;
  for (const bool is_near : {true, false}) {
    const tls::Sealer sealer(is_near ? to_far : to_near);
    const tls::Opener opener(is_near ? to_near : to_far);
    const int socket = is_near ? pair.near.get() : pair.far.get();
    if (!kernel.take(socket, sealer, opener, now()).ok()) std::exit(1);
  }
}

void seal_until_closed(int socket) {
  OpensslRecords records(RecordKey::Use::seal);
  const std::vector<std::byte> bytes(kMiB, std::byte{7});
  std::vector<std::byte> sealed(kRecordsAtOnce * kRecordBytes);
  size_t at = 0;
  do {
    for (size_t i = 0; i < kRecordsAtOnce; ++i) {
      records.seal(Bytes(bytes).subspan(at, kContentMax), sealed.data() + i * kRecordBytes);
      at = (at + kContentMax) % kMiB;
    }
  } while (::send(socket, sealed.data(), sealed.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(sealed.size()));
}

// Counted in pieces of 1 MiB, as the others.
Figures cipher(RecordKey::Use use, std::chrono::milliseconds each) {
  const double before = processor_time(::pthread_self());
  const engine::Time start = now();
  const double rate = tls::bench::openssl_speed(use, each) / kMiB;
  const double done = rate * seconds_since(start);
  return {.rate = rate, .near_us = (processor_time(::pthread_self()) - before) / done * 1e6};
}

}  // namespace

Figures bare_stream(size_t bytes, bool checked, std::chrono::milliseconds duration) {
  Pair pair;
  return stream(pair, bytes, checked, duration);
}

Figures bare_kernel_tls_stream(std::chrono::milliseconds duration) {
  Pair pair;
  let_kernel_seal(pair);
  return stream(pair, kMiB, false, duration);
}

Figures bare_sealed_stream(std::chrono::milliseconds duration) {
  Pair pair;
  std::thread sender([&] { seal_until_closed(pair.far.get()); });
  OpensslRecords records(RecordKey::Use::open);
  std::vector<std::byte> sealed(kRecordsAtOnce * kRecordBytes);
  std::vector<std::byte> memory(8 * kMiB);
  constexpr size_t kReceives = kMiB / kContentMax / kRecordsAtOnce;
  size_t at = 0;
  const Figures figures = take_for(duration, sender, 2 * kReceives, [&] {
    for (size_t i = 0; i < kReceives; ++i) {
      if (!receive_all(pair.near.get(), sealed)) std::abort();
      for (size_t j = 0; j < kRecordsAtOnce; ++j) {
        const Bytes record = Bytes(sealed).subspan(j * kRecordBytes, kRecordBytes);
        if (!records.open(record, memory.data() + at)) std::abort();
        at = (at + kContentMax) % memory.size();
      }
    }
  });
  (void)::shutdown(pair.near.get(), SHUT_RDWR);
  pair.near.reset();
  sender.join();
  return figures;
}

Figures bare_exchange(const Exchange& exchange, std::chrono::milliseconds duration) {
  Pair pair;
  std::thread server([&] {
    std::vector<std::byte> request(exchange.request);
    const std::vector<std::byte> answer(exchange.answer, std::byte{7});
    while (receive_all(pair.far.get(), request)) send_all(pair.far.get(), answer);
  });
  const std::vector<std::byte> request(exchange.request, std::byte{7});
  std::vector<std::byte> answer(exchange.answer);
  for (int i = 0; i < exchange.depth; ++i) send_all(pair.near.get(), request);
  const Figures figures = take_for(duration, server, 2, [&] {
    if (!receive_all(pair.near.get(), answer)) std::abort();
    send_all(pair.near.get(), request);
  });
  for (int i = 0; i < exchange.depth; ++i) (void)receive_all(pair.near.get(), answer);
  (void)::shutdown(pair.near.get(), SHUT_RDWR);
  server.join();
  return figures;
}

Figures openssl_seals(std::chrono::milliseconds duration) {
  return cipher(RecordKey::Use::seal, duration);
}

Figures openssl_opens(std::chrono::milliseconds duration) {
  return cipher(RecordKey::Use::open, duration);
}

Figures openssl_seals_and_opens(std::chrono::milliseconds duration) {
  Figures sealing;
  std::thread other([&] { sealing = openssl_seals(duration); });
  Figures opening = openssl_opens(duration);
  other.join();
  opening.rate = std::min(opening.rate, sealing.rate);
  opening.far_us = sealing.near_us;
  return opening;
}

}  // namespace penstock::loopback
