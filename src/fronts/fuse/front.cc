#include "front.h"

namespace penstock::fuse {

uint64_t HandleTable::add(client::FileRef file) {
  auto handle = std::make_unique<Handle>();
  handle->file = std::move(file);
  std::lock_guard lock(mutex_);
  handles_.insert(handle.get());
  return reinterpret_cast<uint64_t>(handle.release());
}

client::FileRef HandleTable::remove(uint64_t number) {
  auto* handle = reinterpret_cast<Handle*>(number);
  {
    std::lock_guard lock(mutex_);
    if (handles_.erase(handle) == 0) return nullptr;
  }
  client::FileRef file = std::move(handle->file);
  delete handle;
  return file;
}

std::vector<client::FileRef> HandleTable::take_all() {
  std::lock_guard lock(mutex_);
  std::vector<client::FileRef> files;
  for (Handle* handle : handles_) {
    if (handle->file != nullptr) files.push_back(std::move(handle->file));
    delete handle;
  }
  handles_.clear();
  return files;
}

}  // namespace penstock::fuse
