// A PostgreSQL server of a test's own, in a scratch directory, reached by a UNIX socket.
#pragma once

#include <atomic>
#include <csignal>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

#include "penstock/testing.h"

namespace penstock::test {

class PostgresServer {
 public:
  // The one of this program, running; made at the first call, and ended with the program. Null
  // where PostgreSQL is not installed.
  static PostgresServer* shared();
  static constexpr const char* kMissing =
      "PostgreSQL is missing (packages postgresql and libpq-dev)";

  // One of the test's own, running. Null as above.
  static std::unique_ptr<PostgresServer> make();
  // A standby of this one, running, which has all that this one has committed once await_standby()
  // has returned: from then on this one waits for it with each commit.
  std::unique_ptr<PostgresServer> make_standby();
  void await_standby();
  // Of a standby: it is the primary from now on.
  void promote();

  ~PostgresServer();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  // A new, empty database: its name.
  std::string new_database();
  // How to reach one; `socket` is another directory of sockets than the server's.
  std::string url(const std::string& database, const std::string& socket = "") const;
  // Where the server's own socket is.
  std::string socket() const { return directory_.path() + "/.s.PGSQL.5432"; }

  // What psql answers, as it prints values. Fails the test if it fails.
  std::string sql(const std::string& database, const std::string& text) const;

  // Its processes stand still, and go on. Who connects meanwhile is not answered.
  void pause() { signal_all(SIGSTOP); }
  void go_on() { signal_all(SIGCONT); }
  // Ends all processes of the server at once; returns when they are gone.
  void kill();
  // As kill() left it, with more options as "max_connections=5"; returns when it takes connections.
  void start(const std::vector<std::string>& options = {});

 private:
  // With a new database cluster, or a copy of that server's.
  explicit PostgresServer(std::string programs, const PostgresServer* primary = nullptr);
  std::vector<pid_t> processes() const;
  void signal_all(int signal) const;
  pid_t spawn(const std::vector<std::string>& arguments, const std::string& output) const;
  bool run(const std::vector<std::string>& arguments, const std::string& output) const;
  bool answers() const;

  const std::string programs_;  // the directory of the server's programs
  const ScratchDirectory directory_;
  pid_t pid_ = 0;
  int databases_ = 0;
  mutable std::atomic<int> answers_{0};
};

}  // namespace penstock::test
