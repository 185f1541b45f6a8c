#include "disk_model.h"

#include <algorithm>

namespace penstock::sim {

using internal::SimInode;

namespace {

const SimInode& file_at(const internal::SimTree& tree, const std::string& path) {
  const auto found = tree.nodes.find(internal::normalised(path));
  ASSERT(found != tree.nodes.end() && found->second != nullptr);
  return *found->second;
}

SimInode& file_at(internal::SimTree& tree, const std::string& path) {
  return const_cast<SimInode&>(file_at(std::as_const(tree), path));
}

}  // namespace

SimDiskImage::SimDiskImage(SimWorld& world, uint64_t capacity_bytes)
    : world_(world), tree_(std::make_unique<internal::SimTree>()) {
  tree_->nodes.emplace("/", nullptr);
  set_capacity(capacity_bytes);
}

SimDiskImage::~SimDiskImage() {
  ASSERT(instances_.empty());
}

void SimDiskImage::end_instances(bool power) {
  for (SimDisk* instance : instances_) instance->become_ghost(power);
  tree_->locked.clear();
}

void SimDiskImage::power_cut() {
  world_.trace("disk.power_cut", unsynced_writes());
  end_instances(true);
  for (auto& [path, inode] : tree_->nodes) {
    if (inode != nullptr) inode->power_cut(world_, faults);
  }
}

void SimDiskImage::kill() {
  world_.trace("disk.kill", unsynced_writes());
  end_instances(false);
}

void SimDiskImage::flip_bit(const std::string& path, uint64_t offset, int bit) {
  SimInode& inode = file_at(*tree_, path);
  for (internal::SimContent* content : {&inode.now, &inode.durable}) {
    std::byte value{};
    content->pages.read(offset, {&value, 1});
    value ^= std::byte{1} << bit;
    content->pages.write(offset, {&value, 1});
  }
}

std::vector<std::byte> SimDiskImage::peek(const std::string& path, uint64_t offset,
                                          uint64_t length) const {
  std::vector<std::byte> bytes(length);
  file_at(std::as_const(*tree_), path).now.pages.read(offset, bytes);
  return bytes;
}

void SimDiskImage::poke(const std::string& path, uint64_t offset, Bytes bytes) {
  SimInode& inode = file_at(*tree_, path);
  inode.now.pages.write(offset, bytes);
  inode.durable.pages.write(offset, bytes);
}

std::vector<std::string> SimDiskImage::files() const {
  std::vector<std::string> paths;
  for (const auto& [path, inode] : tree_->nodes) {
    if (inode != nullptr) paths.push_back(path);
  }
  return paths;
}

uint64_t SimDiskImage::size(const std::string& path) const {
  return file_at(std::as_const(*tree_), path).now.size;
}

uint64_t SimDiskImage::used_bytes() const {
  return tree_->used_pages() * internal::SimPages::kPageBytes;
}

uint64_t SimDiskImage::unsynced_writes() const {
  uint64_t sum = 0;
  for (const auto& [path, inode] : tree_->nodes) {
    if (inode != nullptr) sum += inode->unsynced.size();
  }
  return sum;
}

void SimDiskImage::set_capacity(uint64_t bytes) {
  tree_->capacity_pages = bytes / internal::SimPages::kPageBytes;
}

}  // namespace penstock::sim
