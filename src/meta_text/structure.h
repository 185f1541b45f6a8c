// What holds between the lines of a text, in bounded memory: their order, and that inodes, entries
// and links agree. The same for a dump and for a load, so that what cannot be loaded is not dumped.
#pragma once

#include "keyed_hash.h"
#include "lines.h"

#include <string>

#include "penstock/engine.h"

namespace penstock::meta_text {

// Lines are added in their order. A failure says in words which rule the line breaks, with corrupt;
// nothing is to be added after it.
class Structure {
 public:
  explicit Structure(engine::Random& random) : hash_(random) {}

  Outcome<void> add(const NextLine& line);
  Outcome<void> add(const InodeLine& line);
  Outcome<void> add(const XattrLine& line);
  Outcome<void> add(const EntryLine& line);
  Outcome<void> add(const SessionLine& line);
  // Nothing comes any more but the last line.
  Outcome<void> finish();

  const Counts& counts() const { return counts_; }
  uint64_t next() const { return next_; }
  // Those that have links.
  uint64_t directories() const { return directories_; }
  // What the record of the newest inode says of its attributes, by those that were added so far.
  uint32_t xattr_bytes() const { return xattr_bytes_; }
  // So many chains of its own a store must have for all layouts.
  uint64_t chains() const { return chains_; }
  // How many files and directories lie on chains of a cluster.
  uint64_t on_cluster() const { return on_cluster_; }

 private:
  enum class Stage { begin, next, inodes, sessions, end };

  Outcome<void> add_root() const;
  Outcome<void> end_inode() const;
  KeyedHash::Value name_of(InodeId inode, meta::FileType type, InodeId parent) const;

  const KeyedHash hash_;
  Stage stage_ = Stage::begin;
  Counts counts_;
  uint64_t next_ = 0;
  uint64_t directories_ = 0;
  uint64_t chains_ = 0;
  uint64_t on_cluster_ = 0;
  // Of what inodes say that names them, and of what entries name; equal at the end.
  KeyedHash::Value wanted_ = 0;
  KeyedHash::Value found_ = 0;

  // The inode at hand, and what was added of it.
  meta::Inode inode_;
  std::string last_xattr_;
  uint32_t xattr_bytes_ = 0;
  uint64_t last_cookie_ = 0;
  uint64_t subdirectories_ = 0;

  InodeId last_session_;
};

}  // namespace penstock::meta_text
