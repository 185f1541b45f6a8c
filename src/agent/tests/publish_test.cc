// Publishing GPU memory over a real agent: what a hostile application may send, and what others
// get.
#include "raw_session.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>

namespace penstock::agent {
namespace {

class Publishing : public testing::Test {
 protected:
  void SetUp() override {
    log::set_level(log::Level::off);
    AgentConfig config;
    config.directory = directory_.store();
    config.spin = std::chrono::microseconds(0);
    Outcome<std::unique_ptr<Agent>> started = Agent::start(config);
    ASSERT_TRUE(started) << started.error().message;
    agent_ = std::move(*started);
  }
  void TearDown() override { log::set_level(log::Level::warning); }

  UniqueFd connect() {
    Outcome<UniqueFd> socket = agent_->connect_local();
    EXPECT_TRUE(socket);
    return std::move(*socket);
  }
  // As another process does.
  UniqueFd connect_by_path() const {
    const std::string path = directory_.store() + "/agent.sock";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    return socket;
  }
  // Only this thread is the other user while it connects.
  UniqueFd connect_as(uint32_t uid) {
    UniqueFd socket;
    std::thread([&] {
      ASSERT_EQ(::syscall(SYS_setresgid, uid, uid, uid), 0);
      ASSERT_EQ(::syscall(SYS_setresuid, uid, uid, uid), 0);
      socket = connect();
    }).join();
    return socket;
  }
  static wire::PublishDevice publication(bool descriptor = false, uint8_t number = 1) {
    return {{number, 2, 3}, {"the handle", 4096, {5}, descriptor}};
  }
  static wire::OpenDevice opening(uint8_t number = 1) { return {{number, 2, 3}}; }
  static bool same_file(int a, int b) {
    struct stat first {};
    struct stat second {};
    return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_ino == second.st_ino &&
           first.st_dev == second.st_dev;
  }
  static bool becomes_unknown(RawSession& session) {
    return test::eventually([&] { return session.ask(opening()).status == Code::not_found; });
  }

  ScratchDirectory directory_;
  std::unique_ptr<Agent> agent_;
};

TEST_F(Publishing, another_session_of_the_user_gets_the_handle_and_its_descriptor) {
  RawSession mine(connect());
  RawSession other(connect());
  EXPECT_EQ(other.ask(opening()).status, Code::not_found);
  SharedMemory memory(4096, 0);
  ASSERT_EQ(mine.ask(publication(true), {memory.fd()}).status, Code::ok);
  ASSERT_EQ(mine.ask(publication(false, 9)).status, Code::ok);

  wire::Reply reply = other.ask(opening());
  ASSERT_EQ(reply.status, Code::ok) << reply.text;
  const auto& handle = std::get<wire::DeviceHandle>(reply.body);
  EXPECT_EQ(handle.bytes, "the handle");
  EXPECT_EQ(handle.size, 4096u);
  EXPECT_EQ(handle.gpu[0], 5);
  EXPECT_TRUE(handle.descriptor);
  ASSERT_TRUE(other.given);
  EXPECT_TRUE(same_file(other.given.get(), memory.fd()));

  reply = other.ask(opening(9));
  ASSERT_EQ(reply.status, Code::ok) << reply.text;
  EXPECT_FALSE(std::get<wire::DeviceHandle>(reply.body).descriptor);
  EXPECT_FALSE(other.given);
}

TEST_F(Publishing, ends_with_its_withdrawal_or_with_the_session) {
  RawSession mine(connect());
  RawSession other(connect());
  ASSERT_EQ(mine.ask(publication()).status, Code::ok);
  EXPECT_EQ(other.ask(wire::WithdrawDevice{publication().id}).status, Code::not_found)
      << "it is not this session's";
  EXPECT_EQ(other.ask(opening()).status, Code::ok);
  EXPECT_EQ(mine.ask(wire::WithdrawDevice{publication().id}).status, Code::ok);
  EXPECT_EQ(mine.ask(wire::WithdrawDevice{publication().id}).status, Code::not_found);
  EXPECT_EQ(other.ask(opening()).status, Code::not_found);

  ASSERT_EQ(mine.ask(publication()).status, Code::ok);
  EXPECT_EQ(other.ask(opening()).status, Code::ok);
  mine.hang_up();
  EXPECT_TRUE(becomes_unknown(other));
}

// As the workers of a program that loads data: they hold what their parent held.
TEST_F(Publishing, ends_with_the_process_that_published_though_its_children_live_on) {
  RawSession other(connect());
  int pipes[2];
  ASSERT_EQ(::pipe2(pipes, O_CLOEXEC), 0);
  UniqueFd reads(pipes[0]);
  UniqueFd writes(pipes[1]);
  const pid_t parent = ::fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    RawSession mine(connect_by_path());
    if (mine.ask(publication()).status != Code::ok) ::_exit(1);
    const pid_t worker = ::fork();
    if (worker != 0) (void)!::write(writes.get(), &worker, sizeof worker);
    while (true) ::pause();
  }
  pid_t worker = 0;
  ASSERT_EQ(::read(reads.get(), &worker, sizeof worker), static_cast<ssize_t>(sizeof worker));
  EXPECT_EQ(other.ask(opening()).status, Code::ok);
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  EXPECT_TRUE(becomes_unknown(other));
  RawSession again(connect());
  EXPECT_EQ(again.ask(publication()).status, Code::ok) << "the id is free";
  EXPECT_EQ(::kill(worker, SIGKILL), 0) << "it has lived until now";
}

TEST_F(Publishing, of_an_id_in_use_is_refused_and_the_session_goes_on) {
  RawSession mine(connect());
  RawSession other(connect());
  ASSERT_EQ(mine.ask(publication()).status, Code::ok);
  EXPECT_EQ(mine.ask(publication()).status, Code::already_exists);
  EXPECT_EQ(other.ask(publication()).status, Code::already_exists);
  EXPECT_EQ(other.ask(publication(false, 2)).status, Code::ok);
}

TEST_F(Publishing, is_bounded) {
  RawSession mine(connect());
  wire::PublishDevice next = publication();
  uint32_t count = 0;
  wire::Reply reply;
  while ((reply = mine.ask(next)).status == Code::ok) {
    ++count;
    next.id[4] = static_cast<uint8_t>(count);
    next.id[5] = static_cast<uint8_t>(count >> 8);
  }
  EXPECT_EQ(reply.status, Code::busy);
  EXPECT_EQ(count, sessions::limits::kPublishedPerSessionMax);
  RawSession other(connect());
  EXPECT_EQ(other.ask(next).status, Code::ok);
}

TEST_F(Publishing, of_a_descriptor_that_could_hold_the_session_is_refused) {
  RawSession mine(connect());
  int pipes[2];
  ASSERT_EQ(::pipe2(pipes, O_CLOEXEC), 0);
  const UniqueFd reads(pipes[0]);
  const UniqueFd writes(pipes[1]);
  const UniqueFd event(::eventfd(0, EFD_CLOEXEC));
  for (const int fd : {mine.socket(), reads.get(), event.get()}) {
    EXPECT_EQ(mine.ask(publication(true), {fd}).status, Code::invalid_argument);
  }
  EXPECT_EQ(mine.ask(opening()).status, Code::not_found);
}

TEST_F(Publishing, that_does_not_speak_the_protocol_ends_the_session) {
  const auto ended_by = [&](const wire::PublishDevice& m, const std::vector<int>& fds) {
    RawSession session(connect());
    session.send(m, fds);
    return session.is_ended();
  };
  SharedMemory memory(4096, 0);
  EXPECT_TRUE(ended_by(publication(true), {})) << "no descriptor";
  EXPECT_TRUE(ended_by(publication(false), {memory.fd()})) << "one too many";
  EXPECT_TRUE(ended_by(publication(true), {memory.fd(), memory.fd()})) << "one too many";
  wire::PublishDevice wrong = publication();
  wrong.handle.bytes = std::string(wire::kDeviceHandleBytesMax + 1, 'x');
  EXPECT_TRUE(ended_by(wrong, {})) << "a long handle";
  wrong.handle.bytes.clear();
  EXPECT_TRUE(ended_by(wrong, {})) << "no handle";
  wrong = publication();
  wrong.handle.size = 0;
  EXPECT_TRUE(ended_by(wrong, {})) << "no memory";
  wrong.handle.size = UINT64_MAX;
  EXPECT_TRUE(ended_by(wrong, {})) << "more than there is";
  RawSession good(connect());
  EXPECT_EQ(good.ask(publication(true), {memory.fd()}).status, Code::ok);
}

TEST_F(Publishing, is_for_the_same_user_only) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be several users";
  RawSession first(connect_as(1001));
  RawSession second(connect_as(1002));
  RawSession root(connect());
  ASSERT_EQ(first.ask(publication()).status, Code::ok);
  EXPECT_EQ(second.ask(opening()).status, Code::access_denied);
  EXPECT_EQ(root.ask(opening()).status, Code::access_denied);
  EXPECT_EQ(second.ask(wire::WithdrawDevice{publication().id}).status, Code::not_found);
  wire::PublishDevice theirs = publication();
  theirs.handle.bytes = "the second's";
  EXPECT_EQ(second.ask(theirs).status, Code::ok) << "ids of two users do not meet";
  EXPECT_EQ(std::get<wire::DeviceHandle>(second.ask(opening()).body).bytes, "the second's");
  EXPECT_EQ(std::get<wire::DeviceHandle>(first.ask(opening()).body).bytes, "the handle");
}

}  // namespace
}  // namespace penstock::agent
