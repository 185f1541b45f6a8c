// How fast a namespace becomes text and a namespace again, on RocksDB, and how much memory that
// takes:
//
//   meta_text_bench DIRECTORY [INODES]
//
// Makes so many files (a million), 100 in a directory, in a database below the directory; dumps
// them to a file, and loads that into another database.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>

#include "penstock/kv.h"
#include "penstock/meta.h"
#include "penstock/meta_text.h"

namespace penstock::meta_text {
namespace {

constexpr uint64_t kFilesInDirectory = 100;

class FileSink final : public Sink {
 public:
  explicit FileSink(const std::string& path) : file_(path, std::ios::binary | std::ios::trunc) {}
  Outcome<void> begin() override { return {}; }
  Outcome<void> write(std::string_view text) override {
    file_.write(text.data(), static_cast<std::streamsize>(text.size()));
    if (file_) return {};
    return Failure{Code::io_error, "the file cannot be written"};
  }

 private:
  std::ofstream file_;
};

class FileSource final : public Source {
 public:
  explicit FileSource(const std::string& path) : file_(path, std::ios::binary) {}
  Outcome<size_t> read(std::span<char> to) override {
    file_.read(to.data(), static_cast<std::streamsize>(to.size()));
    return static_cast<size_t>(file_.gcount());
  }

 private:
  std::ifstream file_;
};

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "meta_text_bench: %s\n", why.c_str());
  std::exit(1);
}

std::unique_ptr<engine::Kv> open(const std::string& path) {
  auto opened = kv::open_rocksdb({.path = path, .create = true});
  if (!opened) give_up(opened.error().message);
  return std::move(*opened);
}

// The most memory that this process had, in MiB.
long memory_mib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

// Prints how long `work` took, and what that is for each inode.
void measure(const char* what, uint64_t inodes, const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("%-8s %8.2f s  %9.0f inodes/s  at most %ld MiB so far\n", what, took.count(),
              static_cast<double>(inodes) / took.count(), memory_mib());
}

void make(engine::Kv& kv, uint64_t inodes) {
  auto opened = meta::Meta::open(kv, engine::system_clock(), {});
  if (!opened) give_up(opened.error().message);
  meta::Meta& meta = **opened;
  InodeId directory;
  for (uint64_t i = 0; i < inodes; ++i) {
    const std::string name = "a file of usual length " + std::to_string(i);
    if (i % kFilesInDirectory == 0) {
      const auto made = meta.make_directory({}, meta::kRootInode, "directory " + name, 0755);
      if (!made) give_up("a directory cannot be made");
      directory = made->inode;
    }
    if (!meta.create({}, directory, name, 0644, true)) give_up("a file cannot be made");
  }
}

int run(const std::string& directory, uint64_t inodes) {
  const std::string text = directory + "/names.txt";
  engine::SeededRandom random(engine::system_seed());
  {
    const auto kv = open(directory + "/one");
    measure("make", inodes, [&] { make(*kv, inodes); });
  }
  const auto kv = open(directory + "/one");
  measure("dump", inodes, [&] {
    FileSink sink(text);
    if (const auto dumped = dump(*kv, random, sink); !dumped) give_up(dumped.error().message);
  });
  const auto other = open(directory + "/other");
  measure("load", inodes, [&] {
    FileSource source(text);
    const auto loaded = load(*other, random, source, {});
    if (!loaded) give_up(loaded.error().message);
  });
  std::printf("text     %8.1f bytes for each inode\n",
              static_cast<double>(std::filesystem::file_size(text)) / static_cast<double>(inodes));
  return 0;
}

}  // namespace
}  // namespace penstock::meta_text

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: meta_text_bench DIRECTORY [INODES]\n");
    return 2;
  }
  const uint64_t inodes = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1'000'000;
  return penstock::meta_text::run(argv[1], inodes);
}
