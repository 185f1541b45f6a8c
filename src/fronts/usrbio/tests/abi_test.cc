#include "hf3fs_usrbio.h"

#include <gtest/gtest.h>

extern "C" int check_calls_without_a_mount(void);
extern "C" int check_calls_without_a_gpu(void);

TEST(Abi, every_call_answers_as_documented_when_there_is_no_mount) {
  EXPECT_EQ(check_calls_without_a_mount(), 0) << "the line in abi_test.c";
}

TEST(Abi, calls_about_gpu_memory_answer_as_documented_when_there_is_no_gpu) {
  EXPECT_EQ(check_calls_without_a_gpu(), 0) << "the line in abi_test.c";
}
