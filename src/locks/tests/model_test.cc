// The table beside one that knows each byte.
#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <map>
#include <vector>

#include "penstock/locks.h"

namespace penstock::locks {
namespace {

constexpr uint64_t kBytes = 12;
constexpr size_t kOwners = 6, kFiles = 3;

struct Ask {
  size_t file = 0;
  size_t owner = 0;
  uint64_t begin = 0;
  uint64_t end = kBytes;
  Type type = Type::none;
  uint64_t request = 0;
};

// Says what Linux would say, the slow way. Every third owner is of flock.
class Model {
 public:
  static bool is_flock(size_t owner) { return owner % 3 == 2; }

  Answer set(const Ask& ask) {
    if (is_flock(ask.owner)) {
      if (at(ask, 0) == ask.type) return Answer::done;
      put({ask.file, ask.owner, 0, kBytes, Type::none, 0});
    }
    Answer answer = Answer::done;
    if (!is_free(ask)) {
      answer = ask.request == 0 ? Answer::held : is_ring(ask) ? Answer::deadlock : Answer::waits;
    } else {
      put(ask);
    }
    serve(ask.file, answer == Answer::done);
    if (answer == Answer::waits) waiting_.push_back(ask);
    return answer;
  }
  bool cancel(uint64_t request) {
    return std::erase_if(waiting_, [&](const Ask& one) { return one.request == request; }) > 0;
  }
  void end(bool (*is_its)(size_t owner)) {
    std::erase_if(waiting_, [&](const Ask& one) { return is_its(one.owner); });
    for (size_t file = 0; file < kFiles; ++file) {
      for (size_t owner = 0; owner < kOwners; ++owner) {
        if (is_its(owner)) put({file, owner, 0, kBytes, Type::none, 0});
      }
    }
    for (size_t file = 0; file < kFiles; ++file) serve(file, false);
  }
  bool is_free(const Ask& ask) const {
    for (size_t other = 0; other < kOwners; ++other) {
      if (is_in_the_way(ask, other)) return false;
    }
    return true;
  }
  std::map<uint64_t, Answer> take_ended() { return std::exchange(ended_, {}); }
  size_t waiting() const { return waiting_.size(); }
  const std::vector<Ask>& all_waiting() const { return waiting_; }

 private:
  Type& at(const Ask& ask, uint64_t byte) { return bytes_[ask.file][ask.owner][byte]; }
  void put(const Ask& ask) {
    for (uint64_t byte = ask.begin; byte < ask.end; ++byte) at(ask, byte) = ask.type;
  }
  bool is_in_the_way(const Ask& ask, size_t other) const {
    if (other == ask.owner || is_flock(other) != is_flock(ask.owner)) return false;
    if (ask.type == Type::none) return false;
    for (uint64_t byte = ask.begin; byte < ask.end; ++byte) {
      const Type has = bytes_[ask.file][other][byte];
      if (has == Type::write || (has == Type::read && ask.type == Type::write)) return true;
    }
    return false;
  }
  // Whether an owner waits for another, by how many others whatever.
  bool is_ring(const Ask& ask) const {
    if (is_flock(ask.owner)) return false;
    std::array<std::array<bool, kOwners>, kOwners> waits{};
    const auto note = [&](const Ask& one) {
      for (size_t other = 0; other < kOwners; ++other) {
        if (is_in_the_way(one, other)) waits[one.owner][other] = true;
      }
    };
    for (const Ask& one : waiting_) {
      if (one.owner != ask.owner && !is_flock(one.owner)) note(one);
    }
    note(ask);
    for (size_t by = 0; by < kOwners; ++by) {
      for (size_t from = 0; from < kOwners; ++from) {
        for (size_t to = 0; to < kOwners; ++to) {
          if (waits[from][by] && waits[by][to]) waits[from][to] = true;
        }
      }
    }
    return waits[ask.owner][ask.owner];
  }
  // Of one file, as only there somebody waits for another than before.
  void serve(size_t file, bool changed) {
    for (bool again = true; again;) {
      again = false;
      for (size_t i = 0; i < waiting_.size() && !again; ++i) {
        if (waiting_[i].file != file || !is_free(waiting_[i])) continue;
        put(waiting_[i]);
        finish(i, Answer::done);
        again = changed = true;
      }
    }
    for (bool again = changed; again;) {
      again = false;
      for (size_t i = 0; i < waiting_.size() && !again; ++i) {
        if (waiting_[i].file != file || !is_ring(waiting_[i])) continue;
        finish(i, Answer::deadlock);
        again = true;
      }
    }
  }
  void finish(size_t at, Answer answer) {
    ended_.emplace(waiting_[at].request, answer);
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(at));
  }

  Type bytes_[kFiles][kOwners][kBytes] = {};
  std::vector<Ask> waiting_;
  std::map<uint64_t, Answer> ended_;
};

AgentId agent_of(size_t owner) {
  return {NodeId{static_cast<uint32_t>(1 + owner % 2)}, 1};
}

Wanted wanted_of(const Ask& ask) {
  const bool is_flock = Model::is_flock(ask.owner);
  Wanted wanted;
  wanted.inode = InodeId(ask.file + 1);
  wanted.owner = {agent_of(ask.owner), is_flock ? Kind::whole : Kind::range, ask.owner};
  if (!is_flock) wanted.range = {ask.begin, ask.end == kBytes ? kEnd : ask.end};
  wanted.type = ask.type;
  return wanted;
}

Ask random_ask(engine::Random& random, uint64_t request) {
  Ask ask;
  ask.file = random.below(kFiles);
  ask.owner = random.below(kOwners);
  if (!Model::is_flock(ask.owner)) {
    ask.begin = random.below(kBytes);
    ask.end = ask.begin + 1 + random.below(kBytes - ask.begin);
  }
  ask.type = static_cast<Type>(random.below(3));
  if (random.chance(1, 2)) ask.request = request;
  return ask;
}

TEST(LockModel, is_as_one_that_knows_each_byte) {
  engine::SeededRandom random(7);
  Table table;
  Model model;
  std::map<Answer, uint64_t> seen;
  uint64_t request = 0;
  for (int step = 0; step < 200'000; ++step) {
    if (random.chance(1, 5) && !model.all_waiting().empty()) {
      const Ask ask = model.all_waiting()[random.below(model.all_waiting().size())];
      ASSERT_TRUE(model.cancel(ask.request));
      ASSERT_TRUE(table.cancel(agent_of(ask.owner), RequestId(ask.request)));
    } else if (random.chance(1, 500)) {
      model.end([](size_t owner) { return owner % 2 == 0; });
      table.end(agent_of(0));
    } else {
      const Ask ask = random_ask(random, ++request);
      ASSERT_EQ(table.get(wanted_of(ask)).has_value(), !model.is_free(ask)) << step;
      const Answer expected = model.set(ask);
      ASSERT_EQ(table.set(wanted_of(ask), RequestId(ask.request)), expected) << step;
      ++seen[expected];
    }
    std::map<uint64_t, Answer> ended;
    for (const Ended& one : table.take_ended()) ended.emplace(one.request.value, one.answer);
    for (const auto& [number, answer] : ended) ++seen[answer];
    ASSERT_EQ(ended, model.take_ended()) << step;
    ASSERT_EQ(table.waiting(), model.waiting());
  }
  EXPECT_GT(seen[Answer::done], 50'000U);
  EXPECT_GT(seen[Answer::waits], 10'000U);
  EXPECT_GT(seen[Answer::held], 10'000U);
  EXPECT_GT(seen[Answer::deadlock], 500U);
}

}  // namespace
}  // namespace penstock::locks
