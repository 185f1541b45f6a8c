// Windows: parts of local files whose pages in the page cache are mapped and pinned, so that
// devices copy from there by themselves.
//
// Pinned pages stay what they were when the file is truncated or replaced: a window counts only as
// long as the file's size and times are those of before it was pinned. For file systems of this
// machine alone, whose times change with every such change. No processor touches a mapping, so
// that a file that becomes shorter cannot hurt.
#pragma once

#include "limits.h"
#include "local_file.h"
#include "read_bytes.h"
#include "shared_windows.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "penstock/engine.h"
#include "penstock/local/held_pages.h"
#include "penstock/route.h"

namespace penstock::local {

// Belongs to a loop's thread, but for hold(). Pinning takes milliseconds and is done by a thread of
// its own; until then nothing is found.
class Windows {
 public:
  // At most `bytes_max` are pinned at a time. `rouse` is called when a thread of this object has
  // something for poll().
  Windows(engine::Loop& loop, engine::DeviceMemory& devices, uint64_t bytes_max,
          std::function<void()> rouse);
  // Nothing is held.
  ~Windows();

  // As HostSource has them. A part is pinned when more was read of it than it has: what is read
  // once is as fast through slots.
  bool find(const LocalFile& file, uint32_t id, uint64_t offset, uint64_t length,
            route::Resident* resident);
  bool still_there(const route::Resident& resident);
  void release(const route::Resident& resident);
  // What was read without pinned pages, by any thread. True for the one read of a whole part with
  // which it becomes worth pinning.
  bool note_read(uint32_t id, uint64_t offset, uint64_t length) {
    constexpr uint64_t kEnough =
        limits::kWindowBytes + limits::kWindowBytes / limits::kReadAgainPart;
    const uint64_t before =
        read_.add(SharedWindows::key_of(id, offset / limits::kWindowBytes), length);
    return before < kEnough && before + length >= kEnough;
  }
  // What is pinned, for any thread: all of the range that the file has, or nothing.
  HeldPages hold(const LocalFile& file, uint32_t id, uint64_t offset, uint64_t length);
  // The file is not asked for any more; its number may come to mean another.
  void forget(uint32_t id);
  // At the beginning of each turn of the loop.
  bool poll();

 private:
  struct Window;
  struct FileState;

  FileState& state_of(const LocalFile& file, uint32_t id);
  const FileVersion& version_of(FileState& file);
  bool is_current(FileState& file, const FileVersion& version);
  void look_again(FileState& file, Window& window);
  uint64_t unread(FileState& file, const Window& window);
  bool want(Window& window);
  bool make_room();
  void note_use(Window& window);
  void drop(Window& window);
  void unpin_if_unused(Window& window);
  void unpin_let_go();
  void share(Window& window, uint32_t id);
  bool has_thread();
  void give_job(Window& window);
  void take_result(Window& window);
  void note_failure(Status status);

  // In the thread.
  void loop();
  void work(Window& window);
  Status pin(Window& window);
  void unpin(Window& window);

  engine::Loop& loop_;
  engine::DeviceMemory& devices_;
  const uint64_t bytes_max_;
  const std::function<void()> rouse_;
  uint64_t turn_ = 1;
  uint64_t bytes_ = 0;            // pinned, or about to be
  uint32_t failures_ = 0;         // of pinning, one after the other
  IntrusiveList<Window> pinned_;  // the least recently used first
  std::map<uint32_t, std::unique_ptr<FileState>> files_;
  std::vector<std::unique_ptr<Window>> dropped_;  // held, or being unpinned, of no file any more
  SharedWindows shared_;
  ReadBytes read_;
  std::vector<Window*> let_go_;  // dropped, and held by other threads only

  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<Window*> jobs_;
  std::vector<Window*> results_;
  std::atomic<bool> has_results_{false};  // a hint, set under the mutex
  bool stop_ = false;
  std::thread thread_;  // starts with the first job
};

}  // namespace penstock::local
