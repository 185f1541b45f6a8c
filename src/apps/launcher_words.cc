#include "launcher_words.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace penstock::apps {
namespace {

struct Other {
  std::string_view name;
  // What it is here: an option; "": nothing; kVariable, kVariables: -x.
  std::string_view here;
  size_t values = 1;  // words behind it that belong to it, where it is left out
};

constexpr std::string_view kVariable = "NAME VALUE";
constexpr std::string_view kVariables = "NAME,NAME";

constexpr Other kOthers[] = {
    {"-np", "--np"},
    {"-ppn", "--ppn"},
    {"-perhost", "--ppn"},
    {"-N", "--ppn"},
    {"-npernode", "--ppn"},
    {"--npernode", "--ppn"},
    {"-hosts", "--hosts"},
    {"-host", "--hosts"},
    {"-hostfile", "--hostfile"},
    {"-machinefile", "--hostfile"},
    {"-wdir", "--wdir"},
    {"-wd", "--wdir"},
    {"-oversubscribe", "--oversubscribe"},
    {"-tag-output", "--label"},
    {"--tag-output", "--label"},
    {"-prepend-rank", "--label"},
    {"-env", kVariable},
    {"-genv", kVariable},
    {"-envlist", kVariables},
    {"-genvlist", kVariables},
    {"-envall", "", 0},
    {"-genvall", "", 0},
    {"-mca", "", 2},
    {"--mca", "", 2},
    {"-map-by", ""},
    {"--map-by", ""},
    {"-bind-to", ""},
    {"--bind-to", ""},
    {"-rank-by", ""},
    {"--rank-by", ""},
    {"--allow-run-as-root", "", 0},
    {"--report-bindings", "", 0},
    {"-report-bindings", "", 0},
};

class Words {
 public:
  Words(const std::vector<std::string>& from, const TakesValue& takes_value)
      : from_(from), takes_value_(takes_value) {}

  std::vector<std::string> all() {
    while (at_ < from_.size() && from_[at_].size() >= 2 && from_[at_][0] == '-') {
      if (from_[at_] == "--") break;
      take_option();
    }
    if (at_ < from_.size() && from_[at_] != "--") own_.emplace_back("--");
    own_.insert(own_.end(), from_.begin() + static_cast<ptrdiff_t>(at_), from_.end());
    return std::move(own_);
  }

 private:
  // Empty where there is none: what needs it says so.
  std::string next() { return at_ < from_.size() ? from_[at_++] : std::string(); }

  void add_variable(const std::string& words) {
    own_.emplace_back("-x");
    own_.push_back(words);
  }

  void take_option() {
    const std::string word = next();
    const size_t equals = std::min(word.find('='), word.size());
    const std::string_view name = std::string_view(word).substr(0, equals);
    const auto* const other = std::find_if(std::begin(kOthers), std::end(kOthers),
                                           [&](const Other& each) { return each.name == name; });
    if (other == std::end(kOthers)) return add(word);
    if (other->here == kVariable) {
      const std::string variable = next();
      add_variable(variable + "=" + next());
    } else if (other->here == kVariables) {
      take_names(equals < word.size() ? word.substr(equals + 1) : next());
    } else if (!other->here.empty()) {
      add(std::string(other->here) + word.substr(equals));
    } else if (equals == word.size()) {
      at_ = std::min(at_ + other->values, from_.size());
    }
  }

  void take_names(const std::string& names) {
    for (size_t begin = 0; begin < names.size();) {
      const size_t end = std::min(names.find(',', begin), names.size());
      if (end > begin) add_variable(names.substr(begin, end - begin));
      begin = end + 1;
    }
  }

  void add(const std::string& option) {
    own_.push_back(option);
    if (takes_value_(option) && at_ < from_.size()) own_.push_back(next());
  }

  const std::vector<std::string>& from_;
  const TakesValue& takes_value_;
  std::vector<std::string> own_;
  size_t at_ = 0;
};

}  // namespace

std::vector<std::string> own_words(const std::vector<std::string>& words,
                                   const TakesValue& takes_value) {
  return Words(words, takes_value).all();
}

}  // namespace penstock::apps
