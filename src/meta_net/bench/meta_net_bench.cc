// Names over TCP on loopback, beside the same in the process that has the database.
//
//   meta_net_bench [ROUNDS] [FILES] [THREADS]
//
// Each thread creates FILES files in a directory of its own, looks each up, and removes them; in
// turns in the process, over the net, and over the net with durable answers, on one database
// (RocksDB, else nothing synced). Prints calls a second of all threads, medians of all rounds, and
// the ratios to those in the process; wanted is 0.5 of the first.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "penstock/kv.h"
#include "penstock/loopback.h"
#include "penstock/meta_net.h"

namespace penstock::meta_net {
namespace {

constexpr NodeId kNear{1};
constexpr NodeId kFar{2};
constexpr engine::Address kNames{kFar, 1};

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "meta_net_bench: %s\n", why.c_str());
  std::exit(1);
}

void expect(Status status) {
  if (!status.ok()) fail("a call failed: " + std::string(status.name()));
}
template <class T>
T expect(Result<T> result) {
  if (!result) expect(result.error());
  return std::move(*result);
}
template <class T>
T expect(Outcome<T> outcome) {
  if (!outcome) fail(outcome.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*outcome);
}

// A Meta, a node that serves it, and one that asks.
class Pair {
 public:
  Pair(meta::Meta& meta, bool durable) {
    expect(near_.start());
    expect(far_.start());
    const auto any = tcp::SocketAddress::parse("127.0.0.1:0");
    listener_ = expect(tcp::TcpListener::listen(far_.network, *far_.net, *any));
    resolver_.address = listener_->address();
    MetaServiceConfig serving;
    serving.loop = far_.loop.get();
    serving.net = far_.net.get();
    serving.address = kNames;
    serving.meta = &meta;
    serving.durable_answers = durable;
    service_ = MetaService::make(serving);
    service_->start();
    near_.run();
    far_.run();
    RemoteMetaConfig config;
    config.loop = near_.loop.get();
    config.net = near_.net.get();
    config.service = kNames;
    remote_ = RemoteMeta::make(config);
  }
  ~Pair() {
    remote_ = nullptr;
    (void)engine::thread_caller().call(*far_.loop,
                                       [this](engine::Op& done) { service_->stop(done); });
    near_.stop();
    near_.close();
    far_.stop();
    service_ = nullptr;
    listener_ = nullptr;
    far_.close();
  }
  meta::Meta& remote() { return *remote_; }

 private:
  loopback::OneAddress resolver_;
  loopback::Node near_{loopback::config_of(kNear, loopback::Wire::plain, resolver_)};
  loopback::Node far_{loopback::config_of(kFar, loopback::Wire::plain, resolver_)};
  std::unique_ptr<tcp::TcpListener> listener_;
  std::unique_ptr<MetaService> service_;
  std::unique_ptr<RemoteMeta> remote_;
};

struct Rates {
  double create = 0;
  double lookup = 0;
  double remove = 0;
};

// Calls a second when each of the threads makes `count`.
double rate_of(int threads, int count, const std::function<void(int thread, int i)>& call) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> running;
  for (int thread = 0; thread < threads; ++thread) {
    running.emplace_back([&, thread] {
      for (int i = 0; i < count; ++i) call(thread, i);
    });
  }
  for (std::thread& thread : running) thread.join();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return threads * count / seconds.count();
}

Rates measure(meta::Meta& meta, int threads, int files) {
  std::vector<InodeId> directories;
  for (int thread = 0; thread < threads; ++thread) {
    const std::string name = "d" + std::to_string(thread);
    directories.push_back(expect(meta.make_directory({}, meta::kRootInode, name, 0755)).inode);
  }
  const auto at = [&](int thread) { return directories[static_cast<size_t>(thread)]; };
  Rates rates;
  rates.create = rate_of(threads, files, [&](int thread, int i) {
    (void)expect(meta.create({}, at(thread), std::to_string(i), 0644, true));
  });
  rates.lookup = rate_of(threads, files, [&](int thread, int i) {
    (void)expect(meta.lookup({}, at(thread), std::to_string(i)));
  });
  rates.remove = rate_of(threads, files, [&](int thread, int i) {
    expect(meta.unlink({}, at(thread), std::to_string(i), nullptr));
  });
  for (int thread = 0; thread < threads; ++thread) {
    const std::string name = "d" + std::to_string(thread);
    expect(meta.remove_directory({}, meta::kRootInode, name, nullptr));
  }
  expect(meta.forget_many(expect(meta.orphans(SIZE_MAX, {}))));
  return rates;
}

double median(const std::vector<Rates>& rounds, double Rates::*which) {
  std::vector<double> values;
  for (const Rates& round : rounds) values.push_back(round.*which);
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int run(int rounds, int files, int threads) {
  std::string path = std::filesystem::temp_directory_path() / "penstock-meta-net-bench-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) fail("no directory can be made for temporary files");
  {
    const auto kv = expect(kv::open_rocksdb({.path = path + "/db", .create = true}));
    const auto meta = expect(meta::Meta::open(*kv, engine::system_clock(), {}));
    Pair pair(*meta, false);
    Pair durable_pair(*meta, true);
    std::vector<Rates> here;
    std::vector<Rates> there;
    std::vector<Rates> durable;
    for (int round = 0; round < rounds; ++round) {
      here.push_back(measure(*meta, threads, files));
      there.push_back(measure(pair.remote(), threads, files));
      durable.push_back(measure(durable_pair.remote(), threads, files));
    }
    std::printf("%d threads            in process       over TCP   ratio        durable   ratio\n",
                threads);
    const std::pair<const char*, double Rates::*> rows[] = {
        {"create", &Rates::create}, {"lookup", &Rates::lookup}, {"remove", &Rates::remove}};
    for (const auto& [name, which] : rows) {
      const double mine = median(here, which);
      const double theirs = median(there, which);
      const double safe = median(durable, which);
      std::printf("%-18s %12.0f/s %12.0f/s    %.2f %12.0f/s    %.2f\n", name, mine, theirs,
                  theirs / mine, safe, safe / mine);
    }
  }
  std::filesystem::remove_all(path);
  return 0;
}

}  // namespace
}  // namespace penstock::meta_net

int main(int count, char** words) {
  const auto number = [&](int at, int otherwise) {
    return count > at ? std::atoi(words[at]) : otherwise;
  };
  return penstock::meta_net::run(number(1, 5), number(2, 2000), number(3, 1));
}
