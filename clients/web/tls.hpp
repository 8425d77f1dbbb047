// SPDX-License-Identifier: MIT
// Certificate and key of a server that other computers reach, checked before anything is served
// with them. OpenSSL is named in tls.cpp alone, but for what server.cpp's streams need. One thread.
#pragma once

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

struct ssl_ctx_st;
struct ssl_st;

namespace driftd::web {

/// what() is for people.
struct TlsError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// All in PEM.
struct TlsFiles {
  std::filesystem::path certificate;  ///< with those that it is signed by, up to the root
  std::filesystem::path key;          ///< which others may not read
  std::filesystem::path client_ca;    ///< whose certificates clients may show; empty: none
};

struct TlsContext {
  std::shared_ptr<ssl_ctx_st> settings;  ///< connections that began with it keep it
  std::string until;                     ///< which the certificate is good for, in words
};

/// TLS 1.2 or later, ciphers with forward secrecy and authentication alone, no renegotiation, and
/// each connection shows its certificate anew.
/// @throws TlsError where a file cannot be read, key and certificate are none of one another, or
///   the certificate is not good now
TlsContext read_tls(const TlsFiles& files);

/// The common name in the certificate that a peer has shown; "" where it has shown none, or one
/// without a name or with several.
std::string name_of_peer(const ssl_st* connection);

}  // namespace driftd::web
