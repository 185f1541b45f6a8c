// Who may say what to a replica.
#include "three_replicas.h"

namespace penstock::chain {
namespace {

using wire::ChainMethod;

constexpr NodeId kStranger{8};

class CallersTest : public ThreeReplicas {
 protected:
  CallersTest() { EXPECT_EQ(write(5, 0, "what is there"), Code::ok); }
  ~CallersTest() override { stranger_.kill(); }

  wire::ChainHeader header() const { return {version_, kFile, kFirstChain.value, 5}; }
  wire::ChainStateRequest whole_chain() const { return {{version_, 0, kFirstChain.value, 0}}; }
  UpdateName name() { return replica(3).image.chunks().at(at(5)).committed; }
  template <class Words>
  Status say(engine::Net& from, uint32_t to, ChainMethod what, const Words& words) {
    return end_of(begin_to_say(from, to, what, words));
  }

  sim::SimNet stranger_{network_, loop_, kStranger};
};

TEST_F(CallersTest, what_replicas_say_to_one_another_is_for_members) {
  const std::string part(sizeof(store::UpdatePart), '\0');
  UpdateName next = name();
  ++next.counter;
  wire::ChainForwardRequest forward{.header = header(), .name = next, .base = name()};
  forward.parts = 1;
  EXPECT_EQ(end_of(begin_to_say(stranger_, 2, ChainMethod::forward, forward, {part})),
            Code::access_denied);
  const wire::ChainNameRequest named{header(), name()};
  EXPECT_EQ(say(stranger_, 3, ChainMethod::committed, named), Code::access_denied);
  EXPECT_EQ(say(stranger_, 3, ChainMethod::durable,
                wire::ChainWordRequest{.header = header(), .name = name(), .from = 1}),
            Code::access_denied);
  EXPECT_EQ(say(stranger_, 2, ChainMethod::state, whole_chain()), Code::access_denied);
  wire::ChainReplaceRequest replace{.header = header(), .expected = {}, .committed = name()};
  replace.removed = 1;
  EXPECT_EQ(end_of(begin_to_say(stranger_, 3, ChainMethod::replace, replace, {""})),
            Code::access_denied);
  EXPECT_EQ(read(5, 0, 13), "what is there");
}

TEST_F(CallersTest, a_neighbour_says_what_it_is_for_and_no_other_member) {
  const wire::ChainNameRequest named{header(), name()};
  adopt({Standing::serving, Standing::serving, Standing::syncing});
  world_.run_for(std::chrono::seconds(1));
  wire::ChainNameRequest now = named;
  now.header = header();
  EXPECT_EQ(say(replica(1).net, 3, ChainMethod::committed, now), Code::access_denied);
  EXPECT_EQ(say(replica(2).net, 3, ChainMethod::committed, now), Code::ok);
  EXPECT_EQ(say(replica(1).net, 3, ChainMethod::state, whole_chain()), Code::ok);
}

TEST_F(CallersTest, nobody_says_that_another_has_an_update_durable) {
  const wire::ChainWordRequest word{.header = header(), .name = name(), .from = 1};
  EXPECT_EQ(say(replica(2).net, 3, ChainMethod::durable, word), Code::access_denied);
  EXPECT_EQ(say(replica(1).net, 3, ChainMethod::durable, word), Code::ok);
}

TEST_F(CallersTest, clients_change_chunks_in_their_own_name) {
  wire::ChainUpdateRequest update{.header = header(), .request = {1, 1000, kReader.value, 7}};
  update.kind = static_cast<uint8_t>(store::UpdateKind::remove);
  EXPECT_EQ(say(stranger_, 1, ChainMethod::update, update), Code::access_denied);
  EXPECT_EQ(read(5, 0, 13), "what is there");
  EXPECT_EQ(say(client_, 1, ChainMethod::update, update), Code::ok);
}

}  // namespace
}  // namespace penstock::chain
