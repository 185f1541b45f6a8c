// Names as registers.
#include "cluster_parts.h"

#include <gtest/gtest.h>

namespace penstock::client {

using test::Register;
using Written = test::Register::Written;

namespace {

// Of the files behind names: one block, or two chunks.
constexpr size_t kShort = 4096;
constexpr size_t kLong = 68 * 1024;

Written end_of(const Status& status) {
  return status.ok() ? Written::for_now : Written::perhaps;
}

}  // namespace

std::array<OwnedNames::Name, OwnedNames::kNames> OwnedNames::names_of(size_t program) {
  std::array<Name, kNames> names;
  for (size_t i = 0; i < kNames; ++i) {
    names[i].text = "name" + std::to_string(program) + "." + std::to_string(i);
  }
  return names;
}

bool OwnedNames::step(size_t node, size_t program, engine::Random& random) {
  const std::shared_ptr<FileSystem> files = pair_.node(node).files();
  if (files == nullptr) return false;
  const size_t index = random.below(kNames);
  Name& mine = name_of(program, index);
  Name& other = name_of(program, (index + 1 + random.below(kNames - 1)) % kNames);
  const uint64_t dice = random.below(20);
  if (dice < 7) return make(*files, program, mine, random);
  if (dice < 9) return remove(*files, mine);
  if (dice < 11) return link(*files, mine, other);
  if (dice < 13) return move(*files, mine, other);
  if (dice < 15) return sync(node, *files, random.chance(1, 2));
  const size_t whose = random.chance(1, 2) ? program : (program + 2) % kClusterPrograms;
  return look(*files, name_of(whose, index)).well;
}

OwnedNames::Found OwnedNames::look(FileSystem& files, Name& name) {
  const uint64_t begun_at = name.found.begin_read();
  Found found;
  const auto file = files.open_path(Credentials(), "/" + name.text, {}, 0, {}, nullptr);
  if (!file && file.error() != Code::not_found) return {};
  if (file) {
    found.inode = inode_of(**file);
    std::string bytes(kLong, '?');
    const Result<uint64_t> got = files.read(*file, 0, memory_of_string(bytes));
    if (!got) return {};
    bytes.resize(*got);
    EXPECT_EQ(test::read_number(bytes, found.number), "") << name.text << " " << pair_.where();
    EXPECT_NE(found.number, 0u) << name.text << " " << pair_.where();
  }
  EXPECT_EQ(name.found.check(begun_at, found.number), "") << name.text << " " << pair_.where();
  found.well = true;
  return found;
}

bool OwnedNames::make(FileSystem& files, size_t program, Name& name, engine::Random& random) {
  const uint64_t number = ++numbers_;
  std::string bytes = test::bytes_of_number(number, random.chance(1, 3) ? kLong : kShort);
  if (random.chance(1, 3)) return make_whole(files, name, bytes, number);
  return make_aside(files, "aside" + std::to_string(program), name, bytes, number);
}

// Content first, then the name.
bool OwnedNames::make_whole(FileSystem& files, Name& name, std::string& bytes, uint64_t number) {
  const std::string path = "/" + name.text;
  NewFile file;
  file.path = path;
  file.mode = 0644;
  file.replace = true;
  if (!files.place_files(Credentials(), {&file, 1}).ok() || file.file == nullptr) return false;
  const Result<uint64_t> written =
      files.write(file.file, 0, memory_of_string(bytes), true, nullptr, nullptr);
  const bool is_whole = written && *written == bytes.size();
  if (!is_whole) file.status = Code::cancelled;
  if (is_whole) name.found.begin_write(number);
  const Status made = files.make_files(Credentials(), {&file, 1}, nullptr);
  const bool well = is_whole && made.ok() && file.status.ok();
  if (is_whole) name.found.end_write(well ? Written::for_now : Written::perhaps);
  return well;
}

// Under another name first, which then replaces the wanted one.
bool OwnedNames::make_aside(FileSystem& files, const std::string& aside, Name& name,
                            std::string& bytes, uint64_t number) {
  const Credentials root;
  // An earlier try may have left it.
  const Status gone = files.unlink(root, meta::kRootInode, aside, nullptr);
  if (!gone.ok() && gone != Code::not_found) return false;
  const auto file = files.open_name(root, meta::kRootInode, aside,
                                    {.write = true, .create = true, .exclusive = true}, 0644, {},
                                    true, nullptr, nullptr);
  if (!file) return false;
  const Result<uint64_t> written =
      files.write(*file, 0, memory_of_string(bytes), true, nullptr, nullptr);
  if (!written || *written != bytes.size()) return false;
  name.found.begin_write(number);
  const Status renamed =
      files.rename(root, meta::kRootInode, aside, meta::kRootInode, name.text, {}, nullptr);
  name.found.end_write(end_of(renamed));
  return renamed.ok();
}

bool OwnedNames::remove(FileSystem& files, Name& name) {
  const uint64_t begun_at = name.found.begin_read();
  name.found.begin_write(0);
  const Status removed = files.unlink(Credentials(), meta::kRootInode, name.text, nullptr);
  const bool was_gone = removed == Code::not_found;
  if (was_gone) {
    EXPECT_EQ(name.found.check(begun_at, 0), "") << name.text << " " << pair_.where();
  }
  name.found.end_write(was_gone ? Written::for_now : end_of(removed));
  return was_gone || removed.ok();
}

bool OwnedNames::link(FileSystem& files, Name& from, Name& to) {
  const Found found = look(files, from);
  if (!found.well || found.number == 0) return found.well;
  to.found.begin_write(found.number);
  const auto linked = files.link(Credentials(), found.inode, meta::kRootInode, to.text, nullptr);
  to.found.end_write(linked ? Written::for_now : Written::perhaps);
  return linked || linked.error() == Code::already_exists;
}

bool OwnedNames::move(FileSystem& files, Name& from, Name& to) {
  const Found found = look(files, from);
  const Found target = look(files, to);
  if (!found.well || !target.well) return false;
  // Two names of one file stay, says POSIX.
  if (found.number == 0 || found.inode == target.inode) return true;
  from.found.begin_write(0);
  to.found.begin_write(found.number);
  const Status renamed = files.rename(Credentials(), meta::kRootInode, from.text, meta::kRootInode,
                                      to.text, {}, nullptr);
  from.found.end_write(end_of(renamed));
  to.found.end_write(end_of(renamed));
  return renamed.ok();
}

bool OwnedNames::sync(size_t node, FileSystem& files, bool everything) {
  std::vector<std::pair<Register*, uint64_t>> written;
  for (size_t program = node; program < kClusterPrograms; program += kClusterNodes) {
    for (Name& name : names_[program]) written.emplace_back(&name.found, name.found.written());
  }
  const uint64_t power_cuts = power_cuts_[node];
  const Status synced = everything ? files.sync_all() : files.meta().sync();
  if (synced.ok() && power_cuts == power_cuts_[node]) {
    for (const auto& [found, number] : written) found->synced(number);
  }
  return synced.ok();
}

void OwnedNames::node_died(size_t node, bool power_cut) {
  if (!power_cut) return;
  ++power_cuts_[node];
  for (size_t program = node; program < kClusterPrograms; program += kClusterNodes) {
    for (Name& name : names_[program]) name.found.die();
  }
}

void OwnedNames::check_all() {
  for (size_t program = 0; program < kClusterPrograms; ++program) {
    const std::shared_ptr<FileSystem> files = pair_.node(program % kClusterNodes).files();
    for (Name& name : names_[program]) {
      EXPECT_TRUE(look(*files, name).well) << name.text << " " << pair_.where();
    }
  }
}

}  // namespace penstock::client
