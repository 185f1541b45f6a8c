#include "disk_model.h"

#include <algorithm>

namespace penstock::sim {

using engine::DiskFile;
using engine::DiskOp;
using engine::DiskOpKind;
using internal::normalised;
using internal::parent_of;
using internal::SimChange;
using internal::SimInode;

namespace {

constexpr uint64_t kTransferMax = kGiB;
constexpr uint64_t kReadFileMax = kMiB;

Failure failure(Status status, const std::string& what, const std::string& path) {
  return {status, fmt::format("{}: {}: {}", what, path, status.name())};
}

class SimDirectoryLock final : public engine::DirectoryLock {
 public:
  SimDirectoryLock(internal::SimTree& tree, std::string path, const bool& ghost)
      : tree_(tree), path_(std::move(path)), ghost_(ghost) {}
  ~SimDirectoryLock() override {
    // The end of a process has given the lock up already, and the next life may hold it.
    if (!ghost_) tree_.locked.erase(path_);
  }

 private:
  internal::SimTree& tree_;
  std::string path_;
  const bool& ghost_;
};

}  // namespace

SimDisk::SimDisk(SimDiskImage& image, engine::Loop& loop, SimDiskOptions options)
    : image_(image), loop_(loop) {
  image_.instances_.push_back(this);
  facts_.backend = "simulated";
  facts_.direct = options.direct;
  facts_.direct_reason = options.direct ? "" : "the simulation was told so";
  facts_.alignment = options.direct ? options.alignment : 1;
  facts_.fixed_buffers = true;
  facts_.route = options.direct ? engine::Route::disk_direct : engine::Route::disk_page_cache;
}

SimDisk::~SimDisk() {
  ASSERT(in_flight_.empty() && waiting_.empty());
  std::erase(image_.instances_, this);
}

Outcome<DiskFile> SimDisk::open(const std::string& path, engine::DiskOpenOptions options) {
  if (ghost_) return failure(Code::closed, "open", path);
  const std::string name = normalised(path);
  internal::SimTree& tree = *image_.tree_;
  auto found = tree.nodes.find(name);
  if (found == tree.nodes.end()) {
    const auto parent = tree.nodes.find(parent_of(name));
    if (!options.create || parent == tree.nodes.end()) {
      return failure(Code::not_found, "open", path);
    }
    if (parent->second != nullptr) return failure(Code::not_directory, "open", path);
    if (image_.read_only_) return failure(Code::read_only, "create", path);
    found = tree.nodes.emplace(name, std::make_shared<SimInode>()).first;
  }
  if (found->second == nullptr) return failure(Code::is_directory, "open", path);
  if (image_.read_only_ && !options.read_only) return failure(Code::read_only, "open", path);
  auto file = std::make_unique<OpenFile>();
  file->inode = found->second;
  file->direct = options.direct && facts_.direct;
  file->read_only = options.read_only;
  const auto slot = std::find(files_.begin(), files_.end(), nullptr);
  const auto index = static_cast<uint32_t>(slot - files_.begin());
  if (slot == files_.end()) {
    files_.push_back(std::move(file));
  } else {
    *slot = std::move(file);
  }
  return DiskFile(index);
}

SimDisk::OpenFile* SimDisk::find(DiskFile file) {
  return file.value < files_.size() ? files_[file.value].get() : nullptr;
}

void SimDisk::close(DiskFile file) {
  OpenFile* open = find(file);
  ASSERT(open != nullptr && open->in_flight == 0);
  files_[file.value].reset();
}

Result<uint64_t> SimDisk::size(DiskFile file) {
  if (ghost_) return Code::closed;
  OpenFile* open = find(file);
  if (open == nullptr) return Code::bad_handle;
  return open->inode->now.size;
}

Status SimDisk::check(const DiskOp& op, const OpenFile* file) const {
  if (file == nullptr) return Code::bad_handle;
  if (op.kind == DiskOpKind::sync) return Code::ok;
  const bool transfers = op.kind == DiskOpKind::read || op.kind == DiskOpKind::write;
  const uint64_t length = transfers ? op.memory.length : op.length;
  if (!range_within(op.offset, length, INT64_MAX)) return Code::invalid_argument;
  if (file->read_only && op.kind != DiskOpKind::read) return Code::access_denied;
  if (file->direct && !is_aligned(op.offset | length, facts_.alignment)) {
    return Code::invalid_argument;
  }
  if (!transfers) return length == 0 ? Code::invalid_argument : Code::ok;
  if (length > kTransferMax || op.memory.kind != engine::MemoryKind::host) {
    return Code::invalid_argument;
  }
  if (file->direct && !is_aligned(op.memory.data, facts_.alignment)) return Code::invalid_argument;
  if (op.memory.buffer != engine::kNoBuffer && length != 0) {
    // A reference into memory that is not the buffer it names is a fault of ours, not of a peer.
    const auto buffer = buffers_.find(op.memory.buffer.value);
    if (buffer != buffers_.end()) {
      ASSERT(op.memory.data >= buffer->second.data() &&
             op.memory.data + length <= buffer->second.data() + buffer->second.size());
    }
  }
  return Code::ok;
}

void SimDisk::submit(DiskOp& op) {
  if (ghost_) {
    loop_.complete(op, Code::closed);
    return;
  }
  OpenFile* file = find(op.file);
  if (const Status status = check(op, file); !status.ok()) {
    loop_.complete(op, status);
    return;
  }
  ++file->in_flight;
  op.transferred = 0;
  // A sync covers what has completed by now.
  pending_.emplace(&op, Pending{0, file->inode->changes});
  if (in_flight_count_ == engine::kDiskOpsMax) {
    waiting_.push_back(op);
  } else {
    begin(op);
  }
}

void SimDisk::begin(DiskOp& op) {
  ++in_flight_count_;
  in_flight_.push_back(op);
  const SimDiskFaults& faults = image_.faults;
  const Duration latency = image_.world_.between(faults.latency_min, faults.latency_max);
  static constexpr std::string_view kLabels[] = {"disk.read", "disk.write", "disk.sync",
                                                 "disk.allocate", "disk.discard"};
  pending_.at(&op).event = image_.world_.after(latency, kLabels[static_cast<size_t>(op.kind)],
                                               [this, &op] { finish(op); });
}

void SimDisk::finish(DiskOp& op) {
  OpenFile& file = *find(op.file);
  ++image_.operations_;
  const Status status = perform(op, file);
  image_.world_.trace("disk.end", op.offset, static_cast<uint64_t>(status.code()));
  --file.in_flight;
  --in_flight_count_;
  pending_.erase(&op);
  op.unlink();
  loop_.complete(op, status);
  if (DiskOp* next = waiting_.pop_front()) begin(*next);
}

Status SimDisk::perform(DiskOp& op, OpenFile& file) {
  SimWorld& world = image_.world_;
  const SimDiskFaults& faults = image_.faults;
  SimInode& inode = *file.inode;
  switch (op.kind) {
    case DiskOpKind::read: {
      if (world.chance(faults.read_error_permille)) return Code::io_error;
      const uint64_t size = inode.now.size;
      op.transferred = op.offset >= size ? 0 : std::min(op.memory.length, size - op.offset);
      inode.now.pages.read(op.offset, op.memory.sub(0, op.transferred).bytes());
      if (op.transferred != 0 && world.chance(faults.flipped_read_permille)) {
        const uint64_t bit = world.random().below(op.transferred * 8);
        op.memory.data[bit / 8] ^= std::byte{1} << (bit % 8);
      }
      return Code::ok;
    }
    case DiskOpKind::write:
      return perform_write(op, file);
    case DiskOpKind::sync:
      if (world.chance(faults.sync_error_permille)) {
        inode.fail_sync(pending_.at(&op).mark);
        return Code::io_error;
      }
      inode.sync(pending_.at(&op).mark);
      return Code::ok;
    case DiskOpKind::allocate:
      if (!image_.tree_->has_room(inode, op.offset, op.length)) return Code::no_space;
      [[fallthrough]];
    case DiskOpKind::discard:
      inode.change({op.kind, op.offset, op.length, {}, 0, false});
      return Code::ok;
  }
  return Code::invalid_argument;
}

Status SimDisk::perform_write(DiskOp& op, OpenFile& file) {
  SimWorld& world = image_.world_;
  const SimDiskFaults& faults = image_.faults;
  SimInode& inode = *file.inode;
  if (op.memory.length == 0) return Code::ok;
  if (!image_.tree_->has_room(inode, op.offset, op.memory.length)) return Code::no_space;
  SimChange change{DiskOpKind::write, op.offset, op.memory.length, {}, 0, false};
  change.data.assign(op.memory.data, op.memory.data + op.memory.length);
  if (world.chance(faults.write_error_permille)) {
    // As much of it as chance wills, each sector being a change of its own.
    SimInode& target = inode;
    for (uint64_t done = 0; done < change.length; done += kSimSectorBytes) {
      const uint64_t count = std::min(change.length - done, kSimSectorBytes);
      if (world.chance(500)) {
        const auto first = change.data.begin() + static_cast<ptrdiff_t>(done);
        target.change({DiskOpKind::write,
                       change.offset + done,
                       count,
                       {first, first + static_cast<ptrdiff_t>(count)},
                       0,
                       false});
      }
    }
    return Code::io_error;
  }
  if (world.chance(faults.lost_write_permille)) return Code::ok;
  if (inode.now.size >= change.length + 4096 && world.chance(faults.misdirected_write_permille)) {
    change.offset = align_down(world.random().below(inode.now.size - change.length), 4096);
  }
  op.transferred = op.memory.length;
  inode.change(std::move(change));
  if (op.durable) inode.sync_newest();
  return Code::ok;
}

void SimDisk::become_ghost(bool power) {
  if (std::exchange(ghost_, true)) return;
  SimWorld& world = image_.world_;
  while (DiskOp* op = in_flight_.pop_front()) {
    world.cancel(pending_.at(op).event);
    OpenFile& file = *find(op->file);
    --file.in_flight;
    const bool changes = op->kind != DiskOpKind::read && op->kind != DiskOpKind::sync;
    const uint64_t length = op->kind == DiskOpKind::write ? op->memory.length : op->length;
    if (changes && length != 0 && image_.tree_->has_room(*file.inode, op->offset, length)) {
      SimChange change{op->kind, op->offset, length, {}, 0, false};
      // After a kill a prefix in whole pages has happened; a power cut treats it as any other
      // change that no sync covers.
      if (op->kind == DiskOpKind::write) {
        const uint64_t pages = length / 4096;
        if (!power) change.length = std::min(length, world.random().below(pages + 2) * 4096);
        change.data.assign(op->memory.data, op->memory.data + change.length);
      } else if (!power && world.chance(500)) {
        change.length = 0;
      }
      if (change.length != 0) file.inode->change(std::move(change));
    }
    loop_.complete(*op, Code::closed);
  }
  while (DiskOp* op = waiting_.pop_front()) {
    --find(op->file)->in_flight;
    loop_.complete(*op, Code::closed);
  }
  in_flight_count_ = 0;
  pending_.clear();
}

Status SimDisk::register_buffer(engine::BufferId id, MutableBytes memory) {
  if (ghost_) return Code::closed;
  if (id.value >= engine::kDiskBuffersMax || memory.empty()) return Code::invalid_argument;
  if (!buffers_.emplace(id.value, memory).second) return Code::already_exists;
  return Code::ok;
}

void SimDisk::unregister_buffer(engine::BufferId id) {
  buffers_.erase(id.value);
}

Status SimDisk::make_directory(const std::string& path) {
  if (ghost_) return Code::closed;
  const std::string name = normalised(path);
  auto& nodes = image_.tree_->nodes;
  if (const auto found = nodes.find(name); found != nodes.end()) {
    return found->second == nullptr ? Code::ok : Code::not_directory;
  }
  const auto parent = nodes.find(parent_of(name));
  if (parent == nodes.end()) return Code::not_found;
  if (parent->second != nullptr) return Code::not_directory;
  if (image_.read_only_) return Code::read_only;
  nodes.emplace(name, nullptr);
  return Code::ok;
}

Result<std::vector<std::string>> SimDisk::list(const std::string& path) {
  if (ghost_) return Code::closed;
  const std::string name = normalised(path);
  const auto& nodes = image_.tree_->nodes;
  const auto found = nodes.find(name);
  if (found == nodes.end()) return Code::not_found;
  if (found->second != nullptr) return Code::not_directory;
  const std::string prefix = name == "/" ? "/" : name + "/";
  std::vector<std::string> names;
  for (auto it = nodes.upper_bound(prefix); it != nodes.end() && it->first.starts_with(prefix);
       ++it) {
    const std::string rest = it->first.substr(prefix.size());
    if (rest.find('/') == std::string::npos) names.push_back(rest);
  }
  return names;
}

Status SimDisk::remove(const std::string& path) {
  if (ghost_) return Code::closed;
  auto& nodes = image_.tree_->nodes;
  const auto found = nodes.find(normalised(path));
  if (found == nodes.end()) return Code::not_found;
  if (found->second == nullptr) return Code::is_directory;
  if (image_.read_only_) return Code::read_only;
  image_.tree_->removed.push_back(found->second);
  nodes.erase(found);
  std::erase_if(image_.tree_->removed, [](const auto& weak) { return weak.expired(); });
  return Code::ok;
}

Result<std::string> SimDisk::read_file(const std::string& path) {
  if (ghost_) return Code::closed;
  const auto& nodes = image_.tree_->nodes;
  const auto found = nodes.find(normalised(path));
  if (found == nodes.end()) return Code::not_found;
  if (found->second == nullptr) return Code::is_directory;
  const internal::SimContent& content = found->second->now;
  if (content.size > kReadFileMax) return Code::too_large;
  std::string text(content.size, '\0');
  content.pages.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

Status SimDisk::replace_file(const std::string& path, const std::string& content) {
  if (ghost_) return Code::closed;
  const std::string name = normalised(path);
  auto& nodes = image_.tree_->nodes;
  if (const auto found = nodes.find(name); found != nodes.end() && found->second == nullptr) {
    return Code::is_directory;
  }
  const auto parent = nodes.find(parent_of(name));
  if (parent == nodes.end()) return Code::not_found;
  if (image_.read_only_) return Code::read_only;
  auto inode = std::make_shared<SimInode>();
  if (!content.empty()) {
    if (!image_.tree_->has_room(*inode, 0, content.size())) return Code::no_space;
    const Bytes bytes = std::as_bytes(std::span(content));
    inode->change({DiskOpKind::write, 0, content.size(), {bytes.begin(), bytes.end()}, 0, false});
    inode->sync(inode->changes);
  }
  nodes[name] = std::move(inode);
  image_.world_.trace("disk.replace_file", content.size());
  return Code::ok;
}

Result<std::unique_ptr<engine::DirectoryLock>> SimDisk::lock_directory(const std::string& path) {
  if (ghost_) return Code::closed;
  const std::string name = normalised(path);
  const auto found = image_.tree_->nodes.find(name);
  if (found == image_.tree_->nodes.end()) return Code::not_found;
  if (found->second != nullptr) return Code::not_directory;
  if (image_.read_only_) return Code::read_only;
  if (!image_.tree_->locked.insert(name).second) return Code::in_use;
  return std::unique_ptr<engine::DirectoryLock>(
      std::make_unique<SimDirectoryLock>(*image_.tree_, name, ghost_));
}

Result<engine::DiskSpace> SimDisk::space(const std::string& path) {
  if (ghost_) return Code::closed;
  if (!image_.tree_->nodes.contains(normalised(path))) return Code::not_found;
  const uint64_t total = image_.tree_->capacity_pages;
  const uint64_t used = std::min(total, image_.tree_->used_pages());
  return engine::DiskSpace{total * internal::SimPages::kPageBytes,
                           (total - used) * internal::SimPages::kPageBytes};
}

}  // namespace penstock::sim
