// The operations, and how lives follow one another.
#include "story.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace penstock::client {
namespace {

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

}  // namespace

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
    // A write far beyond its end makes it durable, with what was there then: nothing is known of
    // names that change between that and a sync.
    model->known_durable = true;
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

}  // namespace penstock::client
