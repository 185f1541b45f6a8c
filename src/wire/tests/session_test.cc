#include "round_trip.h"

#include <gtest/gtest.h>

#include "penstock/wire.h"

namespace penstock::wire {
namespace {

TEST(SessionRequest, keeps_every_field) {
  const auto open =
      round_trip(OpenPath{3, std::string("/a\xff\x01", 4), kOpenRead | kOpenWrite, 0644});
  ASSERT_TRUE(open);
  EXPECT_EQ(open->id, 7u);
  const auto& m = std::get<OpenPath>(open->body);
  EXPECT_EQ(m.file, 3u);
  EXPECT_EQ(m.path, std::string("/a\xff\x01", 4));
  EXPECT_EQ(m.flags, kOpenRead | kOpenWrite);
  EXPECT_EQ(m.mode, 0644u);

  const auto change = round_trip(ChangeAttributes{"/x", false, 0600u, std::nullopt, 5u, Time{-7, 3},
                                                  std::nullopt, false, true});
  ASSERT_TRUE(change);
  const auto& c = std::get<ChangeAttributes>(change->body);
  EXPECT_EQ(c.mode, 0600u);
  EXPECT_FALSE(c.uid);
  EXPECT_EQ(c.gid, 5u);
  EXPECT_EQ(c.accessed, (Time{-7, 3}));
  EXPECT_FALSE(c.modified);
  EXPECT_TRUE(c.modified_now);
  EXPECT_FALSE(c.accessed_now);
  EXPECT_FALSE(c.follow);

  const auto cancel = round_trip(CancelOperation{1, 2, 3, 4});
  ASSERT_TRUE(cancel);
  EXPECT_EQ(std::get<CancelOperation>(cancel->body).sequence, 4u);
}

TEST(SessionRequest, keeps_the_kind_of_every_message) {
  // Every alternative but the empty one, by its default.
  const auto check = []<size_t... I>(std::index_sequence<I...>) {
    const auto one = []<size_t J>(std::integral_constant<size_t, J>) {
      RequestBody body(std::in_place_index<J + 1>);
      if (auto* m = std::get_if<RegisterRegion>(&body)) m->size = 1;
      if (auto* m = std::get_if<RegisterDevice>(&body)) m->size = 1;
      if (auto* m = std::get_if<AttachRegion>(&body)) m->name = "x";
      if (auto* m = std::get_if<CreateRing>(&body)) m->size = 1;
      if (auto* m = std::get_if<PublishDevice>(&body)) m->handle = {"x", 1, {}, false};
      if (auto* m = std::get_if<ReadFiles>(&body)) m->files.resize(1);
      if (auto* m = std::get_if<CreateFiles>(&body)) m->files.resize(1);
      if (auto* m = std::get_if<LookAtFiles>(&body)) m->paths.resize(1);
      const auto back = round_trip(body);
      ASSERT_TRUE(back) << "alternative " << J + 1;
      EXPECT_EQ(back->body.index(), J + 1);
    };
    (one(std::integral_constant<size_t, I>{}), ...);
  };
  check(std::make_index_sequence<std::variant_size_v<RequestBody> - 1>{});
}

TEST(SessionRequest, is_refused_outside_the_limits) {
  EXPECT_FALSE(round_trip(Hello{}, 0)) << "an id is needed";
  EXPECT_FALSE(round_trip(std::monostate{}));
  EXPECT_FALSE(round_trip(RegisterRegion{kRegionsMax, 0, 4096}));
  EXPECT_FALSE(round_trip(RegisterRegion{0, 0, 0}));
  EXPECT_FALSE(round_trip(RegisterRegion{0, 0, kRegionBytesMax + 1}));
  EXPECT_FALSE(round_trip(RegisterRegion{0, UINT64_MAX, 4096}));
  EXPECT_TRUE(round_trip(RegisterRegion{kRegionsMax - 1, 0, 4096}));
  EXPECT_FALSE(round_trip(RegisterDevice{kRegionsMax, 0, 4096}));
  EXPECT_FALSE(round_trip(RegisterDevice{0, 0, 0}));
  EXPECT_FALSE(round_trip(RegisterDevice{0, UINT64_MAX, 4096}));
  EXPECT_TRUE(round_trip(RegisterDevice{kRegionsMax - 1, 512, kRegionBytesMax}));
  EXPECT_TRUE(round_trip(RegisterRegion{0, 0, 4096, "name", "/dev/shm/memory"}));
  EXPECT_FALSE(round_trip(RegisterRegion{0, 0, 4096, "name", ""}));
  EXPECT_FALSE(round_trip(RegisterRegion{0, 0, 4096, "", "/dev/shm/memory"}));
  EXPECT_FALSE(round_trip(RegisterRegion{0, 0, 4096, std::string(256, 'x'), "/dev/shm/memory"}));
  EXPECT_FALSE(round_trip(AttachRegion{0, ""}));
  EXPECT_FALSE(round_trip(AttachRegion{0, std::string(256, 'x')}));
  EXPECT_FALSE(round_trip(CreateRing{kRingsMax, 4096}));
  EXPECT_FALSE(round_trip(OpenPath{kFilesMax, "/", kOpenRead, 0}));
  EXPECT_FALSE(round_trip(OpenPath{0, "/", 1u << 7, 0}));
  EXPECT_FALSE(round_trip(OpenPath{0, "/", kOpenRead, 010000}));
  EXPECT_FALSE(round_trip(Reopen{0, std::string(257, 'x')}));
  EXPECT_FALSE(round_trip(MakeDirectory{"/", 010000}));
  EXPECT_FALSE(round_trip(PublishDevice{{}, {"", 1, {}, false}}));
  EXPECT_FALSE(round_trip(PublishDevice{{}, {std::string(129, 'x'), 1, {}, false}}));
  EXPECT_FALSE(round_trip(PublishDevice{{}, {"x", 0, {}, false}}));
  EXPECT_FALSE(round_trip(PublishDevice{{}, {"x", kRegionBytesMax + 1, {}, false}}));
  EXPECT_TRUE(round_trip(PublishDevice{{}, {std::string(128, 'x'), kRegionBytesMax, {}, true}}));
}

TEST(SessionRequest, publishes_a_handle_with_or_without_a_descriptor) {
  const DeviceMemoryId id{1, 2, 255};
  const auto back = round_trip(PublishDevice{id, {std::string("a\0b", 3), 4096, {7, 200}, true}});
  ASSERT_TRUE(back);
  const auto& m = std::get<PublishDevice>(back->body);
  EXPECT_EQ(m.id, id);
  EXPECT_EQ(m.handle.bytes, std::string("a\0b", 3));
  EXPECT_EQ(m.handle.size, 4096u);
  EXPECT_EQ(m.handle.gpu[1], 200);
  EXPECT_EQ(descriptors_of(back->body), 1u);
  EXPECT_EQ(descriptors_of(round_trip(PublishDevice{id, {"x", 1, {}, false}})->body), 0u);
  EXPECT_EQ(std::get<OpenDevice>(round_trip(OpenDevice{id})->body).id, id);

  // An id that is too short: the same message with its last byte, of the id, cut off.
  std::string shorter = *encode(Request{1, OpenDevice{id}});
  ASSERT_EQ(shorter[4], 18) << "the length of the body";
  ASSERT_EQ(shorter[6], 16) << "the length of the id";
  --shorter[4];
  --shorter[6];
  shorter.pop_back();
  EXPECT_FALSE(decode_request(bytes_of(shorter)));
}

TEST(SessionRequest, is_refused_when_it_is_no_message) {
  EXPECT_FALSE(decode_request({}));
  EXPECT_FALSE(decode_request(bytes_of("nonsense")));
  const std::string good = *encode(Request{1, OpenPath{3, "/path", kOpenRead, 0}});
  for (size_t length = 1; length < good.size(); ++length) {
    // Cut inside a field it is no message; cut between fields the rest has its defaults, and so
    // the message lost its path.
    const auto cut = decode_request(bytes_of(good).first(length));
    if (cut) {
      EXPECT_NE(std::get<OpenPath>(cut->body).path, "/path");
    }
  }
  EXPECT_FALSE(decode_request(bytes_of(good + std::string(kSessionMessageMax, '\0'))));
}

// What is not there at all is 0 or empty, and held to the same limits.
TEST(SessionRequest, is_refused_without_a_part_that_it_needs) {
  const std::string head("\x08\x01\xea\x01\x12\x0a\x10", 7);  // id 1, PublishDevice, its id
  const std::string bytes = head + std::string(16, 'i');
  EXPECT_FALSE(decode_request(std::as_bytes(std::span(bytes))));
}

TEST(SessionRequest, is_not_encoded_when_it_would_not_fit) {
  const auto message =
      encode(Request{1, PathAttributes{std::string(kSessionMessageMax, 'x'), true}});
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error(), Code::too_large);
}

TEST(SessionRequest, says_how_many_descriptors_belong_to_it) {
  EXPECT_EQ(descriptors_of(RequestBody(RegisterRegion{})), 1u);
  EXPECT_EQ(descriptors_of(RequestBody(CreateRing{})), 2u);
  EXPECT_EQ(descriptors_of(RequestBody(OpenDescriptor{})), 1u);
  EXPECT_EQ(descriptors_of(RequestBody(KeepTouchLog{})), 1u);
  EXPECT_EQ(descriptors_of(RequestBody(Hello{})), 0u);
  EXPECT_EQ(descriptors_of(RequestBody(MapCache{})), 0u);
}

TEST(SessionReply, keeps_status_text_and_body) {
  Reply reply{9, Status(Code::not_found, 2), "open /x: no such file", {}};
  auto back = decode_reply(bytes_of(*encode(reply)));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->id, 9u);
  EXPECT_EQ(back->status, Code::not_found);
  EXPECT_EQ(back->status.detail(), 2u);
  EXPECT_EQ(back->text, "open /x: no such file");

  Attributes attributes;
  attributes.inode = 12;
  attributes.type = 0100000;
  attributes.length = 1ull << 40;
  attributes.modified = {-5, 999'999'999};
  attributes.created = {1ll << 33, 1};
  back = decode_reply(bytes_of(*encode(Reply{1, {}, "", attributes})));
  ASSERT_TRUE(back);
  const auto& a = std::get<Attributes>(back->body);
  EXPECT_EQ(a.inode, 12u);
  EXPECT_EQ(a.type, 0100000u);
  EXPECT_EQ(a.length, 1ull << 40);
  EXPECT_EQ(a.modified, attributes.modified);
  EXPECT_EQ(a.created, attributes.created);

  back = decode_reply(bytes_of(*encode(Reply{1, {}, "", Mapping{1ull << 30}})));
  ASSERT_TRUE(back);
  EXPECT_EQ(std::get<Mapping>(back->body).size, 1ull << 30);
  EXPECT_EQ(descriptors_of(back->body), 1u);
  EXPECT_EQ(descriptors_of(ReplyBody(Page{})), 0u);

  const DeviceHandle handle{"xyz", 4096, {9}, true};
  back = decode_reply(bytes_of(*encode(Reply{1, {}, "", handle})));
  ASSERT_TRUE(back);
  EXPECT_EQ(std::get<DeviceHandle>(back->body).bytes, "xyz");
  EXPECT_EQ(std::get<DeviceHandle>(back->body).gpu, handle.gpu);
  EXPECT_EQ(descriptors_of(back->body), 1u);
  EXPECT_FALSE(decode_reply(bytes_of(*encode(Reply{1, {}, "", DeviceHandle{"", 1, {}, false}}))));
}

TEST(SessionReply, holds_a_page_as_full_as_page_bytes_allow) {
  Page page;
  size_t bytes = 0;
  while (true) {
    const Entry entry{std::string(255, '\xff'), UINT64_MAX, 8, INT64_MAX};
    if (bytes + page_bytes_of(entry) > kPageBytesMax) break;
    bytes += page_bytes_of(entry);
    page.entries.push_back(entry);
  }
  const auto message = encode(Reply{UINT64_MAX, {}, "", page});
  ASSERT_TRUE(message);
  const auto back = decode_reply(bytes_of(*message));
  ASSERT_TRUE(back);
  EXPECT_EQ(std::get<Page>(back->body).entries.size(), page.entries.size());
  // Many short names, where what stands around a name counts most.
  page = {};
  for (bytes = 0; bytes + 48 <= kPageBytesMax; bytes += 48) {
    page.entries.push_back({"", UINT64_MAX, UINT32_MAX, UINT64_MAX});
  }
  EXPECT_TRUE(encode(Reply{UINT64_MAX, {}, "", page}));
}

}  // namespace
}  // namespace penstock::wire
