// Calls to an agent that answers what no agent says, or ends the connection in the middle of a
// call.
#include "penstock/connection.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <utility>

#include "penstock/testing.h"
#include "penstock/wire.h"

namespace penstock::connection {
namespace {

using test::ScratchDirectory;

// Listens at a path and greets who connects. What it does with a call is the test's to say: the
// bytes of the answer, or none to end the connection.
class ListeningAgent {
 public:
  using Answers = std::function<std::string(const wire::Request&)>;

  ListeningAgent(const std::string& path, Answers answers)
      : listening_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)),
        answers_(std::move(answers)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), std::min(path.size(), sizeof address.sun_path - 1));
    EXPECT_EQ(::bind(listening_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    EXPECT_EQ(::listen(listening_.get(), 1), 0);
    thread_ = std::thread([this] { serve(); });
  }
  ~ListeningAgent() {
    ::shutdown(listening_.get(), SHUT_RDWR);
    thread_.join();
  }
  int calls() const { return calls_; }

 private:
  void serve() {
    while (true) {
      const UniqueFd socket(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!socket) return;
      while (answer(socket.get())) {
      }
    }
  }
  bool answer(int socket) {
    std::string message(wire::kSessionMessageMax, '\0');
    const ssize_t length = ::recv(socket, message.data(), message.size(), 0);
    if (length <= 0) return false;
    message.resize(static_cast<size_t>(length));
    const Result<wire::Request> request = wire::decode_request(std::as_bytes(std::span(message)));
    if (!request) return false;
    const std::string bytes = answer_of(*request);
    return !bytes.empty() && ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0;
  }
  std::string answer_of(const wire::Request& request) {
    if (std::holds_alternative<wire::Hello>(request.body)) {
      wire::Welcome welcome;
      welcome.version = wire::kProtocol.highest;
      welcome.session = 1;
      welcome.lowest = wire::kProtocol.lowest;
      welcome.highest = wire::kProtocol.highest;
      return *wire::encode(
          wire::Reply{.id = request.id, .status = {}, .text = {}, .body = welcome});
    }
    ++calls_;
    return answers_(request);
  }

  UniqueFd listening_;
  Answers answers_;
  std::atomic<int> calls_{0};
  std::thread thread_;
};

std::string success(const wire::Request& request) {
  return *wire::encode(wire::Reply{.id = request.id, .status = {}, .text = {}, .body = {}});
}

class ConnectionTest : public ::testing::Test {
 protected:
  ScratchDirectory scratch_;
  const std::string path_ = scratch_ / "agent";
};

TEST_F(ConnectionTest, ends_a_call_whose_reply_makes_no_sense) {
  ListeningAgent agent(path_, [](const wire::Request&) { return std::string("no reply"); });
  Connection connection(path_);
  ASSERT_TRUE(connection.connect());
  const Connection::Answer answer = connection.call(wire::SyncAll{}, true);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().status, Code::bad_message);
  EXPECT_EQ(agent.calls(), 1) << "asked again, it would say the same";
  connection.stop();
}

TEST_F(ConnectionTest, makes_a_repeatable_call_again_at_a_new_connection) {
  std::atomic<int> left = 2;
  ListeningAgent agent(path_, [&](const wire::Request& request) {
    return left-- > 0 ? std::string() : success(request);
  });
  Connection connection(path_);
  ASSERT_TRUE(connection.connect());
  EXPECT_TRUE(connection.call(wire::SyncAll{}, true));
  EXPECT_EQ(agent.calls(), 3);
  connection.stop();
}

TEST_F(ConnectionTest, tells_who_makes_another_call_that_it_may_have_happened) {
  ListeningAgent agent(path_, [](const wire::Request&) { return std::string(); });
  Connection connection(path_);
  ASSERT_TRUE(connection.connect());
  const Connection::Answer answer = connection.call(wire::SyncAll{}, false);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().status, Code::peer_gone);
  EXPECT_EQ(agent.calls(), 1);
  connection.stop();
}

}  // namespace
}  // namespace penstock::connection
