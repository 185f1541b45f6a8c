#include "postgres_proxy.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace penstock::test {
namespace {

constexpr int kLookMs = 20;  // how often a thread looks whether it is to end

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  EXPECT_LT(path.size(), sizeof address.sun_path);
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

UniqueFd connect_to(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = address_of(path);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    fd.reset();
  }
  return fd;
}

bool write_all(const UniqueFd& to, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// Empty at the end.
std::string read_some(const UniqueFd& from) {
  std::string bytes(65536, '\0');
  const ssize_t n = ::recv(from.get(), bytes.data(), bytes.size(), 0);
  bytes.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return bytes;
}

// Whether a client's bytes use the prepared statement of commits.
bool is_commit(const std::string& bytes) {
  constexpr std::string_view kPut("\0put\0", 5);
  return bytes.find(kPut) != std::string::npos &&
         bytes.find("penstock.commit") == std::string::npos;
}

}  // namespace

PostgresProxy::PostgresProxy(std::string server_socket) : server_socket_(std::move(server_socket)) {
  listening_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = address_of(directory_ / ".s.PGSQL.5432");
  EXPECT_EQ(::bind(listening_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
            0);
  EXPECT_EQ(::listen(listening_.get(), 64), 0);
  acceptor_ = std::thread([this] { accept_all(); });
}

PostgresProxy::~PostgresProxy() {
  stop_.store(true);
  acceptor_.join();
  for (std::thread& thread : threads_) thread.join();
}

void PostgresProxy::accept_all() {
  while (!stop_.load()) {
    pollfd waiting{listening_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, kLookMs) <= 0) continue;
    UniqueFd client(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client) continue;
    const std::lock_guard lock(mutex_);
    threads_.emplace_back([this, fd = client.release()] { serve(UniqueFd(fd)); });
  }
}

void PostgresProxy::serve(UniqueFd client) {
  UniqueFd server = connect_to(server_socket_);
  while (server && client && !stop_.load()) {
    pollfd waiting[] = {{client.get(), POLLIN, 0}, {server.get(), POLLIN, 0}};
    if (::poll(waiting, 2, kLookMs) <= 0) continue;
    if (waiting[1].revents != 0) {
      const std::string bytes = read_some(server);
      if (bytes.empty() || !write_all(client, bytes)) return;
    }
    if (waiting[0].revents != 0 && !from_client(client, server)) return;
  }
}

bool PostgresProxy::from_client(UniqueFd& client, UniqueFd& server) {
  const std::string bytes = read_some(client);
  if (bytes.empty()) return false;
  if (!is_commit(bytes)) return write_all(server, bytes);
  switch (next_.exchange(Cut::none)) {
    case Cut::none:
      return write_all(server, bytes);
    case Cut::before:
      return false;
    case Cut::after:
      if (write_all(server, bytes)) read_some(server);
      return false;
    case Cut::late: {
      const std::lock_guard lock(mutex_);
      kept_.push_back({std::move(server), bytes});
      return false;
    }
  }
  return false;
}

void PostgresProxy::deliver() {
  const std::lock_guard lock(mutex_);
  for (const Kept& each : kept_) {
    EXPECT_TRUE(write_all(each.server, each.commit));
    EXPECT_FALSE(read_some(each.server).empty());
  }
  kept_.clear();
}

}  // namespace penstock::test
