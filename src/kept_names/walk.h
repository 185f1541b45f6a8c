// One path, as far as what is known of names leads.
#pragma once

#include "limits.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "penstock/kept_names/kept_names.h"

namespace penstock::kept_names {

// One that can be an entry's.
inline bool is_plain(std::string_view name) {
  return !name.empty() && name.size() <= limits::kNameBytesMax && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

// Goes on until it ends, or needs to know something of an entry or an inode; it is told, and goes
// on. What is not for this library (dots, links to be followed) it leaves to Meta.
class KeptNames::Walk {
 public:
  // `before`, if not null, is one by the same user that goes on before it, and ends after it: from
  // a directory that it has been to, this one goes on.
  Walk(KeptNames& names, const meta::Credentials& who, std::string_view path, bool follow_last,
       const Walk* before = nullptr)
      : names_(names), who_(who), path_(path), follow_last_(follow_last), before_(before) {}

  // False: it has ended, with result(), or is_meta's().
  bool go_on() {
    while (state_ != State::ended && state_ != State::left) {
      if (!step()) return true;
    }
    return false;
  }
  // What it needs to know.
  const meta::Look& needs() const { return needs_; }
  void hear(const Result<meta::Attributes>& found) {
    if (found) {
      arrive(std::make_shared<meta::Attributes>(*found));
    } else {
      end(found.error());
    }
  }

  bool is_metas() const { return state_ == State::left; }
  Result<meta::Attributes> take_result() { return std::move(result_); }
  std::string_view path() const { return path_; }

 private:
  enum class State : uint8_t { at_start, at_directory, at_entry, at_target, ended, left };

  void end(Result<meta::Attributes> with) {
    result_ = std::move(with);
    state_ = State::ended;
  }

  // False: it needs to know more.
  bool step() {
    switch (state_) {
      case State::at_start:
        return start();
      case State::at_directory:
        return enter_directory();
      case State::at_entry:
        return find_entry();
      case State::at_target:
        return find_target();
      case State::ended:
      case State::left:
        break;
    }
    return true;
  }

  bool start() {
    const bool is_good = !path_.empty() && path_.front() == '/' &&
                         path_.size() <= limits::kPathBytesMax &&
                         path_.find('\0') == std::string_view::npos;
    if (!is_good) {
      state_ = State::left;
      return true;
    }
    if (before_ != nullptr && before_->has_been_where(path_)) {
      here_ = before_->here_;
      at_ = before_->last_;
      state_ = State::at_directory;
      return true;
    }
    target_ = meta::kRootInode;
    state_ = State::at_target;
    return true;
  }

  bool has_been_where(std::string_view path) const {
    return last_ != 0 && path.substr(0, last_) == path_.substr(0, last_);
  }

  // `here_` is known. Takes the next name of the path, if there is one.
  bool enter_directory() {
    while (at_ < path_.size() && path_[at_] == '/') ++at_;
    if (at_ == path_.size()) {
      end(*here_);
      return true;
    }
    last_ = at_;
    const size_t slash = std::min(path_.find('/', at_), path_.size());
    name_ = path_.substr(at_, slash - at_);
    at_ = slash;
    if (!is_plain(name_)) {
      state_ = State::left;
    } else if (here_->links == 0) {
      end(Code::not_found);
    } else if (const Status may =
                   who_.enforce ? meta::check_access(who_, *here_, meta::kAccessExecute) : Status();
               !may.ok()) {
      end(may);
    } else {
      state_ = State::at_entry;
    }
    return true;
  }

  bool find_entry() {
    const std::optional<InodeId> known = names_.kept_entry(here_->inode, name_);
    if (!known) {
      needs_ = {here_->inode, std::string(name_)};
      return false;
    }
    if (*known == InodeId()) {
      end(Code::not_found);
    } else {
      target_ = *known;
      state_ = State::at_target;
    }
    return true;
  }

  bool find_target() {
    std::shared_ptr<const meta::Attributes> known = names_.kept_attributes(target_);
    if (!known) {
      needs_ = {target_, {}};
      return false;
    }
    arrive(std::move(known));
    return true;
  }

  void arrive(std::shared_ptr<const meta::Attributes> found) {
    const bool is_last = path_.find_first_not_of('/', at_) == std::string_view::npos;
    const bool has_slash = at_ < path_.size();
    if (found->type == meta::FileType::symlink && (!is_last || has_slash || follow_last_)) {
      state_ = State::left;
    } else if (found->type == meta::FileType::directory) {
      here_ = std::move(found);
      last_ = 0;
      state_ = State::at_directory;
    } else if (!is_last || has_slash) {
      end(Code::not_directory);
    } else {
      end(*found);
    }
  }

  KeptNames& names_;
  const meta::Credentials& who_;
  const std::string_view path_;
  const bool follow_last_;
  const Walk* const before_;
  State state_ = State::at_start;
  size_t at_ = 0;
  size_t last_ = 0;  // where the names of `here_` begin; 0: that is not known
  std::string_view name_;
  std::shared_ptr<const meta::Attributes> here_;
  InodeId target_;
  meta::Look needs_;
  Result<meta::Attributes> result_ = Code::not_found;
};

}  // namespace penstock::kept_names
