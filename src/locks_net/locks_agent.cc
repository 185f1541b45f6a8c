#include "penstock/locks_net/locks_agent.h"

#include "book.h"
#include "limits.h"
#include "messages.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

namespace penstock::locks_net {
namespace {

using locks::Open;
using Place = Book::Place;

// A word that has no answer yet, and who waits for that.
struct Ask {
  Word word;
  Open* open = nullptr;
  locks::Locking::Done done;
  locks::Locking::Said told;
  bool is_cancelled = false;  // of one that may wait: not wanted any more
  bool was_said = false;      // in this session, and perhaps done
  bool is_given_up = false;   // whoever asked has been told that nobody answers
  bool was_shown = false;     // that this node may have it
  engine::Time until{};       // when it is given up; of one that may wait: never
};

InodeId inode_of(const Word& word) {
  if (const auto* const set = std::get_if<Set>(&word)) return set->wanted.inode;
  const auto* const get = std::get_if<Get>(&word);
  return get == nullptr ? InodeId() : get->wanted.inode;
}

class LocksClient final : public LocksAgent {
 public:
  explicit LocksClient(LocksAgentConfig config)
      : config_(std::move(config)), version_(static_cast<uint16_t>(config_.speaks.highest)) {
    ASSERT(config_.loop != nullptr && config_.net != nullptr && config_.standing);
    back_->client = this;
    kick_.owner = tick_.owner = pause_.owner = say_.owner = attend_.owner = this;
    kick_.completion = [](engine::Op& op) { op.owner_as<LocksClient>().kicked(); };
    tick_.completion = [](engine::Op& op) { op.owner_as<LocksClient>().tick(); };
    pause_.completion = [](engine::Op& op) {
      auto& self = op.owner_as<LocksClient>();
      self.is_pausing_ = false;
      self.go_on();
    };
    say_.completion = attend_.completion = [](engine::Op& op) {
      op.owner_as<LocksClient>().on_end(static_cast<Op&>(op));
    };
  }
  ~LocksClient() override {
    ASSERT(is_started_ == is_closed_ && asks_.empty() && waits_.empty() && shows_.empty());
    const std::lock_guard lock(back_->mutex);
    back_->client = nullptr;
  }

  void start() override {
    {
      const std::lock_guard lock(mutex_);
      ASSERT(!is_started_);
      is_started_ = true;
    }
    config_.loop->start(tick_, config_.loop->now() + limits::kTickInterval);
    go_on();
  }

  void begins(AgentId session) override {
    {
      const std::lock_guard lock(mutex_);
      if (session != session_) begin_session(session);
    }
    call_back();
  }

  void close(engine::Op& done) override {
    ASSERT(is_started_ && done_ == nullptr);
    done_ = &done;
    {
      const std::lock_guard lock(mutex_);
      is_closing_ = true;
      book_.lose_all();
      for (Ask& ask : asks_) drop(ask, Answer::lost);
      for (auto& [request, ask] : waits_) drop(ask, Answer::lost);
      for (auto& [number, ask] : shows_) drop(ask, Answer::lost);
      asks_.clear();
      waits_.clear();
      shows_.clear();
      claims_.clear();
    }
    call_back();
    close_on();
  }

  // ---- any thread ----

  RequestId next_request() override {
    const std::lock_guard lock(mutex_);
    return RequestId(++requests_);
  }

  void set(Open& open, const Wanted& wanted, RequestId waits, Done done) override {
    ASSERT(wanted.range.begin < wanted.range.end && wanted.range.end <= locks::kEnd);
    ask(open, {Set{mine(wanted), waits.value}, &open, std::move(done), {}});
  }
  void get(Open& open, const Wanted& wanted, Said told) override {
    ask(open, {Get{mine(wanted)}, &open, {}, std::move(told)});
  }

  void cancel(RequestId request) override {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = waits_.find(request.value); found != waits_.end()) {
        cancel_waiting(request.value, found->second);
      } else {
        cancel_asked(request.value);
      }
    }
    call_back();
  }

  void release(const Owner& owner, InodeId inode, Done done) override {
    bool is_idle = true;
    {
      const std::lock_guard lock(mutex_);
      const Place place{inode, mine(owner)};
      is_idle = is_closing_ || !(book_.has(place) || is_asked(place));
      if (!is_idle) add({Release{place.owner, inode}, nullptr, done, {}});
    }
    if (is_idle) done(Answer::done);
  }

  void closed(Open& open, Done done) override {
    bool is_idle = true;
    {
      const std::lock_guard lock(mutex_);
      std::set<Place> places = book_.take(open);
      const auto leave = [&](Ask& one) {
        if (one.open != &open) return;
        one.open = nullptr;
        if (const auto* const set = std::get_if<Set>(&one.word)) places.insert(place_of(*set));
      };
      for (Ask& one : asks_) leave(one);
      for (auto& [request, one] : waits_) leave(one);
      for (auto at = shows_.begin(); at != shows_.end();) {
        const bool is_its = at->second.open == &open;
        if (is_its) drop(at->second, Answer::ended);
        at = is_its ? shows_.erase(at) : std::next(at);
      }
      kick();
      for (auto& [request, one] : waits_) {
        if (one.open == nullptr) cancel_waiting(request, one);
      }
      is_idle = is_closing_ || places.empty();
      size_t left = places.size();
      for (const Place& place : is_idle ? std::set<Place>{} : places) {
        add({Release{place.owner, place.inode}, nullptr, --left == 0 ? done : Done{}, {}});
      }
    }
    if (is_idle) done(Answer::done);
  }

  bool is_ours(const Owner& owner) override { return owner.agent.node == config_.node; }

  Figures figures() override {
    const std::lock_guard lock(mutex_);
    Figures figures = figures_;
    figures.files = book_.places();
    figures.opens = book_.opens();
    figures.waiting = waits_.size();
    return figures;
  }

 private:
  struct Op : engine::CallOp {
    std::array<std::byte, engine::kNetMessageMax> asked;
    std::array<std::byte, engine::kNetMessageMax> answered;
    AgentId session;
    uint16_t life = 0;
    bool is_out = false;
  };

  // ---- with the lock ----

  // Owners are of the node, whatever its session.
  Owner mine(Owner owner) const {
    owner.agent = {config_.node, 0};
    return owner;
  }
  Wanted mine(Wanted wanted) const {
    wanted.owner = mine(wanted.owner);
    return wanted;
  }
  static Place place_of(const Set& set) { return {set.wanted.inode, set.wanted.owner}; }

  void ask(Open& open, Ask one) {
    {
      const std::lock_guard lock(mutex_);
      if (is_closing_ || open.is_lost()) {
        drop(one, Answer::lost);
      } else {
        add(std::move(one));
      }
    }
    call_back();
  }

  void add(Ask one) {
    const auto* const set = std::get_if<Set>(&one.word);
    const bool waits = set != nullptr && set->request != 0;
    one.until = waits ? engine::kNever : config_.loop->clock().now() + limits::kAskMost;
    asks_.push_back(std::move(one));
    kick();
  }
  // It has its answer.
  void drop(Ask& one, Answer answer, std::optional<Held> held = {}) {
    if (one.done) {
      calls_.emplace_back([done = std::move(one.done), answer] { done(answer); });
    } else if (one.told) {
      calls_.emplace_back([told = std::move(one.told), answer, held] { told(answer, held); });
    }
    one.done = {};
    one.told = {};
  }
  bool is_asked(const Place& place) const {
    const auto is_its = [&](const Ask& one) {
      const auto* const set = std::get_if<Set>(&one.word);
      return set != nullptr && place_of(*set) == place;
    };
    return std::any_of(asks_.begin(), asks_.end(), is_its);
  }

  void cancel_waiting(uint64_t request, Ask& one) {
    if (std::exchange(one.is_cancelled, true)) return;
    add({Cancel{request}, nullptr, {}, {}});
  }
  // What was not said yet is not said at all.
  void cancel_asked(uint64_t request) {
    for (size_t i = 0; i < asks_.size(); ++i) {
      const auto* const set = std::get_if<Set>(&asks_[i].word);
      if (set == nullptr || set->request != request) continue;
      asks_[i].is_cancelled = true;
      if (asks_[i].was_said) return;
      drop(asks_[i], Answer::ended);
      asks_.erase(asks_.begin() + static_cast<ptrdiff_t>(i));
      return;
    }
    for (auto& [number, one] : shows_) {
      const auto* const set = std::get_if<Set>(&one.word);
      if (set == nullptr || set->request != request) continue;
      drop(one, Answer::ended);
      shows_.erase(number);
      return;
    }
  }

  // What the service refused is shown to the one of names beside it, and then asked once more.
  // False: it is refused for good.
  bool show(Ask& one) {
    const InodeId inode = inode_of(one.word);
    const bool is_worth_it = config_.show && !one.was_shown && !one.is_cancelled;
    if (!is_worth_it || one.open == nullptr || inode == InodeId()) return false;
    one.was_shown = true;
    const uint64_t number = ++shows_begun_;
    shows_.emplace(number, std::move(one));
    config_.show(inode, [back = back_, number](Status status) {
      const std::lock_guard lock(back->mutex);
      if (back->client != nullptr) back->client->was_shown(number, status);
    });
    return true;
  }
  // Any thread, without the lock.
  void was_shown(uint64_t number, Status status) {
    const std::lock_guard lock(mutex_);
    const auto found = shows_.find(number);
    if (found == shows_.end()) return;
    Ask one = std::move(found->second);
    shows_.erase(found);
    if (one.open->is_lost()) {
      drop(one, Answer::lost);
    } else if (!status.ok()) {
      drop(one, Answer::refused);
    } else {
      one.was_said = false;
      asks_.push_back(std::move(one));
    }
    kick();
  }

  void kick() {
    if (!is_started_ || is_closed_ || std::exchange(is_kicked_, true)) return;
    config_.loop->complete_remote(kick_, Code::ok);
  }

  // Nothing of the one before is ours.
  void begin_session(AgentId session) {
    session_ = session;
    life_ = 0;
    sequence_ = 0;
    book_.lose_all();
    claims_.clear();
    ask_again([](const Ask& one) { return one.open != nullptr && !one.open->is_lost(); });
    for (Ask& one : asks_) one.was_said = false;
  }
  // The service knows nothing of us.
  void begin_life(uint16_t life) {
    life_ = life;
    claims_.clear();
    // The life before may have done what has no answer yet, and given to others what that left.
    for (size_t i = 0; i < said_asks_; ++i) weaken(asks_[i]);
    for (const auto& [request, one] : waits_) weaken(one);
    for (const Wanted& wanted : book_.all()) claims_.emplace_back(Have{wanted});
    claims_.emplace_back(HaveAll{});
    ask_again([](const Ask&) { return true; });
  }
  void weaken(const Ask& one) {
    if (const auto* const set = std::get_if<Set>(&one.word)) book_.weaken(set->wanted);
    if (const auto* const release = std::get_if<Release>(&one.word)) {
      book_.forget({release->inode, release->owner});
    }
  }
  // What waits there and what has no answer is asked anew, if `is_kept` says so, and ends if not.
  void ask_again(auto is_kept) {
    heard_ = 0;
    unsay();
    std::deque<Ask> again;
    const auto take = [&](Ask& one) {
      const bool is_set = std::holds_alternative<Set>(one.word);
      if (std::holds_alternative<Cancel>(one.word) || one.is_given_up) return;
      if (is_set && one.is_cancelled && !one.was_said) return drop(one, Answer::ended);
      if (is_kept(one)) return again.push_back(std::move(one));
      // What it was to unlock is unlocked.
      const bool is_release = std::holds_alternative<Release>(one.word);
      drop(one, is_release ? Answer::done : Answer::lost);
    };
    for (auto& [request, one] : waits_) take(one);
    for (Ask& one : asks_) take(one);
    waits_.clear();
    asks_ = std::move(again);
  }
  void unsay() {
    said_.clear();
    said_words_ = said_asks_ = 0;
    is_claim_ = false;
  }

  // ---- in the loop ----

  void kicked() {
    {
      const std::lock_guard lock(mutex_);
      is_kicked_ = false;
    }
    go_on();
  }
  void tick() {
    go_on();
    if (!is_closed_) config_.loop->start(tick_, config_.loop->now() + limits::kTickInterval);
  }
  void go_on() {
    if (done_ == nullptr) call_if_due();
    call_back();
    close_on();
  }
  // Those whose request has ended.
  void call_back() {
    std::vector<std::function<void()>> calls;
    {
      const std::lock_guard lock(mutex_);
      calls.swap(calls_);
    }
    for (const auto& call : calls) call();
  }

  void call_if_due() {
    const Standing standing = config_.standing();
    const std::lock_guard lock(mutex_);
    if (standing.session != session_) begin_session(standing.session);
    if (!standing.has_begun || standing.life == 0) return give_up();
    if (!standing.is_leased) return give_up();
    if (standing.life != life_) begin_life(standing.life);
    if (is_pausing_ || say_.is_out) return;
    const bool has_words = !claims_.empty() || !asks_.empty();
    if (said_.empty() && has_words) say();
    if (!said_.empty()) call(say_);
    // What is told while something is said is not taken: its order would not be known.
    if (!waits_.empty() && !attend_.is_out) call(attend_);
  }

  // Nobody answers. What was said has perhaps been done, and stays until that is known: nobody
  // relies any more on what was locked there. A release is said in any case.
  void give_up() {
    const engine::Time now = config_.loop->now();
    const auto is_over = [&](const Ask& one) { return now >= one.until; };
    for (Ask& one : asks_) {
      if (!is_over(one) || std::exchange(one.is_given_up, !gives_back(one))) continue;
      const auto* const set = std::get_if<Set>(&one.word);
      if (set != nullptr && one.was_said) {
        book_.doubt(place_of(*set));
        if (one.open != nullptr) one.open->lose();
      }
      drop(one, Answer::lost);
    }
    std::erase_if(asks_, [](const Ask& one) { return !one.was_said && one.is_given_up; });
  }
  static bool gives_back(const Ask& one) {
    return std::holds_alternative<Release>(one.word) || std::holds_alternative<Cancel>(one.word);
  }

  // Takes the next words; of what it has, or what is asked.
  void say() {
    unsay();
    is_claim_ = !claims_.empty();
    const size_t count = is_claim_ ? claims_.size() : asks_.size();
    while (said_words_ < std::min(count, limits::kWordsAtOnce)) {
      const Word& word = is_claim_ ? claims_[said_words_] : asks_[said_words_].word;
      encode(word, said_);
      if (!is_claim_) asks_[said_words_].was_said = true;
      ++said_words_;
    }
    if (!is_claim_) said_asks_ = said_words_;
    ASSERT(said_.size() <= kWordsRoom);
    ++sequence_;
  }

  void call(Op& op) {
    const bool says = &op == &say_;
    const std::string_view words = says ? said_ : std::string_view();
    RequestHeader header;
    header.version = version_;
    header.words = static_cast<uint16_t>(says ? said_words_ : 0);
    header.session = session_.session;
    header.sequence = says ? sequence_ : 0;
    header.heard = heard_;
    header.life = life_;
    header.checksum = checksum_of(header, words);
    std::memcpy(op.asked.data(), &header, sizeof header);
    std::memcpy(op.asked.data() + sizeof header, words.data(), words.size());
    op.to = config_.find ? config_.find() : config_.service;
    op.method = kMethod;
    op.request = Bytes(op.asked).first(sizeof header + words.size());
    op.response = op.answered;
    op.response_length = 0;
    op.exposure_count = 0;
    op.deadline = config_.loop->now() + limits::kCallTime;
    op.session = session_;
    op.life = life_;
    op.is_out = true;
    ++figures_.calls;
    config_.net->call(op);
  }

  void on_end(Op& op) {
    const bool is_leased = config_.standing().is_leased;
    {
      const std::lock_guard lock(mutex_);
      op.is_out = false;
      // Of another session or life: what it is about is said anew.
      const bool is_of_now = op.session == session_ && op.life == life_ && !is_closing_;
      // Where the lease is over it is told again, by whoever has the table then.
      if (is_of_now && !(is_leased && read(op))) pause();
    }
    go_on();
  }
  void pause() {
    ++figures_.failed;
    if (std::exchange(is_pausing_, true)) return;
    config_.loop->start(pause_, config_.loop->now() + pause_time_);
    pause_time_ = std::min(pause_time_ * 2, limits::kPauseMost);
  }

  // False: it is no answer, or the session is over and the holds do not know yet.
  bool read(const Op& op) {
    ResponseHeader header;
    ASSERT(op.response_length <= op.answered.size());
    const Bytes answered = Bytes(op.answered).first(op.response_length);
    if (answered.size() < sizeof header) return false;
    std::memcpy(&header, answered.data(), sizeof header);
    if (op.status == Status(Code::wrong_version)) learn_version(header);
    const std::string_view bytes = text_of(answered.subspan(sizeof header));
    const bool is_sound = op.status.ok() && header.life == life_ && header.is_good == 1 &&
                          header.taken <= (&op == &say_ ? said_words_ : 0) &&
                          crc32c(bytes_of(bytes)) == header.checksum;
    if (!is_sound) return false;
    const auto told = decode_told(bytes);
    if (!told) return false;
    const auto answers = std::count_if(told->begin(), told->end(), [](const auto& one) {
      return !std::holds_alternative<NoLonger>(one);
    });
    if (static_cast<size_t>(answers) != header.taken) return false;
    pause_time_ = limits::kPauseFirst;
    if (&op == &attend_ && !said_.empty()) return true;
    const bool is_claim = is_claim_;
    // What was not taken is said under the next number.
    if (&op == &say_) unsay();
    for (const auto& one : *told) {
      std::visit([&](const auto& is) { hear(is_claim, is); }, one);
    }
    return true;
  }

  void learn_version(const ResponseHeader& header) {
    const wire::Protocol& ours = config_.speaks;
    const bool is_spoken = header.lowest <= ours.highest && header.highest >= ours.lowest;
    if (!is_spoken) return;
    version_ = static_cast<uint16_t>(std::min<uint32_t>(header.highest, ours.highest));
  }

  void hear(bool is_claim, const Answered& answered) { take(is_claim, answered.answer, {}); }
  void hear(bool is_claim, const InTheWay& one) { take(is_claim, Answer::held, one.held); }
  void hear(bool, const NoLonger& one) {
    if (one.event <= heard_) return;
    heard_ = one.event;
    finish(one.request, one.answer);
  }

  // Of the first word.
  void take(bool is_claim, Answer answer, const std::optional<Held>& held) {
    if (is_claim) {
      ASSERT(!claims_.empty());
      const auto* const have = std::get_if<Have>(&claims_.front());
      if (have != nullptr && answer != Answer::done) {
        book_.lose({have->wanted.inode, have->wanted.owner});
      }
      claims_.pop_front();
      return;
    }
    ASSERT(!asks_.empty());
    Ask one = std::move(asks_.front());
    asks_.pop_front();
    if (const auto* const set = std::get_if<Set>(&one.word)) {
      take_set(std::move(one), *set, answer);
    } else if (const auto* const cancel = std::get_if<Cancel>(&one.word)) {
      finish(cancel->request, Answer::ended);
    } else {
      if (answer == Answer::refused && show(one)) return;
      const auto* const release = std::get_if<Release>(&one.word);
      if (release != nullptr) book_.forget({release->inode, release->owner});
      drop(one, answer, held);
    }
  }
  void take_set(Ask one, const Set set, Answer answer) {
    const bool waits = answer == Answer::waits && set.request != 0;
    // A lock of flock is given up before it is tried as another type.
    const bool is_flock = set.wanted.owner.kind == Kind::whole;
    if (is_flock && answer != Answer::done) book_.forget(place_of(set));
    if (answer == Answer::refused && show(one)) return;
    if (!waits) return end_set(one, set, answer);
    const auto [at, is_new] = waits_.emplace(set.request, std::move(one));
    ASSERT(is_new);
    if (std::exchange(at->second.is_cancelled, false)) cancel_waiting(set.request, at->second);
  }
  void finish(uint64_t request, Answer answer) {
    const auto found = waits_.find(request);
    if (found == waits_.end()) return;
    Ask one = std::move(found->second);
    waits_.erase(found);
    end_set(one, std::get<Set>(one.word), answer);
  }
  void end_set(Ask& one, const Set& set, Answer answer) {
    if (answer == Answer::done) book_.note(set.wanted, one.open);
    drop(one, answer);
  }

  void close_on() {
    if (done_ == nullptr || is_closed_) return;
    if (is_pausing_ && config_.loop->cancel(pause_)) is_pausing_ = false;
    const std::lock_guard lock(mutex_);
    for (Op* const op : {&say_, &attend_}) {
      if (op->is_out) config_.net->cancel(*op);
    }
    if (say_.is_out || attend_.is_out) return;
    if (is_kicked_ || is_pausing_) return;
    is_closed_ = true;
    config_.loop->cancel(tick_);
    config_.loop->complete(*done_, Code::ok);
  }

  // Back to this, as long as it is.
  struct Back {
    engine::Mutex mutex;
    LocksClient* client = nullptr;  // under it
  };

  const LocksAgentConfig config_;
  const std::shared_ptr<Back> back_ = std::make_shared<Back>();

  engine::Mutex mutex_;
  // Under it.
  std::deque<Ask> asks_;           // in order
  std::map<uint64_t, Ask> waits_;  // at the service, by request
  std::map<uint64_t, Ask> shows_;  // that were refused, until this node's right was shown
  uint64_t shows_begun_ = 0;
  Book book_;
  std::vector<std::function<void()>> calls_;  // to be called without it
  uint64_t requests_ = 0;
  bool is_started_ = false;
  bool is_closing_ = false;
  bool is_closed_ = false;  // written in the loop alone, which reads it without
  bool is_kicked_ = false;
  size_t said_asks_ = 0;  // of asks_: under way
  Figures figures_;

  // Under it as well, and written in the loop alone.
  AgentId session_;
  uint16_t life_ = 0;
  uint64_t sequence_ = 0;
  uint64_t heard_ = 0;
  std::deque<Word> claims_;
  std::string said_;  // without an answer yet
  size_t said_words_ = 0;
  bool is_claim_ = false;

  // The loop's.
  engine::Op kick_;
  engine::Timer tick_;
  engine::Timer pause_;
  Op say_;
  Op attend_;
  bool is_pausing_ = false;
  engine::Duration pause_time_ = limits::kPauseFirst;
  uint16_t version_;  // in which it asks
  engine::Op* done_ = nullptr;
};

}  // namespace

std::unique_ptr<LocksAgent> LocksAgent::make(LocksAgentConfig config) {
  return std::make_unique<LocksClient>(std::move(config));
}

}  // namespace penstock::locks_net
