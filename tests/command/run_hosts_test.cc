// penstock run on several hosts, as users call it: by a script in the place of ssh, and by ssh.

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/testing.h"
#include "penstock/testing_node.h"

namespace penstock::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

Output run_command(std::vector<std::string> words) {
  words.insert(words.begin(), "run");
  return penstock(words);
}

// PENSTOCK_RSH is a script that runs the command here, whatever the host.
class RunOnHosts : public testing::Test {
 protected:
  RunOnHosts() {
    write_file(shell_, "#!/bin/bash\nshift\nexec bash --norc -c \"$*\"\n");
    fs::permissions(shell_, fs::perms::owner_all);
    ::setenv("PENSTOCK_RSH", shell_.c_str(), 1);
  }
  ~RunOnHosts() override { ::unsetenv("PENSTOCK_RSH"); }

  const ScratchDirectory scratch_;
  const std::string shell_ = scratch_ / "shell";
};

TEST_F(RunOnHosts, starts_ranks_that_meet) {
  const Output output =
      run_command({"-n", "4", "--hosts", "a,b", JOB_RANK, "join", "all", "leave"});
  EXPECT_EQ(output.exit_code, 0) << output.err;
  EXPECT_EQ(output.err, "");
}

TEST_F(RunOnHosts, takes_options_as_of_other_launchers) {
  const std::string file = scratch_ / "hosts";
  write_file(file, "a slots=2 # two\nb:1\n");
  const std::vector<std::vector<std::string>> all = {{"--hosts", "a:2,b:1"},
                                                     {"-hosts", "a,b", "-n", "3"},
                                                     {"-host", "a,a,b"},
                                                     {"-H", "a:2", "-H", "b"},
                                                     {"--hostfile", file},
                                                     {"-hostfile", file},
                                                     {"-machinefile", file},
                                                     {"-f", file},
                                                     {"-hosts=a,b", "-np", "3"},
                                                     {"--host", "a,b", "-np", "3", "-ppn", "2"},
                                                     {"-hosts", "a,b", "-perhost", "2", "-n3"}};
  for (std::vector<std::string> words : all) {
    const std::string what = testing::PrintToString(words);
    for (const char* word : {"--label", "bash", "-c", "echo $PENSTOCK_LOCAL_RANK"}) {
      words.emplace_back(word);
    }
    const Output output = run_command(words);
    EXPECT_THAT(output.out, AllOf(HasSubstr("[0] 0\n"), HasSubstr("[1] 1\n"), HasSubstr("[2] 0\n")))
        << what << output.err;
    EXPECT_EQ(output.out.size(), 18U) << what;
  }
}

TEST_F(RunOnHosts, passes_variables_that_programs_are_told_by_and_those_of_x) {
  const std::string script = scratch_ / "bare";
  write_file(script, "#!/bin/bash\nshift\nexec env -i bash --norc -c \"$*\"\n");
  fs::permissions(script, fs::perms::owner_all);
  for (const char* name : {"NVSHMEM_A", "SHMEM_A", "NCCL_A", "TEST_A", "TEST_B"}) {
    ::setenv(name, "set here", 1);
  }
  const Output output =
      run_command({"-H", "a", "--rsh", "'" + script + "'", "-x", "TEST_A", "-x", "TEST_C=c", "bash",
                   "-c", "echo $NVSHMEM_A,$SHMEM_A,$NCCL_A,$TEST_A,$TEST_B,$TEST_C,${PATH:+path}"});
  for (const char* name : {"NVSHMEM_A", "SHMEM_A", "NCCL_A", "TEST_A", "TEST_B"}) ::unsetenv(name);
  EXPECT_EQ(output.out, "set here,set here,set here,set here,,c,path\n") << output.err;
}

TEST_F(RunOnHosts, ends_as_the_rank_that_failed_first) {
  const Output output =
      run_command({"-hosts", "a,b", "bash", "-c", "exit $((PENSTOCK_RANK * 17))"});
  EXPECT_EQ(output.exit_code, 17);
  EXPECT_EQ(output.err, "penstock run: rank 1 ended with exit code 17, on b\n");
}

TEST_F(RunOnHosts, says_what_it_cannot_do) {
  const auto code_and_words = [](const std::vector<std::string>& words) {
    const Output output = run_command(words);
    EXPECT_EQ(output.out, "");
    return std::to_string(output.exit_code) + " " + output.err;
  };
  EXPECT_THAT(code_and_words({"-n", "5", "-hosts", "a:2,b:2", "true"}),
              HasSubstr("2 penstock run: 5 processes, and the 2 hosts have slots for 4 of them"));
  EXPECT_THAT(code_and_words({"-hosts", "a:none", "true"}), HasSubstr("2 penstock run: 'a:none'"));
  EXPECT_THAT(code_and_words({"-hosts", "-oProxyCommand=x", "true"}), HasSubstr("begins with '-'"));
  EXPECT_THAT(code_and_words({"-hostfile", "/no/such/file", "true"}), HasSubstr("2 "));
  EXPECT_THAT(code_and_words({"-hosts", "a", "no-such-program"}),
              HasSubstr("127 penstock run: a: no-such-program: there is no such program"));
  EXPECT_THAT(code_and_words({"-hosts", "a", "/etc/passwd"}), HasSubstr("126 penstock run: a: "));
  EXPECT_THAT(code_and_words({"-hosts", "a", "--wdir", "/no/such", "true"}),
              HasSubstr("127 penstock run: a: /no/such: No such file or directory"));
  EXPECT_THAT(code_and_words({"-hosts", "a", "--remote-penstock", "/no/penstock", "true"}),
              HasSubstr("penstock run: a: there is no /no/penstock there"));
  EXPECT_THAT(code_and_words({"-hosts", "a", "--remote-penstock", "/bin/true", "true"}),
              HasSubstr("1 penstock run: a: shell ended with exit code 0, before anything was"));
  EXPECT_THAT(code_and_words({"-hosts", "a", "--rsh", "'unfinished", "true"}), HasSubstr("2 "));
  EXPECT_THAT(code_and_words({"-hosts", "a", "--address", "nosuch9", "true"}),
              HasSubstr("2 penstock run: --address nosuch9: "));
}

TEST_F(RunOnHosts, needs_nothing_between_on_this_machine) {
  ::setenv("PENSTOCK_RSH", "/no/such/shell", 1);
  EXPECT_EQ(run_command({"-hosts", "localhost,127.0.0.1", "echo", "a"}).out, "a\na\n");
}

TEST(RunNode, says_what_it_is_for) {
  const Output output = penstock({"run-node"});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.err, HasSubstr("'penstock run --hosts' starts this on other machines"));
  EXPECT_THAT(penstock({"help"}).out, testing::Not(HasSubstr("run-node")));
}

// A server of ssh on loopback, with keys and a configuration of its own.
class RunBySsh : public testing::Test {
 protected:
  void SetUp() override {
    const std::string server = "/usr/sbin/sshd";
    if (::access(server.c_str(), X_OK) != 0 || !shell("command -v ssh-keygen ssh >/dev/null")) {
      GTEST_SKIP() << "sshd is not installed (openssh-server)";
    }
    fs::permissions(scratch_.path(), fs::perms::owner_all);
    ASSERT_TRUE(shell("cd " + scratch_.path() +
                      " && ssh-keygen -q -t ed25519 -N '' -f host_key && ssh-keygen -q -t ed25519 "
                      "-N '' -f key && cp key.pub authorized"));
    const std::string address = free_address();
    const std::string port = address.substr(address.rfind(':') + 1);
    // In a home of its own, where a shell finds nothing of the user's to do first.
    write_file(scratch_ / "sshd_config",
               "Port " + port + "\nListenAddress 127.0.0.1\nHostKey " + (scratch_ / "host_key") +
                   "\nAuthorizedKeysFile " + (scratch_ / "authorized") +
                   "\nPidFile none\nStrictModes no\nUsePAM no\nSetEnv HOME=" + scratch_.path() +
                   "\n"
                   "PasswordAuthentication no\n");
    write_file(scratch_ / "ssh_config",
               "Host node*\n  HostName 127.0.0.1\n  Port " + port + "\n  IdentityFile " +
                   (scratch_ / "key") +
                   "\n  IdentitiesOnly yes\n  StrictHostKeyChecking no\n  LogLevel ERROR\n"
                   "  UserKnownHostsFile " +
                   (scratch_ / "known") + "\n");
    const std::string serve = server + " -D -e -f " + (scratch_ / "sshd_config");
    // As root it wants a directory, which only it is to see.
    const std::string alone =
        "mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd && exec " + serve;
    server_ = ::fork();
    if (server_ == 0) {
      if (!::freopen((scratch_ / "log").c_str(), "w", stderr)) ::_exit(127);
      if (::geteuid() == 0) {
        ::execlp("unshare", "unshare", "--mount", "sh", "-c", alone.c_str(), nullptr);
      } else {
        ::execlp("sh", "sh", "-c", ("exec " + serve).c_str(), nullptr);
      }
      ::_exit(127);
    }
    for (int turn = 0; turn < 500 && !shell(ssh() + " node true 2>/dev/null"); ++turn) {
      if (::waitpid(server_, nullptr, WNOHANG) == server_) {
        server_ = 0;
        GTEST_SKIP() << "sshd does not run here: " << read_file(scratch_ / "log");
      }
      ::usleep(20'000);
    }
  }
  void TearDown() override {
    if (server_ <= 0) return;
    ::kill(server_, SIGTERM);
    ::waitpid(server_, nullptr, 0);
  }

  static bool shell(const std::string& command) { return std::system(command.c_str()) == 0; }
  std::string ssh() const { return "ssh -F " + (scratch_ / "ssh_config"); }

  const ScratchDirectory scratch_;
  pid_t server_ = 0;
};

TEST_F(RunBySsh, ranks_meet_and_arguments_come_as_they_are) {
  EXPECT_EQ(run_command({"--rsh", ssh(), "-n", "4", "-hosts", "node1,node2", JOB_RANK, "join",
                         "all", "leave"})
                .err,
            "");
  const Output output =
      run_command({"--rsh", ssh(), "-hosts", "node1", "-wdir", "/usr", "-x", "A=it's \"$B\"",
                   "bash", "-c", "echo \"$A|$1|$PWD\"", "_", "a 'b' \"c\"\nd $e \\"});
  EXPECT_EQ(output.out, "it's \"$B\"|a 'b' \"c\"\nd $e \\|/usr\n") << output.err;
  EXPECT_EQ(
      run_command({"--rsh", ssh(), "-hosts", "node1,node2", "bash", "-c", "exit $PENSTOCK_RANK"})
          .exit_code,
      1);
}

TEST_F(RunBySsh, a_host_that_refuses_is_named_with_what_ssh_said) {
  write_file(scratch_ / "authorized", "");
  const Output output = run_command({"--rsh", ssh(), "-hosts", "node1", "true"});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.err, AllOf(HasSubstr("node1: "), HasSubstr("Permission denied"),
                                HasSubstr("penstock run: node1: ssh ended with exit code 255")));
}

}  // namespace
}  // namespace penstock::test
