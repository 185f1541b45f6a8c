#include "sessions.h"

#include <fmt/format.h>
#include <utility>

namespace penstock::holds_net {

struct Sessions::Job : ListNode {
  std::function<void()> work;
};

struct Sessions::RecordOp final : engine::KvOp {
  Status body(engine::KvTransaction& transaction) override { return work(transaction); }
  Work work;
  std::function<void(Status)> then;
};

Sessions::Sessions(const HoldsServiceConfig& config, std::shared_ptr<Way> way,
                   std::function<std::vector<InodeId>(AgentId)> exclusives_of,
                   std::function<void(AgentId)> settled, std::function<void()> idle)
    : config_(config),
      way_(std::move(way)),
      exclusives_of_(std::move(exclusives_of)),
      settled_(std::move(settled)),
      idle_(std::move(idle)),
      log_(config.loop->clock()),
      pool_(
          {.name = "holds", .what = "a thread for sessions that end", .count_max = config.threads},
          [](ListNode& item) {
            const std::unique_ptr<Job> job(static_cast<Job*>(&item));
            job->work();
          }) {
  ASSERT(config_.kv != nullptr && config_.fence && config_.settle && config_.threads > 0);
}

Sessions::~Sessions() {
  ASSERT(is_idle());
  pool_.stop([](ListNode& item) { delete static_cast<Job*>(&item); });
}

// In a thread of the database's.
void Sessions::record(Work work, std::function<void(Status)> then) {
  auto* op = new RecordOp;
  op->mode = engine::KvMode::write_durable;
  op->home = config_.loop;
  op->owner = this;
  op->work = std::move(work);
  op->then = std::move(then);
  op->completion = [](engine::Op& done) {
    const std::unique_ptr<RecordOp> self(static_cast<RecordOp*>(&done));
    auto& sessions = self->owner_as<Sessions>();
    --sessions.recording_;
    self->then(self->status);
    sessions.idle_();
  };
  ++recording_;
  config_.kv->submit(*op);
}

void Sessions::begin(AgentId agent, std::function<void(const Begun&)> then) {
  auto found = std::make_shared<Begun>();
  record(
      [found, agent](engine::KvTransaction& transaction) -> Status {
        TRY_ASSIGN(*found, holds_net::begin(transaction, agent));
        return Code::ok;
      },
      [this, found, then = std::move(then)](Status status) {
        if (!status.ok()) {
          try_again(status, nullptr);
          *found = {Code::busy, 0};
        }
        then(*found);
      });
}

void Sessions::end(AgentId agent) {
  record([agent](engine::KvTransaction& transaction) { return holds_net::end(transaction, agent); },
         [this, agent](Status status) {
           if (!status.ok()) return try_again(status, [this, agent] { end(agent); });
           fence(agent);
         });
}

void Sessions::fence(AgentId agent) {
  block([fence = config_.fence, agent, done = way_->back([this, agent] { settle(agent); })] {
    fence(agent, done);
  });
}

void Sessions::settle(AgentId agent) {
  block(
      [settle = config_.settle, agent, exclusives = exclusives_of_(agent),
       done = way_->back([this, agent] { settled_(agent); })] { settle(agent, exclusives, done); });
}

void Sessions::forget(AgentId agent) {
  record(
      [agent](engine::KvTransaction& transaction) { return holds_net::forget(transaction, agent); },
      [this, agent](Status status) {
        if (!status.ok()) try_again(status, [this, agent] { forget(agent); });
      });
}

void Sessions::try_again(Status status, std::function<void()> action) {
  if (is_stopping_) return;
  log_.warning(
      "record",
      fmt::format("holds: a session could not be recorded: {}; it is tried again", status.name()));
  if (action) again_.push_back(std::move(action));
}

void Sessions::block(std::function<void()> work) {
  if (is_stopping_) return;
  auto job = std::make_unique<Job>();
  job->work = std::move(work);
  if (pool_.submit(*job).ok()) {
    (void)job.release();  // until it is done
    return;
  }
  again_.push_back([this, again = std::move(job->work)] { block(again); });
}

void Sessions::tick() {
  for (const auto& action : std::exchange(again_, {})) action();
}

}  // namespace penstock::holds_net
