#include "turn.h"

#include "disks.h"
#include "kept_names.h"
#include "limits.h"
#include "pause.h"
#include "store_contents.h"
#include "store_lock.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/cluster.h"

namespace penstock::agent {
namespace {

constexpr uint64_t kStandbyVersion = 1;
constexpr const char* kShares = "shares";

// Whether the server may answer in a moment.
bool may_pass(Status status) {
  switch (status.code()) {
    case Code::peer_gone:
    case Code::busy:
    case Code::timed_out:
    case Code::read_only:
    case Code::stale:
    case Code::may_have_happened:
    case Code::closed:
    case Code::io_error:
      return true;
    default:
      return false;
  }
}

// Its guard is the keeper's: clocks may differ by a tenth each way.
constexpr engine::Duration kLostAfter =
    controller::limits::kControllerLease +
    controller::limits::kControllerLease / controller::limits::kLeaseGuardPart;

engine::Time now() {
  return engine::system_clock().lease_now();
}

// Waits for one directory's turn.
class Waiting {
 public:
  explicit Waiting(const TurnConfig& config) : config_(config) {}

  Outcome<Turn> run() {
    while (true) {
      std::optional<Turn> turn;
      StandbyStatus status;
      const Outcome<void> looked = look(&turn, &status);
      if (turn) return std::move(*turn);
      if (!looked) {
        if (!may_pass(looked.error().status)) return looked.error();
        // A server that is away says nothing of whoever has the names.
        since_.reset();
        watch_.reset();
        status = {holder_.at, looked.error().message};
      }
      const bool goes_on = !config_.stands_by || config_.stands_by(status);
      tell(status);  // into the log that it has by now
      if (!goes_on) {
        if (watch_ != nullptr) (void)watch_->stop_standing_by(config_.own.number);
        return Failure{Code::cancelled,
                       fmt::format("{}: it is not its turn: {}", config_.directory,
                                   status.trouble.empty()
                                       ? fmt::format("the node at {} has its names", holder_.at)
                                       : status.trouble)};
      }
      pause_for(limits::kTurnLook);
    }
  }

 private:
  Outcome<void> look(std::optional<Turn>* turn, StandbyStatus* status) {
    if (watch_ == nullptr) {
      kv::PostgresOptions options;
      options.url = config_.url;
      options.cluster = config_.store;
      TRY_ASSIGN(watch_, kv::PostgresWatch::open(options));
    }
    const std::string keys[] = {controller::key_of(controller::RecordKind::lease)};
    const engine::Time asked = now();
    TRY_ASSIGN(const kv::PostgresWatch::Seen seen, watch_->look(keys));
    holder_ = holder_of(seen.who);
    const std::optional<std::string>& lease = seen.values.at(0);
    if (seen.process.empty()) {
      *turn = Turn();
      return {};
    }
    const kv::PostgresOptions::Lost lost{seen.process, keys[0], lease};
    // The lock of the directory is this process's, and whoever had the names had it.
    if (holder_.number == config_.own.number) {
      *turn = Turn{lost, false};
      return {};
    }
    TRY(say(asked));
    *status = {holder_.at, trouble()};
    const bool is_same = since_ && seen.process == process_ && lease == lease_;
    if (!is_same) {
      process_ = seen.process;
      lease_ = lease;
      // It may have been renewed until the answer was read.
      since_ = now();
      return {};
    }
    ASSERT(asked >= *since_);
    if (!status->trouble.empty() || asked - *since_ < kLostAfter) return {};
    log::warning(
        "{}: node {} at {} has not renewed its lease for {} s: it is taken for lost, and "
        "its names and controller are taken over",
        config_.directory, 1, holder_.at,
        std::chrono::duration_cast<std::chrono::seconds>(asked - *since_).count());
    *turn = Turn{lost, true};
    return {};
  }

  std::string trouble() const {
    if (holder_.print != config_.own.print) {
      return fmt::format(
          "the node at {} has another authority than this directory: make this one anew there "
          "('penstock standby')",
          holder_.at);
    }
    if (holder_.shares) return "";
    return fmt::format(
        "the node at {} does not know yet that others stand by (start that one "
        "again if this stays so)",
        holder_.at);
  }

  Outcome<void> say(engine::Time at) {
    if (said_ && at - *said_ < limits::kStandBySaid) return {};
    TRY(watch_->stand_by(config_.own.number, text_of(config_.own)));
    said_ = at;
    return {};
  }

  void tell(const StandbyStatus& status) {
    if (std::exchange(told_, status.holder + status.trouble) == status.holder + status.trouble) {
      return;
    }
    if (status.trouble.empty()) {
      log::info("{}: stands by: the node at {} has the names and the controller", config_.directory,
                status.holder);
    } else {
      log::warning("{}: stands by, and could not take over now: {}", config_.directory,
                   status.trouble);
    }
  }

  const TurnConfig& config_;
  std::unique_ptr<kv::PostgresWatch> watch_;
  Holder holder_;
  std::string process_;
  std::optional<std::string> lease_;
  std::optional<engine::Time> since_;  // of these two, without a gap
  std::optional<engine::Time> said_;
  std::string told_ = "nothing";
};

}  // namespace

std::string text_of(const Holder& holder) {
  ASSERT(holder.number.size() == 32 && !holder.at.empty());
  ASSERT(holder.at.find(' ') == std::string::npos);
  return fmt::format("{} {} {}{}{}", holder.number, holder.at, holder.print,
                     holder.shares ? " " : "", holder.shares ? kShares : "");
}

Holder holder_of(const std::string& text) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  Holder holder;
  if (words.size() < 3 || !tcp::SocketAddress::parse(words[1])) return holder;
  holder.number = words[0];
  holder.at = words[1];
  holder.print = words[2];
  holder.shares = words.size() > 3 && words[3] == kShares;
  return holder;
}

std::string new_number() {
  return fmt::format("{:016x}{:016x}", engine::system_seed(), engine::system_seed());
}

Outcome<KeptTurn> read_turn(const std::string& directory) {
  const std::string path = directory + "/" + kStandbyName;
  const Result<std::string> text = read_kept_file(path);
  if (!text && text.error() == Code::not_found) return KeptTurn();
  if (!text) {
    return Failure{text.error(), fmt::format("{}: cannot be read: {}", path, text.error().name())};
  }
  auto words = words_of(*text);
  uint64_t version = 0, shares = 0;
  const bool is_good = parse_number(words["penstock-standby"], &version) &&
                       version == kStandbyVersion && words["number"].size() == 32 &&
                       parse_number(words["shares"], &shares) && shares <= 1;
  if (is_good) return KeptTurn{words["number"], shares == 1};
  return Failure{Code::corrupt,
                 path + ": is damaged, or of a newer release (restore it from a backup)"};
}

Outcome<void> keep_turn(const std::string& directory, const KeptTurn& turn) {
  ASSERT(turn.number.size() == 32);
  const std::string text = fmt::format("penstock-standby {}\nnumber {}\nshares {}\n",
                                       kStandbyVersion, turn.number, turn.shares ? 1 : 0);
  const Status status = keep_file(directory + "/" + kStandbyName, text, kOwnerOnly);
  if (status.ok()) return {};
  return Failure{
      status, fmt::format("{}/{}: cannot be written: {}", directory, kStandbyName, status.name())};
}

Outcome<Turn> await_turn(const TurnConfig& config) {
  ASSERT(config.own.number.size() == 32 && !config.url.empty());
  return Waiting(config).run();
}

void Standbys::start(std::function<void(const std::vector<std::string>& addresses)> changed) {
  ASSERT(!thread_.joinable() && changed != nullptr);
  changed_ = std::move(changed);
  thread_ = engine::Thread("standbys", [this] { run(); });
}

void Standbys::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::vector<std::string> Standbys::addresses() const {
  const std::lock_guard lock(mutex_);
  return addresses_;
}

void Standbys::run() {
  while (true) {
    look();
    std::unique_lock lock(mutex_);
    if (is_stopping_ ||
        wake_.wait_for(lock, limits::kStandbysLook, [this] { return is_stopping_; })) {
      return;
    }
  }
}

// A server that does not answer now changes nothing.
void Standbys::look() {
  if (watch_ == nullptr) {
    kv::PostgresOptions options;
    options.url = config_.url;
    options.cluster = config_.store;
    options.patience = limits::kStandbysLook;
    auto opened = kv::PostgresWatch::open(options);
    if (!opened) return;
    watch_ = std::move(*opened);
  }
  const auto seen = watch_->look({});
  if (!seen) return;
  const Holder holder = holder_of(seen->who);
  if (holder.number != config_.own.number) return;  // the database's own connections will find that
  std::vector<std::string> addresses;
  for (const std::string& text : seen->standbys) {
    const Holder one = holder_of(text);
    if (!one.at.empty() && one.number != config_.own.number) addresses.push_back(one.at);
  }
  // First to act so, then to say so. A first start got its authority after it had the names.
  if (!addresses.empty()) shares_.store(true, std::memory_order_release);
  Holder own = config_.own;
  own.shares = shares();
  own.print = cluster::Participant::authority_print(config_.directory);
  if (text_of(own) != seen->who) {
    const auto told = watch_->tell(seen->process, text_of(own));
    if (!told) return log::warning("{}", told.error().message);
  }
  bool is_new = false;
  {
    const std::lock_guard lock(mutex_);
    is_new = addresses_ != addresses;
    addresses_ = addresses;
  }
  if (is_new) {
    log::info("{}: {}", config_.directory,
              addresses.empty()
                  ? "nobody stands by any more to take over its names and its controller"
                  : fmt::format("could be taken over by the standby at {}",
                                fmt::join(addresses, " and by that at ")));
  }
  // Also when it is not: it may not have been told well before.
  changed_(addresses);
}

namespace {

Failure refused(const std::string& directory, const std::string& why) {
  return {Code::not_supported, directory + ": " + why};
}

Outcome<void> refuse_standby(const std::string& directory) {
  TRY_ASSIGN(const uint8_t roles, cluster::Participant::roles_of(directory));
  const bool is_first = cluster::runs_controller(roles) && cluster::has_names(roles);
  if (roles == 0 || !is_first) {
    return refused(directory,
                   "has not both the controller and the names of a cluster, which go together to "
                   "another machine (give the directory of the first node)");
  }
  TRY_ASSIGN(const std::vector<Disk> disks, read_disks(directory));
  if (cluster::has_storage(roles) || !disks.empty()) {
    return refused(
        directory,
        "has storage of its own, which stays with its machine (a first node that another "
        "machine may replace is made with --roles controller,meta,agent; the disks of its "
        "machine join as a node of their own)");
  }
  TRY_ASSIGN(const KeptNames names, read_kept_names(directory));
  if (names.at.empty()) {
    return refused(directory,
                   "its names are in RocksDB in it, and stay there (move them to a server first: "
                   "'penstock metadata move " +
                       directory + " --to postgresql://...')");
  }
  if (names.moves) return refused(directory, "its names are being moved (wait until that is over)");
  return {};
}

Outcome<void> fill_standby(const std::string& directory, const std::string& made,
                           const std::string& listen) {
  ASSERT(made != directory);
  for (const char* part : {"/meta", "/targets"}) {
    if (::mkdir((made + part).c_str(), kOwnerOnlyDirectory) != 0) {
      return Failure{Status::from_errno(errno), made + part + ": cannot be made"};
    }
  }
  TRY(cluster::Participant::copy_to_standby(directory, made, listen));
  TRY(keep_turn(made, {new_number(), true}));
  // The superblock last: without it, it is no store.
  for (const char* file : {kNamesName, kSecretName, kSuperblockName}) {
    const Result<std::string> text = read_kept_file(directory + "/" + file);
    const Status status =
        text ? keep_file(made + "/" + file, *text, kOwnerOnly) : Status(text.error());
    if (!status.ok()) {
      return Failure{status, fmt::format("{}/{}: cannot be copied to {}: {}", directory, file, made,
                                         status.name())};
    }
  }
  return {};
}

}  // namespace

Outcome<void> make_standby(const std::string& directory, const std::string& made,
                           const std::string& listen) {
  TRY(refuse_standby(directory));
  if (const auto at = cluster::parse_listen(listen); !at) return at.error();
  TRY_ASSIGN(KeptTurn turn, read_turn(directory));
  // Else nobody could tell that a process of this directory is one.
  if (turn.number.empty()) {
    return refused(directory,
                   "has not been started with its names on a server by this release (start it "
                   "again, once)");
  }
  if (::mkdir(made.c_str(), kOwnerOnlyDirectory) != 0) {
    const Status status = Status::from_errno(errno);
    return Failure{status, fmt::format("{}: cannot be made: {} (give a name that is not there yet)",
                                       made, status.name())};
  }
  Outcome<void> filled = fill_standby(directory, made, listen);
  turn.shares = true;
  if (filled) filled = keep_turn(directory, turn);
  if (filled) return {};
  std::error_code error;
  std::filesystem::remove_all(made, error);
  return filled;
}

}  // namespace penstock::agent
