// Gives libFuzzer the target's seeds: as files in the directory that PENSTOCK_FUZZ_SEEDS names.
#include "fuzz.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  const char* directory = std::getenv("PENSTOCK_FUZZ_SEEDS");
  if (directory == nullptr) return 0;
  std::filesystem::create_directories(directory);
  size_t number = 0;
  for (const std::string& seed : penstock::fuzz::seeds()) {
    std::ofstream file(std::string(directory) + "/seed-" + std::to_string(number++),
                       std::ios::binary);
    file << seed;
  }
  return 0;
}
