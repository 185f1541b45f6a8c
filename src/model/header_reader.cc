#include "header_reader.h"

namespace penstock::model {

namespace {

constexpr const char* kMetadata = "__metadata__";
constexpr size_t kFields = 3;
constexpr const char* kFieldsNeeded = "needs dtype, shape and data_offsets, and nothing else";

}  // namespace

bool HeaderReader::refuse(std::string why) {
  wrong_ = std::move(why);
  return false;
}

bool HeaderReader::refuse_tensor(const char* why) {
  return refuse(fmt::format("tensor '{}': {}", tensor_.name, why));
}

// Something came that cannot be where it stands.
bool HeaderReader::unexpected() {
  switch (state_) {
    case State::header:
      if (key_ == kMetadata) return refuse("__metadata__ is not an object");
      return refuse(fmt::format("tensor '{}': {}", key_, kFieldsNeeded));
    case State::metadata:
      return refuse(fmt::format("__metadata__: '{}' is not a string", key_));
    case State::tensor:
    case State::numbers:
      return refuse_tensor("a field is not of its type");
    default:
      return refuse("its header is not a JSON object");
  }
}

bool HeaderReader::parse_error(size_t, const std::string&, const Json::exception&) {
  return refuse("its header is not a JSON object");
}

bool HeaderReader::start_object(size_t) {
  if (state_ == State::document) {
    state_ = State::header;
    return true;
  }
  if (state_ != State::header) return unexpected();
  state_ = key_ == kMetadata ? State::metadata : State::tensor;
  if (state_ == State::tensor) begin_tensor();
  return true;
}

void HeaderReader::begin_tensor() {
  tensor_ = {.name = key_};
  offsets_.clear();
  fields_.clear();
}

bool HeaderReader::key(string_t& name) {
  if (state_ == State::tensor) return begin_field(name);
  if (!has_no_zero(name)) return refuse("a name with a zero in it");
  key_ = name;
  // A name that comes twice is two meanings of one file.
  if (state_ == State::header && !names_.insert(name).second) return refuse("a name comes twice");
  return true;
}

bool HeaderReader::begin_field(const std::string& name) {
  text_ = name == "dtype" ? &tensor_.dtype : nullptr;
  numbers_ = name == "shape" ? &tensor_.shape : name == "data_offsets" ? &offsets_ : nullptr;
  numbers_max_ = numbers_ == &offsets_ ? 2 : kRankMax;
  const bool is_known = text_ != nullptr || numbers_ != nullptr;
  if (is_known && fields_.insert(name).second) return true;
  return refuse_tensor(kFieldsNeeded);
}

bool HeaderReader::string(string_t& value) {
  if (state_ == State::tensor && text_ != nullptr) {
    *text_ = std::move(value);
    return true;
  }
  if (state_ != State::metadata) return unexpected();
  if (!has_no_zero(value)) return refuse(fmt::format("__metadata__: '{}' has a zero in it", key_));
  file_.metadata[key_] = std::move(value);
  if (file_.metadata.size() <= kMetadataMax) return true;
  return refuse("it has more than a million pairs of metadata");
}

bool HeaderReader::start_array(size_t) {
  if (state_ != State::tensor || numbers_ == nullptr) return unexpected();
  state_ = State::numbers;
  return true;
}

bool HeaderReader::number_unsigned(number_unsigned_t value) {
  if (state_ != State::numbers || numbers_->size() == numbers_max_) return unexpected();
  numbers_->push_back(value);
  return true;
}

bool HeaderReader::end_array() {
  state_ = State::tensor;
  return true;
}

bool HeaderReader::end_object() {
  switch (state_) {
    case State::tensor:
      state_ = State::header;
      return finish_tensor();
    case State::metadata:
      state_ = State::header;
      return true;
    default:
      state_ = State::document;
      return true;
  }
}

bool HeaderReader::finish_tensor() {
  if (fields_.size() != kFields) return refuse_tensor(kFieldsNeeded);
  if (offsets_.size() != 2) return refuse_tensor("a field is not of its type");
  const Outcome<uint64_t> bytes = bytes_of(tensor_);
  if (!bytes) return refuse_tensor(bytes.error().message.c_str());
  const uint64_t begin = offsets_[0];
  const uint64_t end = offsets_[1];
  if (end < begin || end - begin != *bytes) {
    return refuse_tensor("its offsets do not fit its shape");
  }
  if (end > limits::kFileBytesMax) return refuse_tensor("an offset beyond the largest file");
  if (file_.tensors.size() == kTensorsMax) return refuse("it has more than a million tensors");
  tensor_.offset = begin;
  tensor_.bytes = *bytes;
  file_.tensors.push_back(std::move(tensor_));
  return true;
}

}  // namespace penstock::model
