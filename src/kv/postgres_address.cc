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

bool is_plain(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || letter == '-' || letter == '.' || letter == '_' ||
         letter == '~';
}

// As part of a URL.
std::string escaped(const std::string& text) {
  std::string made;
  for (const char letter : text) {
    made += is_plain(letter) ? std::string(1, letter)
                             : fmt::format("%{:02X}", static_cast<unsigned char>(letter));
  }
  return made;
}

// What libpq hides when it shows options.
bool is_secret(const PQconninfoOption& option) {
  return option.dispchar != nullptr && option.dispchar[0] == '*';
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
      if (name == "password") made.has_password_ = true;
      made.words_.push_back({name, value, is_secret(*option)});
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

std::string Address::url() const {
  std::string user, database, rest;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) rest += (rest.empty() ? "?" : "&") + (name + ("=" + escaped(value)));
  };
  for (const Word& word : words_) {
    if (word.name == "user") user = escaped(word.value) + "@";
    if (word.name == "dbname") database = escaped(word.value);
    if (word.is_secret || word.name == "user" || word.name == "dbname") continue;
    add(word.name.c_str(), word.value);
  }
  std::string hosts, addresses;
  bool has_addresses = false;
  for (size_t i = 0; i < hosts_.size(); ++i) {
    const Host& host = hosts_[i];
    const bool is_numbers = host.host.find(':') != std::string::npos;
    const std::string name = is_numbers ? "[" + host.host + "]" : escaped(host.host);
    hosts += (i == 0 ? "" : ",") + name + (host.port.empty() ? "" : ":" + host.port);
    addresses += (i == 0 ? "" : ",") + host.address;
    has_addresses = has_addresses || !host.address.empty();
  }
  if (has_addresses) add("hostaddr", addresses);
  return "postgresql://" + user + hosts + "/" + database + rest;
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
