// SPDX-License-Identifier: MIT
#include "clients/web/tls.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace driftd::web {
namespace {

using File = std::filesystem::path;

[[noreturn]] void refuse(const File& file, const std::string& why) {
  ERR_clear_error();
  throw TlsError(file.string() + ": " + why);
}

/// What OpenSSL found wrong first.
std::string openssl_reason() {
  const unsigned long error = ERR_get_error();
  const char* const text = ERR_reason_error_string(error);
  return text == nullptr ? "no reason is told" : text;
}

struct stat found_at(const File& file) {
  struct stat found {};
  if (stat(file.c_str(), &found) != 0) refuse(file, std::generic_category().message(errno));
  if (!S_ISREG(found.st_mode)) refuse(file, "found something that is no file; allowed one in PEM");
  return found;
}

std::string text_of(const ASN1_TIME* time) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> memory(BIO_new(BIO_s_mem()), &BIO_free);
  if (memory == nullptr || ASN1_TIME_print(memory.get(), time) != 1) return "a time that is none";
  std::array<char, 64> text{};
  const int size = BIO_read(memory.get(), text.data(), static_cast<int>(text.size()));
  return {text.data(), static_cast<std::size_t>(size > 0 ? size : 0)};
}

void take_certificate(SSL_CTX& settings, const File& file) {
  found_at(file);
  if (SSL_CTX_use_certificate_chain_file(&settings, file.c_str()) != 1)
    refuse(file, "found no certificate (" + openssl_reason() + "); allowed one in PEM");
  const X509* const certificate = SSL_CTX_get0_certificate(&settings);
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0)
    refuse(file, "the certificate ended on " + text_of(X509_get0_notAfter(certificate)));
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0)
    refuse(file, "the certificate begins on " + text_of(X509_get0_notBefore(certificate)));
}

void take_key(SSL_CTX& settings, const TlsFiles& files) {
  if ((found_at(files.key).st_mode & S_IRWXO) != 0)
    refuse(files.key,
           "found that everybody may read or write it; allowed its owner and its group: chmod o= " +
               files.key.string());
  // Nobody is there to be asked for a password.
  SSL_CTX_set_default_passwd_cb(&settings, [](char*, int, int, void*) { return 0; });
  if (SSL_CTX_use_PrivateKey_file(&settings, files.key.c_str(), SSL_FILETYPE_PEM) != 1)
    refuse(files.key, "found no key of " + files.certificate.string() + " (" + openssl_reason() +
                          "); allowed its key in PEM, without a password");
  if (SSL_CTX_check_private_key(&settings) != 1)
    refuse(files.key, "is not the key of " + files.certificate.string());
}

void take_client_ca(SSL_CTX& settings, const File& file) {
  found_at(file);
  STACK_OF(X509_NAME)* const names = SSL_load_client_CA_file(file.c_str());
  if (names == nullptr || SSL_CTX_load_verify_locations(&settings, file.c_str(), nullptr) != 1)
    refuse(file,
           "found no certificate of an authority (" + openssl_reason() + "); allowed some in PEM");
  SSL_CTX_set_client_CA_list(&settings, names);
  // Who shows none may have a token.
  SSL_CTX_set_verify(&settings, SSL_VERIFY_PEER, nullptr);
}

}  // namespace

TlsContext read_tls(const TlsFiles& files) {
  ERR_clear_error();
  const std::shared_ptr<SSL_CTX> settings(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  if (settings == nullptr) throw TlsError("OpenSSL: " + openssl_reason());
  SSL_CTX& s = *settings;
  SSL_CTX_set_options(
      &s, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  // Nothing is resumed: a certificate that was taken back is not remembered.
  SSL_CTX_set_session_cache_mode(&s, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(&s, SSL_OP_NO_TICKET);
  if (SSL_CTX_set_min_proto_version(&s, TLS1_2_VERSION) != 1 ||
      SSL_CTX_set_num_tickets(&s, 0) != 1 ||
      SSL_CTX_set_cipher_list(&s, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1)
    throw TlsError("OpenSSL: " + openssl_reason());
  SSL_CTX_set_mode(&s, SSL_MODE_RELEASE_BUFFERS);
  take_certificate(s, files.certificate);
  take_key(s, files);
  if (!files.client_ca.empty()) take_client_ca(s, files.client_ca);
  ERR_clear_error();
  return {settings, text_of(X509_get0_notAfter(SSL_CTX_get0_certificate(&s)))};
}

std::string name_of_peer(const ssl_st* connection) {
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      SSL_get_peer_certificate(connection), &X509_free);
  if (certificate == nullptr || SSL_get_verify_result(connection) != X509_V_OK) return {};
  const X509_NAME* const subject = X509_get_subject_name(certificate.get());
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0 || X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0) return {};
  unsigned char* text = nullptr;
  const int size =
      ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
  if (size < 0) return {};
  const std::string name(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size));
  OPENSSL_free(text);
  return name.find('\0') == std::string::npos ? name : std::string();
}

}  // namespace driftd::web
