// One connection with frames, over a stream socket; over a UNIX one with descriptors, too.
#pragma once

#include "frame.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "penstock/base.h"

namespace penstock::job {

// What a side takes from the other; more of it breaks the rules.
struct Accepts {
  size_t body_bytes = 0;
  size_t descriptors = 0;
};

// Bytes and descriptors that several frames share: the answers to all of a meeting.
struct Content {
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> descriptors;
};

// Of one thread. Nothing of it blocks.
class Connection {
 public:
  Connection(UniqueFd socket, const Accepts& accepts)
      : socket_(std::move(socket)), accepts_(accepts) {}

  int fd() const { return socket_.get(); }
  void accept_from_now_on(const Accepts& accepts) { accepts_ = accepts; }

  // Puts a frame at the end of what goes out; descriptors of `content` go with it, or none of them.
  void queue(FrameHeader header, std::shared_ptr<const Content> content,
             bool with_descriptors = false);
  // Sends what the socket takes. busy: the socket is full, and will say when it is not; conflict:
  // too many descriptors are under way between processes of this user, which nothing tells the end
  // of: try again soon. peer_gone otherwise.
  Status send();
  bool has_unsent() const { return !unsent_.empty(); }
  size_t unsent_bytes() const;

  // Receives what there is, and appends frames that are complete. peer_gone: the other side is at
  // its end, after these frames; bad_message: it broke the rules.
  Status receive(std::vector<Frame>* frames);

 private:
  struct Unsent {
    FrameHeader header;
    std::shared_ptr<const Content> content;
    size_t sent = 0;  // of header and content together
    size_t descriptors_sent = 0;
  };

  Status send_part(Unsent& frame);
  size_t bytes_wanted() const;  // until the header or the body that comes is complete
  Status take(Bytes bytes, std::vector<Frame>* frames);
  Status finish_frame(std::vector<Frame>* frames);

  UniqueFd socket_;
  Accepts accepts_;
  std::deque<Unsent> unsent_;

  Frame coming_;
  size_t header_bytes_ = 0;           // of it that came
  std::deque<UniqueFd> descriptors_;  // of the frame that comes, or of the next one
  bool lost_ = false;                 // some could not be taken
};

}  // namespace penstock::job
