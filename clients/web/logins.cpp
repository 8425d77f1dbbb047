// SPDX-License-Identifier: MIT
#include "clients/web/logins.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <system_error>

#include "base/yaml/document.hpp"
#include "base/yaml/section.hpp"
#include "config/config.hpp"

namespace driftd::web {
namespace {

// Ids of sessions: which kind, so that no cookie is taken for a certificate.
constexpr std::string_view kByCookie = "cookie ", kByCertificate = "certificate ";
constexpr std::size_t kLeastToken = 16, kMostToken = 256;

std::string hash_of(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned size = 0;
  if (EVP_Digest(text.data(), text.size(), hash.data(), &size, EVP_sha256(), nullptr) != 1)
    throw std::runtime_error("OpenSSL does not know SHA-256");
  return {hash.begin(), hash.begin() + size};
}

bool is_token(std::string_view token) {
  return token.size() >= kLeastToken && token.size() <= kMostToken &&
         std::ranges::all_of(token, [](char c) { return c > ' ' && c <= '~'; });
}

Login read_login(const YAML::Node& node, const std::string& path, bool by_token,
                 yaml::Mistakes& mistakes) {
  constexpr std::array<std::string_view, 2> kRoles = {"observe", "operate"};
  yaml::Section section(node, path, mistakes);
  Login login;
  std::string role, token;
  section.text("name", login.name);
  section.text("role", role, kRoles);
  if (by_token) section.text("token", token);
  section.finish();
  if (!node.IsMap()) return login;
  if (login.name.empty()) section.reject("name", "a name", "none");
  if (role.empty() && !section.has("role")) section.reject("role", "observe or operate", "none");
  login.may_operate = role == "operate";
  if (by_token && !is_token(token))  // which is not shown
    mistakes.add(yaml::place_of(node), path + ".token",
                 "found " + std::to_string(token.size()) +
                     " characters; allowed 16 to 256 letters, digits and signs without spaces, "
                     "such as `openssl rand -hex 16` prints");
  if (by_token) login.token_hash = hash_of(token);
  return login;
}

/// In time that tells nothing of the token.
const Login* login_of(const std::vector<Login>& logins, std::string_view token) {
  const std::string hash = hash_of(token);
  const Login* found = nullptr;
  for (const Login& login : logins)
    if (login.token_hash.size() == hash.size() &&
        CRYPTO_memcmp(login.token_hash.data(), hash.data(), hash.size()) == 0)
      found = &login;
  return found;
}

}  // namespace

std::vector<Login> parse_logins(const std::string& text, const std::string& file) {
  yaml::Mistakes mistakes;
  std::vector<Login> logins;
  if (const auto root = yaml::read_document(text, mistakes)) {
    yaml::Section section(*root, "", mistakes);
    for (const bool by_token : {true, false}) {
      std::set<std::string> names, tokens;
      const std::string key = by_token ? "tokens" : "certificates";
      section.each(key, [&](const YAML::Node& node, const std::string& path) {
        Login login = read_login(node, path, by_token, mistakes);
        if (!names.insert(login.name).second)
          mistakes.add(yaml::place_of(node), path, "the name is there twice");
        if (by_token && !tokens.insert(login.token_hash).second)
          mistakes.add(yaml::place_of(node), path, "the token is there twice");
        logins.push_back(std::move(login));
      });
    }
    section.finish();
  }
  if (mistakes.empty() && logins.empty())
    mistakes.add({}, "", "found nobody; allowed `tokens:`, `certificates:` or both");
  if (!mistakes.empty()) throw config::ConfigError(mistakes.report(file));
  return logins;
}

std::vector<Login> read_logins(const std::filesystem::path& file) {
  yaml::Mistakes mistakes;
  const auto text = yaml::read_file(file, mistakes);
  struct stat about {};
  if (text && stat(file.c_str(), &about) == 0 && (about.st_mode & S_IRWXO) != 0)
    mistakes.add({}, "",
                 "found that everybody may read or write it; allowed its owner and its group: "
                 "chmod o= " +
                     file.string());
  if (!mistakes.empty()) throw config::ConfigError(mistakes.report(file.string()));
  return parse_logins(*text, file.string());
}

std::optional<std::string_view> cookie_in(std::string_view header, std::string_view name) {
  std::optional<std::string_view> found;
  while (!header.empty()) {
    std::string_view part = header.substr(0, header.find(';'));
    header.remove_prefix(std::min(header.size(), part.size() + 1));
    part.remove_prefix(std::min(part.size(), part.find_first_not_of(' ')));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos || part.substr(0, equals) != name) continue;
    if (found) return std::nullopt;
    found = part.substr(equals + 1);
  }
  return found;
}

std::optional<std::string> token_in(std::string_view body) {
  const auto said = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!said.is_object() || said.size() != 1 || !said.contains("token") ||
      !said["token"].is_string())
    return std::nullopt;
  return said["token"].get<std::string>();
}

std::string random_token() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw std::system_error(errno, std::generic_category(), "no random numbers");
  std::string token;
  for (const unsigned char byte : bytes) {
    token += kDigits[byte >> 4U];
    token += kDigits[byte & 15U];
  }
  return token;
}

Attempts::Peer& Attempts::refilled(const std::string& peer, std::int64_t now_ns) {
  if (peers_.size() >= kMostPeers && !peers_.contains(peer))
    peers_.erase(
        std::ranges::min_element(peers_, {}, [](const auto& entry) { return entry.second.at_ns; }));
  const auto [at, is_new] = peers_.try_emplace(peer);
  Peer& one = at->second;
  const double more = static_cast<double>(now_ns - one.at_ns) / static_cast<double>(kEachNs);
  one.left = is_new ? kAtOnce : std::min(kAtOnce, one.left + more);
  one.at_ns = now_ns;
  return one;
}

bool Attempts::may_try(const std::string& peer, std::int64_t now_ns) {
  return !peers_.contains(peer) || refilled(peer, now_ns).left >= 1;
}

void Attempts::was_wrong(const std::string& peer, std::int64_t now_ns) {
  ++wrong_;
  refilled(peer, now_ns).left -= 1;
}

Sessions::Sessions(std::vector<Login> logins, std::string cookie)
    : logins_(std::move(logins)), cookie_(std::move(cookie)) {}

void Sessions::set(std::vector<Login> logins) {
  logins_ = std::move(logins);
  std::erase_if(sessions_, [this](const auto& session) {
    return std::ranges::find(logins_, session.second.login) == logins_.end();
  });
}

std::string Sessions::of(const Request& request, std::int64_t now_ns) {
  std::string id;
  if (const auto cookie = cookie_in(request.header("cookie"), cookie_))
    id = std::string(kByCookie).append(*cookie);
  if (!sessions_.contains(id) && !request.certificate_name.empty()) {
    id = std::string(kByCertificate).append(request.certificate_name);
    const auto login = std::ranges::find_if(logins_, [&request](const Login& one) {
      return one.token_hash.empty() && one.name == request.certificate_name;
    });
    if (login != logins_.end()) sessions_.try_emplace(id, Session{*login, random_token(), now_ns});
  }
  if (!sessions_.contains(id)) return {};
  use(id, now_ns);
  return id;
}

const Session* Sessions::find(const std::string& id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : &found->second;
}

void Sessions::use(const std::string& id, std::int64_t now_ns) {
  if (const auto found = sessions_.find(id); found != sessions_.end())
    found->second.used_ns = now_ns;
}

std::optional<Header> Sessions::log_in(std::string_view token, std::int64_t now_ns) {
  const Login* const login = login_of(logins_, token);
  if (login == nullptr) return std::nullopt;
  if (sessions_.size() >= kMost)
    sessions_.erase(std::ranges::min_element(
        sessions_, {}, [](const auto& session) { return session.second.used_ns; }));
  const std::string id = random_token();  // never one that a browser brought
  sessions_.emplace(std::string(kByCookie) + id, Session{*login, random_token(), now_ns});
  return Header{"Set-Cookie", cookie_ + '=' + id + "; Path=/; Secure; HttpOnly; SameSite=Strict"};
}

Header Sessions::log_out(const std::string& id) {
  sessions_.erase(id);
  return {"Set-Cookie", cookie_ + "=; Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Strict"};
}

void Sessions::end_idle(std::int64_t now_ns) {
  std::erase_if(sessions_, [now_ns](const auto& session) {
    return now_ns - session.second.used_ns > kIdleNs;
  });
}

}  // namespace driftd::web
