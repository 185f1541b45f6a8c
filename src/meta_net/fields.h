// Of what the types of Meta consist, for both directions (io.h).
#pragma once

#include "io.h"

#include <concepts>

#include "penstock/meta.h"

namespace penstock::meta_net {

// A T that is written, or one that is read.
template <class M, class T>
concept Of = std::same_as<std::remove_const_t<M>, T>;

void fields(auto& io, Of<meta::Credentials> auto& m) {
  io(m.uid, m.gid, m.enforce, m.umask);
  io.list(m.groups, limits::kGroupsMax);
}
// Of those that are asked for each field is the Meta's to judge, but that it has a place.
void fields(auto& io, Of<meta::Layout> auto& m) {
  io(m.chunk_bytes_log2, m.chain_first, m.chain_count, m.seed, m.stripe, m.table);
  io.plain(m.scheme);
  io(m.copies);
  io.plain(m.media);
  io.list(m.chains, limits::kChainsMax);
}
void fields(auto& io, Of<meta::Attributes> auto& m) {
  io(m.inode, m.type, m.mode, m.uid, m.gid, m.links, m.length, m.device);
  io(m.accessed, m.modified, m.changed, m.created);
  io(m.layout, m.generation, m.flags, m.has_xattrs, m.sparse, m.allocated, m.acl);
}
void fields(auto& io, Of<meta::SetAttributes> auto& m) {
  io(m.mode, m.uid, m.gid, m.length, m.accessed, m.modified, m.flags, m.keeps_set_ids);
  io(m.accessed_now, m.modified_now, m.chown_to_nobody, m.leaves_blocks);
}
void fields(auto& io, Of<meta::DirectoryEntry> auto& m) {
  io(m.name, m.inode, m.type, m.cookie);
}
void fields(auto& io, Of<meta::Removed> auto& m) {
  io(m.inode, m.last_link);
  if (m.inode != InodeId()) io(m.attributes);
}
void fields(auto& io, Of<meta::RenameFlags> auto& m) {
  io(m.no_replace, m.exchange);
}
void fields(auto& io, Of<meta::Settled> auto& m) {
  io(m.length, m.modified, m.only_grow, m.sparse, m.end_session);
}
void fields(auto& io, Of<meta::FileWriter> auto& m) {
  io(m.who, m.keeps_set_ids);
}
void fields(auto& io, Of<meta::PrivilegesTaken> auto& m) {
  io(m.any, m.set_ids_left);
}
void fields(auto& io, Of<meta::ResolvedParent> auto& m) {
  io(m.parent, m.name, m.must_be_directory);
}
void fields(auto& io, Of<meta::NewFile> auto& m) {
  io(m.inode, m.parent, m.name, m.layout, m.replace);
}
void fields(auto& io, Of<meta::CompleteFile> auto& m) {
  io(m.place, m.mode, m.length, m.changes, m.sparse);
}
void fields(auto& io, Of<meta::MadeFile> auto& m) {
  io(m.attributes, m.replaced);
}
void fields(auto& io, Of<meta::Creation> auto& m) {
  io(m.id, m.begin_write);
}
void fields(auto& io, Of<meta::Meta::Accessed> auto& m) {
  io(m.inode, m.when);
}
void fields(auto& io, Of<meta::FileSystemCounts> auto& m) {
  io(m.inodes, m.capacity.total_bytes, m.capacity.free_bytes);
}
// Which kinds there are is the Meta's to judge.
void fields(auto& io, Of<meta::QuotaSubject> auto& m) {
  io.plain(m.kind);
  io(m.id);
}
void fields(auto& io, Of<meta::QuotaLimits> auto& m) {
  io(m.bytes, m.inodes);
}
void fields(auto& io, Of<meta::QuotaUsage> auto& m) {
  io(m.bytes, m.inodes);
}
void fields(auto& io, Of<meta::Quota> auto& m) {
  io(m.subject, m.limits, m.used, m.promised, m.counted, m.path);
}
void fields(auto& io, Of<meta::QuotaCheck> auto& m) {
  io(m.quota, m.found);
}
void fields(auto& io, Of<meta::TrashSetting> auto& m) {
  io(m.directory, m.days, m.path);
}
void fields(auto& io, Of<meta::TrashDays> auto& m) {
  io(m.days, m.set_at);
}
void fields(auto& io, Of<meta::TrashEmptied> auto& m) {
  io(m.removed, m.last, m.gone, m.finished);
  io.list(m.orphans, limits::kTrashPerAnswer);
  io.list(m.linked, limits::kTrashPerAnswer);
}

}  // namespace penstock::meta_net
