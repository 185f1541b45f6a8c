// Nodes that are restricted: what they are shown, and what they may change.
#include "../limited.h"

#include "played_calls.h"

namespace penstock::meta_net {
namespace {

using meta::kAccessExecute;
using meta::kAccessRead;
using meta::kAccessWrite;
using meta::kRootInode;

meta::Credentials user(uint32_t uid, bool enforce = false) {
  return {uid, uid, {}, enforce, 0};
}

class LimitedTest : public ServiceTest {
 protected:
  LimitedTest() {
    end();
    data_ = make_directory(kRootInode, "data");
    other_ = make_directory(kRootInode, "other");
    below_ = make_directory(data_, "below");
    secret_ = make_file(other_, "secret", 0, 0600);
    mine_ = make_file(below_, "mine", 1000, 0600);
    theirs_ = make_file(below_, "theirs", 1001, 0600);
    serve();
  }
  // Another life of the service; what it signs is of a secret of the test's.
  void serve() {
    MetaServiceConfig config;
    config.rights = rights_.get();
    config.judged = [this] { return since_; };
    config.sign = [](wire::Capability& one) {
      one.key = 1;
      one.signature[0] = 77;
      return Status();
    };
    config.is_signed = [](const wire::Capability& one) { return one.signature[0] == 77; };
    begin(config);
  }

  InodeId make_directory(InodeId parent, const std::string& name) {
    return meta_->make_directory({}, parent, name, 0777)->inode;
  }
  InodeId make_file(InodeId parent, const std::string& name, uint32_t uid, uint32_t mode) {
    const InodeId inode = meta_->create({}, parent, name, mode, true)->inode;
    meta::SetAttributes owner;
    owner.uid = owner.gid = uid;
    EXPECT_TRUE(meta_->set_attributes({}, inode, owner).has_value());
    return inode;
  }
  void restrict(rights::Restriction what) {
    limits_ = std::make_shared<const Limits>(Limits{std::move(what), ++since_});
  }
  std::unique_ptr<NodeRights> make_rights() {
    return std::make_unique<NodeRights>(*meta_, engine::system_clock(),
                                        [this](NodeId) { return limits_; });
  }
  // What the node is answered.
  template <class Call>
  Result<typename Call::Answer> ask(const Call& call) {
    RequestHeader header = Call::kChanges ? changing(++sequence_) : looking();
    header.session = session_;
    return answer_of<Call>(play(header, call, 64 * kKiB));
  }
  Result<Attributes> lookup(InodeId parent, const std::string& name, uint32_t uid = 0) {
    return ask(ask::Lookup{user(uid), parent, name});
  }
  Code access(InodeId inode, uint32_t wanted, uint32_t uid) {
    const auto answer = ask(ask::Access{user(uid), inode, wanted});
    return answer ? Code::ok : answer.error().code();
  }
  template <class Answer>
  static Code code_of(const Result<Answer>& answer) {
    return answer ? Code::ok : answer.error().code();
  }

  std::shared_ptr<const Limits> limits_;
  uint64_t since_ = 0;
  uint64_t session_ = 1;
  uint64_t sequence_ = 0;
  std::unique_ptr<NodeRights> rights_ = make_rights();
  InodeId data_, other_, below_, secret_, mine_, theirs_;
};

TEST_F(LimitedTest, who_is_not_may_do_everything) {
  EXPECT_TRUE(ask(ask::GetAttributes{secret_}).has_value());
  EXPECT_TRUE(ask(ask::BeginWrite{secret_}).has_value());
  EXPECT_EQ(access(mine_, kAccessRead, 5), Code::ok) << "whoever asked says that it was checked";
  EXPECT_EQ(code_of(ask(ask::Access{user(5, true), mine_, kAccessRead})), Code::access_denied);
  EXPECT_EQ(code_of(ask(ask::Access{user(5), mine_, 8})), Code::invalid_argument);
}

TEST_F(LimitedTest, a_subtree_is_the_root) {
  restrict({.subtree = "/data"});
  const auto root = ask(ask::GetAttributes{kRootInode});
  ASSERT_TRUE(root.has_value());
  EXPECT_EQ(root->inode, kRootInode);
  EXPECT_EQ(lookup(kRootInode, "below")->inode, below_);
  EXPECT_EQ(lookup(kRootInode, "..")->inode, kRootInode);
  EXPECT_EQ(code_of(lookup(below_, ".")), Code::ok);
  EXPECT_EQ(lookup(below_, "..")->inode, kRootInode);
  EXPECT_EQ(code_of(lookup(kRootInode, "other")), Code::not_found);
  EXPECT_EQ(lookup(below_, "mine")->inode, mine_);
  const auto made = ask(ask::MakeDirectory{user(0), kRootInode, "new", 0755});
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(meta_->resolve({}, "/data/new", false)->inode, made->inode);
}

TEST_F(LimitedTest, numbers_beyond_a_subtree_are_guessed_in_vain) {
  restrict({.subtree = "/data"});
  EXPECT_EQ(code_of(lookup(other_, "secret")), Code::stale);
  EXPECT_EQ(code_of(ask(ask::GetAttributes{other_})), Code::stale);
  EXPECT_EQ(code_of(ask(ask::GetAttributes{secret_})), Code::stale);
  EXPECT_EQ(code_of(ask(ask::ReadDirectory{other_, 0, 9, true})), Code::stale);
  EXPECT_EQ(access(secret_, kAccessRead, 0), Code::stale);
  EXPECT_EQ(code_of(ask(ask::BeginWrite{secret_})), Code::stale);
  meta::SetAttributes open;
  open.mode = 0666;
  EXPECT_EQ(code_of(ask(ask::SetAttributes{user(0), secret_, open})), Code::stale);
  EXPECT_EQ(code_of(ask(ask::Link{user(0), secret_, kRootInode, "mine now"})), Code::stale);
  EXPECT_EQ(code_of(ask(ask::Rename{user(0), other_, "secret", kRootInode, "s", {}})), Code::stale);
  EXPECT_EQ(code_of(ask(ask::Rename{user(0), below_, "mine", other_, "s", {}})), Code::stale);
  EXPECT_EQ(code_of(ask(ask::Unlink{user(0), other_, "secret"})), Code::stale);
  EXPECT_EQ(code_of(ask(ask::Create{user(0), other_, "x", 0644, true})), Code::stale);
  EXPECT_EQ(code_of(ask(ask::GetAttributes{mine_})), Code::stale) << "it was not shown yet";
  for (const Code code : {code_of(ask(ask::Unsettled{})), code_of(ask(ask::Orphans{9, {}})),
                          code_of(ask(ask::Forget{{mine_}}))}) {
    EXPECT_EQ(code, Code::access_denied);
  }
  EXPECT_TRUE(meta_->lookup({}, other_, "secret").has_value());
}

TEST_F(LimitedTest, the_trash_is_not_theirs) {
  ASSERT_TRUE(meta_->set_trash(kRootInode, 7, "/").ok());
  const InodeId top = meta_->lookup({}, kRootInode, meta::kTrashName)->inode;
  restrict({.subtree = "/data"});
  EXPECT_EQ(code_of(lookup(kRootInode, std::string(meta::kTrashName))), Code::not_found);
  EXPECT_EQ(lookup(kRootInode, "below")->inode, below_);
  EXPECT_EQ(lookup(below_, "mine")->inode, mine_);
  EXPECT_EQ(ask(ask::TrashOf{below_})->days, 7u);
  EXPECT_EQ(code_of(ask(ask::TrashOf{other_})), Code::stale);
  // What it removes goes there, out of its reach.
  EXPECT_FALSE(ask(ask::Unlink{user(0), below_, "mine"})->last_link);
  std::vector<InodeId> hours;
  ASSERT_TRUE(meta_
                  ->read_directory(top, 0, 9, false,
                                   [&](const meta::DirectoryEntry& entry, const Attributes*) {
                                     hours.push_back(entry.inode);
                                     return true;
                                   })
                  .ok());
  ASSERT_EQ(hours.size(), 1u);
  const std::string name = meta::name_of(meta::TrashEntry{below_, mine_, "mine"});
  EXPECT_EQ(code_of(lookup(top, "x")), Code::stale);
  EXPECT_EQ(code_of(lookup(hours[0], name)), Code::stale);
  EXPECT_EQ(code_of(ask(ask::ReadDirectory{hours[0], 0, 9, true})), Code::stale);
  EXPECT_EQ(code_of(ask(ask::Rename{user(0), hours[0], name, kRootInode, "s", {}})), Code::stale);
  for (const Code code :
       {code_of(ask(ask::SetTrash{below_, 0, "/"})), code_of(ask(ask::ListTrash{})),
        code_of(ask(ask::EmptyTrash{hours[0], 0, 9}))}) {
    EXPECT_EQ(code, Code::access_denied);
  }
  EXPECT_TRUE(meta_->lookup({}, hours[0], name).has_value());
}

TEST_F(LimitedTest, what_was_shown_goes_with_its_session_and_its_restriction) {
  restrict({.subtree = "/data"});
  ASSERT_TRUE(lookup(below_, "mine").has_value());
  EXPECT_TRUE(ask(ask::GetAttributes{mine_}).has_value());
  EXPECT_EQ(code_of(ask(ask::BeginWrite{mine_})), Code::access_denied);
  EXPECT_EQ(access(mine_, kAccessRead | kAccessWrite, 0), Code::ok);
  EXPECT_TRUE(ask(ask::BeginWrite{mine_}).has_value());
  EXPECT_TRUE(rights_->has(NodeId(5), mine_, NodeRights::Right::write));
  EXPECT_FALSE(rights_->has(NodeId(5), theirs_, NodeRights::Right::name));
  session_ = 2;
  EXPECT_EQ(code_of(ask(ask::GetAttributes{mine_})), Code::stale);
  session_ = 1;
  EXPECT_EQ(code_of(lookup(below_, "mine")), Code::stale) << "of a session that is over";
  session_ = 2;
  ASSERT_TRUE(lookup(below_, "mine").has_value());
  restrict({.subtree = "/data", .read_only = true});
  EXPECT_EQ(code_of(ask(ask::GetAttributes{mine_})), Code::stale);
}

TEST_F(LimitedTest, paths_are_walked_from_the_subtree) {
  ASSERT_TRUE(meta_->make_symlink({}, data_, "up", "../other").has_value());
  ASSERT_TRUE(meta_->make_symlink({}, data_, "absolute", "/below/mine").has_value());
  ASSERT_TRUE(meta_->make_symlink({}, data_, "round", "round").has_value());
  restrict({.subtree = "/data"});
  const auto resolve = [&](const std::string& path, bool follow = true) {
    return ask(ask::Resolve{user(0), path, follow});
  };
  EXPECT_EQ(resolve("/")->inode, kRootInode);
  EXPECT_EQ(resolve("/../../below/../below/./mine")->inode, mine_);
  EXPECT_EQ(resolve("/absolute")->inode, mine_);
  EXPECT_EQ(resolve("/absolute", false)->type, meta::FileType::symlink);
  EXPECT_EQ(code_of(resolve("/up/secret")), Code::not_found);
  EXPECT_EQ(code_of(resolve("/round")), Code::too_many_symlinks);
  EXPECT_EQ(code_of(resolve("/absolute/")), Code::not_directory);
  EXPECT_EQ(code_of(resolve("/below/mine/x")), Code::not_directory);
  EXPECT_EQ(code_of(resolve("below")), Code::invalid_argument);
  const auto many = ask(ask::ResolveMany{user(0), {"/below", "/other", "/below/theirs"}, true});
  ASSERT_TRUE(many.has_value() && many->each.size() == 3);
  EXPECT_EQ(many->each[0]->inode, below_);
  EXPECT_EQ(many->each[1].error(), Code::not_found);
  const auto parent = ask(ask::ResolveParent{user(0), "/below/new"});
  ASSERT_TRUE(parent.has_value());
  EXPECT_EQ(parent->parent.inode, below_);
  EXPECT_EQ(parent->name, "new");
  EXPECT_EQ(ask(ask::ResolveParent{user(0), "/new"})->parent.inode, kRootInode);
  EXPECT_EQ(ask(ask::ResolveParent{user(0), "/"})->name, ".");
}

TEST_F(LimitedTest, many_files_are_made_where_they_may_be) {
  ASSERT_TRUE(meta_->make_symlink({}, data_, "up", "../other").has_value());
  restrict({.subtree = "/data"});
  const auto places =
      ask(ask::PlaceFiles{user(0), {{"/below/a", false}, {"/up/b", false}, {"/c", false}}});
  ASSERT_TRUE(places.has_value() && places->each.size() == 3);
  EXPECT_EQ(places->each[0]->parent, below_);
  EXPECT_EQ(places->each[1].error(), Code::not_found);
  EXPECT_EQ(places->each[2]->parent, kRootInode);
  ask::CreateFiles files;
  files.files.resize(2);
  files.files[0].place = *places->each[0];
  files.files[1].place = *places->each[2];
  const auto made = ask(files);
  ASSERT_TRUE(made.has_value() && made->status.ok());
  EXPECT_TRUE(meta_->resolve({}, "/data/c", false).has_value());
  EXPECT_TRUE(ask(ask::BeginWrite{places->each[0]->inode}).has_value());
  files.files.resize(1);
  files.files[0].place.inode = InodeId(places->each[0]->inode.value + 100);
  EXPECT_EQ(code_of(ask(files)), Code::invalid_argument) << "a number that it was not given";
  files.files[0].place = *places->each[0];
  files.files[0].place.parent = other_;
  EXPECT_EQ(code_of(ask(files)), Code::stale);
}

TEST_F(LimitedTest, a_subtree_that_is_not_there_is_none) {
  restrict({.subtree = "/gone"});
  EXPECT_EQ(code_of(ask(ask::GetAttributes{kRootInode})), Code::not_found);
  EXPECT_EQ(code_of(lookup(kRootInode, "data")), Code::not_found);
  restrict({.subtree = "/data/below/mine"});
  EXPECT_EQ(code_of(ask(ask::GetAttributes{kRootInode})), Code::not_found);
}

TEST_F(LimitedTest, who_only_reads_changes_nothing) {
  restrict({.read_only = true});
  EXPECT_EQ(lookup(below_, "mine")->inode, mine_);
  EXPECT_EQ(access(mine_, kAccessRead, 0), Code::ok);
  EXPECT_EQ(access(mine_, kAccessWrite, 0), Code::read_only);
  EXPECT_EQ(code_of(ask(ask::BeginWrite{mine_})), Code::read_only);
  EXPECT_EQ(code_of(ask(ask::Create{user(0), below_, "x", 0644, true})), Code::read_only);
  EXPECT_EQ(code_of(ask(ask::Unlink{user(0), below_, "mine"})), Code::read_only);
  EXPECT_EQ(code_of(ask(ask::UnusedId{})), Code::read_only);
  EXPECT_EQ(code_of(ask(ask::SetXattr{user(0), mine_, "user.a", "b", {}})), Code::read_only);
  const meta::FileTime before = meta_->attributes(mine_)->accessed;
  EXPECT_TRUE(ask(ask::RecordAccessed{{{mine_, meta::FileTime(9'000'000'000, 0)}}}).has_value());
  EXPECT_EQ(meta_->attributes(mine_)->accessed, before);
  EXPECT_FALSE(rights_->has(NodeId(5), mine_, NodeRights::Right::write));
  EXPECT_TRUE(rights_->has(NodeId(5), mine_, NodeRights::Right::read));
}

TEST_F(LimitedTest, users_are_those_of_the_node_and_are_checked) {
  restrict({.uids = {{1000, 1999}}});
  EXPECT_EQ(code_of(lookup(below_, "mine", 0)), Code::access_denied) << "root is not among them";
  EXPECT_EQ(lookup(below_, "mine", 1000)->inode, mine_);
  EXPECT_EQ(lookup(below_, "theirs", 1000)->inode, theirs_);
  EXPECT_EQ(access(mine_, kAccessRead | kAccessWrite, 1000), Code::ok);
  EXPECT_EQ(access(theirs_, kAccessRead, 1000), Code::access_denied)
      << "that its kernel has checked it is only said";
  EXPECT_EQ(access(theirs_, kAccessRead, 0), Code::access_denied);
  EXPECT_EQ(code_of(ask(ask::BeginWrite{theirs_})), Code::access_denied);
  EXPECT_TRUE(ask(ask::BeginWrite{mine_}).has_value());
  meta::SetAttributes given;
  given.uid = 1000;
  EXPECT_EQ(code_of(ask(ask::SetAttributes{user(1000), theirs_, given})), Code::not_permitted);
  given.uid = 0;
  EXPECT_EQ(code_of(ask(ask::SetAttributes{user(1000), mine_, given})), Code::not_permitted);
  EXPECT_EQ(ask(ask::Create{user(1000), below_, "new", 0600, true})->attributes.uid, 1000u);
}

TEST_F(LimitedTest, directories_are_listed_by_those_who_may_read_them) {
  meta::SetAttributes closed;
  closed.mode = 0711;
  ASSERT_TRUE(meta_->set_attributes({}, below_, closed).has_value());
  restrict({.uids = {{1000, 1999}}});
  EXPECT_EQ(code_of(ask(ask::ReadDirectory{below_, 0, 9, true})), Code::access_denied);
  EXPECT_EQ(access(below_, kAccessRead, 1000), Code::access_denied);
  EXPECT_EQ(access(data_, kAccessRead, 1000), Code::ok);
  EXPECT_EQ(ask(ask::ReadDirectory{data_, 0, 9, true})->entries.size(), 1u);
  closed.mode = 0744;
  ASSERT_TRUE(meta_->set_attributes({}, below_, closed).has_value());
  EXPECT_EQ(access(below_, kAccessRead, 1000), Code::ok);
  EXPECT_EQ(ask(ask::ReadDirectory{below_, 0, 9, true})->entries.size(), 2u);
  EXPECT_EQ(code_of(ask(ask::GetAttributes{mine_})), Code::stale) << "a list is no look-up";
  closed.mode = 0755;
  ASSERT_TRUE(meta_->set_attributes({}, below_, closed).has_value());
  EXPECT_EQ(access(below_, kAccessRead | kAccessExecute, 1000), Code::ok);
  EXPECT_EQ(ask(ask::ReadDirectory{below_, 0, 9, true})->entries.size(), 2u);
  EXPECT_TRUE(ask(ask::GetAttributes{mine_}).has_value());
}

TEST_F(LimitedTest, others_are_squashed) {
  restrict({.uids = {{1000, 1999}}, .squash = rights::User{65534, 65533}});
  EXPECT_EQ(lookup(below_, "mine", 0)->inode, mine_);
  EXPECT_EQ(access(mine_, kAccessRead, 0), Code::access_denied) << "root is somebody else there";
  const auto made = ask(ask::Create{user(0), below_, "new", 0600, true});
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->attributes.uid, 65534u);
  EXPECT_EQ(made->attributes.gid, 65533u);
  EXPECT_EQ(ask(ask::Create{user(1000), below_, "own", 0600, true})->attributes.uid, 1000u);
  EXPECT_EQ(code_of(ask(ask::MakeNode{user(0), below_, "dev", meta::FileType::character, 0600, 5})),
            Code::not_permitted);
}

TEST_F(LimitedTest, an_open_file_is_cut_whatever_its_mode_is) {
  restrict({.uids = {{1000, 1999}}});
  ASSERT_TRUE(lookup(below_, "mine", 1000).has_value());
  ASSERT_EQ(access(mine_, kAccessWrite, 1000), Code::ok);
  meta::SetAttributes closed;
  closed.mode = 0;
  ASSERT_TRUE(ask(ask::SetAttributes{user(1000), mine_, closed}).has_value());
  meta::SetAttributes cut;
  cut.length = 0;
  EXPECT_TRUE(ask(ask::SetAttributes{user(1001), mine_, cut}).has_value());
  cut.mode = 0777;
  EXPECT_EQ(code_of(ask(ask::SetAttributes{user(1001), mine_, cut})), Code::not_permitted);
}

TEST_F(LimitedTest, a_directory_that_is_moved_out_is_out_within_a_second) {
  restrict({.subtree = "/data"});
  ASSERT_TRUE(lookup(below_, "mine").has_value());
  ASSERT_TRUE(meta_->rename({}, data_, "below", other_, "below", {}, nullptr).ok());
  const engine::Time end = engine::system_clock().now() + std::chrono::seconds(15);
  while (code_of(lookup(below_, "theirs")) == Code::ok && engine::system_clock().now() < end) {
  }
  EXPECT_EQ(code_of(lookup(below_, "theirs")), Code::stale);
  EXPECT_EQ(code_of(lookup(below_, "..")), Code::stale);
}

TEST_F(LimitedTest, a_new_life_believes_what_an_earlier_one_has_signed) {
  restrict({.subtree = "/data"});
  ASSERT_TRUE(lookup(below_, "mine").has_value());
  const auto given = ask(ask::Access{user(0), mine_, kAccessRead});
  ASSERT_TRUE(given.has_value());
  const auto capability = wire::decode_capability(bytes_of(given->bytes));
  ASSERT_TRUE(capability.has_value());
  EXPECT_EQ(capability->rights, wire::kMayRead);
  EXPECT_EQ(capability->inode_last, mine_.value);
  EXPECT_EQ(capability->session, (wire::AgentSession{NodeId(5), 1}.word()));
  end();
  rights_ = make_rights();
  serve();
  EXPECT_EQ(code_of(ask(ask::GetAttributes{mine_})), Code::stale);
  const auto shown = [&](const auto& change) {
    wire::Capability one = *capability;
    change(one);
    return code_of(ask(ask::Prove{std::string(reinterpret_cast<const char*>(&one), sizeof one)}));
  };
  EXPECT_EQ(shown([](auto& one) { one.signature[0] = 78; }), Code::access_denied);
  EXPECT_EQ(shown([](auto& one) {
              one.session = wire::AgentSession{NodeId(6), 1}.word();
            }),
            Code::access_denied);
  EXPECT_EQ(shown([](auto& one) {
              one.session = wire::AgentSession{NodeId(5), 2}.word();
            }),
            Code::access_denied);
  EXPECT_EQ(shown([](auto& one) { one.judged = 0; }), Code::access_denied);
  EXPECT_EQ(code_of(ask(ask::Prove{"nonsense"})), Code::wrong_version);
  EXPECT_EQ(code_of(ask(ask::GetAttributes{mine_})), Code::stale);
  EXPECT_EQ(shown([](auto&) {}), Code::ok);
  EXPECT_TRUE(ask(ask::GetAttributes{mine_}).has_value());
  EXPECT_EQ(code_of(ask(ask::BeginWrite{mine_})), Code::access_denied) << "it may read";
}

TEST_F(LimitedTest, capabilities_are_for_what_was_proven) {
  const auto rights_for = [&](InodeId inode) {
    const auto answer = ask(ask::Capability{inode});
    if (!answer) return 0;
    const auto one = wire::decode_capability(bytes_of(answer->bytes));
    EXPECT_TRUE(one.has_value());
    return one->is_of_all() ? 10 : int{one->rights};
  };
  EXPECT_EQ(rights_for(mine_), 10) << "who may do everything has one for all";
  restrict({.uids = {{1000, 1999}}});
  EXPECT_EQ(rights_for(mine_), 0);
  ASSERT_TRUE(lookup(below_, "mine", 1000).has_value());
  EXPECT_EQ(rights_for(mine_), 0) << "its name is not its bytes";
  ASSERT_EQ(access(mine_, kAccessWrite, 1000), Code::ok);
  EXPECT_EQ(rights_for(mine_), wire::kMayWrite);
  ASSERT_EQ(access(mine_, kAccessRead, 1000), Code::ok);
  EXPECT_EQ(rights_for(mine_), wire::kCapabilityRights);
  ++session_;
  EXPECT_EQ(rights_for(mine_), 0);
  limits_ = nullptr;
  session_ = 0;
  EXPECT_EQ(code_of(ask(ask::Capability{mine_})), Code::stale);
}

TEST_F(LimitedTest, who_may_not_serve_answers_nobody) {
  end();
  MetaServiceConfig config;
  bool may = false;
  config.may_serve = [&may] { return may; };
  begin(config);
  EXPECT_EQ(play(looking(), ask::Sync{}).status, Code::peer_gone);
  may = true;
  EXPECT_EQ(play(looking(), ask::Sync{}).status, Code::ok);
  end();
}

TEST(ProvenFiles, the_oldest_are_forgotten) {
  ProvenFiles files;
  files.add(InodeId(1), kProvenName | kProvenWrite);
  for (uint64_t i = 2; i <= limits::kProvenPerNode; ++i) {
    files.add(InodeId(i), kProvenName);
    if (i % 1000 == 0) {
      ASSERT_TRUE(files.has(InodeId(1), kProvenWrite)) << i;
    }
    ASSERT_LE(files.size(), limits::kProvenPerNode);
  }
  for (uint64_t i = 2; i <= 2 * limits::kProvenPerNode; ++i) {
    files.add(InodeId(limits::kProvenPerNode + i), kProvenName);
  }
  EXPECT_FALSE(files.has(InodeId(1), kProvenName));
  EXPECT_LE(files.size(), limits::kProvenPerNode);
}

// ---- beside the names: holds and locks ----

TEST_F(LimitedTest, holds_are_of_what_was_shown_and_locks_of_what_is_open) {
  using May = NodeRights::May;
  const auto hold = [&](InodeId inode, bool exclusive = false) {
    return rights_->may_hold(NodeId{5}, session_, inode, exclusive);
  };
  const auto lock = [&](InodeId inode, bool writes) {
    return rights_->may_lock(NodeId{5}, session_, inode, writes);
  };
  EXPECT_EQ(hold(secret_, true).may, May::yes) << "it is not restricted";
  EXPECT_EQ(hold(kRootInode).inode, kRootInode);
  EXPECT_TRUE(lock(secret_, true));
  restrict({.subtree = "/data"});
  for (const InodeId inode : {secret_, mine_, other_, data_, below_, kRootInode}) {
    EXPECT_EQ(hold(inode).may, May::unknown) << inode.value;
    EXPECT_FALSE(lock(inode, false));
  }
  ASSERT_TRUE(lookup(kRootInode, "below").has_value());
  ASSERT_TRUE(lookup(below_, "mine").has_value());
  EXPECT_EQ(hold(mine_).may, May::yes);
  EXPECT_EQ(hold(mine_, true).may, May::yes) << "its owner changes its mode";
  EXPECT_EQ(hold(below_).inode, below_);
  EXPECT_EQ(hold(kRootInode).may, May::yes);
  EXPECT_EQ(hold(kRootInode).inode, data_);
  EXPECT_EQ(hold(secret_).may, May::unknown);
  EXPECT_EQ(hold(other_).may, May::unknown);
  EXPECT_FALSE(lock(mine_, false)) << "it is not open";
  ASSERT_EQ(access(mine_, kAccessRead, 1000), Code::ok);
  EXPECT_TRUE(lock(mine_, false));
  EXPECT_FALSE(lock(mine_, true));
  ASSERT_EQ(access(mine_, kAccessWrite, 1000), Code::ok);
  EXPECT_TRUE(lock(mine_, true));
  // Of another session, or another restriction, it knows nothing.
  EXPECT_EQ(rights_->may_hold(NodeId{5}, session_ + 1, mine_, false).may, May::unknown);
  EXPECT_FALSE(rights_->may_lock(NodeId{5}, session_ + 1, mine_, false));
  EXPECT_FALSE(rights_->may_lock(NodeId{6}, session_, mine_, false));
  restrict({.subtree = "/data", .read_only = true});
  EXPECT_EQ(hold(mine_).may, May::unknown);
  EXPECT_EQ(hold(mine_, true).may, May::only_reads);
  EXPECT_FALSE(lock(mine_, false));
  ASSERT_TRUE(lookup(below_, "mine").has_value());
  ASSERT_EQ(access(mine_, kAccessRead, 1000), Code::ok);
  EXPECT_EQ(hold(mine_).may, May::yes);
  EXPECT_EQ(hold(mine_, true).may, May::only_reads);
  EXPECT_TRUE(lock(mine_, false)) << "flock() of either kind, as on a file system that only reads";
  EXPECT_FALSE(lock(mine_, true));
}

// Who sets how much there may be, and for how long what is removed is kept: nodes that may do
// everything. There, root.
TEST_F(LimitedTest, quotas_and_trash_are_set_by_nodes_that_are_not) {
  const meta::QuotaSubject subject{meta::QuotaSubject::Kind::directory, data_.value};
  const auto all_are = [&](Code looks, Code changes) {
    EXPECT_EQ(code_of(ask(ask::SetQuota{subject, {.bytes = 1 << 20}, "/data"})), changes);
    EXPECT_EQ(code_of(ask(ask::ListQuotas{})), looks);
    EXPECT_EQ(code_of(ask(ask::CheckQuota{subject, true})), changes);
    EXPECT_EQ(code_of(ask(ask::DeleteQuota{subject})), changes);
    EXPECT_EQ(code_of(ask(ask::SetTrash{data_, 7, "/data"})), changes);
    EXPECT_EQ(code_of(ask(ask::ListTrash{})), looks);
  };
  std::vector<rights::Restriction> each(4);
  each[0].subtree = "/data";
  each[1].read_only = true;
  each[2].uids = *rights::parse_ids("0-5000");
  each[3].squash = rights::User{7, 7};
  for (const rights::Restriction& what : each) {
    restrict(what);
    all_are(Code::access_denied, what.read_only ? Code::read_only : Code::access_denied);
  }
  limits_ = nullptr;
  all_are(Code::ok, Code::ok);
}

}  // namespace
}  // namespace penstock::meta_net
