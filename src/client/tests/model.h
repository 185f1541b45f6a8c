// What a file system may show after a crash: for every file the contents it had since it was last
// synced, for the names the states since they were last durable.
#pragma once

#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "penstock/client.h"

namespace penstock::client {

struct ModelFile {
  InodeId inode;
  bool known_durable = false;  // its creation is
  // Oldest: as of the last sync. Newest: as it is now.
  std::vector<std::string> history{std::string()};
  // The only change since the last sync was to make it shorter.
  bool only_cut = false;

  const std::string& now() const { return history.back(); }
  bool dirty() const { return history.size() > 1; }
  void change(std::string content) {
    known_durable |= content.size() < now().size();  // a cut may be
    only_cut = history.size() == 1 && content.size() < now().size();
    history.push_back(std::move(content));
  }
  void synced() {
    history.erase(history.begin(), history.end() - 1);
    known_durable = true;
    only_cut = false;
  }
  // These bytes are durable, whichever of the states the rest is in.
  void durable(uint64_t offset, const std::string& bytes);
  // An empty string if `found` may be what a crash left, else what is wrong with it.
  std::string judge(const std::string& found) const;
};

std::string with_write(std::string content, uint64_t offset, const std::string& bytes);

using Names = std::map<std::string, std::shared_ptr<ModelFile>>;

}  // namespace penstock::client
