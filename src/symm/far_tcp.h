// FarTcp: memory of PEs on other nodes, over TCP: a connection to each that is used. Beside it,
// where both have RDMA, a queue pair that takes over.
#pragma once

#include "far_address.h"
#include "far_pair.h"

#include <atomic>
#include <functional>
#include <mutex>
#include <sys/epoll.h>
#include <thread>

#include "penstock/engine.h"
#include "penstock/symm/patience.h"

namespace penstock::symm {

// Whoever has the lock does what is to be done: a call that waits, between two looks at what it
// waits for; else a thread that sleeps until something comes, and naps only while calls do it.
class FarTcp final : public FarMemory {
 public:
  struct Options {
    uint32_t me = 0;
    FarSecret secret{};
    FarSegments segments;
    FarListener listener;
    std::vector<std::optional<FarAddress>> pes;  // by their number; none: is near
    uint32_t looks = 0;                          // before a call that waits sleeps
    const engine::Clock* clock = nullptr;
    const std::atomic<uint32_t>* trouble = nullptr;  // changes when the job tells of ends
    std::function<std::vector<uint32_t>()> ended;    // the PEs whose end the job has told
    std::function<bool(uint32_t pe)> takes_part;     // it has not ended or left
    // RDMA; null: `lack` says why not.
    std::unique_ptr<verbs::Provider> provider;
    FarLack lack = FarLack::off;
    std::string why_no_card = {};
    std::vector<FarLack> lacks;  // of the others, by their number
    bool needs_card = false;     // a PE that is not reached by it counts as gone
    uint64_t pinned_bytes_max = 0;
  };
  static Outcome<std::unique_ptr<FarTcp>> start(Options options);
  ~FarTcp() override;

  Status put(uint32_t pe, FarPlace dest, Bytes source) override;
  Status put_row(uint32_t pe, FarPlace dest, const FarRow& row, const void* source,
                 uint64_t source_stride) override;
  Status put_signal(uint32_t pe, FarPlace dest, Bytes source, FarPlace signal,
                    const Change& change) override;
  Status change(uint32_t pe, FarPlace word, const Change& change) override;
  Status get_row(uint32_t pe, void* dest, uint64_t dest_stride, FarPlace source,
                 const FarRow& row) override;
  Status start_get(uint32_t pe, MutableBytes dest, FarPlace source, FarAnswer* answer) override;
  Status start_change(uint32_t pe, FarPlace word, const Change& change, FarAnswer* answer) override;
  Status finish(FarAnswer* answer) override;
  Status get_later(uint32_t pe, MutableBytes dest, FarPlace source) override;
  Status change_later(uint32_t pe, FarPlace word, const Change& change, void* dest) override;
  Status quiet() override;
  Status quiet(uint32_t pe) override;
  Status tell(uint32_t pe, FarPlace word, const Change& change) override;
  bool progress() override;
  void doze(uint32_t microseconds) override;
  std::optional<uint32_t> broken() const override;
  FarWay way(uint32_t pe) override;
  void close() override;

 private:
  using Lock = std::unique_lock<std::mutex>;
  enum class State : uint8_t {
    unused,
    connecting,  // to one of its addresses
    greeting,    // connected, and has said hello
    expecting,   // the PE's own connection, or another attempt
    open,
    gone,
  };
  struct Peer {
    State state = State::unused;
    bool is_gathering = false;      // in gathering_
    bool is_unapplied = false;      // in unapplied_
    bool is_watched_out = false;    // for room to send
    bool is_lack_noted = false;     // of its queue pair
    bool expects_quiet = false;     // after a single put, as the last time
    bool has_asked_early = false;   // with the last put, and no quiet has come
    uint32_t replied = 0;           // bytes of the answer to the hello
    uint64_t sent_in = UINT64_MAX;  // the wait after which the last put went out at once
    size_t attempts = 0;
    UniqueFd socket;
    std::unique_ptr<FarStream> stream;
    std::unique_ptr<FarPair> pair;  // null: there is none
    FarReply reply;
    Status why;  // it is gone
    engine::Time attempt_until{};
    engine::Time give_up_at{};
  };
  // What a quiet waits for.
  struct Until {
    uint64_t puts;  // of the stream
    uint64_t ops;   // of the pair
  };
  struct Stranger {
    UniqueFd socket;
    uint32_t got = 0;
    FarHello hello;
    bool is_welcome = false;  // and is to say that it begins
    FarReply begin;
    engine::Time until{};
  };

  static constexpr uint32_t kDozeMicroseconds = 1000;

  // What an event is of: the upper half; the lower one is a PE or a stranger's place.
  static constexpr uint64_t kListener = uint64_t{1} << 32;
  static constexpr uint64_t kPeer = uint64_t{2} << 32;
  static constexpr uint64_t kStranger = uint64_t{3} << 32;
  static constexpr uint64_t kCard = uint64_t{4} << 32;

  explicit FarTcp(Options options);

  // far_tcp.cc: calls.
  Result<Peer*> reach(Lock& lock, uint32_t pe);
  Result<Peer*> reach_to_ask(Lock& lock, uint32_t pe);
  Status put_locked(Lock& lock, uint32_t pe, FarPlace dest, Bytes source, bool is_last);
  void gather(uint32_t pe, bool may_go_at_once);
  void note_put(uint32_t pe);
  void ask_early(Peer& peer, bool goes_at_once) const;
  void note_quiet(Peer& peer) const;
  static Until until_now(const Peer& peer);
  Status applied_at(Lock& lock, uint32_t pe, const Until& until);
  template <class Done>
  void wait_until(Lock& lock, Done&& is_done);

  // far_turns.cc: what is done in between, with the lock.
  bool turn(bool is_thread = false);
  bool handle(const ::epoll_event& event, bool is_thread);
  bool receive(uint32_t pe);
  void flush(uint32_t pe);
  void send_gathered();
  void look_at_times();
  void look_for_ends();
  void lose(uint32_t pe, Status why);
  void run();
  void wake();

  // far_by_card.cc: what goes by queue pairs, with the lock.
  void open_card(std::unique_ptr<verbs::Provider> provider);
  void begin_pair(uint32_t pe);
  bool has_card(const Peer& peer) const { return peer.pair && peer.pair->has_moved(); }
  Status put_by_card(Lock& lock, Peer& peer, FarPlace dest, Bytes source);
  Status get_by_card(uint32_t pe, FarPlace source, MutableBytes dest, FarAnswer* answer);
  uint64_t unsent_by_socket(const Peer& peer) const;
  bool note_lack(uint32_t pe);
  Status hear_without_pair(FarStream& stream) const;
  bool hear(uint32_t pe);
  bool turn_card();
  void take_from_pair(uint32_t pe);
  void drain(uint32_t pe);
  void look_at_pairs();
  bool has_pair_times() const;
  bool may_sleep();

  // far_links.cc: how connections are made, with the lock.
  void use(uint32_t pe);
  void attempt(uint32_t pe);
  void drop_attempt(uint32_t pe);
  void greet(uint32_t pe);
  void hear_reply(uint32_t pe);
  void open(uint32_t pe, UniqueFd socket);
  void accept_strangers();
  void hear_stranger(size_t index);
  void forget_stranger(size_t index);
  void answer_stranger(size_t index);
  void begin_with_stranger(size_t index);
  FarVerdict judge(const FarHello& hello) const;
  void watch(int operation, int socket, uint32_t events, uint64_t what) const;
  void close_socket(UniqueFd* socket) const;

  const Options options_;
  std::mutex mutex_;
  UniqueFd epoll_;
  UniqueFd wake_;  // of the thread; not in epoll_, where it would keep calls from dozing
  std::vector<Peer> peers_;
  std::vector<uint32_t> open_;        // PEs
  std::vector<uint32_t> connecting_;  // PEs, some of which are no more
  std::vector<uint32_t> gathering_;
  std::vector<uint32_t> unapplied_;
  std::atomic<uint32_t> unapplied_count_{0};
  std::vector<Stranger> strangers_;
  FarLack lack_ = FarLack::none;  // of the card here
  std::unique_ptr<FarCard> card_;
  bool is_listening_ = true;  // not while no descriptor is left
  engine::Time listen_again_at_{};
  uint64_t waits_ = 0;
  uint32_t turns_since_times_ = 0;
  uint32_t seen_trouble_ = 0;
  std::atomic<uint32_t> broken_;  // a PE; size: none
  std::atomic<uint64_t> turns_of_calls_{0};
  bool is_asleep_ = false;  // the thread, until something comes
  std::atomic<bool> is_stopping_{false};
  bool is_closed_ = false;
  std::thread thread_;
};

template <class Done>
void FarTcp::wait_until(Lock& lock, Done&& is_done) {
  ASSERT(lock.owns_lock());
  for (uint32_t idle = 0; !is_done(); ++idle) {
    turns_of_calls_.fetch_add(1, std::memory_order_relaxed);
    if (turn()) idle = 0;
    if (is_done()) return;
    // Others may have the lock meanwhile.
    lock.unlock();
    if (idle < options_.looks) {
      Patience::relax();
    } else {
      doze(kDozeMicroseconds);
    }
    lock.lock();
  }
}

}  // namespace penstock::symm
