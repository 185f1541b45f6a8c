#include "operations.h"

#include "limits.h"

namespace penstock::fuse {
namespace {

void begin(void* context, fuse_conn_info* connection) {
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
  // since a directory's default list replaces the umask.
  want(FUSE_CAP_POSIX_ACL);
  want(FUSE_CAP_DONT_MASK);
  // We say when pages are stale; a new modification time does not mean that all of them are.
  want(FUSE_CAP_EXPLICIT_INVAL_DATA);
  refuse(FUSE_CAP_AUTO_INVAL_DATA);
  // Data is in memory of ours when a request is served, so there is nothing to splice from.
  refuse(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE);
  // Rings read the same files, so the kernel may not keep back what programs wrote.
  refuse(FUSE_CAP_WRITEBACK_CACHE);
  // Whether the kernel or the node takes privileges away is negotiated by `newer_requests`. A
  // kernel that does so itself forgets it when opening a file truncates it, unless that comes as a
  // set_attributes.
  refuse(FUSE_CAP_HANDLE_KILLPRIV | FUSE_CAP_ATOMIC_O_TRUNC);
  // Of a node alone the kernel's own locks are the truth.
  if (static_cast<const Front*>(context)->locks != nullptr) {
    want(FUSE_CAP_POSIX_LOCKS);
    want(FUSE_CAP_FLOCK_LOCKS);
  } else {
    refuse(FUSE_CAP_POSIX_LOCKS | FUSE_CAP_FLOCK_LOCKS);
  }
  connection->max_write = kRequestBytesMax;
  connection->max_read = kRequestBytesMax;
  connection->max_background = kBackgroundMax;
  connection->congestion_threshold = kBackgroundMax * 3 / 4;
  connection->time_gran = 1;
}

// libfuse's function of an operation, whose requests are counted under this name.
template <class Operation, class Function>
void serve(Function* function, const char* name) {
  name_figures(Operation::figures, name);
  *function = Operation::run;
}

}  // namespace

const fuse_lowlevel_ops& operations() {
  static const fuse_lowlevel_ops all = [] {
    fuse_lowlevel_ops ops{};
    ops.init = begin;
    serve<Guarded<lookup>>(&ops.lookup, "lookup");
    serve<Guarded<forget>>(&ops.forget, "forget");
    serve<Guarded<forget_many>>(&ops.forget_multi, "forget_multi");
    serve<Guarded<read_link>>(&ops.readlink, "readlink");
    serve<Guarded<ChangesNames<make_node>::run>>(&ops.mknod, "mknod");
    serve<Guarded<ChangesNames<make_directory>::run>>(&ops.mkdir, "mkdir");
    serve<Guarded<ChangesNames<unlink>::run>>(&ops.unlink, "unlink");
    serve<Guarded<ChangesNames<remove_directory>::run>>(&ops.rmdir, "rmdir");
    serve<Guarded<ChangesNames<make_symlink>::run>>(&ops.symlink, "symlink");
    serve<Guarded<ChangesNames<rename>::run>>(&ops.rename, "rename");
    serve<Guarded<ChangesNames<link>::run>>(&ops.link, "link");
    serve<Guarded<get_attributes>>(&ops.getattr, "getattr");
    serve<Guarded<set_attributes>>(&ops.setattr, "setattr");
    serve<Guarded<statistics>>(&ops.statfs, "statfs");
    serve<Guarded<set_xattr>>(&ops.setxattr, "setxattr");
    serve<Guarded<get_xattr>>(&ops.getxattr, "getxattr");
    serve<Guarded<list_xattrs>>(&ops.listxattr, "listxattr");
    serve<Guarded<remove_xattr>>(&ops.removexattr, "removexattr");
    serve<Guarded<open>>(&ops.open, "open");
    serve<Guarded<ChangesNames<create>::run>>(&ops.create, "create");
    serve<Guarded<read>>(&ops.read, "read");
    serve<Guarded<write>>(&ops.write, "write");
    serve<Guarded<flush>>(&ops.flush, "flush");
    serve<Guarded<release>>(&ops.release, "release");
    serve<Guarded<sync>>(&ops.fsync, "fsync");
    serve<Guarded<seek>>(&ops.lseek, "lseek");
    serve<Guarded<allocate>>(&ops.fallocate, "fallocate");
    serve<Guarded<control>>(&ops.ioctl, "ioctl");
    serve<Guarded<get_lock>>(&ops.getlk, "getlk");
    serve<Guarded<set_lock>>(&ops.setlk, "setlk");
    serve<Guarded<lock_whole>>(&ops.flock, "flock");
    serve<Guarded<open_directory>>(&ops.opendir, "opendir");
    serve<Guarded<read_directory>>(&ops.readdir, "readdir");
    serve<Guarded<read_directory_plus>>(&ops.readdirplus, "readdirplus");
    serve<Guarded<release_directory>>(&ops.releasedir, "releasedir");
    serve<Guarded<sync_directory>>(&ops.fsyncdir, "fsyncdir");
    // Left out: copy_file_range (the kernel does it
    // by itself), access (default_permissions), poll, bmap.
    return ops;
  }();
  return all;
}

}  // namespace penstock::fuse
