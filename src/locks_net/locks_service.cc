#include "penstock/locks_net/locks_service.h"

#include "limits.h"
#include "messages.h"

#include <array>
#include <deque>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace penstock::locks_net {
namespace {

struct LockMetrics {
  metrics::Counter held{"locks.held"};
  metrics::Counter waiting{"locks.waiting"};
  metrics::Counter given{"locks.given"};
  metrics::Counter waited{"locks.waited"};  // that could not be given at once
  metrics::Counter deadlocks{"locks.deadlocks"};
  metrics::Counter full{"locks.full"};
  metrics::Counter refused{"locks.refused"};  // calls
  metrics::Counter denied{"locks.denied"};    // of nodes that are restricted

  // How one that was asked for has ended, or that it waits.
  void count(Answer answer) {
    switch (answer) {
      case Answer::done:
        return given.add();
      case Answer::waits:
        return waited.add();
      case Answer::deadlock:
        return deadlocks.add();
      case Answer::full:
        return full.add();
      case Answer::refused:
        return denied.add();
      case Answer::held:
      case Answer::lost:
      case Answer::ended:
        return;
    }
  }
};

class LocksServer final : public LocksService, private engine::Service {
 public:
  explicit LocksServer(LocksServiceConfig config)
      : config_(std::move(config)),
        before_(config_.before.begin(), config_.before.end()),
        log_(config_.loop->clock()) {
    ASSERT(config_.net != nullptr && config_.address.node != NodeId() && config_.life > 0);
    ASSERT(config_.is_good && config_.expel);
    tick_.owner = this;
    tick_.completion = [](engine::Op& op) { op.owner_as<LocksServer>().tick(); };
    note();
  }
  ~LocksServer() override { ASSERT(is_started_ == is_stopped_ && open_.empty()); }

  void start() override {
    ASSERT(!is_started_);
    is_started_ = true;
    claim_until_ = config_.loop->now() + limits::kClaimMost;
    config_.loop->start(tick_, config_.loop->now() + limits::kTickInterval);
    config_.net->serve(config_.address, *this);
  }

  void stop(engine::Op& done) override {
    ASSERT(is_started_ && !is_stopped_);
    config_.net->withdraw(config_.address);
    is_stopped_ = true;
    for (auto& [agent, speaker] : speakers_) {
      if (speaker.waiting != nullptr)
        end(*std::exchange(speaker.waiting, nullptr), Code::peer_gone);
    }
    config_.loop->cancel(tick_);
    config_.loop->complete(done, Code::ok);
  }

  void gone(AgentId agent) override {
    if (is_stopped_) return;
    before_.erase(agent);
    table_.end(agent);
    if (const auto found = speakers_.find(agent); found != speakers_.end()) {
      engine::IncomingCall* const waits = found->second.waiting;
      speakers_.erase(found);
      if (waits != nullptr) answer(*waits, false, 0, {});
    }
    tell();
    note();
  }

  Figures figures() override {
    const std::lock_guard lock(mutex_);
    return figures_;
  }

 private:
  // A session that talks to this life.
  struct Speaker {
    uint64_t sequence = 0;  // of what it said last
    std::string told;       // in answer to that
    uint32_t taken = 0;     // of these
    bool has_said_all = false;
    uint64_t events = 0;
    std::deque<NoLonger> to_tell;  // until it has heard of them
    engine::IncomingCall* waiting = nullptr;
    engine::Time until{};  // of that
  };

  void on_call(engine::IncomingCall& call) override {
    RequestHeader header;
    std::string_view bytes;
    const Status good = check(call, header, bytes);
    if (!good.ok()) return refuse(call, good);
    const AgentId agent{call.peer().node, header.session};
    const std::optional<std::vector<Word>> words = decode_words(bytes, agent);
    if (!words || words->size() != header.words) return refuse(call, Code::bad_message);
    size_t& open = open_[agent.node];
    if (open >= limits::kCallsPerNode) return refuse(call, Code::busy);
    ++open;
    // Of another life: it has its standing from the holds.
    if (header.life != config_.life) return end(call, Code::stale);
    if (!config_.is_good(agent)) return answer(call, false, 0, {});
    hear(call, header, speakers_[agent], agent, *words);
    note();
  }

  // ok, or what the call ends with.
  Status check(engine::IncomingCall& call, RequestHeader& header, std::string_view& words) const {
    if (is_stopped_) return Code::peer_gone;
    if (config_.may_answer && !config_.may_answer()) return Code::peer_gone;
    if ((call.peer().roles & engine::kRoleAgent) == 0) return Code::access_denied;
    if (call.method != kMethod || call.request.size() < sizeof header) return Code::bad_message;
    std::memcpy(&header, call.request.data(), sizeof header);
    const bool is_spoken =
        header.version >= config_.speaks.lowest && header.version <= config_.speaks.highest;
    if (!is_spoken) return Code::wrong_version;
    words = text_of(call.request.subspan(sizeof header));
    const bool is_whole = checksum_of(header, words) == header.checksum;
    const bool says_some = (header.words > 0) == (header.sequence > 0);
    const bool is_good = is_whole && header.session > 0 && says_some && header.unused == 0;
    return is_good ? Code::ok : Code::bad_message;
  }

  void hear(engine::IncomingCall& call, const RequestHeader& header, Speaker& speaker,
            AgentId agent, const std::vector<Word>& words) {
    while (!speaker.to_tell.empty() && speaker.to_tell.front().event <= header.heard) {
      speaker.to_tell.pop_front();
    }
    if (words.empty()) return attend(call, speaker, agent);
    // What is late has been answered.
    if (header.sequence < speaker.sequence) return answer(call, true, 0, {});
    if (header.sequence == speaker.sequence) {
      return answer(call, true, speaker.taken, speaker.told);
    }
    const Status may = may_say(agent, speaker, words);
    if (!may.ok()) return end(call, may);
    speaker.sequence = header.sequence;
    speaker.told.clear();
    speaker.taken = 0;
    take(agent, speaker, words);
    // As it is: others may be told, and their calls answered, meanwhile.
    answer(call, true, speaker.taken, speaker.told);
    tell();
  }

  // One at a time: the one before is one that was given up, or this one, which came twice.
  void attend(engine::IncomingCall& call, Speaker& speaker, AgentId agent) {
    engine::IncomingCall* const before = std::exchange(speaker.waiting, &call);
    speaker.until = config_.loop->now() + limits::kWaitTime;
    if (before != nullptr) answer(*before, true, 0, {});
    look_after(agent, speaker);
  }

  // busy: to be said again once all have said what they have.
  Status may_say(AgentId agent, const Speaker& speaker, const std::vector<Word>& words) const {
    bool has_said_all = speaker.has_said_all;
    for (const Word& word : words) {
      if (std::holds_alternative<Have>(word)) continue;
      if (std::holds_alternative<HaveAll>(word)) {
        has_said_all = true;
        continue;
      }
      if (!has_said_all) return Code::bad_message;
      if (is_claiming()) return Code::busy;
      const auto* const set = std::get_if<Set>(&word);
      const bool is_known =
          set != nullptr && set->request != 0 && table_.is_waiting(agent, RequestId(set->request));
      if (is_known) return Code::bad_message;
    }
    return Code::ok;
  }

  // What ended before comes first, and what ends by a word behind its answer: the agent hears all
  // in the order in which it was done. What has no room is for the next call, with all that would
  // come after it.
  void take(AgentId agent, Speaker& speaker, const std::vector<Word>& words) {
    const auto has_room = [&] { return speaker.told.size() + limits::kWordBytesMax <= kToldRoom; };
    size_t told = 0;
    const auto put_ended = [&] {
      for (; told < speaker.to_tell.size(); ++told) {
        if (!has_room()) return false;
        encode(speaker.to_tell[told], speaker.told);
      }
      return true;
    };
    while (put_ended() && has_room() && speaker.taken < words.size()) {
      const Told answered = std::visit(
          [&](const auto& word) { return do_it(agent, speaker, word); }, words[speaker.taken]);
      encode(answered, speaker.told);
      ++speaker.taken;
      spread();
    }
  }

  Told do_it(AgentId agent, Speaker&, const Set& word) {
    if (!may_have(agent, word.wanted)) {
      // As with any other that is not given.
      if (word.wanted.owner.kind == Kind::whole)
        table_.release(word.wanted.owner, word.wanted.inode);
      return deny(agent);
    }
    const Answer answer = table_.set(word.wanted, RequestId(word.request));
    metrics_.count(answer);
    return Answered{answer};
  }
  Told do_it(AgentId agent, Speaker&, const Get& word) {
    if (!may_have(agent, word.wanted)) return deny(agent);
    const std::optional<Held> held = table_.get(word.wanted);
    if (held) return InTheWay{*held};
    return Answered{Answer::done};
  }
  Told do_it(AgentId, Speaker&, const Release& word) {
    table_.release(word.owner, word.inode);
    return Answered{Answer::done};
  }
  // Not where it has ended before: that was told.
  Told do_it(AgentId agent, Speaker&, const Cancel& word) {
    const bool waited = table_.cancel(agent, RequestId(word.request));
    return Answered{waited ? Answer::ended : Answer::done};
  }
  Told do_it(AgentId agent, Speaker& speaker, const Have& word) {
    if (speaker.has_said_all || !before_.contains(agent)) return Answered{Answer::lost};
    if (is_trusted(agent.node)) take_from_untrusted(word.wanted);
    const Answer answer = table_.set(word.wanted);
    if (answer == Answer::done) return Answered{answer};
    log_.warning("claims", fmt::format("locks: node {} says that it has what another has said of "
                                       "itself; its session ends",
                                       agent.node.value));
    config_.expel(agent.node);
    return Answered{Answer::lost};
  }
  Told do_it(AgentId agent, Speaker& speaker, const HaveAll&) {
    speaker.has_said_all = true;
    before_.erase(agent);
    return Answered{Answer::done};
  }

  // ---- nodes that are restricted ----

  bool is_trusted(NodeId node) const {
    return !config_.is_restricted || !config_.is_restricted(node);
  }
  bool may_have(AgentId agent, const Wanted& wanted) const {
    return !config_.judge || config_.judge(agent, wanted);
  }
  Told deny(AgentId agent) {
    metrics_.count(Answer::refused);
    log_.warning(fmt::format("denied {}", agent.node.value),
                 fmt::format("locks: node {} is restricted, and asks for locks of files that it "
                             "has not open (those that it had open before this process began it "
                             "has to show again)",
                             agent.node.value));
    const std::lock_guard lock(mutex_);
    ++figures_.denied;
    return Answered{Answer::refused};
  }
  // What stands against a claim that is trusted, as those have said who are not: they lie.
  void take_from_untrusted(const Wanted& wanted) {
    for (auto held = table_.get(wanted); held; held = table_.get(wanted)) {
      const NodeId node = held->owner.agent.node;
      if (is_trusted(node)) return;
      table_.release(held->owner, wanted.inode);
      config_.expel(node);
    }
  }

  // ---- telling ----

  // To those whom it concerns.
  void spread() {
    for (const Ended& ended : table_.take_ended()) {
      const auto found = speakers_.find(ended.agent);
      ASSERT(found != speakers_.end());
      Speaker& speaker = found->second;
      metrics_.count(ended.answer);
      speaker.to_tell.push_back({++speaker.events, ended.request.value, ended.answer});
      news_.insert(ended.agent);
    }
  }
  void tell() {
    spread();
    for (const AgentId agent : std::exchange(news_, {})) {
      const auto found = speakers_.find(agent);
      if (found != speakers_.end()) look_after(agent, found->second);
    }
  }
  // Answers the call that waits, if there is something to tell, or it has waited for long.
  void look_after(AgentId agent, Speaker& speaker) {
    if (speaker.waiting == nullptr) return;
    const bool is_good = config_.is_good(agent);
    const bool is_long = config_.loop->now() >= speaker.until || table_.waiting_of(agent) == 0;
    if (is_good && !is_long && speaker.to_tell.empty()) return;
    std::string told;
    for (const NoLonger& one : speaker.to_tell) {
      if (told.size() + limits::kWordBytesMax > kToldRoom) break;
      encode(one, told);
    }
    answer(*std::exchange(speaker.waiting, nullptr), is_good, 0, told);
  }

  bool is_claiming() const { return !before_.empty(); }

  void tick() {
    if (is_stopped_) return;
    if (config_.awaits_claims && config_.awaits_claims()) {
      claim_until_ = config_.loop->now() + limits::kClaimMost;
    }
    const bool is_late = is_claiming() && config_.loop->now() >= claim_until_;
    if (is_late) {
      claim_until_ = config_.loop->now() + limits::kClaimMost;
      for (const AgentId agent : std::set(before_)) {
        if (config_.is_good(agent)) config_.expel(agent.node);
      }
    }
    for (auto& [agent, speaker] : speakers_) look_after(agent, speaker);
    note();
    config_.loop->start(tick_, config_.loop->now() + limits::kTickInterval);
  }

  // ---- answering ----

  ResponseHeader response() const {
    ResponseHeader header;
    header.lowest = static_cast<uint16_t>(config_.speaks.lowest);
    header.highest = static_cast<uint16_t>(config_.speaks.highest);
    header.life = config_.life;
    return header;
  }
  void answer(engine::IncomingCall& call, bool good, uint32_t taken, std::string_view told) {
    ResponseHeader header = response();
    header.is_good = good ? 1 : 0;
    header.taken = taken;
    header.checksum = crc32c(bytes_of(told));
    end(call, Code::ok, header, told);
  }
  void end(engine::IncomingCall& call, Status status) { end(call, status, response(), {}); }
  void end(engine::IncomingCall& call, Status status, const ResponseHeader& header,
           std::string_view told) {
    ASSERT(told.size() <= kToldRoom);
    const auto open = open_.find(call.peer().node);
    ASSERT(open != open_.end() && open->second > 0);
    if (--open->second == 0) open_.erase(open);
    std::array<std::byte, engine::kNetMessageMax> message;
    std::memcpy(message.data(), &header, sizeof header);
    if (!told.empty()) std::memcpy(message.data() + sizeof header, told.data(), told.size());
    call.reply(status, Bytes(message).first(sizeof header + told.size()));
    const std::lock_guard lock(mutex_);
    ++figures_.answered;
  }
  // Not let in.
  void refuse(engine::IncomingCall& call, Status status) {
    const NodeId node = call.peer().node;
    const auto say = [&](const char* why) {
      log_.warning(fmt::format("{} {}", why, node.value),
                   fmt::format("locks: a call of node {} is refused: {}", node.value, why));
    };
    if (status == Status(Code::access_denied)) {
      say("its certificate does not give it the role of an agent");
    }
    if (status == Status(Code::bad_message)) say("it cannot be understood");
    if (status == Status(Code::wrong_version)) say("it is in a version that is not spoken here");
    if (status == Status(Code::busy)) say("too many of that node wait");
    const ResponseHeader header = response();
    call.reply(status, std::as_bytes(std::span(&header, 1)));
    metrics_.refused.add();
    const std::lock_guard lock(mutex_);
    ++figures_.refused;
  }

  void note() {
    metrics_.held.set(table_.locks());
    metrics_.waiting.set(table_.waiting());
    const std::lock_guard lock(mutex_);
    figures_.locks = table_.locks();
    figures_.waiting = table_.waiting();
    figures_.is_claiming = is_claiming();
  }

  const LocksServiceConfig config_;
  locks::Table table_;
  std::map<AgentId, Speaker> speakers_;
  std::set<AgentId> before_;  // that have yet to say what they have
  std::set<AgentId> news_;    // for whom there is something to tell
  std::map<NodeId, size_t> open_;
  engine::RepeatedLog log_;
  engine::Timer tick_;
  engine::Time claim_until_{};
  bool is_started_ = false;
  bool is_stopped_ = false;
  LockMetrics metrics_;

  engine::Mutex mutex_;
  Figures figures_;  // under it
};

}  // namespace

std::unique_ptr<LocksService> LocksService::make(LocksServiceConfig config) {
  return std::make_unique<LocksServer>(std::move(config));
}

}  // namespace penstock::locks_net
