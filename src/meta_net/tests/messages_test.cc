// Calls and answers as bytes, which come from elsewhere.
#include "decode_all.h"

#include <gtest/gtest.h>

namespace penstock::meta_net {
namespace {

constexpr int kRounds = 300;

TEST(MetaMessages, of_every_kind_are_read_as_they_were_written) {
  engine::SeededRandom random(1);
  int kinds = 0;
  for_each_call([&]<class Call>() {
    ++kinds;
    for (int i = 0; i < kRounds; ++i) {
      const Request asked = random_request<Call>(random);
      const std::string bytes = encode(asked);
      EXPECT_EQ(static_cast<uint8_t>(bytes.front()), Call::kKind);
      const auto read = decode_request(bytes);
      ASSERT_TRUE(read.has_value()) << int{Call::kKind};
      EXPECT_EQ(read->index(), asked.index());
      EXPECT_EQ(encode(*read), bytes);
      const std::string answer = random_answer<Call>(random);
      EXPECT_EQ(answer_again<Call>(answer), answer) << int{Call::kKind};
    }
  });
  EXPECT_EQ(kinds, 52);
}

TEST(MetaMessages, that_are_cut_or_longer_are_refused) {
  engine::SeededRandom random(2);
  for_each_call([&]<class Call>() {
    for (int i = 0; i < 20; ++i) {
      const std::string asked = encode(random_request<Call>(random));
      for (size_t length = 0; length < asked.size(); ++length) {
        EXPECT_EQ(decode_request(asked.substr(0, length)).error(), Code::bad_message);
      }
      EXPECT_EQ(decode_request(asked + '\0').error(), Code::bad_message);
      const std::string answer = random_answer<Call>(random);
      for (size_t length = 0; length < answer.size(); ++length) {
        EXPECT_EQ(answer_again<Call>(answer.substr(0, length)), std::nullopt);
      }
      EXPECT_EQ(answer_again<Call>(answer + '\0'), std::nullopt);
    }
  });
}

TEST(MetaMessages, of_random_bytes_are_refused_or_read_as_what_they_say) {
  engine::SeededRandom random(3);
  int taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes(random.below(60), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.next());
    if (!bytes.empty()) bytes.front() = static_cast<char>(random.below(40));
    taken += decode_all(bytes);
  }
  EXPECT_LT(taken, 20'000);
}

TEST(MetaMessages, with_lists_that_are_longer_than_all_bytes_take_no_memory) {
  for (const uint8_t kind : {ask::ResolveMany::kKind, ask::Forget::kKind}) {
    meta::Writer writer;
    writer.byte(kind);
    if (kind == ask::ResolveMany::kKind) {
      for (int field = 0; field < 6; ++field) writer.byte(0);  // a user, and one flag
    }
    writer.varint(limits::kPathsMax);
    EXPECT_EQ(decode_request(writer.take()).error(), Code::bad_message);
  }
  meta::Writer writer;
  writer.byte(ask::Forget::kKind);
  writer.varint(uint64_t{1} << 60);
  EXPECT_EQ(decode_request(writer.take()).error(), Code::bad_message);
}

Attributes file_attributes() {
  Attributes attributes;
  attributes.inode = InodeId(5000);
  attributes.mode = 0644;
  attributes.links = 1;
  return attributes;
}

TEST(MetaMessages, that_no_meta_answers_are_refused_by_the_caller) {
  const auto is_taken = [](const Attributes& attributes) {
    return decode_answer<ask::Lookup>(encode_answer<ask::Lookup>(attributes)).has_value();
  };
  EXPECT_TRUE(is_taken(file_attributes()));
  Attributes bad = file_attributes();
  bad.inode = {};
  EXPECT_FALSE(is_taken(bad));
  bad = file_attributes();
  bad.layout.chunk_bytes_log2 = 99;
  EXPECT_FALSE(is_taken(bad));
  bad = file_attributes();
  bad.acl = "no list";
  EXPECT_FALSE(is_taken(bad));
  const auto page_is_taken = [](const Page& page) {
    return decode_answer<ask::ReadDirectory>(encode_answer<ask::ReadDirectory>(page)).has_value();
  };
  const Listed one{{"a", InodeId(5000), meta::FileType::regular, 6000}, {}};
  const Listed other{{"b", InodeId(5001), meta::FileType::regular, 6001}, {}};
  EXPECT_TRUE(page_is_taken({{one, other}, false}));
  EXPECT_FALSE(page_is_taken({{other, one}, false}));
  EXPECT_FALSE(page_is_taken({{}, false}));
  EXPECT_TRUE(page_is_taken({{}, true}));
  EXPECT_FALSE(
      page_is_taken({{{{"a/b", InodeId(5000), meta::FileType::regular, 6000}, {}}}, true}));
}

TEST(MetaMessages, that_would_meet_an_assertion_of_meta_are_refused_by_the_service) {
  constexpr uint64_t kNewest = 9000;
  const auto code = [](const Request& request) {
    return check_asked(request, [] { return kNewest; }).code();
  };
  ask::CreateUnnamed unnamed;
  for (const uint64_t id : {uint64_t{0}, uint64_t{1}, kNewest + 1}) {
    unnamed.id = InodeId(id);
    EXPECT_EQ(code(unnamed), Code::invalid_argument) << id;
  }
  unnamed.id = InodeId(kNewest);
  EXPECT_EQ(code(unnamed), Code::ok);
  ask::CreateFiles files;
  files.files.push_back({{InodeId(kNewest), InodeId(1), "name", {}, false}, 0644, 0, {}, false});
  EXPECT_EQ(code(files), Code::ok);
  ask::CreateFiles bad = files;
  bad.files[0].place.inode = {};
  EXPECT_EQ(code(bad), Code::invalid_argument);
  bad = files;
  bad.files[0].place.layout.copies = 0;
  EXPECT_EQ(code(bad), Code::invalid_argument);
  bad = files;
  bad.files[0].place.name = "..";
  EXPECT_EQ(code(bad), Code::invalid_argument);
  bad = files;
  bad.files[0].changes.length = 7;
  EXPECT_EQ(code(bad), Code::invalid_argument);
}

}  // namespace
}  // namespace penstock::meta_net
