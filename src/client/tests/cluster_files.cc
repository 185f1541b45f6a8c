// Files whose blocks are registers.
#include "cluster_parts.h"

#include <gtest/gtest.h>

namespace penstock::client {

using test::RegisterFile;

engine::MemoryRef memory_of_string(std::string& bytes) {
  return {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()};
}

FileRef KeptOpen::get(const std::shared_ptr<FileSystem>& files, const std::string& path,
                      bool again) {
  const bool same_life = life_.lock() == files;
  if (same_life && file_ != nullptr && !again) return file_;
  file_ = nullptr;
  life_ = files;
  const auto opened =
      files->open_path(Credentials(), path, {.write = true, .create = true}, 0644, {}, nullptr);
  if (opened) file_ = *opened;
  return file_;
}

void WatchedFile::trace(const std::string& what, uint64_t block) {
  world_.trace(path_ + " " + what, block);
}

bool WatchedFile::write(FileSystem& files, const FileRef& file, uint32_t block, bool durable) {
  std::string bytes = model_.begin_write(block);
  trace("write", block);
  const Result<uint64_t> done = files.write(file, RegisterFile::offset(block),
                                            memory_of_string(bytes), durable, nullptr, nullptr);
  const bool well = done && *done == bytes.size();
  model_.end_write(block, well, durable);
  trace(well ? "written" : "not written", block);
  return well;
}

bool WatchedFile::read(FileSystem& files, const FileRef& file, uint32_t block) {
  const uint64_t begun_at = model_.begin_read(block);
  std::string bytes(RegisterFile::kBlock, '\0');
  const Result<uint64_t> got =
      files.read(file, RegisterFile::offset(block), memory_of_string(bytes));
  if (!got) return false;
  // What lies behind the end of the file reads as nothing.
  bytes.resize(*got);
  bytes.resize(RegisterFile::kBlock, '\0');
  EXPECT_EQ(model_.check(block, begun_at, bytes), "") << path_ << " (seed " << world_.seed() << ")";
  return true;
}

bool WatchedFile::sync(FileSystem& files, const FileRef& file, bool only_data) {
  const RegisterFile::Sync sync = model_.begin_sync();
  const bool well = files.sync_file(file, only_data).ok();
  model_.end_sync(sync, well);
  return well;
}

bool WatchedFile::cut(FileSystem& files, const FileRef& file, uint32_t length) {
  model_.begin_cut(length);
  trace("cut", length);
  meta::SetAttributes changes;
  changes.length = RegisterFile::offset(length);
  const bool well =
      files.set_attributes(Credentials(), inode_of(*file), changes, nullptr).has_value();
  model_.end_cut(length, well);
  trace(well ? "was cut" : "was not cut", length);
  return well;
}

bool SharedFiles::step(size_t node, size_t program, engine::Random& random) {
  const std::shared_ptr<FileSystem> files = pair_.node(node).files();
  if (files == nullptr) return false;
  WatchedFile& watched = files_[node];
  const FileRef file = opens_[program].get(files, watched.path(), random.chance(1, 3));
  if (file == nullptr) return false;
  const uint64_t dice = random.below(10);
  if (dice < 4) {
    const auto mine =
        static_cast<uint32_t>(program / 2 + 2 * random.below(WatchedFile::kBlocks / 2));
    return watched.write(*files, file, mine, random.chance(1, 2));
  }
  if (dice < 6) return watched.sync(*files, file, random.chance(1, 2));
  return watched.read(*files, file, static_cast<uint32_t>(random.below(WatchedFile::kBlocks)));
}

void SharedFiles::node_died() {
  for (WatchedFile& file : files_) file.node_died();
}

void SharedFiles::sync_all() {
  for (size_t node = 0; node < kClusterNodes; ++node) {
    const std::shared_ptr<FileSystem> files = pair_.node(node).files();
    const FileRef file = opens_[node].get(files, files_[node].path(), false);
    EXPECT_TRUE(files_[node].sync(*files, file, false)) << pair_.where();
  }
}

void SharedFiles::check_all() {
  for (size_t node = 0; node < kClusterNodes; ++node) {
    const std::shared_ptr<FileSystem> files = pair_.node(node).files();
    const FileRef file = opens_[node].get(files, files_[node].path(), false);
    for (uint32_t block = 0; block < WatchedFile::kBlocks; ++block) {
      EXPECT_TRUE(files_[node].read(*files, file, block)) << pair_.where();
    }
  }
}

void SharedFiles::drop_all() {
  for (KeptOpen& open : opens_) open.drop();
}

CutFiles::CutFiles(test::FaultyPair& pair) : pair_(pair) {
  for (size_t program = 0; program < kClusterPrograms; ++program) {
    files_.emplace_back(pair.world(), "/cut" + std::to_string(program));
  }
}

bool CutFiles::change(FileSystem& files, size_t program, engine::Random& random) {
  constexpr uint32_t kBlocks = WatchedFile::kBlocks;
  WatchedFile& mine = files_[program];
  const FileRef file = opens_[program][program].get(pair_.node(program % kClusterNodes).files(),
                                                    mine.path(), random.chance(1, 3));
  if (file == nullptr) return false;
  const uint64_t dice = random.below(10);
  if (dice < 5) {
    return mine.write(files, file, static_cast<uint32_t>(random.below(kBlocks)),
                      random.chance(1, 3));
  }
  if (dice < 8) {
    const bool well = mine.cut(files, file, static_cast<uint32_t>(random.below(kBlocks + 1)));
    // A cut that failed may have left bytes behind the end, which are removed when the file is
    // opened for writing again. An open that is there and makes it longer brings them back: see
    // PLAN.md.
    if (!well) opens_[program][program].drop();
    return well;
  }
  return mine.sync(files, file, random.chance(1, 2));
}

bool CutFiles::step(size_t node, size_t program, engine::Random& random) {
  const std::shared_ptr<FileSystem> files = pair_.node(node).files();
  if (files == nullptr) return false;
  if (random.chance(1, 2)) return change(*files, program, random);
  const size_t whose = random.chance(1, 2) ? program : (program + 2) % kClusterPrograms;
  const FileRef file = opens_[program][whose].get(files, files_[whose].path(), random.chance(1, 3));
  if (file == nullptr) return false;
  return files_[whose].read(*files, file,
                            static_cast<uint32_t>(random.below(WatchedFile::kBlocks)));
}

void CutFiles::node_died() {
  for (WatchedFile& file : files_) file.node_died();
}

void CutFiles::sync_all() {
  for (size_t program = 0; program < kClusterPrograms; ++program) {
    const std::shared_ptr<FileSystem> files = pair_.node(program % kClusterNodes).files();
    const FileRef file = opens_[program][program].get(files, files_[program].path(), false);
    EXPECT_TRUE(files_[program].sync(*files, file, false)) << pair_.where();
  }
}

void CutFiles::check_all() {
  for (size_t program = 0; program < kClusterPrograms; ++program) {
    const std::shared_ptr<FileSystem> files = pair_.node(program % kClusterNodes).files();
    const FileRef file = opens_[program][program].get(files, files_[program].path(), false);
    for (uint32_t block = 0; block < WatchedFile::kBlocks; ++block) {
      EXPECT_TRUE(files_[program].read(*files, file, block)) << pair_.where();
    }
  }
}

void CutFiles::drop_all() {
  for (auto& opens : opens_) {
    for (KeptOpen& open : opens) open.drop();
  }
}

}  // namespace penstock::client
