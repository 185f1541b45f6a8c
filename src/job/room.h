// Room: where the ranks of a job meet, and hear of one another's end. It runs in the launcher.
#pragma once

#include "connection.h"
#include "loop.h"
#include "meetings.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "penstock/base.h"
#include "penstock/job/place.h"

namespace penstock::job {

// Of the loop's thread.
class Room {
 public:
  // A rank asked for the end of the job (aborted), or broke the rules and was dropped (lost).
  using Failed = std::function<void(const End&)>;

  Room(Loop& loop, uint32_t size, Failed failed);
  ~Room();

  // The rank's end of its connection, which its process inherits. Once for each rank.
  Result<UniqueFd> connect(uint32_t rank);
  // The rank's process ended. What it sent before counts: it may have left.
  void ended(const End& end);
  // Of `rank`: whether it left the job.
  bool has_left(uint32_t rank) const { return links_[rank].left; }
  bool has_joined(uint32_t rank) const { return links_[rank].joined; }

 private:
  struct Link {
    std::unique_ptr<Connection> connection;
    Loop::Token token = 0;
    Loop::Token again = 0;  // when what the socket did not take is tried once more
    bool joined = false;
    bool left = false;
    bool ended = false;
  };

  void read(uint32_t rank);
  void take(uint32_t rank, Frame& frame);
  // bad_message: the member is dropped.
  Status act(uint32_t rank, Frame& frame);
  Status greet(uint32_t rank, const Frame& frame);
  Status take_bring(uint32_t rank, Frame& frame);
  void send(uint32_t rank, FrameHeader header, std::shared_ptr<const Content> content,
            bool with_descriptors = false);
  void flush(uint32_t rank);
  void close(uint32_t rank);
  void broke_the_rules(uint32_t rank);
  void lost(uint32_t rank);
  void declare(const End& end);
  void announce();
  void announce_soon(Loop::Moment moment);

  Loop& loop_;
  const uint32_t size_;
  const Failed failed_;
  std::vector<Link> links_;
  Meetings meetings_;
  std::shared_ptr<const Content> welcome_;
  EndedBody known_;   // all, for those who join later
  EndedBody untold_;  // of it what members were not told
  Loop::Token announcement_ = 0;
  Loop::Moment announced_at_{};
};

}  // namespace penstock::job
