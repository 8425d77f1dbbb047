// SPDX-License-Identifier: MIT
// Files with CURVE keys, in the form that CZMQ (zcert) and pyzmq (zmq.auth) write and read: ZPL,
// with `metadata` and, in `curve`, `public-key` and perhaps `secret-key` as 40 characters of Z85.
// Reads and writes the file system; any thread.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "config/config.hpp"

namespace driftd::config {

struct KeyFile {
  std::string public_key;
  std::string secret_key;  ///< empty: a file for others
  std::map<std::string, std::string, std::less<>> metadata;
};

/// 40 characters that stand for 32 bytes (ZeroMQ's RFC 32).
bool is_z85_key(std::string_view text);
/// "alice" of alice.key: what a client is called in messages, and its file.
bool is_client_name(std::string_view name);

/// @throws ConfigError, one sentence: where, what was found, what is allowed
KeyFile read_key_file(const std::filesystem::path& file);

/// Who else than its owner may read a file with a secret key.
enum class Readers { Nobody, Group };
/// A file with both keys. @throws ConfigError, also when others may read it
KeyFile read_secret_key_file(const std::filesystem::path& file, Readers others);
/// A file with the public key alone. @throws ConfigError, also when it holds a secret one
KeyFile read_public_key_file(const std::filesystem::path& file);

/// As text. @param about  comment lines without their #
std::string to_text(const KeyFile& keys, std::string_view about);

}  // namespace driftd::config
