// One of the two trees as one process sees it: what it has open there.
#pragma once

#include "operation.h"

#include <dirent.h>
#include <map>
#include <memory>
#include <string>
#include <sys/stat.h>

namespace penstock::differential {

// How an operation ended, as far as programs rely on it.
struct Answer {
  int64_t value = 0;  // what the call returned, without a number that means nothing
  int error = 0;
  std::string data;  // bytes, names, attributes: whatever came back

  friend bool operator==(const Answer&, const Answer&) = default;
};

// Operations that go wrong on the first side on purpose, to test the tester.
enum class Fault { none, append_loses_a_byte, old_bytes_after_growing, rename_keeps_the_target };

// A listing under way.
struct Stream {
  struct Entry {
    uint64_t inode = 0;
    int64_t changed = 0;  // the nanosecond of its change, as it is told
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  DIR* listing = nullptr;
  int mount = 0;
  std::vector<std::string> seen;
  std::vector<long> places;  // where the listing stood before each of them
  std::map<std::string, Entry> before;
  bool known_before = false;
};

struct Mapping {
  char* memory = nullptr;
  size_t length = 0;
  bool writable = false;
  int file = -1;  // a descriptor of the file for those who look
  int64_t offset = 0;
};

class Side {
 public:
  // `tops`: the same directory through each mount, open; they are closed with this. Where there is
  // one, all mounts are that one. `beside_others`: the tree under test has several mounts.
  Side(std::vector<int> tops, Fault fault, bool beside_others);
  ~Side();
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  int top(int mount) const { return tops_[static_cast<size_t>(mount) % tops_.size()]; }
  int file(int slot) const { return files_[index(slot)].descriptor; }
  bool direct(int slot) const { return files_[index(slot)].direct; }
  // The mount through which it was opened.
  int mount_of(int slot) const { return files_[index(slot)].mount; }
  // Closes what was there.
  int put(int slot, int descriptor, bool direct, int mount);
  Stream& stream(int slot) { return streams_[static_cast<size_t>(slot) % kStreams]; }
  Mapping& mapping(int slot) { return maps_[static_cast<size_t>(slot) % kMaps]; }
  Fault fault() const { return fault_; }
  bool beside_others() const { return beside_others_; }
  // Where names start from, for the calls that follow: an open directory or a top. The error.
  int enter(int at, int mount);
  // The mount through which calls name what they name since enter().
  int mount() const { return mount_; }
  // Closes the top that it has of a mount, which is another one now.
  void replace_top(int mount, int top);
  // Of this length, on a page's border; what is in it stays until the next call.
  char* memory(size_t length);

 private:
  struct File {
    int descriptor = -1;
    bool direct = false;
    int mount = 0;
  };
  static size_t index(int slot) { return static_cast<size_t>(slot) % kFiles; }

  std::vector<int> tops_;
  int mount_ = 0;
  const Fault fault_;
  const bool beside_others_;
  std::array<File, kFiles> files_;
  std::array<Stream, kStreams> streams_;
  std::array<Mapping, kMaps> maps_;
  struct Free {
    void operator()(char* memory) const;
  };
  std::unique_ptr<char, Free> memory_;
  size_t capacity_ = 0;
};

// Runs it on one side; the process stands in the directory that it starts from.
Answer run_on(Side& side, const Operation& operation);

// Those that run_on() chooses from.
Answer run_on_names(const Side& side, const Operation& operation);
Answer run_on_attributes(Side& side, const Operation& operation);
Answer run_on_file(Side& side, const Operation& operation);
Answer run_on_file_state(Side& side, const Operation& operation);
Answer run_on_mapping(Side& side, const Operation& operation);
Answer run_on_stream(Side& side, const Operation& operation);

// From a system call's result.
Answer answer_of(int64_t result);
Answer answer_of(int64_t result, const char* bytes);
std::string to_text(const Answer& answer);

// What `seed` stands for.
void fill(char* bytes, size_t length, int64_t seed);
std::string xattr_name(int which);
// Before a set-group-id bit is given: the kernel judges by the group that it was told last
// ("set-group-id given ..." in intended.cc).
void ask_for_group(int directory, const char* name);

// Without a set-group-id bit that gives nobody anything ("idle set-group-id" in intended.cc).
uint32_t plain_mode(uint32_t mode);

}  // namespace penstock::differential
