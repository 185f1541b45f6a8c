#include "penstock/membership/member.h"

#include "accusations.h"
#include "feeds.h"
#include "inbox.h"
#include "map_reader.h"

#include <algorithm>
#include <utility>

namespace penstock::membership {

using controller::ChainReport;
using controller::Refused;

namespace {

// Nothing that this process asks will be accepted any more.
bool is_final(Code code) {
  return code == Code::stale || code == Code::not_permitted || code == Code::not_found;
}

class MemberImpl final : public Member {
 public:
  explicit MemberImpl(const MemberConfig& config)
      : config_(config),
        reader_(config.controller, config.admitted.lease,
                {[this](const MapChanges& changes) { on_changes(changes); },
                 [this] { feeds_.give_all(); }}),
        feeds_(*config.node, reader_.map(), config.admitted.lease, [this] { speak_soon(); }),
        inbox_(std::make_shared<Inbox>(loop(), [this](Inbox::Content content) { read(content); })) {
    ASSERT(config_.chains != nullptr && config_.controller.net != nullptr);
    ASSERT(config_.admitted.admission.node != NodeId());
  }
  ~MemberImpl() override {
    *alive_ = false;
    inbox_->close();
  }

  void start() override {
    ASSERT(!is_asking_ && sequence_ == 0);
    is_asking_ = true;
    reader_.start();
    beat();
  }

  void open(const OpenedTarget& target, Then then) override;
  void serve(const TargetIdentity& target) override { feeds_.add(target); }
  void close(TargetId target) override { feeds_.remove(target); }
  void set_condition(TargetId target, Condition condition) override {
    if (feeds_.set_condition(target, condition)) speak_soon();
  }

  void report(TargetId reporter, const chain::Report& report) override {
    inbox_->put(reporter, report);
  }
  void refresh() override { inbox_->refresh(); }

  void leave(engine::Op& done) override;

  const ClusterMap& map() const override { return reader_.map(); }
  controller::MapVersion applied() const override { return feeds_.applied(); }
  engine::Time lease_until() const override { return feeds_.lease_until(); }

 private:
  engine::Loop& loop() const { return *config_.controller.loop; }
  const controller::Admission& admission() const { return config_.admitted.admission; }
  controller::Sender next_sender() {
    return {admission().node, admission().incarnation, ++sequence_};
  }

  template <class T>
  Task<T>& task(std::function<void(Task<T>&)> then) {
    return Task<T>::make([alive = alive_, then = std::move(then)](Task<T>& done) {
      if (*alive) then(done);
    });
  }
  void ask(const Request& request, std::function<void(const Question&)> then) {
    auto& question = task<Question>([this, then = std::move(then)](Task<Question>& asked) {
      if (asked_in_.learn(asked)) speak_soon();
      then(asked);
    });
    question.prepare(config_.controller.controller, request, asked_in_.version());
    question.deadline = loop().now() + limits::kTryTime;
    config_.controller.net->call(question);
  }
  void after(engine::Duration pause, std::function<void()> then) {
    timers_.after(pause, [alive = alive_, then = std::move(then)] {
      if (*alive) then();
    });
  }

  void on_changes(const MapChanges& changes);

  void beat();
  void speak_soon();
  void speak();
  controller::Heartbeat heartbeat();
  void on_answer(const Result<Answer>& answer, uint64_t sequence, engine::Time sent);
  void on_grant(const controller::Grant& grant, uint64_t sequence, engine::Time sent);
  void refuse(const Refused& refused);
  void note_answer(const Status& status);

  void read(const Inbox::Content& content);
  void take(TargetId reporter, const chain::Report& report);

  struct Opening {
    controller::OpenTarget ask;
    Then then;
    Pause pause;
    engine::Time in_use_since = engine::kNever;
  };
  void ask_to_open(const std::shared_ptr<Opening>& opening);
  void on_opened(const std::shared_ptr<Opening>& opening, const Result<Answer>& answer);
  void open_later(const std::shared_ptr<Opening>& opening);

  void say_leave(engine::Op& done, engine::Time deadline);

  const MemberConfig config_;
  Timers timers_{loop()};
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  bool is_asking_ = false;
  AskedIn asked_in_{config_.controller.speaks};
  MapReader reader_;
  Feeds feeds_;
  std::shared_ptr<Inbox> inbox_;
  uint64_t sequence_ = 0;
  size_t beats_ = 0;  // heartbeats under way
  bool is_to_speak_ = false;
#if PENSTOCK_NEXT_PROTOCOL
  const engine::Time begun_ = loop().now();
#endif
  bool is_away_ = false;  // the controller did not answer the last one
  // What the next heartbeat tells.
  std::vector<ChainReport> reports_;
  Accusations accusations_;
  Pause leave_pause_;
};

// Clients hear of it first, then the process, which knows addresses, then targets.
void MemberImpl::on_changes(const MapChanges& changes) {
  for (const MapChanges::OfChain& of : changes.chains) {
    if (const auto view = reader_.map().view_of(of.chain)) config_.chains->learn(*view);
  }
  config_.node->map_changed(reader_.map(), changes);
  feeds_.on_changes(changes);
}

void MemberImpl::beat() {
  if (!is_asking_) return;
  speak();
  after(controller::limits::kHeartbeatInterval, [this] { beat(); });
}

// There is something to tell: what comes in a moment is told with it.
void MemberImpl::speak_soon() {
  if (!is_asking_ || std::exchange(is_to_speak_, true)) return;
  after(limits::kReportPause, [this] {
    if (is_to_speak_) speak();
  });
}

void MemberImpl::speak() {
  is_to_speak_ = false;
  // Those that wait for their answers tell the same, but for what the next tells then.
  if (!is_asking_ || beats_ == limits::kHeartbeatsMax) return;
  ++beats_;
  const controller::Heartbeat says = heartbeat();
  // A lease counts from here: whatever happens, the controller counts it from later on.
  const engine::Time sent = loop().clock().lease_now();
  ask(says, [this, sequence = says.from.sequence, sent](const Question& asked) {
    ASSERT(beats_ > 0);
    --beats_;
    if (is_asking_) on_answer(asked.answer(), sequence, sent);
  });
}

controller::Heartbeat MemberImpl::heartbeat() {
  controller::Heartbeat says;
  says.from = next_sender();
  says.applied = feeds_.applied();
  says.answered = feeds_.answered();
  says.targets = feeds_.reports();
  says.reports = std::exchange(reports_, {});
  says.accused = accusations_.accused(loop().now());
#if PENSTOCK_NEXT_PROTOCOL
  says.uptime_ms =
      1 + static_cast<uint64_t>((loop().now() - begun_) / std::chrono::milliseconds(1));
#endif
  ASSERT(says.answered < says.from.sequence);
  ASSERT(says.targets.size() <= limits::kTargetsPerNode);
  return says;
}

void MemberImpl::on_answer(const Result<Answer>& answer, uint64_t sequence, engine::Time sent) {
  if (!answer) return note_answer(answer.error());
  if (const auto* grant = std::get_if<controller::Grant>(&*answer)) {
    note_answer(Code::ok);
    return on_grant(*grant, sequence, sent);
  }
  const auto* refused = std::get_if<Refused>(&*answer);
  if (refused == nullptr) return note_answer(Code::bad_message);
  if (is_final(refused->code)) return refuse(*refused);
  // One that came late or twice says nothing of the controller.
  if (refused->code != Code::busy) note_answer(refused->code);
}

void MemberImpl::on_grant(const controller::Grant& grant, uint64_t sequence, engine::Time sent) {
  const bool is_mine = grant.node == admission().node &&
                       grant.node_incarnation == admission().incarnation &&
                       grant.sequence == sequence;
  if (!is_mine) return;
  if (grant.version > reader_.map().version()) reader_.refresh();
  feeds_.on_grant(grant, sent);
}

void MemberImpl::refuse(const Refused& refused) {
  is_asking_ = false;
  reader_.stop();
  log::warning("membership: {}", refused.reason);
  config_.node->refused(refused.code, refused.reason);
}

// Tells when the controller goes away, and when it is there again.
void MemberImpl::note_answer(const Status& status) {
  const bool is_away = !status.ok();
  if (std::exchange(is_away_, is_away) == is_away) return;
  if (is_away) {
    log::warning("membership: the controller does not grant a lease: {}; it is asked again",
                 status.name());
  } else {
    log::info("membership: the controller answers again");
  }
}

void MemberImpl::read(const Inbox::Content& content) {
  if (!is_asking_) return;
  for (const auto& [reporter, report] : content.reports) take(reporter, report);
  if (content.refresh) reader_.refresh();
}

void MemberImpl::take(TargetId reporter, const chain::Report& report) {
  if (report.kind == chain::Report::Kind::unreachable) {
    const controller::Target* other = reader_.map().find(report.other);
    if (other == nullptr || other->node == admission().node) return;
    return accusations_.add(other->node, loop().now());
  }
  const auto kind = report.kind == chain::Report::Kind::repaired ? ChainReport::Kind::repaired
                                                                 : ChainReport::Kind::failed;
  const ChainReport says{kind, report.chain, controller::ChainVersion(report.version), reporter};
  const auto known = std::find_if(reports_.begin(), reports_.end(), [&](const ChainReport& one) {
    return one.kind == kind && one.chain == says.chain && one.reporter == reporter;
  });
  if (known != reports_.end()) {
    known->version = std::max(known->version, says.version);
  } else if (reports_.size() < limits::kReportsPerHeartbeat) {
    reports_.push_back(says);
  }
  speak_soon();
}

void MemberImpl::open(const OpenedTarget& target, Then then) {
  ASSERT(is_asking_ && then != nullptr);
  auto opening = std::make_shared<Opening>();
  opening->ask.target = target.uuid;
  opening->ask.held = target.held;
  opening->ask.opening = loop().random().next() | 1;  // of this opening, for all of its questions
  opening->ask.capacity_bytes = target.capacity_bytes;
  opening->ask.media = target.media;
  opening->then = std::move(then);
  ask_to_open(opening);
}

void MemberImpl::ask_to_open(const std::shared_ptr<Opening>& opening) {
  if (!is_asking_) return;
  opening->ask.from = next_sender();
  ask(opening->ask, [this, opening](const Question& asked) { on_opened(opening, asked.answer()); });
}

void MemberImpl::on_opened(const std::shared_ptr<Opening>& opening, const Result<Answer>& answer) {
  if (!is_asking_) return;
  if (!answer) return open_later(opening);
  if (const auto* opened = std::get_if<controller::Opened>(&*answer)) {
    const bool is_mine = opened->node == admission().node &&
                         opened->node_incarnation == admission().incarnation &&
                         opened->opening == opening->ask.opening;
    if (!is_mine) return open_later(opening);
    return opening->then(TargetIdentity{opened->target, opened->incarnation});
  }
  const auto* refused = std::get_if<Refused>(&*answer);
  if (refused == nullptr || is_passing(*refused)) return open_later(opening);
  if (refused->code == Code::in_use) {
    // The lease of the node that had it may still run.
    if (opening->in_use_since == engine::kNever) opening->in_use_since = loop().now();
    const bool is_patient = loop().now() - opening->in_use_since < limits::kOpenPatience;
    if (is_patient) return open_later(opening);
  }
  opening->then(Unexpected(Failure{refused->code, refused->reason}));
}

void MemberImpl::open_later(const std::shared_ptr<Opening>& opening) {
  after(opening->pause.next(loop().random()), [this, opening] { ask_to_open(opening); });
}

void MemberImpl::leave(engine::Op& done) {
  const bool may_say = std::exchange(is_asking_, false);
  reader_.stop();
  if (!may_say) return loop().complete(done, Code::ok);
  say_leave(done, loop().now() + limits::kLeaveTime);
}

void MemberImpl::say_leave(engine::Op& done, engine::Time deadline) {
  ask(controller::Leave{next_sender()}, [this, &done, deadline](const Question& asked) {
    const Result<Answer> answer = asked.answer();
    const auto* refused = answer ? std::get_if<Refused>(&*answer) : nullptr;
    Status status;
    if (!answer) status = answer.error();
    if (refused != nullptr) status = refused->code;
    const engine::Time next = loop().now() + leave_pause_.next(loop().random());
    const bool again = is_passing(status.code()) && next < deadline;
    if (!again) return loop().complete(done, status);
    after(next - loop().now(), [this, &done, deadline] { say_leave(done, deadline); });
  });
}

}  // namespace

std::unique_ptr<Member> Member::make(const MemberConfig& config) {
  return std::make_unique<MemberImpl>(config);
}

}  // namespace penstock::membership
