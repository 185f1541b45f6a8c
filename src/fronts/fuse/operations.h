// The operations that the kernel asks for, in the order of fuse_lowlevel_ops. Each replies exactly
// once. Inode numbers above kVirtualBit are the virtual directory's.
#pragma once

#include "call.h"
#include "virtual_directory.h"

namespace penstock::fuse {

// All of them, for a session whose context is a Front.
const fuse_lowlevel_ops& operations();

// names.cc
void lookup(Call& call, fuse_ino_t parent, const char* name);
void forget(Call& call, fuse_ino_t inode, uint64_t count);
void forget_many(Call& call, size_t count, fuse_forget_data* forgets);
void read_link(Call& call, fuse_ino_t inode);
void make_node(Call& call, fuse_ino_t parent, const char* name, mode_t mode, dev_t device);
void make_directory(Call& call, fuse_ino_t parent, const char* name, mode_t mode);
void unlink(Call& call, fuse_ino_t parent, const char* name);
void remove_directory(Call& call, fuse_ino_t parent, const char* name);
void make_symlink(Call& call, const char* target, fuse_ino_t parent, const char* name);
void rename(Call& call, fuse_ino_t parent, const char* name, fuse_ino_t new_parent,
            const char* new_name, unsigned flags);
void link(Call& call, fuse_ino_t inode, fuse_ino_t new_parent, const char* new_name);

// attributes.cc
void get_attributes(Call& call, fuse_ino_t inode, fuse_file_info* info);
void set_attributes(Call& call, fuse_ino_t inode, struct stat* wanted, int which,
                    fuse_file_info* info);
void statistics(Call& call, fuse_ino_t inode);
void set_xattr(Call& call, fuse_ino_t inode, const char* name, const char* value, size_t size,
               int flags);
void get_xattr(Call& call, fuse_ino_t inode, const char* name, size_t size);
void list_xattrs(Call& call, fuse_ino_t inode, size_t size);
void remove_xattr(Call& call, fuse_ino_t inode, const char* name);

// files.cc
void open(Call& call, fuse_ino_t inode, fuse_file_info* info);
void create(Call& call, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* info);
void read(Call& call, fuse_ino_t inode, size_t size, off_t offset, fuse_file_info* info);
void write(Call& call, fuse_ino_t inode, const char* bytes, size_t size, off_t offset,
           fuse_file_info* info);
void flush(Call& call, fuse_ino_t inode, fuse_file_info* info);
void release(Call& call, fuse_ino_t inode, fuse_file_info* info);
void sync(Call& call, fuse_ino_t inode, int data_only, fuse_file_info* info);
void seek(Call& call, fuse_ino_t inode, off_t offset, int whence, fuse_file_info* info);
void allocate(Call& call, fuse_ino_t inode, int mode, off_t offset, off_t length,
              fuse_file_info* info);

// lock_requests.cc; only where Front::locks is
void get_lock(Call& call, fuse_ino_t inode, fuse_file_info* info, struct flock* lock);
void set_lock(Call& call, fuse_ino_t inode, fuse_file_info* info, struct flock* lock, int waits);
void lock_whole(Call& call, fuse_ino_t inode, fuse_file_info* info, int operation);

// control.cc
void control(Call& call, fuse_ino_t inode, unsigned command, void* argument, fuse_file_info* info,
             unsigned flags, const void* in, size_t in_bytes, size_t out_bytes);

// directories.cc
void open_directory(Call& call, fuse_ino_t inode, fuse_file_info* info);
void read_directory(Call& call, fuse_ino_t inode, size_t size, off_t offset, fuse_file_info* info);
void read_directory_plus(Call& call, fuse_ino_t inode, size_t size, off_t offset,
                         fuse_file_info* info);
void release_directory(Call& call, fuse_ino_t inode, fuse_file_info* info);
void sync_directory(Call& call, fuse_ino_t inode, int data_only, fuse_file_info* info);

}  // namespace penstock::fuse
