// `penstock bench`: our figures and the reference's, in turn, in one run.
#include "penstock/bench.h"

#include "commands.h"

#include <cstdio>
#include <fstream>

namespace penstock::apps {

int run_bench(const BenchOptions& given) {
  const bench::BenchOptions options = bench::with_defaults(given.how);
  // Now, and not when all was measured.
  if (!given.json_file.empty() && !std::ofstream(given.json_file, std::ios::app)) {
    return fail("bench", {Code::io_error, given.json_file + ": cannot be written"});
  }
  if (!bench::start_counting_system_calls()) {
    std::fprintf(stderr, "system calls are not counted (needs root and a mounted tracefs)\n");
  }
  std::printf("%s; scratch space in %s\n\n", bench::describe_machine().c_str(),
              options.directory.c_str());
  std::fflush(stdout);
  std::vector<bench::BenchLine> lines;
  int exit_code = kExitOk;
  for (const std::string& suite :
       given.suites.empty() ? bench::default_suite_names() : given.suites) {
    const Outcome<void> result = bench::run_suite(suite, options, &lines);
    // What was measured before is worth telling.
    if (!result) exit_code = fail("bench", result.error());
  }
  std::fprintf(stderr, "\n");
  // A list without lines, too, says what there is to read.
  if (!given.json_file.empty()) {
    const auto written = bench::write_report(given.json_file, lines);
    if (!written) exit_code = fail("bench", written.error());
  }
  if (!lines.empty()) {
    bench::print_report(lines);
  } else if (exit_code == kExitOk) {
    return fail("bench", {Code::not_supported, "nothing could be measured: see above why"});
  }
  return exit_code;
}

}  // namespace penstock::apps
