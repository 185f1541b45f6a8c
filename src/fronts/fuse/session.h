// The conversation with the kernel: libfuse's session, and the threads that read requests, run the
// operations and write the replies.
#pragma once

#include "kernel_cache.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <sys/uio.h>
#include <thread>
#include <vector>

#include "penstock/base.h"

struct fuse_lowlevel_ops;
struct fuse_session;

namespace penstock::fuse {

// start() and stop() from one thread.
class Session final : public KernelNotifier {
 public:
  // `device` is a mounted connection; `context` is what operations find with their request.
  // `before` sees each request first (in a worker, with the device that a reply goes to) and may
  // change it; true: it has replied. `after` sees each reply of libfuse's, in the same worker, and
  // may change its bytes.
  struct Intercept {
    bool (*before)(void* context, int device, std::span<std::byte> request);
    void (*after)(std::span<const iovec> reply);
  };
  static Outcome<std::unique_ptr<Session>> make(UniqueFd device,
                                                const fuse_lowlevel_ops& operations, void* context,
                                                Intercept intercept);
  ~Session() override;

  // Requests are served from here on.
  Status start(uint32_t threads);
  // Ends the workers, after the request that each is at. Replies can still be written.
  void end_workers();
  // The same, and ends the connection.
  void stop();
  // The connection itself. Until stop().
  int device() const;
  // Whether all workers have ended because there is no mount any more. Thread safe.
  bool ended() const { return running_.load(std::memory_order_acquire) == 0; }
  // Waits until then; false when `deadline` passed.
  bool wait_ended(std::chrono::steady_clock::time_point deadline);

  // KernelNotifier; thread safe, not from a worker.
  int drop_inode(InodeId inode, int64_t offset, int64_t length) override;
  int drop_entry(InodeId parent, const std::string& name) override;

  // In a worker: where replies to what it has read go.
  static int device_of_worker();
  // In whatever thread, while this exists, replies go there; until end_workers() and stop() that is
  // open.
  class ReplyOn {
   public:
    explicit ReplyOn(int device);
    ~ReplyOn();
    ReplyOn(const ReplyOn&) = delete;
    ReplyOn& operator=(const ReplyOn&) = delete;

   private:
    const int before_;
  };

  // In a worker, while it runs an operation: page-aligned memory of kRequestBytesMax for a reply.
  // What the request pointed to (names, payload) is overwritten.
  static std::byte* reply_memory();

 private:
  struct Worker;
  Session() = default;
  void work(Worker& worker);
  bool serve_one(Worker& worker);
  void interrupt(Worker& worker);

  fuse_session* session_ = nullptr;
  void* context_ = nullptr;
  Intercept intercept_{};
  std::vector<std::unique_ptr<Worker>> workers_;
  std::mutex mutex_;
  std::condition_variable ended_;
  // Workers that have not ended. Release on the way down pairs with the acquire in ended().
  std::atomic<uint32_t> running_{0};
  // Relaxed: orders nothing.
  std::atomic<bool> stopping_{false};
};

}  // namespace penstock::fuse
