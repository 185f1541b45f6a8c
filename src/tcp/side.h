// The two parts of a connection: what carries its bytes (Pipe), and what they mean to one side of
// it (Side). Between them lies no socket, so that a side can be tried out with any stream.
#pragma once

#include "batch.h"
#include "frame_reader.h"

#include <string_view>

namespace penstock::tcp {

// What a side asks of what carries its bytes. All calls return at once; none leads back into the
// side before it has returned.
class Pipe {
 public:
  // The side has something to send: Side::fill() will be called.
  virtual void send_soon() = 0;
  // The batch that will be sent next, to put small frames into ahead of fill(); null when there is
  // none now.
  virtual Batch* batch() = 0;
  // Ends the connection: with the frames in the batch unsent, and Side::on_end() later on.
  virtual void fail(Status status, std::string_view why) = 0;
  // The same, after everything that the side has to send has gone.
  virtual void finish() = 0;
  // The payload that is being received goes nowhere from now on. False: the kernel still has its
  // place; Side::on_diverted() says when that is over.
  virtual bool divert() = 0;
  // What is being sent of this owner's payload is sent from a copy from now on. False: the kernel
  // still reads it; Side::on_released() says when that is over.
  virtual bool release(engine::Op& owner) = 0;

 protected:
  ~Pipe() = default;
};

class Side : public FrameReader::Sink {
 public:
  virtual ~Side() = default;
  // Puts what is to be sent into the batch, as much as fits.
  virtual void fill(Batch& batch) = 0;
  virtual bool has_to_send() const = 0;
  // A payload of this owner has gone.
  virtual void on_sent(engine::Op& owner) = 0;
  virtual void on_released(engine::Op& owner) = 0;
  virtual void on_diverted() = 0;
  // The connection is over, for the reason that fail() had or that was found, and the kernel has
  // nothing of it any more. Nothing else is called after it.
  virtual void on_end(Status status) = 0;
  // Somebody waits for what the other side does.
  virtual bool is_busy() const = 0;
  // Ask the other side whether it is there.
  virtual void ping() = 0;
  // It has been idle for so long that it may go.
  virtual void on_idle() = 0;
};

}  // namespace penstock::tcp
