// A node that is restricted and lies, over TLS, to the processes of a cluster: it has a certificate
// of its own, and says whatever it wants. Each is refused, counted and said in the log once; who
// works beside it goes on.
#include "cluster_mounted.h"
#include "exposition.h"
#include "http_get.h"
#include "played_node.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "penstock/tls.h"

namespace penstock::test {
namespace {

namespace fs = std::filesystem;
using holds::Hold;
using locks::Type;

meta::Credentials user(uint32_t uid) {
  return {uid, uid, {}, false, 0};  // as if it had been checked
}
template <class Answer>
Code code_of(const Result<Answer>& answer) {
  return answer ? Code::ok : answer.error().code();
}

class ClusterHostileNode : public MountedCluster {
 protected:
  ClusterHostileNode() : MountedCluster({"a"}) {}
  void SetUp() override {
    MountedCluster::SetUp();
    if (IsSkipped()) return;
    up("first", {"--listen", free_address(), "--mount", place("a"), "--metrics", "127.0.0.1:0"});
    join("second", {"--metrics", "127.0.0.1:0"});
    good({"set", place("first") + ":/", "--copies", "2"});
    for (const char* const name : {"data", "other"}) fs::create_directory(place("a") + "/" + name);
    fs::permissions(place("a") + "/data", fs::perms(0777));
    write("data/mine", 1000);
    write("data/theirs", 1001);
    write("other/secret", 0);
    secret_ = number_of("other/secret");
    other_ = number_of("other");
  }
  void write(const std::string& path, uid_t owner) const {
    const UniqueFd file(::open((place("a") + "/" + path).c_str(), O_WRONLY | O_CREAT, 0600));
    const std::string text(kBytes, 'x');
    ASSERT_EQ(::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ASSERT_EQ(::fsync(file.get()), 0);
    ASSERT_EQ(::fchown(file.get(), owner, owner), 0);
  }
  InodeId number_of(const std::string& path) const {
    struct stat found {};
    EXPECT_EQ(::stat((place("a") + "/" + path).c_str(), &found), 0) << path;
    return InodeId(found.st_ino);
  }
  std::unique_ptr<PlayedNode> play(const std::string& name, std::vector<std::string> restrictions) {
    std::vector<std::string> words = {"token",   "create", place("first"),
                                      "--roles", "agent",  "--json"};
    words.insert(words.end(), restrictions.begin(), restrictions.end());
    const Json made = Json::parse(good(words).out, nullptr, false);
    fs::create_directory(place(name));
    auto node = std::make_unique<PlayedNode>(place(name), made.value("invitation", ""),
                                             free_address(), NodeId{1});
    EXPECT_EQ(node->why_not(), "");
    return node;
  }
  double figure(const std::string& name) const {
    double sum = 0;
    for (const char* const node : {"first", "second"}) {
      const std::string address = ask("status", node).value("metrics", "");
      sum += parse_exposition(get(address, "/metrics")).sum(name);
    }
    return sum;
  }
  size_t said(const std::string& what) const {
    size_t count = 0;
    for (const char* const node : {"first", "second"}) {
      const std::string log = read_file(place(node) + "/agent.log");
      for (size_t at = log.find(what); at != std::string::npos; at = log.find(what, at + 1)) {
        ++count;
      }
    }
    return count;
  }
  // As often as it was tried it is counted, and said at most once a minute by each that hears it.
  void is_noted(const std::string& metric, double before, double least, const std::string& words,
                size_t hear) const {
    EXPECT_GE(figure(metric), before + least) << metric;
    EXPECT_GE(said(words), 1u) << words;
    EXPECT_LE(said(words), hear) << words;
  }

  static constexpr size_t kBytes = 8192;
  static constexpr int kTries = 20;
  InodeId secret_, other_;
};

TEST_F(ClusterHostileNode, names_nothing_beyond_its_subtree_and_its_users) {
  const double before = figure("penstock_meta_calls_denied_total");
  const auto liar = play("liar", {"--uids", "1000", "--subtree", "/data"});
  meta_net::RemoteMeta& meta = liar->meta();
  const auto mine = meta.lookup(user(1000), meta::kRootInode, "mine");
  const auto theirs = meta.lookup(user(1000), meta::kRootInode, "theirs");
  ASSERT_TRUE(mine && theirs);
  for (int i = 0; i < kTries; ++i) {
    EXPECT_EQ(code_of(meta.attributes(secret_)), Code::stale);
    EXPECT_EQ(code_of(meta.lookup(user(1000), other_, "secret")), Code::stale);
    EXPECT_EQ(meta.unlink(user(1000), other_, "secret", nullptr), Code::stale);
    EXPECT_EQ(meta.access(user(1000), secret_, meta::kAccessRead), Code::stale);
    EXPECT_EQ(code_of(meta.capability(secret_)), Code::stale);
    // Another's user, and root.
    for (const uint32_t uid : {1001u, 0u}) {
      EXPECT_EQ(meta.access(user(uid), theirs->inode, meta::kAccessRead), Code::access_denied);
    }
    EXPECT_EQ(meta.access(user(1000), theirs->inode, meta::kAccessRead), Code::access_denied);
    EXPECT_EQ(code_of(meta.capability(theirs->inode)), Code::access_denied);
    // Of the file system as a whole.
    EXPECT_EQ(meta.set_quota(meta::QuotaSubject::of_user(1000), {.bytes = 1}, ""),
              Code::access_denied);
    EXPECT_EQ(meta.set_trash(meta::kRootInode, 0, "/"), Code::access_denied);
    EXPECT_EQ(code_of(meta.orphans(9, {})), Code::access_denied);
  }
  EXPECT_EQ(code_of(meta.lookup(user(1000), meta::kRootInode, "..")), Code::ok);
  EXPECT_EQ(meta.lookup(user(1000), meta::kRootInode, "..")->inode, meta::kRootInode);
  is_noted("penstock_meta_calls_denied_total", before, kTries * 9,
           "meta: node 3 is restricted, and asks", 2);
  EXPECT_EQ(fs::file_size(place("a") + "/other/secret"), kBytes);
}

TEST_F(ClusterHostileNode, holds_and_locks_nothing_beyond_what_it_was_shown) {
  const double holds = figure("penstock_holds_denied_total");
  const double locks = figure("penstock_locks_denied_total");
  const auto liar = play("liar", {"--uids", "1000", "--subtree", "/data"});
  for (int i = 0; i < kTries; ++i) {
    EXPECT_EQ(liar->hold(secret_, Hold::shared), Code::stale);
    EXPECT_EQ(liar->hold(secret_, Hold::exclusive), Code::stale);
    EXPECT_EQ(liar->hold(other_, Hold::exclusive), Code::stale);
    EXPECT_EQ(liar->lock(secret_, Type::read), locks::Answer::refused);
    EXPECT_EQ(liar->lock(secret_, Type::write, locks::Kind::whole), locks::Answer::refused);
    EXPECT_EQ(liar->ask_lock(secret_), locks::Answer::refused);
  }
  // Nobody has waited for it.
  const UniqueFd file(::open((place("a") + "/other/secret").c_str(), O_RDWR));
  ASSERT_TRUE(file);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  EXPECT_EQ(::fcntl(file.get(), F_OFD_SETLK, &lock), 0);
  EXPECT_EQ(::pwrite(file.get(), "new", 3, 0), 3);
  // What is its own it has, once it is shown it, and locks what it has opened.
  const auto theirs = liar->meta().lookup(user(1000), meta::kRootInode, "theirs");
  const auto mine = liar->meta().lookup(user(1000), meta::kRootInode, "mine");
  ASSERT_TRUE(mine && theirs);
  EXPECT_EQ(liar->hold(mine->inode, Hold::exclusive), Code::ok);
  EXPECT_EQ(liar->lock(mine->inode, Type::write), locks::Answer::refused);
  EXPECT_EQ(liar->lock(theirs->inode, Type::read), locks::Answer::refused);
  ASSERT_TRUE(liar->meta().access(user(1000), mine->inode, meta::kAccessWrite).ok());
  EXPECT_EQ(liar->lock(mine->inode, Type::write), locks::Answer::done);
  is_noted("penstock_holds_denied_total", holds, kTries * 3, "holds: node 3 is restricted", 2);
  is_noted("penstock_locks_denied_total", locks, kTries * 3, "locks: node 3 is restricted", 2);
}

TEST_F(ClusterHostileNode, touches_no_chunk_by_what_was_not_signed_for_it) {
  const double before = figure("penstock_chain_capabilities_refused_total");
  const double denied = figure("penstock_meta_calls_denied_total");
  const auto liar = play("liar", {"--uids", "1000", "--subtree", "/data"});
  const auto free = play("free", {});
  const auto mine = liar->meta().lookup(user(1000), meta::kRootInode, "mine");
  const auto secret = free->meta().attributes(secret_);
  ASSERT_TRUE(mine && secret);
  ASSERT_TRUE(liar->meta().access(user(1000), mine->inode, meta::kAccessRead).ok());
  const auto own = liar->meta().capability(mine->inode);
  const auto of_all = free->meta().capability(secret_);
  ASSERT_TRUE(own && of_all);
  std::string bytes(kBytes, '-');
  // What it may it can.
  liar->show(*own);
  ASSERT_EQ(liar->read(mine->inode, mine->layout, bytes), Code::ok);
  EXPECT_EQ(bytes, std::string(kBytes, 'x'));
  bytes.assign(kBytes, '-');
  const auto is_refused = [&](const std::optional<wire::Capability>& shown, const char* what) {
    liar->show(shown);
    EXPECT_FALSE(liar->read(secret_, secret->layout, bytes).ok()) << what;
    EXPECT_FALSE(liar->write(secret_, secret->layout, std::string(kBytes, 'y')).ok()) << what;
    EXPECT_EQ(bytes, std::string(kBytes, '-')) << what;
    // Nor do the names believe it, which would take it for an open file.
    EXPECT_EQ(liar->meta().show(secret_), Code::stale) << what;
  };
  is_refused({}, "nothing");
  is_refused(*own, "one of another file");
  wire::Capability forged = *own;
  forged.inode_first = forged.inode_last = secret_.value;
  forged.rights = wire::kCapabilityRights;
  is_refused(forged, "one whose file was exchanged");
  const auto key = tls::SigningKey::make();
  ASSERT_TRUE(key.has_value());
  forged.signature = *(*key)->sign(forged.signed_bytes());
  is_refused(forged, "one by its own key");
  forged.inode_first = 1;
  forged.inode_last = UINT64_MAX;
  forged.signature = *(*key)->sign(forged.signed_bytes());
  is_refused(forged, "one for all by its own key");
  is_refused(*of_all, "one of another node");
  const uint64_t session = liar->session();
  liar->begin_again();
  ASSERT_GT(liar->session(), session);
  // The session before is fenced a moment after the next has begun.
  liar->show(*own);
  EXPECT_TRUE(eventually([&] {
    liar->say_session(session);
    return !liar->read(mine->inode, mine->layout, bytes).ok();
  })) << "after its end, in its own name";
  liar->say_session(liar->session());
  EXPECT_FALSE(liar->read(mine->inode, mine->layout, bytes).ok()) << "after its end";
  EXPECT_EQ(liar->meta().show(mine->inode), Code::stale);
  forged.session = wire::AgentSession{liar->self(), liar->session()}.word();
  forged.signature = *(*key)->sign(forged.signed_bytes());
  for (int i = 0; i < kTries; ++i) {
    EXPECT_EQ(liar->show_to_head(secret->layout, forged), Code::access_denied);
    EXPECT_EQ(liar->show_to_head(secret->layout, *of_all), Code::access_denied);
    EXPECT_EQ(liar->show_to_head(mine->layout, *own), Code::stale);
  }
  for (const char* const why :
       {"its signature is wrong", "it is of another node", "its session is over"}) {
    is_noted("penstock_chain_capabilities_refused_total", before, 3 * kTries,
             std::string("a capability that node 3 shows is refused: ") + why, 2);
  }
  is_noted("penstock_meta_calls_denied_total", denied, 4,
           "meta: node 3 shows a right to a file that was not signed for it, or is over", 1);
  // Nothing has come through.
  std::string found = read_file(place("a") + "/other/secret");
  EXPECT_EQ(found, std::string(kBytes, 'x'));
}

// Beside it a mount goes on, whatever it asks for as fast as it can: nothing is recalled for it,
// and nobody's session ends.
TEST_F(ClusterHostileNode, holds_up_nobody_beside_it) {
  const auto liar = play("liar", {"--subtree", "/data", "--read-only"});
  const auto work = [&] {
    for (int i = 0; i < 100; ++i) {
      const std::string path = place("a") + "/other/at work " + std::to_string(i % 8);
      write_file(path, std::string(1000, 'w'));
      EXPECT_EQ(read_file(path), std::string(1000, 'w'));
      const UniqueFd secret(::open((place("a") + "/other/secret").c_str(), O_WRONLY));
      EXPECT_EQ(::pwrite(secret.get(), "again", 5, 0), 5);
    }
  };
  const double alone = seconds_of(work);
  const double recalled = figure("penstock_holds_recalled_total");
  const double ended = figure("penstock_node_sessions_ended_total");
  std::atomic<bool> goes_on{true};
  std::atomic<uint64_t> lies{0};
  std::thread lying([&] {
    for (; goes_on.load(); lies += 4) {
      EXPECT_EQ(liar->hold(secret_, Hold::shared), Code::stale);
      EXPECT_EQ(liar->hold(secret_, Hold::exclusive), Code::read_only);
      EXPECT_EQ(liar->lock(secret_, Type::read, locks::Kind::whole), locks::Answer::refused);
      EXPECT_EQ(code_of(liar->meta().attributes(secret_)), Code::stale);
    }
  });
  const double beside = seconds_of(work);
  EXPECT_TRUE(eventually([&] { return lies.load() > 0; }));
  goes_on.store(false);
  lying.join();
  // For people: a busy machine says little.
  std::printf("alone %.3f s, beside it %.3f s; %llu lies\n", alone, beside,
              static_cast<unsigned long long>(lies.load()));
  EXPECT_EQ(figure("penstock_holds_recalled_total"), recalled);
  EXPECT_EQ(figure("penstock_node_sessions_ended_total"), ended);
}

}  // namespace
}  // namespace penstock::test
