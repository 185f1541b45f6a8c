// Gathering: the room above the rooms of nodes, for jobs that join by a unique id. It knows no
// member, passes no descriptor, and runs in a thread of the process that made the id.
#pragma once

#include "connection.h"
#include "loop.h"
#include "meetings.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace penstock::job {

// Of the loop's thread.
class Gathering {
 public:
  Gathering(Loop& loop, const Secret& secret) : loop_(loop), secret_(secret) {}
  ~Gathering();

  // One that connected over TCP: a room that says the secret, or a stranger.
  void adopt(UniqueFd socket);
  // All ranks that joined have left or ended.
  bool is_over() const;

 private:
  struct Below {
    std::unique_ptr<Connection> connection;
    Loop::Token token = 0;
    Loop::Token patience = 0;  // until it is known; 0: it is
    std::vector<uint32_t> ranks;
  };
  struct Rank {
    uint64_t room = 0;  // 0: it has not joined
    bool over = false;  // ended or left
  };

  void read(uint64_t room);
  // bad_message: the room is dropped.
  Status act(uint64_t room, const Frame& frame);
  Status greet(uint64_t room, const Frame& frame);
  Status join(uint64_t room, uint32_t rank);
  void welcome_all();
  // Now and again, until all have joined.
  void say_who_is_missing();
  Status take_ended(uint64_t room, const EndedBody& ended);
  void tell(uint64_t but, const EndedBody& ended);
  // Sends what a call of Meetings has left in answers_.
  void settle();
  void send(uint64_t room, FrameHeader header, std::shared_ptr<const Content> content);
  void flush(uint64_t room);
  void drop(uint64_t room);
  bool is_of(uint64_t room, uint32_t rank) const;

  Loop& loop_;
  const Secret secret_;
  uint64_t next_ = 1;
  std::map<uint64_t, Below> rooms_;
  std::vector<Rank> ranks_;  // as many as the first room said
  uint32_t joined_ = 0;
  bool complete_ = false;
  Loop::Token saying_ = 0;
  bool failed_ = false;  // one ended before all had joined
  std::unique_ptr<Meetings> meetings_;
  std::shared_ptr<const Content> answer_;
  std::map<uint64_t, std::vector<Turn>> answers_;  // by room
};

}  // namespace penstock::job
