#include "keeper_thread.h"

#include "pieces.h"

#include <algorithm>
#include <utility>

namespace penstock::membership {

using controller::Actions;
using controller::Refused;
namespace bounds = controller::limits;

KeeperThread::KeeperThread(const ControllerServiceConfig& config,
                           std::function<void(const News&)> news)
    : config_(config.keeper),
      home_(config.node),
      signer_(config.signer),
      loop_(*config.loop),
      on_news_(std::move(news)),
      keeper_(config.keeper) {
  news_op_.thread = this;
  news_op_.completion = [](engine::Op& op) {
    KeeperThread& self = *static_cast<NewsOp&>(op).thread;
    News news_now;
    {
      const std::lock_guard lock(self.mutex_);
      self.news_posted_ = false;
      news_now = self.news_;
    }
    self.on_news_(news_now);
  };
  planner_ = std::make_unique<Planner>(config.seed, [this](KeeperJob& job) { push(job); });
  next_renew_ = next_tick_ = now();
  thread_ = engine::Thread("controller", [this] { run(); });
}

KeeperThread::~KeeperThread() {
  thread_.join();
  ASSERT(jobs_.empty() && planner_ == nullptr && !news_posted_);
}

void KeeperThread::submit(KeeperJob& job) {
  ASSERT(!job.plan.has_value());
  push(job);
}

void KeeperThread::push(KeeperJob& job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(job);
  }
  wake_.notify_one();
}

void KeeperThread::stop(engine::Op& stopped) {
  {
    const std::lock_guard lock(mutex_);
    ASSERT(!stop_);
    stop_ = true;
    stopped_ = &stopped;
  }
  wake_.notify_one();
}

// Null when the time has come first, or it is to stop.
KeeperJob* KeeperThread::wait_for_job(engine::Time until) {
  std::unique_lock lock(mutex_);
  const auto is_due = [this] { return stop_ || !jobs_.empty(); };
  const engine::Duration left = until - now();
  if (left > engine::Duration::zero()) wake_.wait_for(lock, left, is_due);
  if (stop_ || jobs_.empty()) return nullptr;
  return jobs_.pop_front();
}

void KeeperThread::run() {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (stop_) break;
    }
    // The lease comes first: without it nothing of the rest counts.
    if (now() >= next_renew_) renew();
    if (keeper_.leads() && (more_ || now() >= next_tick_)) tick();
    const engine::Time next = !keeper_.leads() ? next_renew_
                              : more_          ? now()
                                               : std::min(next_renew_, next_tick_);
    if (KeeperJob* job = wait_for_job(next)) handle(*job);
    tell_news();
  }
  finish();
}

// Plans that are being made come back to the queue first.
void KeeperThread::finish() {
  planner_ = nullptr;
  IntrusiveList<KeeperJob> left;
  {
    const std::lock_guard lock(mutex_);
    left.take_all(jobs_);
  }
  while (!left.empty()) {
    refuse(*left.pop_front(), Code::not_serving, "the controller ends");
  }
  // Where it fails the lease ends by itself.
  if (const Status status = keeper_.close(); !status.ok()) {
    log::info("controller: its lease was not given back: {}", status.name());
  }
  loop_.complete_remote(*stopped_, Code::ok);
}

void KeeperThread::renew() {
  const bool led = keeper_.leads();
  const Outcome<void> renewed = keeper_.renew();
  if (!renewed) log::warning("{}", renewed.error().message);
  next_renew_ = now() + bounds::kRenewInterval;
  if (keeper_.leads() && !led) {
    log::info("controller: leads, map {}", keeper_.state().version.value);
    next_tick_ = now();
    kept_.clear();
    kept_bytes_ = 0;
  }
}

void KeeperThread::tick() {
  next_tick_ = now() + bounds::kTickInterval;
  if (const auto done = step(controller::Tick{}); !done) {
    log::warning("controller: a step could not be committed: {}", done.error().name());
  }
}

// What it returns is committed.
Result<Actions> KeeperThread::step(const controller::Event& event) {
  ASSERT(keeper_.leads());
  Result<Actions> actions = keeper_.handle(event);
  more_ = actions && actions->more;
  if (!actions) {
    // The state is loaded again at once.
    next_renew_ = now();
    return actions;
  }
  for (const controller::Notice& notice : actions->notices) {
    log::warning("controller: {}", notice.text);
  }
  for (const Refused& refused : actions->refusals) log::info("controller: {}", refused.reason);
  return actions;
}

void KeeperThread::handle(KeeperJob& job) {
  if (!keeper_.leads()) {
    return refuse(job, Code::not_serving, "this controller does not lead; ask again");
  }
  if (auto refused = why_not(job, keeper_.state(), home_, signer_ != nullptr)) {
    job.answer = std::move(*refused);
    return end(job);
  }
  answer(job);
}

void KeeperThread::answer(KeeperJob& job) {
  if (const auto* ask = std::get_if<AskMap>(&job.request)) return answer_map(job, *ask);
  if (std::holds_alternative<AskHealth>(job.request)) {
    job.answer = controller::health(keeper_.state());
    return end(job);
  }
  if (const auto* ask = std::get_if<AskNodes>(&job.request)) {
    job.answer = nodes_of(keeper_.state(), ask->from);
    return end(job);
  }
  if (std::holds_alternative<controller::TablePlan>(job.request)) return answer_plan(job);
  if (const auto* ask = std::get_if<AskToEnroll>(&job.request)) return answer_enroll(job, *ask);
  if (const auto* ask = std::get_if<AskCertificate>(&job.request)) {
    return answer_certificate(job, *ask);
  }
  if (const auto* ask = std::get_if<AskTokens>(&job.request)) return answer_tokens(job, *ask);
  if (const auto* ask = std::get_if<AskAuthorities>(&job.request)) {
    return answer_authorities(job, *ask);
  }
  if (auto* make = std::get_if<controller::MakeToken>(&job.request)) {
    // By the controller's time, whatever the asker's is: it lasts as long as was asked for.
    const int64_t lasts = make->ends.nanoseconds - make->made.nanoseconds;
    make->made = config_.clock->wall();
    make->ends = {make->made.nanoseconds + lasts};
  }
  std::visit(
      [&](const auto& event) {
        if constexpr (std::is_convertible_v<decltype(event), controller::Event>) {
          answer_event(job, event);
        }
      },
      job.request);
}

void KeeperThread::answer_event(KeeperJob& job, const controller::Event& event) {
  const Result<Actions> actions = step(event);
  if (!actions) {
    const bool is_unknown = happens_twice(job.request);
    return refuse(job, is_unknown ? Code::may_have_happened : Code::not_serving,
                  "it could not be committed (" + std::string(actions.error().name()) +
                      (is_unknown ? "), or was; look before it is ordered again" : "); ask again"));
  }
  job.answer = answer_to(job.request, *actions, keeper_.state(), keeper_.may_grant());
  if (const auto* ask = std::get_if<AskToEnroll>(&job.request)) {
    const auto* admitted = std::get_if<Admitted>(&job.answer);
    return admitted == nullptr ? end(job) : sign(job, ask->request, admitted->admission.node);
  }
  const auto* grant = std::get_if<controller::Grant>(&job.answer);
  if (grant != nullptr && grant->lease) job.grants_until = keeper_.grants_until();
  end(job);
}

void KeeperThread::answer_plan(KeeperJob& job) {
  if (!job.plan.has_value()) {
    if (planner_->plan(job, keeper_.state())) return;
    return refuse(job, Code::busy, "create table: another one is being planned; ask again");
  }
  if (!*job.plan) {
    return refuse(job, job.plan->error().status.code(), job.plan->error().message);
  }
  answer_event(job, **job.plan);
}

// Many nodes ask for the same: it is made once. All of a state is committed, as a state that could
// not be committed is given up.
void KeeperThread::answer_map(KeeperJob& job, const AskMap& ask) {
  const controller::State& state = keeper_.state();
  if (ask.known > state.version) {
    return refuse(job, Code::not_serving, "a later map is known than this controller's; ask again");
  }
  const bool is_full = kept_bytes_ + wire::kMembershipBytesMax > limits::kKeptPiecesBytesMax;
  if (kept_version_ != state.version || is_full) {
    kept_.clear();
    kept_bytes_ = 0;
    kept_version_ = state.version;
  }
  const std::tuple key(ask.known.value, static_cast<char>(ask.from.kind), ask.from.id, job.version);
  std::shared_ptr<const std::string>& kept = kept_[key];
  if (kept == nullptr) {
    kept = std::make_shared<const std::string>(
        encode(Answer(piece_of(state, ask.known, ask.from)), job.version));
    kept_bytes_ += kept->size();
  }
  job.bytes = kept;
  end(job);
}

void KeeperThread::refuse(KeeperJob& job, Code code, std::string why) {
  job.answer = Refused{code, std::move(why)};
  end(job);
}

void KeeperThread::end(KeeperJob& job) {
  loop_.complete_remote(job, Code::ok);
}

void KeeperThread::tell_news() {
  News news{keeper_.leads(), told_.version};
  if (news.leads) news.version = keeper_.state().version;
  if (news.leads == told_.leads && news.version == told_.version) return;
  told_ = news;
  {
    const std::lock_guard lock(mutex_);
    news_ = news;
    if (std::exchange(news_posted_, true)) return;
  }
  loop_.complete_remote(news_op_, Code::ok);
}

}  // namespace penstock::membership
