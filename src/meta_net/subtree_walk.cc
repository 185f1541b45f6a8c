// Paths of a node that has a subtree for its root: walked step by step, each from the number of a
// directory, so that links and ".." lead nowhere else.
#include "limited.h"

#include <deque>

namespace penstock::meta_net {
namespace {

constexpr int kLinksMax = 40;  // as Linux

// Puts the names of a path in front of those that are still to be walked.
void put_names(std::string_view path, std::deque<std::string>& names) {
  std::deque<std::string> added;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (end > begin) added.emplace_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  names.insert(names.begin(), added.begin(), added.end());
}

}  // namespace

// The directory that has the last name, and that name; "." for the root. `canonical` gets the names
// that lead there from the root of all files, without links.
Result<meta::ResolvedParent> Limited::walk(const Credentials& who, std::string path,
                                           bool follow_last, std::string* canonical) {
  if (path.empty() || path.front() != '/') return Code::invalid_argument;
  if (path.size() > limits::kPathBytesMax) return Code::name_too_long;
  TRY_ASSIGN(const InodeId root, this->root());
  meta::ResolvedParent at;
  TRY_ASSIGN(at.parent, meta_.attributes(root));
  std::vector<std::string> passed;
  std::deque<std::string> names;
  put_names(path, names);
  at.must_be_directory = path.back() == '/';
  int links = 0;
  at.name = ".";
  while (!names.empty()) {
    std::string name = std::move(names.front());
    names.pop_front();
    if (name == ".") continue;
    if (name == "..") {
      if (at.parent.inode == root) continue;
      TRY_ASSIGN(at.parent, meta_.lookup(who, at.parent.inode, ".."));
      // Where it was may have been moved to somewhere else meanwhile.
      TRY(require_inside(at.parent.inode));
      if (!passed.empty()) passed.pop_back();
      continue;
    }
    const bool is_last = names.empty();
    const bool follows = !is_last || follow_last || at.must_be_directory;
    if (is_last && !follows) {
      at.name = std::move(name);
      break;
    }
    const auto found = meta_.lookup(who, at.parent.inode, name);
    if (!found && !(is_last && found.error() == Code::not_found)) return found.error();
    if (found && found->type == meta::FileType::symlink) {
      if (++links > kLinksMax) return Code::too_many_symlinks;
      TRY_ASSIGN(const std::string target, meta_.read_symlink(found->inode));
      if (!target.empty() && target.front() == '/') {
        TRY_ASSIGN(at.parent, meta_.attributes(root));
        passed.clear();
      }
      put_names(target, names);
      if (names.size() > limits::kPathBytesMax) return Code::name_too_long;
      continue;
    }
    if (is_last) {
      at.name = std::move(name);
      break;
    }
    if (found->type != meta::FileType::directory) return Code::not_directory;
    at.parent = *found;
    passed.push_back(std::move(name));
  }
  if (canonical != nullptr) {
    *canonical = limits_->what.subtree;
    for (const std::string& name : passed) *canonical += "/" + name;
  }
  return at;
}

Result<Attributes> Limited::run(const ask::Resolve& asked) {
  TRY_ASSIGN(const meta::ResolvedParent at,
             walk(asked.who, asked.path, asked.follow_last, nullptr));
  if (at.name == ".") return at.parent;
  TRY_ASSIGN(Attributes found, meta_.lookup(asked.who, at.parent.inode, at.name));
  if (at.must_be_directory && found.type != meta::FileType::directory) return Code::not_directory;
  return found;
}

Result<Found> Limited::run(const ask::ResolveMany& asked) {
  Found found;
  for (const std::string& path : asked.paths) {
    found.each.push_back(run(ask::Resolve{asked.who, path, asked.follow_last}));
  }
  return found;
}

Result<meta::ResolvedParent> Limited::run(const ask::ResolveParent& asked) {
  // What is last is not looked at, whatever it is.
  std::string path = asked.path;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const size_t slash = path.rfind('/');
  if (path.empty() || path.front() != '/') return Code::invalid_argument;
  meta::ResolvedParent resolved;
  resolved.name = path.size() == 1 ? "." : path.substr(slash + 1);
  resolved.must_be_directory = asked.path.size() != path.size() || path.size() == 1;
  const ask::Resolve parent{asked.who, path.substr(0, slash + 1), true};
  TRY_ASSIGN(resolved.parent, run(parent));
  if (resolved.parent.type != meta::FileType::directory) return Code::not_directory;
  return resolved;
}

Result<Places> Limited::run(const ask::PlaceFiles& asked) {
  // By paths without links; what became of them since is seen by the directory that Meta found.
  std::vector<std::string> paths;
  std::vector<meta::WantedPlace> wanted;
  std::vector<Status> faults;
  paths.reserve(asked.wanted.size());
  for (const ask::Wanted& one : asked.wanted) {
    std::string& canonical = paths.emplace_back();
    const auto at = walk(asked.who, one.path, false, &canonical);
    faults.push_back(at ? Status() : at.error());
    if (!at) continue;
    canonical += "/" + at->name;
    wanted.push_back({canonical, one.replace});
  }
  TRY_ASSIGN(auto placed, meta_.place_files(asked.who, wanted));
  Places places;
  size_t next = 0;
  for (const Status fault : faults) {
    if (!fault.ok()) {
      places.each.emplace_back(fault);
      continue;
    }
    ASSERT(next < placed.size());
    Result<meta::NewFile>& place = placed[next++];
    if (place) {
      if (const Status inside = require_inside(place->parent); !inside.ok()) place = inside;
    }
    places.each.push_back(std::move(place));
  }
  return places;
}

}  // namespace penstock::meta_net
