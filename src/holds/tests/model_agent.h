// An agent of the model: it reads and writes files, keeps what it read, writes behind, and looks up
// and changes names. What it has and gives back is for a Keeper to say.
#pragma once

#include "model_world.h"

#include <deque>

namespace penstock::holds {

class ModelAgent {
 public:
  ModelAgent(ModelWorld& owner, NodeId node) : owner_(owner), keeper_({node, 1}) {}

  void start();
  void read(InodeId inode);
  void write(InodeId inode);
  void want(InodeId inode);
  void look_up(const std::string& name);
  void change_name(const std::string& name);
  // It does nothing for so long, and does not notice.
  void stop_for(Duration duration);
  void end() { ended_ = true; }
  bool is_idle() const;
  bool has_begun() const { return keeper_.has_begun(); }
  std::string describe() const;
  NodeId node() const { return keeper_.id().node; }
  AgentId id() const { return keeper_.id(); }

  // From meta.
  void on_given(const Given& given);
  void on_recall(const Recall& recall);
  void on_renewed(AgentId agent, bool good, Time sent, uint16_t life);
  void on_begun(AgentId agent, bool good, Time sent, uint16_t life);
  void on_claimed(AgentId agent, uint16_t life,
                  const std::vector<std::pair<InodeId, Stamp>>& grants);
  void on_name(uint64_t operation, Version version, Stamp stamp);

  // Now, or when it is not stopped any more.
  void when_awake(std::function<void()> action);

 private:
  struct Name {
    Version version = 0;
    Stamp stamp;  // at which it was read
  };
  struct File {
    std::optional<Version> kept;
    bool is_behind = false;  // `kept` is not in the targets yet
    uint64_t drops = 0;      // what was read before the last is not kept
    bool writes = false;
    std::vector<std::function<void()>> when_put;
    std::map<std::string, Name> names;
    std::map<std::string, Stamp> changed;  // by this agent: nothing older is kept
    std::deque<std::pair<Hold, std::function<void()>>> parked;
  };
  struct NameQuestion {
    std::string name;
    std::shared_ptr<Version> least;
    bool changes = false;
  };

  Time now() const { return owner_.world.now(); }
  Time lease_time() const;
  void act();
  void do_it(const Ask& ask);
  void do_it(const Answer& answer);
  void do_it(const Claim& claim);
  void do_it(const Begin& begin);
  void do_it(const Drop& drop);
  void do_it(const DropAll& drop);
  void do_it(const Resume& resume);
  void finish(const Drop& drop);

  void with(InodeId inode, Hold hold, std::function<void()> operation);
  void leave(InodeId inode, uint64_t generation);
  void put(InodeId inode, std::function<void()> then);
  void finish_write(InodeId inode, AgentId session, uint64_t generation);
  void fenced(AgentId session);
  void renew();
  void ask_name(uint64_t operation);
  Duration some_time(int most_ms) const;

  ModelWorld& owner_;
  Keeper keeper_;
  bool is_acting_ = false;
  bool awaits_stays_ = false;
  Time stopped_until_{};
  uint64_t questions_asked_ = 0;
  std::map<InodeId, File> files_;
  std::map<uint64_t, NameQuestion> questions_;
  std::multiset<std::string> changing_;  // names, by this agent
  bool ended_ = false;
};

}  // namespace penstock::holds
