// A hostile client: a process that does to a node whatever a process of an ordinary user can do
// through the session's socket, shared memory and the mount. What it does follows from a seed, but
// for what the races that it seeks add.
//
// Most of it is right, so that it comes to the disk, and little of it is wrong: random bytes end a
// session before it has anything that could be harmed.
#pragma once

#include "tally.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base.h"
#include "penstock/engine.h"
#include "penstock/ring.h"
#include "penstock/wire.h"

namespace penstock::test {

struct Victim {
  std::string socket;
  std::string mount;   // empty: there is none
  std::string shared;  // beginning of the names of what attackers make in /dev/shm
};

// How a session behaves, from its beginning to its end.
enum class Temper : uint8_t {
  orderly,    // like a program that works, over memory that changes
  scribbler,  // writes over its rings
  mute,       // never reads a reply
  babbler,    // sends what is no message
};

// Works in the directory /public of the store, which must be open to everybody.
class Attacker {
 public:
  Attacker(Victim victim, Tally& tally, uint64_t seed);
  ~Attacker();
  Attacker(const Attacker&) = delete;
  Attacker& operator=(const Attacker&) = delete;

  // Attacks until `time` has passed; what is open then stays so, for the kernel to close.
  void run(std::chrono::milliseconds time);

 private:
  struct Memory {
    UniqueFd fd;
    uint64_t size = 0;
    bool steady = false;  // keeps its length
  };
  struct Ring {
    uint32_t id = 0;
    UniqueFd memory;
    UniqueFd wake;
    ring::Geometry geometry;
    std::vector<uint32_t> tails;
    std::vector<uint32_t> taken;  // completions

    uint64_t lane_at(uint32_t lane) const {
      return ring::kHeaderBytes + lane * geometry.lane_bytes();
    }
    uint64_t completion_at(uint32_t lane, uint32_t index) const {
      return lane_at(lane) + sizeof(ring::LaneControl) +
             geometry.entries * sizeof(ring::Submission) +
             index % geometry.entries * sizeof(ring::Completion);
    }
  };

  // attacker.cc
  uint64_t below(uint64_t bound) { return random_.below(bound); }
  bool chance(uint64_t percent) { return below(100) < percent; }
  uint64_t some_number();
  uint32_t some_id() { return static_cast<uint32_t>(below(8)); }
  std::string some_bytes(uint64_t length);
  void step();
  void connect();
  void set_up();
  void hang_up();
  bool send_bytes(std::string_view bytes, const std::vector<int>& fds = {});
  void read_replies(int most, int wait_ms);
  void take_reply(const wire::Reply& reply);

  // attacker_requests.cc
  std::string some_path();
  wire::RequestBody some_body();
  wire::RequestBody body_of_file();
  wire::RequestBody body_of_path();
  wire::RequestBody body_of_changes();
  wire::RequestBody body_of_memory();
  wire::RequestBody body_of_the_rest();
  wire::RequestBody body_of_many();
  wire::RequestBody body_of_new_files();
  int some_descriptor();
  void send(const wire::RequestBody& body, bool rightly);
  void send_request() { send(some_body(), chance(97)); }
  void send_garbage();

  // attacker_memory.cc
  void make_memory(bool steady);
  UniqueFd make_huge_memory(uint64_t* size);
  void register_memory(uint32_t region, bool steady);
  void change_memory(engine::Random& random);

  // attacker_rings.cc
  void make_ring(uint32_t id, bool rightly);
  ring::Submission right_submission();
  ring::Submission wrong_submission();
  void use_ring();
  void take_completions(Ring& ring, uint32_t lane, uint32_t done);
  void scribble_ring();
  void wake(Ring& ring);

  // attacker_names.cc
  std::string some_link_name();
  std::string some_target();
  std::string shared_name();
  void make_shared_file();
  void make_link(const std::string& place);
  void use_names();
  void use_ioctl();

  // attacker_files.cc
  void use_files();
  void use_open_file(int fd);
  void use_file_names(const std::string& path);

  const Victim victim_;
  Tally& tally_;
  engine::SeededRandom random_;
  UniqueFd socket_;
  Temper temper_ = Temper::orderly;
  uint64_t steps_left_ = 0;  // of this session
  uint64_t last_id_ = 0;
  std::map<uint64_t, size_t> asked_;  // requests without a reply: which alternative of the body
  std::vector<Ring> rings_;
  std::vector<UniqueFd> odd_descriptors_;
  std::vector<char> buffer_;
  std::string token_;                  // of the last file that was opened
  std::array<uint64_t, 8> regions_{};  // bytes of each that was registered rightly

  std::mutex mutex_;  // for memories_, which a thread changes while the node uses them
  std::vector<Memory> memories_;
  std::atomic<bool> over_{false};
};

}  // namespace penstock::test
