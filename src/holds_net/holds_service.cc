#include "penstock/holds_net/holds_service.h"

#include "calls.h"
#include "judging.h"
#include "limits.h"
#include "listener.h"
#include "messages.h"
#include "records.h"
#include "sessions.h"
#include "way.h"

#include <fmt/format.h>
#include <map>
#include <set>
#include <utility>

namespace penstock::holds_net {
namespace {

struct HoldMetrics {
  metrics::Counter held{"holds.held"};
  metrics::Counter given{"holds.given"};
  metrics::Counter recalled{"holds.recalled"};
  metrics::Counter begun{"holds.sessions.begun"};
  metrics::Counter ended{"holds.sessions.ended"};  // by time, without an answer, or removed
  metrics::Counter ending{"holds.sessions.ending"};
};

class Service final : public HoldsService {
 public:
  Service(const HoldsServiceConfig& config, Records records)
      : config_(config),
        life_(records.life),
        records_(std::move(records.nodes)),
        before_(sessions_of(records_)),
        way_(std::make_shared<Way>(*config.loop)),
        judging_(config_),
        calls_(
            config_, life_, [this](Asked& asked) { take(asked); }, [this] { end_if_stopped(); }),
        sessions_(
            config_, way_, [this](AgentId agent) { return exclusives_of(agent); },
            [this](AgentId agent) { settled(agent); }, [this] { end_if_stopped(); }) {
    ASSERT(config_.net != nullptr && config_.address.node != NodeId() && life_ > 0);
    const engine::Time wait =
        now() + config_.life_before + limits::kAgentLease + limits::kLeaseGuard;
    table_ = std::make_unique<holds::Table>(life_, before_, now(), wait);
    tick_.owner = this;
    tick_.completion = [](engine::Op& op) { op.owner_as<Service>().tick(); };
  }
  ~Service() override { ASSERT(calls_.counts().open == 0 && is_started_ == is_stopped_); }

  void start() override {
    ASSERT(!is_started_);
    is_started_ = true;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [node, record] : records_) begin_with(node, record);
      ticked_ = now();
    }
    records_.clear();
    act();
    config_.loop->start(tick_, config_.loop->now() + limits::kTickInterval);
    calls_.start();
  }

  void stop(engine::Op& done) override {
    ASSERT(is_started_ && done_ == nullptr);
    done_ = &done;
    calls_.stop();
    sessions_.stop();
    way_->close();
    for (auto& [node, listener] : listeners_) {
      Asked* const waits = std::exchange(listener.attending, nullptr);
      if (waits != nullptr) calls_.reply(*waits, Code::peer_gone);
    }
    end_if_stopped();
  }

  uint16_t life() const override { return life_; }
  const std::vector<AgentId>& sessions_before() const override { return before_; }

  void expel(NodeId node) override {
    const auto found = listeners_.find(node);
    if (found == listeners_.end()) return;
    {
      const std::lock_guard lock(mutex_);
      table_->expel({node, found->second.session}, now());
    }
    act();
  }

  // ---- thread safe ----

  bool is_claiming() override {
    const std::lock_guard lock(mutex_);
    return table_->is_claiming();
  }
  bool is_in_use(InodeId inode, AgentId beside) override {
    const std::lock_guard lock(mutex_);
    return table_->is_in_use(inode, beside);
  }
  bool has_session(NodeId node) override {
    const std::lock_guard lock(mutex_);
    return table_->has_session(node);
  }
  bool is_good(AgentId agent) override {
    const std::lock_guard lock(mutex_);
    return table_->is_good(agent);
  }
  bool is_exclusive_somewhere(InodeId inode) override {
    const std::lock_guard lock(mutex_);
    return table_->is_exclusive(inode);
  }
  bool is_known_exclusive(InodeId inode) override {
    const std::lock_guard lock(mutex_);
    return table_->is_known_exclusive(inode);
  }
  std::vector<AgentId> inherited() override {
    const std::lock_guard lock(mutex_);
    return table_->inherited();
  }
  Hold hold_of(AgentId agent, InodeId inode) override {
    const std::lock_guard lock(mutex_);
    return table_->hold_of(agent, inode);
  }

  RequestId barrier(AgentId maker, std::vector<holds::Part> parts, Ready ready) override {
    for (holds::Part& part : parts) bound_names(part.names);
    RequestId request;
    {
      const std::lock_guard lock(mutex_);
      request = RequestId(++barriers_);
      ready_.emplace(request, std::move(ready));
      table_->barrier({request, maker, std::move(parts)}, now());
    }
    way_->post([this] { act(); });
    return request;
  }
  void over(RequestId barrier, bool changed) override {
    {
      const std::lock_guard lock(mutex_);
      table_->over(barrier, changed, now());
    }
    way_->post([this] { act(); });
  }
  bool is_kept_elsewhere(InodeId inode, AgentId maker) override {
    const std::lock_guard lock(mutex_);
    return table_->is_kept_elsewhere(inode, maker);
  }
  Stamp reading(InodeId inode) override {
    const std::lock_guard lock(mutex_);
    return table_->reading(inode);
  }
  Figures figures() override {
    const Calls::Counts calls = calls_.counts();
    const std::lock_guard lock(mutex_);
    Figures figures = figures_;
    figures.answered = calls.answered;
    figures.refused = calls.refused;
    figures.open = calls.open;
    figures.holds = table_->holds();
    return figures;
  }

 private:
  bool is_stopping() const { return done_ != nullptr; }
  engine::Time now() const { return config_.loop->clock().lease_now(); }
  void count(auto change) {
    const std::lock_guard lock(mutex_);
    change(figures_);
  }

  bool may_lease() const {
    return !config_.answers_until || config_.answers_until() >= now() + limits::kAgentLease;
  }

  // With the lock. What a life before knew of a node.
  void begin_with(NodeId node, const NodeRecord& record) {
    for (const SessionRecord& one : record.sessions) {
      const AgentId agent{node, one.session};
      if (one.session < record.latest) {
        // The later one began after it had dropped everything.
        table_->dropped(agent, now());
      } else if (one.has_ended) {
        table_->expel(agent, now());
      } else {
        listeners_[node].session = one.session;
      }
    }
  }

  void take(Asked& asked) {
    if (!may_lease()) return calls_.reply(asked, Code::busy);
    switch (static_cast<Kind>(asked.header.kind)) {
      case Kind::begin:
        return begin(asked);
      case Kind::say:
        return say(asked);
      case Kind::attend:
        return attend(asked);
      case Kind::dropped:
        return drop(asked);
    }
  }

  // ---- sessions ----

  void begin(Asked& asked) {
    const NodeId node = asked.agent.node;
    const Listener& listener = listeners_[node];
    const bool is_again = listener.is_begun_here && listener.session == asked.header.session &&
                          listener.caller == asked.header.caller;
    if (is_again) return answer_begin(asked);
    if (!beginning_.insert(node).second) return calls_.reply(asked, Code::busy);
    // Durable before the table hears of it.
    sessions_.begin(asked.agent, [this, &asked](const Begun& begun) { on_begun(asked, begun); });
  }

  void on_begun(Asked& asked, const Begun& begun) {
    beginning_.erase(asked.agent.node);
    if (is_stopping()) return calls_.reply(asked, Code::peer_gone);
    if (begun.status == Status(Code::stale)) {
      asked.next = begun.next;
      return answer(asked, false);
    }
    if (!begun.status.ok()) return calls_.reply(asked, begun.status);
    Listener& listener = listeners_[asked.agent.node];
    Asked* const waits = listener.attending;  // of the session before
    listener = Listener{};
    listener.session = asked.header.session;
    listener.caller = asked.header.caller;
    listener.is_begun_here = true;
    if (waits != nullptr) answer(*waits, false);
    metrics_.begun.add();
    count([](Figures& figures) { ++figures.begun; });
    answer_begin(asked);
  }

  void answer_begin(Asked& asked) {
    bool good = false;
    {
      const std::lock_guard lock(mutex_);
      // Of one that has ended the table may know nothing any more.
      if (!listeners_[asked.agent.node].has_ended) table_->begin(asked.agent, now());
      good = table_->is_good(asked.agent);
    }
    act();
    asked.next = asked.header.session + 1;
    answer(asked, good);
  }

  void drop(Asked& asked) {
    if (hear(asked) != nullptr) {
      {
        const std::lock_guard lock(mutex_);
        table_->dropped(asked.agent, now());
      }
      act();
    }
    answer(asked, false);
  }

  void do_it(const holds::End& end) {
    log::info("holds: session {} of node {} is over", end.agent.session, end.agent.node.value);
    metrics_.ended.add();
    count([](Figures& figures) { ++figures.ended, ++figures.ending; });
    if (Listener* const listener = listener_of(end.agent); listener != nullptr) {
      listener->has_ended = true;
      listener->clear();
      Asked* const waits = std::exchange(listener->attending, nullptr);
      if (waits != nullptr) answer(*waits, false);
    }
    sessions_.end(end.agent);
  }
  void do_it(const holds::Gone& gone) {
    sessions_.forget(gone.agent);
    if (config_.gone) config_.gone(gone.agent);
  }

  std::vector<InodeId> exclusives_of(AgentId agent) {
    const std::lock_guard lock(mutex_);
    return table_->exclusives_of(agent);
  }

  void settled(AgentId agent) {
    {
      const std::lock_guard lock(mutex_);
      ASSERT(figures_.ending > 0);
      --figures_.ending;
      table_->fenced(agent, now());
    }
    act();
  }

  // ---- words ----

  // Who asks, if it has this session, whose lease goes on then.
  Listener* hear(const Asked& asked) {
    Listener* const listener = listener_of(asked.agent);
    if (listener == nullptr) return nullptr;
    const std::lock_guard lock(mutex_);
    if (listener->caller == 0 && table_->is_good(asked.agent)) {
      listener->caller = asked.header.caller;
    }
    if (listener->caller != asked.header.caller) return nullptr;
    return table_->renew(asked.agent, now()) ? listener : nullptr;
  }

  void say(Asked& asked) {
    std::optional<std::vector<Word>> words = decode_words(asked.words, asked.agent);
    asked.words = {};
    if (!words) return calls_.refuse(asked, Code::bad_message);
    Listener* const listener = hear(asked);
    if (listener == nullptr) return answer(asked, false);
    // What is late has been said again since; what comes again is done.
    const uint64_t sequence = asked.header.sequence;
    if (asked.header.life == life_ && sequence >= listener->sequence) {
      const bool is_again = sequence == listener->sequence;
      listener->sequence = sequence;
      const size_t denied = is_again ? 0 : judging_.judge(asked.agent, *listener, *words);
      asked.is_trusted = judging_.is_trusted(asked.agent.node);
      const std::lock_guard lock(mutex_);
      figures_.denied += denied;
      for (const Word& word : *words) {
        std::visit([&](const auto& one) { hear(asked, *listener, is_again, one); }, word);
      }
    }
    act();
    answer(asked, is_good(asked.agent));
  }

  // With the lock.
  void hear(Asked&, Listener&, bool is_again, const Want& want) {
    if (is_again) return;
    // It asks again where it has not been answered, or hears of its end.
    (void)table_->want(want, now());
  }
  void hear(Asked&, Listener& listener, bool is_again, const Back& back) {
    if (is_again) return;
    listener.unanswered.erase(back.recall);
    table_->back(back, now());
  }
  void hear(Asked& asked, Listener&, bool is_again, const GiveUp& word) {
    if (!is_again) table_->give_up(asked.agent, word.inode, word.grant, word.in_use, now());
  }
  void hear(Asked& asked, Listener&, bool is_again, const Unused& word) {
    if (!is_again) table_->unused(asked.agent, word.inode);
  }
  void hear(Asked& asked, Listener&, bool is_again, const Cancel& word) {
    if (!is_again) table_->cancel(asked.agent, word.inode, word.request, now());
  }
  // Also again, as the answer has to say it.
  void hear(Asked& asked, Listener& listener, bool is_again, const Claim& word) {
    listener.claims += is_again ? 0 : 1;
    if (listener.claims > limits::kHoldsOfAgentMax) return table_->expel(asked.agent, now());
    const Result<Stamp> claimed = table_->claim(asked.agent, word.inode, word.hold,
                                                word.hold == Hold::none, asked.is_trusted);
    const Stamp grant = claimed ? *claimed : table_->grant_of(asked.agent, word.inode);
    if (grant != Stamp{}) asked.told.emplace_back(Granted{word.inode, grant});
  }
  void hear(Asked& asked, Listener&, bool, const ClaimsEnd&) {
    table_->claimed(asked.agent, now());
    if (table_->is_good(asked.agent)) asked.told.emplace_back(ClaimsTaken{});
  }

  // ---- telling ----

  void attend(Asked& asked) {
    Listener* const listener = hear(asked);
    if (listener == nullptr) return answer(asked, false);
    // One at a time: the one before is one that was given up, or this one, which came twice.
    Asked* const before = std::exchange(listener->attending, &asked);
    asked.until = config_.loop->now() + limits::kRenewInterval;
    if (before != nullptr) answer(*before, true, false);
    look_after(*listener);
  }

  // Answers who attends, if there is something to tell, or it has waited for long.
  void look_after(Listener& listener) {
    if (listener.attending == nullptr) return;
    const engine::Time time = config_.loop->now();
    if (listener.has_to_be_reminded(time)) {
      const std::lock_guard lock(mutex_);
      listener.remind(table_->recalls_of(listener.attending->agent), time);
    }
    const bool is_long = time >= listener.attending->until;
    if (listener.to_tell.empty() && !is_long) return;
    Asked& asked = *std::exchange(listener.attending, nullptr);
    answer(asked, is_good(asked.agent));
  }

  Listener* listener_of(AgentId agent) {
    const auto found = listeners_.find(agent.node);
    const bool is_it = found != listeners_.end() && found->second.session == agent.session;
    return is_it ? &found->second : nullptr;
  }
  void do_it(const Given& given) {
    metrics_.given.add();
    Listener* const listener = listener_of(given.agent);
    if (listener == nullptr) return;
    listener->add(given);
    news_.insert(given.agent.node);
  }
  void do_it(const Recall& recall) {
    metrics_.recalled.add();
    count([](Figures& figures) { ++figures.recalls; });
    Listener* const listener = listener_of(recall.agent);
    if (listener == nullptr) return;
    listener->add_recall(recall, config_.loop->now());
    news_.insert(recall.agent.node);
  }
  void do_it(const holds::Ready& ready) {
    Ready call;
    {
      const std::lock_guard lock(mutex_);
      const auto found = ready_.find(ready.request);
      ASSERT(found != ready_.end());
      call = std::move(found->second);
      ready_.erase(found);
    }
    call(ready.stamps);
  }

  // Does what the table says, and tells who waits for it.
  void act() {
    if (is_stopping() || std::exchange(is_acting_, true)) return;
    while (act_once()) {
    }
    is_acting_ = false;
    for (const NodeId node : std::exchange(news_, {})) look_after(listeners_[node]);
  }

  bool act_once() {
    std::vector<holds::Action> actions;
    std::vector<InodeId> unused;
    bool is_over = false;
    {
      const std::lock_guard lock(mutex_);
      actions = table_->take_actions();
      unused = table_->take_unused();
      is_over = !claims_over_ && !table_->is_claiming();
      claims_over_ |= is_over;
    }
    for (const holds::Action& action : actions) {
      std::visit([this](const auto& one) { do_it(one); }, action);
    }
    if (is_over && !before_.empty()) {
      log::info("holds: it is known what {} sessions of before have", before_.size());
    }
    if (is_over && config_.claims_over) config_.claims_over();
    if (config_.unused) {
      for (const InodeId inode : unused) config_.unused(inode);
    }
    return !actions.empty() || !unused.empty() || is_over;
  }

  void tick() {
    if (is_stopping()) {
      end_if_stopped();
    } else {
      {
        const std::lock_guard lock(mutex_);
        // Nobody was heard who would have claimed or renewed.
        const engine::Time time = now();
        const bool stood_still = time - ticked_ >= limits::kStoodStill;
        if (stood_still || !may_lease()) table_->not_heard(time);
        ticked_ = time;
        table_->tick(time);
        metrics_.held.set(table_->holds());
        metrics_.ending.set(figures_.ending);
      }
      act();
      sessions_.tick();
      for (auto& [node, listener] : listeners_) look_after(listener);
    }
    if (!is_stopped_) config_.loop->start(tick_, config_.loop->now() + limits::kTickInterval);
  }

  // ---- answering ----

  // `tells`: what is new, too.
  void answer(Asked& asked, bool good, bool tells = true) {
    asked.is_good = good;
    const size_t room = Calls::room_of(asked);
    for (const Told& told : asked.told) encode(told, asked.bytes);
    // Claims that it has no room for are said again.
    if (asked.bytes.size() > room) asked.bytes.clear();
    Listener* const listener = good && tells ? listener_of(asked.agent) : nullptr;
    if (listener != nullptr) listener->put(asked.bytes, room);
    calls_.answer(asked);
  }

  void end_if_stopped() {
    const bool is_over = is_stopping() && !is_stopped_ && sessions_.is_idle() && way_->is_empty() &&
                         calls_.counts().open == 0;
    if (!is_over) return;
    is_stopped_ = true;
    config_.loop->cancel(tick_);
    config_.loop->complete(*done_, Code::ok);
  }

  const HoldsServiceConfig config_;
  const uint16_t life_;
  NodeRecords records_;  // until it starts
  const std::vector<AgentId> before_;
  std::map<NodeId, Listener> listeners_;
  std::set<NodeId> beginning_;  // whose session is being recorded
  std::set<NodeId> news_;       // of whom something waits to be told
  engine::Timer tick_;
  engine::Time ticked_{};
  bool is_acting_ = false;
  bool is_started_ = false;
  bool is_stopped_ = false;
  engine::Op* done_ = nullptr;
  HoldMetrics metrics_;

  engine::Mutex mutex_;
  // Under it.
  std::unique_ptr<holds::Table> table_;
  std::map<RequestId, Ready> ready_;  // of barriers that wait
  uint64_t barriers_ = 0;
  bool claims_over_ = false;
  Figures figures_;

  const std::shared_ptr<Way> way_;
  Judging judging_;
  Calls calls_;
  Sessions sessions_;  // last: its threads use what is above
};

}  // namespace

Outcome<std::unique_ptr<HoldsService>> HoldsService::open(const HoldsServiceConfig& config) {
  ASSERT(config.loop != nullptr && config.kv != nullptr);
  Records records;
  const Status status = config.kv->run(engine::KvMode::write_durable,
                                       [&](engine::KvTransaction& transaction) -> Status {
                                         TRY_ASSIGN(records, begin_life(transaction));
                                         return Code::ok;
                                       });
  if (status.ok()) {
    return std::unique_ptr<HoldsService>(std::make_unique<Service>(config, std::move(records)));
  }
  const char* const hint = status.code() == Code::wrong_version
                               ? " (a later release wrote them, or 65,535 lives were begun)"
                               : "";
  return Failure{status, fmt::format("holds: the records of sessions could not be read: {}{}",
                                     status.name(), hint)};
}

}  // namespace penstock::holds_net
