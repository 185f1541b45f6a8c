#include "small_reads.h"

#include <cerrno>

namespace penstock::apps {

Outcome<SmallReads> SmallReads::create(penstock_session* session) {
  SmallReads made(session);
  TRY_ASSIGN(made.region_, console::create_region(session, kBytes));
  return made;
}

bool SmallReads::takes(const TreeEntry& entry) {
  return S_ISREG(entry.st.st_mode) && static_cast<uint64_t>(entry.st.st_size) <= kFileBytesMax;
}

bool SmallReads::has_room_for(const TreeEntry& entry) const {
  return files_.size() < kFilesMax && static_cast<uint64_t>(entry.st.st_size) <= kBytes - used_;
}

void SmallReads::add(TreeEntry entry, std::string destination) {
  const auto size = static_cast<uint64_t>(entry.st.st_size);
  files_.push_back({std::move(entry), std::move(destination), used_});
  // Blocks begin at their own pages.
  used_ = std::min(kBytes, align_up(used_ + size, 4096));
}

void SmallReads::read(const Check& check) {
  std::vector<penstock_file_read> list(files_.size());
  for (size_t i = 0; i < list.size(); ++i) {
    list[i].path = files_[i].destination.c_str();
    list[i].region = region_.get();
    list[i].region_offset = files_[i].offset;
    list[i].length = static_cast<uint64_t>(files_[i].entry.st.st_size);
  }
  // What goes wrong with the whole is each file's own result.
  if (!list.empty()) (void)penstock_read_files(session_, list.data(), list.size());
  const auto* const memory = static_cast<const std::byte*>(penstock_region_base(region_.get()));
  for (size_t i = 0; i < list.size(); ++i) {
    const penstock_file_read& one = list[i];
    const bool whole = one.result == static_cast<int64_t>(one.length);
    const int error = one.result < 0 ? static_cast<int>(-one.result) : whole ? 0 : ENODATA;
    check(files_[i].entry, error,
          {memory + one.region_offset, error == 0 ? static_cast<size_t>(one.length) : 0});
  }
  files_.clear();
  used_ = 0;
}

}  // namespace penstock::apps
