// What is done with all files that are in use at once.
#pragma once

#include "closer.h"

namespace penstock::client {

// Thread safe; has no data of its own. Takes the control locks of inodes one after the other.
class AllFiles {
 public:
  AllFiles(Core& core, Closer& closer) : core_(core), closer_(closer) {}

  // Data, lengths, times and names that were written before are durable.
  Status sync();
  // At the end of the file system: lengths are recorded as final, and all write sessions ended.
  Status record_final();

 private:
  struct Syncing;
  Status record(std::vector<Syncing>& all);

  Core& core_;
  Closer& closer_;
};

}  // namespace penstock::client
