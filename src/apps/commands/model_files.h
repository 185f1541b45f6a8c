// Where the files of models are, and which GPUs a command line names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base.h"
#include "penstock/console.h"

namespace penstock::apps {

// Files of one file system: a session's, or (`session` null) any of this machine's.
struct ModelFiles {
  console::Session session;
  std::vector<std::string> paths;  // there
};

// All paths must be in one file system: STORE:/path and paths inside a mount are a session's, a
// bare absolute path with `store` too; all others are files of this machine.
Outcome<ModelFiles> find_models(const std::vector<std::string>& paths, const std::string& store);

// Files of this machine are there, and may be read. Those of a session are for it to look at.
Outcome<void> check_readable(const ModelFiles& models);

// "0,1": each number once. Nothing when it is no such list.
std::optional<std::vector<int32_t>> parse_gpus(const std::string& text);

}  // namespace penstock::apps
