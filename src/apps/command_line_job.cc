#include "command_line.h"
#include "launcher_words.h"

namespace penstock::apps {

void CommandLine::add_job_commands() {
  const char* group = "Jobs";
  CLI::App* run = command("run", group, "Start the processes of a job, and wait for their end",
                          [this] { return run_run(run_); });
  run->add_option("-n,--np", run_.size,
                  "How many processes (default 1; on hosts: as many as they have slots)")
      ->check(CLI::Range(1, 65536));
  run->add_option("-H,--hosts,--host", run_.hosts,
                  "HOST[:SLOTS],...: where they run (repeat). Other machines are reached by ssh. "
                  "Without slots each host takes its part of them")
      ->allow_extra_args(false);
  run->add_option("-f,--hostfile,--machinefile", run_.host_file,
                  "The same from a file: in each line HOST, HOST:SLOTS or HOST slots=SLOTS")
      ->check(CLI::ExistingFile);
  run->add_option("--ppn,--perhost", run_.per_node,
                  "So many on each host, whatever its slots; without hosts: at most as many here")
      ->check(CLI::Range(1, 65536));
  run->add_flag("--oversubscribe", run_.oversubscribe, "More processes than hosts have slots");
  run->add_option("-x", run_.environment,
                  "NAME=VALUE: a variable that the processes have; NAME: as it is here (repeat)")
      ->allow_extra_args(false);
  run->add_option("--wdir", run_.directory, "The directory in which they run (default: this one)");
  run->add_flag("-l,--label", run_.label,
                "Print output in whole lines, each behind its rank: [3] ...");
  run->add_flag("--keep-going", run_.keep_going, "The end of one process does not end the others");
  run->add_option("--rsh", run_.shell,
                  "What reaches other machines, with options before HOST (default: ssh, or "
                  "PENSTOCK_RSH)");
  run->add_option("--remote-penstock", run_.remote_penstock,
                  "Where this program is there (default: where it is here, or "
                  "PENSTOCK_REMOTE_PENSTOCK)");
  run->add_option("--address", run_.address,
                  "An address of this machine that other hosts reach, or how names of its "
                  "interfaces begin (default: all, one after the other, or PENSTOCK_ADDRESS)");
  run->add_option("PROGRAM", run_.command, "The program, and its arguments")->required();
  run->footer(
      "Options stand before PROGRAM; those of Open MPI's and Hydra's launchers are taken, too: "
      "-np, -ppn, -N, -hosts, -hostfile, -machinefile, -wdir, -genv NAME VALUE, -genvlist A,B, "
      "--tag-output; --mca, --map-by, --bind-to and --rank-by are left out, as nothing is bound. "
      "Other hosts get PATH, LD_LIBRARY_PATH, CUDA_VISIBLE_DEVICES, what begins with PENSTOCK_, "
      "SHMEM_, SMA_, OSHMEM_, NVSHMEM_ or NCCL_, and what -x names. Ends with the exit code of the "
      "process that failed first, 128 + N for signal N; 126 when PROGRAM "
      "may not be run, 127 when there is none.");
  // Not for people: it waits for its task on standard input.
  command("run-node", "", "What 'run' starts on other machines", [] { return run_node_part(); });
}

void CommandLine::mark_program(std::vector<std::string>* words) const {
  const CLI::App* run = app_.get_subcommand("run");
  auto own = own_words({words->begin() + 1, words->end()}, [&](const std::string& word) {
    const CLI::Option* option = run->get_option_no_throw(word);
    return option != nullptr && option->get_items_expected_min() > 0;
  });
  words->resize(1);
  words->insert(words->end(), own.begin(), own.end());
}

}  // namespace penstock::apps
