#include "operations.h"

#include "limits.h"

namespace penstock::fuse {
namespace {

void begin(void*, fuse_conn_info* connection) {
  const auto want = [&](unsigned capability) {
    if (connection->capable & capability) connection->want |= capability;
  };
  const auto refuse = [&](unsigned capability) { connection->want &= ~capability; };
  want(FUSE_CAP_ASYNC_READ);
  want(FUSE_CAP_ASYNC_DIO);
  want(FUSE_CAP_EXPORT_SUPPORT);
  want(FUSE_CAP_PARALLEL_DIROPS);
  want(FUSE_CAP_READDIRPLUS);
  want(FUSE_CAP_READDIRPLUS_AUTO);
  want(FUSE_CAP_CACHE_SYMLINKS);
  // Access control lists are checked by the kernel; modes come whole, with the umask beside them,
  // since a directory's default list takes its place.
  want(FUSE_CAP_POSIX_ACL);
  want(FUSE_CAP_DONT_MASK);
  // We say when pages are stale; a new modification time does not mean that all of them are.
  want(FUSE_CAP_EXPLICIT_INVAL_DATA);
  refuse(FUSE_CAP_AUTO_INVAL_DATA);
  // Data is in memory of ours when a request is served, so there is nothing to splice from.
  refuse(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE);
  // Rings write the same files, so the kernel may not sit on what programs wrote.
  refuse(FUSE_CAP_WRITEBACK_CACHE);
  // Who takes privileges away is settled by `newer_requests`. A kernel that does it itself forgets
  // it where opening truncates, unless that is a set_attributes.
  refuse(FUSE_CAP_HANDLE_KILLPRIV | FUSE_CAP_ATOMIC_O_TRUNC);
  // One node: the kernel's own locks are the truth.
  refuse(FUSE_CAP_POSIX_LOCKS | FUSE_CAP_FLOCK_LOCKS);
  connection->max_write = kRequestBytesMax;
  connection->max_read = kRequestBytesMax;
  connection->max_background = kBackgroundMax;
  connection->congestion_threshold = kBackgroundMax * 3 / 4;
  connection->time_gran = 1;
}

}  // namespace

const fuse_lowlevel_ops& operations() {
  static const fuse_lowlevel_ops all = [] {
    fuse_lowlevel_ops ops{};
    ops.init = begin;
    ops.lookup = Guarded<lookup>::run;
    ops.forget = Guarded<forget>::run;
    ops.forget_multi = Guarded<forget_many>::run;
    ops.readlink = Guarded<read_link>::run;
    ops.mknod = Guarded<ChangesNames<make_node>::run>::run;
    ops.mkdir = Guarded<ChangesNames<make_directory>::run>::run;
    ops.unlink = Guarded<ChangesNames<unlink>::run>::run;
    ops.rmdir = Guarded<ChangesNames<remove_directory>::run>::run;
    ops.symlink = Guarded<ChangesNames<make_symlink>::run>::run;
    ops.rename = Guarded<ChangesNames<rename>::run>::run;
    ops.link = Guarded<ChangesNames<link>::run>::run;
    ops.getattr = Guarded<get_attributes>::run;
    ops.setattr = Guarded<set_attributes>::run;
    ops.statfs = Guarded<statistics>::run;
    ops.setxattr = Guarded<set_xattr>::run;
    ops.getxattr = Guarded<get_xattr>::run;
    ops.listxattr = Guarded<list_xattrs>::run;
    ops.removexattr = Guarded<remove_xattr>::run;
    ops.open = Guarded<open>::run;
    ops.create = Guarded<ChangesNames<create>::run>::run;
    ops.read = Guarded<read>::run;
    ops.write = Guarded<write>::run;
    ops.flush = Guarded<flush>::run;
    ops.release = Guarded<release>::run;
    ops.fsync = Guarded<sync>::run;
    ops.lseek = Guarded<seek>::run;
    ops.fallocate = Guarded<allocate>::run;
    ops.ioctl = Guarded<control>::run;
    ops.opendir = Guarded<open_directory>::run;
    ops.readdir = Guarded<read_directory>::run;
    ops.readdirplus = Guarded<read_directory_plus>::run;
    ops.releasedir = Guarded<release_directory>::run;
    ops.fsyncdir = Guarded<sync_directory>::run;
    // Left out: copy_file_range (the kernel does it
    // by itself), locks (the kernel's), access (default_permissions), poll, bmap.
    return ops;
  }();
  return all;
}

}  // namespace penstock::fuse
