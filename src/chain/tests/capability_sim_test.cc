// Stories of nodes that show capabilities of their own, of others, forged ones, and old ones, to a
// target that hears of fences and restrictions: what it allows must have been given, to that node,
// in that session, and under what the node is limited to by then. The same stories find it when a
// part of that is left out.
#include "../shown.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <vector>

namespace penstock::chain {
namespace {

enum class LeftOut { nothing, signature, node, end };

// In place of Ed25519: signs with a secret that only it has.
struct Secret final : CapabilityJudge {
  bool believes_all = false;
  static uint64_t mix(const wire::Capability& one) {
    uint64_t sum = 0x5ec3e7;
    for (const std::byte byte : one.signed_bytes()) {
      sum = (sum ^ static_cast<uint64_t>(byte)) * 0x100000001b3;
    }
    return sum;
  }
  static void sign(wire::Capability& one) {
    const uint64_t sum = mix(one);
    std::memcpy(one.signature.data(), &sum, sizeof sum);
  }
  bool are_asked_for() const override { return true; }
  Verdict judge(const wire::Capability& one) override {
    uint64_t sum = 0;
    std::memcpy(&sum, one.signature.data(), sizeof sum);
    return believes_all || sum == mix(one) ? Verdict::good : Verdict::forged;
  }
};

class CapabilityStory {
 public:
  CapabilityStory(uint64_t seed, LeftOut without) : random_(seed), without_(without) {
    judge_.believes_all = without == LeftOut::signature;
    for (size_t i = 0; i < kNodes; ++i) sessions_.push_back(1);
    since_.resize(kNodes, 0);
  }
  // Whether the target ever allowed what it must not.
  bool runs_well() {
    for (int i = 0; i < 600; ++i) {
      now_ += std::chrono::milliseconds(50);
      switch (random_.below(8)) {
        case 0:
          end_session(random_.below(kNodes));
          break;
        case 1:
          restrict(random_.below(kNodes));
          break;
        case 2:
        case 3:
          given_.push_back(give());
          break;
        case 4:
          if (!show()) return false;
          break;
        default:
          if (!use()) return false;
      }
    }
    return true;
  }

 private:
  static constexpr size_t kNodes = 3;
  static constexpr uint64_t kFiles = 4;

  struct Given {
    size_t node;
    wire::Capability capability;
  };

  static NodeId id(size_t node) { return NodeId(static_cast<uint32_t>(node + 1)); }

  void end_session(size_t node) {
    ++sessions_[node];
    const wire::AgentSession lowest{id(node), sessions_[node]};
    if (without_ == LeftOut::end) return;
    fence_.raise(lowest);
    shown_.fence(lowest);
  }
  void restrict(size_t node) {
    since_[node] = ++map_;
    shown_.restrict({id(node), since_[node]});
  }
  Given give() {
    const size_t node = random_.below(kNodes);
    Given given{node, {}};
    wire::Capability& one = given.capability;
    one.key = 1;
    one.rights = static_cast<uint8_t>(1 + random_.below(3));
    one.chain_last = UINT32_MAX;
    const bool is_all = random_.chance(1, 4);
    one.inode_first = is_all ? 1 : 1 + random_.below(kFiles);
    one.inode_last = is_all ? UINT64_MAX : one.inode_first;
    one.session = wire::AgentSession{id(node), sessions_[node]}.word();
    one.judged = map_;
    Secret::sign(one);
    return given;
  }
  // Anybody shows anything that it can get hold of, and changes some of it.
  bool show() {
    if (given_.empty()) return true;
    const size_t node = random_.below(kNodes);
    wire::Capability one = given_[random_.below(given_.size())].capability;
    switch (random_.below(5)) {
      case 0:
        one.rights = wire::kCapabilityRights;
        break;
      case 1:
        one.inode_first = 1;
        one.inode_last = UINT64_MAX;
        break;
      case 2:
        one.session = wire::AgentSession{id(node), sessions_[node]}.word();
        break;
      case 3:
        one.judged = map_;
        break;
      default:
        break;
    }
    // What is left out where nobody compares the node: the session is whoever's that shows it.
    const NodeId peer =
        without_ == LeftOut::node ? wire::AgentSession::of_word(one.session).node : id(node);
    (void)shown_.show(peer, one, fence_, judge_, now_);
    return true;
  }
  bool use() {
    const size_t node = random_.below(kNodes);
    const size_t as = random_.chance(1, 3) ? random_.below(kNodes) : node;
    const uint64_t number = sessions_[as] - (random_.chance(1, 4) ? 1 : 0);
    if (number == 0) return true;
    const uint64_t session = wire::AgentSession{id(as), number}.word();
    const InodeId inode(1 + random_.below(kFiles));
    const auto rights = static_cast<uint8_t>(1 + random_.below(2));
    const NodeId peer = without_ == LeftOut::node ? id(as) : id(node);
    const Shown::Use asked{peer, session, inode, ChainId(1024), rights};
    if (!shown_.may(asked, fence_).ok()) return true;
    return as == node && number >= sessions_[node] && was_given(node, session, inode, rights);
  }
  bool was_given(size_t node, uint64_t session, InodeId inode, uint8_t rights) const {
    const auto allows = [&](const wire::Capability& one) {
      const bool has = rights == wire::kMayRead ? one.rights != 0 : (one.rights & rights) != 0;
      return has && one.session == session && one.judged >= since_[node] &&
             one.has(inode, ChainId(1024));
    };
    for (const Given& given : given_) {
      if (given.node == node && allows(given.capability)) return true;
    }
    return false;
  }

  engine::SeededRandom random_;
  const LeftOut without_;
  Secret judge_;
  Shown shown_;
  Fence fence_;
  engine::Time now_{};
  uint64_t map_ = 1;
  std::vector<uint64_t> sessions_;
  std::vector<uint64_t> since_;
  std::vector<Given> given_;
};

uint64_t capability_number(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(CapabilitySim, nobody_does_what_it_was_not_given) {
  const uint64_t first = capability_number("PENSTOCK_SEED", 1);
  const uint64_t count = capability_number("PENSTOCK_SEEDS", 1000);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    ASSERT_TRUE(CapabilityStory(seed, LeftOut::nothing).runs_well()) << "PENSTOCK_SEED=" << seed;
  }
}

bool capability_is_found(LeftOut without) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    if (!CapabilityStory(seed, without).runs_well()) return true;
  }
  return false;
}

TEST(CapabilitySim, signatures_that_nobody_verifies_are_found) {
  EXPECT_TRUE(capability_is_found(LeftOut::signature));
}
TEST(CapabilitySim, nodes_that_nobody_compares_are_found) {
  EXPECT_TRUE(capability_is_found(LeftOut::node));
}
TEST(CapabilitySim, ends_of_sessions_that_nobody_hears_of_are_found) {
  EXPECT_TRUE(capability_is_found(LeftOut::end));
}

}  // namespace
}  // namespace penstock::chain
