#include "names_home.h"

#include "limits.h"
#include "store_contents.h"
#include "store_lock.h"

#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/cluster.h"
#include "penstock/kv.h"

namespace penstock::agent {
namespace {

// Whether a failed opening leaves it open what is there.
bool is_unreachable(const Failure& failure) {
  switch (failure.status.code()) {
    case Code::peer_gone:
    case Code::not_found:
    case Code::busy:
    case Code::timed_out:
    case Code::access_denied:
    case Code::read_only:
    case Code::in_use:
    case Code::not_supported:
      return true;
    default:
      return false;
  }
}

}  // namespace

NamesHome::NamesHome(const StoreDirectory& directory, const AgentConfig& config)
    : path_(directory.path()),
      meta_path_(directory.meta_path()),
      store_(directory.superblock().uuid),
      stands_by_(config.stands_by),
      taken_over_(config.taken_over),
      is_fresh_(directory.fresh()) {}

NamesHome::~NamesHome() {
  if (movable_ == nullptr) return;
  movable_.reset();
  if (!is_fresh_ || spot_.is_rocksdb()) return;
  const auto cleared = clear(spot_);
  if (!cleared) log::warning("{}", cleared.error().message);
}

Outcome<std::unique_ptr<NamesHome>> NamesHome::open(const StoreDirectory& directory,
                                                    const AgentConfig& config) {
  std::unique_ptr<NamesHome> home(new NamesHome(directory, config));
  TRY(home->find_own(config));
  TRY(home->begin(config.names));
  home->tidy();
  ASSERT(home->movable_ != nullptr && home->place_.state == State::here);
  return home;
}

Outcome<void> NamesHome::find_own(const AgentConfig& config) {
  TRY_ASSIGN(const KeptTurn turn, read_turn(path_));
  own_.number = turn.number.empty() ? new_number() : turn.number;
  own_.shares = turn.shares;
  TRY_ASSIGN(std::vector<std::string> listen, cluster::Participant::listen_of(path_));
  if (config.cluster && !config.cluster->listen.empty()) listen = config.cluster->listen;
  own_.at = "-";
  if (!listen.empty()) {
    TRY_ASSIGN(const cluster::ListenAt at, cluster::parse_listen(listen.front()));
    own_.at = at.address.text();
    // Told now, and not when the one before is lost.
    if (own_.shares) TRY(cluster::check_free(at.address));
  }
  own_.print = cluster::Participant::authority_print(path_);
  return {};
}

// Where others may have the names.
Outcome<NamesHome::Database> NamesHome::open_in_turn(const Spot& spot) {
  ASSERT(own_.number.size() == 32);
  TRY(keep_own(spot));
  if (spot.is_rocksdb() || !own_.shares) return open_at(spot, false);
  while (true) {
    TRY_ASSIGN(const Turn turn, await_turn({path_, spot.secret_url, store_, own_, stands_by_}));
    lost_ = turn.lost;
    predecessor_may_run_ = turn.predecessor_may_run;
    auto opened = open_at(spot, false);
    lost_.reset();
    if (opened || !is_unreachable(opened.error())) {
      const bool is_overtaken = !opened && opened.error().status == Code::stale;
      if (!is_overtaken) return opened;
    }
    log::warning("{} (it waits for its turn again)", opened.error().message);
  }
}

std::optional<TurnConfig> NamesHome::turn() const {
  const std::lock_guard lock(mutex_);
  if (spot_.is_rocksdb()) return std::nullopt;
  return TurnConfig{path_, spot_.secret_url, store_, own_, {}};
}

Outcome<NamesHome::Spot> NamesHome::parse(const std::string& text) {
  if (text.empty() || text == kRocksDbWord) return Spot();
  TRY_ASSIGN(const kv::PostgresUrl url, kv::without_password(text));
  if (!is_kept_url(url.url)) {
    return Failure{Code::invalid_argument, "metadata database: its address is too long"};
  }
  if (url.had_password) {
    log::warning(
        "metadata database {}: its password is used now, and not kept: put it into the file "
        "~/.pgpass of the user that runs the node (mode 0600, a line HOST:PORT:DATABASE:USER:"
        "PASSWORD), or a later start without it is refused by the server",
        url.url);
  }
  return Spot{url.url, text};
}

std::string NamesHome::text_of(const Spot& spot) const {
  return spot.is_rocksdb() ? meta_path_ : spot.url;
}

std::string NamesHome::new_copy() const {
  return fmt::format("{:016x}{:016x}", engine::system_seed(), engine::system_seed());
}

Outcome<NamesHome::Database> NamesHome::open_at(const Spot& spot, bool create) const {
  if (spot.is_rocksdb()) {
    TRY_ASSIGN(auto opened, kv::open_rocksdb({.path = meta_path_, .create = create}));
    return Database(std::move(opened));
  }
  kv::PostgresOptions options;
  options.url = spot.secret_url;
  options.cluster = store_;
  options.create = create;
  options.alone = true;
  options.who = agent::text_of(own_);
  options.lost = lost_;
  if (taken_over_) {
    options.taken = [told = taken_over_, path = path_] {
      told(path + ": another directory of this node has got its names and its controller");
    };
  }
  TRY_ASSIGN(auto opened, kv::open_postgres(std::move(options)));
  return Database(std::move(opened));
}

// One without a mark is of a release that knew none, and RocksDB.
Outcome<kv::Place> NamesHome::read_place(const Spot& spot, engine::Kv& kv) const {
  const auto place = kv::place_of(kv);
  if (!place) {
    return failure(place.error(), fmt::format("{}: what it says of itself cannot be read: {}",
                                              text_of(spot), place.error().name()));
  }
  if (*place && (*place)->store != store_) {
    return failure(Code::in_use, fmt::format("{}: has the names of store {}, this is store {}",
                                             text_of(spot), (*place)->store, store_));
  }
  if (*place) return **place;
  return place_here(store_, std::string(32, '0'));
}

Outcome<void> NamesHome::refuse_unless_here(const Spot& spot, const kv::Place& place) const {
  if (place.state == State::here) return {};
  if (place.state == State::moved) {
    return failure(Code::stale,
                   fmt::format("the names were moved from {} to {} (start it with --kv {}, if "
                               "this directory was not restored from a backup)",
                               text_of(spot), place.to, names_word(place.to)));
  }
  return failure(Code::corrupt, fmt::format("{}: is a copy of names that was not finished (the "
                                            "names are where they were: say so with --kv)",
                                            text_of(spot)));
}

Outcome<void> NamesHome::begin(const std::string& wanted_text) {
  TRY_ASSIGN(const Spot wanted, parse(wanted_text));
  if (is_fresh_) return make(wanted);
  TRY_ASSIGN(const KeptNames kept, read_kept_names(path_));
  if (!wanted_text.empty() && wanted.is_rocksdb() != kept.at.empty()) {
    return failure(Code::invalid_argument,
                   fmt::format("its names are in {}, not in {} (move them there with 'penstock "
                               "metadata move {} --to {}')",
                               kept.at.empty() ? meta_path_ : kept.at, text_of(wanted), path_,
                               names_word(wanted.url)));
  }
  return find(kept, wanted);
}

Outcome<void> NamesHome::make(const Spot& spot) {
  ASSERT(is_fresh_ && movable_ == nullptr);
  TRY(keep_own(spot));
  TRY_ASSIGN(Database database, open_at(spot, true));
  kv::Place place = place_here(store_, std::string(32, '0'));
  if (!spot.is_rocksdb()) {
    place.copy = new_copy();
    TRY(write_settled(spot, place.copy));
  }
  use(spot, place, std::move(database));
  return {};
}

// Before anybody knows this process by its directory's number.
Outcome<void> NamesHome::keep_own(const Spot& spot) const {
  if (spot.is_rocksdb()) return {};
  TRY_ASSIGN(const KeptTurn turn, read_turn(path_));
  if (!turn.number.empty()) return {};
  return keep_turn(path_, {own_.number, false});
}

void NamesHome::use(const Spot& spot, const kv::Place& place, Database database) {
  ASSERT(movable_ == nullptr && database != nullptr && place.state == State::here);
  spot_ = spot;
  place_ = place;
  movable_ = std::make_unique<kv::MovableKv>(std::move(database), limits::kNamesThreads);
}

Outcome<void> NamesHome::write_settled(const Spot& spot, const std::string& copy) const {
  return keep_names(path_, {.at = spot.url, .copy = copy, .moves = false, .to = {}, .to_copy = {}});
}

Outcome<void> NamesHome::find(const KeptNames& kept, const Spot& wanted) {
  Spot at{kept.at, kept.at};
  if (!wanted.is_rocksdb()) at = wanted;
  if (kept.moves && own_.shares) {
    return failure(Code::not_supported,
                   fmt::format("a move of its names to {} was cut short, and others may have them "
                               "meanwhile (see that no other directory of this node runs, remove "
                               "the file '{}' here, and start it)",
                               names_word(kept.to), kStandbyName));
  }
  Outcome<void> found = kept.moves ? settle(kept, at) : find_settled(kept, at);
  if (found || at.url == kept.at) return found;
  return Failure{found.error().status,
                 fmt::format("{} (its names are in {}: start it without --kv, or give the address "
                             "where that database is now)",
                             found.error().message, kept.at)};
}

Outcome<void> NamesHome::find_settled(const KeptNames& kept, const Spot& at) {
  TRY_ASSIGN(Database database, open_in_turn(at));
  TRY_ASSIGN(const kv::Place place, read_place(at, *database));
  TRY(refuse_unless_here(at, place));
  TRY(refuse_other_copy(kept, at, place));
  if (at.url != kept.at) {
    TRY(write_settled(at, place.copy));
    log::info("{}: its names are at {} now, no longer at {}", path_, at.url, kept.at);
  }
  use(at, place, std::move(database));
  return {};
}

Outcome<void> NamesHome::refuse_other_copy(const KeptNames& kept, const Spot& at,
                                           const kv::Place& place) const {
  if (kept.copy.empty() || place.copy == kept.copy) return {};
  return failure(Code::stale,
                 fmt::format("{}: has names of this store, but not those that it used last (is "
                             "this directory older than a move, or restored from a backup?)",
                             text_of(at)));
}

// A move was under way when the last process ended.
Outcome<void> NamesHome::settle(const KeptNames& kept, const Spot& at) {
  auto from = open_at(at, false);
  if (from) return settle_with(kept, at, std::move(*from));
  if (!is_unreachable(from.error())) return from.error();
  return settle_without(kept, from.error());
}

Outcome<void> NamesHome::settle_with(const KeptNames& kept, const Spot& at, Database from) {
  TRY_ASSIGN(const kv::Place place, read_place(at, *from));
  const Spot to{kept.to, kept.to};
  if (place.state == State::moved && place.to_copy == kept.to_copy) {
    from.reset();
    TRY_ASSIGN(Database opened, open_at(to, false));
    TRY_ASSIGN(const kv::Place there, read_place(to, *opened));
    return use_new(kept, at, std::move(opened), there);
  }
  TRY(refuse_unless_here(at, place));
  TRY(refuse_other_copy(kept, at, place));
  if (const auto cleared = clear_rest(to); !cleared) {
    log::warning("{}: what a move that was cut short has left in {} stays there: {}", path_,
                 text_of(to), cleared.error().message);
  }
  TRY(write_settled(at, place.copy));
  log::warning("{}: a move of its names to {} was cut short: they are in {} as before", path_,
               text_of(to), text_of(at));
  use(at, place, std::move(from));
  return {};
}

Outcome<void> NamesHome::settle_without(const KeptNames& kept, const Failure& reason) {
  const Spot to{kept.to, kept.to};
  const auto unknown = [&] {
    return failure(reason.status,
                   fmt::format("a move of its names from {} to {} was cut short, and the former "
                               "cannot be asked whether they went: {}",
                               names_word(kept.at), names_word(kept.to), reason.message));
  };
  auto opened = open_at(to, false);
  if (!opened) return unknown();
  TRY_ASSIGN(const kv::Place there, read_place(to, **opened));
  // It says so only after the other one has said that they went.
  if (there.state != State::here || there.copy != kept.to_copy) return unknown();
  return use_new(kept, {kept.at, kept.at}, std::move(*opened), there);
}

Outcome<void> NamesHome::use_new(const KeptNames& kept, const Spot& from, Database to,
                                 kv::Place place) {
  const Spot at{kept.to, kept.to};
  if (place.copy != kept.to_copy || place.state == State::moved) {
    return failure(Code::corrupt,
                   fmt::format("its names were moved to {}, and are not there: it is another copy "
                               "(restore that database, or load a dump)",
                               text_of(at)));
  }
  if (place.state == State::filling) {
    place.state = State::here;
    if (const Status marked = kv::set_place(*to, place); !marked.ok()) {
      return failure(marked, fmt::format("{}: cannot be written: {}", text_of(at), marked.name()));
    }
  }
  TRY(write_settled(at, place.copy));
  if (from.is_rocksdb()) {
    if (const auto cleared = clear(from); !cleared) log::warning("{}", cleared.error().message);
  }
  log::info("{}: its names have been moved to {}", path_, text_of(at));
  use(at, place, std::move(to));
  return {};
}

// The directory `meta` stays, empty.
Outcome<void> NamesHome::clear(const Spot& spot) const {
  if (!spot.is_rocksdb()) {
    kv::PostgresOptions options;
    options.url = spot.secret_url;
    options.cluster = store_;
    return kv::drop_postgres(options);
  }
  // In one step, so that there is never a part of a database.
  TRY(remove_rests());
  const std::string removed = meta_path_ + kRemovedSuffix;
  if (::rename(meta_path_.c_str(), removed.c_str()) != 0 && errno != ENOENT) {
    return failure(Status::from_errno(errno), meta_path_ + " cannot be removed");
  }
  if (::mkdir(meta_path_.c_str(), kOwnerOnlyDirectory) != 0) {
    return failure(Status::from_errno(errno), meta_path_ + " cannot be made");
  }
  const Status synced = sync_directory(path_);
  if (synced.ok()) return remove_rests();
  return failure(synced, fmt::format("cannot be synced: {}", synced.name()));
}

Outcome<void> NamesHome::remove_rests() const {
  for (const char* suffix : {kRemovedSuffix, kCreatingSuffix}) {
    std::error_code error;
    std::filesystem::remove_all(meta_path_ + suffix, error);
    if (error) {
      return failure(
          Status::from_errno(error.value()),
          fmt::format("{}{} cannot be removed: {}", meta_path_, suffix, error.message()));
    }
  }
  return {};
}

// What a process that was killed has not put away.
void NamesHome::tidy() const {
  if (const auto removed = remove_rests(); !removed) log::warning("{}", removed.error().message);
  if (spot_.is_rocksdb()) return;
  if (const auto cleared = clear_rest(Spot()); !cleared) {
    log::warning("{} (it is not used)", cleared.error().message);
  }
}

Outcome<void> NamesHome::finish_making() {
  if (!is_fresh_) return {};
  if (!spot_.is_rocksdb()) {
    const Status marked = kv::set_place(*movable_->behind(), place_);
    if (!marked.ok()) {
      return failure(marked, fmt::format("{}: cannot be written: {}", spot_.url, marked.name()));
    }
  }
  is_fresh_ = false;
  return {};
}

bool NamesHome::is_away() const {
  {
    const std::lock_guard lock(mutex_);
    if (spot_.is_rocksdb()) return false;
  }
  for (const metrics::Sample& sample : metrics::snapshot()) {
    if (sample.name == "kv.stopped") return sample.value > 0;
  }
  return false;
}

NamesStatus NamesHome::status() const {
  const std::lock_guard lock(mutex_);
  NamesStatus status;
  status.at = names_word(spot_.url);
  status.moves = is_moving_;
  if (is_moving_) {
    status.to = names_word(moving_to_.url);
    status.copied = copied_;
  }
  return status;
}

Outcome<void> NamesHome::checkpoint(const std::string& path) {
  const std::lock_guard lock(copying_mutex_);
  const Database database = movable_->behind();
  if (database == nullptr) return failure(Code::io_error, "it is not known where its names are");
  return kv::make_checkpoint(*database, path);
}

}  // namespace penstock::agent
