#include "model_agent.h"

#include <algorithm>
#include <utility>

namespace penstock::holds {
namespace {

using std::chrono::milliseconds;

constexpr Duration kRepeat = milliseconds(300);

}  // namespace

Duration ModelAgent::some_time(int most_ms) const {
  return owner_.world.between(milliseconds(0), milliseconds(most_ms));
}

void ModelAgent::when_awake(std::function<void()> action) {
  if (ended_) return;
  if (owner_.world.now() >= stopped_until_) return action();
  owner_.world.at(stopped_until_, "awake",
                  [this, action = std::move(action)] { when_awake(action); });
}

void ModelAgent::stop_for(Duration duration) {
  stopped_until_ = std::max(stopped_until_, owner_.world.now() + duration);
}

void ModelAgent::start() {
  owner_.on_begin(id_);
  renew();
}

bool ModelAgent::has_lease() const {
  return owner_.mutants.ignores_lease || owner_.world.now() < lease_end_;
}

void ModelAgent::renew() {
  if (ended_) return;
  if (begun_ && owner_.world.now() >= lease_end_) lapse();
  const Time sent = owner_.world.now();
  if (begun_) {
    owner_.send(id_.node, "renew",
                [this, id = id_, sent, life = life_] { owner_.on_renew(id, sent, life); });
  } else {
    owner_.send(id_.node, "begin", [this, id = id_] { owner_.on_begin(id); });
  }
  owner_.world.after(limits::kRenewInterval, "renewal",
                     [this] { when_awake([this] { renew(); }); });
}

void ModelAgent::on_begun(AgentId agent, bool good, Time sent, uint16_t life) {
  if (agent != id_ || begun_) return;
  if (!good) return lapse();  // it ended before it was heard of
  begun_ = true;
  life_ = life;
  lease_end_ = sent + limits::kAgentLease;
  for (auto& [inode, file] : files_) go_on(inode);
}

// A new life of meta knows nothing of this agent: it keeps what is exclusive, and says so once
// nothing else is used any more.
void ModelAgent::on_renewed(AgentId agent, bool good, Time sent, uint16_t life) {
  if (agent != id_ || !begun_ || life < life_) return;
  if (!good) return lapse();
  lease_end_ = std::max(lease_end_, sent + limits::kAgentLease);
  if (life > life_) {
    life_ = life;
    claiming_ = true;
    for (auto& [inode, file] : files_) {
      file.recall.reset();
      file.want = RequestId{};
      file.dropping = file.closed = false;
      file.names.clear();
      ++file.drops;
      if (file.hold == Hold::exclusive) continue;
      ++file.generation;
      file.running = 0;
      file.writes = false;
      file.hold = Hold::none;
      file.kept.reset();
    }
  }
  if (!claiming_) return;
  std::map<InodeId, Hold> has;
  for (const auto& [inode, file] : files_) {
    if (file.hold == Hold::exclusive) has.emplace(inode, file.hold);
  }
  owner_.send(id_.node, "claims",
              [this, id = id_, life, has = std::move(has)] { owner_.on_claims(id, life, has); });
}

void ModelAgent::on_claimed(AgentId agent, uint16_t life, const std::map<InodeId, Stamp>& grants) {
  if (agent != id_ || life != life_ || !claiming_) return;
  claiming_ = false;
  for (auto& [inode, file] : files_) {
    const auto found = grants.find(inode);
    if (found != grants.end() && file.hold == Hold::exclusive) file.grant = found->second;
    if (file.recall && file.recall->grant == file.grant) begin_drop(inode);
    go_on(inode);
  }
}

// All that it had is not its own any more.
void ModelAgent::lapse() {
  owner_.world.trace("lapses", id_.node.value, id_.session);
  for (auto& [inode, file] : files_) {
    file.hold = Hold::none;
    file.kept.reset();
    file.is_behind = false;
    file.names.clear();
    file.recall.reset();
    file.want = RequestId{};
    file.when_put.clear();
    file.dropping = file.closed = file.writes = false;
    ++file.drops;
    ++file.generation;
    file.running = 0;
  }
  ++id_.session;
  begun_ = claiming_ = false;
}

void ModelAgent::with(InodeId inode, Hold hold, std::function<void()> operation) {
  File& file = files_[inode];
  const bool may = begun_ && !claiming_ && has_lease() && !file.closed && file.hold >= hold;
  if (may) return run(inode, operation);
  file.parked.emplace_back(hold, std::move(operation));
  go_on(inode);
}

void ModelAgent::run(InodeId inode, const std::function<void()>& operation) {
  ++files_[inode].running;
  operation();
}

void ModelAgent::end_run(InodeId inode, uint64_t generation) {
  File& file = files_[inode];
  if (file.generation != generation) return;
  --file.running;
  if (file.closed && file.running == 0) finish_drop(inode);
}

// What waits begins, or its hold is asked for.
void ModelAgent::go_on(InodeId inode) {
  File& file = files_[inode];
  if (!begun_ || claiming_ || file.closed) return;
  for (auto at = file.parked.begin(); at != file.parked.end();) {
    if (at->first > file.hold || !has_lease()) {
      ++at;
      continue;
    }
    const std::function<void()> operation = std::move(at->second);
    at = file.parked.erase(at);
    run(inode, operation);
  }
  if (file.parked.empty() || file.want != RequestId{}) return;
  file.want = RequestId(++requests_);
  file.wanted = Hold::none;
  for (const auto& [hold, operation] : file.parked) file.wanted = std::max(file.wanted, hold);
  ask(inode, file.want);
}

void ModelAgent::ask(InodeId inode, RequestId request) {
  if (ended_ || files_[inode].want != request) return;
  const Want want{id_, request, inode, files_[inode].wanted};
  owner_.send(id_.node, "want", [this, want, life = life_] { owner_.on_want(want, life); });
  owner_.world.after(kRepeat, "want again", [this, inode, request] {
    when_awake([this, inode, request] { ask(inode, request); });
  });
}

void ModelAgent::on_given(const Given& given) {
  if (given.agent != id_ || life_of(given.stamp) != life_) return;
  if (given.request == RequestId{}) return;
  File& file = files_[given.inode];
  if (given.request != file.want) return;
  file.want = RequestId{};
  const bool is_over = given.stamp < file.answered && !owner_.mutants.forgets_stamps;
  if (given.hold == Hold::none || is_over) return go_on(given.inode);
  if (file.hold == Hold::none) file.kept.reset();
  owner_.world.trace("takes", given.inode.value * 10 + id_.node.value, given.stamp.value);
  file.hold = given.hold;
  file.grant = given.stamp;
  go_on(given.inode);
  // It was recalled before it came: those who waited have had their turn.
  if (file.recall && file.recall->grant == given.stamp && !file.closed) begin_drop(given.inode);
}

void ModelAgent::on_recall(const Recall& recall) {
  if (recall.agent != id_ || life_of(recall.recall) != life_ || !begun_) return;
  File& file = files_[recall.inode];
  if (recall.recall <= file.answered) return answer(recall.inode, recall, recall.leave);
  const bool may_come = file.want != RequestId{} || claiming_;
  const bool is_known = recall.grant == file.grant && file.hold != Hold::none;
  if (!recall.names.empty()) {
    for (const std::string& name : recall.names) file.names.erase(name);
    return answer(recall.inode, recall, file.hold);
  }
  if (file.recall && file.recall->recall == recall.recall) return;
  if (recall.grant < file.grant) return;
  if (is_known && recall.leave == file.hold) return settle(recall.inode, recall);
  const bool never_came = !is_known && !may_come;
  if (never_came && file.hold == Hold::none) return answer(recall.inode, recall, Hold::none);
  file.recall = recall;
  // What it has by an earlier grant went into the one that never came.
  if (never_came) file.recall->leave = Hold::none;
  if ((is_known || never_came) && !file.closed) begin_drop(recall.inode);
}

// What it has stays; what it wrote behind goes to the targets.
void ModelAgent::settle(InodeId inode, const Recall& recall) {
  put(inode, [this, inode, recall] { answer(inode, recall, recall.leave); });
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
  owner_.store(id_, inode, version, [this, inode, version, session = id_](bool stored) {
    when_awake([this, inode, version, session, stored] {
      if (session != id_) return;
      if (!stored) return lapse();
      File& at = files_[inode];
      if (at.kept == version) at.is_behind = false;
      for (const auto& next : std::exchange(at.when_put, {})) put(inode, next);
    });
  });
}

void ModelAgent::begin_drop(InodeId inode) {
  File& file = files_[inode];
  file.closed = true;
  if (owner_.mutants.answers_before_drop) {
    owner_.send(id_.node, "back early",
                [this, back = Back{id_, inode, file.recall->recall}, life = life_] {
                  owner_.on_back(back, life);
                });
  }
  if (file.running == 0) finish_drop(inode);
}

void ModelAgent::finish_drop(InodeId inode) {
  File& file = files_[inode];
  if (file.dropping || !file.recall) return;
  file.dropping = true;
  const uint64_t drops = ++file.drops;
  const auto drop = [this, inode, drops] {
    File& dropped = files_[inode];
    if (dropped.drops != drops) return;
    const Recall recall = *dropped.recall;
    dropped.recall.reset();
    dropped.closed = dropped.dropping = false;
    dropped.hold = std::min(dropped.hold, recall.leave);
    dropped.grant = recall.recall;
    if (dropped.hold == Hold::none) {
      dropped.kept.reset();
      dropped.names.clear();
    }
    answer(inode, recall, dropped.hold);
    go_on(inode);
  };
  owner_.world.after(some_time(20), "drop", [this, inode, drops, drop] {
    when_awake([this, inode, drops, drop] {
      if (files_[inode].drops == drops) put(inode, drop);
    });
  });
}

void ModelAgent::answer(InodeId inode, const Recall& recall, Hold left) {
  owner_.world.trace("gives back", inode.value * 10 + id_.node.value, recall.recall.value);
  File& file = files_[inode];
  file.answered = std::max(file.answered, recall.recall);
  const Back back{id_, inode, recall.recall, left};
  owner_.send(id_.node, "back", [this, back, life = life_] { owner_.on_back(back, life); });
}

void ModelAgent::read(InodeId inode) {
  const std::string what = "file " + std::to_string(inode.value);
  const std::shared_ptr<Version> least = owner_.expect(what);
  with(inode, Hold::shared, [this, inode, what, least] {
    const File& file = files_[inode];
    const Version version = file.kept ? *file.kept : owner_.stored(inode);
    owner_.world.after(
        some_time(30), "read",
        [this, inode, what, least, version, session = id_, generation = file.generation] {
          when_awake([this, inode, what, least, version, session, generation] {
            File& at = files_[inode];
            const bool is_good =
                session == id_ && at.generation == generation && (has_lease() && begun_);
            if (is_good) {
              if (version < *least) owner_.fault(what + " is older than what somebody was told");
              owner_.world.trace("read gives", id_.node.value, version);
              owner_.told(id_, what, version);
              at.kept = std::max(version, at.kept.value_or(0));
            }
            end_run(inode, generation);
          });
        });
  });
}

// One at a time of a file, so that what was told last is what is there.
void ModelAgent::write(InodeId inode) {
  with(inode, Hold::exclusive, [this, inode] {
    File& file = files_[inode];
    const uint64_t generation = file.generation;
    if (std::exchange(file.writes, true)) return end_run(inode, generation);
    owner_.world.after(some_time(30), "write", [this, inode, session = id_, generation] {
      when_awake([this, inode, session, generation] { finish_write(inode, session, generation); });
    });
  });
}

void ModelAgent::finish_write(InodeId inode, AgentId session, uint64_t generation) {
  const std::string what = "file " + std::to_string(inode.value);
  File& file = files_[inode];
  if (session != id_ || file.generation != generation || !begun_) return;
  const Version version = owner_.next_version();
  if (owner_.world.chance(500) && has_lease()) {
    file.kept = version;
    file.is_behind = true;
    file.writes = false;
    owner_.told(session, what, version);
    return end_run(inode, generation);
  }
  put(inode, [=, this] {
    owner_.store(session, inode, version, [=, this](bool stored) {
      when_awake([=, this] {
        if (stored) owner_.told(session, what, version);
        File& at = files_[inode];
        if (session != id_ || at.generation != generation) return;
        if (!stored) return lapse();
        at.kept = version;
        at.writes = false;
        end_run(inode, generation);
      });
    });
  });
}

void ModelAgent::look_up(const std::string& name) {
  if (!begun_ || claiming_) return;
  const File& file = files_[kDirectory];
  const auto kept = file.names.find(name);
  const std::shared_ptr<Version> least = owner_.expect(name);
  if (file.hold >= Hold::shared && !file.closed && has_lease() && kept != file.names.end()) {
    if (kept->second.version < *least) {
      owner_.fault(name + ": " + std::to_string(kept->second.version) + " is older than " +
                   std::to_string(*least) + ", of which somebody was told");
    }
    return;
  }
  const uint64_t operation = ++requests_;
  questions_[operation] = {name, least, false};
  const Want want{id_, RequestId(++requests_), kDirectory, Hold::shared, false};
  if (files_[kDirectory].want == RequestId{} && !file.closed) {
    files_[kDirectory].want = want.request;
    owner_.send(id_.node, "want names", [this, want, life = life_] { owner_.on_want(want, life); });
    // It is not asked again: a later look-up does.
    owner_.world.after(kRepeat, "want no more", [this, request = want.request] {
      if (files_[kDirectory].want == request) files_[kDirectory].want = RequestId{};
    });
  }
  ask_name(operation);
}

void ModelAgent::change_name(const std::string& name) {
  const uint64_t operation = ++requests_;
  questions_[operation] = {name, std::make_shared<Version>(0), true};
  // Nobody recalls it from who changes it.
  files_[kDirectory].names.erase(name);
  changing_.insert(name);
  ask_name(operation);
}

void ModelAgent::ask_name(uint64_t operation) {
  const auto found = questions_.find(operation);
  if (ended_ || found == questions_.end()) return;
  const NameQuestion& question = found->second;
  owner_.send(id_.node, "name", [this, operation, id = id_, question, life = life_] {
    question.changes ? owner_.on_change_name(id, operation, question.name, life)
                     : owner_.on_look_up(id, operation, question.name, life);
  });
  owner_.world.after(kRepeat, "name again",
                     [this, operation] { when_awake([this, operation] { ask_name(operation); }); });
}

void ModelAgent::on_name(AgentId agent, uint64_t operation, Version version, Stamp stamp) {
  const auto found = questions_.find(operation);
  if (found == questions_.end()) return;
  const NameQuestion question = found->second;
  questions_.erase(found);
  Stamp& changed = files_[kDirectory].changed[question.name];
  if (question.changes) {
    changing_.erase(changing_.find(question.name));
    changed = std::max(changed, stamp);
  }
  if (version < *question.least) owner_.fault(question.name + " is older than it was");
  owner_.told(id_, question.name, version);
  File& file = files_[kDirectory];
  const bool may_keep = agent == id_ && begun_ && stamp != Stamp{} && life_of(stamp) == life_ &&
                        file.hold >= Hold::shared && !file.closed && !claiming_ &&
                        !changing_.contains(question.name);
  // What was read before the hold may have been changed before it, and told to those who had one.
  const bool is_held = stamp > file.grant && stamp > file.answered && stamp >= changed;
  if (may_keep && (is_held || owner_.mutants.forgets_stamps)) {
    Name& kept = file.names[question.name];
    owner_.world.trace("keeps", version, stamp.value);
    if (kept.stamp < stamp) kept = {version, stamp};
  }
}

bool ModelAgent::is_idle() const {
  return begun_ && !claiming_ && questions_.empty() &&
         std::all_of(files_.begin(), files_.end(), [](const auto& entry) {
           return entry.second.parked.empty() && entry.second.running == 0 && !entry.second.closed;
         });
}

std::string ModelAgent::describe() const {
  std::string text = "agent " + std::to_string(id_.node.value) + "." + std::to_string(id_.session) +
                     (begun_ ? "" : " not begun") + (claiming_ ? " claims" : "") + ", " +
                     std::to_string(questions_.size()) + " questions";
  for (const auto& [inode, file] : files_) {
    text += "; " + std::to_string(inode.value) + ": hold " +
            std::to_string(static_cast<int>(file.hold)) + ", " +
            std::to_string(file.parked.size()) + " parked, " + std::to_string(file.running) +
            " run" + (file.closed ? ", closed" : "") + (file.recall ? ", recalled" : "") +
            (file.want != RequestId{} ? ", asks" : "");
  }
  return text;
}

}  // namespace penstock::holds
