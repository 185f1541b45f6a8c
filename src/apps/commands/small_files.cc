#include "small_files.h"

#include <cerrno>
#include <unistd.h>

namespace penstock::apps {

Outcome<SmallFiles> SmallFiles::create(penstock_session* session) {
  SmallFiles made(session);
  TRY_ASSIGN(made.region_, console::create_region(session, kBytes));
  return made;
}

bool SmallFiles::takes(const TreeEntry& entry) {
  const auto size = static_cast<uint64_t>(entry.st.st_size);
  const auto stored = static_cast<uint64_t>(entry.st.st_blocks) * 512;
  return S_ISREG(entry.st.st_mode) && size <= kFileBytesMax && stored >= size;
}

bool SmallFiles::has_room_for(const TreeEntry& entry) const {
  return files_.size() < files_max_ && static_cast<uint64_t>(entry.st.st_size) <= kBytes - used_;
}

bool SmallFiles::add(const TreeFiles& tree, TreeEntry& entry, std::string destination) {
  const UniqueFd source = tree.open(entry);
  if (!source) return false;
  const auto size = static_cast<size_t>(entry.st.st_size);
  auto* const memory = static_cast<std::byte*>(penstock_region_base(region_.get())) + used_;
  for (size_t got = 0; got < size;) {
    const ssize_t n = ::read(source.get(), memory + got, size - got);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    got += static_cast<size_t>(n);
  }
  penstock_new_file request{};
  request.result = -EIO;  // unless it is said otherwise
  request.region = region_.get();
  request.region_offset = used_;
  request.length = size;
  request.mode = entry.st.st_mode & 07777;
  request.flags = PENSTOCK_REPLACE;
  const bool foreign = entry.st.st_uid != 0 || entry.st.st_gid != 0;
  const bool as_its_owner = is_root_ && foreign;
  request.uid = as_its_owner ? entry.st.st_uid : static_cast<uid_t>(-1);
  request.gid = as_its_owner ? entry.st.st_gid : static_cast<gid_t>(-1);
  request.times[0] = entry.st.st_atim;
  request.times[1] = entry.st.st_mtim;
  requests_.push_back(request);
  files_.push_back({std::move(entry), std::move(destination)});
  // Blocks begin at their own pages.
  used_ = std::min(kBytes, align_up(used_ + size, 4096));
  return true;
}

void SmallFiles::create_all() {
  for (size_t i = 0; i < files_.size(); ++i) requests_[i].path = files_[i].destination.c_str();
  // Whatever goes wrong is each file's own, to be tried, and told, one by one.
  if (!files_.empty()) (void)penstock_create_files(session_, requests_.data(), requests_.size());
}

}  // namespace penstock::apps
