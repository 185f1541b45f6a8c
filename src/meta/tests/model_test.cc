// Random operations on Meta and on a plain tree: every answer and the whole tree must agree.
#include "tree_model.h"

#include <gtest/gtest.h>
#include <set>

#include "penstock/testing_meta.h"

namespace penstock::meta {
namespace {

class Comparison {
 public:
  Comparison(const std::string& backend, uint64_t seed)
      : random_(seed), storage_(make_storage(backend, seed)) {
    // Fewer records than there are inodes, and none at all.
    options_.cached_records = seed % 2 == 0 ? 16 : 0;
    reopen();
  }
  ~Comparison() { meta_.reset(); }

  void step() {
    switch (random_.below(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return make();
      case 4:
        return link();
      case 5:
      case 6:
        return remove(false);
      case 7:
        return remove(true);
      case 8:
      case 9:
      case 10:
        return rename();
      case 11:
        return settle();
      case 12:
        return set_mode();
      case 13:
        return xattr();
      default:
        return look();
    }
  }

  void restart(bool clean) {
    if (clean) {
      ASSERT_TRUE(meta_->close().ok());
    }
    meta_.reset();
    storage_->restart();
    reopen();
  }

  void check_everything() {
    size_t inodes = orphans_.size();
    std::set<const ModelNode*> seen;
    for (ModelNode* directory : model_.directories()) {
      check_attributes(*directory);
      check_listing(*directory);
      seen.insert(directory);
      for (const auto& [name, node] : directory->entries) {
        seen.insert(node);
        if (!node->is_directory()) check_attributes(*node);
      }
    }
    inodes += seen.size();
    const auto counts = meta_->counts();
    ASSERT_TRUE(counts.has_value());
    EXPECT_EQ(counts->inodes, inodes);
    std::set<uint64_t> listed;
    InodeId after;
    while (true) {
      const auto batch = meta_->orphans(7, after);
      ASSERT_TRUE(batch.has_value());
      for (const InodeId inode : *batch) listed.insert(inode.value);
      if (batch->empty()) break;
      after = batch->back();
    }
    EXPECT_EQ(listed, orphans_);
  }

  void forget_some() {
    while (orphans_.size() > 3) {
      const InodeId inode(*orphans_.begin());
      ASSERT_TRUE(meta_->forget(inode).ok());
      EXPECT_EQ(code_of(meta_->attributes(inode)), Code::not_found);
      orphans_.erase(orphans_.begin());
    }
  }

 private:
  void reopen() { meta_ = open_meta(storage_->kv(), clock_, options_); }

  ModelNode* any_directory() {
    const auto all = model_.directories();
    return all[random_.below(all.size())];
  }
  std::string any_name() { return std::string(1, static_cast<char>('a' + random_.below(7))); }

  void make() {
    ModelNode* parent = any_directory();
    const std::string name = any_name();
    const auto mode = static_cast<uint32_t>(random_.below(01000));
    const uint64_t kind = random_.below(8);
    Result<Attributes> made = Code::ok;
    FileType type = FileType::regular;
    std::string target;
    if (kind < 3) {
      type = FileType::directory;
      made = meta_->make_directory(root_, parent->inode, name, mode);
    } else if (kind == 3) {
      type = FileType::symlink;
      target = "target of " + name;
      made = meta_->make_symlink(root_, parent->inode, name, target);
    } else if (kind == 4) {
      type = FileType::fifo;
      made = meta_->make_node(root_, parent->inode, name, type, mode, 0);
    } else {
      made = meta_->create(root_, parent->inode, name, mode, true);
    }
    ModelNode* node = nullptr;
    const Code expected =
        model_.make(parent, name, type, type == FileType::symlink ? 0777 : mode, &node);
    ASSERT_EQ(code_of(made), expected);
    if (node == nullptr) return;
    node->inode = made->inode;
    node->target = target;
    node->length = target.size();
  }

  void link() {
    ModelNode* from = any_directory();
    ModelNode* node = model_.find(from, any_name());
    if (node == nullptr) return;
    ModelNode* parent = any_directory();
    const std::string name = any_name();
    const Code expected = model_.link(node, parent, name);
    ASSERT_EQ(code_of(meta_->link(root_, node->inode, parent->inode, name)), expected);
  }

  void remove(bool directory) {
    ModelNode* parent = any_directory();
    const std::string name = any_name();
    ModelNode* node = model_.find(parent, name);
    Removed removed;
    const Status status = directory ? meta_->remove_directory(root_, parent->inode, name, &removed)
                                    : meta_->unlink(root_, parent->inode, name, &removed);
    const Code expected =
        directory ? model_.remove_directory(parent, name) : model_.unlink(parent, name);
    ASSERT_EQ(status.code(), expected);
    if (expected == Code::ok) check_removed(removed, node);
  }

  void rename() {
    ModelNode* from = any_directory();
    ModelNode* to = random_.chance(1, 2) ? from : any_directory();
    const std::string name = any_name();
    const std::string new_name = any_name();
    RenameFlags flags;
    flags.no_replace = random_.chance(1, 6);
    flags.exchange = !flags.no_replace && random_.chance(1, 5);
    ModelNode* source = model_.find(from, name);
    ModelNode* target = model_.find(to, new_name);
    Removed removed;
    const Status status =
        meta_->rename(root_, from->inode, name, to->inode, new_name, flags, &removed);
    ASSERT_EQ(status.code(), model_.rename(from, name, to, new_name, flags))
        << name << " -> " << new_name;
    if (!status.ok()) return;
    const bool replaced = target != nullptr && target != source && !flags.exchange;
    check_removed(removed, replaced ? target : nullptr);
  }

  void check_removed(const Removed& removed, const ModelNode* node) {
    ASSERT_EQ(removed.inode, node == nullptr ? InodeId() : node->inode);
    if (node == nullptr) return;
    EXPECT_EQ(removed.last_link, node->links == 0);
    EXPECT_EQ(removed.attributes.links, node->links);
    if (removed.last_link) orphans_.insert(node->inode.value);
  }

  void settle() {
    ModelNode* node = model_.find(any_directory(), any_name());
    if (node == nullptr) return;
    const Settled settled{random_.below(10000),
                          FileTime(0, static_cast<int64_t>(random_.below(1000))),
                          random_.chance(1, 2), std::nullopt, random_.chance(1, 2)};
    const Status status = meta_->settle(node->inode, settled, random_.chance(1, 8));
    if (node->type != FileType::regular) {
      ASSERT_EQ(status.code(), Code::invalid_argument);
      return;
    }
    ASSERT_TRUE(status.ok());
    if (!settled.only_grow || settled.length > node->length) node->length = settled.length;
  }

  void set_mode() {
    ModelNode* node = any_directory();
    if (ModelNode* entry = model_.find(node, any_name())) node = entry;
    SetAttributes changes;
    changes.mode = static_cast<uint32_t>(random_.below(010000));
    const auto result = meta_->set_attributes(root_, node->inode, changes);
    if (node->type == FileType::symlink) {
      ASSERT_EQ(code_of(result), Code::not_supported);
      return;
    }
    ASSERT_TRUE(result.has_value());
    node->mode = *changes.mode;
  }

  void xattr() {
    ModelNode* node = model_.find(any_directory(), any_name());
    if (node == nullptr) return;
    const std::string name = "trusted." + any_name();
    const auto existing = node->xattrs.find(name);
    const bool exists = existing != node->xattrs.end();
    if (random_.chance(1, 3)) {
      ASSERT_EQ(code_of(meta_->remove_xattr(root_, node->inode, name)),
                exists ? Code::ok : Code::no_data);
      node->xattrs.erase(name);
    } else {
      const auto mode = static_cast<XattrMode>(random_.below(3));
      const std::string value(random_.below(5), 'v');
      Code expected = Code::ok;
      if (exists && mode == XattrMode::create) expected = Code::already_exists;
      if (!exists && mode == XattrMode::replace) expected = Code::no_data;
      ASSERT_EQ(code_of(meta_->set_xattr(root_, node->inode, name, value, mode)), expected);
      if (expected == Code::ok) node->xattrs[name] = value;
    }
  }

  void look() {
    ModelNode* parent = any_directory();
    const std::string name = any_name();
    const ModelNode* node = model_.find(parent, name);
    const auto found = meta_->lookup(root_, parent->inode, name);
    ASSERT_EQ(found.has_value(), node != nullptr);
    if (node == nullptr) {
      ASSERT_EQ(found.error().code(), Code::not_found);
    } else {
      ASSERT_EQ(found->inode, node->inode);
    }
    const auto above = meta_->lookup(root_, parent->inode, "..");
    ASSERT_TRUE(above.has_value());
    ASSERT_EQ(above->inode, parent->parent->inode);
  }

  void check_attributes(const ModelNode& node) {
    const auto found = meta_->attributes(node.inode);
    ASSERT_TRUE(found.has_value()) << node.inode.value;
    EXPECT_EQ(found->type, node.type);
    EXPECT_EQ(found->mode, node.mode);
    EXPECT_EQ(found->links, node.link_count());
    if (!node.is_directory()) {
      EXPECT_EQ(found->length, node.length);
    }
    if (node.type == FileType::symlink) {
      EXPECT_EQ(*meta_->read_symlink(node.inode), node.target);
    }
    const auto names = meta_->list_xattrs(root_, node.inode);
    ASSERT_TRUE(names.has_value());
    EXPECT_EQ(names->size(), node.xattrs.size());
    for (const auto& [name, value] : node.xattrs) {
      EXPECT_EQ(*meta_->get_xattr(root_, node.inode, name), value);
    }
    check_xattrs_without_asking(*found);
  }

  // Who has the attributes answers the same, or asks.
  void check_xattrs_without_asking(const Attributes& found) {
    size_t answered = 0;
    const std::string_view kNames[] = {"user.a",
                                       "user.b",
                                       "trusted.none",
                                       "security.none",
                                       "system.posix_acl_access",
                                       "system.posix_acl_default",
                                       "other.namespace",
                                       "user."};
    for (const std::string_view name : kNames) {
      const auto answer = xattr_of(root_, found, name);
      if (!answer) continue;
      ++answered;
      const auto asked = meta_->get_xattr(root_, found.inode, name);
      EXPECT_EQ(code_of(*answer), code_of(asked)) << name;
      if (asked && *answer) {
        EXPECT_EQ(**answer, *asked) << name;
      }
    }
    EXPECT_GE(answered, found.has_xattrs ? 3U : 7U);
  }

  void check_listing(const ModelNode& directory) {
    std::map<std::string, InodeId> listed;
    uint64_t last = 0;
    bool more = true;
    while (more) {
      more = false;
      const uint64_t after = last;
      ASSERT_TRUE(meta_
                      ->read_directory(directory.inode, after, 3, true,
                                       [&](const DirectoryEntry& entry, const Attributes* found) {
                                         EXPECT_GT(entry.cookie, last);
                                         EXPECT_GE(entry.cookie, kCookieMin);
                                         last = entry.cookie;
                                         EXPECT_TRUE(
                                             listed.emplace(entry.name, entry.inode).second);
                                         EXPECT_EQ(found->inode, entry.inode);
                                         EXPECT_EQ(found->type, entry.type);
                                         more = true;
                                         return true;
                                       })
                      .ok());
    }
    ASSERT_EQ(listed.size(), directory.entries.size());
    for (const auto& [name, node] : directory.entries) EXPECT_EQ(listed[name], node->inode);
  }

  const Credentials root_;
  engine::SeededRandom random_;
  TickingClock clock_;
  MetaOptions options_;
  std::unique_ptr<Storage> storage_;
  std::unique_ptr<Meta> meta_;
  TreeModel model_;
  std::set<uint64_t> orphans_;
};

void compare(const std::string& backend, uint64_t seed, int steps, int check_every) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Comparison comparison(backend, seed);
  for (int i = 1; i <= steps; ++i) {
    comparison.step();
    if (i % check_every == 0) {
      comparison.check_everything();
      comparison.forget_some();
      comparison.restart(i % (2 * check_every) == 0);
      comparison.check_everything();
    }
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << "at step " << i;
      return;
    }
  }
}

TEST(MetaModel, agrees_in_memory) {
  for (uint64_t seed = 1; seed <= 20; seed += one_run_in()) compare("memory", seed, 10'000, 1'000);
}

TEST(MetaModel, agrees_on_rocksdb_with_restarts) {
  for (uint64_t seed = 1; seed <= 2; seed += one_run_in()) compare("rocksdb", seed, 8'000, 1'000);
}

TEST(MetaModel, agrees_in_simulation_with_conflicts_and_kills) {
  for (uint64_t seed = 1; seed <= 20; ++seed) compare("sim", seed, 2'000, 200);
}

}  // namespace
}  // namespace penstock::meta
