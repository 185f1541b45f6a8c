// Transactions like those that create a file: two reads, four writes, by several clients at once.
//
//   kv_postgres_bench URL [seconds=5] [clients=16] [directories=16] [together=0]
//
// Clients share so many directories, whose times each creation overwrites. With together=1 the two
// keys are read in one trip. Prints creations a second; beside_pgbench.sh runs it in turn with the
// same rows by pgbench.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "penstock/kv.h"

namespace penstock::kv {
namespace {

using engine::KvMode;
using engine::KvTransaction;
using Clock = std::chrono::steady_clock;

struct Settings {
  int seconds = 5;
  int clients = 16;
  int directories = 16;
  bool together = false;
};

// About as long as records of meta.
const std::string kInode(100, 'i');
const std::string kEntry(20, 'd');
const std::string kTimes(24, 't');

Status create(engine::Kv& kv, const std::string& directory, const std::string& id, bool together) {
  return kv.run(KvMode::write, [&](KvTransaction& transaction) -> Status {
    const std::string keys[] = {"I" + directory, "D" + directory + "name" + id};
    std::optional<std::string> existing;
    if (together) {
      TRY_ASSIGN(KvTransaction::Values values, transaction.get_many(keys));
      existing = std::move(values[1]);
    } else {
      TRY(transaction.get(keys[0]));
      TRY_ASSIGN(existing, transaction.get(keys[1]));
    }
    if (existing) return Code::already_exists;
    transaction.put("I" + id, kInode);
    transaction.put(keys[1], kEntry);
    transaction.put("C" + directory + id, kEntry);
    transaction.put("T" + directory, kTimes);
    return {};
  });
}

int run(const std::string& url, const Settings& settings) {
  auto opened = open_postgres(
      {.url = url, .cluster = "bench", .create = true, .connections = settings.clients});
  if (!opened) {
    std::fprintf(stderr, "%s\n", opened.error().message.c_str());
    return 1;
  }
  engine::Kv& kv = **opened;
  // Names that no earlier run has used.
  const uint64_t first = engine::system_seed() >> 24;
  std::atomic<uint64_t> next{first};
  std::atomic<uint64_t> failed{0};
  const Clock::time_point begin = Clock::now();
  const Clock::time_point end = begin + std::chrono::seconds(settings.seconds);
  std::vector<std::thread> clients;
  for (int i = 0; i < settings.clients; ++i) {
    clients.emplace_back([&, i] {
      const std::string directory = std::to_string(1000 + i % settings.directories);
      while (Clock::now() < end) {
        if (!create(kv, directory, std::to_string(++next), settings.together).ok()) ++failed;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  const double took = std::chrono::duration<double>(Clock::now() - begin).count();
  std::printf("%.0f creations/s, %llu failed\n", static_cast<double>(next - first) / took,
              static_cast<unsigned long long>(failed));
  for (const metrics::Sample& sample : metrics::snapshot()) {
    if (sample.value != 0) {
      std::printf("  %s %llu\n", sample.name.c_str(),
                  static_cast<unsigned long long>(sample.value));
    }
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace penstock::kv

int main(int argc, char** argv) {
  penstock::kv::Settings settings;
  if (argc < 2) return 1;
  for (int i = 2; i < argc; ++i) {
    const auto value_of = [&](const char* name) -> const char* {
      const size_t length = std::strlen(name);
      return std::strncmp(argv[i], name, length) == 0 ? argv[i] + length : nullptr;
    };
    if (const char* value = value_of("seconds=")) settings.seconds = std::atoi(value);
    if (const char* value = value_of("clients=")) settings.clients = std::atoi(value);
    if (const char* value = value_of("directories=")) settings.directories = std::atoi(value);
    if (const char* value = value_of("together=")) settings.together = std::atoi(value) != 0;
  }
  return penstock::kv::run(argv[1], settings);
}
