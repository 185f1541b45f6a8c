// Who nodes are, as a person sees it: tokens, certificates, and what happens without them.
#include "cluster_processes.h"

#include <sys/stat.h>

namespace penstock::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ClusterIdentity : public ClusterProcesses {
 protected:
  std::string invitation_by(std::vector<std::string> options) const {
    options.insert(options.begin(), {"token", "create", place(first_), "--json"});
    const Json made = Json::parse(good(options).out, nullptr, false);
    return made.is_object() ? made.value("invitation", "") : "";
  }
  int64_t certificate_end(const std::string& name) const {
    const Json status = ask("status", name);
    return status.contains("cluster") ? status["cluster"].value("certificate_ends", int64_t{0}) : 0;
  }
  bool is_connected(const std::string& name) const {
    const Json status = ask("status", name);
    const Json peers = status.value("cluster", Json::object()).value("peers", Json::array());
    // To the controller, which is called all the time: others come back when they are.
    return std::any_of(peers.begin(), peers.end(), [](const Json& peer) {
      return peer.value("service", 0U) == UINT32_MAX && peer.value("connected", false);
    });
  }
  static mode_t mode_of(const std::string& path) {
    struct stat found {};
    EXPECT_EQ(::stat(path.c_str(), &found), 0) << path;
    return found.st_mode & 07777;
  }
};

TEST_F(ClusterIdentity, a_token_lets_in_whom_it_is_for_and_nobody_else) {
  up("first", {"--listen", free_address()});
  const std::string once = token();
  good({"join", once, place("second"), "-b"});
  started_.push_back("second");
  refused({"join", once, place("third"), "-b"}, "used already");
  refused({"join", token(), place("third"), "-b", "--roles", "meta,agent"}, "not for meta");
  std::string guessed = token();
  char& digit = guessed[guessed.find('.') + 1];
  digit = digit == '0' ? '1' : '0';
  refused({"join", guessed, place("third"), "-b"}, "does not know the token");
  std::string other_cluster = token();
  char& print = other_cluster[other_cluster.find('@') - 1];
  print = print == '0' ? '1' : '0';
  refused({"join", other_cluster, place("third"), "-b"}, "certificate");
  refused({"join", invitation_, place("third"), "-b"}, "has no certificate of its cluster");
  const std::string short_one = invitation_by({"--for", "1s"});
  EXPECT_TRUE(eventually([&] {
    const Json tokens = Json::parse(good({"token", "list", place("first"), "--json"}).out);
    return tokens["tokens"].back().value("ended", false);
  }));
  refused({"join", short_one, place("third"), "-b"}, "the token has ended at");
  const std::string revoked = token();
  const Json tokens = Json::parse(good({"token", "list", place("first"), "--json"}).out);
  good({"token", "revoke", place("first"),
        std::to_string(tokens["tokens"].back().value("token", 0))});
  refused({"join", revoked, place("third"), "-b"}, "does not know the token");
  refused({"token", "create", place("second")}, "on the node with the controller");
  refused({"token", "list", place("second")}, "on the node with the controller");
  // What was refused is no obstacle.
  good({"join", token(), place("third"), "-b"});
  started_.push_back("third");
  EXPECT_EQ(ask("cluster", "third").value("nodes", uint64_t{0}), 3U);
}

TEST_F(ClusterIdentity, certificates_are_renewed_while_nodes_run_and_after_they_were_off) {
  up("first", {"--listen", free_address(), "--certificate-time", "6s"});
  join("second");
  const int64_t first = certificate_end("first"), second = certificate_end("second");
  ASSERT_GT(first, 0);
  ASSERT_GT(second, 0);
  EXPECT_TRUE(eventually([&] {
    return certificate_end("first") > first + 6 && certificate_end("second") > second + 6;
  }));
  EXPECT_TRUE(eventually([&] { return is_connected("second"); }));
  // A process that stood still comes back after its end, as it runs,
  const pid_t pid = ask("status", "second").value("pid", 0);
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  const int64_t late = ::time(nullptr) + 8;
  EXPECT_TRUE(eventually([&] { return ::time(nullptr) > late; }));
  ASSERT_EQ(::kill(pid, SIGCONT), 0);
  EXPECT_TRUE(eventually([&] {
    return certificate_end("second") > late && is_connected("second") &&
           ask("cluster", "first").value("missing", 9U) == 0;
  }));
  // and so does one that was off.
  down("second");
  const int64_t ended = ::time(nullptr) + 8;
  EXPECT_TRUE(eventually([&] { return ::time(nullptr) > ended; }));
  start_again("second");
  EXPECT_GT(certificate_end("second"), ended);
  // And so does the cluster, of which nobody has a certificate that holds.
  down("second");
  down("first");
  const time_t now = ::time(nullptr);
  EXPECT_TRUE(eventually([&] { return ::time(nullptr) > now + 7; }));
  good({"up", place("first"), "-b", "--cache", "0", "--certificate-time", "6s"});
  start_again("second");
  EXPECT_TRUE(eventually([&] { return ask("cluster", "first").value("missing", 9U) == 0; }));
}

TEST_F(ClusterIdentity, a_node_that_is_removed_has_no_say_any_more) {
  up("first", {"--listen", free_address()});
  join("second");
  join("third");
  const pid_t pid = ask("status", "second").value("pid", 0);
  good({"remove", place("first"), "2", "--force"});
  EXPECT_TRUE(eventually([&] { return ::kill(pid, 0) != 0; })) << "it hears of it, and ends";
  refused({"up", place("second"), "-b"}, "was removed");
  // Nor does its key get it anything, by a token neither.
  refused({"join", token(), place("second"), "-b"}, "was removed");
}

TEST_F(ClusterIdentity, keys_are_their_owners_alone) {
  up("first", {"--listen", free_address()});
  join("second");
  for (const char* name : {"first", "second"}) {
    const std::string home = place(name) + "/identity";
    EXPECT_EQ(mode_of(home), 0700U);
    for (const auto& file : fs::directory_iterator(home)) {
      EXPECT_EQ(mode_of(file.path()), 0600U) << file.path();
    }
  }
  EXPECT_FALSE(fs::exists(place("second") + "/identity/ca.key"));
  down("second");
  const std::string key = place("second") + "/identity/node.pem";
  ASSERT_EQ(::chmod(key.c_str(), 0640), 0);
  refused({"up", place("second"), "-b"}, "others than the user");
  ASSERT_EQ(::chmod(key.c_str(), 0600), 0);
  fs::copy_file(key, place("kept"));
  write_file(key, "-----BEGIN nothing");
  refused({"up", place("second"), "-b"}, "is damaged");
  // A key that is lost comes again by a token for that node, and by no other.
  fs::remove(key);
  refused({"up", place("second"), "-b"}, "has no certificate of its cluster");
  refused({"join", token(), place("second"), "-b"}, "--node 2");
  good({"join", invitation_by({"--node", "2"}), place("second"), "-b"});
  EXPECT_EQ(ask("cluster", "first").value("nodes", uint64_t{0}), 2U);
  // The one that was lost is worth nothing then.
  down("second");
  fs::rename(key, place("new"));
  fs::copy_file(place("kept"), key);
  refused({"up", place("second"), "-b"}, "has another key now");
  fs::rename(place("new"), key);
  start_again("second");
}

TEST_F(ClusterIdentity, all_nodes_prove_who_they_are_or_none) {
  up("first", {"--listen", free_address(), "--insecure"});
  EXPECT_THAT(good({"status", place("first")}).out, HasSubstr("INSECURE"));
  EXPECT_THAT(good({"cluster", place("first")}).out, HasSubstr("INSECURE"));
  EXPECT_FALSE(fs::exists(place("first") + "/identity"));
  refused({"token", "create", place("first")}, "--insecure");
  refused({"join", invitation_, place("second"), "-b"}, "has no certificate of its cluster");
  good({"join", invitation_, place("second"), "-b", "--insecure"});
  started_.push_back("second");
  down("second");
  down("first");
  // It is turned on while all nodes are down.
  refused({"up", place("first"), "-b"}, "penstock identity begin");
  refused({"identity", "begin", place("second")}, "is not the first node");
  good({"identity", "begin", place("first")});
  refused({"identity", "begin", place("first")}, "has an authority already");
  good({"up", place("first"), "-b", "--cache", "0"});
  EXPECT_THAT(good({"status", place("first")}).out, HasSubstr("certificate good until"));
  refused({"up", place("second"), "-b", "--insecure"}, "it speaks TLS");
  refused({"join", token(), place("second"), "-b"}, "--node 2");
  refused({"join", token(), place("second"), "-b", "--insecure"}, "leave out --insecure");
  good({"join", invitation_by({"--node", "2"}), place("second"), "-b"});
  EXPECT_EQ(ask("cluster", "first").value("nodes", uint64_t{0}), 2U);
  down("second");
  refused({"up", place("second"), "-b", "--insecure"}, "start it without");
  start_again("second");
}

TEST_F(ClusterIdentity, orders_are_given_where_there_is_the_right_to) {
  up("first", {"--listen", free_address()});
  join("second");
  join("third", {"--roles", "storage,admin"});
  refused({"drain", place("second"), "3"}, "role admin");
  good({"drain", place("second"), "2"});
  good({"drain", place("third"), "2", "--undo"});
  good({"drain", place("first"), "3"});
  // A process gets no other roles than those it was let in with.
  down("second");
  refused({"up", place("second"), "-b", "--roles", "storage,admin"}, "was made to play storage");
}

}  // namespace
}  // namespace penstock::test
