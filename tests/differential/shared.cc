#include "shared.h"

namespace penstock::differential {
namespace {

size_t place_of(uint64_t inode) {
  return (inode * 0x9e3779b97f4a7c15ULL >> 40) % Notes::kPlaces;
}

}  // namespace

Note* Notes::find(uint64_t host_inode, bool& fresh) {
  size_t place = place_of(host_inode);
  for (size_t tried = 0; tried < kPlaces; tried++, place = (place + 1) % kPlaces) {
    Note& note = notes_[place];
    fresh = note.host_inode == 0;
    if (fresh) {
      note.host_inode = host_inode;
      return &note;
    }
    if (note.host_inode == host_inode) return &note;
  }
  return nullptr;
}

uint64_t Notes::partner(uint64_t mount_inode, uint64_t host_inode) {
  size_t place = place_of(mount_inode);
  for (size_t tried = 0; tried < kPlaces; tried++, place = (place + 1) % kPlaces) {
    Partner& known = partners_[place];
    if (known.mount_inode == mount_inode) return known.host_inode;
    if (known.mount_inode != 0) continue;
    known = {mount_inode, host_inode};
    break;
  }
  return 0;
}

}  // namespace penstock::differential
