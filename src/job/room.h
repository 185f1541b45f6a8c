// Room: where the ranks of one node meet, and hear of one another's end. It runs in the launcher,
// or in a thread of the process of the node that joined first.
#pragma once

#include "connection.h"
#include "loop.h"
#include "meetings.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base.h"
#include "penstock/job/place.h"

namespace penstock::job {

// What a room does not know itself, where a job has several: the room above it.
class RoomAbove {
 public:
  virtual ~RoomAbove() = default;
  virtual void joined(uint32_t rank) = 0;
  // As it came from the rank, without descriptors. Answered by answer() or fail() of the room.
  virtual void bring(const Turn& turn, std::vector<std::byte> body) = 0;
  virtual void withdraw(const Turn& turn) = 0;
  virtual void ended(const EndedBody& ended) = 0;
};

// Of the loop's thread.
class Room {
 public:
  struct Options {
    uint32_t size = 1;
    Secret secret{};             // of members that are adopted
    bool launched = false;       // a launcher tells ended() how its ranks ended
    RoomAbove* above = nullptr;  // lent; none: all ranks meet here
  };
  // A rank asked for the end of the job (aborted), or broke the rules and was dropped (lost).
  using Failed = std::function<void(const End&)>;

  Room(Loop& loop, const Options& options, Failed failed);
  ~Room();

  // The rank's end of its connection, which its process inherits. Once for each rank.
  Result<UniqueFd> connect(uint32_t rank);
  // One that comes by itself, and says who it is.
  void adopt(UniqueFd socket);
  // The rank's process ended. What it sent before counts: it may have left.
  void ended(const End& end);
  // Nobody is connected any more who has not left.
  bool is_over() const;

  // What the room above says.
  void welcome(std::vector<uint32_t> node_of);
  void refuse(uint32_t rank, const FailedBody& why);
  void say_who_is_missing(const std::string& who);
  // All turns are of one meeting; `body` is that of a frame `brought`.
  void answer(const std::vector<Turn>& turns, Bytes body);
  void fail(const Turn& turn, const FailedBody& why);
  void hear(const EndedBody& ended);
  // There is nothing above any more.
  void cut_off(const std::string& why);

 private:
  struct Away {
    std::vector<uint32_t> ranks;
    std::vector<UniqueFd> descriptors;
  };
  struct Link {
    std::unique_ptr<Connection> connection;
    Loop::Token token = 0;
    Loop::Token again = 0;  // when what the socket did not take is tried once more
    bool joined = false;
    bool left = false;
    bool ended = false;
    std::map<uint64_t, Away> away;  // meetings of ranks of several nodes that it waits in
  };
  struct Stranger {
    std::unique_ptr<Connection> connection;
    Loop::Token token = 0;
    Loop::Token patience = 0;
  };

  Result<Loop::Token> watch(uint32_t rank);
  void meet_stranger(uint64_t number);
  void forget_stranger(uint64_t number);
  void read(uint32_t rank);
  void take(uint32_t rank, Frame& frame);
  // bad_message: the member is dropped.
  Status act(uint32_t rank, Frame& frame);
  Status greet(uint32_t rank, const Frame& frame);
  void join(uint32_t rank);
  void welcome_one(uint32_t rank);
  Status take_bring(uint32_t rank, Frame& frame);
  Status bring_away(const Turn& turn, Frame& frame, std::vector<uint32_t> ranks);
  bool is_away(const std::vector<uint32_t>& ranks) const;
  void leave(uint32_t rank);
  void send(uint32_t rank, FrameHeader header, std::shared_ptr<const Content> content,
            bool with_descriptors = false);
  void send_failed(const Turn& turn, const FailedBody& why);
  void flush(uint32_t rank);
  void close(uint32_t rank);
  void broke_the_rules(uint32_t rank);
  void lost(uint32_t rank);
  void declare(const End& end);
  void announce();
  // The same where nothing is above.
  void look_who_is_missing();
  void announce_soon(Loop::Moment moment);

  Loop& loop_;
  const Options options_;
  const Failed failed_;
  std::vector<Link> links_;
  std::map<uint64_t, Stranger> strangers_;
  uint64_t next_stranger_ = 1;
  uint32_t joined_ = 0;
  std::string why_nobody_joins_;  // it was cut off before all had
  Meetings meetings_;
  std::vector<uint32_t> node_of_;           // empty until all have joined
  uint32_t node_ = 0;                       // this one's, from then on
  std::shared_ptr<const Content> welcome_;  // the same
  EndedBody known_;                         // all, for those who join later
  EndedBody untold_;                        // of it what members were not told
  Loop::Token saying_ = 0;
  Loop::Token announcement_ = 0;
  Loop::Moment announced_at_{};
};

}  // namespace penstock::job
