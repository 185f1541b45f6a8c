#include "story_world.h"

#include "story_node.h"

#include <algorithm>
#include <utility>

namespace penstock::holds_net {

StoryWorld::StoryWorld(uint64_t seed, Mutants its_mutants) : world(seed), mutants(its_mutants) {
  world.set_time_limit(std::chrono::hours(2));
  network.faults.detection = milliseconds(300);
  image_.faults.conflict_permille = 50;
  image_.faults.unknown_commit_permille = 20;
  start_service();
}

StoryWorld::~StoryWorld() {
  heal();
  is_calm = false;
  ASSERT(world.run_until([this] { return has_service(); }));
  for (const auto& node : nodes) node->end();
  nodes.clear();
  stop_service();
}

void StoryWorld::add_nodes(size_t count) {
  for (uint32_t node = 1; node <= count; ++node) {
    nodes.push_back(std::make_unique<StoryNode>(*this, NodeId(node)));
  }
}

void StoryWorld::start_service() {
  kv_ = std::make_unique<sim::SimKv>(image_);
  net_ = std::make_unique<sim::SimNet>(network, loop_, kService.node);
  HoldsServiceConfig config;
  config.loop = &loop_;
  config.net = net_.get();
  config.address = kService;
  config.kv = kv_.get();
  config.answers_until = [this] { return world.now() < answers_from_ ? Time() : engine::kNever; };
  config.fence = [this](AgentId session, const std::function<void()>& done) {
    world.after(world.between(milliseconds(0), milliseconds(900)), "fence", [this, session, done] {
      fence(session);
      done();
    });
  };
  config.settle = [this](AgentId, const std::vector<InodeId>&, const std::function<void()>& done) {
    world.after(world.between(milliseconds(0), milliseconds(20)), "settle", done);
  };
  auto service = HoldsService::open(config);
  ASSERT(service.has_value());
  service_ = std::move(*service);
  world.trace("service begins", service_->life());
  service_->start();
}

void StoryWorld::stop_service() {
  (void)engine::thread_caller().call(loop_, [&](engine::Op& done) { service_->stop(done); });
  service_ = nullptr;
  kv_ = nullptr;
  net_ = nullptr;
}

void StoryWorld::lose_service(Duration away) {
  if (!has_service()) return;
  net_->kill();
  image_.kill();
  stop_service();
  world.trace("service is away", static_cast<uint64_t>(away / milliseconds(1)));
  world.after(away, "service", [this] {
    // As where the lease of its machine's process before has to end first.
    answers_from_ = world.now() + seconds(world.chance(500) ? 5 : 0);
    start_service();
  });
}

void StoryWorld::heal() {
  network.heal();
  network.faults.drop_permille = network.faults.duplicate_permille = 0;
  network.faults.delay_max = std::chrono::microseconds(100);
}

bool StoryWorld::is_idle() {
  return has_service() && !service_->is_claiming() && service_->figures().ending == 0 &&
         std::all_of(nodes.begin(), nodes.end(), [](const auto& one) { return one->is_idle(); });
}

std::string StoryWorld::describe() {
  if (!has_service()) return "the service is away";
  return std::string("the service ") + (service_->is_claiming() ? "has not been claimed, " : "") +
         "has " + std::to_string(service_->figures().ending) + " that end";
}

// Programs were told of what it had yet to write: that was lost with it, and they hear of it.
void StoryWorld::fence(AgentId session) {
  world.trace("fenced", session.node.value, session.session);
  if (is_calm) fault("a session has ended though nothing but the service failed");
  uint64_t& floor = floor_[session.node];
  if (!mutants.skips_fence) floor = std::max(floor, session.session + 1);
  for (auto& [inode, told] : told_) {
    if (told.second.node != session.node || told.second.session > session.session) continue;
    told.first = std::min(told.first, stored(inode));
    for (const auto& one : expected_[inode]) {
      if (const auto expected = one.lock()) *expected = std::min(*expected, told.first);
    }
  }
}

void StoryWorld::store(AgentId session, InodeId inode, Version version,
                       std::function<void(bool)> done) {
  const bool is_late = network.faults.drop_permille != 0 && world.chance(50);
  const Duration late = world.between(milliseconds(0), milliseconds(is_late ? 9000 : 10));
  world.after(late, "store", [this, session, inode, version, done = std::move(done)] {
    const bool may = session.session >= floor_[session.node];
    world.trace(may ? "stored" : "refused", session.node.value * 100 + inode.value, version);
    if (may) files_[inode] = version;
    done(may);
  });
}

Version StoryWorld::stored(InodeId inode) const {
  const auto found = files_.find(inode);
  return found == files_.end() ? 0 : found->second;
}

void StoryWorld::told(AgentId by, InodeId inode, Version version) {
  if (by.session < floor_[by.node]) return;  // nobody can expect it of others
  auto& known = told_[inode];
  if (version > known.first) known = {version, by};
  world.trace("told", by.node.value * 100 + inode.value, version);
}

std::shared_ptr<Version> StoryWorld::expect(InodeId inode) {
  auto& all = expected_[inode];
  std::erase_if(all, [](const auto& one) { return one.expired(); });
  auto expected = std::make_shared<Version>(told_[inode].first);
  all.push_back(expected);
  return expected;
}

// Two at once, unless one may do nothing more.
void StoryWorld::begins(AgentId by, InodeId inode, Hold hold) {
  auto& running = running_[inode];
  for (const auto& [other, what] : running) {
    const bool is_fenced = other.session < floor_[other.node];
    const bool collides = hold == Hold::exclusive || what == Hold::exclusive;
    if (other.node != by.node && collides && !is_fenced) {
      fault("file " + std::to_string(inode.value) + " is held by two");
    }
  }
  running.emplace(by, hold);
}

void StoryWorld::ends(AgentId by, InodeId inode, Hold hold) {
  auto& running = running_[inode];
  for (auto at = running.lower_bound(by); at != running.end(); ++at) {
    if (at->first != by || at->second != hold) continue;
    running.erase(at);
    return;
  }
  ASSERT(false);
}

void StoryWorld::fault(const std::string& what) {
  world.trace("fault");
  if (!first_fault.empty()) return;
  first_fault =
      what + ", after " + std::to_string(world.now().time_since_epoch() / milliseconds(1)) + " ms";
}

}  // namespace penstock::holds_net
