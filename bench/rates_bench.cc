// How many files several programs make, and look at, a second: through penstock.h, hundreds in a
// call, each program a process of its own with a directory of its own.
//
//   rates_bench WHERE [clients=12] [seconds=2] [batch=256] [files=5000] [rounds=5]
//
// WHERE is a running node, as for penstock_connect(). Prints medians over the rounds.
#include "penstock.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

using Steady = std::chrono::steady_clock;

struct Settings {
  std::string where;
  int clients = 12;
  double seconds = 2;
  size_t batch = 256;
  size_t files = 5000;
  int rounds = 5;
};

[[noreturn]] void fail(const char* what, long result) {
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(static_cast<int>(-result)));
  std::_Exit(1);
}

double since(Steady::time_point begin) {
  return std::chrono::duration<double>(Steady::now() - begin).count();
}

// Files with these paths, until all are made or the time is over. How many.
uint64_t create(penstock_session* session, const std::vector<std::string>& paths,
                const Settings& settings) {
  const Steady::time_point begin = Steady::now();
  std::vector<penstock_new_file> list;
  uint64_t done = 0;
  while (done < paths.size() && since(begin) < settings.seconds) {
    list.clear();
    for (size_t i = done; i < std::min(paths.size(), done + settings.batch); ++i) {
      penstock_new_file file{};
      file.path = paths[i].c_str();
      file.mode = 0644;
      file.uid = static_cast<uid_t>(-1);
      file.gid = static_cast<gid_t>(-1);
      file.times[0].tv_nsec = file.times[1].tv_nsec = UTIME_NOW;
      list.push_back(file);
    }
    const ssize_t made = penstock_create_files(session, list.data(), list.size());
    if (made != static_cast<ssize_t>(list.size())) fail("create", made < 0 ? made : list[0].result);
    done += list.size();
  }
  return done;
}

uint64_t stat(penstock_session* session, const std::vector<std::string>& paths, size_t count,
              const Settings& settings) {
  std::vector<penstock_file_stat> list(std::min(settings.batch, count));
  const Steady::time_point begin = Steady::now();
  uint64_t done = 0;
  for (size_t at = 0; since(begin) < settings.seconds;) {
    for (penstock_file_stat& one : list) {
      one.path = paths[at].c_str();
      at = (at + 1) % count;
    }
    const ssize_t good = penstock_lstat_files(session, list.data(), list.size());
    if (good != static_cast<ssize_t>(list.size())) fail("stat", good < 0 ? good : list[0].result);
    done += list.size();
  }
  return done;
}

struct Done {
  uint64_t count = 0;
  double seconds = 0;
};

// A program, which waits for a byte before each part, and says how much it did.
void client(const Settings& settings, int number, int go, int say) {
  penstock_session* session = nullptr;
  if (const int result = penstock_connect(settings.where.c_str(), &session); result != 0) {
    fail("connect", result);
  }
  const std::string run = "/rates." + std::to_string(::getppid());
  (void)penstock_mkdir(session, run.c_str(), 0755);
  for (int round = 0; round < settings.rounds; ++round) {
    const std::string directory = run + "/" + std::to_string(number) + "." + std::to_string(round);
    if (const int result = penstock_mkdir(session, directory.c_str(), 0755); result != 0) {
      fail("mkdir", result);
    }
    std::vector<std::string> paths;
    for (size_t i = 0; i < 200'000; ++i) {
      paths.push_back(directory + "/file." + std::to_string(i));
    }
    uint64_t made = 0;
    for (int part = 0; part < 2; ++part) {
      char byte = 0;
      if (::read(go, &byte, 1) != 1) std::_Exit(1);
      const Steady::time_point begin = Steady::now();
      Done done;
      if (part == 0) {
        done.count = made = create(session, paths, settings);
      } else {
        done.count = stat(session, paths,
                          std::min<size_t>(std::max<uint64_t>(made, 1), settings.files), settings);
      }
      done.seconds = since(begin);
      if (::write(say, &done, sizeof done) != sizeof done) std::_Exit(1);
    }
  }
  penstock_close(session);
  std::_Exit(0);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int run(const Settings& settings) {
  int go[2], say[2];
  if (::pipe(go) != 0 || ::pipe(say) != 0) return 1;
  std::vector<pid_t> children;
  for (int i = 0; i < settings.clients; ++i) {
    const pid_t child = ::fork();
    if (child == 0) client(settings, i, go[0], say[1]);
    children.push_back(child);
  }
  ::close(say[1]);
  std::vector<double> rates[2];
  for (int round = 0; round < settings.rounds; ++round) {
    for (std::vector<double>& of : rates) {
      const std::string all(children.size(), 'g');
      if (::write(go[1], all.data(), all.size()) < 0) return 1;
      double rate = 0;
      for (size_t i = 0; i < children.size(); ++i) {
        Done done;
        if (::read(say[0], &done, sizeof done) != sizeof done) return 1;
        rate += static_cast<double>(done.count) / done.seconds;
      }
      of.push_back(rate);
    }
  }
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  std::printf("%d clients, %zu in a call: made %.0f files/s, looked at %.0f files/s\n",
              settings.clients, settings.batch, median(rates[0]), median(rates[1]));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  if (argc < 2) return 2;
  settings.where = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const size_t at = word.find('=');
    if (at == std::string::npos) return 2;
    const std::string name = word.substr(0, at), value = word.substr(at + 1);
    if (name == "clients") settings.clients = std::max(std::atoi(value.c_str()), 1);
    if (name == "seconds") settings.seconds = std::atof(value.c_str());
    if (name == "batch")
      settings.batch = static_cast<size_t>(std::max(std::atoi(value.c_str()), 1));
    if (name == "files")
      settings.files = static_cast<size_t>(std::max(std::atoi(value.c_str()), 1));
    if (name == "rounds") settings.rounds = std::max(std::atoi(value.c_str()), 1);
  }
  return run(settings);
}
