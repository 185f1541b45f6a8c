// `penstock layout` and `penstock set`: how files lie on chains, and what new files get.
#include "commands.h"
#include "node/admin.h"

#include <cstdio>

#include "penstock/console.h"

namespace penstock::apps {
namespace {

uint64_t count_in(const Json& from, const char* key) {
  return from.value(key, uint64_t{0});
}

std::string word_in(const Json& from, const char* key) {
  return from.value(key, std::string());
}

std::string range_of(const Json& from) {
  const uint64_t first = count_in(from, "chain_first");
  const uint64_t count = count_in(from, "chain_count");
  if (count == 1) return std::to_string(first);
  return std::to_string(first) + "-" + std::to_string(first + count - 1);
}

std::string chains_of(const Json& layout) {
  std::string list;
  for (const Json& chain : layout.value("chains", Json::array())) {
    if (!list.empty()) list += ",";
    list += std::to_string(chain.is_number_unsigned() ? chain.get<uint64_t>() : 0);
  }
  return list.empty() ? range_of(layout) : list;
}

std::vector<std::string> layout_row(const Json& layout) {
  const bool is_directory = word_in(layout, "type") == "directory";
  std::string stripe = "-";
  if (is_directory) {
    const uint64_t wanted = count_in(layout, "stripe");
    stripe = wanted == 0 ? "all" : std::to_string(wanted);
  }
  return {word_in(layout, "path"),
          is_directory ? "new files" : "file",
          console::human_bytes(static_cast<double>(count_in(layout, "chunk_bytes"))),
          stripe,
          std::to_string(count_in(layout, "copies")),
          word_in(layout, "media"),
          std::to_string(count_in(layout, "table")),
          chains_of(layout)};
}

void print_layouts(const std::vector<Json>& layouts) {
  console::Table table(
      {"layout of", "what", "chunk", "stripe", "copies", "media", "table", "chains"}, {1, 5, 7});
  for (const Json& layout : layouts) table.add(layout_row(layout));
  std::printf("%s\n", table.text().c_str());
  console::Table offered({"possible: table", "copies", "media", "chains"}, {2, 3});
  for (const Json& one : layouts.back().value("tables", Json::array())) {
    offered.add({std::to_string(count_in(one, "table")), std::to_string(count_in(one, "copies")),
                 word_in(one, "media"), range_of(one)});
  }
  std::printf("%s", offered.text().c_str());
}

// Asks the node of the place, which says what is there then.
Outcome<Json> ask_about(const std::string& place, const std::string& store, Json request) {
  TRY_ASSIGN(const console::Location location, console::parse_location(place, store));
  request["path"] = location.path;
  return ask_node(location.where, request);
}

}  // namespace

int run_layout(const LayoutOptions& options) {
  std::vector<Json> layouts;
  for (const std::string& place : options.paths) {
    auto answer = ask_about(place, options.store, {{"command", "layout"}});
    if (!answer) return fail("layout", answer.error());
    layouts.push_back(std::move(*answer));
  }
  if (options.json) {
    std::printf("%s\n", Json(layouts).dump(2).c_str());
  } else {
    print_layouts(layouts);
  }
  return kExitOk;
}

int run_set(const SetOptions& options) {
  Json request = {{"command", "set layout"}};
  if (options.chunk_bytes) request["chunk_bytes"] = *options.chunk_bytes;
  if (options.stripe) request["stripe"] = *options.stripe;
  if (options.copies) request["copies"] = *options.copies;
  if (!options.media.empty()) request["media"] = options.media;
  if (request.size() == 1) {
    std::fprintf(stderr,
                 "penstock set: what? (--chunk, --stripe, --copies, --media; 'penstock layout %s' "
                 "shows what is set)\n",
                 options.path.c_str());
    return kExitUsage;
  }
  if (options.recursive) request["recursive"] = true;
  auto answer = ask_about(options.path, options.store, std::move(request));
  if (!answer) return fail("set", answer.error());
  if (options.json) {
    std::printf("%s\n", answer->dump(2).c_str());
  } else {
    print_layouts({*answer});
    if (options.recursive) {
      std::printf("\nset in %llu directories below, too\n",
                  static_cast<unsigned long long>(count_in(*answer, "directories_below")));
    }
  }
  return kExitOk;
}

}  // namespace penstock::apps
