#include "model_files.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <unistd.h>

namespace penstock::apps {

Outcome<ModelFiles> find_models(const std::vector<std::string>& paths, const std::string& store) {
  ModelFiles models;
  std::string where;
  for (const std::string& path : paths) {
    const Outcome<console::Location> location = console::parse_location(path, store);
    const std::string here = location ? location->where : std::string();
    if (models.paths.empty()) {
      where = here;
    } else if (where != here) {
      return Failure{
          Code::cross_device,
          fmt::format("{} and {} are in different file systems: name them in commands of "
                      "their own",
                      paths.front(), path)};
    }
    models.paths.push_back(location ? location->path : path);
  }
  if (!where.empty()) {
    TRY_ASSIGN(models.session, console::connect_session(where));
  }
  return models;
}

Outcome<void> check_readable(const ModelFiles& models) {
  if (models.session.get() != nullptr) return {};
  for (const std::string& path : models.paths) {
    if (::access(path.c_str(), R_OK) == 0) continue;
    return Failure{Status::from_errno(errno), fmt::format("{}: {}", path, std::strerror(errno))};
  }
  return {};
}

std::optional<std::vector<int32_t>> parse_gpus(const std::string& text) {
  std::vector<int32_t> out;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int32_t number = -1;
    const auto [rest, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 0) return std::nullopt;
    out.push_back(number);
    if (rest == end) return out;
    if (*rest != ',') return std::nullopt;
    at = rest + 1;
  }
  return std::nullopt;
}

}  // namespace penstock::apps
