// Asks for the map, again and again: one question waits at the controller for news at all times.
#pragma once

#include "question.h"

#include "penstock/membership/ask.h"
#include "penstock/membership/cluster_map.h"

namespace penstock::membership {

// Owner thread of its loop. Destroying it is as a crash.
class MapReader {
 public:
  // `changed` is called for each piece with something new in it; `completed` when all that was
  // published up to some version is here.
  struct Listener {
    std::function<void(const MapChanges&)> changed;
    std::function<void()> completed;
  };
  MapReader(const AskConfig& config, engine::Duration lease, Listener listener);
  ~MapReader() { *alive_ = false; }

  void start();
  // Asks nothing more.
  void stop() { *alive_ = false; }
  // The question that waits may be lost, or there was none just now: asks beside it.
  void refresh();
  const ClusterMap& map() const { return map_; }

 private:
  // A sequence of questions, from the beginning to the last piece.
  struct Round {
    bool is_main = false;
    bool is_under_way = false;
    MapPlace from;
    controller::MapVersion known;
    controller::MapVersion first;  // of the first piece
  };

  void begin(Round& round);
  void ask(Round& round);
  void take(Round& round, const Question& asked);
  Status take(Round& round, const MapPiece& piece);
  void end(Round& round);

  const AskConfig config_;
  const engine::Duration wait_;  // for an answer to a question for news
  const Listener listener_;
  Timers timers_{*config_.loop};
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  ClusterMap map_{config_.speaks};
  AskedIn asked_in_{config_.speaks};
  Round main_{.is_main = true, .from = {}, .known = {}, .first = {}};
  Round extra_;
  Pause pause_;
  engine::Time asked_at_{};  // when a question for news was sent last
  uint64_t pauses_ = 0;      // which pause of the main round it is in, so that it may be cut short
  bool is_pausing_ = false;
};

}  // namespace penstock::membership
