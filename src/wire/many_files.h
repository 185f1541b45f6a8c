// Messages about many files at once, to and from the generated ones.
#pragma once

#include "session.pb.h"

#include <optional>

#include "penstock/wire.h"

namespace penstock::wire {

void put(const ReadFiles& m, proto::Request& out);
void put(const CreateFiles& m, proto::Request& out);
void put(const LookAtFiles& m, proto::Request& out);
void put(const FilesRead& m, proto::Reply& out);
void put(const FilesCreated& m, proto::Reply& out);
void put(const FilesSeen& m, proto::Reply& out);

// Nothing when the request is another one.
std::optional<RequestBody> take_many_body(const proto::Request& in);
bool is_within_limits(const ReadFiles& m);
bool is_within_limits(const CreateFiles& m);
bool is_within_limits(const LookAtFiles& m);

// Nothing when the body is outside the limits.
std::optional<ReplyBody> take_files(const proto::FilesRead& from);
std::optional<ReplyBody> take_files(const proto::FilesCreated& from);
std::optional<ReplyBody> take_files(const proto::FilesSeen& from);

}  // namespace penstock::wire
