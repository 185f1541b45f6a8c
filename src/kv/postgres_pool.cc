#include "postgres_pool.h"

#include "limits.h"
#include "postgres_schema.h"

#include <algorithm>
#include <map>

namespace penstock::kv::postgres {
namespace {

engine::Time now() {
  return engine::system_clock().now();
}

// Rows that nobody used for a week are removed; a day less, as clocks differ.
constexpr std::chrono::hours kRowsLast{24 * 6};

}  // namespace

Pool::Pool(Address address, const PostgresOptions& options, std::string process)
    : address_(std::move(address)), options_(options), process_(std::move(process)) {
  ASSERT(process_.size() == 16);
  for (int i = 0; i < options.connections; ++i) {
    places_.push_back(std::make_unique<Place>());
    places_.back()->row.store(rows_++);
    free_.push_back(places_.back().get());
  }
}

Pool::Place* Pool::take_free() {
  if (free_.empty()) return nullptr;
  // The one that was used last, of those that have a connection.
  auto found = std::find_if(free_.rbegin(), free_.rend(),
                            [](const Place* place) { return place->connected(); });
  if (found == free_.rend()) found = free_.rbegin();
  Place* const place = *found;
  free_.erase(std::next(found).base());
  return place;
}

void Pool::put_back(Place& place) {
  {
    const std::lock_guard lock(mutex_);
    ASSERT(free_.size() < places_.size());
    free_.push_back(&place);
    in_use_.set(places_.size() - free_.size());
  }
  freed_.notify_one();
}

Result<Pool::Place*> Pool::wait_for_free(engine::Time deadline) {
  std::unique_lock lock(mutex_);
  if (!closed_ && free_.empty()) {
    const engine::Time begin = now();
    freed_.wait_for(lock, std::max(deadline - begin, engine::Duration::zero()),
                    [&] { return closed_ || !free_.empty(); });
    waited_.add();
    waited_nanoseconds_.add(static_cast<uint64_t>((now() - begin).count()));
  }
  if (closed_) return Code::closed;
  Place* const place = take_free();
  if (place == nullptr) return Code::busy;
  in_use_.set(places_.size() - free_.size());
  return place;
}

Result<Pool::Use> Pool::take(engine::Time deadline) {
  std::chrono::milliseconds length = kPostgresPauseMin;
  while (!lost_.load()) {
    TRY_ASSIGN(Place* const place, wait_for_free(deadline));
    if (place->connected() && place->link->still_usable() && renew(*place)) {
      return Use(*this, *place);
    }
    const auto connected = connect(*place, deadline);
    if (connected) return Use(*this, *place);
    put_back(*place);
    const Fault& fault = connected.error();
    not_reached(fault);
    if (fault.reach == Reach::operation) return fault.status;
    if (!pause(length, deadline, Until::any_is_free))
      return is_closed() ? Code::closed : fault.status.code();
  }
  return Code::io_error;
}

Result<bool> Pool::happened(Place& place, engine::Time deadline) {
  const uint64_t number = place.tried;
  ASSERT(number > place.known.load());  // else there is nothing to find out
  std::chrono::milliseconds length = kPostgresPauseMin;
  do {
    const auto connected = connect(place, deadline);
    if (connected) return place.known.load() >= number;
    not_reached(connected.error());
  } while (!lost_.load() && pause(length, deadline, Until::time));
  return Code::may_have_happened;
}

bool Pool::pause(std::chrono::milliseconds& length, engine::Time deadline, Until until) {
  if (now() + length >= deadline) return false;
  std::unique_lock lock(mutex_);
  freed_.wait_for(lock, length, [&] {
    return closed_ || (until == Until::any_is_free &&
                       std::any_of(free_.begin(), free_.end(),
                                   [](const Place* place) { return place->connected(); }));
  });
  length = std::min(2 * length, kPostgresPauseMax);
  return !closed_;
}

Link::Outcome<bool> Pool::connect(Place& place, engine::Time deadline) {
  place.link.reset();
  size_t host = host_.load();
  const auto within = [&](engine::Duration time) { return std::min(deadline, now() + time); };
  const auto attempt = [&]() -> Link::Outcome<std::unique_ptr<Link>> {
    TRY_ASSIGN(auto link, Link::connect(address_, host, within(kPostgresConnectTime)));
    TRY(set_up_session(*link, within(kPostgresConnectTime)));
    TRY(greet(place, *link, within(kPostgresAnswerTime)));
    TRY(link->prepare(statement::kPrepared, within(kPostgresConnectTime)));
    return link;
  };
  auto link = attempt();
  if (!link) {
    host_.compare_exchange_strong(host, (host + 1) % address_.hosts());
    return link.error();
  }
  place.link = std::move(*link);
  ASSERT(place.connected());
  connections_.add();
  reached();
  return true;
}

Link::Outcome<bool> Pool::greet(Place& place, Link& link, engine::Time deadline) {
  // Before the database is asked: what is acknowledged meanwhile may come too late for its answer.
  const std::vector<Expectation> expected = expectations();
  Arguments row, process, owner;
  row.bytes(process_).int4(place.row.load()).int8(place.tried);
  process.bytes(process_);
  std::vector<Step> steps = {{statement::kAbout, kNoArguments}};
  if (!options_.read_only) {
    steps.push_back({options_.alone ? statement::kFenceOwned : statement::kFence, row});
    steps.push_back({statement::kPlaces, process});
  }
  owner.int8(kOwner);
  if (options_.alone) steps.push_back({statement::kShareOwn, owner});
  TRY_ASSIGN(const std::vector<Answer> answers, link.run(steps, deadline));
  const Answer& about = answers[0];
  const bool is_anybodys = options_.read_only && options_.cluster.empty();
  const std::optional<uint64_t> version = about.rows() == 1 ? about.number(0, 0) : std::nullopt;
  const bool is_known =
      version == kSchemaVersion || (options_.read_only && version == kSchemaVersionBefore);
  if (!is_known || (!is_anybodys && about.bytes(0, 1) != options_.cluster)) {
    return Fault{Reach::operation, Code::wrong_version,
                 "its tables are of another version or cluster than when it was opened"};
  }
  if (options_.read_only) return true;
  if (options_.alone && answers[1].rows() == 0) return taken_over();
  if (options_.alone && answers[3].number(0, 0) != 1) {
    return Fault{Reach::connection, Code::busy, "another process opens these names"};
  }
  TRY(compare(expected, answers[2]));
  const Answer& own = answers[1];
  const std::optional<uint64_t> number = own.rows() == 1 ? own.number(0, 0) : std::nullopt;
  const std::optional<uint64_t> fence = own.rows() == 1 ? own.number(0, 1) : std::nullopt;
  if (!number || !fence || *number > place.tried || *fence < place.tried) {
    return Fault{Reach::operation, Code::corrupt, "penstock.connection has what nobody wrote"};
  }
  place.tried = *fence;
  ASSERT(*number <= place.tried);
  place.known.store(*number);
  place.known_at.store(now());
  return true;
}

Fault Pool::taken_over() {
  if (!lost_.exchange(true)) {
    log::error(
        "metadata database {}: another process has taken the names over, as this one did not renew "
        "its lease there (it answers no more; started again it waits for its turn)",
        address_.name());
    stopped_.set(1);
    if (options_.taken) options_.taken();
  }
  return Fault{Reach::operation, Code::io_error, "another process has the names"};
}

std::vector<Pool::Expectation> Pool::expectations() const {
  std::vector<Expectation> expected;
  for (const auto& place : places_) {
    const bool kept = now() - place->known_at.load() < kRowsLast;
    const uint32_t row = place->row.load();
    expected.push_back({row, kept ? place->known.load() : 0});
  }
  return expected;
}

Link::Outcome<bool> Pool::compare(const std::vector<Expectation>& expected, const Answer& rows) {
  ASSERT(expected.size() == places_.size());
  std::map<uint64_t, uint64_t> has;
  for (int i = 0; i < rows.rows(); ++i) {
    const auto row = rows.number(i, 0), number = rows.number(i, 1);
    if (row && number) has[*row] = *number;
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto [row, known] = expected[i];
    if (has[row] >= known) continue;
    if (places_[i]->row.load() != row) continue;  // removed by renew() meanwhile
    if (!lost_.exchange(true)) {
      log::error(
          "metadata database {}: connection {} has {} commits there, but {} were acknowledged: the "
          "server lost them, as by a fail-over to a standby that was behind (this node takes no "
          "more operations; see what is missing, start the node again, and have standbys replicate "
          "synchronously)",
          address_.name(), i, has[row], known);
      stopped_.set(1);
    }
    return Fault{Reach::operation, Code::io_error, "commits that were acknowledged are missing"};
  }
  return true;
}

bool Pool::renew(Place& place) {
  if (place.tried < kPostgresCommitsOfRow) return true;
  ASSERT(place.connected());
  Arguments before, after;
  before.bytes(process_).int4(place.row.load());
  place.known.store(0);
  place.row.store(rows_++);
  place.tried = 0;
  after.bytes(process_).int4(place.row.load()).int8(0);
  const Statement& fence = options_.alone ? statement::kFenceOwned : statement::kFence;
  const Step steps[] = {{fence, after}, {statement::kForgetRow, before}};
  return place.link->run(steps, now() + engine::Duration(kPostgresAnswerTime)).has_value();
}

void Pool::reached() {
  const std::lock_guard lock(mutex_);
  if (lost_.load() || !std::exchange(told_, false)) return;
  stopped_.set(0);
  log::warning("metadata database {}: is reached again", address_.name());
}

void Pool::not_reached(const Fault& fault) {
  const std::lock_guard lock(mutex_);
  if (lost_.load() || std::exchange(told_, true)) return;
  stopped_.set(1);
  log::error(
      "metadata database {}: cannot connect: {} (it is tried again; operations wait for {} ms)",
      address_.name(), fault.reason,
      std::chrono::duration_cast<std::chrono::milliseconds>(options_.patience).count());
}

void Pool::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  freed_.notify_all();
}

bool Pool::is_closed() {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void Pool::forget(engine::Time deadline) {
  ASSERT(free_.size() == places_.size());
  if (options_.read_only) return;
  Arguments process;
  process.bytes(process_);
  const Step steps[] = {{statement::kForget, process}};
  for (Place* const place : free_) {
    if (place->connected() && place->link->run(steps, deadline)) break;
  }
}

}  // namespace penstock::kv::postgres
