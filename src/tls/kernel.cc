#include "penstock/tls/kernel.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <sys/socket.h>

namespace penstock::tls {
namespace {

constexpr int kSolTls = 282;  // SOL_TLS, which libc's headers of Debian 12 have only for the kernel
constexpr char kName[] = "tls";
constexpr std::chrono::seconds kAskAgain{60};

using Info = tls12_crypto_info_aes_gcm_128;

// TLS 1.3's nonce in the two parts that the kernel has for TLS 1.2's.
Info info_of(const RecordKey& key) {
  Info info{};
  info.info.version = TLS_1_3_VERSION;
  info.info.cipher_type = TLS_CIPHER_AES_GCM_128;
  RecordKey::Raw raw = key.raw();
  static_assert(sizeof info.key == sizeof raw.key);
  static_assert(sizeof info.salt + sizeof info.iv == sizeof raw.nonce);
  std::memcpy(info.key, raw.key.data(), sizeof info.key);
  std::memcpy(info.salt, raw.nonce.data(), sizeof info.salt);
  std::memcpy(info.iv, raw.nonce.data() + sizeof info.salt, sizeof info.iv);
  for (size_t i = 0; i < sizeof info.rec_seq; ++i) {
    info.rec_seq[sizeof info.rec_seq - 1 - i] =
        static_cast<unsigned char>(key.records() >> (8 * i));
  }
  OPENSSL_cleanse(&raw, sizeof raw);
  return info;
}

Status give(int socket, int direction, const RecordKey& key) {
  Info info = info_of(key);
  const int result = ::setsockopt(socket, kSolTls, direction, &info, sizeof info);
  const int error = errno;
  OPENSSL_cleanse(&info, sizeof info);
  return result == 0 ? Status() : Status::from_errno(error);
}

uint64_t records_of(int socket, int direction) {
  Info info{};
  info.info.version = TLS_1_3_VERSION;
  info.info.cipher_type = TLS_CIPHER_AES_GCM_128;
  socklen_t length = sizeof info;
  if (::getsockopt(socket, kSolTls, direction, &info, &length) != 0) return 0;
  uint64_t records = 0;
  for (const unsigned char byte : info.rec_seq) records = records << 8 | byte;
  OPENSSL_cleanse(&info, sizeof info);
  return records;
}

// Two sockets of this process that are connected to one another, as the kernel wants it.
struct Pair {
  Pair() : listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof address;
    caller = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    is_connected = ::bind(listener.get(), any, sizeof address) == 0 &&
                   ::listen(listener.get(), 1) == 0 &&
                   ::getsockname(listener.get(), any, &length) == 0 &&
                   ::connect(caller.get(), any, sizeof address) == 0;
  }
  UniqueFd listener;
  UniqueFd caller;
  bool is_connected = false;
};

}  // namespace

Status KernelTls::take(int socket, const Sealer& sealer, const Opener& opener, engine::Time now) {
  if (now < not_before_.load(std::memory_order_relaxed)) return Code::not_supported;
  if (::setsockopt(socket, IPPROTO_TCP, TCP_ULP, kName, sizeof kName) != 0) {
    // A socket whose other side has gone already tells nothing of the kernel.
    if (errno != ENOTCONN) not_before_.store(now + kAskAgain, std::memory_order_relaxed);
    return Code::not_supported;
  }
  const Status status = give(socket, TLS_TX, sealer);
  if (!status.ok()) {
    // Without keys the socket is as any other.
    not_before_.store(now + kAskAgain, std::memory_order_relaxed);
    return Code::not_supported;
  }
  if (!give(socket, TLS_RX, opener).ok()) {
    not_before_.store(now + kAskAgain, std::memory_order_relaxed);
    return Code::io_error;
  }
  // Ours pads nothing: then the kernel opens records where the reader wants them.
  const int on = 1;
  (void)::setsockopt(socket, kSolTls, TLS_RX_EXPECT_NO_PAD, &on, sizeof on);
  return {};
}

uint64_t records_of_kernel(int socket) {
  return std::max(records_of(socket, TLS_TX), records_of(socket, TLS_RX));
}

std::optional<std::string> why_no_kernel_tls() {
  const Pair pair;
  if (!pair.is_connected) return "no connection to this machine itself could be made";
  if (::setsockopt(pair.caller.get(), IPPROTO_TCP, TCP_ULP, kName, sizeof kName) != 0) {
    if (errno == ENOENT) {
      return "the kernel has no TLS, or its module is not loaded (modprobe tls; a container's "
             "host has to do it)";
    }
    return fmt::format("the kernel refuses it: {}", std::strerror(errno));
  }
  const RecordKey key(RecordKey::Use::seal, TrafficSecret(), 0);
  const Status status = give(pair.caller.get(), TLS_TX, key);
  if (status.ok()) return std::nullopt;
  if (status == Code::not_found) {
    return "the kernel has TLS, but no AES-GCM for it (modprobe gcm; modprobe aesni_intel)";
  }
  return fmt::format("the kernel's TLS does not know TLS 1.3 with AES-128-GCM: {}", status.name());
}

}  // namespace penstock::tls
