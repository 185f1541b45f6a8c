// Files that are made by several clients at once, with their names on a PostgreSQL server: all of
// meta, as a node has it, without the node around it.
//
//   names_bench URL [seconds=5] [clients=16] [directories=16]
//
// Prints creations a second. names_on_postgresql.py runs it in turn with the same rows by pgbench.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "penstock/kv.h"
#include "penstock/kv_move.h"
#include "penstock/meta.h"

namespace penstock::bench {
namespace {

using Steady = std::chrono::steady_clock;

struct Settings {
  int seconds = 5;
  int clients = 16;
  int directories = 16;
};

int run(const std::string& url, const Settings& settings) {
  auto opened = kv::open_postgres(
      {.url = url, .cluster = "bench", .create = true, .connections = settings.clients});
  if (!opened) {
    std::fprintf(stderr, "%s\n", opened.error().message.c_str());
    return 1;
  }
  kv::MovableKv names(std::move(*opened), 1);
  meta::MetaOptions options;
  options.cached_records = 100'000;
  auto made = meta::Meta::open(names, engine::system_clock(), options);
  if (!made) {
    std::fprintf(stderr, "%s\n", made.error().message.c_str());
    return 1;
  }
  meta::Meta& meta = **made;
  const std::string run = std::to_string(engine::system_seed());
  std::vector<InodeId> directories;
  for (int i = 0; i < settings.directories; ++i) {
    const auto directory =
        meta.make_directory({}, meta::kRootInode, run + "." + std::to_string(i), 0755);
    if (!directory) return 1;
    directories.push_back(directory->inode);
  }
  std::atomic<uint64_t> done{0}, failed{0};
  const Steady::time_point begin = Steady::now();
  const Steady::time_point end = begin + std::chrono::seconds(settings.seconds);
  std::vector<std::thread> clients;
  for (int i = 0; i < settings.clients; ++i) {
    clients.emplace_back([&, i] {
      const InodeId directory = directories[static_cast<size_t>(i % settings.directories)];
      for (int file = 0; Steady::now() < end; ++file) {
        const std::string name = std::to_string(i) + "." + std::to_string(file);
        ++(meta.create({}, directory, name, 0644, true) ? done : failed);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  const double took = std::chrono::duration<double>(Steady::now() - begin).count();
  std::printf("%.0f creations/s, %llu failed\n", static_cast<double>(done) / took,
              static_cast<unsigned long long>(failed));
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) {
  penstock::bench::Settings settings;
  if (argc < 2) return 1;
  for (int i = 2; i < argc; ++i) {
    const auto value_of = [&](const char* name) -> const char* {
      const size_t length = std::strlen(name);
      return std::strncmp(argv[i], name, length) == 0 ? argv[i] + length : nullptr;
    };
    if (const char* value = value_of("seconds=")) settings.seconds = std::atoi(value);
    if (const char* value = value_of("clients=")) settings.clients = std::atoi(value);
    if (const char* value = value_of("directories=")) settings.directories = std::atoi(value);
  }
  return penstock::bench::run(argv[1], settings);
}
