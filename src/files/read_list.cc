#include "read_list.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>

#include "penstock/cache_view.h"
#include "penstock/connection.h"
#include "penstock/files/file_calls.h"
#include "penstock/gpu.h"
#include "penstock/route.h"

namespace penstock::files {
namespace {

constexpr int64_t kNotRead = INT64_MIN;

}  // namespace

// Reads one part of the list after the other, in one thread.
class ReadList::Worker {
 public:
  Worker(lanes::Session& session, StagingPool& pool)
      : session_(session), pool_(pool), cache_(session.cache()) {}
  ~Worker() {
    if (staging_ != nullptr) pool_.give_back(staging_);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  Outcome<void> read(std::span<ListedRead> files);
  // How many of the files of the last read() came from the disk.
  size_t from_disk() const { return from_disk_; }

 private:
  // A file that is not done, until it has `ended`.
  struct Item {
    ListedRead* file = nullptr;
    connection::Region* region = nullptr;  // null: the bytes go to plain memory
    uint64_t done = 0;                     // bytes that have arrived
    uint64_t staged_at = 0;                // where in the staging memory this round's are
    bool seen = false;                     // its size is known
    bool missed = false;                   // the node cache does not have it
    bool asked = false;                    // in this round
    bool ended = false;
    bool is_direct() const { return region != nullptr && !region->device; }
    bool is_on_device() const { return region != nullptr && region->device; }
  };
  // On its way from the node cache straight to a GPU.
  struct Gathered {
    Item* item = nullptr;
    uint64_t bytes = 0;
    uint64_t wanted = 0;
  };
  // To one region of a GPU.
  struct Destination {
    cache_view::CacheGather gather;
    std::vector<Gathered> files;
  };
  // On its way from the staging memory to a GPU.
  struct Copy {
    Item* item = nullptr;
    uint64_t from = 0;
    uint64_t to = 0;  // in the file's memory
    uint64_t length = 0;
  };

  bool take(ListedRead& file, Item* item);
  static uint64_t left(const Item& item);
  Outcome<void> round();
  bool ask(Item& item, wire::ReadFiles& request);
  void answer(Item& item, const wire::FileToRead& asked, const wire::FileRead& found);
  uint64_t stage(Item& item, const wire::FileToRead& asked, uint64_t wanted);
  std::optional<uint64_t> from_cache(Item& item, InodeId inode, uint64_t wanted);
  bool gather(Item& item, InodeId inode, uint64_t wanted);
  void gather_to_devices();
  std::byte* destination(const Item& item) const;
  void arrived(Item& item, uint64_t bytes, uint64_t wanted);
  static void proceed(Item& item, uint64_t bytes, uint64_t wanted);
  void copy_to_devices();
  Status copy_to(const connection::Region& region, std::span<const engine::CopyPiece> pieces);
  static void end(Item& item, int64_t result);

  lanes::Session& session_;
  StagingPool& pool_;
  std::vector<Item> items_;
  std::vector<Copy> copies_;
  std::map<const connection::Region*, Destination> destinations_;
  cache_view::ViewHold cache_;
  cache_view::CacheView* view_ = nullptr;  // of this round
  Staging* staging_ = nullptr;
  uint64_t staged_ = 0;  // bytes of it in use in this round
  size_t from_disk_ = 0;
};

// False when it has its result already.
bool ReadList::Worker::take(ListedRead& file, Item* item) {
  file.size = 0;
  const int bad = check_path(file.path, "read files");
  connection::Region* const region = file.region;
  if (bad != 0) {
    file.result = bad;
    return false;
  }
  const bool fits = region == nullptr
                        ? file.buffer != nullptr || file.length == 0
                        : region->table == &session_.regions() &&
                              range_within(file.region_offset, file.length, region->size);
  if (!fits) {
    file.result = connection::fail_with(EINVAL,
                                        "read files: the place for a file is in no region, leaves "
                                        "it, or is missing");
    return false;
  }
  item->file = &file;
  item->region = region;
  return true;
}

void ReadList::Worker::end(Item& item, int64_t result) {
  item.file->result = result;
  item.ended = true;
}

uint64_t ReadList::Worker::left(const Item& item) {
  const uint64_t end = item.seen ? std::min(item.file->size, item.file->length) : item.file->length;
  return end - std::min(end, item.done);
}

Outcome<void> ReadList::Worker::read(std::span<ListedRead> files) {
  items_.clear();
  from_disk_ = 0;
  for (ListedRead& file : files) {
    Item item;
    if (take(file, &item)) items_.push_back(item);
  }
  while (!items_.empty()) {
    TRY(round());
    std::erase_if(items_, [](const Item& item) { return item.ended; });
  }
  return {};
}

// One trip. Each makes progress with the first file at least.
Outcome<void> ReadList::Worker::round() {
  view_ = cache_.newest();
  if (view_ == nullptr || view_->wants_more()) cache_.map().want();
  staged_ = 0;
  copies_.clear();
  destinations_.clear();
  wire::ReadFiles request;
  for (Item& item : items_) {
    if (staging_ == nullptr && !item.is_direct() && left(item) > 0) {
      TRY_ASSIGN(staging_, pool_.take());
    }
    item.asked = ask(item, request);
  }
  const connection::Connection::Answer reply = session_.connection().call(request, true);
  if (!reply) return reply.error();
  const auto* found = std::get_if<wire::FilesRead>(&*reply);
  if (found == nullptr || found->files.size() != request.files.size()) {
    return Failure{Code::bad_message, "read files: the agent answered something else"};
  }
  size_t next = 0;
  for (Item& item : items_) {
    if (!item.asked) continue;
    answer(item, request.files[next], found->files[next]);
    ++next;
  }
  gather_to_devices();
  copy_to_devices();
  return {};
}

// False when it has to wait for the next round, as the staging memory is used up.
bool ReadList::Worker::ask(Item& item, wire::ReadFiles& request) {
  wire::FileToRead file;
  file.path = item.file->path;
  file.offset = item.done;
  file.unless_cached = view_ != nullptr && !item.missed;
  const uint64_t wanted = std::min<uint64_t>(left(item), limits::kIoBytesMax);
  if (item.is_direct() && wanted > 0) {
    file.region = item.region->id;
    file.region_offset = item.file->region_offset + item.done;
    file.length = wanted;
  } else if (wanted > 0 && (item.seen || wanted <= limits::kStagedUnseenMax)) {
    file.length = std::min(wanted, staging_->region->size - staged_);
    if (file.length < wanted && staged_ > 0) return false;
    file.region = staging_->region->id;
    item.staged_at = file.region_offset = staged_;
    staged_ += align_up(file.length, limits::kBlockBytes);
  }
  request.files.push_back(std::move(file));
  return true;
}

void ReadList::Worker::answer(Item& item, const wire::FileToRead& asked,
                              const wire::FileRead& found) {
  // Too much for one trip: it is asked for again in the next round, whose first file is always
  // read.
  if (found.status == Code::busy && &item != &items_.front()) return;
  if (!found.status.ok()) return end(item, -int64_t{found.status.to_errno()});
  item.file->size = found.size;
  item.seen = true;
  const uint64_t wanted = std::min<uint64_t>(left(item), limits::kIoBytesMax);
  if (wanted == 0) return end(item, static_cast<int64_t>(item.done));
  if (asked.region == wire::kNoRegion || found.cached) {
    if (!asked.unless_cached) {
      item.missed = true;
      return;
    }
    if (item.is_on_device() && gather(item, InodeId(found.inode), wanted)) return;
    const uint64_t room = item.is_on_device() ? stage(item, asked, wanted) : wanted;
    if (room == 0) return;  // In the next round.
    const std::optional<uint64_t> bytes = from_cache(item, InodeId(found.inode), room);
    // A file whose size alone was asked for may not be in the cache yet: the agent fills it when it
    // is read again.
    item.missed = !bytes && found.cached;
    if (bytes) arrived(item, *bytes, room);
    return;
  }
  const uint64_t bytes = std::min(found.bytes, asked.length);
  ++from_disk_;
  if (!item.is_direct() && !item.is_on_device()) {
    std::memcpy(destination(item), staging_->region->base + item.staged_at, bytes);
  }
  arrived(item, bytes, std::min(wanted, asked.length));
}

// Where the next bytes of it go, unless that is on a GPU.
std::byte* ReadList::Worker::destination(const Item& item) const {
  if (item.region != nullptr) return item.region->base + item.file->region_offset + item.done;
  return static_cast<std::byte*>(item.file->buffer) + item.done;
}

// Takes a part of the staging memory for up to `wanted` bytes that go on to a GPU: that which they
// were to come to from the disk, or what is left. Returns its length.
uint64_t ReadList::Worker::stage(Item& item, const wire::FileToRead& asked, uint64_t wanted) {
  if (asked.region != wire::kNoRegion) return std::min(wanted, asked.length);
  const uint64_t room = std::min(wanted, staging_->region->size - staged_);
  item.staged_at = staged_;
  staged_ += align_up(room, limits::kBlockBytes);
  return room;
}

// False when the node cache does not have all of it where GPUs reach it.
bool ReadList::Worker::gather(Item& item, InodeId inode, uint64_t wanted) {
  const connection::Region& region = *item.region;
  std::byte* const to = region.device->data + item.file->region_offset + item.done;
  Destination& to_device =
      destinations_.try_emplace(&region, Destination{cache_view::CacheGather(*view_), {}})
          .first->second;
  const auto bytes = to_device.gather.add(inode, item.done, wanted, to, &cache_.hits());
  if (bytes) to_device.files.push_back({&item, *bytes, wanted});
  return bytes.has_value();
}

void ReadList::Worker::gather_to_devices() {
  for (auto& [region, to_device] : destinations_) {
    to_device.gather.run(*region->device,
                         [&](engine::CopyOp& copy) { session_.transfers().first()->run(copy); });
    for (size_t i = 0; i < to_device.files.size(); ++i) {
      const Gathered& file = to_device.files[i];
      const Status status = to_device.gather.status(i);
      if (status.ok()) {
        proceed(*file.item, file.bytes, file.wanted);
      } else if (status == Code::corrupt) {
        file.item->missed = true;
      } else {
        end(*file.item, -int64_t{status.to_errno()});
      }
    }
  }
}

// The bytes that were there, if the node cache had all of them.
std::optional<uint64_t> ReadList::Worker::from_cache(Item& item, InodeId inode, uint64_t wanted) {
  std::byte* const to =
      item.is_on_device() ? staging_->region->base + item.staged_at : destination(item);
  return view_->read(inode, item.done, {to, static_cast<size_t>(wanted)}, &cache_.hits());
}

void ReadList::Worker::arrived(Item& item, uint64_t bytes, uint64_t wanted) {
  if (item.is_on_device()) copies_.push_back({&item, item.staged_at, item.done, bytes});
  proceed(item, bytes, wanted);
}

void ReadList::Worker::proceed(Item& item, uint64_t bytes, uint64_t wanted) {
  item.done += bytes;
  // Fewer than there were: the file was cut meanwhile.
  if (bytes < wanted || left(item) == 0) end(item, static_cast<int64_t>(item.done));
}

// Region by region, as a copy is within one allocation.
void ReadList::Worker::copy_to_devices() {
  std::stable_sort(copies_.begin(), copies_.end(), [](const Copy& a, const Copy& b) {
    return std::less<>()(a.item->region, b.item->region);
  });
  for (auto first = copies_.begin(); first != copies_.end();) {
    const connection::Region& region = *first->item->region;
    std::vector<engine::CopyPiece> pieces;
    auto last = first;
    for (; last != copies_.end() && last->item->region == &region; ++last) {
      engine::CopyPiece& piece = pieces.emplace_back();
      piece.source = staging_->region->base + last->from;
      piece.destination = region.device->data + last->item->file->region_offset + last->to;
      piece.length = last->length;
    }
    const Status copied = copy_to(region, pieces);
    for (; first != last; ++first) {
      if (!copied.ok()) end(*first->item, -int64_t{copied.to_errno()});
    }
  }
}

Status ReadList::Worker::copy_to(const connection::Region& region,
                                 std::span<const engine::CopyPiece> pieces) {
  static_assert(wire::kFilesAtOnceMax <= engine::kCopyPiecesMax);
  const Outcome<engine::DeviceMemory*> devices = gpu::devices();
  if (!devices) return devices.error().status;
  const Outcome<void> pinned = StagingPool::pin(*staging_, **devices);
  if (!pinned) return pinned.error().status;
  engine::CopyOp copy;
  copy.device = region.device->device;
  copy.means = pieces.size() > limits::kStagedCopiesByEngine ? engine::CopyMeans::kernel
                                                             : engine::CopyMeans::copy_engine;
  copy.pieces = pieces;
  copy.allocation = region.device->allocation;
  session_.transfers().first()->run(copy);
  return copy.status;
}

// ---- the list ----

void ReadList::work() {
  Worker worker(session_, staging_);
  for (auto files = next(); !files.empty(); files = next()) {
    const Outcome<void> done = worker.read(files);
    if (!done) return fail(done.error());
    learn(worker.from_disk() > files.size() / 8);
  }
}

// A disk is kept busy by several requests at a time, of which each ends soon; where no disk has to
// be waited for, a trip saved and no more threads than there are processors are worth more.
void ReadList::learn(bool from_disk) {
  const std::lock_guard lock(mutex_);
  files_together_ = from_disk ? limits::kListFilesFromDisk : size_t{wire::kFilesAtOnceMax};
  const size_t left = (files_.size() - next_) / limits::kFilesPerListThread;
  if (from_disk && !failure_) start_threads(std::min<size_t>(left, limits::kListThreadsMax));
}

// Starts threads until `count` are at work, the calling one included. With the mutex held.
void ReadList::start_threads(size_t count) {
  while (started_ + 1 < count) {
    Outcome<std::thread> started = start_thread("a thread for a list of files", [this] { work(); });
    // The other threads take its share.
    if (!started) break;
    others_[started_++] = std::move(*started);
  }
}

void ReadList::fail(const Failure& failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = failure;
}

std::span<ListedRead> ReadList::next() {
  const std::lock_guard lock(mutex_);
  if (failure_) return {};
  const size_t first = next_;
  size_t bytes = 0;
  while (next_ < files_.size() && next_ - first < files_together_) {
    wire::FileToRead file;
    const char* const path = files_[next_].path;
    // One that is too long is refused without asking.
    const size_t length = path == nullptr ? 0 : ::strnlen(path, limits::kPathBytesMax);
    bytes += length + wire::request_bytes_of(file);
    if (bytes > wire::kFilesBytesMax) break;
    ++next_;
  }
  return files_.subspan(first, next_ - first);
}

Outcome<void> ReadList::read() {
  for (ListedRead& file : files_) file.result = kNotRead;
  const size_t processors = std::max(1u, std::thread::hardware_concurrency());
  const size_t threads = std::clamp<size_t>(files_.size() / limits::kFilesPerListThread, 1,
                                            std::min<size_t>(limits::kListThreadsMax, processors));
  {
    const std::lock_guard lock(mutex_);
    files_together_ =
        std::clamp<size_t>((files_.size() + threads - 1) / threads, 1, limits::kListFilesFromDisk);
    start_threads(threads);
  }
  work();
  // Each of them may start others before it ends.
  for (size_t joined = 0;; ++joined) {
    std::thread other;
    {
      const std::lock_guard lock(mutex_);
      if (joined == started_) break;
      other = std::move(others_[joined]);
    }
    other.join();
  }
  if (!failure_) return {};
  for (ListedRead& file : files_) {
    if (file.result == kNotRead) file.result = -int64_t{failure_->status.to_errno()};
  }
  return *failure_;
}

Outcome<void> read_files(lanes::Session& session, StagingPool& staging,
                         std::span<ListedRead> files) {
  return ReadList(session, staging, files).read();
}

Outcome<void> read_files_packed(lanes::Session& session, StagingPool& staging,
                                std::span<ListedRead> files, const PackedRange& range) {
  for (ListedRead& file : files) {
    file.region = nullptr;
    file.buffer = nullptr;
    file.region_offset = file.length = 0;
  }
  TRY(read_files(session, staging, files));
  const uint64_t step = std::max<uint64_t>(range.alignment, 1);
  uint64_t used = 0;
  std::vector<ListedRead> packed;
  std::vector<size_t> numbers;
  for (size_t i = 0; i < files.size(); ++i) {
    ListedRead& file = files[i];
    if (file.result < 0) continue;
    const uint64_t begin = used + (step - used % step) % step;
    if (!range_within(begin, file.size, range.length)) {
      file.result = -ENOSPC;
      continue;
    }
    file.region = range.region;
    file.region_offset = range.offset + begin;
    file.length = file.size;
    used = begin + file.size;
    packed.push_back(file);
    numbers.push_back(i);
  }
  const Outcome<void> read = read_files(session, staging, packed);
  for (size_t i = 0; i < packed.size(); ++i) files[numbers[i]] = packed[i];
  return read;
}

}  // namespace penstock::files
