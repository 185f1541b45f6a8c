// A writer whose session is fenced while it goes on writing, and somebody who reads afterwards.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "penstock/testing_chains.h"

namespace penstock::chain {

// What a story leaves out of what keeps an old session's bytes away. Stories find it.
enum class Without : uint8_t {
  nothing,
  looking,  // heads do not look at fences
  waiting,  // whoever orders the fence does not wait until it is in force
  asking,   // whoever waited for it does not ask heads whether something is pending
};

// Three to five targets of one chain, and clients that are agents: one goes on writing in its old
// session, whatever becomes of it, while messages are lost, late and doubled and heads change. Once
// its fence is in force, and heads have said that nothing is pending, nothing of that session may
// ever be applied: what is read then stays as it is, until another writes.
class FenceStory {
 public:
  FenceStory(uint64_t seed, Without without)
      : world_(seed), wires_(world_, test::Wire::messages), without_(without) {
    world_.set_time_limit(std::chrono::hours(1));
    const auto count = static_cast<uint32_t>(3 + world_.random().below(3));
    for (uint32_t i = 1; i <= count; ++i) {
      nodes_.push_back(std::make_unique<test::StorageNode>(
          world_, wires_, i, std::make_unique<test::MemoryStorage>(world_)));
    }
    table_ = std::make_unique<test::ChainTable>(world_, nodes_);
    table_->forgets_fences = without == Without::looking;
    old_node_ = NodeId(count + 1);
    const auto client = [&](NodeId node, std::function<uint64_t()> session) {
      return std::make_unique<test::RegisterClient>(world_, wires_, *table_, history_, node.value,
                                                    std::move(session));
    };
    old_ = client(old_node_, [this] { return wire::AgentSession{old_node_, session_}.word(); });
    other_ = client(NodeId(count + 2), [count] {
      return wire::AgentSession{NodeId(count + 2), 1}.word();
    });
    reader_ = client(NodeId(count + 3), {});
  }

  // Empty, or what was wrong.
  std::string run() {
    for (const auto& node : nodes_) node->start();
    table_->start();
    for (int i = 0; i < 3; ++i) (void)table_->admit_agent();
    std::vector<engine::Thread> programs;
    for (int i = 0; i < 2; ++i) programs.emplace_back("old", [this] { go_on_writing(); });
    programs.emplace_back("faults", [this] { inject_faults(); });
    wait(milliseconds(1500));
    fence();
    take_snapshot();
    programs.emplace_back("other", [this] { write_as_other(); });
    for (int i = 0; i < kReads && fault_.empty(); ++i) {
      read_one();
      wait(milliseconds(40));
    }
    calm_ = true;
    for (engine::Thread& program : programs) program.join();
    settle();
    for (const test::History::Register& which : all()) read_one(which);
    if (fault_.empty()) fault_ = history_.check();
    // The writer's next session is another matter.
    session_ = kLowest;
    bool writes = false;
    for (int tries = 0; tries < 5 && !writes; ++tries) writes = old_->write({0, 0});
    if (!writes) note("the next session may not write");
    stop();
    return fault_.empty() ? "" : fault_ + " (seed " + std::to_string(world_.seed()) + ")";
  }

  uint64_t trace_hash() const { return world_.trace_hash(); }
  // Writes of the old session that were refused, and that came to their end well before.
  size_t refused() const { return refused_; }
  size_t written() const { return written_; }

 private:
  using milliseconds = std::chrono::milliseconds;
  static constexpr uint64_t kChunks = 2;
  static constexpr uint64_t kRegisters = 2;
  static constexpr uint64_t kLowest = 2;
  static constexpr int kReads = 40;

  void wait(milliseconds at_most) {
    world_.run_for(milliseconds(world_.random().below(static_cast<uint64_t>(at_most.count()))));
  }
  static std::vector<test::History::Register> all() {
    std::vector<test::History::Register> all;
    for (uint64_t chunk = 0; chunk < kChunks; ++chunk) {
      for (uint64_t part = 0; part < kRegisters; ++part) all.emplace_back(chunk, part);
    }
    return all;
  }
  test::History::Register any_register() {
    return {world_.random().below(kChunks), world_.random().below(kRegisters)};
  }
  void note(const std::string& fault) {
    if (fault_.empty()) fault_ = fault;
  }

  // Until the end, without noticing anything.
  void go_on_writing() {
    while (!calm_) {
      const bool is_over = in_force_;
      const Status status = old_->registers().try_write(any_register());
      if (status.ok()) ++written_;
      if (status == Code::stale) ++refused_;
      if (is_over && status.ok()) note("a write that began after the fence has happened");
      wait(milliseconds(30));
    }
  }

  void fence() {
    const wire::AgentSession lowest{old_node_, kLowest};
    table_->fence(lowest);
    if (without_ != Without::waiting) {
      const auto is_fenced = [&] { return table_->is_fenced(lowest); };
      if (!world_.run_until(is_fenced, std::chrono::seconds(30))) note("a fence never comes");
    }
    in_force_ = true;
  }

  // As whoever gives files on does.
  void take_snapshot() {
    while (without_ != Without::asking && !reader_->registers().is_quiet()) {
      world_.run_for(milliseconds(10));
    }
    for (const test::History::Register& which : all()) {
      std::optional<uint64_t> value;
      while (!value) value = reader_->registers().read_value(which);
      snapshot_[which] = *value;
    }
  }

  void write_as_other() {
    for (int i = 0; i < kReads / 2 && !calm_; ++i) {
      (void)other_->write(any_register());
      wait(milliseconds(80));
    }
  }

  void read_one() { read_one(any_register()); }
  void read_one(test::History::Register which) {
    const auto value = reader_->registers().read_value(which);
    if (!value || *value == snapshot_.at(which)) return;
    if (test::Registers::writer_of(*value) != old_node_.value) return;
    note("bytes of an old session came later");
  }

  void inject_faults() {
    sim::SimNetFaults& faults = network_.faults;
    faults.detection = milliseconds(300);
    faults.drop_permille = world_.chance(500) ? 20 : 0;
    if (world_.chance(500)) faults.delay_max = milliseconds(world_.chance(500) ? 30 : 200);
    // Of a call that comes twice, and late, clients take a refusal for all there is to say.
    const bool may_double = faults.delay_max <= milliseconds(30);
    faults.duplicate_permille = may_double && world_.chance(900) ? 50 : 0;
    table_->lost_permille = world_.chance(500) ? 50 : 0;
    for (const auto& node : nodes_) {
      if (world_.chance(300)) {
        table_->hears_late[node->number()] = world_.between(milliseconds(0), milliseconds(250));
      }
    }
    while (!calm_) {
      wait(milliseconds(500));
      one_fault();
    }
    wires_.heal();
    faults.detection = milliseconds(300);
    table_->cut_off.clear();
    table_->lost_permille = 0;
    table_->hears_late.clear();
    for (const auto& node : nodes_) node->stall({});
  }

  void one_fault() {
    // Mostly the head's.
    const View view = table_->view();
    const uint32_t number = view.serving() > 0 && world_.chance(600)
                                ? view.members.front().address.node.value
                                : nodes_[world_.random().below(nodes_.size())]->number();
    test::StorageNode& node = *nodes_[number - 1];
    test::StorageNode& other = *nodes_[world_.random().below(nodes_.size())];
    switch (world_.random().below(6)) {
      case 0:
        return network_.set_partitioned(NodeId{number}, NodeId{other.number()},
                                        number != other.number());
      case 1:
        table_->cut_off.insert(number);
        return;
      case 2:
      case 3:
        network_.heal();
        table_->cut_off.clear();
        return;
      case 4:
        node.stall(milliseconds(world_.random().below(600)));
        world_.run_for(milliseconds(300));
        return node.stall({});
      default:
        node.die(world_.chance(500));
        node.start();
    }
  }

  void settle() {
    const auto is_whole = [this] { return table_->all_serve(); };
    if (!world_.run_until(is_whole, std::chrono::seconds(60))) note("no progress");
  }

  void stop() {
    table_->stop();
    for (const auto* client : {&old_, &other_, &reader_}) (*client)->close();
    std::vector<engine::Thread> deaths;
    for (const auto& node : nodes_) {
      deaths.emplace_back("death", [&node] { node->die(false); });
    }
    for (engine::Thread& death : deaths) death.join();
  }

  sim::SimWorld world_;
  test::Wires wires_;
  sim::SimNetwork& network_ = wires_.network;
  const Without without_;
  std::vector<std::unique_ptr<test::StorageNode>> nodes_;
  std::unique_ptr<test::ChainTable> table_;
  test::History history_;
  NodeId old_node_;
  uint64_t session_ = 1;  // of the old one
  std::unique_ptr<test::RegisterClient> old_;
  std::unique_ptr<test::RegisterClient> other_;
  std::unique_ptr<test::RegisterClient> reader_;
  std::map<test::History::Register, uint64_t> snapshot_;
  bool in_force_ = false;
  bool calm_ = false;  // no fault comes any more
  size_t refused_ = 0;
  size_t written_ = 0;
  std::string fault_;
};

}  // namespace penstock::chain
