// What the service lets in, and that nothing happens twice.
#include "played_calls.h"

namespace penstock::meta_net {
namespace {

TEST_F(ServiceTest, refuses_who_is_no_agent) {
  for (const uint8_t roles : {0, engine::kRoleStorage | engine::kRoleController,
                              engine::kEveryRole & ~engine::kRoleAgent}) {
    PlayedCall& call = prepared(changing(1), create("f"));
    call.from.roles = roles;
    send(call);
    await(call);
    EXPECT_EQ(call.status, Code::access_denied);
  }
  EXPECT_EQ(service_->figures().refused, 3u);
  EXPECT_EQ(meta_->lookup({}, meta::kRootInode, "f").error(), Code::not_found);
  PlayedCall& call = prepared(changing(1), create("f"));
  call.from.roles = engine::kRoleAgent;
  send(call);
  await(call);
  EXPECT_TRUE(answer_of<ask::Create>(call).has_value());
}

TEST_F(ServiceTest, does_a_repeated_call_once_and_answers_it_each_time) {
  const PlayedCall& first = play(changing(1), create("f"));
  const PlayedCall& again = play(changing(1), create("f"));
  ASSERT_TRUE(answer_of<ask::Create>(first).has_value());
  EXPECT_EQ(again.answer, first.answer);
  EXPECT_EQ(answer_of<ask::Create>(play(changing(2), create("f"))).error(), Code::already_exists);
  EXPECT_EQ(play(changing(1), create("g")).status, Code::stale) << "of an earlier time";
  EXPECT_EQ(meta_->lookup({}, meta::kRootInode, "g").error(), Code::not_found);
  RequestHeader other = changing(1);
  other.caller = 78;
  EXPECT_EQ(answer_of<ask::Create>(play(other, create("f"))).error(), Code::already_exists);
  EXPECT_EQ(service_->figures().repeated, 1u);
}

TEST_F(ServiceTest, refuses_what_is_meant_for_another_life_of_it) {
  const PlayedCall& first = play(looking(), ask::Sync{});
  ASSERT_NE(first.header.service, 0u);
  RequestHeader header = changing(1);
  header.service = first.header.service + 2;
  const PlayedCall& refused = play(header, create("f"));
  EXPECT_EQ(refused.status, Code::stale);
  EXPECT_EQ(refused.header.service, first.header.service);
  header.service = first.header.service;
  EXPECT_TRUE(answer_of<ask::Create>(play(header, create("f"))).has_value());
  end();
  begin({});
  EXPECT_EQ(play(header, create("f")).status, Code::stale) << "it does not know whether it was";
}

// For agents that had something in an earlier life, and have yet to say what.
TEST_F(ServiceTest, answers_looks_and_what_is_done_under_holds_before_all_have_claimed) {
  const auto made = answer_of<ask::Create>(play(changing(1), create("f")));
  ASSERT_TRUE(made.has_value());
  const InodeId file = made->attributes.inode;
  end();
  MetaServiceConfig config;
  bool is_early = true;
  bool has_session = true;
  config.is_early = [&is_early] { return is_early; };
  config.has_session = [&has_session](NodeId, uint64_t) { return has_session; };
  begin(config);
  const uint64_t life = play(looking(), ask::Sync{}).header.service;
  const auto change = [&](uint64_t sequence) {
    RequestHeader header = changing(sequence);
    header.service = life;
    return header;
  };
  EXPECT_TRUE(answer_of<ask::GetAttributes>(play(looking(), ask::GetAttributes{file})));
  EXPECT_TRUE(answer_of<ask::Look>(play(looking(), ask::Look{{{file, {}}}})));
  EXPECT_TRUE(answer_of<ask::BeginWrite>(play(change(2), ask::BeginWrite{file})));
  EXPECT_TRUE(answer_of<ask::EndWrite>(play(change(3), ask::EndWrite{file})));
  EXPECT_EQ(play(change(4), create("g")).status, Code::busy);
  EXPECT_EQ(play(looking(), ask::Resolve{{}, "/f", true}).status, Code::busy);
  EXPECT_EQ(play(looking(), ask::Orphans{}).status, Code::busy);
  EXPECT_EQ(meta_->lookup({}, meta::kRootInode, "g").error(), Code::not_found);
  has_session = false;
  EXPECT_EQ(answer_of<ask::BeginWrite>(play(change(5), ask::BeginWrite{file})).error(),
            Code::stale);
  is_early = false;
  // It was not begun: it may come again under its number.
  EXPECT_TRUE(answer_of<ask::Create>(play(change(6), create("g"))).has_value());
  EXPECT_TRUE(answer_of<ask::Resolve>(play(looking(), ask::Resolve{{}, "/f", true})));
  end();
}

TEST_F(ServiceTest, refuses_what_cannot_be_a_call) {
  const auto ends_with = [&](const std::function<void(PlayedCall&)>& change) {
    PlayedCall& call = prepared(changing(1), create("f"));
    change(call);
    send(call);
    await(call);
    return call.status.code();
  };
  const auto resized = [](PlayedCall& call, size_t size) {
    call.message.resize(size);
    call.request = bytes_of(call.message);
  };
  EXPECT_EQ(ends_with([](PlayedCall& call) { call.method = 64; }), Code::bad_message);
  EXPECT_EQ(ends_with([&](PlayedCall& call) { resized(call, 0); }), Code::bad_message);
  EXPECT_EQ(ends_with([&](PlayedCall& call) { resized(call, sizeof(RequestHeader) - 1); }),
            Code::bad_message);
  EXPECT_EQ(ends_with([&](PlayedCall& call) { resized(call, sizeof(RequestHeader)); }),
            Code::bad_message)
      << "nothing is exposed";
  EXPECT_EQ(ends_with([&](PlayedCall& call) { resized(call, call.message.size() + 1); }),
            Code::bad_message);
  EXPECT_EQ(ends_with([](PlayedCall& call) { call.message.back() ^= 1; }), Code::bad_message);
  EXPECT_EQ(ends_with([](PlayedCall& call) { call.message[0] = 60; }), Code::wrong_version);
  for (size_t at = 2; at < sizeof(RequestHeader); ++at) {
    EXPECT_NE(ends_with([at](PlayedCall& call) { call.message[at] ^= 64; }), Code::ok) << at;
  }
  EXPECT_EQ(play(changing(1, limits::kSlotsMax), create("f")).status, Code::bad_message);
  EXPECT_EQ(play(looking(), create("f")).status, Code::bad_message) << "it changes something";
  EXPECT_EQ(play(changing(1), ask::Sync{}).status, Code::bad_message) << "and this does not";
  EXPECT_EQ(meta_->lookup({}, meta::kRootInode, "f").error(), Code::not_found);
  EXPECT_EQ(service_->figures().open, 0u);
}

TEST_F(ServiceTest, counts_calls_by_kind_and_those_that_failed) {
  const auto counted = [](const std::string& name) {
    for (const metrics::Sample& sample : metrics::snapshot()) {
      if (sample.name == name) return sample.value;
    }
    return uint64_t{0};
  };
  EXPECT_TRUE(answer_of<ask::Create>(play(changing(1), create("f"))).has_value());
  EXPECT_TRUE(answer_of<ask::Create>(play(changing(2), create("g"))).has_value());
  EXPECT_EQ(answer_of<ask::Create>(play(changing(3), create("f"))).error(), Code::already_exists);
  EXPECT_EQ(play(changing(1), ask::Sync{}).status, Code::bad_message);
  EXPECT_EQ(counted("meta.calls.create"), 3u);
  EXPECT_EQ(counted("meta.failed.create"), 1u);
  EXPECT_EQ(counted("meta.calls.lookup"), 0u);
  EXPECT_EQ(counted("meta.calls.sync"), 0u) << "it was not let in";
  EXPECT_EQ(counted("meta.refused"), 1u);
}

TEST_F(ServiceTest, fetches_long_calls_and_places_long_answers) {
  const std::string value(50'000, 'v');
  const InodeId file = meta_->create({}, meta::kRootInode, "f", 0644, true)->inode;
  const ask::SetXattr set{{}, file, "user.long", value, meta::XattrMode::any};
  EXPECT_TRUE(answer_of<ask::SetXattr>(play(changing(1), set)).has_value());
  const ask::GetXattr get{{}, file, "user.long"};
  const PlayedCall& small = play(looking(), get, 100);
  EXPECT_EQ(small.status, Code::result_too_large);
  EXPECT_GT(small.header.length, value.size());
  const PlayedCall& large = play(looking(), get, small.header.length);
  EXPECT_EQ(answer_of<ask::GetXattr>(large)->bytes, value);
}

TEST_F(ServiceTest, keeps_a_long_answer_until_there_is_room_for_it) {
  ask::PlaceFiles asked;
  for (int i = 0; i < 100; ++i) asked.wanted.push_back({"/f" + std::to_string(i), false});
  const PlayedCall& first = play(changing(1), asked);
  ASSERT_EQ(first.status, Code::result_too_large);
  const uint64_t newest = meta_->newest_cookie();
  const PlayedCall& again = play(changing(1), asked, first.header.length);
  EXPECT_EQ(answer_of<ask::PlaceFiles>(again)->each.size(), 100u);
  EXPECT_EQ(meta_->newest_cookie(), newest) << "it was done once";
}

TEST_F(ServiceTest, cuts_listings_into_pages_that_fit) {
  const std::string name(250, 'n');
  constexpr int kFiles = 1500;
  for (int i = 0; i < kFiles; ++i) {
    ASSERT_TRUE(meta_->create({}, meta::kRootInode, name + std::to_string(i), 0644, true));
  }
  std::set<std::string> seen;
  ask::ReadDirectory asked{meta::kRootInode, 0, UINT64_MAX, true};
  int pages = 0;
  for (bool last = false; !last; ++pages) {
    const PlayedCall& call = play(looking(), asked, limits::kPageBytesMax + kKiB);
    const auto page = answer_of<ask::ReadDirectory>(call);
    ASSERT_TRUE(page.has_value());
    for (const Listed& listed : page->entries) {
      EXPECT_TRUE(seen.insert(listed.entry.name).second);
      EXPECT_EQ(listed.attributes->inode, listed.entry.inode);
    }
    last = page->last;
    if (!last) asked.after = page->entries.back().entry.cookie;
  }
  EXPECT_EQ(seen.size(), size_t{kFiles});
  EXPECT_GT(pages, 1);
}

TEST_F(ServiceTest, survives_what_would_meet_an_assertion_of_meta) {
  ask::CreateFiles asked;
  asked.files.push_back({{{}, meta::kRootInode, "f", {}, false}, 0644, 0, {}, false});
  EXPECT_EQ(answer_of<ask::CreateFiles>(play(changing(1), asked)).error(), Code::invalid_argument);
  EXPECT_EQ(
      answer_of<ask::CreateUnnamed>(play(changing(2), ask::CreateUnnamed{{}, InodeId(1)})).error(),
      Code::invalid_argument);
}

}  // namespace
}  // namespace penstock::meta_net
