// What the operations of one mount share.
#pragma once

#include "kernel_cache.h"

#include <atomic>
#include <mutex>
#include <string>
#include <unordered_set>

#include "penstock/client.h"
#include "penstock/fuse.h"

namespace penstock::fuse {

class LockRequests;
class VirtualDirectory;

// One open file of the kernel's, or one open directory.
struct Handle {
  client::FileRef file;  // null: a directory
  // Of a directory: the last cookie of the listing that is under way. Relaxed: one that is read by
  // several threads at once promises them nothing.
  std::atomic<uint64_t> last_cookie{0};
};

// What is open, so that files whose RELEASE never comes (the kernel drops it when it unmounts) can
// be closed. Thread safe.
class HandleTable {
 public:
  uint64_t add(client::FileRef file);
  static Handle& get(uint64_t number) { return *reinterpret_cast<Handle*>(number); }
  // Takes the file out; null if it was a directory.
  client::FileRef remove(uint64_t number);
  std::vector<client::FileRef> take_all();

 private:
  std::mutex mutex_;
  std::unordered_set<Handle*> handles_;
};

// Those of the mount's options that are the node's to keep. Thread safe: a remount changes them
// while operations run. Relaxed: each stands for itself.
class LiveOptions {
 public:
  void set(const MountOptions& options) {
    access_times_.store(options.access_times, std::memory_order_relaxed);
    synchronous_names_.store(options.synchronous || options.directory_synchronous,
                             std::memory_order_relaxed);
    read_only_.store(options.read_only, std::memory_order_relaxed);
  }
  client::AccessTimes access_times() const { return access_times_.load(std::memory_order_relaxed); }
  // Changes of names are on stable storage before they are answered. The kernel itself asks for a
  // sync after each write to a file of a mount with the option sync.
  bool synchronous_names() const { return synchronous_names_.load(std::memory_order_relaxed); }
  // The kernel refuses changes of its own accord, but for what it does not understand: ioctls.
  bool read_only() const { return read_only_.load(std::memory_order_relaxed); }

 private:
  std::atomic<client::AccessTimes> access_times_{client::AccessTimes{}};
  std::atomic<bool> synchronous_names_{false};
  std::atomic<bool> read_only_{false};
};

// Owned by the mount; the references outlive it.
struct Front {
  explicit Front(client::FileSystem& file_system) : files(file_system) {}

  client::FileSystem& files;
  KernelCache* cache = nullptr;
  VirtualDirectory* virtual_directory = nullptr;  // null: there is none
  LockRequests* locks = nullptr;                  // null: the kernel has them, for this node
  HandleTable handles;
  std::string mount_point;
  // How long the kernel keeps names and attributes. Where other nodes have the same files it keeps
  // them for a moment (kSharedKeep) where this node does, and no pages: each read asks here, where
  // it is known what the node may give out.
  double cache_seconds = 0;
  bool is_shared = false;
  LiveOptions options;
  // The kernel leaves it to us to take privileges from files that are written. Relaxed: set while
  // the first request is served, before all others.
  std::atomic<bool> takes_privileges{false};
};

}  // namespace penstock::fuse
