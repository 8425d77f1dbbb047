// SPDX-License-Identifier: MIT
// What driftd-web serves: the page's files, a stream for each tab, and commands. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clients/web/instance.hpp"
#include "clients/web/logins.hpp"
#include "clients/web/page_files.hpp"
#include "clients/web/request_rules.hpp"
#include "clients/web/server.hpp"
#include "clients/web/tools.hpp"

namespace driftd::web {

class PageSite final : public Site {
 public:
  /// @param instances  at least one
  /// @param sessions  of those who log in; nothing: nobody has to
  PageSite(std::vector<InstanceOptions> instances, Page page, Rules rules,
           std::optional<Sessions> sessions, std::string version);

  /// Others may log in from now on; streams of those who may no more end.
  void let_in(std::vector<Login> logins);

  /// Often.
  void turn();

  std::optional<Response> refuse(const Request& request) override;
  void answer(const Request& request, std::function<void(Response)> done) override;
  void opened(Viewer& viewer, const Request& request) override;
  bool heard(Viewer& viewer, std::string_view text) override;
  void closed(Viewer& viewer) override;

 private:
  struct Tab {
    Instance* instance = nullptr;
    Wants wants;
    std::string session;  ///< id; "": nobody has to log in
  };
  /// By name; the first for "". Null where there is none.
  Instance* find(std::string_view name);
  Tools& tools_of(const Instance& instance);
  Wanted wanted_of(const Instance& instance) const;
  /// What picture it may have now; nothing: none.
  static std::optional<View> view_of(const Viewer& viewer, const Tab& tab);
  std::string hello(const Instance& instance, const std::string& session) const;
  /// Id of the session of a request, "": there is none.
  std::string session_of(const Request& request);
  std::string csrf_of(const std::string& session) const;
  /// Why commands of this session may not act, or "".
  std::string forbidden_to(const std::string& session) const;
  Response log_in(const Request& request);
  /// Drops the streams of sessions that are over.
  void drop_strangers();

  Page page_;
  Rules rules_;
  std::optional<Sessions> sessions_;
  Attempts attempts_;
  std::string version_;
  zmq::context_t context_{1};
  std::vector<std::unique_ptr<Instance>> instances_;
  std::vector<std::unique_ptr<Tools>> tools_;  ///< of each instance
  std::vector<std::uint64_t> told_changes_;    ///< Instance::changes() as of the last hello
  std::map<Viewer*, Tab> tabs_;
  std::int64_t sessions_looked_at_ns_ = 0;
  std::int64_t wrong_told_ns_ = 0;
};

}  // namespace driftd::web
