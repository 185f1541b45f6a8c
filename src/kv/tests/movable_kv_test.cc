// Names that move while they are used, and processes that end in the middle of it.
#include <atomic>
#include <gtest/gtest.h>
#include <map>
#include <thread>

#include "penstock/kv.h"
#include "penstock/kv_move.h"
#include "penstock/testing.h"

namespace penstock::kv {
namespace {

using engine::KvMode;
using engine::KvTransaction;
using std::chrono::milliseconds;
using State = Place::State;
using Content = std::map<std::string, std::string>;

const std::string kStore(32, 'a');
const std::string kOld(32, '0');
const std::string kNew(32, '1');
constexpr const char* kLast = "S/version";

// Fails as a process that has ended would, or a database that does not answer: by a hook before
// each transaction, and one after those that commit.
class HookedKv final : public engine::Kv {
 public:
  explicit HookedKv(engine::Kv& to) : to_(to) {}

  void submit(engine::KvOp&) override { ADD_FAILURE() << "not used"; }
  using engine::Kv::run;
  Status run(engine::KvOp& op) override {
    if (before) TRY(before(op.mode));
    TRY(to_.run(op));
    return after && op.mode != KvMode::read ? after(op.mode) : Status();
  }
  Status sync() override {
    if (at_sync) at_sync();
    return to_.sync();
  }

  std::function<void()> at_sync;
  std::function<Status(KvMode)> before;
  std::function<Status(KvMode)> after;

 private:
  engine::Kv& to_;
};

Status put(engine::Kv& kv, const std::string& key, const std::string& value) {
  return kv.run(KvMode::write, [&](KvTransaction& transaction) -> Status {
    transaction.put(key, value);
    return {};
  });
}

Status erase(engine::Kv& kv, const std::string& key) {
  return kv.run(KvMode::write, [&](KvTransaction& transaction) -> Status {
    transaction.erase(key);
    return {};
  });
}

Content content_of(engine::Kv& kv) {
  Content content;
  EXPECT_TRUE(kv.run(KvMode::read, [&](KvTransaction& transaction) {
                  content.clear();
                  return transaction.scan({}, {},
                                          [&](std::string_view key, std::string_view value) {
                                            content.emplace(key, value);
                                            return true;
                                          });
                }).ok());
  content.erase(std::string(kPlaceKey));
  return content;
}

std::optional<State> state_of(engine::Kv& kv) {
  const auto place = place_of(kv);
  EXPECT_TRUE(place.has_value());
  return *place ? std::optional((*place)->state) : std::nullopt;
}

MovableKv::Move move_to(std::shared_ptr<engine::Kv> to) {
  MovableKv::Move move;
  move.to = std::move(to);
  move.here = {.state = State::here, .store = kStore, .copy = kNew, .to_copy = {}, .to = {}};
  move.moved = {
      .state = State::moved, .store = kStore, .copy = kOld, .to_copy = kNew, .to = "there"};
  move.last_key = kLast;
  move.patience = milliseconds(300);
  return move;
}

class MovableKvTest : public testing::Test {
 protected:
  MovableKvTest() { fill(4000); }

  void fill(int count) {
    for (int at = 0; at < count; at += 500) {
      ASSERT_TRUE(old_->run(KvMode::write,
                            [&](KvTransaction& transaction) -> Status {
                              for (int i = at; i < at + 500; ++i) {
                                transaction.put("k" + std::to_string(i), std::to_string(i));
                              }
                              transaction.put(kLast, "2");
                              return {};
                            })
                      .ok());
    }
    Place filling = move_to(nullptr).here;
    filling.state = State::filling;
    ASSERT_TRUE(set_place(*new_, filling).ok());
  }

  const std::shared_ptr<engine::Kv> old_ = make_memory_kv();
  const std::shared_ptr<engine::Kv> new_ = make_memory_kv();
};

TEST_F(MovableKvTest, moves_all_and_marks_both_when_nobody_changes_anything) {
  MovableKv kv(old_, 1);
  const Content before = content_of(kv);
  const auto moved = kv.move(move_to(new_));
  ASSERT_TRUE(moved.has_value()) << moved.error().message;
  EXPECT_EQ(moved->records, before.size());
  EXPECT_EQ(content_of(*new_), before);
  EXPECT_EQ(content_of(kv), before);
  EXPECT_EQ(kv.behind(), new_);
  EXPECT_EQ(state_of(*old_), State::moved);
  EXPECT_EQ(state_of(*new_), State::here);
  EXPECT_FALSE(content_of(*old_).contains(kLast)) << "what knows no marks must refuse it, too";
  ASSERT_TRUE(put(kv, "after", "1").ok());
  EXPECT_TRUE(content_of(*new_).contains("after"));
  EXPECT_FALSE(content_of(*old_).contains("after"));
}

TEST_F(MovableKvTest, loses_nothing_when_threads_change_it_meanwhile) {
  MovableKv kv(old_, 1);
  std::atomic<bool> stop{false};
  std::vector<Content> models(4);
  std::atomic<int> sum{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < models.size(); ++t) {
    threads.emplace_back([&, t] {
      engine::SeededRandom random(t + 1);
      for (int i = 0; !stop; ++i) {
        // Keys of its own over all of the range, and one that is everybody's.
        const std::string key = "k" + std::to_string(random.below(9000)) + "/" + std::to_string(t);
        const bool erases = random.chance(3, 10);
        const Status status = kv.run(KvMode::write, [&](KvTransaction& transaction) -> Status {
          TRY_ASSIGN(const auto count, transaction.get("sum"));
          transaction.put("sum", std::to_string(count ? std::stoi(*count) + 1 : 1));
          if (erases) {
            transaction.erase(key);
          } else {
            transaction.put(key, std::to_string(i));
          }
          return {};
        });
        EXPECT_TRUE(status.ok()) << status.name();
        ++sum;
        if (erases) {
          models[t].erase(key);
        } else {
          models[t][key] = std::to_string(i);
        }
      }
    });
  }
  EXPECT_TRUE(test::eventually([&] { return sum > 200; }));
  const auto moved = kv.move(move_to(new_));
  const int at_switch = sum;
  EXPECT_TRUE(test::eventually([&] { return sum > at_switch + 200; }));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(moved.has_value()) << moved.error().message;
  EXPECT_LT(moved->pause, std::chrono::seconds(5));
  Content wanted = {{"sum", std::to_string(sum)}, {kLast, "2"}};
  for (int i = 0; i < 4000; ++i) wanted["k" + std::to_string(i)] = std::to_string(i);
  for (const Content& model : models) wanted.insert(model.begin(), model.end());
  EXPECT_EQ(content_of(*new_), wanted);
}

// Changes of one thread, told to the mover's progress, so that they come at the same places.
class Story {
 public:
  Story(engine::Kv& kv, Content& acknowledged) : kv_(kv), acknowledged_(acknowledged) {}
  void go_on() {
    for (int i = 0; i < 3; ++i) {
      const std::string key = "k" + std::to_string((step_ * 1237) % 6000);
      const std::string value = "changed " + std::to_string(step_);
      if (step_ % 4 == 3) {
        if (erase(kv_, key).ok()) acknowledged_.erase(key);
      } else if (put(kv_, key, value).ok()) {
        acknowledged_[key] = value;
      }
      ++step_;
    }
  }

 private:
  engine::Kv& kv_;
  Content& acknowledged_;
  int step_ = 0;
};

TEST_F(MovableKvTest, has_one_truth_wherever_the_process_ends) {
  bool ended = false;
  int moved_cases = 0, stayed_cases = 0;
  for (int last = 0; !ended; ++last) {
    SCOPED_TRACE(last);
    ASSERT_LT(last, 1000);
    const std::shared_ptr<engine::Kv> from = make_memory_kv(), to = make_memory_kv();
    Content acknowledged;
    for (int i = 0; i < 4000; i += 7) acknowledged["k" + std::to_string(i)] = "old";
    acknowledged[kLast] = "2";
    ASSERT_TRUE(from->run(KvMode::write,
                          [&](KvTransaction& transaction) -> Status {
                            for (const auto& [key, value] : acknowledged)
                              transaction.put(key, value);
                            return {};
                          })
                    .ok());
    Place filling = move_to(nullptr).here;
    filling.state = State::filling;
    ASSERT_TRUE(set_place(*to, filling).ok());
    // After so many transactions none happens any more.
    int count = 0;
    const auto limit = [&](KvMode) { return count++ < last ? Status() : Status(Code::closed); };
    const auto dying_from = std::make_shared<HookedKv>(*from);
    const auto dying_to = std::make_shared<HookedKv>(*to);
    dying_from->before = dying_to->before = limit;
    {
      MovableKv kv(dying_from, 1);
      Story story(kv, acknowledged);
      MovableKv::Move move = move_to(dying_to);
      move.progress = [&](const MoveProgress&) {
        story.go_on();
        return true;
      };
      ended = kv.move(move).has_value();
      story.go_on();
      ended = ended && count <= last;
    }
    if (state_of(*from) == State::moved) {
      ++moved_cases;
      EXPECT_EQ(content_of(*to), acknowledged);
      EXPECT_FALSE(content_of(*from).contains(kLast));
    } else {
      ++stayed_cases;
      EXPECT_EQ(content_of(*from), acknowledged);
      EXPECT_EQ(state_of(*to), State::filling);
    }
  }
  EXPECT_GT(moved_cases, 3);
  EXPECT_GT(stayed_cases, 5);
}

TEST_F(MovableKvTest, stays_as_it_was_when_it_is_given_up) {
  MovableKv kv(old_, 1);
  const Content before = content_of(kv);
  MovableKv::Move move = move_to(new_);
  int told = 0;
  move.progress = [&](const MoveProgress&) { return ++told < 3; };
  const auto moved = kv.move(move);
  ASSERT_FALSE(moved.has_value());
  EXPECT_EQ(moved.error().status, Code::cancelled);
  EXPECT_EQ(kv.behind(), old_);
  EXPECT_EQ(state_of(*old_), std::nullopt);
  EXPECT_EQ(state_of(*new_), State::filling);
  EXPECT_TRUE(put(kv, "k1", "x").ok());
  // And can be tried again.
  EXPECT_TRUE(kv.move(move_to(make_memory_kv())).has_value());
}

TEST_F(MovableKvTest, asks_again_when_the_switch_may_have_happened) {
  const auto doubtful = std::make_shared<HookedKv>(*old_);
  int doubts = 0;
  doubtful->after = [&](KvMode mode) {
    if (mode != KvMode::write_durable || ++doubts > 1) return Status();
    return Status(Code::may_have_happened);
  };
  MovableKv kv(doubtful, 1);
  EXPECT_TRUE(kv.move(move_to(new_)).has_value());
  EXPECT_EQ(doubts, 2);
  EXPECT_EQ(kv.behind(), new_);
}

TEST_F(MovableKvTest, ends_everything_when_nobody_knows_whether_the_switch_happened) {
  const auto doubtful = std::make_shared<HookedKv>(*old_);
  doubtful->after = [](KvMode mode) {
    return mode == KvMode::write_durable ? Status(Code::may_have_happened) : Status();
  };
  MovableKv kv(doubtful, 1);
  const auto moved = kv.move(move_to(new_));
  ASSERT_FALSE(moved.has_value());
  EXPECT_EQ(moved.error().status, Code::may_have_happened);
  EXPECT_EQ(put(kv, "k1", "x"), Code::io_error);
  EXPECT_EQ(kv.run(KvMode::read, [](KvTransaction&) { return Status(); }), Code::io_error);
  EXPECT_EQ(kv.sync(), Code::io_error);
  EXPECT_FALSE(kv.move(move_to(new_)).has_value());
}

TEST_F(MovableKvTest, reads_nothing_before_those_have_ended_that_began_before) {
  const auto hooked = std::make_shared<HookedKv>(*old_);
  MovableKv kv(hooked, 1);
  std::atomic<bool> is_in{false}, may_go{false};
  hooked->before = [&](KvMode mode) -> Status {
    if (mode != KvMode::write) return {};
    is_in = true;
    while (!may_go) std::this_thread::sleep_for(milliseconds(1));
    return {};
  };
  std::thread slow([&] { EXPECT_TRUE(put(kv, "a/slow", "1").ok()); });
  EXPECT_TRUE(test::eventually([&] { return is_in.load(); }));
  std::atomic<int> told{0};
  std::thread mover([&] {
    MovableKv::Move move = move_to(new_);
    move.progress = [&](const MoveProgress&) { return ++told > 0; };
    EXPECT_TRUE(kv.move(move).has_value());
  });
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(told, 0);
  may_go = true;
  slow.join();
  mover.join();
  EXPECT_TRUE(content_of(*new_).contains("a/slow"));
}

TEST_F(MovableKvTest, lets_all_go_on_where_they_were_when_one_holds_up_the_pause) {
  const auto hooked = std::make_shared<HookedKv>(*old_);
  MovableKv kv(hooked, 1);
  std::atomic<bool> is_slow{true}, is_in{false}, may_go{false};
  hooked->before = [&](KvMode mode) -> Status {
    if (mode != KvMode::write || !is_slow.exchange(false)) return {};
    is_in = true;
    while (!may_go) std::this_thread::sleep_for(milliseconds(1));
    return {};
  };
  std::vector<std::thread> threads;
  MovableKv::Move move = move_to(new_);
  move.progress = [&](const MoveProgress&) {
    if (!threads.empty()) return true;
    threads.emplace_back([&] { EXPECT_TRUE(put(kv, "slow", "1").ok()); });
    EXPECT_TRUE(test::eventually([&] { return is_in.load(); }));
    // Held back by the pause that the first one holds up, and not by that one.
    threads.emplace_back([&] {
      std::this_thread::sleep_for(milliseconds(500));
      EXPECT_TRUE(put(kv, "quick", "1").ok());
      may_go = true;
    });
    return true;
  };
  const auto moved = kv.move(move);
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(moved.has_value()) << moved.error().message;
  EXPECT_GE(moved->pauses, 2u);
  EXPECT_LT(moved->pause, std::chrono::seconds(5));
  EXPECT_TRUE(content_of(*new_).contains("slow") && content_of(*new_).contains("quick"));
}

TEST_F(MovableKvTest, holds_nobody_up_for_long_when_the_new_place_does_not_answer) {
  MovableKv kv(old_, 1);
  std::atomic<int> count{0};
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop) {
      EXPECT_TRUE(put(kv, "count", std::to_string(++count)).ok());
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  const auto hooked = std::make_shared<HookedKv>(*new_);
  int syncs = 0;
  // In the pause: until others have gone on, which they could not if they waited for this.
  hooked->at_sync = [&] {
    if (++syncs > 1) return;
    const int before = count;
    EXPECT_TRUE(test::eventually([&] { return count > before + 5; }));
  };
  const auto moved = kv.move(move_to(hooked));
  stop = true;
  writer.join();
  ASSERT_TRUE(moved.has_value()) << moved.error().message;
  EXPECT_GE(moved->pauses, 2u);
  EXPECT_EQ(content_of(*new_).at("count"), std::to_string(count));
}

TEST_F(MovableKvTest, makes_a_copy_again_that_may_have_happened) {
  const auto doubtful = std::make_shared<HookedKv>(*new_);
  int commits = 0;
  doubtful->after = [&](KvMode) {
    return ++commits % 2 == 1 ? Status(Code::may_have_happened) : Status();
  };
  MovableKv kv(old_, 1);
  const Content before = content_of(kv);
  ASSERT_TRUE(kv.move(move_to(doubtful)).has_value());
  EXPECT_EQ(content_of(*new_), before);
}

TEST_F(MovableKvTest, copies_what_may_have_happened) {
  const auto doubtful = std::make_shared<HookedKv>(*old_);
  MovableKv kv(doubtful, 1);
  MovableKv::Move move = move_to(new_);
  bool done = false;
  move.progress = [&](const MoveProgress&) {
    if (done) return true;
    done = true;
    doubtful->after = [](KvMode) { return Status(Code::may_have_happened); };
    EXPECT_EQ(put(kv, "k0", "doubted"), Code::may_have_happened);
    doubtful->after = nullptr;
    return true;
  };
  ASSERT_TRUE(kv.move(move).has_value());
  EXPECT_EQ(content_of(*new_).at("k0"), "doubted");
}

TEST_F(MovableKvTest, goes_to_rocksdb_and_stays_there) {
  const test::ScratchDirectory scratch;
  const RocksDbOptions options = {.path = scratch / "db", .create = true};
  const Content before = content_of(*old_);
  {
    std::shared_ptr<engine::Kv> to = std::move(*open_rocksdb(options));
    MovableKv kv(old_, 1);
    ASSERT_TRUE(kv.move(move_to(std::move(to))).has_value());
    EXPECT_TRUE(put(kv, "after", "1").ok());
  }
  const auto again = open_rocksdb(options);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(state_of(**again), State::here);
  Content wanted = before;
  wanted["after"] = "1";
  EXPECT_EQ(content_of(**again), wanted);
}

TEST(PlaceTest, is_read_as_it_was_written_and_nothing_else) {
  const MovableKv::Move move = move_to(nullptr);
  for (const Place& place : {move.here, move.moved}) {
    const std::string text = encode(place);
    EXPECT_EQ(decode_place(text), place);
    for (size_t i = 0; i < text.size(); ++i) {
      EXPECT_EQ(decode_place(text.substr(0, i)), std::nullopt) << i;
    }
    EXPECT_EQ(decode_place(text + "x"), std::nullopt);
  }
  for (const char* text : {"", "penstock-place 2\n", "penstock-place 1\nstore x\n"}) {
    EXPECT_EQ(decode_place(text), std::nullopt);
  }
}

}  // namespace
}  // namespace penstock::kv
