// Starting a node where an earlier one was killed, and where others look on.

#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "penstock/base.h"
#include "penstock/testing.h"
#include "penstock/testing_node.h"
#include "penstock/wire.h"

namespace penstock::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr uid_t kStranger = 1001;

class StartTest : public testing::Test {
 protected:
  ~StartTest() override { penstock({"down", store_}); }

  // Starts a node in the foreground and kills it as soon as `name` is in its directory, or when it
  // is up: some names are there for so short a time that they may be missed.
  void kill_when_there_is(const std::string& name) const {
    const pid_t child = start_penstock({"up", store_});
    ASSERT_GT(child, 0);
    const auto is_there = [&] {
      struct stat facts {};
      return ::lstat((store_ + "/" + name).c_str(), &facts) == 0 ||
             ::lstat((store_ + "/agent.sock").c_str(), &facts) == 0;
    };
    const bool seen = eventually(is_there, kPatience, std::chrono::nanoseconds(0));
    ::kill(child, SIGKILL);
    (void)ending_of(child);
    ASSERT_TRUE(seen) << name;
  }

  // What `act` returns as another user; 99 where this process may not become one.
  static int as_stranger(const std::function<int()>& act) {
    return in_child(
        [&] { return ::setgid(kStranger) == 0 && ::setuid(kStranger) == 0 ? act() : 99; });
  }

  const ScratchDirectory scratch_;
  const std::string store_ = scratch_ / "store";
};

// The agent's end of a session, spoken by hand.
class Talk {
 public:
  explicit Talk(const std::string& store) {
    socket_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = store + "/agent.sock";
    std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof address.sun_path - 1));
    EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0)
        << std::strerror(errno);
  }
  // True if the request was carried out.
  bool ask(wire::RequestBody body, int fd = -1) {
    const Result<std::string> bytes = wire::encode(wire::Request{++last_, std::move(body)});
    iovec data{const_cast<char*>(bytes->data()), bytes->size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    if (fd >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr* const part = CMSG_FIRSTHDR(&message);
      part->cmsg_level = SOL_SOCKET;
      part->cmsg_type = SCM_RIGHTS;
      part->cmsg_len = CMSG_LEN(sizeof fd);
      std::memcpy(CMSG_DATA(part), &fd, sizeof fd);
    }
    if (::sendmsg(socket_.get(), &message, MSG_NOSIGNAL) < 0) return false;
    std::vector<std::byte> buffer(wire::kSessionMessageMax);
    const ssize_t length = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (length <= 0) return false;
    const auto reply = wire::decode_reply(Bytes(buffer.data(), static_cast<size_t>(length)));
    return reply && reply->status.ok();
  }

 private:
  UniqueFd socket_;
  uint64_t last_ = 0;
};

// The kernel asks the killed process to flush the file when it closes the process's descriptors.
TEST_F(StartTest, a_killed_node_ends_although_it_holds_a_file_of_its_own_mount) {
  if (::access("/dev/fuse", R_OK | W_OK) != 0) GTEST_SKIP() << "no /dev/fuse";
  const std::string place = scratch_ / "place";
  fs::create_directory(place);
  const pid_t node = start_penstock({"up", store_, "--mount", place});
  ASSERT_GT(node, 0);
  ASSERT_TRUE(eventually([this] { return penstock({"status", store_}).exit_code == 0; }));
  const UniqueFd file(::open((place + "/file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(file) << std::strerror(errno);
  Talk talk(store_);
  ASSERT_TRUE(talk.ask(wire::Hello{}));
  // The one request whose descriptor the node keeps. That it is no memory of a GPU only the next
  // process would notice that maps it.
  wire::PublishDevice publish;
  publish.handle = {.bytes = "x", .size = 1, .gpu = {}, .descriptor = true};
  ASSERT_TRUE(talk.ask(publish, file.get()));
  ASSERT_EQ(::kill(node, SIGKILL), 0);
  const bool ended = eventually([&] { return ::waitpid(node, nullptr, WNOHANG) == node; });
  // Where it is not, nothing else ends it, and this process could not end either.
  if (!ended) ::umount2(place.c_str(), MNT_FORCE);
  EXPECT_TRUE(ended) << "the node's process is still there";
  // And a plain restart has all as it was.
  const Output up = penstock({"up", store_, "--mount", place, "--background"});
  EXPECT_EQ(up.exit_code, 0) << up.err;
  EXPECT_TRUE(fs::exists(place + "/file"));
}

TEST_F(StartTest, goes_on_wherever_the_first_start_was_killed) {
  for (const char* name : {"LOCK", "penstock.making", "secret", "meta.creating", "meta/CURRENT",
                           "targets/0/kv/CURRENT", "penstock.store", "agent.sock"}) {
    SCOPED_TRACE(name);
    kill_when_there_is(name);
    const Output up = penstock({"up", store_, "--background"});
    ASSERT_EQ(up.exit_code, 0) << up.err;
    for (const char* rest : {"penstock.making", "penstock.making.new", "meta.creating"}) {
      EXPECT_FALSE(fs::exists(store_ + "/" + rest)) << rest;
    }
    ASSERT_EQ(penstock({"down", store_}).exit_code, 0);
    fs::remove_all(store_);
  }
}

TEST_F(StartTest, what_names_files_is_for_the_owner_alone_and_the_socket_for_everybody) {
  const Output up = penstock({"up", store_, "--background"});
  ASSERT_EQ(up.exit_code, 0) << up.err;
  const auto others_may = [this](const std::string& name) {
    struct stat facts {};
    EXPECT_EQ(::lstat((store_ + "/" + name).c_str(), &facts), 0) << name;
    return facts.st_mode & 0077;
  };
  for (const char* name : {"meta", "meta/CURRENT", "meta/PENSTOCK", "meta/LOCK", "targets", "LOCK",
                           "secret", "admin.sock", "agent.log"}) {
    EXPECT_EQ(others_may(name), 0u) << name;
  }
  EXPECT_EQ(others_may("") & 0055, 0055u);
  EXPECT_EQ(others_may("agent.sock") & 0066, 0066u);
  const int seen = as_stranger([this] {
    for (const char* name : {"LOCK", "meta", "meta/PENSTOCK", "meta/CURRENT", "agent.log"}) {
      if (::open((store_ + "/" + name).c_str(), O_RDONLY) >= 0) return 1;
    }
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, (store_ + "/agent.sock").c_str(), sizeof address.sun_path - 1);
    const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const auto* where = reinterpret_cast<const sockaddr*>(&address);
    return ::connect(socket.get(), where, sizeof address) == 0 ? 0 : 2;
  });
  if (seen == 99) GTEST_SKIP() << "needs to become somebody else";
  EXPECT_EQ(seen, 0);
}

TEST_F(StartTest, a_node_with_many_sessions_still_tells_its_status) {
  constexpr size_t kSessions = 400;
  ASSERT_EQ(penstock({"up", store_, "--background"}).exit_code, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (store_ + "/agent.sock").c_str(), sizeof address.sun_path - 1);
  std::vector<UniqueFd> sessions;
  for (size_t i = 0; i < kSessions; ++i) {
    sessions.emplace_back(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const auto* where = reinterpret_cast<const sockaddr*>(&address);
    ASSERT_EQ(::connect(sessions.back().get(), where, sizeof address), 0) << i;
  }
  // The node knows of each when it has accepted it.
  const auto sessions_in = [](const std::string& text) {
    size_t count = 0;
    for (size_t at = 0; (at = text.find("\"session\"", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  Output status;
  (void)eventually([&] {
    status = penstock({"status", store_, "--json"});
    return status.exit_code != 0 || sessions_in(status.out) >= kSessions;
  });
  ASSERT_EQ(status.exit_code, 0) << status.err;
  EXPECT_EQ(sessions_in(status.out), kSessions);
  EXPECT_GT(status.out.size(), 64u * 1024);
  EXPECT_EQ(penstock({"status", store_}).exit_code, 0);
}

TEST_F(StartTest, an_ordinary_user_who_locks_what_he_can_keeps_no_node_from_starting) {
  ASSERT_EQ(penstock({"up", store_, "--background"}).exit_code, 0);
  ASSERT_EQ(penstock({"down", store_}).exit_code, 0);
  // As an earlier release has left it.
  ASSERT_EQ(::chmod((store_ + "/LOCK").c_str(), 0644), 0);
  ASSERT_EQ(::chmod((store_ + "/meta").c_str(), 0755), 0);
  for (const auto& file : fs::directory_iterator(store_ + "/meta")) {
    ASSERT_EQ(::chmod(file.path().c_str(), 0644), 0);
  }
  int said[2], over[2];
  ASSERT_EQ(::pipe2(said, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(over, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(over[1]);
    bool locked = ::setgid(kStranger) == 0 && ::setuid(kStranger) == 0;
    for (const char* name : {"LOCK", "meta/PENSTOCK"}) {
      const int fd = ::open((store_ + "/" + name).c_str(), O_RDONLY);
      locked = locked && fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) == 0;
    }
    const char word = locked ? 'y' : 'n';
    (void)!::write(said[1], &word, 1);
    char end = 0;
    (void)!::read(over[0], &end, 1);
    ::_exit(0);
  }
  ::close(said[1]);
  ::close(over[0]);
  char word = 0;
  EXPECT_EQ(::read(said[0], &word, 1), 1);
  const Output up = penstock({"up", store_, "--background"});
  ::close(said[0]);
  ::close(over[1]);
  ::waitpid(child, nullptr, 0);
  if (word != 'y') GTEST_SKIP() << "needs to become somebody else";
  EXPECT_EQ(up.exit_code, 0) << up.err;
  struct stat facts {};
  ASSERT_EQ(::stat((store_ + "/meta").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700u);
}

}  // namespace
}  // namespace penstock::test
