// Looking at both trees after an operation, as root.
#pragma once

#include "intended.h"
#include "shared.h"
#include "side.h"

#include <array>
#include <optional>
#include <string>

struct statx;

namespace penstock::differential {

struct Finding {
  std::string field;
  std::string text;
};
using Found = std::optional<Finding>;

// Two descriptors, of the mount and of the host.
using Pair = std::array<int, 2>;

// The caller acts as root.
class Look {
 public:
  explicit Look(Shared& shared) : shared_(shared) {}
  // This process has locked ranges of files: closing any descriptor of such a file gives them up,
  // so from now on whatever is opened to be looked at is opened on both sides.
  void has_locks() { has_locks_ = true; }

  // A name below two directories, and the directory that holds it.
  Found at_name(const Operation& operation, Pair directories, const std::string& path);
  Found at_file(const Operation& operation, Pair files);
  Found at_bytes(const Operation& operation, Pair files);
  Found at_tree(const Operation& operation, Pair directories, const std::string& name);
  // `from`: the directory of the host that names start from, or -1; `file`: one that is asked.
  Found at_answers(const Operation& operation, int from, int file, const Answer& mount,
                   const Answer& host);
  // What is known of the file that a descriptor of the host has open.
  Note* note_of(int host_file, uint32_t& mode);

 private:
  Found one(const Operation& operation, Pair directories, const char* name, int flags,
            const std::string& what);
  Found compare(const Operation& operation, const std::string& what, const struct statx& mount,
                const struct statx& host, Pair directories, const char* name);
  Found times(const Operation& operation, const std::string& what, Note& note, bool fresh,
              const struct statx& mount, const struct statx& host);
  Found blocks(const Operation& operation, const std::string& what, const Note& note,
               const struct statx& mount, const struct statx& host, Pair directories,
               const char* name);
  Found children(const Operation& operation, Pair directories, const std::string& what);
  Found differ(Case seen, std::string text);

  Shared& shared_;
  bool has_locks_ = false;
  std::string bytes_[2];
};

}  // namespace penstock::differential
