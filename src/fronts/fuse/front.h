// What the operations of one mount share.
#pragma once

#include "kernel_cache.h"

#include <mutex>
#include <string>
#include <unordered_set>

#include "penstock/client.h"

namespace penstock::fuse {

class VirtualDirectory;

// One open file of the kernel's.
struct Handle {
  client::FileRef file;
};

// The open files, so that those whose RELEASE never comes (the kernel drops it when it unmounts)
// can be closed. Thread safe.
class HandleTable {
 public:
  uint64_t add(client::FileRef file);
  static Handle& get(uint64_t number) { return *reinterpret_cast<Handle*>(number); }
  // Takes the file out.
  client::FileRef remove(uint64_t number);
  std::vector<client::FileRef> take_all();

 private:
  std::mutex mutex_;
  std::unordered_set<Handle*> handles_;
};

// Owned by the mount; the references outlive it.
struct Front {
  explicit Front(client::FileSystem& file_system) : files(file_system) {}

  client::FileSystem& files;
  KernelCache* cache = nullptr;
  VirtualDirectory* virtual_directory = nullptr;  // null: there is none
  HandleTable handles;
  std::string mount_point;
  double cache_seconds = 0;
};

}  // namespace penstock::fuse
