#include "structure.h"

#include "limits.h"

#include <algorithm>
#include <cstring>

namespace penstock::meta_text {
namespace {

using meta::FileType;

Failure breaks(std::string rule) {
  return {Code::corrupt, std::move(rule)};
}

}  // namespace

// A directory has one name, in its parent; others may have names anywhere.
KeyedHash::Value Structure::name_of(InodeId inode, FileType type, InodeId parent) const {
  ASSERT(inode != InodeId() && type <= FileType::block);
  const uint64_t words[] = {inode.value, static_cast<uint64_t>(type),
                            type == FileType::directory ? parent.value : 0};
  char bytes[sizeof words];
  std::memcpy(bytes, words, sizeof words);
  return hash_.of({bytes, sizeof bytes});
}

Outcome<void> Structure::add(const NextLine& line) {
  if (stage_ != Stage::begin) return breaks("a second next id");
  if (line.next < meta::kFirstId || line.next > meta::kIdMax) return breaks("no possible next id");
  stage_ = Stage::next;
  next_ = line.next;
  return {};
}

Outcome<void> Structure::add_root() const {
  if (inode_.id() != meta::kRootInode || !inode_.is_directory() ||
      inode_.parent != meta::kRootInode || inode_.attributes.links == 0) {
    return breaks("the first inode is not the root directory");
  }
  return {};
}

Outcome<void> Structure::add(const InodeLine& line) {
  const bool is_first = stage_ == Stage::next;
  if (!is_first && stage_ != Stage::inodes) return breaks("an inode out of order");
  TRY(end_inode());
  const meta::Attributes& attributes = line.inode.attributes;
  if (!is_first && line.inode.id() <= inode_.id()) return breaks("inodes are not in order");
  if (!is_first && line.inode.id().value < meta::kFirstId) return breaks("an id that is reserved");
  if (line.inode.id().value >= next_) return breaks("an id beyond the next one");
  stage_ = Stage::inodes;
  inode_ = line.inode;
  last_xattr_.clear();
  xattr_bytes_ = 0;
  last_cookie_ = 0;
  subdirectories_ = 0;
  ++counts_.inodes;
  if (is_first) TRY(add_root());
  if (attributes.type == FileType::regular || inode_.is_directory()) {
    const meta::Layout& layout = attributes.layout;
    // Of those that the cluster has, its controller knows.
    if (layout.chain_first < kFirstSharedChain.value) {
      chains_ = std::max(chains_, uint64_t{layout.chain_first} + layout.chain_count);
    } else {
      ++on_cluster_;
    }
  }
  const KeyedHash::Value name = name_of(inode_.id(), attributes.type, inode_.parent);
  if (!inode_.is_directory()) {
    wanted_ += name * attributes.links;
  } else if (attributes.links > 0) {
    ++directories_;
    if (!is_first) wanted_ += name;
  }
  return {};
}

Outcome<void> Structure::add(const XattrLine& line) {
  if (stage_ != Stage::inodes || line.inode != inode_.id() || last_cookie_ != 0) {
    return breaks("an extended attribute that does not stand behind its inode");
  }
  if (line.name <= last_xattr_) return breaks("extended attributes are not in order");
  const size_t bytes = xattr_bytes_ + line.name.size() + 1;
  if (bytes > meta::kXattrListBytesMax) return breaks("more extended attributes than an inode has");
  last_xattr_ = line.name;
  xattr_bytes_ = static_cast<uint32_t>(bytes);
  ++counts_.xattrs;
  return {};
}

Outcome<void> Structure::add(const EntryLine& line) {
  if (stage_ != Stage::inodes || line.directory != inode_.id()) {
    return breaks("an entry that does not stand behind its directory");
  }
  if (!inode_.is_directory() || inode_.attributes.links == 0) {
    return breaks("an entry of what is no directory, or a removed one");
  }
  if (line.cookie <= last_cookie_) return breaks("entries are not in order");
  if (line.cookie >= next_) return breaks("a cookie beyond the next id");
  if (line.entry.inode == meta::kRootInode) return breaks("an entry that names the root");
  last_cookie_ = line.cookie;
  subdirectories_ += line.entry.type == FileType::directory ? 1 : 0;
  found_ += name_of(line.entry.inode, line.entry.type, line.directory);
  ++counts_.entries;
  return {};
}

Outcome<void> Structure::add(const SessionLine& line) {
  if (stage_ == Stage::inodes) TRY(end_inode());
  if (stage_ != Stage::inodes && stage_ != Stage::sessions) return breaks("a session out of order");
  if (line.inode <= last_session_) return breaks("sessions are not in order");
  if (line.token >= next_) return breaks("a token beyond the next id");
  stage_ = Stage::sessions;
  last_session_ = line.inode;
  ++counts_.sessions;
  return {};
}

Outcome<void> Structure::end_inode() const {
  if (stage_ != Stage::inodes || !inode_.is_directory()) return {};
  if (inode_.attributes.links == 0) {
    ASSERT(subdirectories_ == 0);
    return {};
  }
  // Those of the trash do not count them.
  const uint64_t counted = inode_.trash == meta::TrashPart::none ? subdirectories_ : 0;
  if (inode_.attributes.links == 2 + counted) return {};
  return breaks(fmt::format("directory {} says {} links, and has {} subdirectories",
                            inode_.id().value, inode_.attributes.links, subdirectories_));
}

Outcome<void> Structure::finish() {
  TRY(end_inode());
  if (stage_ != Stage::inodes && stage_ != Stage::sessions) return breaks("there is no inode");
  stage_ = Stage::end;
  ASSERT(directories_ <= counts_.inodes);
  if (wanted_ != found_) {
    return breaks("entries do not name what inodes say that names them, by number, type or parent");
  }
  return {};
}

}  // namespace penstock::meta_text
