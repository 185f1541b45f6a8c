// The program that mount(8) runs for `mount -t penstock` and for lines of /etc/fstab:
// mount.penstock, a link to this command. Interface: mount(8), "EXTERNAL HELPERS".
#include "commands.h"
#include "node/admin.h"

#include <cstdio>
#include <filesystem>
#include <unistd.h>

#include "penstock/fuse.h"

namespace penstock::apps {
namespace {

// As mount(8) itself ends.
constexpr int kMountUsage = 1;
constexpr int kMountFailed = 32;

struct HelperArguments {
  std::vector<std::string> operands;  // the store and the mount point
  std::string options;
  bool fake = false;    // everything but the mount itself
  bool sloppy = false;  // options that are not known are left out
};

int usage(const std::string& what) {
  std::fprintf(stderr,
               "mount.penstock: %s (mount.penstock STORE MOUNTPOINT [-o OPTIONS] [-rwfsnv]; "
               "docs/mounting.md)\n",
               what.c_str());
  return kMountUsage;
}

void add_options(HelperArguments* to, const std::string& list) {
  if (!to->options.empty()) to->options += ",";
  to->options += list;
}

// Empty, or what is wrong.
std::string parse(const std::vector<std::string>& arguments, HelperArguments* to) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (!word.starts_with("-")) {
      to->operands.push_back(word);
      continue;
    }
    for (size_t at = 1; at < word.size(); ++at) {
      const char letter = word[at];
      if (letter == 'o' || letter == 't') {
        // Its value is the rest of the word, or the next one.
        std::string value = word.substr(at + 1);
        if (value.empty() && ++i >= arguments.size())
          return "'-" + word.substr(1) + "' needs a value";
        if (value.empty()) value = arguments[i];
        if (letter == 'o') add_options(to, value);
        // mount(8) tells the type by which it found this program.
        if (letter == 't' && value == fuse::kMountTypeOf3fs) add_options(to, "type=hf3fs");
        break;
      }
      if (letter == 'r')
        add_options(to, "ro");
      else if (letter == 'w')
        add_options(to, "rw");
      else if (letter == 'f')
        to->fake = true;
      else if (letter == 's')
        to->sloppy = true;
      else if (letter != 'n' && letter != 'v')
        return "the option '" + word + "' is not known";
    }
  }
  return to->operands.size() == 2 ? "" : "a store and a mount point are needed";
}

// Those words of a list that are known.
std::string known_of(const std::string& list) {
  std::string known;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    const std::string word = list.substr(at, end - at);
    if (fuse::parse_mount_options(word, {})) known += (known.empty() ? "" : ",") + word;
    at = end + 1;
  }
  return known;
}

// Starts a node for the mount. The store must be there: a name that is written wrong in /etc/fstab
// makes no new one.
int start_node(const std::string& store, const std::string& mount_point,
               const std::string& options) {
  if (::access((store + "/penstock.store").c_str(), F_OK) != 0) {
    return fail("mount", {Code::not_found,
                          store + ": is not a store (make one first: penstock up " + store + ")"});
  }
  UpOptions up;
  up.directory = store;
  up.mount_point = mount_point;
  up.mount_options = options;
  up.background = true;
  up.quiet = true;
  return run_up(up);
}

}  // namespace

int run_mount_helper(const std::vector<std::string>& arguments) {
  HelperArguments said;
  const std::string wrong = parse(arguments, &said);
  if (!wrong.empty()) return usage(wrong);
  if (said.sloppy) said.options = known_of(said.options);
  const auto parsed = fuse::parse_mount_options(said.options, {});
  if (!parsed) return usage(parsed.error().message);
  if (said.fake) return 0;
  // mount(8) documents that these are so unless it is told otherwise. Only root may have them.
  const bool plain = parsed->remount || ::geteuid() != 0;
  const std::string options = plain ? said.options : "suid,dev," + said.options;
  std::error_code error;
  const std::string store = std::filesystem::canonical(said.operands[0], error);
  if (error) {
    fail("mount", {Code::not_found, said.operands[0] + ": " + error.message()});
    return kMountFailed;
  }
  int result = kExitOk;
  if (node_runs(store)) {
    NodeOptions node;
    node.directory = store;
    node.mount_point = said.operands[1];
    node.mount_options = options;
    node.quiet = true;
    result = run_mount(node);
  } else {
    result = start_node(store, said.operands[1], options);
  }
  return result == kExitOk ? 0 : kMountFailed;
}

}  // namespace penstock::apps
