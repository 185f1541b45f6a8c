// LocalSource: files of any file system as a mover's source.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "penstock/engine.h"
#include "penstock/local/held_pages.h"
#include "penstock/route.h"

namespace penstock::local {

class LocalFile;
class Windows;

struct LocalOptions {
  uint32_t threads = 8;  // for reads and writes that may block
  // Pages of files that may be pinned at a time, for devices to copy from; 0: none.
  uint64_t pinned_bytes_max = 0;
};

// What the page cache holds is copied from there, by the device itself when it was read before; the
// rest comes by O_DIRECT where the file system can. Writes go as the program has opened the file.
// An operation that reaches the end of the file is short; an error (EIO, ENOSPC) is that
// operation's own.
//
// As every HostSource it belongs to a loop. add(), remove(), run(), read_now(), hold() and
// note_read() are thread safe.
class LocalSource final : public route::HostSource {
 public:
  LocalSource(engine::Loop& loop, engine::DeviceMemory& devices, LocalOptions options = {});
  ~LocalSource() override;

  // Makes a file or a block device known, by a duplicate of `fd`: closing `fd` changes nothing.
  // invalid_argument for anything else; busy when there are too many.
  Outcome<uint32_t> add(int fd);
  // No operation is in progress on it, nor will be.
  void remove(uint32_t file);
  // One operation in the calling thread, which it may block. The memory may be any of this process.
  void run(route::HostIo& io);
  // A read of what the page cache has, in the calling thread, which waits for nothing. False when
  // something of it is not there. The memory may be any of this process.
  bool read_now(route::HostIo& io);
  // The pages of a range, fewer only where the file ends, for devices to copy from: what the page
  // cache has now, if that is pinned; else none. What is read more than once by submit() becomes
  // pinned.
  HeldPages hold(uint32_t file, uint64_t offset, uint64_t length);

  // A read that found no such pages, and is carried out without submit(), any thread's: what is
  // read more than once is pinned with the next find(). `length` may be told as more, where copies
  // cost more than elsewhere. True once for a part that is worth pinning: it should be submitted.
  bool note_read(uint32_t file, uint64_t offset, uint64_t length);

  void submit(route::HostIo& io) override;
  void cancel(route::HostIo& io) override;
  bool find(uint32_t file, uint64_t offset, uint64_t length, route::Resident* resident) override;
  bool still_there(const route::Resident& resident) override;
  void release(const route::Resident& resident) override;

  bool poll() override;
  void sleep(engine::Time deadline) override { parker_.park(deadline); }
  void rouse() override { parker_.unpark(); }
  void close() override;

 private:
  LocalFile& at(uint32_t file) const;

  engine::Loop& loop_;
  engine::FutexParker parker_;
  std::unique_ptr<engine::WorkerPool> threads_;
  std::unique_ptr<Windows> windows_;

  // Release by add() pairs with acquire in at(); the mutex is for add() and remove().
  std::vector<std::atomic<LocalFile*>> files_;
  std::mutex mutex_;
  uint32_t next_file_ = 0;
  std::vector<uint32_t> removed_;         // until the loop has forgotten them; under the mutex
  std::atomic<bool> has_removed_{false};  // a hint
};

}  // namespace penstock::local
