// nvshmem-info: which NVSHMEM this is, and what can be set.
#include "environment.h"
#include "nvshmem_host.h"

#include <cstdio>
#include <cstring>

namespace {

constexpr const char* kUsage = R"(nvshmem-info: what this NVSHMEM is.
  -a  all of it (also without options)
  -n  its name
  -v  its version
  -e  environment variables
  -h  this text
)";

void print_version() {
  std::printf("NVSHMEM %d.%d.%d\n", NVSHMEM_VENDOR_MAJOR_VERSION, NVSHMEM_VENDOR_MINOR_VERSION,
              NVSHMEM_VENDOR_PATCH_VERSION);
}

bool print(const char* option) {
  const bool is_all = std::strcmp(option, "-a") == 0;
  bool is_known = is_all;
  const auto is = [&](const char* name) {
    const bool wanted = is_all || std::strcmp(option, name) == 0;
    is_known = is_known || wanted;
    return wanted;
  };
  if (is("-n")) std::puts(NVSHMEM_VENDOR_STRING);
  if (is("-v")) print_version();
  if (is("-e")) std::fputs(penstock::nvshmem::info_text().c_str(), stdout);
  if (!is_all && is("-h")) std::fputs(kUsage, stdout);
  return is_known;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 1) print("-a");
  for (int i = 1; i < argc; ++i) {
    if (print(argv[i])) continue;
    std::fprintf(stderr, "nvshmem-info: there is no option '%s'\n%s", argv[i], kUsage);
    return 2;
  }
  return 0;
}
