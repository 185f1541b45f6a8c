// A node in namespaces of its own, asked by processes whose user and group it has no number for:
// they are nobody, whoever they are on the host.
#include "raw_session.h"
#include "watched_node.h"

#include <chrono>
#include <csignal>
#include <fstream>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>

#include "penstock/testing.h"
#include "penstock/testing_node.h"

namespace penstock::test {
namespace {

using agent::RawSession;

constexpr uint32_t kOwner = 12'345;   // who runs the container, and is its root
constexpr uint32_t kStranger = 1001;  // means nothing in there
constexpr uint32_t kNobody = 65'534;  // what the kernel says of such a one

void map_ids(pid_t pid, const char* file) {
  std::ofstream("/proc/" + std::to_string(pid) + "/" + file) << "0 " << kOwner << " 1";
}

// A node that is process 1 and user 0 of its container.
class ContainedNode {
 public:
  explicit ContainedNode(const std::string& store) : socket_(store + "/agent.sock") {
    int ready[2], mapped[2];
    if (::pipe2(ready, O_CLOEXEC) != 0 || ::pipe2(mapped, O_CLOEXEC) != 0) return;
    outer_ = ::fork();
    if (outer_ == 0) run(store, ready[1], mapped[0]);
    ::close(ready[1]);
    char byte = 0;
    if (::read(ready[0], &byte, 1) == 1) {
      map_ids(outer_, "uid_map");
      map_ids(outer_, "gid_map");
      (void)!::write(mapped[1], "x", 1);
      is_contained_ = true;
    }
    for (const int fd : {ready[0], mapped[0], mapped[1]}) ::close(fd);
  }
  ~ContainedNode() {
    if (outer_ <= 0) return;
    ::kill(outer_, SIGKILL);
    ::waitpid(outer_, nullptr, 0);
  }
  ContainedNode(const ContainedNode&) = delete;
  ContainedNode& operator=(const ContainedNode&) = delete;

  bool is_contained() const { return is_contained_; }  // false: not allowed here
  bool wait_until_up() const {
    return eventually([this] { return static_cast<bool>(connect_to(socket_)); });
  }

 private:
  [[noreturn]] static void run(const std::string& store, int ready, int mapped) {
    char byte = 0;
    if (::setgroups(0, nullptr) != 0 || ::setgid(kOwner) != 0 || ::setuid(kOwner) != 0 ||
        ::unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS) != 0) {
      ::_exit(1);
    }
    (void)!::write(ready, "x", 1);
    if (::read(mapped, &byte, 1) != 1) ::_exit(1);
    // The first process of the container ends with this one.
    const pid_t inner = ::fork();
    if (inner == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::setgid(0) != 0 || ::setuid(0) != 0) ::_exit(1);
      const int nowhere = ::open("/dev/null", O_RDWR);
      for (const int fd : {0, 1, 2}) ::dup2(nowhere, fd);
      const std::string command = command_path();
      ::execl(command.c_str(), command.c_str(), "up", store.c_str(), nullptr);
      ::_exit(1);
    }
    ::waitpid(inner, nullptr, 0);
    ::_exit(0);
  }

  const std::string socket_;
  pid_t outer_ = 0;
  bool is_contained_ = false;
};

// What a process saw, as its exit status.
enum Seen { kFine = 0, kCannotBecome = 10, kNoSocket, kReadSecret, kChangedRoot, kNoFile };

// As `uid` on the host, outside of the container.
Seen act_as(uint32_t uid, const std::string& socket, const std::string& made) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgroups(0, nullptr) != 0 || ::setgid(uid) != 0 || ::setuid(uid) != 0) {
      ::_exit(kCannotBecome);
    }
    UniqueFd fd = connect_to(socket);
    if (!fd) ::_exit(kNoSocket);
    RawSession session(std::move(fd));
    const auto succeeds = [&](const wire::RequestBody& body) {
      return session.ask(body).status.ok();
    };
    constexpr uint32_t kFlags = wire::kOpenWrite | wire::kOpenCreate;
    if (succeeds(wire::OpenPath{0, "/secret", wire::kOpenRead, 0})) ::_exit(kReadSecret);
    if (succeeds(wire::MakeDirectory{"/directory", 0777})) ::_exit(kChangedRoot);
    ::_exit(succeeds(wire::OpenPath{1, made, kFlags, 0600}) ? kFine : kNoFile);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? static_cast<Seen>(WEXITSTATUS(status)) : kCannotBecome;
}

// As the container's root, who is this user on the host.
bool set_up(const std::string& socket) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(kOwner) != 0 || ::setuid(kOwner) != 0) ::_exit(1);
    RawSession session(connect_to(socket));
    wire::ChangeAttributes everybody;
    everybody.path = "/public";
    everybody.mode = 0777;
    constexpr uint32_t kFlags = wire::kOpenWrite | wire::kOpenCreate;
    const bool done = session.ask(wire::MakeDirectory{"/public", 0777}).status.ok() &&
                      session.ask(everybody).status.ok() &&
                      session.ask(wire::OpenPath{0, "/secret", kFlags, 0600}).status.ok();
    ::_exit(done ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Contained, node_takes_whom_it_has_no_number_for_as_nobody) {
  if (::geteuid() != 0) GTEST_SKIP() << "other users cannot be had here";
  log::set_level(log::Level::off);
  const ScratchDirectory scratch;
  const std::string store = scratch / "store";
  ASSERT_EQ(::chown(scratch.path().c_str(), kOwner, kOwner), 0);
  const ContainedNode node(store);
  if (!node.is_contained()) GTEST_SKIP() << "namespaces are not allowed here";
  ASSERT_TRUE(node.wait_until_up());
  const std::string socket = store + "/agent.sock";
  ASSERT_TRUE(set_up(socket)) << "the container's root is root there";
  // The host's root, too, has no number in there.
  EXPECT_EQ(act_as(0, socket, "/public/of-root"), kFine);
  EXPECT_EQ(act_as(kStranger, socket, "/public/of-stranger"), kFine);
  RawSession session(connect_to(socket));
  for (const char* made : {"/public/of-root", "/public/of-stranger"}) {
    const wire::Reply facts = session.ask(wire::PathAttributes{made, true});
    ASSERT_EQ(facts.status, Code::ok) << made;
    EXPECT_EQ(std::get<wire::Attributes>(facts.body).uid, kNobody) << made;
    EXPECT_EQ(std::get<wire::Attributes>(facts.body).gid, kNobody) << made;
  }
}

}  // namespace
}  // namespace penstock::test
