#include "shared_holds.h"

#include <utility>

namespace penstock::client {
namespace {

using holds::AgentId;
using holds::Hold;
using holds::Ticket;

// Nobody's lease ends.
constexpr engine::Time kNow = engine::Time(std::chrono::seconds(1));
constexpr uint16_t kLife = 1;

}  // namespace

// Under the mutex of SharedHolds, all of it.
class SharedHolds::Agent final : public holds::Holding {
 public:
  Agent(SharedHolds& owner, NodeId node) : owner_(owner), keeper_({node, 1}) {}

  bool enter(InodeId inode, Hold hold, Ticket& ticket) override {
    const std::lock_guard lock(owner_.mutex_);
    return enter_now(inode, hold, ticket);
  }
  void leave(const Ticket& ticket) override {
    const std::lock_guard lock(owner_.mutex_);
    ASSERT(running_ > 0);
    --running_;
    if (ticket.session == keeper_.id()) keeper_.leave(ticket.inode, ticket.generation);
    owner_.act();
    drop_all_if_due();
  }
  void wait(Waiter& waiter) override {
    const std::lock_guard lock(owner_.mutex_);
    waiter.is_waiting = true;
    waiting_[waiter.inode].push_back(&waiter);
    keeper_.wait(waiter.inode, waiter.hold);
    owner_.act();
  }
  bool cancel(Waiter& waiter) override {
    const std::lock_guard lock(owner_.mutex_);
    if (!std::exchange(waiter.is_waiting, false)) return false;
    std::erase(waiting_[waiter.inode], &waiter);
    return true;
  }
  bool is_good(const Ticket& ticket) override {
    const std::lock_guard lock(owner_.mutex_);
    return keeper_.is_good(ticket.inode, ticket.session, ticket.generation, kNow);
  }
  void want(InodeId) override {}
  void use(InodeId inode) override {
    const std::lock_guard lock(owner_.mutex_);
    keeper_.use(inode);
    ++uses_[inode];
  }
  void unuse(InodeId inode) override {
    const std::lock_guard lock(owner_.mutex_);
    keeper_.unuse(inode);
    if (--uses_[inode] > 0) return;
    uses_.erase(inode);
    owner_.table_.unused(keeper_.id(), inode);
  }
  engine::Duration lease_left() override { return std::chrono::seconds(1); }
  AgentId session() override {
    const std::lock_guard lock(owner_.mutex_);
    return keeper_.id();
  }

  holds::Keeper& keeper() { return keeper_; }
  void given(const holds::Given& given) {
    if (given.hold == Hold::exclusive) exclusive_.insert(given.inode);
    keeper_.given(given, kNow);
  }
  void begin() {
    owner_.table_.begin(keeper_.id(), kNow);
    keeper_.begun(keeper_.id(), true, kNow, kLife);
  }
  void tell(holds::Keeping* keeping) { keeping_ = keeping; }

  void do_it(const holds::Ask& ask) {
    const Status asked = owner_.table_.want(ask.want, kNow);
    ASSERT(asked.ok());
  }
  void do_it(const holds::Answer& answer) {
    if (answer.back.left != Hold::exclusive) exclusive_.erase(answer.back.inode);
    owner_.table_.back(answer.back, kNow);
  }
  void do_it(const holds::Claim&) { ASSERT(false); }
  void do_it(const holds::Begin&) { begin(); }
  void do_it(const holds::Drop& drop) {
    ++owner_.recalls_;
    const auto done = [this, drop, session = keeper_.id()] {
      const std::lock_guard lock(owner_.mutex_);
      if (session == keeper_.id()) keeper_.dropped(drop.inode, drop.recall);
      --drops_;
      owner_.act();
      drop_all_if_due();
    };
    if (keeping_ == nullptr || owner_.answers_before_drop) {
      keeper_.dropped(drop.inode, drop.recall);
      if (keeping_ != nullptr) keeping_->drop(drop.inode, drop.leave, [] {});
    } else {
      ++drops_;
      keeping_->drop(drop.inode, drop.leave, done);
    }
  }
  void do_it(const holds::DropAll&) {
    lost_ = true;
    drop_all_if_due();
  }
  void do_it(const holds::Resume& resume) {
    for (Waiter* const waiter : std::exchange(waiting_[resume.inode], {})) {
      waiter->is_waiting = false;
      waiter->entered = enter_now(waiter->inode, waiter->hold, waiter->ticket);
      if (!waiter->entered) {
        waiter->is_waiting = true;
        waiting_[resume.inode].push_back(waiter);
        keeper_.wait(waiter->inode, waiter->hold);
        continue;
      }
      waiter->loop->complete_remote(*waiter, Code::ok);
    }
    keeper_.resumed(resume.inode);
  }

  // What ran before has ended, and what was being dropped: none of it is done in the next session.
  void drop_all_if_due() {
    if (!lost_ || running_ > 0 || drops_ > 0 || keeping_ == nullptr) return;
    lost_ = false;
    keeping_->drop_all(true, [this] {
      std::set<InodeId> exclusive;
      {
        const std::lock_guard lock(owner_.mutex_);
        owner_.table_.expel(keeper_.id(), kNow);
        owner_.act();
        exclusive.swap(exclusive_);
      }
      for (const InodeId inode : exclusive) {
        if (owner_.settle) owner_.settle(inode);
      }
      const std::lock_guard lock(owner_.mutex_);
      owner_.table_.fenced(keeper_.id(), kNow);
      owner_.table_.dropped(keeper_.id(), kNow);
      keeper_.all_dropped();
      owner_.act();
    });
  }

 private:
  bool enter_now(InodeId inode, Hold hold, Ticket& ticket) {
    if (!keeper_.enter(inode, hold, kNow)) return false;
    ++running_;
    ticket = {inode, keeper_.id(), keeper_.generation(inode)};
    return true;
  }

  SharedHolds& owner_;
  holds::Keeper keeper_;
  holds::Keeping* keeping_ = nullptr;
  size_t running_ = 0;
  size_t drops_ = 0;  // that the file system is at
  bool lost_ = false;
  std::set<InodeId> exclusive_;  // as the table has it
  std::map<InodeId, size_t> uses_;
  std::map<InodeId, std::deque<Waiter*>> waiting_;
};

SharedHolds::SharedHolds(size_t agents) : table_(kLife, {}, kNow, kNow) {
  table_.tick(kNow);
  for (size_t i = 0; i < agents; ++i) {
    agents_.push_back(std::make_unique<Agent>(*this, NodeId{static_cast<uint32_t>(i + 1)}));
    agents_.back()->begin();
  }
}

SharedHolds::~SharedHolds() = default;

holds::Holding& SharedHolds::holding(size_t agent) {
  return *agents_[agent];
}

void SharedHolds::tell(size_t agent, holds::Keeping* keeping) {
  const std::lock_guard lock(mutex_);
  agents_[agent]->tell(keeping);
}

bool SharedHolds::is_in_use_beside(size_t agent, InodeId inode) {
  const std::lock_guard lock(mutex_);
  return table_.is_in_use(inode, agents_[agent]->keeper().id());
}

Hold SharedHolds::hold_of(size_t agent, InodeId inode) {
  const std::lock_guard lock(mutex_);
  return agents_[agent]->keeper().hold_of(inode);
}

void SharedHolds::lose(size_t agent) {
  const std::lock_guard lock(mutex_);
  Agent& lost = *agents_[agent];
  lost.keeper().renewed(lost.keeper().id(), false, kNow, kLife);
  act();
}

// Until nothing more follows.
void SharedHolds::act() {
  for (bool any = true; any;) {
    any = false;
    for (const holds::Action& action : table_.take_actions()) {
      any = true;
      do_it(action);
    }
    for (const auto& agent : agents_) any |= act_of(*agent);
  }
}

bool SharedHolds::act_of(Agent& agent) {
  bool any = false;
  // There is no time here in which a hold could stay.
  agent.keeper().look_at_stays(kNow + holds::limits::kStayMost);
  for (auto actions = agent.keeper().take_actions(); !actions.empty();
       actions = agent.keeper().take_actions()) {
    any = true;
    for (const holds::KeeperAction& action : actions) {
      std::visit([&](const auto& one) { agent.do_it(one); }, action);
    }
  }
  return any;
}

void SharedHolds::do_it(const holds::Action& action) {
  const auto agent_of = [this](AgentId id) -> Agent& { return *agents_[id.node.value - 1]; };
  // Who waits for what is given has its turn before the next thing is heard.
  if (const auto* given = std::get_if<holds::Given>(&action)) {
    Agent& agent = agent_of(given->agent);
    agent.given(*given);
    (void)act_of(agent);
  } else if (const auto* recall = std::get_if<holds::Recall>(&action)) {
    Agent& agent = agent_of(recall->agent);
    agent.keeper().recalled(*recall, kNow);
    (void)act_of(agent);
  }
}

}  // namespace penstock::client
