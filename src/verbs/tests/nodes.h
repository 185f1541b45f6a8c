// Two nodes on a simulated fabric, in one loop, whose clock is the test's.
#pragma once

#include <memory>

#include "penstock/testing_verbs.h"

namespace penstock::verbs {

class ManualClock final : public engine::Clock {
 public:
  engine::Time now() const override { return now_; }
  engine::WallTime wall() const override { return {}; }
  void advance(engine::Duration by) { now_ += by; }

 private:
  engine::Time now_{std::chrono::seconds(1)};
};

// Set-up as a function call: whoever is asked is `other`, and says that `self` asked.
class DirectIntroducer final : public Introducer {
 public:
  void introduce(Introduction& introduction) override {
    ++asked;
    if (instead != nullptr) return instead->introduce(introduction);
    Status status = Code::peer_gone;
    if (other != nullptr) {
      const auto answer = other->accept({self}, introduction.to.service, introduction.ours);
      if (answer) {
        introduction.theirs = *answer;
        status = Code::ok;
      } else {
        status = answer.error();
      }
    }
    loop->complete(introduction, status);
  }

  engine::Loop* loop = nullptr;
  VerbsNet* other = nullptr;
  Introducer* instead = nullptr;  // who answers in its place
  NodeId self;
  uint32_t asked = 0;
};

inline constexpr NodeId kNear{1};
inline constexpr NodeId kFar{2};
inline constexpr engine::Address kService{kFar, 1};

struct Nodes {
  explicit Nodes(uint64_t seed = 1, NetConfig config = {}) : fabric(seed), random(seed) {
    to_far.loop = to_near.loop = &loop;
    to_far.self = kNear;
    to_near.self = kFar;
    near = make(config, kNear, to_far, near_device);
    far = make(config, kFar, to_near, far_device);
    to_far.other = far.get();
    to_near.other = near.get();
  }
  ~Nodes() { close(); }

  void close() {
    if (near != nullptr) near->close();
    if (far != nullptr) far->close();
    turns(10);
    near.reset();
    far.reset();
  }
  // A turn takes 10 µs.
  void turn() {
    clock.advance(std::chrono::microseconds(10));
    loop.poll();
  }
  void turns(int count) {
    for (int i = 0; i < count; ++i) turn();
  }

  test::SimFabric fabric;
  ManualClock clock;
  engine::SeededRandom random;
  engine::FutexParker parker{clock};
  engine::Loop loop{clock, random, parker};
  test::SimDevice near_device{fabric};
  test::SimDevice far_device{fabric};
  DirectIntroducer to_far;
  DirectIntroducer to_near;
  std::unique_ptr<VerbsNet> near;
  std::unique_ptr<VerbsNet> far;

 private:
  std::unique_ptr<VerbsNet> make(NetConfig config, NodeId self, Introducer& introducer,
                                 Provider& device) {
    config.self = self;
    config.introducer = &introducer;
    return std::move(*VerbsNet::create(config, device, loop, nullptr));
  }
};

}  // namespace penstock::verbs
