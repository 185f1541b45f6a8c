#include "postgres_address.h"

#include "limits.h"

#include <algorithm>
#include <memory>

namespace penstock::kv::postgres {
namespace {

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts(1);
  for (const char letter : list) {
    if (letter == ',') {
      parts.emplace_back();
    } else {
      parts.back().push_back(letter);
    }
  }
  return parts;
}

// Element `which` of a list; a list of one serves all.
const std::string& element(const std::vector<std::string>& list, size_t which) {
  return list[list.size() == 1 ? 0 : which];
}

}  // namespace

Outcome<Address> Address::parse(const std::string& url) {
  char* complaint = nullptr;
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> options(
      PQconninfoParse(url.c_str(), &complaint), &PQconninfoFree);
  // What libpq says may repeat the whole string, with its password.
  PQfreemem(complaint);
  const auto refuse = [](const char* reason) {
    return Failure{Code::invalid_argument,
                   fmt::format("metadata database: its address is not understood: {} (it is like "
                               "postgresql://USER@HOST:PORT/DATABASE; passwords are best in the "
                               "file ~/.pgpass)",
                               reason)};
  };
  if (options == nullptr) return refuse("it is no PostgreSQL URL");
  Address made;
  std::string hosts, addresses, ports, database;
  for (const PQconninfoOption* option = options.get(); option->keyword != nullptr; ++option) {
    if (option->val == nullptr) continue;
    const std::string name = option->keyword;
    const std::string value = option->val;
    if (name == "host") {
      hosts = value;
    } else if (name == "hostaddr") {
      addresses = value;
    } else if (name == "port") {
      ports = value;
    } else {
      if (name == "dbname") database = value;
      made.words_.push_back({name, value});
    }
  }
  const std::vector<std::string> names = split(hosts), numbers = split(addresses),
                                 doors = split(ports);
  const size_t count = std::max(names.size(), numbers.size());
  const auto fits = [&](const auto& list) { return list.size() == 1 || list.size() == count; };
  if (!fits(names) || !fits(numbers) || !fits(doors)) {
    return refuse("it has not as many ports or addresses as hosts");
  }
  for (size_t i = 0; i < count; ++i) {
    const Host host{element(names, i), element(numbers, i), element(doors, i)};
    made.name_ += (i == 0 ? "" : ",") + (host.host.empty() ? host.address : host.host);
    if (!host.port.empty()) made.name_ += ":" + host.port;
    made.hosts_.push_back(host);
  }
  made.name_ += "/" + database;
  return made;
}

PGconn* Address::start(size_t which) const {
  const Host& host = hosts_[which];
  std::vector<const char*> names, values;
  const auto add = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    names.push_back(name);
    values.push_back(value.c_str());
  };
  // Ours first: of two of one name libpq takes the last.
  for (const auto& [name, value] : kPostgresConnectionWords) {
    names.push_back(name);
    values.push_back(value);
  }
  for (const Word& word : words_) add(word.name.c_str(), word.value);
  add("host", host.host);
  add("hostaddr", host.address);
  add("port", host.port);
  names.push_back(nullptr);
  values.push_back(nullptr);
  return PQconnectStartParams(names.data(), values.data(), 0);
}

}  // namespace penstock::kv::postgres
