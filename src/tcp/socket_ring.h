// One io_uring for the sockets of a loop.
#pragma once

#include "limits.h"

#include <liburing.h>
#include <memory>
#include <sys/socket.h>

#include "penstock/engine.h"

namespace penstock::tcp {

// Who started an operation of the ring, and lives until it has completed.
class alignas(8) SocketUser {
 public:
  // `what` is what it started; `result` is as the system call has it, or -errno.
  virtual void on_completion(uint32_t what, int result, uint32_t flags) = 0;

 protected:
  ~SocketUser() = default;
};

// Operations are prepared, and given to the kernel together in the next turn of the loop, or when
// it goes to sleep. While the loop sleeps, an eventfd that its parker watches tells of completions;
// a loop that is awake looks for itself. One thread at a time, which may change.
class SocketRing {
 public:
  static constexpr uint32_t kWhatMax = 7;

  // not_supported: the kernel lacks what is needed, or forbids it.
  Status create();
  ~SocketRing();

  // What the loop's parker has to watch.
  int eventfd() const { return eventfd_.get(); }

  // Into memory of the ring: staged() is what came, to be given back at once.
  void receive_staged(SocketUser& user, uint32_t what, int socket, uint32_t most);
  // Until all of `place` is full, or the stream ends.
  void receive(SocketUser& user, uint32_t what, int socket, MutableBytes place);
  // Until all is sent, or a part of it. The message and what it names stay as they are meanwhile.
  enum class Sending : uint8_t { all, part };  // the kernel's TLS refuses to be told to send all
  void send(SocketUser& user, uint32_t what, int socket, const msghdr& message, Sending sending);
  void accept(SocketUser& user, uint32_t what, int socket);
  void connect(SocketUser& user, uint32_t what, int socket, const sockaddr& to, socklen_t length);
  // Asks for the early end of an operation that is under way.
  void cancel(SocketUser& user, uint32_t what);

  Bytes staged(int result, uint32_t flags) const;
  void give_back(uint32_t flags);

  // Gives the kernel what is prepared, and with it this thread, for what of it can be done at once.
  void submit();
  // Gives the kernel what is prepared, and takes what has completed. True if there was anything.
  bool poll();
  // False when there is something to be taken.
  bool prepare_sleep();
  void woke();
  // Waits for a completion and takes what there is: for stop, as it blocks.
  void wait();
  // Until nothing is under way.
  void drain();

  uint64_t enters() const { return enters_.value(); }

 private:
  io_uring_sqe& next_entry(SocketUser& user, uint32_t what);
  bool wants_enter() const;
  bool harvest();
  void entered(int result);

  io_uring ring_{};
  bool open_ = false;
  UniqueFd eventfd_;
  std::unique_ptr<std::byte[]> staging_;
  void* buffer_ring_memory_ = nullptr;
  io_uring_buf_ring* buffers_ = nullptr;
  uint64_t in_flight_ = 0;
  metrics::Counter enters_{"tcp.enter"};
};

}  // namespace penstock::tcp
