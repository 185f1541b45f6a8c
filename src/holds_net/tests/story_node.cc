#include "story_node.h"

#include <algorithm>
#include <utility>

namespace penstock::holds_net {
namespace {

struct Task : engine::Op {
  std::function<void()> action;
};

}  // namespace

StoryNode::StoryNode(StoryWorld& world, NodeId node)
    : world_(world),
      node_(node),
      clock_(world.world.clock(), world.mutants.ignores_lease),
      parker_(std::make_unique<sim::SimParker>(world.world, &loop_)),
      loop_(clock_, world.world.random(), *parker_) {
  parker_->drive(loop_, true);
  closed_.owner = this;
  start();
}

StoryNode::~StoryNode() {
  parker_->stop_driving();
}

void StoryNode::start() {
  net_ = std::make_unique<sim::SimNet>(world_.network, loop_, node_);
  HoldsAgentConfig config;
  config.loop = &loop_;
  config.net = net_.get();
  config.node = node_;
  config.service = kService;
  config.keeping = this;
  config.session_changes = [this](AgentId session) {
    world_.world.trace("session", session.node.value, session.session);
  };
  agent_ = HoldsAgent::make(config);
  agent_->start();
}

// From events, which know nothing of a process that stands still.
void StoryNode::run(std::function<void()> action) {
  auto* task = new Task;
  task->action = std::move(action);
  task->completion = [](engine::Op& op) {
    const std::unique_ptr<Task> self(static_cast<Task*>(&op));
    self->action();
  };
  loop_.complete_remote(*task, Code::ok);
}

void StoryNode::later(int most_ms, std::function<void()> action) {
  world_.world.after(world_.world.between(milliseconds(0), milliseconds(most_ms)), "later",
                     [this, action = std::move(action)] { run(action); });
}

void StoryNode::stop_for(Duration duration) {
  if (stops_++ == 0) parker_->stop_driving();
  world_.world.after(duration, "goes on", [this] {
    if (--stops_ == 0) parker_->drive(loop_, true);
  });
}

void StoryNode::read(InodeId inode) {
  run([this, inode] { operate(inode, false); });
}
void StoryNode::write(InodeId inode) {
  run([this, inode] { operate(inode, true); });
}

void StoryNode::operate(InodeId inode, bool writes) {
  if (is_closing_ || is_ended_) return;
  auto* operation = new Operation;  // until over()
  operation->node_of = this;
  operation->writes = writes;
  operation->least = world_.expect(inode);
  operation->life = life_;
  operation->loop = &loop_;
  operation->inode = inode;
  operation->hold = writes ? Hold::exclusive : Hold::shared;
  operation->owner = operation;
  operation->completion = [](engine::Op& op) {
    auto& self = op.owner_as<Operation>();
    if (!self.status.ok()) return self.node_of->over(self);
    ASSERT(self.entered);
    self.node_of->entered(self);
  };
  operations_.insert(operation);
  if (agent_->enter(inode, operation->hold, operation->ticket)) return entered(*operation);
  agent_->wait(*operation);
}

void StoryNode::entered(Operation& operation) {
  world_.world.trace(operation.writes ? "writes" : "reads",
                     node_.value * 100 + operation.inode.value,
                     files_[operation.inode].kept.value_or(0));
  world_.begins(operation.ticket.session, operation.inode, operation.hold);
  if (operation.writes) {
    files_[operation.inode].is_exclusive = true;
    return later(30, [this, &operation] { write_now(operation); });
  }
  const File& file = files_[operation.inode];
  const Version version = file.kept ? *file.kept : world_.stored(operation.inode);
  if (file.kept && world_.world.chance(500)) return finish_read(operation, version);
  later(30, [this, &operation, version] { finish_read(operation, version); });
}

void StoryNode::finish_read(Operation& operation, Version version) {
  if (agent_->is_good(operation.ticket)) {
    if (version < *operation.least) {
      world_.fault("file " + std::to_string(operation.inode.value) +
                   " is older than what somebody was told");
    }
    world_.told(operation.ticket.session, operation.inode, version);
    File& file = files_[operation.inode];
    file.kept = std::max(version, file.kept.value_or(0));
  }
  leave(operation);
}

// One at a time of a file, so that what was told last is what is there.
void StoryNode::write_now(Operation& operation) {
  File& file = files_[operation.inode];
  if (!agent_->is_good(operation.ticket) || file.is_written) return leave(operation);
  const Version version = world_.next_version();
  if (world_.world.chance(500)) {
    file.kept = version;
    file.is_behind = true;
    world_.told(operation.ticket.session, operation.inode, version);
    return leave(operation);
  }
  file.is_written = true;
  put(operation.inode, [this, &operation, version] {
    const AgentId session = operation.ticket.session;
    world_.store(session, operation.inode, version, [this, &operation, version](bool stored) {
      run([this, &operation, version, stored] {
        File& at = files_[operation.inode];
        at.is_written = false;
        if (stored) world_.told(operation.ticket.session, operation.inode, version);
        // What is kept may be found again, though the lease is over now.
        if (stored && agent_->is_good(operation.ticket)) {
          at.kept = version;
        } else if (!at.is_behind) {
          at.kept.reset();
        }
        leave(operation);
      });
    });
  });
}

void StoryNode::leave(Operation& operation) {
  world_.ends(operation.ticket.session, operation.inode, operation.hold);
  agent_->leave(operation.ticket);
  over(operation);
}

void StoryNode::over(Operation& operation) {
  operations_.erase(&operation);
  delete &operation;
}

// `then` runs when all is in the targets, or was refused there.
void StoryNode::put(InodeId inode, std::function<void()> then) {
  File& file = files_[inode];
  const bool is_under_way = !file.when_put.empty();
  if (!file.is_behind && !is_under_way) return then();
  file.when_put.push_back(std::move(then));
  if (is_under_way) return;
  const Version version = *file.kept;
  world_.store(agent_->session(), inode, version, [this, inode, version](bool stored) {
    run([this, inode, version, stored] {
      File& at = files_[inode];
      if (at.kept == version || !stored) at.is_behind = false;
      for (const auto& next : std::exchange(at.when_put, {})) put(inode, next);
    });
  });
}

void StoryNode::drop(InodeId inode, Hold leave, std::function<void()> done) {
  world_.world.trace("drops", node_.value * 100 + inode.value, static_cast<uint64_t>(leave));
  if (world_.mutants.answers_before_drop) done();
  later(20, [this, inode, leave, done = std::move(done)] {
    put(inode, [this, inode, leave, done] {
      File& file = files_[inode];
      file.is_exclusive &= leave == Hold::exclusive;
      if (leave == Hold::none) file.kept.reset();
      if (!world_.mutants.answers_before_drop) done();
    });
  });
}

void StoryNode::settle(InodeId inode, std::function<void()> done) {
  put(inode, std::move(done));
}

void StoryNode::drop_all(bool is_lost, std::function<void()> done) {
  for (auto& [inode, file] : files_) {
    if (file.is_exclusive && !is_lost) continue;
    file.kept.reset();
    file.is_behind = file.is_exclusive = false;
  }
  later(30, std::move(done));
}

void StoryNode::begin_anew(bool put) {
  run([this, put] {
    if (is_closing_ || is_ended_) return;
    is_closing_ = true;
    if (put) return put_all([this] { close_agent(); });
    // It dies: what it kept is gone, and nobody hears of it.
    net_->kill();
    for (auto& [inode, file] : files_) {
      file.kept.reset();
      file.is_behind = file.is_exclusive = false;
    }
    close_agent();
  });
}

// Once nothing runs, as a file system that is unmounted.
void StoryNode::put_all(std::function<void()> then) {
  for (auto& [inode, file] : files_) {
    if (!file.is_behind && file.when_put.empty()) continue;
    return this->put(inode, [this, then = std::move(then)] { put_all(then); });
  }
  then();
}

void StoryNode::close_agent() {
  closed_.completion = [](engine::Op& op) {
    auto& self = op.owner_as<StoryNode>();
    self.run([&self] {
      self.agent_ = nullptr;
      self.net_ = nullptr;
      self.files_.clear();
      ++self.life_;
      self.is_closing_ = false;
      if (!self.is_ended_) self.start();
    });
  };
  agent_->close(closed_);
}

bool StoryNode::is_idle() {
  return stops_ == 0 && !is_closing_ && agent_ != nullptr && operations_.empty() &&
         agent_->is_ready();
}

void StoryNode::end() {
  ASSERT(world_.world.run_until([this] { return stops_ == 0 && !is_closing_; }));
  run([this] {
    is_ended_ = is_closing_ = true;
    close_agent();
  });
  ASSERT(world_.world.run_until([this] { return is_ended_ && agent_ == nullptr; }));
  // What was late comes.
  world_.world.run_for(seconds(10));
}

std::string StoryNode::describe() {
  const HoldsAgent::Figures figures = agent_->figures();
  return "node " + std::to_string(node_.value) + "." + std::to_string(agent_->session().session) +
         (agent_->is_ready() ? " is ready" : "") + (is_closing_ ? " closes" : "") + ", " +
         std::to_string(figures.running) + " run, " + std::to_string(figures.waiting) + " wait";
}

}  // namespace penstock::holds_net
