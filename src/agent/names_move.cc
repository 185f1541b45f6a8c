// Names that move: what a new place has to be, and the way there.
#include "names_home.h"
#include "store_contents.h"

#include <fmt/format.h>

#include "penstock/kv.h"
#include "penstock/meta_records.h"

namespace penstock::agent {

// Removes what is there if it is no names, or no longer; not_empty if it is, or nobody can tell.
Outcome<void> NamesHome::clear_rest(const Spot& spot) const {
  if (spot.is_rocksdb()) {
    const auto names = names_in(meta_path_);
    if (names && names->empty()) return remove_rests();
  }
  {
    auto opened = open_to_look(spot);
    if (!opened && !spot.is_rocksdb() && opened.error().status.code() == Code::not_found) return {};
    if (!opened) return opened.error();
    const auto rest = is_rest(**opened);
    if (!rest) return failure(rest.error(), text_of(spot) + ": cannot be read");
    if (!*rest) {
      return failure(Code::not_empty,
                     fmt::format("{}: there are names already, which are not those that this store "
                                 "uses (remove them first{})",
                                 text_of(spot),
                                 spot.is_rocksdb() ? ", or move the directory away"
                                                   : ": psql -c \"DROP SCHEMA penstock CASCADE\""));
    }
  }
  return clear(spot);
}

Outcome<NamesHome::Database> NamesHome::open_to_look(const Spot& spot) const {
  if (spot.is_rocksdb()) {
    TRY_ASSIGN(auto opened, kv::open_rocksdb({.path = meta_path_, .read_only = true}));
    return Database(std::move(opened));
  }
  TRY_ASSIGN(auto opened,
             kv::open_postgres({.url = spot.secret_url, .cluster = store_, .read_only = true}));
  return Database(std::move(opened));
}

// Whether it says that it is not the truth, or has nothing: one that was made, and not marked yet.
Result<bool> NamesHome::is_rest(engine::Kv& kv) {
  TRY_ASSIGN(const std::optional<kv::Place> place, kv::place_of(kv));
  if (place) return place->state != State::here;
  bool is_empty = true;
  TRY(kv.run(engine::KvMode::read, [&](engine::KvTransaction& transaction) {
    return transaction.scan({}, {}, [&](std::string_view, std::string_view) {
      is_empty = false;
      return false;
    });
  }));
  return is_empty;
}

// A database that has nothing but the mark of one that is being filled.
Outcome<NamesHome::Database> NamesHome::make_empty(const Spot& spot, const std::string& copy) {
  ASSERT(!copy.empty());
  TRY(clear_rest(spot));
  TRY_ASSIGN(Database made, open_at(spot, true));
  kv::Place place = place_here(store_, copy);
  place.state = State::filling;
  const Status marked = kv::set_place(*made, place);
  if (marked.ok()) return made;
  return failure(marked, fmt::format("{}: cannot be written: {}", text_of(spot), marked.name()));
}

// One move at a time.
class NamesHome::Moving {
 public:
  explicit Moving(NamesHome& home) : home_(home) {}
  ~Moving() {
    if (!is_first_) return;
    const std::lock_guard lock(home_.mutex_);
    ASSERT(home_.is_moving_);
    home_.is_moving_ = false;
  }
  Outcome<void> begin(const Spot& to) {
    const std::lock_guard lock(home_.mutex_);
    if (home_.is_moving_) {
      return home_.failure(Code::busy,
                           "its names are being moved already (wait until that has "
                           "ended: 'penstock status' shows how far it is)");
    }
    if (home_.spot_.url == to.url) {
      return home_.failure(Code::already_exists,
                           fmt::format("its names are in {} already", home_.text_of(to)));
    }
    home_.is_moving_ = is_first_ = true;
    home_.moving_to_ = to;
    home_.copied_ = 0;
    return {};
  }

 private:
  NamesHome& home_;
  bool is_first_ = false;
};

Outcome<NamesMoved> NamesHome::move(const std::string& to_text, const NamesProgress& progress) {
  TRY_ASSIGN(const Spot to, parse(to_text));
  TRY_ASSIGN(const KeptTurn turn, read_turn(path_));
  if (turn.shares) {
    return failure(Code::not_supported,
                   fmt::format("there are standbys, which look for its names where they are (stop "
                               "them, remove the file '{}' in this directory, start it again, move "
                               "the names, and make standbys anew)",
                               kStandbyName));
  }
  Moving moving(*this);
  TRY(moving.begin(to));
  // Nobody else changes these as long as this moves.
  const Spot from = spot_;
  const std::string before = place_.copy, copy = new_copy();
  TRY(keep_names(path_,
                 {.at = from.url, .copy = before, .moves = true, .to = to.url, .to_copy = copy}));
  auto made = make_empty(to, copy);
  if (!made) {
    TRY(write_settled(from, before));
    return made.error();
  }
  auto moved = copy_and_switch(to, std::move(*made), copy, progress);
  if (!moved) {
    // The next start finds out.
    if (moved.error().status.code() == Code::may_have_happened) return moved.error();
    if (const auto cleared = clear(to); !cleared) log::warning("{}", cleared.error().message);
    TRY(write_settled(from, before));
    return moved.error();
  }
  // From here on a failure is one of the next start: the names have moved.
  if (const auto written = write_settled(to, copy); !written) {
    log::error("{}", written.error().message);
  } else if (from.is_rocksdb()) {
    const std::lock_guard lock(copying_mutex_);
    if (const auto cleared = clear(from); !cleared) log::warning("{}", cleared.error().message);
  }
  moved->from = names_word(from.url);
  moved->to = names_word(to.url);
  return moved;
}

Outcome<NamesMoved> NamesHome::copy_and_switch(const Spot& to, Database made,
                                               const std::string& copy,
                                               const NamesProgress& progress) {
  kv::MovableKv::Move move;
  move.to = std::move(made);
  move.here = place_here(store_, copy);
  move.moved = place_;
  move.moved.state = State::moved;
  move.moved.to_copy = copy;
  move.moved.to = names_word(to.url);
  // Without it no release takes what it opens for names.
  move.last_key = meta::Keys("").system(meta::kVersionName);
  move.progress = [&](const kv::MoveProgress& at) {
    {
      const std::lock_guard lock(mutex_);
      copied_ = at.records;
    }
    return progress == nullptr || progress({at.records, at.bytes, at.rounds});
  };
  log::info("{}: its names move from {} to {}", path_, text_of(spot_), text_of(to));
  const auto report = movable_->move(move);
  if (!report) {
    return failure(report.error().status, fmt::format("its names could not be moved to {}: {}",
                                                      text_of(to), report.error().message));
  }
  const std::lock_guard lock(mutex_);
  spot_ = to;
  place_ = move.here;
  const auto pause = std::chrono::duration_cast<std::chrono::milliseconds>(report->pause);
  log::info("{}: its names have moved to {}: {} records, {} rounds; changes waited for {} ms",
            path_, text_of(to), report->records, report->rounds, pause.count());
  return NamesMoved{.records = report->records,
                    .bytes = report->bytes,
                    .rounds = report->rounds,
                    .pause = report->pause,
                    .from = {},
                    .to = {}};
}

}  // namespace penstock::agent
