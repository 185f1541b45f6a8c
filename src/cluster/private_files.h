// Files of a node's directory `identity`: its owner's alone (decision 0057).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "penstock/base.h"

namespace penstock::cluster {

inline constexpr const char* kIdentityName = "identity";
inline constexpr const char* kNodeFile = "node.pem";
inline constexpr const char* kAuthorityKeyFile = "ca.key";
inline constexpr const char* kAuthorityFile = "ca.pem";
inline constexpr const char* kNextAuthorityFile = "ca.next";

// Of a file there.
std::string path_of_private(const std::string& directory, const char* file);
// Nothing if there is none. Fails, with a reason for people that names the file, if it cannot be
// read, or if others than its owner can.
Outcome<std::optional<std::string>> read_private(const std::string& directory, const char* file);
// Replaces it as a whole; durable when it returns.
Outcome<void> write_private(const std::string& directory, const char* file,
                            const std::string& text);
// Durable when it returns; fine if there is none.
Outcome<void> remove_private(const std::string& directory, const char* file);

// Texts in PEM that follow one another.
std::vector<std::string> parts_of_pem(const std::string& text);
// For people.
Failure damaged(const std::string& path, const std::string& why,
                const std::string& what_to_do = "or remove it and join anew with a token");

}  // namespace penstock::cluster
