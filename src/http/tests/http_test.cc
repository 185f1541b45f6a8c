#include "penstock/http.h"

#include <arpa/inet.h>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "penstock/testing.h"

namespace penstock::http {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

Response answer(const std::string& path) {
  if (path == "/x") return {.body = "found\n"};
  return {.status = 404, .body = "not found\n"};
}

Outcome<std::unique_ptr<Server>> start(const std::string& where) {
  return Server::start(*parse_address(where), answer);
}

UniqueFd connect_to(const Server& server) {
  const std::string where = server.address();
  if (where.starts_with('/')) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::strncpy(name.sun_path, where.c_str(), sizeof name.sun_path - 1);
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
      return {};
    }
    return socket;
  }
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(std::stoi(where.substr(where.rfind(':') + 1))));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
    return {};
  }
  return socket;
}

// What comes back for these bytes until the server closes.
std::string ask(const Server& server, const std::string& request, bool patient = true) {
  const UniqueFd socket = connect_to(server);
  if (!socket) return "no connection";
  const timeval little{0, 100'000};
  if (!patient) ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &little, sizeof little);
  (void)!::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL);
  ::shutdown(socket.get(), SHUT_WR);
  std::string out;
  char buffer[4096];
  ssize_t got = 0;
  while ((got = ::recv(socket.get(), buffer, sizeof buffer, 0)) > 0) {
    out.append(buffer, static_cast<size_t>(got));
  }
  return out;
}

TEST(Http, answers_get_and_head_by_path_and_refuses_the_rest) {
  auto server = start("127.0.0.1:0");
  ASSERT_TRUE(server) << server.error().message;
  const std::string found = ask(**server, "GET /x HTTP/1.0\r\n\r\n");
  EXPECT_THAT(found, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(found, EndsWith("\r\n\r\nfound\n"));
  EXPECT_THAT(ask(**server, "GET /x?a=b HTTP/1.0\r\n\r\n"), EndsWith("found\n"));
  const std::string head = ask(**server, "HEAD /x HTTP/1.0\r\n\r\n");
  EXPECT_THAT(head, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(head, EndsWith("\r\n\r\n"));
  EXPECT_THAT(ask(**server, "GET /y HTTP/1.0\r\n\r\n"), HasSubstr(" 404 "));
  const std::string post = ask(**server, "POST /x HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_THAT(post, HasSubstr(" 405 "));
  EXPECT_THAT(post, HasSubstr("Allow: GET, HEAD"));
}

TEST(Http, survives_garbage_and_requests_without_end) {
  auto server = start("127.0.0.1:0");
  ASSERT_TRUE(server) << server.error().message;
  for (const std::string& garbage :
       {std::string("\0\xff\x01", 3), std::string("\r\n\r\n\r\n"), std::string("GET"),
        "GET /" + std::string(100'000, 'a') + " HTTP/1.1\r\n\r\n",
        "GET /x HTTP/1.1\r\nA: " + std::string(100'000, 'b') + "\r\n\r\n",
        std::string("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n"),
        std::string("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n")}) {
    EXPECT_THAT(ask(**server, garbage, false), testing::Not(HasSubstr("found\n")));
  }
  EXPECT_THAT(ask(**server, "GET /x HTTP/1.0\r\n\r\n"), EndsWith("found\n"));
}

TEST(Http, more_connections_than_it_takes_do_not_last) {
  auto server = start("127.0.0.1:0");
  ASSERT_TRUE(server) << server.error().message;
  {
    // Beyond its bound and the queue behind that, connecting itself would wait.
    std::vector<UniqueFd> idle;
    for (int i = 0; i < 80; ++i) idle.push_back(connect_to(**server));
  }
  // Once they are gone.
  EXPECT_TRUE(test::eventually(
      [&] { return ask(**server, "GET /x HTTP/1.0\r\n\r\n").ends_with("found\n"); }));
}

TEST(Http, two_may_ask_at_once) {
  auto server = start("127.0.0.1:0");
  ASSERT_TRUE(server) << server.error().message;
  std::atomic<int> good{0};
  std::vector<std::thread> askers;
  for (int i = 0; i < 4; ++i) {
    askers.emplace_back([&] {
      for (int k = 0; k < 50; ++k) {
        if (ask(**server, "GET /x HTTP/1.0\r\n\r\n").ends_with("found\n")) ++good;
      }
    });
  }
  for (std::thread& asker : askers) asker.join();
  EXPECT_EQ(good, 200);
}

TEST(Http, a_taken_port_is_told_with_what_to_do) {
  auto first = start("127.0.0.1:0");
  ASSERT_TRUE(first) << first.error().message;
  auto second = start((*first)->address());
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr((*first)->address()));
  EXPECT_THAT(second.error().message, HasSubstr("choose another port"));
}

TEST(Http, listens_on_a_socket_that_others_cannot_open_and_replaces_a_dead_one) {
  const test::ScratchDirectory place;
  const std::string path = place / "metrics.sock";
  {
    auto server = start(path);
    ASSERT_TRUE(server) << server.error().message;
    EXPECT_THAT(ask(**server, "GET /x HTTP/1.0\r\n\r\n"), EndsWith("found\n"));
    struct stat facts {};
    ASSERT_EQ(::stat(path.c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0007, 0u);
    EXPECT_FALSE(start(path)) << "two on one path";
    EXPECT_THAT(ask(**server, "GET /x HTTP/1.0\r\n\r\n"), EndsWith("found\n"));
  }
  EXPECT_NE(::access(path.c_str(), F_OK), 0) << "left behind";
  {
    // As a killed process leaves it.
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::strncpy(name.sun_path, path.c_str(), sizeof name.sun_path - 1);
    const UniqueFd dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  }
  auto server = start(path);
  ASSERT_TRUE(server) << server.error().message;
  EXPECT_THAT(ask(**server, "GET /x HTTP/1.0\r\n\r\n"), EndsWith("found\n"));
}

TEST(Http, addresses_are_of_this_machine_unless_said_otherwise) {
  EXPECT_EQ(parse_address("9180")->host, "127.0.0.1");
  EXPECT_EQ(parse_address(":9180")->host, "127.0.0.1");
  EXPECT_EQ(parse_address("0.0.0.0:9180")->host, "0.0.0.0");
  EXPECT_EQ(parse_address("[::1]:9180")->host, "::1");
  EXPECT_EQ(parse_address("[::1]:9180")->port, 9180);
  EXPECT_EQ(parse_address("/run/x")->path, "/run/x");
  for (const char* text : {"", "host", "host:", "host:x", "1:99999", "1:-1"}) {
    EXPECT_FALSE(parse_address(text)) << text;
  }
}

}  // namespace
}  // namespace penstock::http
