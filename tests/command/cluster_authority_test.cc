// A cluster's authority is followed by another while nodes serve, as a person sees it; and what
// there is to do when its key is lost (docs/cluster.md).
#include "cluster_processes.h"

namespace penstock::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Members look for news about every twelfth of what is left of their certificates. This one
// outlives a story.
constexpr const char* kLong = "200s";

// A process that does nothing while this lives.
class StoodStill {
 public:
  explicit StoodStill(pid_t pid) : pid_(pid) {
    EXPECT_TRUE(pid_ > 0 && ::kill(pid_, SIGSTOP) == 0);
  }
  ~StoodStill() {
    if (pid_ > 0) ::kill(pid_, SIGCONT);
  }
  StoodStill(const StoodStill&) = delete;
  StoodStill& operator=(const StoodStill&) = delete;

 private:
  const pid_t pid_;
};

class ClusterAuthority : public ClusterProcesses {
 protected:
  void begin(const std::string& lasts, bool has_third = true) {
    lasts_ = lasts;
    up("first", {"--listen", free_address(), "--certificate-time", lasts});
    join("second");
    if (has_third) join("third");
    make_source();
    good({"set", place("first") + ":/", "--copies", has_third ? "3" : "2"});
  }
  void start_first_again() const {
    good({"up", place("first"), "-b", "--cache", "0", "--certificate-time", lasts_});
  }
  std::string token_for(int node) const {
    const Output made =
        good({"token", "create", place("first"), "--json", "--node", std::to_string(node)});
    return Json::parse(made.out).value("invitation", "");
  }

  Json identity() const {
    const Output output = penstock({"identity", "status", place("first"), "--json"});
    const Json answer = Json::parse(output.out, nullptr, false);
    return answer.is_object() ? answer : Json::object();
  }
  std::string stage() const { return identity().value("stage", ""); }
  Json waiting() const { return identity().value("waiting", Json()); }
  std::string fingerprint() const {
    return identity().value("authority", Json::object()).value("fingerprint", "");
  }
  void renew() const {
    const Output begun = good({"identity", "renew", place("first"), "--json"});
    EXPECT_EQ(Json::parse(begun.out).value("stage", ""), "trusted") << begun.out;
  }
  static bool in_time(const std::function<bool()>& holds) {
    return eventually(holds, kPatience, std::chrono::milliseconds(200));
  }
  void await_waiting_for(std::vector<int> nodes) const {
    EXPECT_TRUE(in_time([&] { return waiting() == Json(nodes); })) << identity().dump();
  }
  void await_end() const {
    EXPECT_TRUE(in_time([&] { return stage() == "one"; })) << identity().dump();
  }
  // A person who leaves a node behind that was stopped: it is known to be down in a moment.
  void leave_behind() const {
    EXPECT_TRUE(in_time([&] {
      return penstock({"identity", "renew", place("first"), "--force"}).exit_code == 0;
    }));
  }
  bool are_all_there(size_t nodes) const {
    const Json cluster = ask("cluster", "first");
    return cluster.value("nodes", size_t{0}) == nodes && cluster.value("missing", size_t{9}) == 0;
  }
  // What a node keeps: its key, its certificate, and the authorities that it believes.
  static std::vector<std::string> parts_of(const std::string& text) {
    std::vector<std::string> parts;
    const std::string begin = "-----BEGIN ";
    for (size_t at = text.find(begin); at != std::string::npos;) {
      const size_t end = text.find(begin, at + begin.size());
      parts.push_back(text.substr(at, end - at));
      at = end;
    }
    return parts;
  }
  std::string file_of(const std::string& name, const char* file) const {
    return place(name) + "/identity/" + file;
  }
  std::vector<std::string> kept_by(const std::string& name) const {
    return parts_of(read_file(file_of(name, "node.pem")));
  }
  // Nobody else than the authority of now; within a look of the end.
  void await_only_the_authority(const std::vector<std::string>& names) const {
    const std::string root = parts_of(read_file(file_of("first", "ca.pem"))).at(0);
    for (const std::string& name : names) {
      EXPECT_TRUE(in_time([&] {
        const std::vector<std::string> kept = kept_by(name);
        return kept.size() == 3 && kept[2] == root;
      })) << name;
    }
    EXPECT_FALSE(fs::exists(file_of("first", "ca.next")));
  }

  std::string lasts_;
};

TEST_F(ClusterAuthority, is_followed_by_another_while_a_client_writes_and_a_node_is_killed) {
  begin("120s");
  const std::string made_before = token();
  const std::string before = fingerprint();
  const std::string key_before = read_file(file_of("first", "ca.key"));
  EXPECT_THAT(made_before, HasSubstr(before));
  EXPECT_EQ(stage(), "one");
  refused({"identity", "renew", place("second")}, "on the node with the controller");
  refused({"identity", "renew", place("first"), "--force"}, "no authority follows");
  work_while("first", "round", [&] {
    kill("third");
    renew();
    refused({"identity", "renew", place("first")}, "follows already");
    await_waiting_for({3});
    EXPECT_EQ(stage(), "trusted");
    EXPECT_EQ(kept_by("second").size(), 4U) << "it believes both";
    EXPECT_EQ(fingerprint(), before);
    // Who joins in the middle comes along.
    join("fourth");
    EXPECT_EQ(stage(), "trusted") << "one has not heard of it";
    start_again("third");
    await_end();
  });
  EXPECT_NE(fingerprint(), before);
  EXPECT_NE(read_file(file_of("first", "ca.key")), key_before) << "the old key is gone";
  await_only_the_authority({"first", "second", "third", "fourth"});
  EXPECT_TRUE(in_time([&] { return are_all_there(4); }));
  refused({"join", made_before, place("late"), "-b"}, "does not know the token");
  join("late");
  // All of them prove themselves by what they have now, to everybody.
  for (const char* name : {"second", "third", "fourth"}) {
    down(name);
    start_again(name);
  }
  await_whole("first");
  import("first", "after");
  verify("first", "after");
  verify("first", "round0");
}

TEST_F(ClusterAuthority, is_known_to_a_node_that_was_off_for_all_of_it) {
  begin(kLong);
  import("first", "before");
  fs::copy_file(file_of("second", "node.pem"), scratch_ / "node.pem");
  down("third");
  renew();
  await_waiting_for({3});
  // The node with the controller dies in the middle, and goes on where it was.
  kill("first");
  start_first_again();
  EXPECT_EQ(stage(), "trusted");
  await_waiting_for({3});
  leave_behind();
  await_end();
  await_only_the_authority({"first", "second"});
  import("first", "without");
  const std::string key = kept_by("third").at(0);
  EXPECT_EQ(kept_by("third").size(), 3U);
  start_again("third");
  await_only_the_authority({"third"});
  EXPECT_EQ(kept_by("third").at(0), key) << "it came by its key";
  // So does one whose file is an old one.
  down("second");
  fs::copy_file(scratch_ / "node.pem", file_of("second", "node.pem"),
                fs::copy_options::overwrite_existing);
  start_again("second");
  await_only_the_authority({"second"});
  EXPECT_TRUE(in_time([&] { return are_all_there(3); }));
  await_whole("first");
  verify("first", "before");
  verify("first", "without");
  // And one that was removed does not.
  down("third");
  good({"remove", place("first"), "3", "--force"});
  renew();
  await_end();
  refused({"up", place("third"), "-b"}, "was removed");
}

TEST_F(ClusterAuthority, waits_for_a_node_that_stands_still_and_is_heard_of_by_it) {
  begin(kLong);
  import("first", "before");
  const std::string made_before = token();
  down("second");
  renew();
  await_waiting_for({2});
  {
    // It believes both, and gets no certificate: the next one signs, and the old one stays.
    const StoodStill third(ask("status", "third").value("pid", 0));
    start_again("second");
    EXPECT_TRUE(in_time([&] { return stage() == "signs"; })) << identity().dump();
    await_waiting_for({3});
    good({"join", made_before, place("fourth"), "-b"});
    started_.push_back("fourth");
    kill("first");
    start_first_again();
    EXPECT_EQ(stage(), "signs");
    await_waiting_for({3});
  }
  await_end();
  await_only_the_authority({"first", "second", "third", "fourth"});
  {
    // And now for all of it.
    const StoodStill third(ask("status", "third").value("pid", 0));
    renew();
    await_waiting_for({3});
    leave_behind();
    await_end();
  }
  await_only_the_authority({"third"});
  EXPECT_TRUE(in_time([&] { return are_all_there(4); }));
  await_whole("first");
  verify("first", "before");
}

TEST_F(ClusterAuthority, goes_back_to_the_one_before_when_the_next_one_is_lost) {
  begin(kLong);
  import("first", "before");
  const std::string root = parts_of(read_file(file_of("first", "ca.pem"))).at(0);
  down("second");
  renew();
  await_waiting_for({2});
  {
    const StoodStill third(ask("status", "third").value("pid", 0));
    start_again("second");
    EXPECT_TRUE(in_time([&] { return stage() == "signs"; })) << identity().dump();
    await_waiting_for({3});
    kill("first");
    write_file(file_of("first", "ca.next"), "nonsense");
    refused({"up", place("first"), "-b", "--cache", "0"}, "ca.next: is damaged");
    fs::remove(file_of("first", "ca.next"));
    start_first_again();
  }
  // Also the second, which has a certificate by one that nobody has any more.
  EXPECT_EQ(parts_of(read_file(file_of("first", "ca.pem"))).at(0), root);
  await_only_the_authority({"first", "second", "third"});
  EXPECT_TRUE(in_time([&] { return are_all_there(3); }));
  await_whole("first");
  verify("first", "before");
  renew();
  await_end();
}

TEST_F(ClusterAuthority, is_followed_although_its_key_is_lost) {
  begin(kLong);
  import("first", "before");
  down("third");
  down("first");
  fs::remove(file_of("first", "ca.key"));
  start_first_again();
  EXPECT_THAT(good({"identity", "status", place("first")}).out, HasSubstr("LOST"));
  refused({"token", "create", place("first")}, "penstock identity renew");
  work_while("first", "round", [&] {
    renew();
    await_waiting_for({3});
    leave_behind();
    await_end();
  });
  EXPECT_EQ(identity().value("lost", "?"), "");
  await_only_the_authority({"first", "second"});
  // Nothing leads there from the one that the third node knows: it says what to do.
  refused({"up", place("third"), "-b"}, "penstock token create --node 3");
  good({"join", token_for(3), place("third"), "-b"});
  await_only_the_authority({"third"});
  EXPECT_TRUE(in_time([&] { return are_all_there(3); }));
  await_whole("first");
  verify("first", "before");
  verify("first", "round0");
}

TEST_F(ClusterAuthority, begins_again_where_nobody_has_a_certificate_that_holds) {
  begin("6s", false);
  import("first", "before");
  refused({"identity", "begin", place("first"), "--again"}, "its node runs");
  down("second");
  down("first");
  refused({"identity", "begin", place("first"), "--again"}, "has the key of its authority");
  fs::remove(file_of("first", "ca.key"));
  const time_t now = ::time(nullptr);
  EXPECT_TRUE(in_time([&] { return ::time(nullptr) > now + 7; }));
  start_first_again();
  refused({"identity", "renew", place("first")}, "no other one believes");
  down("first");
  refused({"identity", "begin", place("first")}, "the key of its authority is lost");
  good({"identity", "begin", place("first"), "--again"});
  start_first_again();
  refused({"up", place("second"), "-b"}, "penstock token create --node 2");
  good({"join", token_for(2), place("second"), "-b"});
  EXPECT_TRUE(in_time([&] { return are_all_there(2); }));
  await_whole("first");
  verify("first", "before");
}

TEST_F(ClusterAuthority, is_none_where_nobody_proves_anything) {
  up("first", {"--listen", free_address(), "--insecure"});
  refused({"identity", "renew", place("first")}, "--insecure");
  refused({"identity", "status", place("first")}, "--insecure");
  down("first");
  refused({"identity", "begin", place("first"), "--again"}, "leave out --again");
}

}  // namespace
}  // namespace penstock::test
