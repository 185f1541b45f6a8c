// The machine with the names and the controller is lost, and another one goes on (decision 0069).
#include "cluster_processes.h"

#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/base.h"
#include "penstock/testing_postgres.h"

namespace penstock::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

// What CLUSTER.md allows where controller and names were lost, and what a busy machine adds.
constexpr seconds kGoesOnWithin{20};
constexpr seconds kPatience{60};

class ClusterTakeover : public ClusterProcesses {
 protected:
  static bool enter_namespace() {
    static const bool entered = ::geteuid() == 0 && ::unshare(CLONE_NEWNS) == 0 &&
                                ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    return entered;
  }
  static bool can_mount() { return enter_namespace() && ::access("/dev/fuse", R_OK | W_OK) == 0; }
  void SetUp() override {
    server_ = PostgresServer::shared();
    if (server_ == nullptr) GTEST_SKIP() << PostgresServer::kMissing;
    url_ = server_->url(server_->new_database());
    make_source();
  }
  void TearDown() override {
    for (const std::string& path : mounted_) {
      while (::umount2(path.c_str(), MNT_DETACH) == 0) {
      }
    }
  }
  std::vector<std::string> mounted_at(const std::string& name, std::vector<std::string> options) {
    if (!can_mount()) return options;
    const std::string path = place("at_" + name);
    fs::create_directory(path);
    mounted_.push_back(path);
    options.insert(options.end(), {"--mount", path});
    return options;
  }
  // A first node that others may replace, two nodes with storage, and one who waits.
  void begin() {
    up("first", mounted_at("first", {"--listen", free_address(), "--roles", "controller,meta,agent",
                                     "--kv", url_}));
    join("second", mounted_at("second", {}));
    join("third", mounted_at("third", {}));
    good({"set", place("first") + ":/", "--copies", "2"});
    add_standby("spare");
  }
  void add_standby(const std::string& name) {
    const std::string address = free_address();
    good({"standby", place("first"), place(name), "--listen", address});
    good({"up", place(name), "-b", "--cache", "0"});
    started_.push_back(name);
    EXPECT_TRUE(eventually([&] {
      const Json names = ask("status", "first").value("names", Json::object());
      return names.value("standbys", Json::array()).dump().find(address) != std::string::npos;
    }));
    EXPECT_TRUE(eventually([&] { return could_take_over(name); }));
  }
  bool could_take_over(const std::string& name) const {
    return ask("status", name).value("standby", Json::object()).value("could_take_over", false);
  }
  bool leads(const std::string& name) const {
    return ask("status", name).value("cluster", Json::object()).value("controller", false);
  }
  pid_t pid_of(const std::string& name) const { return ask("status", name).value("pid", 0); }
  // Until a change of names by that node has happened again.
  seconds goes_on(const std::string& name, const std::string& as) const {
    const auto begun = steady_clock::now();
    EXPECT_TRUE(eventually(
        [&] {
          return penstock({"import", source_, place(name) + ":/" + as, "-q"}).exit_code == 0;
        },
        kPatience));
    const auto took = steady_clock::now() - begun;
    std::printf("names went on after %.1f s\n", std::chrono::duration<double>(took).count());
    return std::chrono::duration_cast<seconds>(took);
  }

  PostgresServer* server_ = nullptr;
  std::string url_;
  std::vector<std::string> mounted_;
};

TEST_F(ClusterTakeover, another_goes_on_when_the_one_with_the_names_is_killed_and_back_again) {
  begin();
  import("second", "before");
  kill("first");
  EXPECT_LE(goes_on("second", "after"), kGoesOnWithin);
  EXPECT_TRUE(eventually([&] { return leads("spare"); }, kPatience));
  for (const char* what : {"before", "after"}) {
    verify("third", what);
    verify("spare", what);
  }
  good({"metadata", "check", url_});
  // Who is let in, and who is started again, finds the one that has the roles now.
  first_ = "spare";
  join("fourth");
  verify("fourth", "before");
  kill("third");
  start_again("third");
  verify("third", "after");
  // The one before is one that waits, and gets its turn.
  start_again("first");
  EXPECT_TRUE(eventually([&] { return could_take_over("first"); }, kPatience));
  EXPECT_THAT(good({"status", place("first")}).out, HasSubstr("stands by"));
  refused({"import", source_, place("first") + ":/no", "-q"}, "");
  EXPECT_TRUE(eventually([&] {
    return !ask("status", "spare").value("names", Json::object()).value("standbys", Json()).empty();
  }));
  kill("spare");
  EXPECT_LE(goes_on("second", "again"), kGoesOnWithin);
  verify("third", "before");
  verify("first", "again");
  good({"metadata", "check", url_});
}

}  // namespace
}  // namespace penstock::test
