// FarTcp: memory of PEs on other nodes, over TCP: a connection to each that is used.
#pragma once

#include "far_address.h"
#include "far_stream.h"

#include <atomic>
#include <functional>
#include <mutex>
#include <sys/epoll.h>
#include <thread>

#include "penstock/engine.h"

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
    uint32_t replied = 0;           // bytes of the answer to the hello
    uint64_t sent_in = UINT64_MAX;  // the wait after which the last put went out at once
    size_t attempts = 0;
    UniqueFd socket;
    std::unique_ptr<FarStream> stream;
    FarReply reply;
    Status why;  // it is gone
    engine::Time attempt_until{};
    engine::Time give_up_at{};
  };
  struct Stranger {
    UniqueFd socket;
    uint32_t got = 0;
    FarHello hello;
    bool is_welcome = false;  // and is to say that it begins
    FarReply begin;
    engine::Time until{};
  };

  // What an event is of: the upper half; the lower one is a PE or a stranger's place.
  static constexpr uint64_t kWake = uint64_t{1} << 32;
  static constexpr uint64_t kListener = uint64_t{2} << 32;
  static constexpr uint64_t kPeer = uint64_t{3} << 32;
  static constexpr uint64_t kStranger = uint64_t{4} << 32;

  explicit FarTcp(Options options);

  // far_tcp.cc: calls.
  Result<Peer*> reach(Lock& lock, uint32_t pe);
  Result<Peer*> reach_to_ask(Lock& lock, uint32_t pe);
  Status put_locked(Lock& lock, uint32_t pe, FarPlace dest, Bytes source, bool is_last);
  void gather(uint32_t pe, bool may_go_at_once);
  void note_put(uint32_t pe);
  Status applied_at(Lock& lock, uint32_t pe, uint64_t number);
  template <class Done>
  void wait_until(Lock& lock, Done&& is_done);

  // far_turns.cc: what is done in between, with the lock.
  bool turn(bool asks_all = false);
  bool handle(const ::epoll_event& event);
  bool receive(uint32_t pe);
  void flush(uint32_t pe);
  void send_gathered();
  void look_at_times();
  void look_for_ends();
  void lose(uint32_t pe, Status why);
  void run();
  void wake();

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
  UniqueFd wake_;
  std::vector<Peer> peers_;
  std::vector<uint32_t> open_;        // PEs
  std::vector<uint32_t> connecting_;  // PEs, some of which are no more
  std::vector<uint32_t> gathering_;
  std::vector<uint32_t> unapplied_;
  std::atomic<uint32_t> unapplied_count_{0};
  std::vector<Stranger> strangers_;
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

}  // namespace penstock::symm
