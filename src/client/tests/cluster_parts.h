// What programs on two nodes do with files that lie on the other node, and what they may see. Each
// part has files and names of its own.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "penstock/testing_cluster.h"

namespace penstock::client {

inline constexpr size_t kClusterNodes = 2;
inline constexpr size_t kClusterPrograms = 4;  // dealt out to the nodes in turn

// A file that stays open from one operation to the next, in one life of its node.
class KeptOpen {
 public:
  // Null if it cannot be opened. `again`: an open that is there is dropped before.
  FileRef get(const std::shared_ptr<FileSystem>& files, const std::string& path, bool again);
  void drop() { file_ = nullptr; }

 private:
  std::weak_ptr<FileSystem> life_;
  FileRef file_;
};

// A file whose blocks are registers, on one node.
class WatchedFile {
 public:
  WatchedFile(sim::SimWorld& world, std::string path) : world_(world), path_(std::move(path)) {}

  // Each is one operation, true if it succeeded. Of one open by one program.
  bool write(FileSystem& files, const FileRef& file, uint32_t block, bool durable);
  bool read(FileSystem& files, const FileRef& file, uint32_t block);
  bool sync(FileSystem& files, const FileRef& file, bool only_data);
  bool cut(FileSystem& files, const FileRef& file, uint32_t length);

  void node_died() { model_.node_died(); }
  const std::string& path() const { return path_; }
  static constexpr uint32_t kBlocks = 24;  // in two chunks

 private:
  void trace(const std::string& what, uint64_t block);

  sim::SimWorld& world_;
  const std::string path_;
  test::RegisterFile model_{kBlocks};
};

// The programs of a node share a file: each writes half of the blocks, durably or not, all read
// and sync it.
class SharedFiles {
 public:
  explicit SharedFiles(test::FaultyPair& pair) : pair_(pair) {}
  bool step(size_t node, size_t program, engine::Random& random);
  void node_died();
  void sync_all();
  void check_all();
  void drop_all();

 private:
  test::FaultyPair& pair_;
  std::array<WatchedFile, kClusterNodes> files_{WatchedFile(pair_.world(), "/shared"),
                                                WatchedFile(pair_.world(), "/shared")};
  std::array<KeptOpen, kClusterPrograms> opens_;
};

// Each program has a file that it writes, cuts and syncs, while all programs of its node read it.
class CutFiles {
 public:
  explicit CutFiles(test::FaultyPair& pair);
  bool step(size_t node, size_t program, engine::Random& random);
  void node_died();
  void sync_all();
  void check_all();
  void drop_all();

 private:
  bool change(FileSystem& files, size_t program, engine::Random& random);

  test::FaultyPair& pair_;
  std::vector<WatchedFile> files_;                                              // of each program
  std::array<std::array<KeptOpen, kClusterPrograms>, kClusterPrograms> opens_;  // by whom, of whose
};

// Each program has some names in the root directory of its node, which lead to files that hold a
// number and never change: it makes, removes, links and moves them, while all programs of its node
// look. What a name leads to is a register.
class OwnedNames {
 public:
  explicit OwnedNames(test::FaultyPair& pair) : pair_(pair) {}
  bool step(size_t node, size_t program, engine::Random& random);
  // Only a power cut takes back what was said about names.
  void node_died(size_t node, bool power_cut);
  // Of the directory, or of everything; covers the names of all programs of the node.
  bool sync(size_t node, FileSystem& files, bool everything);
  void check_all();

 private:
  static constexpr size_t kNames = 3;
  struct Name {
    std::string text;
    test::Register found;
  };
  struct Found {
    bool well = false;
    uint64_t number = 0;  // 0: there is no such name
    InodeId inode;
  };

  Name& name_of(size_t program, size_t index) { return names_[program][index]; }
  Found look(FileSystem& files, Name& name);
  bool make(FileSystem& files, size_t program, Name& name, engine::Random& random);
  bool make_whole(FileSystem& files, Name& name, std::string& bytes, uint64_t number);
  bool make_aside(FileSystem& files, const std::string& aside, Name& name, std::string& bytes,
                  uint64_t number);
  bool remove(FileSystem& files, Name& name);
  bool link(FileSystem& files, Name& from, Name& to);
  bool move(FileSystem& files, Name& from, Name& to);

  static std::array<Name, kNames> names_of(size_t program);

  test::FaultyPair& pair_;
  std::array<std::array<Name, kNames>, kClusterPrograms> names_{names_of(0), names_of(1),
                                                                names_of(2), names_of(3)};
  std::array<uint64_t, kClusterNodes> power_cuts_{};
  uint64_t numbers_ = 0;
};

engine::MemoryRef memory_of_string(std::string& bytes);

}  // namespace penstock::client
