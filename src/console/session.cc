#include <filesystem>

#include "penstock/console.h"
#include "penstock/fuse.h"

namespace penstock::console {
namespace {

namespace fs = std::filesystem;

std::string normal_path(const std::string& path) {
  std::string normal = fs::path(path).lexically_normal().string();
  while (normal.size() > 1 && normal.back() == '/') normal.pop_back();
  return normal;
}

// The mount that holds `path` (which need not exist), if it is one of ours.
std::optional<MountEntry> mount_holding(const std::string& path) {
  std::error_code error;
  const std::string wanted = normal_path(fs::absolute(path, error).string());
  const std::vector<MountEntry> mounts = read_mounts();
  const MountEntry* const mount = mount_of_path(mounts, wanted);
  if (mount == nullptr || !fuse::is_ours(*mount)) return std::nullopt;
  return *mount;
}

}  // namespace

Failure api_failure(int result) {
  return {Status::from_errno(-result), penstock_last_error()};
}

Outcome<Session> connect_session(const std::string& where) {
  penstock_session* session = nullptr;
  const int result = penstock_connect(where.c_str(), &session);
  if (result < 0) return api_failure(result);
  return Session(session);
}

Outcome<Session> open_store_session(const std::string& directory, bool create) {
  penstock_session* session = nullptr;
  const int result = penstock_open_store(directory.c_str(), create ? 1 : 0, &session);
  if (result < 0) return api_failure(result);
  return Session(session);
}

Outcome<Region> create_region(penstock_session* session, size_t size) {
  penstock_region* region = nullptr;
  const int result = penstock_region_create(session, size, &region);
  if (result < 0) return api_failure(result);
  return Region(region);
}

Outcome<Region> create_gpu_region(penstock_session* session, int gpu, size_t size) {
  penstock_region* region = nullptr;
  const int error = penstock_region_create_device(session, gpu, size, &region);
  if (error < 0) return api_failure(error);
  return Region(region);
}

Outcome<Ring> create_ring(penstock_session* session, uint32_t entries, uint32_t lanes) {
  penstock_ring* ring = nullptr;
  const int result = penstock_ring_create(session, entries, lanes, &ring);
  if (result < 0) return api_failure(result);
  return Ring(ring);
}

Outcome<Location> parse_location(const std::string& text, const std::string& store) {
  const size_t colon = text.find(":/");
  if (colon != std::string::npos && colon > 0) {
    return Location{text.substr(0, colon), normal_path(text.substr(colon + 1))};
  }
  if (const auto mount = mount_holding(text)) {
    std::error_code error;
    const std::string absolute = normal_path(fs::absolute(text, error).string());
    const std::string inside = absolute.substr(mount->point.size());
    return Location{mount->source, inside.empty() ? "/" : inside};
  }
  if (!store.empty() && text.starts_with("/")) return Location{store, normal_path(text)};
  return Failure{Code::invalid_argument,
                 text +
                     ": not a place in a Penstock file system (write STORE:/path, a path inside "
                     "a mount, or give --store STORE with an absolute path)"};
}

}  // namespace penstock::console
