#include "data_files.h"

#include "core.h"

#include <algorithm>
#include <charconv>

namespace penstock::store {

using engine::DiskFile;
using limits::kBlockBytes;

DataFiles::DataFiles(Core& core) : core_(core) {
  grow_op_.owner = this;
  grow_op_.kind = engine::DiskOpKind::allocate;
  grow_op_.completion = [](engine::Op& op) { op.owner_as<DataFiles>().on_grown(); };
}

DataFiles::~DataFiles() {
  for (const File& file : files_) core_.disk.close(file.file);
}

std::string DataFiles::name(uint32_t index) {
  return fmt::format("data-{:04}", index);
}

std::optional<uint32_t> DataFiles::index_of(std::string_view text) {
  constexpr std::string_view kPrefix = "data-";
  if (!text.starts_with(kPrefix)) return std::nullopt;
  uint32_t index = 0;
  const auto [stop, error] =
      std::from_chars(text.data() + kPrefix.size(), text.data() + text.size(), index);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  if (index >= limits::kDataFilesMax || name(index) != text) return std::nullopt;
  return index;
}

std::string DataFiles::path(uint32_t index) const {
  return core_.config.directory + "/" + name(index);
}

Outcome<uint32_t> DataFiles::open_one(uint32_t index, bool create) {
  if (create) {
    // replace_file() makes the name durable, which open() need not.
    const Status made = core_.disk.replace_file(path(index), "");
    if (!made.ok()) return Failure{made, fmt::format("{}: {}", path(index), made.name())};
  }
  TRY_ASSIGN(const DiskFile file, core_.disk.open(path(index), {}));
  files_.push_back({file, 0});
  const Result<uint64_t> size = core_.disk.size(file);
  if (!size) {
    return Failure{size.error(), fmt::format("{}: {}", path(index), size.error().name())};
  }
  // An unfinished growth may have left a part of a block, or more than is used.
  const uint64_t blocks = std::min<uint64_t>(*size / kBlockBytes, blocks_max_of(index));
  return static_cast<uint32_t>(blocks);
}

Outcome<uint32_t> DataFiles::open(const std::vector<std::string>& names) {
  uint32_t count = 0;
  for (const std::string& entry : names) count += index_of(entry) ? 1 : 0;
  for (uint32_t index = 0; index < count; ++index) {
    if (std::find(names.begin(), names.end(), name(index)) == names.end()) {
      return Failure{Code::corrupt,
                     fmt::format("{} is missing (restore it from a backup)", path(index))};
    }
    TRY_ASSIGN(const uint32_t blocks, open_one(index, false));
    files_[index].blocks = blocks;
    blocks_ += blocks;
    core_.allocator.add({first_block_of(index), blocks});
  }
  return count;
}

uint64_t DataFiles::usable_bytes(const TargetConfig& config, const engine::DiskSpace& space) {
  const uint64_t reserve = config.reserve_bytes != kReserveByNeed
                               ? config.reserve_bytes
                               : std::clamp(space.total_bytes / limits::kReserveShare,
                                            limits::kReserveBytesMin, limits::kReserveBytesMax);
  return space.free_bytes > reserve ? space.free_bytes - reserve : 0;
}

uint64_t DataFiles::growth_left_bytes() const {
  const uint64_t have = blocks_ * kBlockBytes;
  const auto space = core_.disk.space(core_.config.directory);
  if (!space) return 0;
  const uint64_t room = usable_bytes(core_.config, *space);
  if (core_.config.capacity_bytes == 0) return room;
  const uint64_t wanted =
      core_.config.capacity_bytes > have ? core_.config.capacity_bytes - have : 0;
  return std::min(room, wanted);
}

bool DataFiles::grow() {
  if (growing_) return true;
  if (!core_.failed.ok() || core_.loop.now() < full_until_) return false;
  grow_blocks_ = limits::kGrowBlocks;
  return start_growth();
}

bool DataFiles::start_growth() {
  const auto left = static_cast<uint32_t>(
      std::min<uint64_t>(growth_left_bytes() / kBlockBytes, limits::kGrowBlocks));
  while (grow_blocks_ > left) grow_blocks_ /= 2;
  if (core_.config.capacity_bytes != 0 && left < limits::kGrowBlocks) {
    grow_blocks_ = std::min(grow_blocks_ * 2, left);
  } else if (grow_blocks_ < limits::kGrowBlocksMin) {
    return false;
  }
  if (grow_blocks_ == 0) return false;
  grow_file_ = 0;
  while (grow_file_ < files_.size() && files_[grow_file_].blocks >= blocks_max_of(grow_file_)) {
    ++grow_file_;
  }
  if (grow_file_ == limits::kDataFilesMax) return false;
  if (grow_file_ == files_.size()) {
    const auto opened = open_one(grow_file_, true);
    if (!opened) {
      if (opened.error().status.code() != Code::closed) {
        log::error("store: cannot add a data file: {}", opened.error().message);
      }
      return false;
    }
  }
  const File& file = files_[grow_file_];
  grow_blocks_ = std::min(grow_blocks_, blocks_max_of(grow_file_) - file.blocks);
  grow_op_.file = file.file;
  grow_op_.offset = uint64_t{file.blocks} * kBlockBytes;
  grow_op_.length = uint64_t{grow_blocks_} * kBlockBytes;
  ASSERT(!growing_ && grow_blocks_ > 0);
  growing_ = true;
  core_.disk.submit(grow_op_);
  return true;
}

void DataFiles::on_grown() {
  ASSERT(growing_ && grow_file_ < files_.size());
  growing_ = false;
  File& file = files_[grow_file_];
  ASSERT(file.blocks + grow_blocks_ <= blocks_max_of(grow_file_));
  if (grow_op_.status.ok()) {
    const BlockNumber first = first_block_of(grow_file_) + file.blocks;
    file.blocks += grow_blocks_;
    blocks_ += grow_blocks_;
    core_.allocator.add({first, grow_blocks_});
  } else {
    const Code code = grow_op_.status.code();
    if (code == Code::no_space && grow_blocks_ > limits::kGrowBlocksMin) {
      grow_blocks_ /= 2;
      if (start_growth()) return;
    }
    full_until_ = core_.loop.now() + limits::kGrowRetryDelay;
    if (code != Code::no_space && code != Code::closed) {
      log::error("store: cannot extend {}: {}", path(grow_file_), grow_op_.status.name());
    }
  }
  core_.updater.space_changed();
  core_.check_closed();
}

}  // namespace penstock::store
