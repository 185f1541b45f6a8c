// Ranks that something else started: they meet by a unique id, or by what another launcher says.

#include "launched.h"
#include "unique_id.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cstdlib>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>

namespace penstock::job::test {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

// Rank 0 makes the id; ranks are of some nodes in turns.
class JoinById : public testing::Test {
 protected:
  JoinById() {
    std::string made = testing::TempDir() + "job-XXXXXX";
    directory_ = ::mkdtemp(made.data());
  }
  ~JoinById() override { std::filesystem::remove_all(directory_); }

  LaunchOptions job(uint32_t size, uint32_t nodes, std::vector<std::string> words) {
    words.insert(words.begin(), "0:gate");
    words.emplace_back("close-gate");
    LaunchOptions options = ranks(size, std::move(words));
    options.environment = {{"TEST_ID", directory_ + "/id" + std::to_string(jobs_++)},
                           {"TEST_NODES", std::to_string(nodes)}};
    options.keep_going = true;
    return options;
  }

  std::string directory_;
  int jobs_ = 0;
};

TEST_F(JoinById, ranks_of_one_node_and_of_several_meet) {
  for (const uint32_t nodes : {1, 2, 3}) {
    const Launched done = launched(job(7, nodes, {"join-id", "all", "all", "leave"}));
    EXPECT_EQ(done.exit_code, 0) << nodes << ": " << done.err;
  }
}

TEST_F(JoinById, sets_overlap_over_nodes) {
  for (const uint32_t nodes : {2, 4}) {
    const Launched done = launched(job(6, nodes, {"join-id", "sets", "meet-node", "leave"}));
    EXPECT_EQ(done.exit_code, 0) << nodes << ": " << done.err;
    EXPECT_THAT(done.lines(), AllOf(SizeIs(6), Each("ok")));
  }
}

TEST_F(JoinById, all_hear_of_a_rank_that_is_killed) {
  for (const uint32_t nodes : {1, 2}) {
    // It comes last, so that it has no room.
    const Launched done = launched(job(
        5, nodes,
        {"4:after-others", "join-id", "all", "4:killed", "meet", "trouble", "meet-node", "leave"}));
    EXPECT_EQ(done.exit_code, 128 + 9) << done.err;
    const auto lines = done.lines();
    const std::string told = "rank 4 lost its connection to the job";
    EXPECT_EQ(std::count(lines.begin(), lines.end(), "peer gone: " + told), nodes == 1 ? 8 : 6)
        << done.out;
    EXPECT_EQ(std::count(lines.begin(), lines.end(), told), 4) << done.out;
    EXPECT_EQ(std::count(lines.begin(), lines.end(), "ok"), nodes == 1 ? 0 : 2) << done.out;
  }
}

TEST_F(JoinById, without_the_one_that_made_the_id_nodes_are_apart) {
  const Launched done = launched(job(6, 3,
                                     {"join-id", "all", "mark", "0:await-marks", "0:killed",
                                      "trouble", "meet", "meet-node", "leave"}));
  EXPECT_EQ(done.exit_code, 128 + 9);
  const auto lines = done.lines();
  // Ranks 1, 2, 4 and 5 still have their neighbours. Rank 3 had its room in rank 0, or rank 0 in
  // it.
  EXPECT_GE(std::count(lines.begin(), lines.end(), "ok"), 4) << done.out;
  EXPECT_THAT(lines,
              Contains(HasSubstr("is cut off: the process that made the unique id has ended")));
  EXPECT_THAT(lines, Contains(StartsWith("peer gone: ")));
}

TEST_F(JoinById, who_gives_up_tells_other_nodes) {
  const Launched done = launched(job(
      4, 2, {"join-id", "all", "3:nap", "3:nap", "0:meet-briefly", "!0:meet", "meet", "leave"}));
  EXPECT_EQ(done.exit_code, 0) << done.err;
  const auto lines = done.lines();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "ok"), 4) << done.out;
  EXPECT_THAT(lines, Contains(StartsWith("timed out: meeting 'meet': in time had not come: rank")));
  EXPECT_THAT(lines,
              Contains(StartsWith("cancelled: meeting 'meet': rank 0 waited no longer")).Times(3));
}

TEST_F(JoinById, an_abort_is_told) {
  const Launched done = launched(job(4, 2, {"join-id", "all", "3:abort", "!3:trouble", "leave"}));
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.lines(),
              AllOf(SizeIs(3), Each("rank 3 ended the job with exit code 42: it was asked to")));
}

TEST_F(JoinById, without_all_it_ends_at_the_deadline_and_says_who_is_missing) {
  for (const uint32_t nodes : {1, 2}) {
    const Launched done = launched(job(4, nodes, {"3:exit", "join-in-vain"}));
    EXPECT_EQ(done.exit_code, 0) << done.err;
    // The first that gives up takes its node's room with it.
    EXPECT_THAT(done.lines(),
                Contains(testing::ContainsRegex("timed out: ranks? .*3 ha(s|ve) not joined")))
        << done.out;
    EXPECT_THAT(done.lines(), AllOf(SizeIs(3), Each(testing::AnyOf(StartsWith("timed out: "),
                                                                   StartsWith("closed: "),
                                                                   StartsWith("peer gone: ")))))
        << done.out;
  }
}

TEST(Missing, ranks_are_named_but_not_all_of_many) {
  const std::vector<uint32_t> some{1, 5};
  EXPECT_EQ(have_not_come({7}), "rank 7 has");
  EXPECT_EQ(have_not_come(some), "ranks 1, 5 have");
  EXPECT_EQ(have_not_come(std::vector<uint32_t>(30, 2)),
            "ranks 2, 2, 2, 2, 2, 2, 2, 2 and 22 more have");
}

TEST_F(JoinById, two_of_one_rank_are_refused) {
  for (const uint32_t nodes : {1, 2}) {
    const Launched done = launched(job(4, nodes, {"3:pose-as-1", "join-in-vain"}));
    EXPECT_EQ(done.exit_code, 0) << done.err;
    EXPECT_THAT(done.lines(), Contains("invalid argument: there are two of rank 1")) << done.out;
  }
}

TEST(UniqueId, is_checked) {
  auto gate = Gate::open();
  ASSERT_TRUE(gate) << gate.error().message;
  UniqueId id = (*gate)->id();
  ASSERT_TRUE(decode(id).has_value());
  for (size_t at = 0; at < id.bytes.size(); ++at) {
    UniqueId wrong = id;
    wrong.bytes[at] ^= std::byte{4};
    EXPECT_FALSE(decode(wrong).has_value()) << at;
  }
  const Time deadline = std::chrono::steady_clock::now();
  EXPECT_EQ(Member::by_unique_id(UniqueId{}, 0, 1, deadline).error().status.code(),
            Code::invalid_argument);
  EXPECT_EQ(Member::by_unique_id(id, 3, 3, deadline).error().status.code(), Code::invalid_argument);
  EXPECT_EQ(Gate::open("no-such-interface").error().status.code(), Code::not_found);
}

// Whoever finds the port.
TEST(Gate, takes_no_strangers) {
  auto gate = Gate::open("lo");
  ASSERT_TRUE(gate) << gate.error().message;
  const Invitation invitation = *decode((*gate)->id());
  const std::vector<std::string> words = {"GET / HTTP/1.1\r\n\r\n", std::string(1000, '\0'),
                                          std::string(1000, '\xff'), "x"};
  std::vector<UniqueFd> strangers;
  for (int turn = 0; turn < 50; ++turn) {
    auto socket = connect_to(invitation.addresses, invitation.port, kNever, "the gate");
    ASSERT_TRUE(socket);
    const std::string& text = words[static_cast<size_t>(turn) % words.size()];
    (void)!::send(socket->get(), text.data(), text.size(), MSG_NOSIGNAL);
    strangers.push_back(std::move(*socket));
  }
  // One with another secret.
  Invitation other = invitation;
  other.secret[0] ^= std::byte{1};
  const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto refused = Member::by_unique_id(encode(other), 0, 1, soon);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("has ended, or is not reached"));
  const auto alone = Member::by_unique_id((*gate)->id(), 0, 1, soon);
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_EQ((*alone)->place().size, 1U);
  (*alone)->leave();
}

// What it has by its own launcher is taken away first.
LaunchOptions by_other_launcher(uint32_t size, const std::string& variables,
                                const std::string& words) {
  LaunchOptions options;
  options.size = size;
  options.command = {"bash", "-c", "exec env -u PENSTOCK_JOB_FD " + variables + " \"$0\" " + words,
                     JOB_RANK};
  return options;
}

TEST(OtherLaunchers, are_understood) {
  const std::string job = std::to_string(::getpid());
  const std::vector<std::string> all = {
      "OMPI_COMM_WORLD_RANK=$PENSTOCK_RANK OMPI_COMM_WORLD_SIZE=$PENSTOCK_SIZE "
      "OMPI_COMM_WORLD_LOCAL_SIZE=$PENSTOCK_SIZE PMIX_NAMESPACE=ns" +
          job,
      "PMI_RANK=$PENSTOCK_RANK PMI_SIZE=$PENSTOCK_SIZE",
      "SLURM_PROCID=$PENSTOCK_RANK SLURM_NTASKS=$PENSTOCK_SIZE SLURM_JOB_ID=" + job +
          " SLURM_STEP_ID=0 SLURM_NNODES=1"};
  for (const std::string& variables : all) {
    const Launched done = launched(by_other_launcher(4, variables, "join all sets leave"));
    EXPECT_EQ(done.exit_code, 0) << variables << ": " << done.err;
  }
}

TEST(OtherLaunchers, with_several_nodes_are_told_what_to_do) {
  for (const char* variables :
       {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2",
        "SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_NNODES=2"}) {
    const Launched done = launched(by_other_launcher(1, variables, "join"));
    EXPECT_EQ(done.exit_code, 1);
    EXPECT_THAT(done.err, HasSubstr("is on several nodes: its ranks can join by a unique id"));
  }
}

TEST(OtherLaunchers, that_make_no_sense_or_are_none) {
  const auto told = [](const std::string& variables) {
    return launched(by_other_launcher(1, variables, "join")).err;
  };
  EXPECT_THAT(told("PMI_RANK=4 PMI_SIZE=4"),
              HasSubstr("PMI_RANK=4 and PMI_SIZE=4 are no place in a job"));
  EXPECT_THAT(told("PMI_RANK=x PMI_SIZE=4"), HasSubstr("are no place in a job"));
  // Of a batch script of Slurm.
  EXPECT_THAT(told("SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_ID=1"),
              HasSubstr("no launcher started this process"));
}

TEST(OtherLaunchers, ranks_hear_of_an_end) {
  const std::string variables = "PMI_RANK=$PENSTOCK_RANK PMI_SIZE=$PENSTOCK_SIZE";
  LaunchOptions options = by_other_launcher(3, variables, "join all 2:killed meet trouble leave");
  options.keep_going = true;
  const Launched done = launched(options);
  EXPECT_EQ(done.exit_code, 137);
  EXPECT_THAT(done.lines(),
              AllOf(SizeIs(4), Each(HasSubstr("rank 2 lost its connection to the job"))));
}

}  // namespace
}  // namespace penstock::job::test
