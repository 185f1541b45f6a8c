// Gathering: the room above the rooms of nodes. It knows no member, and passes no descriptor. For
// jobs that join by a unique id it runs in a thread of the process that made the id; for those that
// a launcher spread over hosts, in the launcher.
#pragma once

#include "connection.h"
#include "loop.h"
#include "meetings.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace penstock::job {

// Of the loop's thread.
class Gathering {
 public:
  // Of a job whose nodes and ranks are known before any room comes. What is called may call
  // lose(), and nothing else of the gathering.
  struct Launched {
    std::vector<uint32_t> node_of;  // of each rank; all nodes have some
    uint32_t nodes = 0;
    // One that says that it is the launcher's part of this node, and the secret. `frames` came
    // behind that. There may be two of a node, of which one lies.
    std::function<void(uint32_t node, std::unique_ptr<Connection>, std::vector<Frame> frames)> part;
    std::function<void()> complete;            // the rooms of all nodes have come
    std::function<void(uint32_t node)> apart;  // its room is gone, and not all of its ranks were
  };

  Gathering(Loop& loop, const Secret& secret) : loop_(loop), secret_(secret) {}
  Gathering(Loop& loop, const Secret& secret, Launched launched);
  ~Gathering();

  // One that connected over TCP: a room that says the secret, or a stranger.
  void adopt(UniqueFd socket);
  // All ranks that joined have left or ended.
  bool is_over() const;
  // Of a launched job: the node's ranks that are left count as ended. `why` stands behind the rank.
  void lose(uint32_t node, const std::string& why);

 private:
  struct Below {
    std::unique_ptr<Connection> connection;
    Loop::Token token = 0;
    Loop::Token patience = 0;      // until it is known; 0: it is
    std::optional<uint32_t> node;  // of a launched job
    std::vector<uint32_t> ranks;
  };
  struct Rank {
    uint64_t room = 0;  // 0: it has not joined
    bool over = false;  // ended or left
  };

  void read(uint64_t room);
  // It has not said who it is in time.
  void lose_patience(uint64_t room);
  // bad_message: the room is dropped.
  Status act(uint64_t room, const Frame& frame);
  Status greet(uint64_t room, const Frame& frame);
  Status greet_node(uint64_t room, const Hello& hello);
  void begin(uint32_t size);
  void hand_over(uint64_t room, std::vector<Frame> frames);
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
  const std::optional<Launched> launched_;
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
