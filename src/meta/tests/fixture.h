// A file system in memory and short ways to use it.
#pragma once

#include <algorithm>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "penstock/testing_meta.h"

namespace penstock::meta {

class MetaTest : public testing::Test {
 protected:
  MetaTest() { reopen(); }

  void reopen() { meta_ = open_meta(storage_->kv(), clock_, options_); }
  InodeId directory(InodeId parent, const std::string& name, uint32_t mode = 0755,
                    const Credentials& who = {}) {
    const auto made = meta_->make_directory(who, parent, name, mode);
    EXPECT_TRUE(made.has_value());
    return made ? made->inode : InodeId();
  }
  InodeId file(InodeId parent, const std::string& name, uint32_t mode = 0644,
               const Credentials& who = {}) {
    const auto made = meta_->create(who, parent, name, mode, true);
    EXPECT_TRUE(made.has_value());
    return made ? made->inode : InodeId();
  }
  Attributes get(InodeId inode) {
    const auto found = meta_->attributes(inode);
    EXPECT_TRUE(found.has_value());
    return found ? *found : Attributes();
  }
  std::vector<std::string> list(InodeId inode) {
    std::vector<std::string> names;
    EXPECT_TRUE(meta_
                    ->read_directory(inode, 0, SIZE_MAX, false,
                                     [&](const DirectoryEntry& entry, const Attributes* found) {
                                       EXPECT_EQ(found, nullptr);
                                       names.push_back(entry.name);
                                       return true;
                                     })
                    .ok());
    std::sort(names.begin(), names.end());
    return names;
  }
  Status set_mode(const Credentials& who, InodeId inode, uint32_t mode) {
    SetAttributes changes;
    changes.mode = mode;
    const auto result = meta_->set_attributes(who, inode, changes);
    return result ? Status() : result.error();
  }

  const Credentials root_;
  const Credentials alice_{.uid = 100, .gid = 100, .groups = {500}};
  const Credentials bob_{.uid = 200, .gid = 200, .groups = {}};
  TickingClock clock_;
  MetaOptions options_;
  std::unique_ptr<Storage> storage_ = make_storage("memory");
  std::unique_ptr<Meta> meta_;
};

}  // namespace penstock::meta
