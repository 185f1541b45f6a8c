// Calls over RDMA between two processes, on one machine or on two.
//
//   verbs_bench serve                  until it is killed
//   verbs_bench call ADDRESS [MS]      bytes placed and fetched, and small calls; MS for each
//   (1000) verbs_bench late ADDRESS [CALLS]   calls that are given up at any moment: what lands
//   afterwards verbs_bench stop ADDRESS           ends the one that serves
//
// Prints a line for each figure. The exit status of `late` is 1 where anything landed.
#include "bench/wire.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace penstock::verbs::bench {
namespace {

using engine::Access;
using engine::Op;

enum Method : uint16_t { kEcho = 1, kMove = 2, kStop = 3 };

double seconds_since(engine::Time start) {
  return std::chrono::duration<double>(engine::system_clock().now() - start).count();
}

// Places all of the first exposure from its own memory, or fetches it.
class Mover final : public engine::Service {
 public:
  explicit Mover(VerbsNet& net) : net_(net), bytes_(4 * kMiB, std::byte{7}) {
    net_.announce({bytes_});
  }
  void on_call(engine::IncomingCall& call) override {
    if (call.method == kStop) std::exit(0);
    if (call.method != kMove || call.exposure_count == 0) return call.reply(Code::ok, call.request);
    auto* const transfer = new engine::TransferOp;
    transfer->call = &call;
    transfer->local = {bytes_.data(), std::min<uint64_t>(call.exposure_length(0), bytes_.size()),
                       engine::kNoBuffer, engine::MemoryKind::host};
    transfer->completion = [](Op& op) {
      const std::unique_ptr<engine::TransferOp> done(static_cast<engine::TransferOp*>(&op));
      done->call->reply(done->status, {});
    };
    if (call.exposure_access(0) == Access::place) {
      call.place(*transfer);
    } else {
      call.fetch(*transfer);
    }
  }

 private:
  VerbsNet& net_;
  std::vector<std::byte> bytes_;
};

int serve() {
  SocketIntroducer nobody("127.0.0.1");
  Node node(kServer, nobody, {});
  nobody.loop = &node.loop;
  auto* const service = new Mover(*node.net);
  node.net->serve(kService, *service);
  std::thread answers([&node] { answer_offers(node); });
  answers.detach();
  node.loop.run();
  return 0;
}

struct Call : engine::CallOp {
  Call() {
    to = kService;
    response = response_bytes;
    completion = [](Op& op) { static_cast<Call&>(op).running = false; };
  }
  bool running = false;
  std::array<std::byte, 64> response_bytes{};
};

struct Client {
  explicit Client(const std::string& address, Patience patience = {})
      : introducer(address), node(kCaller, introducer, patience) {
    introducer.loop = &node.loop;
  }
  void start(Call& call) {
    call.running = true;
    node.net->call(call);
  }
  Status finish(Call& call) {
    while (call.running) node.loop.poll_or_park(engine::kNever);
    return call.status;
  }
  SocketIntroducer introducer;
  Node node;
};

bool measure(Client& client, const char* what, Method method, Access access, uint64_t bytes,
             uint32_t depth, int ms) {
  std::vector<std::byte> memory(std::max<uint64_t>(bytes * depth, 1));
  client.node.net->announce({memory});
  std::vector<std::unique_ptr<Call>> calls;
  for (uint32_t i = 0; i < depth; ++i) {
    Call& call = *calls.emplace_back(std::make_unique<Call>());
    call.method = method;
    if (bytes == 0) continue;
    call.exposures[0] = {{memory.data() + i * bytes, bytes, engine::kNoBuffer, {}}, access};
    call.exposure_count = 1;
  }
  uint64_t done = 0;
  const engine::Time start = engine::system_clock().now();
  const engine::Time end = start + std::chrono::milliseconds(ms);
  for (const auto& call : calls) client.start(*call);
  bool running = true;
  while (running) {
    client.node.loop.poll_or_park(end);
    running = false;
    for (const auto& call : calls) {
      if (!call->running && !call->status.ok()) {
        std::printf("%s: %s\n", what, std::string(call->status.name()).c_str());
        return false;
      }
      if (!call->running && call->owner == nullptr) {
        ++done;
        if (engine::system_clock().now() < end) {
          client.start(*call);
        } else {
          call->owner = &client;
        }
      }
      running |= call->running;
    }
  }
  const double seconds = seconds_since(start);
  std::printf("%s, %llu bytes, %u at once: %.2f MB/s, %.1f us a call\n", what,
              static_cast<unsigned long long>(bytes), depth,
              static_cast<double>(done * bytes) / seconds / 1e6,
              seconds * 1e6 * depth / static_cast<double>(done));
  std::fflush(stdout);
  return client.node.net->take_back(memory).ok();
}

int call(const std::string& address, int ms) {
  Client client(address);
  bool good = measure(client, "echo", kEcho, Access::place, 0, 1, ms);
  for (const uint64_t bytes : {64 * kKiB, kMiB}) {
    for (const uint32_t depth : {1u, 8u}) {
      good = good && measure(client, "place", kMove, Access::place, bytes, depth, ms);
      good = good && measure(client, "fetch", kMove, Access::fetch, bytes, depth, ms);
    }
  }
  return good ? 0 : 1;
}

// Bytes that are not what was put there; where they are is printed.
uint64_t changed_in(Bytes memory) {
  const auto changed = [](std::byte byte) { return byte != std::byte{0x22}; };
  const auto count = static_cast<uint64_t>(std::ranges::count_if(memory, changed));
  if (count == 0) return 0;
  const auto first = std::ranges::find_if(memory, changed) - memory.begin();
  auto last = static_cast<std::ptrdiff_t>(memory.size()) - 1;
  while (!changed(memory[static_cast<size_t>(last)])) --last;
  std::printf("changed afterwards: %llu bytes from %td to %td\n",
              static_cast<unsigned long long>(count), first, last);
  return count;
}

// Gives up calls at every moment, half of them by force at once; then the memory is another's.
int late(const std::string& address, int calls) {
  uint64_t counts[3] = {};  // ok, timed out, others
  uint64_t landed = 0;
  uint64_t forced = 0;
  for (const engine::Duration release :
       {engine::Duration::zero(), engine::Duration(limits::kReleaseTime)}) {
    Patience patience;
    patience.release = release;
    Client client(address, patience);
    std::vector<std::byte> memory(256 * kKiB);
    client.node.net->announce({memory});
    engine::SeededRandom random(7);
    int64_t usual = 20'000'000;  // nanoseconds that a call takes
    for (int i = 0; i < calls / 2; ++i) {
      std::memset(memory.data(), 0x11, memory.size());
      Call one;
      one.method = kMove;
      one.exposures[0] = {{memory.data(), memory.size(), engine::kNoBuffer, {}}, Access::place};
      one.exposure_count = 1;
      const engine::Time start = engine::system_clock().now();
      if (i % 4 != 0) {
        one.deadline = start + engine::Duration(static_cast<int64_t>(
                                   random.below(static_cast<uint64_t>(usual) * 5 / 4)));
      }
      client.start(one);
      const Status status = client.finish(one);
      if (i % 4 == 0 && status.ok()) usual = (engine::system_clock().now() - start).count();
      ++counts[status.ok() ? 0 : status.code() == Code::timed_out ? 1 : 2];
      std::memset(memory.data(), 0x22, memory.size());
      // The network has its time; connections that broke are not made anew before theirs.
      client.node.loop.poll_or_park(engine::system_clock().now() + std::chrono::milliseconds(5));
      ::usleep(status.code() == Code::peer_gone ? 120'000 : 5'000);
      landed += changed_in(memory);
    }
    forced += client.node.net->counts().forced;
    std::printf("lost connections: %llu\n",
                static_cast<unsigned long long>(client.node.net->counts().links_lost));
  }
  std::printf(
      "%llu calls ended well, %llu late, %llu otherwise; %llu closed by force; %llu bytes "
      "landed afterwards\n",
      static_cast<unsigned long long>(counts[0]), static_cast<unsigned long long>(counts[1]),
      static_cast<unsigned long long>(counts[2]), static_cast<unsigned long long>(forced),
      static_cast<unsigned long long>(landed));
  return landed == 0 ? 0 : 1;
}

int stop(const std::string& address) {
  Client client(address);
  Call one;
  one.method = kStop;
  one.deadline = engine::system_clock().now() + std::chrono::seconds(3);
  client.start(one);
  (void)client.finish(one);
  return 0;
}

int run(int count, char** words) {
  const std::string_view what = count > 1 ? words[1] : "";
  const std::string address = count > 2 ? words[2] : "127.0.0.1";
  const int number = count > 3 ? std::atoi(words[3]) : 0;
  if (what == "serve") return serve();
  if (what == "call") return call(address, number != 0 ? number : 1000);
  if (what == "late") return late(address, number != 0 ? number : 200);
  if (what == "stop") return stop(address);
  std::fprintf(stderr,
               "verbs_bench serve | call ADDRESS [MS] | late ADDRESS [CALLS] | stop ADDRESS\n");
  return 2;
}

}  // namespace
}  // namespace penstock::verbs::bench

int main(int count, char** words) {
  return penstock::verbs::bench::run(count, words);
}
