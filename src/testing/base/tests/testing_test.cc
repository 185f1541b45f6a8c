// The test library itself.
#include "penstock/testing.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <new>
#include <optional>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace penstock::test {
namespace {

namespace fs = std::filesystem;

TEST(ScratchDirectory, is_another_each_time_and_goes_away_with_all_in_it) {
  std::optional<ScratchDirectory> one(std::in_place);
  const ScratchDirectory other;
  EXPECT_NE(one->path(), other.path());
  EXPECT_EQ(fs::canonical(one->path()), one->path());
  EXPECT_EQ(fs::status(one->path()).permissions(), fs::perms(0755));
  fs::create_directories(*one / "a/b");
  write_file(*one / "a/b/c", "x");
  fs::create_symlink("nowhere", *one / "a/link");
  ASSERT_EQ(::chmod((*one / "a").c_str(), 0), 0);
  const std::string path = one->path();
  one.reset();
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(fs::exists(other.path()));
}

TEST(ScratchDirectory, stays_when_it_is_kept) {
  const ScratchDirectory outer;
  std::string path;
  {
    ScratchDirectory inner(outer.path());
    inner.keep();
    path = inner.path();
  }
  EXPECT_TRUE(path.starts_with(outer.path() + "/"));
  EXPECT_TRUE(fs::is_directory(path));
}

TEST(ScratchDirectory, removes_through_directories_that_keep_their_owner_out) {
  const ScratchDirectory outer;
  const std::string path = outer / "closed";
  const int result = in_child([&] {
    fs::permissions(outer.path(), fs::perms(0777));
    if (::geteuid() == 0 && (::setgid(65'534) != 0 || ::setuid(65'534) != 0)) return 2;
    fs::create_directories(path + "/below/it");
    write_file(path + "/below/it/file", "x");
    ::chmod((path + "/below").c_str(), 0);
    ::chmod(path.c_str(), 0);
    remove_all(path);
    return fs::exists(path) ? 1 : 0;
  });
  EXPECT_EQ(result, 0);
}

TEST(Eventually, looks_until_the_condition_holds) {
  int looks = 0;
  EXPECT_TRUE(eventually([&] { return ++looks == 3; }));
  EXPECT_EQ(looks, 3);
}

TEST(Eventually, looks_once_at_least_and_gives_up) {
  int looks = 0;
  EXPECT_TRUE(eventually([&] { return ++looks == 1; }, std::chrono::nanoseconds(0)));
  EXPECT_FALSE(eventually([&] { return ++looks < 0; }, std::chrono::nanoseconds(0)));
  EXPECT_EQ(looks, 2);
}

TEST(Content, tells_its_seed_and_place) {
  const std::vector<std::byte> whole = content(100, 7);
  EXPECT_EQ(content(61, 7, 39), std::vector<std::byte>(whole.begin() + 39, whole.end()));
  EXPECT_TRUE(is_content(std::span(whole).subspan(13, 50), 7, 13));
  EXPECT_FALSE(is_content(std::span(whole).subspan(13, 50), 7, 14));
  EXPECT_FALSE(is_content(whole, 8));
  std::vector<std::byte> changed = whole;
  changed.back() ^= std::byte{1};
  EXPECT_FALSE(is_content(changed, 7));
}

TEST(Files, come_back_as_they_were_written) {
  const ScratchDirectory scratch;
  const std::string bytes("a\0\n\xff", 4);
  write_file(scratch / "file", "something longer");
  write_file(scratch / "file", bytes);
  EXPECT_EQ(read_file(scratch / "file"), bytes);
  EXPECT_EQ(read_file(scratch / "none"), "");
}

TEST(Children, tell_how_they_ended) {
  EXPECT_EQ(in_child([] { return 7; }), 7);
  EXPECT_EQ(in_child([] { return ::raise(SIGKILL); }), 128 + SIGKILL);
  EXPECT_EQ(ending_of(::getpid()), -1) << "no child of this process";
}

TEST(Environment, numbers_are_read_or_another_is_taken) {
  ASSERT_EQ(::setenv("PENSTOCK_TESTING_NUMBER", "0x10", 1), 0);
  EXPECT_EQ(number_from("PENSTOCK_TESTING_NUMBER", 3), 16u);
  ASSERT_EQ(::setenv("PENSTOCK_TESTING_NUMBER", "", 1), 0);
  EXPECT_EQ(number_from("PENSTOCK_TESTING_NUMBER", 3), 3u);
  ASSERT_EQ(::unsetenv("PENSTOCK_TESTING_NUMBER"), 0);
  EXPECT_EQ(number_from("PENSTOCK_TESTING_NUMBER", 3), 3u);
}

TEST(MappedMemory, begins_at_a_page_and_is_empty) {
  const MappedMemory memory(3 * 4096);
  ASSERT_EQ(memory.bytes().size(), 3u * 4096);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.bytes().data()) % 4096, 0u);
  for (const std::byte byte : memory.bytes()) ASSERT_EQ(byte, std::byte{0});
}

TEST(NoMoreThreads, refuses_threads_while_it_lives) {
  const auto nothing = [](void*) -> void* { return nullptr; };
  pthread_t thread{};
  {
    const NoMoreThreads none;
    EXPECT_NE(::pthread_create(&thread, nullptr, nothing, nullptr), 0);
  }
  ASSERT_EQ(::pthread_create(&thread, nullptr, nothing, nullptr), 0);
  EXPECT_EQ(::pthread_join(thread, nullptr), 0);
}

// Calls of the operators themselves: a compiler may leave out what an expression with new would do.
TEST(Allocations, are_counted_of_all_threads_and_of_one) {
  const uint64_t of_all = allocations();
  const uint64_t here = allocations_of_this_thread();
  void* const plain = ::operator new(100);
  void* const wide = ::operator new(300, std::align_val_t(256));
  void* const many = ::operator new[](10);
  const uint64_t counted_of_all = allocations() - of_all;
  const uint64_t counted_here = allocations_of_this_thread() - here;
  EXPECT_EQ(counted_of_all, 3u);
  EXPECT_EQ(counted_here, 3u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(wide) % 256, 0u);
  ::operator delete(plain);
  ::operator delete(wide, std::align_val_t(256));
  ::operator delete[](many);
}

TEST(Allocations, of_another_thread_are_not_those_of_this_one) {
  const uint64_t of_all = allocations();
  const uint64_t here = allocations_of_this_thread();
  uint64_t there = 0;
  uint64_t of_making_the_thread = 0;
  std::thread other([&] {
    const uint64_t before = allocations_of_this_thread();
    ::operator delete(::operator new(100));
    there = allocations_of_this_thread() - before;
  });
  of_making_the_thread = allocations_of_this_thread() - here;
  other.join();
  const uint64_t counted_here = allocations_of_this_thread() - here;
  EXPECT_EQ(there, 1u);
  EXPECT_EQ(counted_here, of_making_the_thread);
  EXPECT_GE(allocations() - of_all, 1 + of_making_the_thread);
}

}  // namespace
}  // namespace penstock::test
