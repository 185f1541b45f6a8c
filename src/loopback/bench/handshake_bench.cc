// What handshakes take: one by itself, of each side, beside OpenSSL's own, whole and resumed; and
// many at once, as when a server was away for a moment, or all that call it were.
//
//   handshake_bench [ROUNDS] [CONNECTIONS] [CALLERS]
//
// The connections (256) are begun at one moment by some callers (8), each a node with a loop and a
// thread for handshakes; each goes to a service of its own of one server, as a node has one
// connection to a service. Times are from that moment to the answer of the first call over each.
// The server's processors: its thread for handshakes, and its loop, which accepts and greets.
// Prints medians of all rounds.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <fstream>
#include <functional>
#include <latch>
#include <openssl_handshake.h>
#include <string>
#include <sys/socket.h>

#include "penstock/loopback.h"

namespace penstock::loopback {
namespace {

using tls::bench::HandshakeCost;
using tls::bench::OpensslHandshakes;

constexpr NodeId kServer{1};
constexpr uint32_t kFirstCaller = 2;
// The first ones find caches cold, and tables of OpenSSL's not made.
constexpr int kWarming = 20;
constexpr int kHandshakes = 100;  // of a round

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// How long `work` takes of this thread is added.
template <class Work>
void measure(double& us, Work&& work) {
  const double before = tls::bench::thread_us();
  work();
  us += tls::bench::thread_us() - before;
}

// By src/tls, as the threads of two processes step through it.
HandshakeCost handshake(const std::shared_ptr<const tls::Credentials>& caller_shows,
                        const std::shared_ptr<const tls::Credentials>& server_shows) {
  int both[2] = {-1, -1};
  ASSERT(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both) == 0);
  const UniqueFd near(both[0]);
  const UniqueFd far(both[1]);
  using Step = tls::Handshake::Step;
  HandshakeCost cost;
  std::unique_ptr<tls::Handshake> caller;
  std::unique_ptr<tls::Handshake> server;
  measure(cost.caller_us, [&] {
    caller = std::make_unique<tls::Handshake>(caller_shows, tls::Part::caller, near.get());
    ASSERT(caller->step() == Step::wants_to_read);
  });
  measure(cost.server_us, [&] {
    server = std::make_unique<tls::Handshake>(server_shows, tls::Part::server, far.get());
    ASSERT(server->step() == Step::wants_to_read);
  });
  measure(cost.caller_us, [&] {
    ASSERT(caller->step() == Step::done);
    caller.reset();
  });
  measure(cost.server_us, [&] {
    ASSERT(server->step() == Step::done);
    server.reset();
  });
  return cost;
}

struct CostRow {
  const char* name;
  std::function<HandshakeCost()> measure;
  std::vector<double> caller = {};
  std::vector<double> server = {};
};

void print_costs(int rounds) {
  const auto caller = credentials_of(NodeId{kFirstCaller});
  const auto server = credentials_of(kServer);
  OpensslHandshakes openssl(*caller, *server);
  std::vector<CostRow> rows = {
      {"a handshake of ours", [&] { return handshake(caller, server); }},
      {"OpenSSL alone, whole", [&] { return openssl.whole(); }},
      {"OpenSSL alone, resumed", [&] { return openssl.resumed(); }},
      {"a certificate's chain looked at",
       [&] {
         return HandshakeCost{0, openssl.chain_us()};
       }},
  };
  for (int i = 0; i < kWarming + rounds * kHandshakes; ++i) {
    for (CostRow& row : rows) {
      const HandshakeCost cost = row.measure();
      if (i < kWarming) continue;
      row.caller.push_back(cost.caller_us);
      row.server.push_back(cost.server_us);
    }
  }
  for (CostRow& row : rows) {
    std::printf("%-34s caller %8.1f us  server %8.1f us\n", row.name, median(std::move(row.caller)),
                median(std::move(row.server)));
  }
}

// Answers at once.
class Answers final : public engine::Service {
 public:
  void on_call(engine::IncomingCall& call) override { call.reply(Code::ok, {}); }
};

// What the thread that does handshakes has taken of a processor, in microseconds. There is one
// sealed network in this process at that moment, or none.
double handshakes_us() {
  const std::string all = "/proc/self/task/";
  DIR* const directory = ::opendir(all.c_str());
  ASSERT(directory != nullptr);
  timespec time{};
  while (const dirent* const entry = ::readdir(directory)) {
    std::string name;
    std::getline(std::ifstream(all + entry->d_name + "/comm"), name);
    if (name != "handshakes") continue;
    // What pthread_getcpuclockid() would make of that thread (clock_getres(2), proc(5)).
    constexpr clockid_t kOfThread = 6;
    (void)::clock_gettime(~std::atoi(entry->d_name) * 8 | kOfThread, &time);
  }
  ::closedir(directory);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

// One caller's part of a storm.
struct Calls {
  std::vector<std::unique_ptr<engine::CallOp>> calls;
  std::vector<double> done_ms;  // of those that were answered
  uint32_t left = 0;
  engine::Time start;
};

void on_answer(engine::Op& op) {
  auto& of = op.owner_as<Calls>();
  if (op.status.ok()) of.done_ms.push_back(seconds_since(of.start) * 1e3);
  --of.left;
}

struct Storm {
  std::vector<double> first_ms, half_ms, all_ms, handshakes_us, loop_us;
  uint32_t failed = 0;
};

// Services `first` to `first + count`, each called once, when all others are ready to.
void call_once(const tcp::NetworkConfig& config, uint32_t first, uint32_t count, std::latch& ready,
               Calls& mine) {
  Node node(config);
  if (const auto started = node.start(); !started) {
    std::fprintf(stderr, "handshake_bench: %s\n", started.error().message.c_str());
    std::exit(1);
  }
  mine.left = count;
  for (uint32_t i = 0; i < count; ++i) {
    engine::CallOp& call = *mine.calls.emplace_back(std::make_unique<engine::CallOp>());
    call.to = {kServer, first + i};
    call.owner = &mine;
    call.completion = on_answer;
  }
  ready.arrive_and_wait();
  mine.start = now();
  for (const auto& call : mine.calls) node.net->call(*call);
  while (mine.left != 0) node.loop->poll_or_park(engine::kNever);
  node.close();
}

void add_storm(Storm& storm, Wire wire, uint32_t connections, uint32_t callers) {
  OneAddress resolver;
  Answers answers;
  Server server(config_of(kServer, wire, resolver));
  if (const auto listening = server.listen(); !listening) {
    std::fprintf(stderr, "handshake_bench: %s\n", listening.error().message.c_str());
    std::exit(1);
  }
  for (uint32_t i = 1; i <= connections; ++i) server.serve({kServer, i}, answers);
  resolver.address = server.address();
  server.run();

  std::vector<Calls> all(callers);
  std::vector<std::thread> threads;
  std::latch ready(callers + 1);
  const uint32_t each = connections / callers;
  for (uint32_t i = 0; i < callers; ++i) {
    threads.emplace_back([&, i] {
      call_once(config_of(NodeId{kFirstCaller + i}, wire, resolver), 1 + i * each, each, ready,
                all[i]);
    });
  }
  const double loop_before = processor_time(server.thread());
  ready.arrive_and_wait();
  for (std::thread& thread : threads) thread.join();
  const double made = each * callers;
  storm.loop_us.push_back((processor_time(server.thread()) - loop_before) / made * 1e6);
  storm.handshakes_us.push_back(handshakes_us() / made);

  std::vector<double> times;
  for (const Calls& one : all) {
    times.insert(times.end(), one.done_ms.begin(), one.done_ms.end());
  }
  storm.failed += each * callers - static_cast<uint32_t>(times.size());
  if (times.empty()) return;
  std::sort(times.begin(), times.end());
  storm.first_ms.push_back(times.front());
  storm.half_ms.push_back(times[times.size() / 2]);
  storm.all_ms.push_back(times.back());
}

int run(int rounds, uint32_t connections, uint32_t callers) {
  print_costs(rounds);
  Storm sealed;
  Storm plain;
  for (int round = 0; round < rounds; ++round) {
    add_storm(sealed, Wire::sealed, connections, callers);
    add_storm(plain, Wire::plain, connections, callers);
  }
  const uint32_t made = connections / callers * callers;
  std::printf("\n%u connections at once, of %u callers\n", made, callers);
  for (const auto& [name, storm] : {std::pair{"sealed", &sealed}, std::pair{"plain", &plain}}) {
    if (storm->all_ms.empty()) continue;
    const double all_ms = median(storm->all_ms);
    std::printf(
        "%-34s first %6.1f  half %6.1f  all %6.1f ms (%.0f/s)  server: handshakes %6.1f + loop "
        "%6.1f us\n",
        name, median(storm->first_ms), median(storm->half_ms), all_ms, made / all_ms * 1e3,
        median(storm->handshakes_us), median(storm->loop_us));
    if (storm->failed != 0) std::printf("%-34s %u calls failed\n", "", storm->failed);
  }
  return 0;
}

}  // namespace
}  // namespace penstock::loopback

int main(int count, char** arguments) {
  const auto argument = [&](int which, int otherwise) {
    return std::max(1, count > which ? std::atoi(arguments[which]) : otherwise);
  };
  return penstock::loopback::run(argument(1, 5), static_cast<uint32_t>(argument(2, 256)),
                                 static_cast<uint32_t>(argument(3, 8)));
}
