// Reads Prometheus' text format as strictly as `promtool check metrics` and a server would.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace penstock::test {

struct Scrape {
  // By the sample's name with its labels as they stand: name{a="b"}.
  std::map<std::string, double> samples;
  std::vector<std::string> faults;  // each a line, and what is wrong with it

  // The sum of the samples whose name is this and whose labels contain `labels`.
  double sum(const std::string& name, const std::string& labels = "") const;
};

Scrape parse_exposition(const std::string& text);

}  // namespace penstock::test
