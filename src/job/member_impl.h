// What stands behind a Member: its connection to the room, and the thread that reads it.
#pragma once

#include "connection.h"
#include "frame.h"
#include "node_room.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>

#include "penstock/job/member.h"

namespace penstock::job {

class Member::Impl {
 public:
  // A job of one.
  Impl();
  ~Impl();

  // Says hello and waits for a place. `room` is this process's own, if it has one.
  static Outcome<std::unique_ptr<Impl>> join(UniqueFd socket, const Hello& hello, Time deadline,
                                             std::unique_ptr<NodeRoom> room);
  bool is_forked() const { return ::getpid() != process_; }

  const Place& place() const { return place_; }
  uint32_t node_of(uint32_t rank) const;
  Outcome<std::vector<Brought>> exchange(const Meeting& meeting, const Bring& bring, Time deadline);
  const std::atomic<uint32_t>& trouble() const { return trouble_; }
  const std::atomic<uint32_t>& departures() const { return departures_; }
  void follow(uint32_t* word, std::vector<uint32_t> ranks, Time::duration after_leave);
  void unfollow(uint32_t* word);
  std::vector<End> ends() const;
  bool has_ended(uint32_t rank) const;
  void leave();
  void abort(int code, const std::string& why);

 private:
  // One that waits in exchange(); on its stack.
  struct Waiter {
    const Meeting* meeting = nullptr;
    bool done = false;
    std::vector<Brought> brought;
    Failure failure;
  };

  // A word of others, and whose ends it counts.
  struct Follower {
    uint32_t* word = nullptr;
    std::vector<uint32_t> ranks;
    Time::duration after_leave{};
    bool is_left = false;          // by one of them, or more
    std::optional<Time> due = {};  // when that counts; none: it has, or nobody has left

    bool has(uint32_t rank) const;
    void count(const End& end) const;
    void note_left(Time now);
  };

  Status start(const Welcome& welcome, uint32_t rank);
  std::optional<Failure> fault_of(const Meeting& meeting, const Bring& bring) const;
  Outcome<std::vector<Brought>> exchange_alone(const Bring& bring) const;
  void watch();
  // All of these with mutex_ held.
  void send(FrameHeader header, std::shared_ptr<const Content> content, bool with_descriptors);
  void flush();
  void receive();
  void take(Frame& frame);
  void take_brought(Waiter& waiter, Frame& frame);
  void take_ended(const EndedBody& ended);
  void note(const End& end);
  int count_leaves();
  void lose(const std::string& why);
  void wake();

  std::unique_ptr<NodeRoom> room_;
  Place place_;
  std::vector<uint32_t> node_of_;
  const pid_t process_ = ::getpid();
  std::atomic<uint32_t> trouble_{0};
  std::atomic<uint32_t> departures_{0};
  std::vector<std::atomic<uint8_t>> ended_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Connection> connection_;  // none: alone, or lost
  std::map<uint64_t, Waiter*> waiters_;
  uint64_t serial_ = 1;
  std::vector<End> ends_;
  std::vector<Follower> followers_;
  bool left_ = false;      // leave() or abort() was called
  bool answered_ = false;  // the room knows that
  bool blocked_ = false;   // descriptors wait for others to be taken
  bool stopping_ = false;
  UniqueFd wake_;
  std::thread watcher_;
};

}  // namespace penstock::job
