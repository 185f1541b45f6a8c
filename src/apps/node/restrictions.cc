#include "restrictions.h"

namespace penstock::apps {

void put(Json& request, const RestrictionWords& words) {
  const auto put_text = [&request](const char* key, const std::string& text) {
    if (!text.empty()) request[key] = text;
  };
  put_text("uids", words.uids);
  put_text("gids", words.gids);
  put_text("squash", words.squash);
  put_text("subtree", words.subtree);
  if (words.read_only) request["read_only"] = true;
}

Outcome<rights::Restriction> restriction_in(const Json& request) {
  rights::Restriction what;
  const auto take = [&request](const char* key, const auto& parse, auto& to) -> Outcome<void> {
    const std::string text = text_at(request, key);
    if (text.empty()) return {};
    auto parsed = parse(text);
    if (!parsed) {
      return Failure{parsed.error().status,
                     std::string("--") + key + ": " + parsed.error().message};
    }
    to = std::move(*parsed);
    return {};
  };
  TRY(take("uids", rights::parse_ids, what.uids));
  TRY(take("gids", rights::parse_ids, what.gids));
  TRY(take("squash", rights::parse_user, what.squash));
  TRY(take("subtree", rights::parse_subtree, what.subtree));
  what.read_only = flag_at(request, "read_only");
  return what;
}

}  // namespace penstock::apps
