// Requests for many files at once.
#include "round_trip.h"

#include <gtest/gtest.h>

#include "penstock/wire.h"

namespace penstock::wire {
namespace {

ReadFiles one(FileToRead file) {
  return ReadFiles{{std::move(file)}};
}

TEST(ManyFiles, keep_every_field) {
  const auto read = round_trip(ReadFiles{{{"/a", 1, 2, 3, 4, true}, {"/b", 0, 0, kNoRegion, 0}}});
  ASSERT_TRUE(read);
  const auto& files = std::get<ReadFiles>(read->body).files;
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].path, "/a");
  EXPECT_EQ(files[0].offset, 1u);
  EXPECT_EQ(files[0].length, 2u);
  EXPECT_EQ(files[0].region, 3u);
  EXPECT_EQ(files[0].region_offset, 4u);
  EXPECT_TRUE(files[0].unless_cached);
  EXPECT_EQ(files[1].path, "/b");
  EXPECT_EQ(files[1].region, kNoRegion);
  EXPECT_FALSE(files[1].unless_cached);

  NewFile file{"/c", 0640, 5, 6, 7, 8, 9, Time{-10, 11}, Time{12, 13}, true};
  const auto made = round_trip(CreateFiles{{file}});
  ASSERT_TRUE(made);
  const NewFile& back = std::get<CreateFiles>(made->body).files.at(0);
  EXPECT_EQ(back.path, "/c");
  EXPECT_EQ(back.mode, 0640u);
  EXPECT_EQ(back.length, 5u);
  EXPECT_EQ(back.region, 6u);
  EXPECT_EQ(back.region_offset, 7u);
  EXPECT_EQ(back.uid, 8u);
  EXPECT_EQ(back.gid, 9u);
  EXPECT_EQ(back.accessed, (Time{-10, 11}));
  EXPECT_EQ(back.modified, (Time{12, 13}));
  EXPECT_TRUE(back.replace);
}

TEST(ManyFiles, are_refused_outside_the_limits) {
  EXPECT_FALSE(round_trip(ReadFiles{}));
  EXPECT_FALSE(round_trip(CreateFiles{}));
  EXPECT_TRUE(round_trip(ReadFiles{std::vector<FileToRead>(kFilesAtOnceMax)}));
  EXPECT_FALSE(round_trip(ReadFiles{std::vector<FileToRead>(kFilesAtOnceMax + 1)}));
  EXPECT_TRUE(round_trip(CreateFiles{std::vector<NewFile>(kFilesAtOnceMax)}));
  EXPECT_FALSE(round_trip(CreateFiles{std::vector<NewFile>(kFilesAtOnceMax + 1)}));
  EXPECT_TRUE(round_trip(one({"/", 0, limits::kIoBytesMax, 0, UINT64_MAX})))
      << "what a region has is for the session to say";
  EXPECT_FALSE(round_trip(one({"/", 0, limits::kIoBytesMax + 1, 0, 0})));
  EXPECT_FALSE(round_trip(one({"/", UINT64_MAX, 2, 0, 0})));
  EXPECT_FALSE(round_trip(one({"/", 0, 1, kNoRegion, 0}))) << "there is no place for it";
  EXPECT_FALSE(round_trip(one({"/", 0, 1, kRegionsMax, 0})));
  EXPECT_FALSE(round_trip(CreateFiles{{{"/", 010000}}}));
  EXPECT_FALSE(round_trip(CreateFiles{{{"/", 0, 1}}}));
  EXPECT_FALSE(round_trip(CreateFiles{{{"/", 0, limits::kIoBytesMax + 1, 0}}}));
  EXPECT_FALSE(round_trip(CreateFiles{{{"/", 0, 1, kRegionsMax}}}));
  NewFile untimely{"/"};
  untimely.modified = Time{0, 1'000'000'000};
  EXPECT_FALSE(round_trip(CreateFiles{{untimely}}));
}

TEST(ManyFiles, fit_a_datagram_by_what_they_are_counted_as) {
  FileToRead file{
      std::string(100, 'x'), UINT64_MAX / 2, limits::kIoBytesMax, 1023, UINT64_MAX, true};
  ReadFiles most;
  for (size_t bytes = 0; (bytes += request_bytes_of(file)) <= kFilesBytesMax;) {
    most.files.push_back(file);
  }
  EXPECT_TRUE(encode(Request{UINT64_MAX, most}));

  constexpr Time kLongest{INT64_MIN, 999'999'999};
  NewFile longest{std::string(200, 'x'),
                  07777,
                  UINT64_MAX,
                  kNoRegion,
                  UINT64_MAX,
                  UINT32_MAX,
                  UINT32_MAX,
                  kLongest,
                  kLongest,
                  true};
  CreateFiles made;
  for (size_t bytes = 0; (bytes += request_bytes_of(longest)) <= kFilesBytesMax;) {
    made.files.push_back(longest);
  }
  EXPECT_TRUE(encode(Request{UINT64_MAX, made}));

  FilesRead read;
  read.files.resize(kFilesAtOnceMax, {Status(static_cast<Code>(UINT16_MAX), UINT32_MAX), UINT64_MAX,
                                      UINT64_MAX, UINT64_MAX, true});
  EXPECT_TRUE(encode(Reply{UINT64_MAX, Code::ok, "", read}));
}

TEST(ManyFiles, are_looked_at_as_far_as_a_datagram_goes) {
  const auto asked = round_trip(LookAtFiles{{"/a", ""}});
  ASSERT_TRUE(asked);
  EXPECT_EQ(std::get<LookAtFiles>(asked->body).paths, (std::vector<std::string>{"/a", ""}));
  EXPECT_FALSE(round_trip(LookAtFiles{}));
  EXPECT_TRUE(round_trip(LookAtFiles{std::vector<std::string>(kLooksAtOnceMax)}));
  EXPECT_FALSE(round_trip(LookAtFiles{std::vector<std::string>(kLooksAtOnceMax + 1)}));

  LookAtFiles most;
  const std::string path(1000, 'x');
  for (size_t bytes = 0; (bytes += request_bytes_of(path)) <= kFilesBytesMax;) {
    most.paths.push_back(path);
  }
  EXPECT_TRUE(encode(Request{UINT64_MAX, most}));

  constexpr Time kLongest{INT64_MIN, 999'999'999};
  Attributes longest{UINT64_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX,
                     UINT32_MAX, UINT64_MAX, UINT64_MAX, kLongest,   kLongest,
                     kLongest,   kLongest,   UINT64_MAX, UINT64_MAX};
  FilesSeen seen;
  seen.files.resize(kLooksAtOnceMax, {Status(Code::ok, UINT32_MAX), longest});
  seen.files[1] = {Code::access_denied, {}};
  const auto message = encode(Reply{UINT64_MAX, Code::ok, "", seen});
  ASSERT_TRUE(message);
  const auto reply = decode_reply(bytes_of(*message));
  ASSERT_TRUE(reply);
  const auto& files = std::get<FilesSeen>(reply->body).files;
  ASSERT_EQ(files.size(), seen.files.size());
  EXPECT_EQ(files[0].attributes.length, UINT64_MAX);
  EXPECT_EQ(files[0].attributes.created, kLongest);
  EXPECT_EQ(files[1].status, Code::access_denied);
  EXPECT_EQ(files[2].attributes.inode, UINT64_MAX);
}

TEST(ManyFiles, come_back_with_a_result_each) {
  const FilesRead read{{{Code::is_directory, 1, 2, 3, true}, {Status(Code::io_error, 5), 0, 0, 0}}};
  const Result<std::string> message = encode(Reply{7, Code::ok, "", read});
  ASSERT_TRUE(message);
  const auto reply = decode_reply(bytes_of(*message));
  ASSERT_TRUE(reply);
  const auto& files = std::get<FilesRead>(reply->body).files;
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].status, Code::is_directory);
  EXPECT_EQ(files[0].inode, 1u);
  EXPECT_EQ(files[0].size, 2u);
  EXPECT_EQ(files[0].bytes, 3u);
  EXPECT_TRUE(files[0].cached);
  EXPECT_EQ(files[1].status, Code::io_error);
  EXPECT_EQ(files[1].status.detail(), 5u);

  const auto made = encode(Reply{8, Code::ok, "", FilesCreated{{Code::ok, Code::already_exists}}});
  ASSERT_TRUE(made);
  const auto answer = decode_reply(bytes_of(*made));
  ASSERT_TRUE(answer);
  const auto& statuses = std::get<FilesCreated>(answer->body).files;
  ASSERT_EQ(statuses.size(), 2u);
  EXPECT_TRUE(statuses[0].ok());
  EXPECT_EQ(statuses[1], Code::already_exists);
  EXPECT_FALSE(encode(Reply{8, Code::ok, "", FilesRead{}}).has_value() &&
               decode_reply(bytes_of(*encode(Reply{8, Code::ok, "", FilesRead{}}))))
      << "an answer without files answers nothing";
}

}  // namespace
}  // namespace penstock::wire
