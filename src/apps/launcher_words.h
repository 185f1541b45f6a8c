// Options of other launchers (Open MPI's, Hydra's) in the words of `penstock run`, so that scripts
// which call oshrun, nvshmrun or mpiexec keep their lines.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace penstock::apps {

// Whether an option of `penstock run` has its value in the next word.
using TakesValue = std::function<bool(const std::string& option)>;

// The words behind `run`, with "--" before the program. What says where on a machine a process
// runs, or of which parts the launcher is, is left out: processes are bound to nothing here.
std::vector<std::string> own_words(const std::vector<std::string>& words,
                                   const TakesValue& takes_value);

}  // namespace penstock::apps
