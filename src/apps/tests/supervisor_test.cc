#include "node/supervisor.h"

#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "penstock/base.h"

namespace penstock::apps {
namespace {

// A service manager's end. `name` begins with a zero where it is abstract.
UniqueFd listen_at(const std::string& name) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
  return socket;
}

std::string told(const UniqueFd& socket) {
  char text[64];
  const ssize_t length = ::recv(socket.get(), text, sizeof text, MSG_DONTWAIT);
  return length < 0 ? "nothing" : std::string(text, static_cast<size_t>(length));
}

class SupervisorTest : public testing::Test {
 protected:
  ~SupervisorTest() override { ::unsetenv("NOTIFY_SOCKET"); }
  const std::string name_ = "/tmp/penstock-supervisor-test-" + std::to_string(::getpid());
};

TEST_F(SupervisorTest, is_told_at_a_path) {
  const UniqueFd socket = listen_at(name_);
  ::setenv("NOTIFY_SOCKET", name_.c_str(), 1);
  EXPECT_TRUE(is_supervised());
  tell_supervisor("READY=1");
  EXPECT_EQ(told(socket), "READY=1");
  ::unlink(name_.c_str());
}

TEST_F(SupervisorTest, is_told_at_an_abstract_name) {
  const UniqueFd socket = listen_at('\0' + name_);
  ::setenv("NOTIFY_SOCKET", ("@" + name_).c_str(), 1);
  EXPECT_TRUE(is_supervised());
  tell_supervisor("STOPPING=1");
  EXPECT_EQ(told(socket), "STOPPING=1");
}

TEST_F(SupervisorTest, nothing_happens_when_nobody_can_be_told) {
  ::unsetenv("NOTIFY_SOCKET");
  EXPECT_FALSE(is_supervised());
  tell_supervisor("READY=1");
  for (const std::string& text : {std::string("relative"), std::string(), name_ + "-nobody",
                                  "/" + std::string(sizeof(sockaddr_un::sun_path), 'x')}) {
    ::setenv("NOTIFY_SOCKET", text.c_str(), 1);
    tell_supervisor("READY=1");
  }
}

}  // namespace
}  // namespace penstock::apps
