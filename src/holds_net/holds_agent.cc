#include "penstock/holds_net/holds_agent.h"

#include "caller.h"
#include "drops.h"
#include "limits.h"
#include "messages.h"
#include "speech.h"
#include "way.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace penstock::holds_net {
namespace {

using holds::Keeper;
using holds::KeeperAction;
using holds::Ticket;

// What the keeper says, and what is said beside it, in one order.
using Item = std::variant<KeeperAction, Unused>;

class Agent final : public HoldsAgent {
 public:
  explicit Agent(const HoldsAgentConfig& config)
      : config_(config),
        keeper_({config.node, 1}),
        version_(static_cast<uint16_t>(config.speaks.highest)),
        way_(std::make_shared<Way>(*config.loop)),
        drops_(
            config_, way_, [this](InodeId inode, Stamp recall) { dropped(inode, recall); },
            [this] { all_dropped(); }),
        attend_(
            config_, version_, [this](const Caller::Answer* answer) { answered(attend_, answer); },
            [this] { call_on(); }),
        say_(
            config_, version_, [this](const Caller::Answer* answer) { answered(say_, answer); },
            [this] { call_on(); }) {
    ASSERT(config_.net != nullptr && config_.keeping != nullptr && config_.node != NodeId());
    kick_.owner = tick_.owner = stays_.owner = this;
    kick_.completion = [](engine::Op& op) { op.owner_as<Agent>().kicked(); };
    tick_.completion = [](engine::Op& op) { op.owner_as<Agent>().tick(); };
    stays_.completion = [](engine::Op& op) { op.owner_as<Agent>().look_at_stays(); };
  }
  ~Agent() override { ASSERT(is_started_ == is_closed_ && out_ == 0 && parked_.empty()); }

  void start() override {
    while (caller_ == 0) caller_ = config_.loop->random().next();
    {
      const std::lock_guard lock(mutex_);
      ASSERT(!is_started_);
      is_started_ = true;
      begins_ = keeper_.id();
    }
    config_.loop->start(tick_, config_.loop->now() + limits::kTickInterval);
    drive();
  }

  void close(engine::Op& done) override {
    ASSERT(is_started_ && done_ == nullptr);
    done_ = &done;
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      for (auto& [inode, waiters] : parked_) {
        while (engine::Op* const op = waiters.pop_front()) {
          complete(static_cast<Waiter&>(*op), Code::closed);
        }
      }
      parked_.clear();
    }
    close_on();
  }

  // ---- any thread ----

  bool enter(InodeId inode, Hold hold, Ticket& ticket) override {
    const std::lock_guard lock(mutex_);
    return enter_now(inode, hold, ticket);
  }

  void leave(const Ticket& ticket) override {
    const std::lock_guard lock(mutex_);
    ASSERT(out_ > 0 && ticket.generation != 0);
    --out_;
    if (keeper_.generation(ticket.inode) == ticket.generation) {
      keeper_.leave(ticket.inode, ticket.generation);
      note();
    } else if (void_ > 0 && --void_ == 0) {
      kick();
    }
    if (closing_ && out_ == 0) kick();
  }

  void wait(Waiter& waiter) override {
    ASSERT(waiter.loop != nullptr && !waiter.is_waiting && waiter.hold != Hold::none);
    const std::lock_guard lock(mutex_);
    waiter.entered = false;
    waiter.is_waiting = true;
    count_waiting(1);
    if (closing_) return complete(waiter, Code::closed);
    // It has come meanwhile, perhaps.
    if (enter_now(waiter.inode, waiter.hold, waiter.ticket)) {
      waiter.entered = true;
      return complete(waiter, Code::ok);
    }
    waited_.add();
    parked_[waiter.inode].push_back(waiter);
    keeper_.wait(waiter.inode, waiter.hold);
    note();
  }

  bool cancel(Waiter& waiter) override {
    const std::lock_guard lock(mutex_);
    if (!waiter.is_waiting) return false;
    waiter.is_waiting = false;
    waiter.unlink();
    count_waiting(-1);
    const auto found = parked_.find(waiter.inode);
    ASSERT(found != parked_.end());
    if (found->second.empty()) parked_.erase(found);
    return true;
  }

  bool is_good(const Ticket& ticket) override {
    const std::lock_guard lock(mutex_);
    return keeper_.is_good(ticket.inode, ticket.session, ticket.generation, now());
  }

  void use(InodeId inode) override {
    const std::lock_guard lock(mutex_);
    keeper_.use(inode);
  }

  void unuse(InodeId inode) override {
    const std::lock_guard lock(mutex_);
    keeper_.unuse(inode);
    // Else it is said when the hold is given back.
    if (keeper_.is_used(inode) || keeper_.hold_of(inode) != Hold::none) return;
    items_.emplace_back(Unused{inode});
    kick();
  }

  void want(InodeId inode) override {
    const std::lock_guard lock(mutex_);
    if (closing_) return;
    keeper_.want(inode, now());
    note();
  }

  engine::Duration lease_left() override {
    return ready_until_.load(std::memory_order_acquire) - now();
  }
  AgentId session() override {
    const std::lock_guard lock(mutex_);
    return keeper_.id();
  }
  bool may_keep(InodeId inode, Stamp stamp) override {
    const std::lock_guard lock(mutex_);
    return keeper_.may_keep(inode, stamp, now());
  }
  bool is_ready() override {
    const std::lock_guard lock(mutex_);
    return !closing_ && keeper_.is_ready(now());
  }
  Standing standing() override {
    const std::lock_guard lock(mutex_);
    return {keeper_.id(), keeper_.life(), keeper_.has_begun(), keeper_.is_leased(now())};
  }
  Figures figures() override {
    const std::lock_guard lock(mutex_);
    Figures figures = figures_;
    figures.running = out_;
    return figures;
  }

 private:
  engine::Time now() const { return config_.loop->clock().lease_now(); }

  // ---- with the lock ----

  bool enter_now(InodeId inode, Hold hold, Ticket& ticket) {
    if (closing_ || !keeper_.enter(inode, hold, now())) return false;
    ticket = {inode, keeper_.id(), keeper_.generation(inode)};
    ASSERT(ticket.generation != 0);
    ++out_;
    return true;
  }

  // It is in no list.
  void complete(Waiter& waiter, Status status) {
    ASSERT(waiter.is_waiting && figures_.waiting > 0);
    waiter.is_waiting = false;
    count_waiting(-1);
    waiter.loop->complete_remote(waiter, status);
  }

  // With the lock. All that wait together, from one change to the next.
  void count_waiting(int by) {
    const engine::Time time = now();
    waited_nanoseconds_.add(figures_.waiting *
                            static_cast<uint64_t>((time - waiting_since_).count()));
    waiting_since_ = time;
    figures_.waiting += static_cast<size_t>(by);
    waiting_.set(figures_.waiting);
  }

  void kick() {
    if (!is_started_ || is_closed_ || std::exchange(is_kicked_, true)) return;
    config_.loop->complete_remote(kick_, Code::ok);
  }

  // Takes what the keeper has said since. To be called after each thing that it hears.
  void note() {
    ready_until_.store(keeper_.ready_until(), std::memory_order_release);
    for (auto actions = keeper_.take_actions(); !actions.empty();
         actions = keeper_.take_actions()) {
      for (KeeperAction& action : actions) {
        if (const auto* resume = std::get_if<holds::Resume>(&action)) {
          wake(resume->inode);
          continue;
        }
        if (std::holds_alternative<holds::DropAll>(action)) ++drop_alls_;
        items_.emplace_back(std::move(action));
        kick();
      }
    }
  }

  // Who waits begins at once, before anything else is heard: a recall that comes next waits for
  // what has begun, and takes the hold from nobody who has not used it.
  void wake(InodeId inode) {
    if (const auto found = parked_.find(inode); found != parked_.end()) {
      IntrusiveList<engine::Op>& waiters = found->second;
      for (engine::Op* op = waiters.first(); op != nullptr;) {
        auto& waiter = static_cast<Waiter&>(*op);
        op = waiters.next(*op);
        if (!enter_now(inode, waiter.hold, waiter.ticket)) {
          keeper_.wait(inode, waiter.hold);
          continue;
        }
        waiter.unlink();
        waiter.entered = true;
        complete(waiter, Code::ok);
      }
      if (waiters.empty()) parked_.erase(found);
    }
    keeper_.resumed(inode);
  }

  // ---- what the keeper wants, in the loop ----

  void kicked() {
    {
      const std::lock_guard lock(mutex_);
      is_kicked_ = false;
    }
    drive();
  }

  void drive() {
    for (auto items = take_items(); !items.empty(); items = take_items()) {
      for (Item& item : items) {
        if (auto* unused = std::get_if<Unused>(&item)) {
          speech_.add(*unused);
        } else {
          std::visit([this](auto& one) { do_it(one); }, std::get<KeeperAction>(item));
        }
      }
    }
    if (!is_leaving_) drops_.go_on(!has_void());
    await_stays();
    close_on();
    call_on();
  }

  std::deque<Item> take_items() {
    const std::lock_guard lock(mutex_);
    return std::exchange(items_, {});
  }
  bool has_void() {
    const std::lock_guard lock(mutex_);
    return void_ > 0;
  }

  void do_it(const holds::Resume&) { ASSERT(false); }  // done as it was said
  void do_it(const holds::Begin& begin) { begins_ = begin.agent; }
  void do_it(const holds::Drop& drop) { drops_.drop(drop); }

  void do_it(const holds::Ask& ask) {
    speech_.ask(ask.want, config_.loop->now());
    const std::lock_guard lock(mutex_);
    ++figures_.asked;
  }

  void do_it(const holds::Answer& answer) {
    speech_.add(answer.back);
    const std::lock_guard lock(mutex_);
    ++figures_.recalls;
  }

  void do_it(const holds::Claim& claim) {
    grants_.clear();
    for (const auto& [inode, hold] : claim.has) speech_.add(Claim{inode, hold});
    speech_.add(ClaimsEnd{});
  }

  // What waits to be said is of what is no more.
  void do_it(const holds::DropAll& drop) {
    speech_.clear();
    grants_.clear();
    if (drop.is_lost) {
      log::warning(
          "holds: the session of this node is over: its locks, and what programs wrote and "
          "did not sync, are lost");
    }
    drops_.drop_all(drop.is_lost);
    ++drop_alls_taken_;
    const std::lock_guard lock(mutex_);
    // Who waits for the end of a show waits for another session, or life.
    for (const auto& [inode, is_shown] : std::exchange(shown_, {})) ask_again(inode);
    // Nothing begins before all is dropped: what runs and is void only gets less.
    const uint64_t running = keeper_.running();
    ASSERT(out_ >= running);
    void_ = out_ - running;
  }

  void dropped(InodeId inode, Stamp recall) {
    {
      const std::lock_guard lock(mutex_);
      if (recall != Stamp{}) keeper_.dropped(inode, recall);
      note();
    }
    drive();
  }

  void all_dropped() {
    const std::lock_guard lock(mutex_);
    // Not where more is to be dropped, as it has heard since.
    if (drop_alls_ != drop_alls_taken_) return;
    keeper_.all_dropped();
    note();
  }

  void tick() {
    {
      const std::lock_guard lock(mutex_);
      speech_.ask_again(config_.loop->now(), [this](const Want& want) {
        return keeper_.is_asking(want.inode, want.request);
      });
    }
    drive();
    if (!is_closed_) config_.loop->start(tick_, config_.loop->now() + limits::kTickInterval);
  }

  // What was recalled and is in use stays for a moment.
  void await_stays() {
    const std::lock_guard lock(mutex_);
    if (is_closed_ || !keeper_.has_stays() || std::exchange(awaits_stays_, true)) return;
    config_.loop->start(stays_, config_.loop->now() + holds::limits::kStayLook);
  }
  void look_at_stays() {
    awaits_stays_ = false;
    if (is_closed_) return;
    {
      const std::lock_guard lock(mutex_);
      keeper_.look_at_stays(now());
      note();
    }
    drive();
  }

  // ---- calls ----

  // Begins those that are due.
  void call_on() {
    if (is_closed_ || is_silent_) return;
    AgentId id;
    uint16_t life = 0;
    bool has_begun = false;
    {
      const std::lock_guard lock(mutex_);
      id = keeper_.id();
      life = keeper_.life();
      has_begun = keeper_.has_begun();
    }
    if (attend_.is_idle() && has_begun && !is_leaving_) call(attend_, Kind::attend, id, life);
    if (!say_.is_idle()) return;
    if (is_leaving_) return call(say_, Kind::dropped, id, life);
    if (!has_begun && begins_ == id) return call(say_, Kind::begin, id, life);
    if (!has_begun) return;
    if (!speech_.next(id, life).empty()) call(say_, Kind::say, id, life);
  }

  void call(Caller& caller, Kind kind, AgentId id, uint16_t life) {
    Caller::Question question{kind, id, caller_, 0, life, {}};
    if (kind == Kind::say) {
      question.sequence = speech_.sequence();
      question.words = speech_.next(id, life);
    }
    caller.call(std::move(question));
    const std::lock_guard lock(mutex_);
    ++figures_.calls;
  }

  void answered(const Caller& caller, const Caller::Answer* answer) {
    if (answer == nullptr) {
      const std::lock_guard lock(mutex_);
      ++figures_.failed;
    } else if (caller.question().kind == Kind::dropped) {
      is_silent_ = true;
    } else if (!is_leaving_) {
      take(caller, *answer);
    }
    drive();
  }

  void take(const Caller& caller, const Caller::Answer& answer) {
    const Caller::Question& question = caller.question();
    const ResponseHeader& header = answer.header;
    if (question.kind == Kind::say) speech_.answered();
    if (question.kind == Kind::begin) return begun(caller, header);
    const std::lock_guard lock(mutex_);
    keeper_.renewed(question.of, header.is_good == 1, caller.sent(), header.life);
    note();
    for (const Told& told : answer.told) {
      std::visit([&](const auto& one) { hear(question, header, one); }, told);
      note();
    }
  }

  void begun(const Caller& caller, const ResponseHeader& header) {
    const bool good = header.is_good == 1;
    const AgentId agent = caller.question().of;
    if (begins_ != agent) return;
    begins_.reset();
    if (good && config_.session_changes) config_.session_changes(agent);
    const std::lock_guard lock(mutex_);
    keeper_.begun(agent, good, caller.sent(), header.life, header.next);
    if (good) ++figures_.sessions;
    note();
  }

  // With the lock.
  void hear(const Caller::Question&, const ResponseHeader&, const Given& given) {
    keeper_.given(given, now());
    shown_.erase(given.inode);
  }
  void hear(const Caller::Question&, const ResponseHeader&, const Recall& recall) {
    keeper_.recalled(recall, now());
  }
  // What it had open before that service began it shows now; then it is asked once more.
  void hear(const Caller::Question&, const ResponseHeader&, const Refused& refused) {
    const InodeId inode = refused.inode;
    if (!keeper_.refused(inode, refused.request) || !parked_.contains(inode)) return;
    if (refused.only_reads) return refuse(inode, Hold::exclusive, Code::read_only);
    const auto [shown, is_first] = shown_.try_emplace(inode, false);
    if (!is_first && !shown->second) return;  // it is asked once more when that has ended
    if (!is_first || !config_.show) return refuse(inode, Hold::shared, Code::stale);
    const AgentId session = keeper_.id();
    config_.show(inode, [way = way_, this, session, inode](Status status) {
      way->post([this, session, inode, status] { was_shown(session, inode, status); });
    });
  }
  void hear(const Caller::Question& question, const ResponseHeader&, const Granted& granted) {
    if (question.kind != Kind::say || !keeper_.is_claiming()) return;
    grants_.emplace_back(granted.inode, granted.stamp);
  }
  void hear(const Caller::Question& question, const ResponseHeader& header, const ClaimsTaken&) {
    keeper_.claimed(question.of, header.life, std::exchange(grants_, {}));
  }

  void was_shown(AgentId session, InodeId inode, Status status) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = shown_.find(inode);
      if (session != keeper_.id() || found == shown_.end()) return;
      found->second = true;
      if (!status.ok()) {
        refuse(inode, Hold::shared, status);
      } else if (parked_.contains(inode)) {
        ask_again(inode);
      } else {
        shown_.erase(found);
      }
      note();
    }
    drive();
  }
  // With the lock.
  void ask_again(InodeId inode) {
    const auto found = parked_.find(inode);
    if (found == parked_.end()) return;
    IntrusiveList<engine::Op>& waiters = found->second;
    for (engine::Op* op = waiters.first(); op != nullptr; op = waiters.next(*op)) {
      keeper_.wait(inode, static_cast<Waiter&>(*op).hold);
    }
  }
  // With the lock. Those who want that or more end so; others ask again.
  void refuse(InodeId inode, Hold least, Status status) {
    shown_.erase(inode);
    const auto found = parked_.find(inode);
    if (found == parked_.end()) return;
    IntrusiveList<engine::Op>& waiters = found->second;
    for (engine::Op* op = waiters.first(); op != nullptr;) {
      auto& waiter = static_cast<Waiter&>(*op);
      op = waiters.next(*op);
      if (waiter.hold < least) continue;
      waiter.unlink();
      complete(waiter, status);
    }
    if (!waiters.empty()) return ask_again(inode);
    parked_.erase(found);
  }

  // ---- the end ----

  void close_on() {
    if (done_ == nullptr || is_closed_) return;
    if (!is_leaving_) {
      if (!may_leave()) return;
      is_leaving_ = true;
      leave_until_ = config_.loop->now() + limits::kCloseTime;
    }
    if (config_.loop->now() >= leave_until_) is_silent_ = true;
    if (!is_silent_) return;
    attend_.end();
    say_.end();
    const std::lock_guard lock(mutex_);
    if (!attend_.is_idle() || !say_.is_idle() || is_kicked_ || !way_->is_empty()) return;
    way_->close();
    is_closed_ = true;
    config_.loop->cancel(tick_);
    if (awaits_stays_) config_.loop->cancel(stays_);
    config_.loop->complete(*done_, Code::ok);
  }

  bool may_leave() {
    const std::lock_guard lock(mutex_);
    if (out_ > 0 || !drops_.is_idle()) return false;
    // It has nothing that anybody would wait for.
    if (!keeper_.has_begun()) is_silent_ = true;
    return true;
  }

  const HoldsAgentConfig config_;
  uint64_t caller_ = 0;                      // this process
  std::atomic<engine::Time> ready_until_{};  // as the keeper says

  engine::Mutex mutex_;
  // Under it.
  Keeper keeper_;
  std::unordered_map<InodeId, IntrusiveList<engine::Op>> parked_;
  std::deque<Item> items_;
  bool is_started_ = false;
  bool is_closed_ = false;  // written in the loop alone, which reads it without
  bool is_kicked_ = false;
  bool closing_ = false;
  uint64_t out_ = 0;        // tickets
  uint64_t void_ = 0;       // of these, since all was to be dropped last
  uint64_t drop_alls_ = 0;  // that the keeper has asked for
  Figures figures_;
  engine::Time waiting_since_{};  // that as many wait as do now
  metrics::Counter waiting_{"holds.waiting"};
  metrics::Counter waited_{"holds.waited"};
  metrics::Counter waited_nanoseconds_{"holds.waited.nanoseconds"};

  // The loop's.
  engine::Op kick_;
  engine::Timer tick_;
  engine::Timer stays_;
  bool awaits_stays_ = false;
  uint16_t version_;  // in which it asks
  std::optional<AgentId> begins_;
  Speech speech_;
  std::vector<std::pair<InodeId, Stamp>> grants_;
  // Of which a hold was refused: whether it was shown since, so that it is not refused for that.
  std::unordered_map<InodeId, bool> shown_;
  uint64_t drop_alls_taken_ = 0;
  bool is_leaving_ = false;  // it says that it goes
  bool is_silent_ = false;   // it says nothing any more
  engine::Time leave_until_{};
  engine::Op* done_ = nullptr;
  const std::shared_ptr<Way> way_;
  Drops drops_;
  Caller attend_;
  Caller say_;
};

}  // namespace

std::unique_ptr<HoldsAgent> HoldsAgent::make(const HoldsAgentConfig& config) {
  return std::make_unique<Agent>(config);
}

}  // namespace penstock::holds_net
