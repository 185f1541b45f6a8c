#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/testing_postgres.h"

namespace penstock::test {
namespace {

namespace fs = std::filesystem;

// The server refuses to run as root.
constexpr uid_t kNobody = 65534;

std::string find_programs() {
  std::string found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("/usr/lib/postgresql", none)) {
    const std::string programs = entry.path() / "bin";
    if (fs::exists(programs + "/initdb") && programs > found) found = programs;
  }
  return found;
}

std::vector<pid_t> children_of(pid_t parent) {
  const std::string id = std::to_string(parent);
  std::ifstream file("/proc/" + id + "/task/" + id + "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

}  // namespace

PostgresServer* PostgresServer::shared() {
  static const std::unique_ptr<PostgresServer> server = make();
  return server.get();
}

std::unique_ptr<PostgresServer> PostgresServer::make() {
  const std::string programs = find_programs();
  std::unique_ptr<PostgresServer> made;
  if (!programs.empty()) made.reset(new PostgresServer(programs));
  return made;
}

std::unique_ptr<PostgresServer> PostgresServer::make_standby() {
  return std::unique_ptr<PostgresServer>(new PostgresServer(programs_, this));
}

void PostgresServer::await_standby() {
  sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = '*'");
  sql("postgres", "SELECT pg_reload_conf()");
  EXPECT_TRUE(eventually(
      [&] { return sql("postgres", "SELECT sync_state FROM pg_stat_replication") == "sync"; }));
}

void PostgresServer::promote() {
  EXPECT_EQ(sql("postgres", "SELECT pg_promote()"), "t");
}

PostgresServer::PostgresServer(std::string programs, const PostgresServer* primary)
    : programs_(std::move(programs)) {
  if (::geteuid() == 0) {
    EXPECT_EQ(::chown(directory_.path().c_str(), kNobody, kNobody), 0);
  }
  if (primary != nullptr) {
    EXPECT_TRUE(
        run({programs_ + "/pg_basebackup", "-D", directory_ / "data", "-R", "-X", "stream", "-c",
             "fast", "--no-sync", "-d", "host=" + primary->directory_.path() + " user=penstock"},
            directory_ / "log"));
    start();
    return;
  }
  EXPECT_TRUE(run({programs_ + "/initdb", "-D", directory_ / "data", "-U", "penstock", "-A",
                   "trust", "-E", "UTF8", "--locale=C", "--no-sync"},
                  directory_ / "log"));
  start();
}

PostgresServer::~PostgresServer() {
  kill();
}

pid_t PostgresServer::spawn(const std::vector<std::string>& arguments,
                            const std::string& output) const {
  std::vector<char*> words;
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  if (::geteuid() == 0 &&
      (::setgroups(0, nullptr) != 0 || ::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) {
    ::_exit(1);
  }
  // If the test is killed: an immediate end.
  ::prctl(PR_SET_PDEATHSIG, SIGQUIT);
  const int to = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (to < 0 || ::dup2(to, 1) < 0 || ::dup2(to, 2) < 0 || ::chdir("/") != 0) ::_exit(1);
  ::execv(words[0], words.data());
  ::_exit(1);
}

bool PostgresServer::run(const std::vector<std::string>& arguments,
                         const std::string& output) const {
  return ending_of(spawn(arguments, output)) == 0;
}

bool PostgresServer::answers() const {
  return run({programs_ + "/pg_isready", "-q", "-h", directory_.path()}, "/dev/null");
}

void PostgresServer::start(const std::vector<std::string>& options) {
  ASSERT_EQ(pid_, 0);
  std::vector<std::string> arguments = {programs_ + "/postgres", "-D", directory_ / "data", "-k",
                                        directory_.path()};
  // What these tests kill are processes, not machines. Memory that a killed server shares stays in
  // its directory, not with the machine.
  for (const char* option :
       {"listen_addresses=", "fsync=off", "shared_buffers=16MB", "max_connections=50",
        "autovacuum_naptime=5s", "dynamic_shared_memory_type=mmap"}) {
    arguments.insert(arguments.end(), {"-c", option});
  }
  for (const std::string& option : options) arguments.insert(arguments.end(), {"-c", option});
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < kPatience) {
    pid_ = spawn(arguments, directory_ / "log");
    const bool ready =
        eventually([&] { return answers() || ::waitpid(pid_, nullptr, WNOHANG) != 0; }, kPatience,
                   std::chrono::milliseconds(20));
    if (ready && answers()) return;
    // The shared memory of the one before is not free yet.
  }
  FAIL() << read_file(directory_ / "log");
}

std::vector<pid_t> PostgresServer::processes() const {
  std::vector<pid_t> all = children_of(pid_);
  all.insert(all.begin(), pid_);
  return all;
}

void PostgresServer::signal_all(int signal) const {
  for (const pid_t process : processes()) ::kill(process, signal);
}

void PostgresServer::kill() {
  if (pid_ == 0) return;
  const std::vector<pid_t> all = processes();
  for (const pid_t process : all) ::kill(process, SIGKILL);
  EXPECT_EQ(::waitpid(pid_, nullptr, 0), pid_);
  pid_ = 0;
  for (const pid_t process : all) {
    EXPECT_TRUE(eventually([&] { return ::kill(process, 0) != 0; }));
  }
}

std::string PostgresServer::url(const std::string& database, const std::string& socket) const {
  return "host=" + (socket.empty() ? directory_.path() : socket) +
         " user=penstock dbname=" + database;
}

std::string PostgresServer::new_database() {
  const std::string name = "test" + std::to_string(++databases_);
  sql("postgres", "CREATE DATABASE " + name);
  return name;
}

std::string PostgresServer::sql(const std::string& database, const std::string& text) const {
  const std::string output = directory_ / ("answer" + std::to_string(++answers_));
  const bool done =
      run({programs_ + "/psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", url(database), "-c", text},
          output);
  std::string answer = read_file(output);
  EXPECT_TRUE(done) << text << ": " << answer;
  fs::remove(output);
  while (answer.ends_with('\n')) answer.pop_back();
  return answer;
}

}  // namespace penstock::test
