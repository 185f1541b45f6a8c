// Sessions of processes in namespaces of their own: what they are there counts for nothing here.
#include "raw_session.h"

#include <fstream>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

namespace penstock::agent {
namespace {

constexpr uint32_t kHostUid = 12'345;

UniqueFd connect_to(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fd.reset();
  return fd;
}

void map_ids(pid_t pid, const char* file) {
  std::ofstream("/proc/" + std::to_string(pid) + "/" + file) << "0 " << kHostUid << " 1";
}

// What the container saw, as the exit status of its process.
enum Seen { kFine = 0, kNoSocket = 10, kReadSecret, kNoFile, kNoNamespaces };

int act_in_container(const std::string& socket, bool ids_are_mapped) {
  if (ids_are_mapped && (::setgid(0) != 0 || ::setuid(0) != 0)) return kNoNamespaces;
  UniqueFd fd = connect_to(socket);
  if (!fd) return kNoSocket;
  RawSession session(std::move(fd));
  if (session.ask(wire::OpenPath{0, "/secret", wire::kOpenRead, 0}).status.ok()) {
    return kReadSecret;
  }
  constexpr uint32_t kFlags = wire::kOpenWrite | wire::kOpenCreate;
  return session.ask(wire::OpenPath{1, "/public/made", kFlags, 0600}).status.ok() ? kFine : kNoFile;
}

// Runs it as process 1 of namespaces of its own, which are user kHostUid here; in there it is user
// 0, or one that nothing is known of.
int run_in_container(const std::string& socket, bool ids_are_mapped) {
  int ready[2], mapped[2];
  if (::pipe(ready) != 0 || ::pipe(mapped) != 0) return -1;
  const pid_t outer = ::fork();
  if (outer == 0) {
    char byte = 0;
    if (::setgid(kHostUid) != 0 || ::setuid(kHostUid) != 0 ||
        ::unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS) != 0) {
      ::_exit(kNoNamespaces);
    }
    (void)!::write(ready[1], "x", 1);
    if (::read(mapped[0], &byte, 1) != 1) ::_exit(kNoNamespaces);
    const pid_t inner = ::fork();
    if (inner == 0) ::_exit(act_in_container(socket, ids_are_mapped));
    int status = 0;
    ::waitpid(inner, &status, 0);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : kNoNamespaces);
  }
  ::close(ready[1]);
  char byte = 0;
  if (::read(ready[0], &byte, 1) == 1) {
    if (ids_are_mapped) {
      map_ids(outer, "uid_map");
      map_ids(outer, "gid_map");
    }
    (void)!::write(mapped[1], "x", 1);
  }
  for (const int fd : {ready[0], mapped[0], mapped[1]}) ::close(fd);
  int status = 0;
  ::waitpid(outer, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void expect_rights_of_host_user(bool ids_are_mapped) {
  if (::getuid() != 0) GTEST_SKIP() << "other users cannot be had here";
  log::set_level(log::Level::off);
  ScratchDirectory directory;
  AgentConfig config;
  config.directory = directory.store();
  config.spin = std::chrono::microseconds(0);
  auto agent = Agent::start(config);
  ASSERT_TRUE(agent) << agent.error().message;
  ASSERT_EQ(::chmod(directory.store().c_str(), 0755), 0);
  Outcome<UniqueFd> socket = (*agent)->connect_local();
  ASSERT_TRUE(socket);
  RawSession root(std::move(*socket));
  ASSERT_EQ(root.ask(wire::MakeDirectory{"/public", 0777}).status, Code::ok);
  wire::ChangeAttributes open_to_all;
  open_to_all.path = "/public";
  open_to_all.mode = 0777;
  ASSERT_EQ(root.ask(open_to_all).status, Code::ok);
  constexpr uint32_t kFlags = wire::kOpenWrite | wire::kOpenCreate;
  ASSERT_EQ(root.ask(wire::OpenPath{0, "/secret", kFlags, 0600}).status, Code::ok);

  const int seen = run_in_container(directory.store() + "/agent.sock", ids_are_mapped);
  if (seen == kNoNamespaces) GTEST_SKIP() << "namespaces are not allowed here";
  EXPECT_EQ(seen, kFine);
  const wire::Reply made = root.ask(wire::PathAttributes{"/public/made", true});
  ASSERT_EQ(made.status, Code::ok);
  EXPECT_EQ(std::get<wire::Attributes>(made.body).uid, kHostUid);
  EXPECT_EQ(std::get<wire::Attributes>(made.body).gid, kHostUid);
  agent->reset();
  log::set_level(log::Level::warning);
}

TEST(Container, has_the_rights_of_its_user_on_the_host) {
  expect_rights_of_host_user(true);
}

TEST(Container, without_ids_of_its_own_has_the_rights_of_its_user_on_the_host) {
  expect_rights_of_host_user(false);
}

}  // namespace
}  // namespace penstock::agent
