#include "describe.h"

#include <string>
#include <vector>

namespace penstock::apps {
namespace {

// The words of "TEXT:{text,json}"; none where a value is free.
std::vector<std::string> choices_of(const std::string& type) {
  std::vector<std::string> choices;
  const size_t begin = type.find('{');
  const size_t end = type.rfind('}');
  if (begin == std::string::npos || end == std::string::npos) return choices;
  for (size_t at = begin + 1; at <= end;) {
    const size_t comma = std::min(type.find(',', at), end);
    choices.push_back(type.substr(at, comma - at));
    at = comma + 1;
  }
  return choices;
}

Json describe_option(const CLI::Option& option) {
  Json names = Json::array();
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  const bool takes_value = option.get_items_expected_max() > 0;
  const std::string type = takes_value ? option.get_type_name() : "";
  return {{"names", std::move(names)},
          {"place", option.get_positional() ? option.get_name(true) : ""},
          {"value", type},
          {"choices", choices_of(type)},
          {"description", option.get_description()},
          {"required", option.get_required()},
          {"repeated", option.get_items_expected_max() > 1}};
}

}  // namespace

Json describe(const CLI::App& app) {
  Json options = Json::array();
  for (const CLI::Option* option : app.get_options()) options.push_back(describe_option(*option));
  Json commands = Json::array();
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (command->get_group().empty()) continue;  // not for people
    commands.push_back(describe(*command));
  }
  return {{"name", app.get_name()},         {"aliases", app.get_aliases()},
          {"group", app.get_group()},       {"description", app.get_description()},
          {"footer", app.get_footer()},     {"options", std::move(options)},
          {"commands", std::move(commands)}};
}

}  // namespace penstock::apps
