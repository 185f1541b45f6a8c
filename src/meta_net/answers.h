// Answers as bytes: the kind of the call, how it ended, and what it answers where that was well.
#pragma once

#include "fields.h"
#include "messages.h"
#include "sound.h"

#include <optional>
#include <string>
#include <string_view>

namespace penstock::meta_net {

template <class Call>
std::string encode_answer(const Result<typename Call::Answer>& answer) {
  constexpr size_t kUsualBytes = 160;
  meta::Writer writer(kUsualBytes);
  Out out(writer);
  writer.byte(Call::kKind);
  out(answer);
  return writer.take();
}

// Foreign bytes: none for anything that encode_answer() does not make, or that no Meta answers.
template <class Call>
std::optional<Result<typename Call::Answer>> decode_answer(std::string_view bytes) {
  meta::Reader reader(bytes);
  reader.require(reader.byte() == Call::kKind);
  In in(reader);
  Result<typename Call::Answer> answer = Code::corrupt;
  in(answer);
  if (!reader.finished() || (answer && !is_sound(*answer))) return std::nullopt;
  return answer;
}

}  // namespace penstock::meta_net
