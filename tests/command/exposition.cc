#include "exposition.h"

#include <cmath>
#include <cstdlib>
#include <optional>
#include <regex>
#include <set>
#include <sstream>

namespace penstock::test {
namespace {

bool ends_with_any(const std::string& name, const std::vector<std::string>& ends) {
  for (const std::string& end : ends) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

class Parser {
 public:
  Scrape parse(const std::string& text) {
    if (text.empty() || text.back() != '\n') fault("", "the text does not end with a line end");
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) take(line);
    end_family();
    return std::move(scrape_);
  }

 private:
  void fault(const std::string& line, const std::string& why) {
    scrape_.faults.push_back(line + ": " + why);
  }

  void take(const std::string& line) {
    static const std::regex kHelp("# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)");
    static const std::regex kType("# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram)");
    std::smatch match;
    if (std::regex_match(line, match, kHelp)) return take_help(line, match[1]);
    if (std::regex_match(line, match, kType)) return take_type(line, match[1], match[2]);
    if (line.starts_with('#')) return fault(line, "a comment that is neither HELP nor TYPE");
    take_sample(line);
  }

  void take_help(const std::string& line, const std::string& name) {
    end_family();
    if (!families_.insert(name).second) fault(line, "this family was there before");
    family_ = name;
  }

  void take_type(const std::string& line, const std::string& name, const std::string& type) {
    if (name != family_ || !type_.empty()) fault(line, "TYPE does not follow its HELP");
    type_ = type;
    if ((type == "counter") != name.ends_with("_total")) fault(line, "counters end in _total");
    if (ends_with_any(name, {"_bucket", "_sum", "_count"})) fault(line, "a reserved ending");
    static const std::regex kForeignUnit(
        "(^|_)(ms|us|ns|milliseconds|microseconds|nanoseconds|minutes|kib|mib|kilobytes)(_|$)");
    if (std::regex_search(name, kForeignUnit)) fault(line, "not a base unit");
  }

  void take_sample(const std::string& line) {
    static const std::string kLabel =
        R"x([a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\
]|\[\n"])*")x";
    static const std::regex kSample("([a-zA-Z_:][a-zA-Z0-9_:]*)(\\{(" + kLabel + "(?:," + kLabel +
                                    ")*)\\})? (\\S+)");
    std::smatch match;
    if (!std::regex_match(line, match, kSample)) return fault(line, "no sample");
    const std::string name = match[1];
    char* end = nullptr;
    const std::string number = match[4];
    const double value = std::strtod(number.c_str(), &end);
    if (*end != '\0' || std::isnan(value)) fault(line, "no number");
    if (type_.empty()) return fault(line, "no TYPE before the sample");
    if (type_ == "histogram") {
      take_part(line, name, match[3], value);
    } else if (name != family_) {
      fault(line, "not of the family " + family_);
    }
    if (type_ == "counter" && value < 0) fault(line, "a counter below 0");
    check_labels(line, match[3]);
    const std::string series = name + match[2].str();
    if (!scrape_.samples.emplace(series, value).second) fault(line, "told twice");
    ++samples_of_family_;
  }

  void check_labels(const std::string& line, const std::string& labels) {
    static const std::regex kName(R"(([a-zA-Z_][a-zA-Z0-9_]*)=")");
    std::set<std::string> names;
    for (std::sregex_iterator it(labels.begin(), labels.end(), kName), last; it != last; ++it) {
      if (!names.insert((*it)[1]).second) fault(line, "a label twice");
      if ((*it)[1].str().starts_with("__")) fault(line, "a reserved label");
    }
  }

  // Of a histogram: buckets in order, then the sum, then the count.
  void take_part(const std::string& line, const std::string& name, std::string labels,
                 double value) {
    static const std::regex kBound(R"x(,?le="([^"]*)")x");
    std::smatch match;
    if (name == family_ + "_bucket") {
      if (!std::regex_search(labels, match, kBound)) return fault(line, "a bucket without le");
      const double bound =
          match[1] == "+Inf" ? INFINITY : std::strtod(match[1].str().c_str(), nullptr);
      labels = std::regex_replace(labels, kBound, "");
      if (labels != series_) start_series(labels);
      if (bound_ && bound <= *bound_) fault(line, "buckets out of order");
      if (value < cumulated_) fault(line, "buckets are not cumulative");
      bound_ = bound;
      cumulated_ = value;
    } else if (name == family_ + "_sum") {
      if (labels != series_ || !bound_ || std::isfinite(*bound_))
        fault(line, "no bucket +Inf before the sum");
      has_sum_ = true;
    } else if (name == family_ + "_count") {
      if (labels != series_ || !has_sum_) fault(line, "no sum before the count");
      if (value != cumulated_) fault(line, "the count is not that of the last bucket");
      bound_.reset();
      start_series("-");
    } else {
      fault(line, "not of the histogram " + family_);
    }
  }

  void start_series(const std::string& labels) {
    if (bound_ && series_ != "-") fault(family_, "a histogram without a count: " + series_);
    series_ = labels;
    bound_.reset();
    cumulated_ = 0;
    has_sum_ = false;
  }

  void end_family() {
    if (!family_.empty() && type_.empty()) fault(family_, "no TYPE");
    if (!family_.empty() && samples_of_family_ == 0) fault(family_, "no sample");
    start_series("-");
    family_.clear();
    type_.clear();
    samples_of_family_ = 0;
  }

  Scrape scrape_;
  std::set<std::string> families_;
  std::string family_, type_;
  size_t samples_of_family_ = 0;
  // Of a histogram's series.
  std::string series_ = "-";
  std::optional<double> bound_;
  double cumulated_ = 0;
  bool has_sum_ = false;
};

}  // namespace

double Scrape::sum(const std::string& name, const std::string& labels) const {
  double sum = 0;
  for (const auto& [series, value] : samples) {
    if (series.substr(0, series.find('{')) != name) continue;
    if (series.find(labels) != std::string::npos) sum += value;
  }
  return sum;
}

Scrape parse_exposition(const std::string& text) {
  return Parser().parse(text);
}

}  // namespace penstock::test
