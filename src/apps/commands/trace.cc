// `penstock trace`: single operations of a node, step by step.
#include "commands.h"
#include "commands/trace_text.h"
#include "node/admin.h"
#include "node/node_service.h"

#include <cstdio>
#include <fmt/format.h>
#include <fstream>

namespace penstock::apps {

int run_trace(const TraceOptions& options) {
  // Now, and not when all was seen.
  if (!options.file.empty() && !std::ofstream(options.file, std::ios::app)) {
    return fail("trace", {Code::io_error, options.file + ": cannot be written"});
  }
  Json operations = Json::array();
  const auto answer =
      ask_node(absolute_path(options.directory),
               {{"command", "trace"}, {"seconds", options.seconds}}, [&](const Json& line) {
                 for (const Json& one : line.value("operations", Json::array())) {
                   operations.push_back(one);
                 }
               });
  if (!answer) return fail("trace", answer.error());
  const uint64_t seen = answer->value("seen", uint64_t{0});
  const std::string summary =
      fmt::format("{} operations of rings in {:.3g} s; recorded {}{}\n", seen,
                  answer->value("seconds", 0.0), operations.size(),
                  operations.size() < seen
                      ? fmt::format(", spread over the time, {} left out", seen - operations.size())
                      : "");
  if (!options.json && options.file.empty()) {
    std::printf("%s\n%s", summary.c_str(), table_of_trace(operations).c_str());
    return kExitOk;
  }
  const std::string events = trace_events_of(operations).dump();
  if (options.file.empty()) {
    std::printf("%s\n", events.c_str());
    return kExitOk;
  }
  std::ofstream file(options.file, std::ios::trunc);
  file << events << "\n" << std::flush;
  if (!file) return fail("trace", {Code::io_error, options.file + ": cannot be written"});
  std::printf("%swritten to %s: open it in https://ui.perfetto.dev or chrome://tracing\n",
              summary.c_str(), options.file.c_str());
  return kExitOk;
}

}  // namespace penstock::apps
