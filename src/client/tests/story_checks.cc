// What a life shows that begins after a crash, held against the model.
#include "story.h"

#include <algorithm>
#include <set>

namespace penstock::client {

void Story::restart() {
  opens_.clear();
  while (true) {
    if (random_.chance(1, 3)) node_.plan_death();
    const bool started = node_.start();
    node_.cancel_death();
    if (started && !node_.dead()) break;
    node_.bury();
  }
  verify_names();
  verify_content();
  if (testing::Test::HasFailure()) return;
  verify_space();
  rebase();
}

// Sets the newest state of the names to what is there.
void Story::verify_names() {
  std::map<std::string, InodeId> found;
  const Status listed = node_.meta->read_directory(
      meta::kRootInode, 0, 1000, false, [&](const meta::DirectoryEntry& entry, const Attributes*) {
        found[entry.name] = entry.inode;
        return true;
      });
  ASSERT_TRUE(listed.ok()) << where();
  std::set<InodeId> known;
  for (const auto& model : all_) known.insert(model->inode);
  const auto matches = [&](const Names& names) {
    if (names.size() != found.size()) return false;
    return std::all_of(names.begin(), names.end(), [&](const auto& entry) {
      const auto at = found.find(entry.first);
      if (at == found.end()) return false;
      // A file whose creation was cut short: it may be there, and its number is news.
      const bool is_new = entry.second->inode == InodeId{} && !known.contains(at->second);
      return entry.second->inode == at->second || is_new;
    });
  };
  const auto match = std::find_if(names_.rbegin(), names_.rend(), matches);
  const auto describe = [](const auto& names, const auto& number) {
    std::string text;
    for (const auto& [path, what] : names) {
      text += " " + path + "=" + std::to_string(number(what).value);
    }
    return text + "\n";
  };
  std::string states = "found:" + describe(found, [](InodeId id) { return id; });
  for (const Names& names : names_) {
    states += "was:" + describe(names, [](const auto& model) { return model->inode; });
  }
  ASSERT_TRUE(match != names_.rend())
      << "the names are in no state they ever were in " << where() << "\n"
      << states;
  const auto age = match - names_.rbegin();
  if (!node_.power_was_cut()) {
    EXPECT_LE(age, names_uncertain_ ? 1 : 0) << "a kill lost names " << where();
  }
  Names names = *match;
  for (auto& [path, model] : names) model->inode = found[path];
  names_ = {names};
  names_uncertain_ = false;
  all_.clear();
  for (auto& [path, model] : names) all_.push_back(model);
}

void Story::verify_content() {
  for (const auto& [path, model] : names_.back()) {
    Result<FileRef> file = node_.files->open_inode(node_.root, model->inode, {}, true, nullptr);
    ASSERT_TRUE(file.has_value()) << path << ": " << file.error().name() << " " << where();
    const std::string found = read_all(*file);
    EXPECT_EQ(model->judge(found), "") << path << " " << where();
    EXPECT_EQ(node_.files->attributes(model->inode)->length, found.size()) << where();
    model->history = {found};
    EXPECT_TRUE(node_.files->close_file(std::move(*file)).ok());
  }
}

// Whatever the targets hold belongs to a file that has a name.
void Story::verify_space() {
  while (true) {
    const auto collected = node_.files->collect(100);
    ASSERT_TRUE(collected.has_value()) << where();
    if (*collected == 0) break;
  }
  ASSERT_TRUE(node_.files->sync_all().ok()) << where();
  for (size_t i = 0; i < node_.shards(); ++i) {
    uint64_t live = 0;
    std::vector<InodeId> inodes{kRecordsInode};
    for (const auto& [path, model] : names_.back()) inodes.push_back(model->inode);
    for (const InodeId inode : inodes) {
      store::EndQueryOp query;
      query.inode = inode;
      struct Turn {
        engine::Loop* loop;
        engine::Op* done;
      } turn{node_.loops[i].get(), nullptr};
      const Status asked = engine::thread_caller().call(*node_.loops[i], [&](engine::Op& done) {
        turn.done = &done;
        query.owner = &turn;
        query.completion = [](engine::Op& op) {
          auto& self = op.owner_as<Turn>();
          self.loop->complete(*self.done, op.status);
        };
        node_.targets[i]->submit(query);
      });
      ASSERT_TRUE(asked.ok()) << where();
      live += query.allocated_bytes;
    }
    EXPECT_EQ(node_.targets[i]->status().used_bytes, live) << "target " << i << " " << where();
  }
}

void Story::rebase() {
  ASSERT_TRUE(node_.files->sync_all().ok());
  for (const auto& model : all_) model->synced();
  node_.forget_power_cuts();
}

// Without faults everything works, and leaves nothing behind.
void Story::finish() {
  for (int i = 0; i < 40 && !testing::Test::HasFailure(); ++i) step();
  opens_.clear();
  EXPECT_TRUE(node_.files->collect(100).has_value());
  node_.stop();
  ASSERT_TRUE(node_.start());
  EXPECT_TRUE(node_.meta->unsettled()->empty()) << where();
  for (const auto& [path, model] : names_.back()) model->history = {model->now()};
  names_ = {names_.back()};
  verify_names();
  verify_content();
  const Names names = names_.back();
  for (const auto& [path, model] : names) {
    EXPECT_TRUE(node_.files->unlink(node_.root, meta::kRootInode, path, nullptr).ok());
  }
  names_ = {Names()};
  verify_space();
  for (const auto& target : node_.targets) {
    EXPECT_LE(target->status().used_bytes, limits::kBlockBytes) << where();
  }
  EXPECT_EQ(node_.meta->counts()->inodes, 1u) << where();
  node_.stop();
}

}  // namespace penstock::client
