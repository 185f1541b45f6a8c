// Takes a stream of bytes apart into frames, however it was cut, and puts payload where it belongs.
#pragma once

#include <array>

#include "penstock/tcp/frame.h"

namespace penstock::tcp {

class FrameReader {
 public:
  // Who gets the frames. A status that is not ok ends the stream: nothing more is to be taken.
  class Sink {
   public:
    // A header and its message, which lives for the call only. Says where its payload goes, if it
    // has any: into memory of just that size, or nowhere (empty).
    virtual Result<MutableBytes> on_frame(const Header& header, Bytes message) = 0;
    // The payload of that frame has come whole, whether to a place or nowhere.
    virtual Status on_payload(const Header& header) = 0;

   protected:
    ~Sink() = default;
  };

  explicit FrameReader(Sink& sink) : sink_(sink) {}

  // The next bytes of the stream, which are copied to where they belong.
  Status take(Bytes bytes);

  // What is left of the payload under way, at its place: the next bytes of the stream may also be
  // received right into it. Empty while there is none, or where it goes nowhere.
  MutableBytes place() const;
  // So many bytes of the stream were received into the beginning of place(), or of what that was
  // before the payload was diverted.
  Status placed(size_t count);
  // The rest of the payload under way goes nowhere: its place is touched no more.
  void divert();

  bool in_payload() const { return payload_left_ != 0; }

 private:
  Status take_payload(Bytes& bytes);
  Status take_head(Bytes& bytes);
  Status begin(Bytes message);
  Status advance(size_t count);

  Sink& sink_;
  Header header_;
  std::byte* place_ = nullptr;  // of the next byte of the payload; null: nowhere
  uint32_t payload_left_ = 0;

  // A header, and the message behind it, that have not come whole.
  uint32_t kept_ = 0;
  std::array<std::byte, limits::kHeaderBytes + limits::kMessageBytesMax> head_;
};

}  // namespace penstock::tcp
