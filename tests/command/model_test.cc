// `penstock load` and `penstock save` as people meet them where there is no GPU.

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/testing.h"
#include "penstock/testing_node.h"

namespace penstock::test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

class ModelCommand : public testing::Test {
 protected:
  ModelCommand() {
    const std::string header = R"({"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})";
    std::string content(8, '\0');
    const uint64_t length = header.size();
    std::memcpy(content.data(), &length, sizeof length);
    write_file(model_, content + header + "abc");
  }

  const ScratchDirectory scratch_;
  const std::string model_ = scratch_ / "model.safetensors";
};

TEST_F(ModelCommand, says_what_is_missing_where_there_is_no_gpu) {
  const Output load = penstock({"load", model_, "--quiet"});
  if (load.exit_code == 0) GTEST_SKIP() << "there is a GPU";
  EXPECT_EQ(load.exit_code, 1);
  EXPECT_THAT(load.err, HasSubstr("penstock load: "));
  EXPECT_THAT(load.err, HasSubstr("CUDA"));
  // What to do about it.
  EXPECT_THAT(load.err, AnyOf(HasSubstr("install"), HasSubstr("build"), HasSubstr("start")));
  const std::string out = scratch_ / "out";
  const Output save = penstock({"save", model_, out, "--quiet"});
  EXPECT_EQ(save.exit_code, 1);
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST_F(ModelCommand, missing_files_are_named_before_all_else) {
  const std::string missing = scratch_ / "nowhere";
  for (const Output& output : {penstock({"load", missing}), penstock({"save", missing, model_})}) {
    EXPECT_EQ(output.exit_code, 1);
    EXPECT_THAT(output.err, HasSubstr(missing + ": No such file"));
    EXPECT_EQ(std::count(output.err.begin(), output.err.end(), '\n'), 1) << output.err;
  }
}

TEST_F(ModelCommand, lists_that_are_none_are_wrong_usage) {
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"--gpu", "0,"},
                                             {"--gpu", "zero"},
                                             {"--gpu", "-1"},
                                             {"--gpu", ""},
                                             {"--lend", "every"},
                                             {"--lend", "1,,2"},
                                             {"--align", "much"},
                                             {"--threads", "0"}}) {
    std::vector<std::string> arguments{"load", model_};
    arguments.insert(arguments.end(), wrong.begin(), wrong.end());
    const Output output = penstock(arguments);
    EXPECT_EQ(output.exit_code, 2) << wrong[0] << " " << wrong[1] << ": " << output.err;
  }
  EXPECT_EQ(penstock({"load"}).exit_code, 2);
  EXPECT_EQ(penstock({"save", model_}).exit_code, 2);
}

TEST_F(ModelCommand, files_of_different_file_systems_are_not_loaded_together) {
  const Output output = penstock({"load", model_, scratch_ / "store" + ":/model"});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.err, HasSubstr("different file systems"));
  EXPECT_THAT(output.err, HasSubstr(model_));
}

TEST_F(ModelCommand, node_that_does_not_run_is_named) {
  const Output output = penstock({"load", scratch_ / "store" + ":/model"});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.err, HasSubstr(scratch_ / "store"));
}

TEST_F(ModelCommand, help_says_what_they_do) {
  const Output load = penstock({"load", "--help"});
  EXPECT_EQ(load.exit_code, 0);
  EXPECT_THAT(load.out, HasSubstr("--lend"));
  EXPECT_THAT(load.out, HasSubstr("given back when the command ends"));
  const Output save = penstock({"save", "--help"});
  EXPECT_EQ(save.exit_code, 0);
  EXPECT_THAT(save.out, HasSubstr("stable storage"));
}

}  // namespace
}  // namespace penstock::test
