// Handshakes of all connections of a process, in a thread of its own: half a millisecond or more of
// a processor each, which no loop has.
#pragma once

#include "seal.h"

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "penstock/tls.h"

namespace penstock::tcp::internal {

// Completes in its owner's loop, with the failure's code; it stays where it is until then.
struct HandshakeOp : engine::Op {
  UniqueFd socket;  // connected; given back
  tls::Part part = tls::Part::caller;
  engine::Time deadline = engine::kNever;
  engine::Loop* loop = nullptr;
  std::atomic<bool> stopped{false};  // by Handshaker::stop()

  tls::Secured secured;  // of one that went well
  std::string trouble;   // of another, for people
};

// Thread safe.
class Handshaker {
 public:
  explicit Handshaker(std::shared_ptr<const tls::Credentials> credentials);
  // All that was begun has completed by then, or completes with closed.
  ~Handshaker();
  Handshaker(const Handshaker&) = delete;
  Handshaker& operator=(const Handshaker&) = delete;

  // Those that begin later have these.
  void renew(std::shared_ptr<const tls::Credentials> credentials);

  // `socket` is connected. `op` has its owner and its completion; the rest is told here.
  void begin(HandshakeOp& op, tls::Part part, UniqueFd socket, engine::Loop& loop,
             engine::Time deadline);
  // It completes soon, with cancelled or as it would have.
  void stop(HandshakeOp& op);

 private:
  // Who calls this process has to say something before it costs more than a descriptor.
  struct Active {
    HandshakeOp* op = nullptr;
    std::unique_ptr<tls::Handshake> handshake;  // null: it has not begun
    short waits_for = 0;                        // of poll(2)
    engine::Time begun;

    bool can_go_on() const { return op != nullptr && waits_for == 0; }
    bool is_new() const { return handshake == nullptr && op->part == tls::Part::server; }
  };
  void run();
  bool take_new();
  void wake();
  void wait();
  void end_what_is_over();
  void go_on();
  bool make_room(engine::Time now);
  void step(Active& one);
  void start(Active& one);
  void end(Active& one, Status status, std::string trouble);

  const UniqueFd wake_;
  engine::Mutex mutex_;
  std::shared_ptr<const tls::Credentials> credentials_;
  std::deque<HandshakeOp*> new_;
  bool stopping_ = false;
  // Of the thread.
  std::vector<Active> active_;
  size_t served_ = 0;  // begun ones of those who call this process
  bool waits_for_room_ = false;
  engine::Thread thread_;
};

}  // namespace penstock::tcp::internal
