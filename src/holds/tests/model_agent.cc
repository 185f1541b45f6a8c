#include "model_agent.h"

#include <algorithm>
#include <utility>

namespace penstock::holds {
namespace {

using std::chrono::milliseconds;

constexpr Duration kRepeat = milliseconds(300);

std::string bytes_of(InodeId inode) {
  return "file " + std::to_string(inode.value);
}

}  // namespace

Duration ModelAgent::some_time(int most_ms) const {
  return owner_.world.between(milliseconds(0), milliseconds(most_ms));
}

void ModelAgent::when_awake(std::function<void()> action) {
  if (ended_) return;
  if (now() >= stopped_until_) return action();
  owner_.world.at(stopped_until_, "awake",
                  [this, action = std::move(action)] { when_awake(action); });
}

void ModelAgent::stop_for(Duration duration) {
  stopped_until_ = std::max(stopped_until_, now() + duration);
}

// On its own clock, at which an agent looks before it relies on its lease.
Time ModelAgent::lease_time() const {
  return owner_.mutants.ignores_lease ? Time{} : now();
}

void ModelAgent::start() {
  do_it(Begin{id()});
  renew();
}

void ModelAgent::renew() {
  if (ended_) return;
  if (owner_.mutants.loses_with_lease && keeper_.has_begun() && !keeper_.is_claiming() &&
      keeper_.ready_until() != Time{} && !keeper_.is_ready(now())) {
    fenced(id());
  }
  if (keeper_.has_begun()) {
    owner_.send(node(), "renew", [this, id = id(), sent = now(), life = keeper_.life()] {
      owner_.on_renew(id, sent, life);
    });
  }
  owner_.world.after(limits::kRenewInterval, "renewal",
                     [this] { when_awake([this] { renew(); }); });
}

void ModelAgent::on_begun(AgentId agent, bool good, Time sent, uint16_t life) {
  keeper_.begun(agent, good, sent, life);
  act();
}

void ModelAgent::on_renewed(AgentId agent, bool good, Time sent, uint16_t life) {
  keeper_.renewed(agent, good, sent, life);
  act();
}

void ModelAgent::on_claimed(AgentId agent, uint16_t life,
                            const std::vector<std::pair<InodeId, Stamp>>& grants) {
  keeper_.claimed(agent, life, grants);
  act();
}

void ModelAgent::on_given(const Given& given) {
  keeper_.given(given, now());
  act();
}

void ModelAgent::on_recall(const Recall& recall) {
  keeper_.recalled(recall, now());
  act();
}

// In the order in which the keeper says it, also what it says meanwhile.
void ModelAgent::act() {
  if (std::exchange(is_acting_, true)) return;
  for (auto actions = keeper_.take_actions(); !actions.empty(); actions = keeper_.take_actions()) {
    for (const KeeperAction& action : actions) {
      std::visit([this](const auto& one) { do_it(one); }, action);
    }
  }
  is_acting_ = false;
  if (!keeper_.has_stays() || std::exchange(awaits_stays_, true)) return;
  owner_.world.after(limits::kStayLook, "stays", [this] {
    when_awake([this] {
      awaits_stays_ = false;
      keeper_.look_at_stays(now());
      act();
    });
  });
}

void ModelAgent::do_it(const Begin& begin) {
  if (ended_ || begin.agent != id() || keeper_.has_begun()) return;
  owner_.send(node(), "begin", [this, begin] { owner_.on_begin(begin.agent); });
  owner_.world.after(kRepeat, "begin again",
                     [this, begin] { when_awake([this, begin] { do_it(begin); }); });
}

void ModelAgent::do_it(const Ask& ask) {
  const Want& want = ask.want;
  if (ended_ || want.agent != id() || !keeper_.is_asking(want.inode, want.request)) return;
  owner_.send(node(), "want", [this, want, life = keeper_.life()] { owner_.on_want(want, life); });
  owner_.world.after(kRepeat, "want again",
                     [this, ask] { when_awake([this, ask] { do_it(ask); }); });
}

void ModelAgent::do_it(const Claim& claim) {
  if (ended_ || claim.agent != id() || !keeper_.is_claiming()) return;
  owner_.send(node(), "claim",
              [this, claim, life = keeper_.life()] { owner_.on_claims(claim, life); });
  owner_.world.after(kRepeat, "claim again",
                     [this, claim] { when_awake([this, claim] { do_it(claim); }); });
}

void ModelAgent::do_it(const Answer& answer) {
  owner_.send(node(), "back",
              [this, back = answer.back, life = keeper_.life()] { owner_.on_back(back, life); });
}

void ModelAgent::do_it(const Resume& resume) {
  auto waiting = std::exchange(files_[resume.inode].parked, {});
  for (auto& [hold, operation] : waiting) with(resume.inode, hold, std::move(operation));
  keeper_.resumed(resume.inode);
}

void ModelAgent::do_it(const DropAll& drop) {
  for (auto& [inode, file] : files_) {
    file.names.clear();
    if (!drop.is_lost && keeper_.hold_of(inode) == Hold::exclusive) continue;
    file.kept.reset();
    file.writes = false;
    if (!drop.is_lost) continue;
    file.is_behind = false;
    file.when_put.clear();
  }
  keeper_.all_dropped();
}

void ModelAgent::do_it(const Drop& drop) {
  File& file = files_[drop.inode];
  for (const std::string& name : drop.names) file.names.erase(name);
  if (!drop.names.empty()) return finish(drop);
  if (owner_.mutants.answers_before_drop) do_it(Answer{{id(), drop.inode, drop.recall}});
  owner_.world.after(some_time(20), "drop", [this, drop] {
    when_awake([this, drop] { put(drop.inode, [this, drop] { finish(drop); }); });
  });
}

void ModelAgent::finish(const Drop& drop) {
  File& file = files_[drop.inode];
  if (drop.leave == Hold::none) {
    // One that was overtaken drops more than it must, beside reads that have begun since.
    if (!file.is_behind) file.kept.reset();
    ++file.drops;
    file.names.clear();
  }
  keeper_.dropped(drop.inode, drop.recall);
  act();
}

// `then` runs when all is in the targets, also what an earlier put has on its way; not at all,
// where the session is over by then.
void ModelAgent::put(InodeId inode, std::function<void()> then) {
  File& file = files_[inode];
  const bool is_under_way = !file.when_put.empty();
  if (!file.is_behind && !is_under_way) return then();
  file.when_put.push_back(std::move(then));
  if (is_under_way) return;
  const Version version = *file.kept;
  owner_.store(id(), inode, version, [this, inode, version, session = id()](bool stored) {
    when_awake([this, inode, version, session, stored] {
      if (session != id() || !keeper_.has_begun()) return;
      if (!stored) return fenced(session);
      File& at = files_[inode];
      if (at.kept == version) at.is_behind = false;
      for (const auto& next : std::exchange(at.when_put, {})) put(inode, next);
    });
  });
}

// Heads take nothing of that session any more.
void ModelAgent::fenced(AgentId session) {
  on_renewed(session, false, now(), keeper_.life());
}

void ModelAgent::with(InodeId inode, Hold hold, std::function<void()> operation) {
  if (keeper_.enter(inode, hold, lease_time())) {
    operation();
  } else {
    files_[inode].parked.emplace_back(hold, std::move(operation));
    keeper_.wait(inode, hold);
  }
  act();
}

void ModelAgent::leave(InodeId inode, uint64_t generation) {
  keeper_.leave(inode, generation);
  act();
}

void ModelAgent::read(InodeId inode) {
  const std::shared_ptr<Version> least = owner_.expect(bytes_of(inode));
  with(inode, Hold::shared, [this, inode, least] {
    const File& file = files_[inode];
    const Version version = file.kept ? *file.kept : owner_.stored(inode);
    const uint64_t generation = keeper_.generation(inode);
    owner_.world.after(some_time(30), "read", [=, this, session = id(), drops = file.drops] {
      when_awake([=, this] {
        if (keeper_.is_good(inode, session, generation, lease_time())) {
          if (version < *least) {
            owner_.fault(bytes_of(inode) + " is older than what somebody was told");
          }
          owner_.told(id(), bytes_of(inode), version);
          File& at = files_[inode];
          if (at.drops == drops) at.kept = std::max(version, at.kept.value_or(0));
        }
        leave(inode, generation);
      });
    });
  });
}

// One at a time of a file, so that what was told last is what is there.
void ModelAgent::write(InodeId inode) {
  with(inode, Hold::exclusive, [this, inode] {
    const uint64_t generation = keeper_.generation(inode);
    if (std::exchange(files_[inode].writes, true)) return leave(inode, generation);
    owner_.world.after(some_time(30), "write", [this, inode, session = id(), generation] {
      when_awake([this, inode, session, generation] { finish_write(inode, session, generation); });
    });
  });
}

void ModelAgent::want(InodeId inode) {
  keeper_.want(inode, lease_time());
  act();
}

void ModelAgent::finish_write(InodeId inode, AgentId session, uint64_t generation) {
  File& file = files_[inode];
  if (session != id() || keeper_.generation(inode) != generation) return;
  const Version version = owner_.next_version();
  if (owner_.world.chance(500) && keeper_.is_good(inode, session, generation, lease_time())) {
    file.kept = version;
    file.is_behind = true;
    file.writes = false;
    owner_.told(session, bytes_of(inode), version);
    return leave(inode, generation);
  }
  put(inode, [=, this] {
    owner_.store(session, inode, version, [=, this](bool stored) {
      when_awake([=, this] {
        if (stored) owner_.told(session, bytes_of(inode), version);
        if (session != id() || keeper_.generation(inode) != generation) return;
        if (!stored) return fenced(session);
        files_[inode].kept = version;
        files_[inode].writes = false;
        leave(inode, generation);
      });
    });
  });
}

void ModelAgent::look_up(const std::string& name) {
  const File& file = files_[kDirectory];
  const auto kept = file.names.find(name);
  const std::shared_ptr<Version> least = owner_.expect(name);
  if (kept != file.names.end() && keeper_.enter(kDirectory, Hold::shared, lease_time())) {
    if (kept->second.version < *least) {
      owner_.fault(name + ": " + std::to_string(kept->second.version) + " is older than " +
                   std::to_string(*least) + ", of which somebody was told");
    }
    return leave(kDirectory, keeper_.generation(kDirectory));
  }
  const uint64_t operation = ++questions_asked_;
  questions_[operation] = {name, least, false};
  // Beside it, for the next one.
  with(kDirectory, Hold::shared, [this] { leave(kDirectory, keeper_.generation(kDirectory)); });
  ask_name(operation);
}

void ModelAgent::change_name(const std::string& name) {
  const uint64_t operation = ++questions_asked_;
  questions_[operation] = {name, std::make_shared<Version>(0), true};
  // Nobody recalls it from who changes it.
  files_[kDirectory].names.erase(name);
  changing_.insert(name);
  ask_name(operation);
}

void ModelAgent::ask_name(uint64_t operation) {
  const auto found = questions_.find(operation);
  if (ended_ || found == questions_.end()) return;
  owner_.send(node(), "name",
              [this, operation, id = id(), question = found->second, life = keeper_.life()] {
                question.changes ? owner_.on_change_name(id, operation, question.name, life)
                                 : owner_.on_look_up(id, operation, question.name, life);
              });
  owner_.world.after(kRepeat, "name again",
                     [this, operation] { when_awake([this, operation] { ask_name(operation); }); });
}

void ModelAgent::on_name(uint64_t operation, Version version, Stamp stamp) {
  const auto found = questions_.find(operation);
  if (found == questions_.end()) return;
  const NameQuestion question = found->second;
  questions_.erase(found);
  File& file = files_[kDirectory];
  Stamp& changed = file.changed[question.name];
  if (question.changes) {
    changing_.erase(changing_.find(question.name));
    changed = std::max(changed, stamp);
  }
  if (version < *question.least) owner_.fault(question.name + " is older than it was");
  owner_.told(id(), question.name, version);
  const bool may_keep = keeper_.may_keep(kDirectory, stamp, lease_time()) && stamp >= changed;
  const bool is_careless =
      owner_.mutants.forgets_stamps && keeper_.hold_of(kDirectory) != Hold::none;
  if ((!may_keep && !is_careless) || changing_.contains(question.name)) return;
  Name& kept = file.names[question.name];
  owner_.world.trace("keeps", version, stamp.value);
  if (kept.stamp < stamp) kept = {version, stamp};
}

bool ModelAgent::is_idle() const {
  return keeper_.is_idle() && questions_.empty();
}

std::string ModelAgent::describe() const {
  std::string text = "agent " + std::to_string(node().value) + "." + std::to_string(id().session) +
                     (keeper_.has_begun() ? "" : " not begun") +
                     (keeper_.is_claiming() ? " claims" : "") + ", " +
                     std::to_string(questions_.size()) + " questions";
  for (const auto& [inode, file] : files_) {
    text += "; " + std::to_string(inode.value) + ": hold " +
            std::to_string(static_cast<int>(keeper_.hold_of(inode))) + ", " +
            std::to_string(file.parked.size()) + " parked";
  }
  return text;
}

}  // namespace penstock::holds
