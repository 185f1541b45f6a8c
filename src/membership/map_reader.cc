#include "map_reader.h"

#include <algorithm>
#include <utility>

namespace penstock::membership {

namespace {

size_t kind_place(const MapPlace& place) {
  return static_cast<size_t>(std::find(std::begin(kMapOrder), std::end(kMapOrder), place.kind) -
                             std::begin(kMapOrder));
}
bool is_behind(const MapPlace& place, const MapPlace& other) {
  return std::pair(kind_place(place), place.id) > std::pair(kind_place(other), other.id);
}

}  // namespace

MapReader::MapReader(const AskConfig& config, engine::Duration lease, Listener listener)
    : config_(config), wait_(lease / 2 + limits::kMapGrace), listener_(std::move(listener)) {
  ASSERT(listener_.changed && listener_.completed);
}

void MapReader::start() {
  ASSERT(!main_.is_under_way && !is_pausing_);
  begin(main_);
}

void MapReader::refresh() {
  if (!*alive_) return;
  if (config_.loop->now() - asked_at_ < limits::kRefreshPause) return;
  if (is_pausing_) return begin(main_);
  // A round that goes on from piece to piece has just been answered.
  if (main_.from == MapPlace{} && !extra_.is_under_way) begin(extra_);
}

void MapReader::begin(Round& round) {
  ASSERT(!round.is_under_way);
  if (round.is_main) is_pausing_ = false;
  round.is_under_way = true;
  round.from = {};
  round.known = map_.known();
  asked_at_ = config_.loop->now();
  ask(round);
}

void MapReader::ask(Round& round) {
  auto& question = Task<Question>::make([this, alive = alive_, &round](Task<Question>& asked) {
    if (*alive) take(round, asked);
  });
  question.prepare(config_.controller, AskMap{round.known, round.from}, asked_in_.version());
  question.deadline = config_.loop->now() + wait_;
  config_.net->call(question);
}

void MapReader::take(Round& round, const Question& asked) {
  ASSERT(round.is_under_way);
  if (asked_in_.learn(asked)) return ask(round);
  const Result<Answer> answer = asked.answer();
  const MapPiece* piece = answer ? std::get_if<MapPiece>(&*answer) : nullptr;
  // A refusal is a heartbeat's to judge.
  if (piece == nullptr) return end(round);
  if (const Status status = take(round, *piece); !status.ok()) {
    log::warning("membership: the controller's map cannot be read: {}", status.name());
    return end(round);
  }
  if (!piece->last) return ask(round);
  pause_.reset();
  map_.complete(round.first);
  round.is_under_way = false;
  // Its listener may stop it.
  listener_.completed();
  if (round.is_main && *alive_ && !round.is_under_way) begin(round);
}

Status MapReader::take(Round& round, const MapPiece& piece) {
  const bool is_first = round.from == MapPlace{};
  MapPlace last = round.from;
  for (const MapRecord& record : piece.records) {
    if (!is_behind(record.at, last)) return Code::bad_message;
    last = record.at;
  }
  // It is no earlier than what was known when it was asked for.
  if (is_first && piece.version < round.known) return Code::bad_message;
  TRY_ASSIGN(const MapChanges changes, map_.apply(piece));
  if (is_first) round.first = piece.version;
  round.from = last;
  if (!changes.empty()) listener_.changed(changes);
  return Code::ok;
}

// The controller is away, or has nothing for this node: the main round begins again later.
void MapReader::end(Round& round) {
  round.is_under_way = false;
  if (!round.is_main) return;
  is_pausing_ = true;
  timers_.after(pause_.next(config_.loop->random()), [this, mine = ++pauses_] {
    if (*alive_ && is_pausing_ && mine == pauses_) begin(main_);
  });
}

}  // namespace penstock::membership
