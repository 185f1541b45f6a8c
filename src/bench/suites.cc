#include "aged_suite.h"
#include "cache_suite.h"
#include "cluster_suite.h"
#include "durable_suite.h"
#include "fair_suite.h"
#include "gpu_suite.h"
#include "load_suite.h"
#include "metrics_suite.h"
#include "mount_suite.h"
#include "net_suite.h"
#include "ring_suite.h"
#include "small_suite.h"
#include "symm_suite.h"
#include "usrbio_suite.h"

#include <algorithm>
#include <cstdlib>

#include "penstock/bench.h"

namespace penstock::bench {
namespace {

using Suite = Outcome<void> (*)(const BenchOptions&, std::vector<BenchLine>*);

struct NamedSuite {
  const char* name;
  Suite run;
};

template <const char* row>
Outcome<void> small_row(const BenchOptions& options, std::vector<BenchLine>* lines) {
  return small_suite(options, row, lines);
}

constexpr char kSmall[] = "small";
constexpr char kSmallImport[] = "small.import.4k";
constexpr char kSmallReimport[] = "small.reimport.4k";
constexpr char kSmallVerify[] = "small.verify.4k";
constexpr char kSmallCold[] = "small.read.cold";
constexpr char kSmallWarm[] = "small.read.warm.4k";
constexpr char kSmallMixed[] = "small.read.warm.mixed";

constexpr NamedSuite kSuites[] = {
    {"ring", ring_suite},
    {"cache", cache_suite},
    {"mount", mount_suite},
    {"store", store_suite},
    {kSmall, small_row<kSmall>},
    {"aged", aged_suite},
    {"durable", durable_suite},
    {"fair", fair_suite},
    {"gpu", gpu_suite},
    {"load", load_suite},
    {"usrbio", usrbio_suite},
    {"metrics", metrics_suite},
    {"cluster", cluster_suite},
    {"net", net_suite},
    {"symm", symm_suite},
    {kSmallImport, small_row<kSmallImport>},
    {kSmallReimport, small_row<kSmallReimport>},
    {kSmallVerify, small_row<kSmallVerify>},
    {kSmallCold, small_row<kSmallCold>},
    {kSmallWarm, small_row<kSmallWarm>},
    {kSmallMixed, small_row<kSmallMixed>},
};

}  // namespace

BenchOptions with_defaults(BenchOptions options) {
  if (options.directory.empty()) {
    const char* temporary = std::getenv("TMPDIR");
    options.directory = temporary != nullptr ? temporary : "/var/tmp";
  }
  if (options.file_bytes == 0) options.file_bytes = options.quick ? kGiB : 4 * kGiB;
  if (options.rounds == 0) options.rounds = options.quick ? 3 : 5;
  if (options.seconds == 0) options.seconds = options.quick ? 1.5 : 4;
  return options;
}

const std::vector<std::string>& suite_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const NamedSuite& suite : kSuites) all.emplace_back(suite.name);
    return all;
  }();
  return names;
}

const std::vector<std::string>& default_suite_names() {
  static const std::vector<std::string> names = {"ring", "cache", "mount", "store"};
  return names;
}

Outcome<void> run_suite(const std::string& name, const BenchOptions& options,
                        std::vector<BenchLine>* lines) {
  const auto* const suite =
      std::ranges::find_if(kSuites, [&](const NamedSuite& one) { return name == one.name; });
  if (suite == std::end(kSuites)) {
    return Failure{Code::invalid_argument, "bench: there is no suite '" + name + "'"};
  }
  return suite->run(options, lines);
}

}  // namespace penstock::bench
