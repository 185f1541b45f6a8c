// A process that works on a database until it is killed: kv_victim ROLE PATH NEXT. Writes 4-byte
// numbers to standard output, to say how far it came.
#include "faulty_file_system.h"
#include "rocksdb_open.h"

#include <cstdlib>
#include <string>
#include <unistd.h>

#include "penstock/kv.h"

namespace penstock::kv {
namespace {

using engine::KvMode;

void say(int number) {
  if (::write(STDOUT_FILENO, &number, sizeof number) != sizeof number) ::_exit(1);
}

Status put(engine::Kv& kv, KvMode mode, const std::string& key, const std::string& value) {
  return kv.run(mode, [&](engine::KvTransaction& transaction) -> Status {
    transaction.put(key, value);
    return {};
  });
}

// One numbered commit after the other, each acknowledged.
void write(engine::Kv& kv, int next) {
  for (int i = next;; ++i) {
    const KvMode mode = i % 16 == 0 ? KvMode::write_durable : KvMode::write;
    if (!put(kv, mode, std::to_string(i), std::string(5000, 'k')).ok()) ::_exit(1);
    say(i);
  }
}

// 100 commits of which the first 50 are synced.
void torn(engine::Kv& kv) {
  for (int i = 0; i < 100; ++i) {
    const KvMode mode = i == 49 ? KvMode::write_durable : KvMode::write;
    if (!put(kv, mode, std::to_string(i), "v").ok()) ::_exit(1);
  }
  say(100);
}

// The disk is full in the middle of a commit.
void full(engine::Kv& kv, Faults& faults) {
  if (!put(kv, KvMode::write_durable, "before", "1").ok()) ::_exit(1);
  faults.full = true;
  if (put(kv, KvMode::write_durable, "lost", "1").code() != Code::no_space) ::_exit(1);
  say(1);
}

int run(const std::string& role, const std::string& path, int next) {
  log::set_level(log::Level::off);
  Faults faults;
  const auto env = rocksdb::NewCompositeEnv(std::make_shared<FaultyFileSystem>(faults));
  RocksDbOptions options{.path = path, .create = true};
  // Small buffers, so that logs are switched and tables written all the time.
  if (role == "write") options.write_buffer_bytes = 128 * kKiB;
  auto kv = open_rocksdb(options, env.get());
  if (!kv) return 1;
  if (role == "write") write(**kv, next);
  if (role == "torn") torn(**kv);
  if (role == "full") full(**kv, faults);
  // Until killed: closing would sync.
  while (true) ::pause();
}

}  // namespace
}  // namespace penstock::kv

int main(int argc, char** argv) {
  if (argc != 4) return 1;
  return penstock::kv::run(argv[1], argv[2], std::atoi(argv[3]));
}
