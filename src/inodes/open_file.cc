#include "penstock/inodes/open_file.h"

namespace penstock::inodes {

InodeId inode_of(const OpenFile& file) {
  return file.inode().id;
}
locks::Open& locks_of(const OpenFile& file) {
  return file.locks();
}
bool may_read(const OpenFile& file) {
  return file.may_read();
}
bool may_write(const OpenFile& file) {
  return file.may_write();
}
bool access_is_due(const OpenFile& file) {
  return file.access_is_due();
}
bool may_lose_privileges(const OpenFile& file, bool keeps_set_ids) {
  return file.inode().may_lose_privileges(keeps_set_ids);
}
uint32_t privileges_taken(const OpenFile& file) {
  return file.inode().privileges_taken.load(std::memory_order_relaxed);
}
uint64_t length_of(const OpenFile& file) {
  return file.inode().visible_length();
}

}  // namespace penstock::inodes
