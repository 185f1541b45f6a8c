// Runs a fuzz target over generated inputs, for compilers without libFuzzer: the same inputs each
// time. Usage: NAME_fuzz [FILE...]; with files, each of them is an input.
// PENSTOCK_SEED=S, PENSTOCK_FUZZ_RUNS=N: other inputs, and how many; PENSTOCK_FUZZ_FIRST=I: begins
// with number I, as a failure says.
#include "fuzz.h"
#include "mutator.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <unistd.h>

namespace penstock::fuzz {
namespace {

constexpr uint64_t kRunsDefault = 20'000;
// No input takes a millionth of that; what hangs must not hang for ever.
constexpr unsigned kSecondsForOne = 60;

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 0) : otherwise;
}

uint64_t seed = 1;
volatile uint64_t current = 0;

// In a signal's handler: no memory may be taken.
void say_which(int signal) {
  char text[160];
  const int length = std::snprintf(
      text, sizeof text,
      "\nsignal %d; try again with PENSTOCK_SEED=%llu PENSTOCK_FUZZ_FIRST=%llu\n", signal,
      static_cast<unsigned long long>(seed), static_cast<unsigned long long>(current));
  (void)!::write(STDERR_FILENO, text, static_cast<size_t>(length));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run_one(const std::string& input) {
  ::alarm(kSecondsForOne);
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

int run_files(int count, char** paths) {
  for (int i = 0; i < count; ++i) {
    std::ifstream file(paths[i], std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "%s: cannot be read\n", paths[i]);
      return 1;
    }
    run_one(std::string(std::istreambuf_iterator<char>(file), {}));
  }
  return 0;
}

int run_generated() {
  seed = number_from("PENSTOCK_SEED", 1);
  const uint64_t first = number_from("PENSTOCK_FUZZ_FIRST", 0);
  const uint64_t runs = number_from("PENSTOCK_FUZZ_RUNS", kRunsDefault);
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM}) {
    std::signal(signal, say_which);
  }
  std::vector<std::string> beginnings = seeds();
  if (beginnings.empty()) beginnings.emplace_back();
  Mutator mutator(beginnings, seed);
  for (uint64_t i = 0; i < runs; ++i) {
    current = first + i;
    run_one(mutator.input(first + i));
  }
  return 0;
}

}  // namespace
}  // namespace penstock::fuzz

int main(int argc, char** argv) {
  return argc > 1 ? penstock::fuzz::run_files(argc - 1, argv + 1) : penstock::fuzz::run_generated();
}
