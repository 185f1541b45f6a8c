// A whole node under random file operations, killed and cut off from power at random moments.
#include "model.h"
#include "whole_node.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>

namespace penstock::client {
namespace {

constexpr uint64_t kFileMax = 5 * 65536;

// Memory at a known distance from a page border: what a target does with it must not depend on
// where the heap happens to be.
class Buffer {
 public:
  Buffer(engine::Random& random, std::string_view content)
      : length_(content.size()),
        shift_(random.chance(1, 2) ? 0 : random.below(64) * 8),
        pages_(std::aligned_alloc(4096, align_up(length_ + shift_ + 1, 4096)), &std::free) {
    std::copy(content.begin(), content.end(), data());
  }
  engine::MemoryRef memory() const { return {reinterpret_cast<std::byte*>(data()), length_}; }
  std::string_view first(uint64_t count) const { return {data(), count}; }

 private:
  char* data() const { return static_cast<char*>(pages_.get()) + shift_; }
  uint64_t length_;
  uint64_t shift_;
  std::unique_ptr<void, decltype(&std::free)> pages_;
};

class Story {
 public:
  explicit Story(uint64_t seed) : node_(seed), random_(node_.world.random()) {}

  // Returns the trace of the whole run.
  uint64_t run();

 private:
  struct Open {
    FileRef file;
    std::shared_ptr<ModelFile> model;
  };

  // One operation; what the node says must be right unless it died in it.
  void step();
  void create();
  void make_many();
  void write(const Open& open);
  void write_many(const Open& open);
  void truncate(const std::shared_ptr<ModelFile>& model);
  void punch(const Open& open);
  void read(const Open& open);
  void sync(const Open& open);
  void sync_all();
  void unlink();
  void rename();
  void give_up(size_t index);
  void collect();

  // Begins lives until one can be used, and holds what it shows against the model.
  void restart();
  void verify_names();
  void verify_content();
  void verify_space();
  void rebase();
  void finish();

  std::string name() { return "f" + std::to_string(random_.below(6)); }
  std::string some_bytes();
  std::string read_all(const FileRef& file);
  void changed(const std::shared_ptr<ModelFile>& model, std::string content, bool happened);
  void expect(Status status, const char* what) {
    if (!status.ok() && !node_.dead()) {
      ADD_FAILURE() << what << ": " << status.name() << " " << where();
    }
  }
  std::string where() const {
    return "(seed " + std::to_string(node_.world.seed()) + ", step " + std::to_string(steps_) + ")";
  }
  void names_changed(Names names, bool happened);

  WholeNode node_;
  engine::Random& random_;
  uint64_t steps_ = 0;
  std::vector<Open> opens_;
  std::vector<std::shared_ptr<ModelFile>> all_;
  std::vector<Names> names_{Names()};  // like ModelFile::history
  bool names_uncertain_ = false;       // the newest state may or may not have happened
};

std::string Story::some_bytes() {
  const uint64_t length =
      1 + (random_.chance(1, 3) ? random_.below(150'000) : random_.below(5'000));
  return std::string(length, static_cast<char>(1 + steps_ % 255));
}

void Story::changed(const std::shared_ptr<ModelFile>& model, std::string content, bool happened) {
  if (happened || node_.dead()) model->change(std::move(content));
}

void Story::names_changed(Names names, bool happened) {
  if (!happened && !node_.dead()) return;
  names_.push_back(std::move(names));
  names_uncertain_ = node_.dead();
}

void Story::create() {
  node_.world.trace("create", 0);
  const std::string path = name();
  OpenFlags flags{.write = true, .create = true};
  flags.truncate = random_.chance(1, 6);
  const auto known = names_.back().find(path);
  const bool is_new = known == names_.back().end();
  Attributes attributes;
  Result<FileRef> file = node_.files->open_name(node_.root, meta::kRootInode, path, flags, 0644, {},
                                                true, &attributes, nullptr);
  if (is_new) {
    Names names = names_.back();
    auto model = std::make_shared<ModelFile>();
    if (file) model->inode = inode_of(**file);
    names[path] = model;
    all_.push_back(model);
    names_changed(std::move(names), file.has_value());
    if (file) opens_.push_back({*file, model});
  } else {
    const std::shared_ptr<ModelFile> model = known->second;
    if (flags.truncate && !model->now().empty()) changed(model, "", file.has_value());
    if (file) opens_.push_back({*file, model});
  }
  expect(file ? Code::ok : file.error(), "open");
}

// Several files that get their content first, and their names together.
void Story::make_many() {
  node_.world.trace("make many", 0);
  std::set<std::string> paths;
  for (uint64_t i = 0, count = 1 + random_.below(3); i < count; ++i) paths.insert("/" + name());
  std::vector<NewFile> files;
  const bool replace = random_.chance(1, 2);
  for (const std::string& path : paths) {
    NewFile& file = files.emplace_back();
    file.path = path;
    file.replace = replace;
  }
  expect(node_.files->place_files(node_.root, files), "place many");
  Names names = names_.back();
  for (NewFile& file : files) {
    if (node_.dead()) return;
    const std::string path(file.path.substr(1));
    if (names.contains(path) && !replace) {
      EXPECT_EQ(file.status, Code::already_exists) << where();
      continue;
    }
    expect(file.status, "place");
    if (file.file == nullptr) continue;
    auto model = std::make_shared<ModelFile>();
    model->inode = inode_of(*file.file);
    const std::string bytes = random_.chance(1, 5) ? std::string() : some_bytes();
    if (!bytes.empty()) {
      const Buffer buffer(random_, bytes);
      const Result<uint64_t> done =
          node_.files->write(file.file, 0, buffer.memory(), false, nullptr, nullptr);
      expect(done ? Code::ok : done.error(), "write of a new file");
      if (!done) return;
      model->change(bytes);
    }
    if (random_.chance(1, 5)) {
      file.status = Code::cancelled;
      continue;
    }
    // What it takes the place of is not worth less than what a power cut leaves of this one.
    if (names.contains(path)) model->history = {model->now()};
    all_.push_back(model);
    names[path] = std::move(model);
  }
  if (random_.chance(1, 4)) sync_all();
  if (node_.dead()) return;
  const Status status = node_.files->make_files(node_.root, files, nullptr);
  expect(status, "make many");
  names_changed(std::move(names), status.ok() && !node_.dead());
}

void Story::write(const Open& open) {
  node_.world.trace("write", open.model->inode.value);
  const std::string bytes = some_bytes();
  const uint64_t offset = random_.below(kFileMax - bytes.size());
  const bool durable = random_.chance(1, 5);
  const Buffer buffer(random_, bytes);
  const Result<uint64_t> done =
      node_.files->write(open.file, offset, buffer.memory(), durable, nullptr, nullptr);
  changed(open.model, with_write(open.model->now(), offset, bytes), done.has_value());
  if (done && *done == bytes.size() && durable) {
    open.model->durable(offset, bytes);
    if (!std::exchange(open.model->known_durable, true)) {
      names_.erase(names_.begin(), names_.end() - 1);
    }
  }
  expect(done ? Code::ok : done.error(), "write");
}

// Several writes at a time through the rings' way, to parts that do not overlap, and perhaps a cut
// among them.
void Story::write_many(const Open& open) {
  node_.world.trace("write many", open.model->inode.value);
  struct Part : IoOp {
    std::string bytes;
    std::optional<Buffer> buffer;
    int* left = nullptr;
  };
  constexpr uint64_t kParts = 5;
  const bool cut = random_.chance(1, 3);
  const uint64_t cut_to = random_.below(kFileMax);
  int left = kParts;
  std::vector<std::unique_ptr<Part>> parts;
  std::string all = open.model->now();
  for (uint64_t i = 0; i < kParts; ++i) {
    auto part = std::make_unique<Part>();
    part->bytes = some_bytes().substr(0, kFileMax / kParts / 2);
    part->file = open.file;
    part->kind = IoKind::write;
    part->offset = i * (kFileMax / kParts) + random_.below(kFileMax / kParts / 2);
    part->buffer.emplace(random_, part->bytes);
    part->memory = part->buffer->memory();
    part->left = &left;
    part->completion = [](engine::Op& op) { --*static_cast<Part&>(op).left; };
    all = with_write(std::move(all), part->offset, part->bytes);
    node_.files->client(random_.below(node_.shards())).submit(*part);
    parts.push_back(std::move(part));
  }
  if (cut) {
    meta::SetAttributes changes;
    changes.length = cut_to;
    const auto set = node_.files->set_attributes(node_.root, open.model->inode, changes, nullptr);
    expect(set ? Code::ok : set.error(), "cut");
  }
  ASSERT_TRUE(node_.world.run_until([&] { return left == 0; })) << where();
  const std::string before = open.model->now();
  if (cut) {
    std::string shorter = before;
    shorter.resize(cut_to);
    open.model->change(std::move(shorter));
    std::string both = all;
    both.resize(cut_to);
    open.model->change(std::move(both));
  }
  open.model->change(all);
  if (node_.dead()) return;
  for (const auto& part : parts) expect(part->status, "write of many");
  // Each part is there whole, or was cut, whole or in part, from the cut's end on.
  const std::string found = read_all(open.file);
  if (node_.dead()) return;
  std::string expected = before;
  if (cut) expected.resize(cut_to);
  for (const auto& part : parts) {
    const bool survives =
        !cut || (part->offset < found.size() && found[part->offset] == part->bytes[0]);
    const uint64_t end = part->offset + part->bytes.size();
    if (survives && (!cut || end <= found.size())) {
      expected = with_write(std::move(expected), part->offset, part->bytes);
    } else if (survives) {
      expected = with_write(std::move(expected), part->offset,
                            part->bytes.substr(0, found.size() - part->offset));
    }
  }
  if (cut) {
    // Those written before the cut keep what lies before its end: told apart by what follows.
    for (const auto& part : parts) {
      const uint64_t end = part->offset + part->bytes.size();
      if (part->offset >= cut_to || end <= cut_to || found.size() <= cut_to) continue;
      if (found[cut_to] == '\0') {
        for (uint64_t i = cut_to; i < std::min<uint64_t>(end, expected.size()); ++i) {
          expected[i] = '\0';
        }
      }
    }
  }
  EXPECT_TRUE(found == expected) << "many writes" << (cut ? " and a cut " : " ") << where();
  open.model->change(found);
}

void Story::truncate(const std::shared_ptr<ModelFile>& model) {
  node_.world.trace("truncate", model->inode.value);
  meta::SetAttributes changes;
  changes.length = random_.chance(1, 4) ? 0 : random_.below(kFileMax);
  std::string content = model->now();
  content.resize(*changes.length);
  const auto set = node_.files->set_attributes(node_.root, model->inode, changes, nullptr);
  if (content != model->now()) changed(model, std::move(content), set.has_value());
  expect(set ? Code::ok : set.error(), "truncate");
}

void Story::punch(const Open& open) {
  node_.world.trace("punch", open.model->inode.value);
  const uint64_t offset = random_.below(kFileMax);
  const uint64_t length = 1 + random_.below(100'000);
  const Status status = node_.files->punch(open.file, offset, length, nullptr, nullptr);
  std::string content = open.model->now();
  for (uint64_t i = offset; i < std::min<uint64_t>(offset + length, content.size()); ++i) {
    content[i] = '\0';
  }
  if (content != open.model->now()) changed(open.model, std::move(content), status.ok());
  expect(status, "punch");
}

std::string Story::read_all(const FileRef& file) {
  const Buffer buffer(random_, std::string(kFileMax + 200'000, '?'));
  const Result<uint64_t> got = node_.files->read(file, 0, buffer.memory());
  expect(got ? Code::ok : got.error(), "read");
  return std::string(buffer.first(got ? *got : 0));
}

void Story::read(const Open& open) {
  node_.world.trace("read", open.model->inode.value);
  const std::string found = read_all(open.file);
  if (node_.dead()) return;
  EXPECT_TRUE(found == open.model->now())
      << "read " << found.size() << " of " << open.model->now().size() << " bytes " << where();
  const auto attributes = node_.files->attributes(open.model->inode);
  ASSERT_TRUE(attributes.has_value() || node_.dead()) << where();
  if (attributes) {
    EXPECT_EQ(attributes->length, open.model->now().size()) << where();
  }
}

void Story::sync(const Open& open) {
  node_.world.trace("sync", open.model->inode.value);
  const bool only_data = random_.chance(1, 3);
  const bool meta_too = open.model->dirty() && !only_data;
  const Status status = node_.files->sync_file(open.file, only_data);
  if (status.ok()) {
    if (meta_too || !open.model->known_durable) names_.erase(names_.begin(), names_.end() - 1);
    open.model->synced();
  }
  expect(status, "sync");
}

void Story::sync_all() {
  node_.world.trace("sync all", 0);
  const Status status = node_.files->sync_all();
  if (status.ok()) {
    names_.erase(names_.begin(), names_.end() - 1);
    for (const auto& model : all_) model->synced();
  }
  expect(status, "sync all");
}

void Story::unlink() {
  node_.world.trace("unlink", 0);
  const std::string path = name();
  Names names = names_.back();
  const bool exists = names.erase(path) > 0;
  const Status status = node_.files->unlink(node_.root, meta::kRootInode, path, nullptr);
  if (!exists) {
    if (!node_.dead()) {
      EXPECT_EQ(status, Status(Code::not_found)) << where();
    }
    return;
  }
  names_changed(std::move(names), status.ok());
  expect(status, "unlink");
}

void Story::rename() {
  node_.world.trace("rename", 0);
  const std::string from = name();
  const std::string to = name();
  Names names = names_.back();
  if (from == to || !names.contains(from)) return;
  names[to] = names[from];
  names.erase(from);
  const Status status =
      node_.files->rename(node_.root, meta::kRootInode, from, meta::kRootInode, to, {}, nullptr);
  names_changed(std::move(names), status.ok());
  expect(status, "rename");
}

void Story::give_up(size_t index) {
  Open open = std::move(opens_[index]);
  opens_.erase(opens_.begin() + static_cast<ptrdiff_t>(index));
  if (random_.chance(1, 4)) return;  // dropped, not closed
  expect(node_.files->close_file(std::move(open.file)), "close");
}

void Story::collect() {
  node_.world.trace("collect", 0);
  const auto collected = node_.files->collect(1 + random_.below(5));
  expect(collected ? Code::ok : collected.error(), "collect");
}

void Story::step() {
  ++steps_;
  const uint64_t dice = random_.below(100);
  if (dice < 3) return make_many();
  if (opens_.empty() || dice < 14) return create();
  const Open& open = opens_[random_.below(opens_.size())];
  if (dice < 40) {
    write(open);
  } else if (dice < 46) {
    write_many(open);
  } else if (dice < 54) {
    truncate(open.model);
  } else if (dice < 58) {
    punch(open);
  } else if (dice < 68) {
    read(open);
  } else if (dice < 74) {
    sync(open);
  } else if (dice < 76) {
    sync_all();
  } else if (dice < 82) {
    unlink();
  } else if (dice < 88) {
    rename();
  } else if (dice < 95) {
    give_up(random_.below(opens_.size()));
  } else {
    collect();
  }
  if (!node_.dead() && random_.chance(1, 10)) {
    node_.world.run_for(std::chrono::milliseconds(random_.below(300)));
  }
}

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
      const Status asked = node_.caller.call(*node_.loops[i], [&](engine::Op& done) {
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

uint64_t Story::run() {
  EXPECT_TRUE(node_.start());
  const int lives = 3 + static_cast<int>(random_.below(3));
  for (int life = 0; life < lives && !testing::Test::HasFailure(); ++life) {
    node_.plan_death();
    for (int i = 0; i < 120 && !node_.dead() && !testing::Test::HasFailure(); ++i) step();
    if (testing::Test::HasFailure()) break;
    node_.cancel_death();
    node_.bury();
    restart();
  }
  if (!testing::Test::HasFailure()) finish();
  opens_.clear();
  return node_.world.trace_hash();
}

TEST(CrashSimTest, keeps_what_was_synced_and_leaks_nothing_when_killed_at_any_moment) {
  const sim::SeedRange seeds = sim::seed_range(300);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE("PENSTOCK_SEED=" + std::to_string(seed));
    Story(seed).run();
    if (HasFailure()) return;
  }
}

TEST(CrashSimTest, runs_the_same_way_again_when_the_seed_is_the_same) {
  const sim::SeedRange seeds = sim::seed_range(3);
  for (uint64_t seed = seeds.first; seed < seeds.first + std::min<uint64_t>(seeds.count, 3);
       ++seed) {
    EXPECT_EQ(Story(seed).run(), Story(seed).run());
  }
}

}  // namespace
}  // namespace penstock::client
