#include "windows.h"

#include "limits.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::local {

namespace {

// The kernel tells which pages are in its cache only to processes that own the file or may write
// it; to others it calls all of them present.
bool may_know_pages(int fd) {
  struct stat facts {};
  if (::fstat(fd, &facts) == 0 && facts.st_uid == ::geteuid()) return true;
  const std::string name = fmt::format("/proc/self/fd/{}", fd);
  return ::faccessat(AT_FDCWD, name.c_str(), W_OK, AT_EACCESS) == 0;
}

bool are_few(uint64_t missing, uint64_t all) {
  return missing * limits::kWindowMissingMax <= all;
}

// Whether a page of each part of [begin, begin + length) of the file is in the page cache. Looking
// at a page that is not there may make the kernel fetch it and its neighbours: so each `attempt`
// looks at other pages, and at no more than it must.
bool are_samples_cached(int fd, uint64_t begin, uint64_t length, uint64_t attempt) {
  const uint64_t step = limits::kWindowSampleBytes;
  const uint64_t samples = (length + step - 1) / step;
  uint64_t missing = 0;
  for (uint64_t at = 0; at < length && are_few(missing, samples); at += step) {
    const uint64_t pages = std::min(step, length - at) / route::kBlockBytes;
    const uint64_t page = mix64(begin + at + attempt) % pages;
    missing += is_in_memory(fd, begin + at + page * route::kBlockBytes) ? 0 : 1;
  }
  return are_few(missing, samples);
}

// Whether (almost) all of the mapping, of the file from `begin` on, is in the page cache.
bool is_cached(int fd, uint64_t begin, MutableBytes mapping, uint64_t attempt) {
  if (!may_know_pages(fd)) return are_samples_cached(fd, begin, mapping.size(), attempt);
  std::vector<unsigned char> pages(mapping.size() / route::kBlockBytes);
  if (::mincore(mapping.data(), mapping.size(), pages.data()) != 0) return false;
  const auto missing =
      std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) == 0; });
  return are_few(static_cast<uint64_t>(missing), pages.size());
}

}  // namespace

// Seen: not pinned. Pinning and unpinning: the thread's. Pinned: on the list.
struct Windows::Window : ListNode {
  enum class State : uint8_t { seen, pinning, pinned, unpinning };

  Window(FileState* of, uint64_t number) : file(of), index(number) {}

  FileState* file;  // null: forgotten
  const uint64_t index;
  State state = State::seen;
  bool dropped = false;  // it is not valid any more
  uint32_t holds = 0;    // of find()
  SharedWindow* shared = nullptr;
  engine::Time not_before{};  // for another try
  engine::Time last_use{};

  // The thread's while it is pinning or unpinning.
  UniqueFd fd;
  uint64_t own_writes = 0;
  FileVersion version;
  MutableBytes memory;
  uint64_t attempts = 0;  // to pin it
  Status status;

  uint64_t begin() const { return index * limits::kWindowBytes; }
};

struct Windows::FileState {
  const LocalFile* file = nullptr;
  uint32_t id = 0;
  bool can_map = false;
  FileVersion version;  // as of `turn`
  uint64_t turn = 0;
  std::map<uint64_t, std::unique_ptr<Window>> windows;
};

Windows::Windows(engine::Loop& loop, engine::DeviceMemory& devices, uint64_t bytes_max,
                 std::function<void()> rouse)
    : loop_(loop),
      devices_(devices),
      bytes_max_(bytes_max),
      rouse_(std::move(rouse)),
      shared_(bytes_max / limits::kWindowBytes, rouse_) {}

Windows::~Windows() {
  while (Window* const window = pinned_.first()) {
    ASSERT(window->holds == 0);
    drop(*window);
  }
  unpin_let_go();
  ASSERT(let_go_.empty());
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  if (thread_.joinable()) thread_.join();
  // What was being pinned is, now.
  for (Window* const window : results_) {
    if (window->state == Window::State::pinning && window->status.ok()) unpin(*window);
  }
}

Windows::FileState& Windows::state_of(const LocalFile& file, uint32_t id) {
  std::unique_ptr<FileState>& state = files_[id];
  if (state == nullptr) {
    state = std::make_unique<FileState>();
    state->file = &file;
    state->id = id;
    state->can_map = bytes_max_ > 0 && file.can_map();
  }
  return *state;
}

// The file's version is looked up once a turn. That is early enough: operations are taken at the
// beginning of a turn, so a change made before an operation was submitted is seen by it.
const FileVersion& Windows::version_of(FileState& file) {
  if (file.turn != turn_) {
    file.version = file.file->version();
    file.turn = turn_;
  }
  return file.version;
}

bool Windows::is_current(FileState& file, const FileVersion& version) {
  const FileVersion& now = version_of(file);
  return now.known && now == version;
}

bool Windows::find(const LocalFile& file, uint32_t id, uint64_t offset, uint64_t length,
                   route::Resident* resident) {
  FileState& state = state_of(file, id);
  if (!state.can_map || failures_ >= limits::kPinFailuresMax) return false;
  const uint64_t index = offset / limits::kWindowBytes;
  auto found = state.windows.find(index);
  if (found == state.windows.end()) {
    if (state.windows.size() >= limits::kWindowsSeenMax) return false;
    found = state.windows.emplace(index, std::make_unique<Window>(&state, index)).first;
  }
  Window& window = *found->second;
  if (window.state != Window::State::pinned) {
    look_again(state, window);
    return false;
  }
  if (!is_current(state, window.version)) {
    drop(window);
    return false;
  }
  const uint64_t end = std::min(window.begin() + window.memory.size(), window.version.size);
  if (offset >= end) return false;
  ASSERT(!window.dropped && offset >= window.begin());
  resident->data = window.memory.data() + (offset - window.begin());
  resident->length = std::min(end - offset, std::max(length, route::kBlockBytes));
  resident->ends_file = offset + resident->length == window.version.size;
  resident->checksums = nullptr;
  resident->host_may_read = false;
  resident->route = engine::Route::device_mapped;
  resident->ticket[0] = reinterpret_cast<uint64_t>(&window);
  ++window.holds;
  note_use(window);
  return true;
}

bool Windows::still_there(const route::Resident& resident) {
  Window& window = *reinterpret_cast<Window*>(resident.ticket[0]);
  return !window.dropped && is_current(*window.file, window.version);
}

HeldPages Windows::hold(const LocalFile& file, uint32_t id, uint64_t offset, uint64_t length) {
  SharedWindow* const found =
      shared_.hold(SharedWindows::key_of(id, offset / limits::kWindowBytes));
  if (found == nullptr) return {};
  const uint64_t begin = std::min(offset, found->end);
  const uint64_t end = std::min(offset + length, found->end);
  HeldPages pages(shared_, *found, found->data + (begin - found->begin), end - begin);
  const bool all = begin < end && (end == offset + length || end == found->version.size);
  // This thread looks up the file's version itself, as the loop does so for its own turns only.
  return all && file.version() == found->version ? std::move(pages) : HeldPages();
}

void Windows::release(const route::Resident& resident) {
  Window& window = *reinterpret_cast<Window*>(resident.ticket[0]);
  ASSERT(window.holds > 0);
  --window.holds;
  if (window.dropped) unpin_if_unused(window);
}

// How many bytes must still be read of a part before it is worth pinning; UINT64_MAX for a part
// behind the end of the file.
uint64_t Windows::unread(FileState& file, const Window& window) {
  const FileVersion& version = version_of(file);
  if (!version.known || version.size <= window.begin()) return UINT64_MAX;
  const uint64_t bytes = std::min(version.size - window.begin(), limits::kWindowBytes);
  const uint64_t read = read_.of(SharedWindows::key_of(file.id, window.index));
  const uint64_t again = bytes + bytes / limits::kReadAgainPart;
  return again - std::min(read, again);
}

// A read in a part that is not pinned. The part is pinned when it was read once already, and so are
// the parts behind it that were, as the program will come to them next. How many bytes were read
// decides, not in which order: random reads seem to turn back all the time, and pinning for them
// would cost the driver, and the program's threads that launch kernels, more time than it gains.
void Windows::look_again(FileState& file, Window& window) {
  if (unread(file, window) > 0 || !want(window)) return;
  for (uint64_t i = 1; i <= limits::kWindowsAhead; ++i) {
    const auto next = file.windows.find(window.index + i);
    if (next == file.windows.end()) break;
    const bool was_read =
        unread(file, *next->second) <= limits::kWindowBytes / limits::kReadAgainPart;
    if (!was_read || !want(*next->second)) break;
  }
}

// Asks for the window to be pinned; false when it cannot be now.
bool Windows::want(Window& window) {
  if (window.state != Window::State::seen) return true;
  if (loop_.now() < window.not_before || !make_room()) return false;
  if (!has_thread()) {
    window.not_before = loop_.now() + limits::kWindowRetry;
    return false;
  }
  window.fd = window.file->file->duplicate();
  if (!window.fd) return false;
  window.own_writes = window.file->file->own_writes();
  bytes_ += limits::kWindowBytes;
  ASSERT(bytes_ <= bytes_max_);
  window.state = Window::State::pinning;
  give_job(window);
  return true;
}

// What was used a moment ago stays: files that do not all fit would chase each other away.
bool Windows::make_room() {
  if (bytes_ + limits::kWindowBytes <= bytes_max_) return true;
  for (uint32_t i = 0; i < limits::kWindowsLookedAt && !pinned_.empty(); ++i) {
    Window& oldest = *pinned_.first();
    // The loop does not see what other threads use.
    if (oldest.shared != nullptr &&
        oldest.shared->used.exchange(false, std::memory_order_relaxed)) {
      note_use(oldest);
      continue;
    }
    if (loop_.now() - oldest.last_use > limits::kWindowIdle) drop(oldest);
    break;
  }
  return bytes_ + limits::kWindowBytes <= bytes_max_;
}

void Windows::note_use(Window& window) {
  ASSERT(window.state == Window::State::pinned && !window.dropped);
  window.last_use = loop_.now();
  static_cast<ListNode&>(window).unlink();
  pinned_.push_back(window);
}

// It is not found any more, and unpinned when no copy from it is under way.
void Windows::drop(Window& window) {
  ASSERT(window.state == Window::State::pinned && !window.dropped);
  window.dropped = true;
  static_cast<ListNode&>(window).unlink();
  if (window.shared != nullptr) SharedWindows::close(*window.shared);
  if (window.file != nullptr) {
    // A new window takes its number, and is pinned when the part is read again.
    read_.forget(SharedWindows::key_of(window.file->id, window.index));
    auto next = std::make_unique<Window>(window.file, window.index);
    next.swap(window.file->windows.at(window.index));
    dropped_.push_back(std::move(next));
  }
  unpin_if_unused(window);
}

void Windows::unpin_if_unused(Window& window) {
  if (window.holds > 0) return;
  if (window.shared != nullptr) {
    if (SharedWindows::is_held(*window.shared)) {
      // The last thread that lets go of it rouses the loop.
      let_go_.push_back(&window);
      return;
    }
    SharedWindows::give_back(*window.shared);
    window.shared = nullptr;
  }
  window.state = Window::State::unpinning;
  give_job(window);
}

// Unpins windows that other threads have let go of.
void Windows::unpin_let_go() {
  std::vector<Window*> dropped;
  dropped.swap(let_go_);
  for (Window* const window : dropped) unpin_if_unused(*window);
}

// Lets threads copy from it without the loop, if a slot is free in the table.
void Windows::share(Window& window, uint32_t id) {
  const uint64_t end = std::min(window.begin() + window.memory.size(), window.version.size);
  window.shared = shared_.open(SharedWindows::key_of(id, window.index), window.memory.data(),
                               window.begin(), end, window.version);
}

void Windows::forget(uint32_t id) {
  const auto found = files_.find(id);
  if (found == files_.end()) return;
  FileState& state = *found->second;
  for (auto& [index, window] : state.windows) {
    ASSERT(window->holds == 0);
    read_.forget(SharedWindows::key_of(id, index));
    window->file = nullptr;
    if (window->state == Window::State::seen) continue;
    Window& kept = *window;
    dropped_.push_back(std::move(window));
    if (kept.state == Window::State::pinned) drop(kept);
  }
  for (const auto& window : dropped_) {
    if (window->file == &state) window->file = nullptr;
  }
  files_.erase(found);
}

bool Windows::poll() {
  ++turn_;
  if (!let_go_.empty()) [[unlikely]]
    unpin_let_go();
  if (!has_results_.load(std::memory_order_relaxed)) return false;
  std::vector<Window*> results;
  {
    const std::lock_guard lock(mutex_);
    results.swap(results_);
    has_results_.store(false, std::memory_order_relaxed);
  }
  for (Window* const window : results) take_result(*window);
  return true;
}

void Windows::take_result(Window& window) {
  if (window.state == Window::State::unpinning || window.file == nullptr) {
    const bool is_pinned = window.state == Window::State::pinning && window.status.ok();
    if (is_pinned) {
      // It was forgotten meanwhile.
      window.state = Window::State::unpinning;
      return give_job(window);
    }
    bytes_ -= limits::kWindowBytes;
    std::erase_if(dropped_, [&](const auto& one) { return one.get() == &window; });
    return;
  }
  if (window.status.ok()) {
    window.state = Window::State::pinned;
    window.last_use = loop_.now();
    pinned_.push_back(window);
    share(window, window.file->id);
    failures_ = 0;
    return;
  }
  bytes_ -= limits::kWindowBytes;
  window.state = Window::State::seen;
  window.not_before = loop_.now() + limits::kWindowRetry;
  // Busy: too early, or not all of it is in memory.
  if (window.status != Code::busy) note_failure(window.status);
}

void Windows::note_failure(Status status) {
  if (++failures_ != limits::kPinFailuresMax) return;
  log::warning("pages of local files cannot be pinned: {}; they are copied from now on",
               status.name());
}

bool Windows::has_thread() {
  if (thread_.joinable()) return true;
  Outcome<std::thread> started = start_thread("the thread that pins pages", [this] { loop(); });
  if (!started) {
    note_failure(started.error().status);
    return false;
  }
  thread_ = std::move(*started);
  return true;
}

// want() has seen to the thread, and what is to be unpinned was pinned by it.
void Windows::give_job(Window& window) {
  ASSERT(thread_.joinable());
  const std::lock_guard lock(mutex_);
  jobs_.push_back(&window);
  work_.notify_one();
}

void Windows::loop() {
  std::unique_lock lock(mutex_);
  while (!stop_ || !jobs_.empty()) {
    if (jobs_.empty()) {
      work_.wait(lock);
      continue;
    }
    Window* const window = jobs_.front();
    jobs_.pop_front();
    lock.unlock();
    work(*window);
    lock.lock();
    results_.push_back(window);
    has_results_.store(true, std::memory_order_relaxed);
    rouse_();
  }
}

void Windows::work(Window& window) {
  if (window.state == Window::State::unpinning) return unpin(window);
  window.status = pin(window);
  window.fd.reset();
}

void Windows::unpin(Window& window) {
  devices_.unpin(window.memory);
  ::munmap(window.memory.data(), window.memory.size());
  window.memory = {};
}

// busy: another time, perhaps.
Status Windows::pin(Window& window) {
  window.version = FileVersion::of(window.fd.get(), window.own_writes);
  const FileVersion& version = window.version;
  if (!version.known || version.size <= window.begin()) return Code::busy;
  // The clock of files is coarse: a change that follows within a tick might not be seen.
  if (!version.is_older_than(limits::kFileClockTick)) return Code::busy;
  const uint64_t bytes =
      align_up(std::min(version.size - window.begin(), limits::kWindowBytes), route::kBlockBytes);
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, window.fd.get(),
                              static_cast<off_t>(window.begin()));
  if (mapped == MAP_FAILED) return Status::from_errno(errno);
  window.memory = {static_cast<std::byte*>(mapped), bytes};
  Status status = Code::busy;
  if (is_cached(window.fd.get(), window.begin(), window.memory, ++window.attempts)) {
    const Outcome<void> pinned = devices_.pin(window.memory, true);
    status = pinned ? Status() : pinned.error().status;
  }
  if (status.ok() && FileVersion::of(window.fd.get(), window.own_writes) != version) {
    devices_.unpin(window.memory);
    status = Code::busy;
  }
  if (!status.ok()) {
    ::munmap(mapped, bytes);
    window.memory = {};
  }
  return status;
}

}  // namespace penstock::local
