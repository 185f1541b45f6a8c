#include "messages.h"

#include "limits.h"

#include <concepts>
#include <utility>

#include "penstock/meta_records.h"

namespace penstock::locks_net {
namespace {

// A T that is written, or one that is read.
template <class M, class T>
concept Of = std::same_as<std::remove_const_t<M>, T>;

void lock_fields(auto& io, auto& wanted) {
  io(wanted.inode, wanted.owner.kind, wanted.owner.number, wanted.range, wanted.type, wanted.pid);
}
// The fields of each word, in their order, for both directions.
void fields(auto& io, Of<Set> auto& m) {
  lock_fields(io, m.wanted);
  io(m.request);
}
void fields(auto& io, Of<Get> auto& m) {
  lock_fields(io, m.wanted);
}
void fields(auto& io, Of<Release> auto& m) {
  io(m.inode, m.owner.kind, m.owner.number);
}
void fields(auto& io, Of<Cancel> auto& m) {
  io(m.request);
}
void fields(auto& io, Of<Have> auto& m) {
  lock_fields(io, m.wanted);
}
void fields(auto&, Of<HaveAll> auto&) {}
void fields(auto& io, Of<Answered> auto& m) {
  io(m.answer);
}
void fields(auto& io, Of<InTheWay> auto& m) {
  io(m.held.owner.agent.node, m.held.owner.kind, m.held.owner.number, m.held.range, m.held.type,
     m.held.pid);
}
void fields(auto& io, Of<NoLonger> auto& m) {
  io(m.event, m.request, m.answer);
}

class LockFieldsOut {
 public:
  void operator()(const auto&... values) { (one(values), ...); }
  void number(uint8_t value) { writer_.byte(value); }
  std::string take() { return writer_.take(); }

 private:
  void one(Kind value) { number(static_cast<uint8_t>(value)); }
  void one(Type value) { number(static_cast<uint8_t>(value)); }
  void one(Answer value) { number(static_cast<uint8_t>(value)); }
  void one(uint64_t value) { writer_.varint(value); }
  void one(uint32_t value) { writer_.varint(value); }
  void one(InodeId value) { writer_.varint(value.value); }
  void one(NodeId value) { writer_.varint(value.value); }
  void one(const Range& range) {
    writer_.varint(range.begin);
    writer_.varint(range.end);
  }

  meta::Writer writer_;
};

class LockFieldsIn {
 public:
  explicit LockFieldsIn(meta::Reader& reader) : reader_(reader) {}
  void operator()(auto&... values) { (one(values), ...); }

 private:
  uint8_t choice(uint8_t count) {
    const uint8_t value = reader_.byte();
    reader_.require(value < count);
    return reader_.going() ? value : 0;
  }
  void one(Kind& value) { value = static_cast<Kind>(choice(2)); }
  void one(Type& value) { value = static_cast<Type>(choice(3)); }
  void one(Answer& value) {
    value = static_cast<Answer>(choice(static_cast<uint8_t>(Answer::refused) + 1));
    reader_.require(value >= Answer::done);
  }
  void one(uint64_t& value) { value = reader_.varint(); }
  void one(uint32_t& value) { value = reader_.varint32(); }
  void one(InodeId& value) {
    value.value = reader_.varint();
    reader_.require(value.value != 0);
  }
  void one(NodeId& value) {
    value.value = reader_.varint32();
    reader_.require(value.value != 0);
  }
  void one(Range& range) {
    range.begin = reader_.varint();
    range.end = reader_.varint();
    reader_.require(range.begin < range.end && range.end <= locks::kEnd);
  }

  meta::Reader& reader_;
};

template <class All>
void append_one(const All& all, std::string& bytes) {
  const size_t before = bytes.size();
  LockFieldsOut out;
  out.number(static_cast<uint8_t>(all.index() + 1));
  std::visit([&](const auto& one) { fields(out, one); }, all);
  bytes += out.take();
  ASSERT(bytes.size() - before <= limits::kWordBytesMax);
}

// The number of a word is its place among all, and 1.
template <class All, size_t kPlace = 0>
bool read_next(uint8_t number, meta::Reader& reader, std::vector<All>& into) {
  if constexpr (kPlace < std::variant_size_v<All>) {
    if (number != kPlace + 1) return read_next<All, kPlace + 1>(number, reader, into);
    std::variant_alternative_t<kPlace, All> one{};
    LockFieldsIn in(reader);
    fields(in, one);
    into.push_back(std::move(one));
    return reader.going();
  }
  return false;
}

template <class All>
std::optional<std::vector<All>> read_many(std::string_view bytes) {
  meta::Reader reader(bytes);
  std::vector<All> all;
  while (!reader.finished()) {
    if (!read_next(reader.byte(), reader, all)) return std::nullopt;
  }
  return all;
}

// Makes the owner the agent's. False: a lock of flock that is not of all of the file.
bool adopt(Wanted& wanted, AgentId agent) {
  wanted.owner.agent = agent;
  return wanted.owner.kind == Kind::range || wanted.range == Range{};
}
bool adopt(Set& word, AgentId agent) {
  return adopt(word.wanted, agent);
}
bool adopt(Get& word, AgentId agent) {
  return adopt(word.wanted, agent);
}
bool adopt(Release& word, AgentId agent) {
  word.owner.agent = agent;
  return true;
}
bool adopt(Cancel& word, AgentId) {
  return word.request != 0;
}
bool adopt(Have& word, AgentId agent) {
  return adopt(word.wanted, agent) && word.wanted.type != Type::none;
}
bool adopt(HaveAll&, AgentId) {
  return true;
}

}  // namespace

void encode(const Word& word, std::string& bytes) {
  append_one(word, bytes);
}
void encode(const Told& told, std::string& bytes) {
  append_one(told, bytes);
}
std::optional<std::vector<Word>> decode_words(std::string_view bytes, AgentId agent) {
  std::optional<std::vector<Word>> words = read_many<Word>(bytes);
  if (!words || words->size() > limits::kWordsAtOnce) return std::nullopt;
  for (Word& word : *words) {
    if (!std::visit([&](auto& one) { return adopt(one, agent); }, word)) return std::nullopt;
  }
  return words;
}
std::optional<std::vector<Told>> decode_told(std::string_view bytes) {
  return read_many<Told>(bytes);
}

}  // namespace penstock::locks_net
