// `penstock check symm`: how the PEs of a job reach one another's memory.
#include "check/symm_check.h"

#include "commands.h"

#include <cstdio>

namespace penstock::apps {
namespace {

int print_report(const bench::SymmReport& report, const SymmCheckOptions& options) {
  if (options.json) {
    std::printf("%s\n", json_of(report).dump(2).c_str());
  } else {
    std::printf("%s", text_of(report).c_str());
  }
  return is_well(report) ? kExitOk : kExitDifferent;
}

// One of a job's: PE 0 says what was found.
int check_as_pe(job::Member& member, const SymmCheckOptions& options) {
  if (options.pes != 0) {
    std::fprintf(stderr, "penstock check symm: -n goes without a job; this one has %u PEs\n",
                 member.place().size);
    return kExitUsage;
  }
  const auto report = bench::check_symm(member, options.seconds);
  if (!report) return fail("check symm", report.error());
  // Before it ends, which for the others is no trouble then.
  member.leave();
  return member.place().rank == 0 ? print_report(*report, options) : kExitOk;
}

}  // namespace

int run_check_symm(const SymmCheckOptions& options) {
  const auto member = bench::job_with_others();
  if (!member) return fail("check symm", member.error());
  if (*member != nullptr) return check_as_pe(**member, options);
  const auto output = bench::output_of_job(
      {"check", "symm", "--json", "--seconds", fmt::format("{}", options.seconds)}, options.pes);
  if (!output) return fail("check symm", output.error());
  const Json json = parse_json(*output);
  if (!json.is_object())
    return fail("check symm", {Code::bad_message, "PE 0 has not said what it found"});
  return print_report(bench::report_from(json), options);
}

}  // namespace penstock::apps
