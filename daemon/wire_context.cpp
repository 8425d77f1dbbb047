// SPDX-License-Identifier: MIT
#include "daemon/wire_context.hpp"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "config/local_sockets.hpp"
#include "daemon/connection_bound.hpp"

namespace driftd::daemon {
namespace {

constexpr int kHandshakeMs = 1500;  // libzmq's 30 s let a port scan keep descriptors for so long
constexpr std::array<std::string_view, 2> kDomains = {"commands", "publish"};

/// RFC 27: version, request id, domain, address, identity, mechanism, credentials.
bool is_admitted(const std::vector<zmq::message_t>& request) {
  if (request.size() < 6 || request[0].to_string_view() != "1.0") return false;
  if (request[5].to_string_view() != "NULL") return false;
  return std::find(kDomains.begin(), kDomains.end(), request[2].to_string_view()) != kDomains.end();
}

}  // namespace

class WireContext::Handler {
 public:
  explicit Handler(std::atomic<std::uint64_t>& ended)
      : ended_(ended),
        replies_(context_, zmq::socket_type::rep),
        news_(context_, zmq::socket_type::pull),
        to_news_(context_, zmq::socket_type::push) {
    replies_.set(zmq::sockopt::linger, 0);
    replies_.bind("inproc://zeromq.zap.01");  // libzmq looks for it under this name
    to_news_.set(zmq::sockopt::linger, 0);
    news_.bind("inproc://bounds");
    to_news_.connect("inproc://bounds");
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "driftd-zap");
      run();
    });
  }
  ~Handler() {
    context_.shutdown();  // ends the wait in run()
    thread_.join();
  }
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;

  zmq::context_t& context() noexcept { return context_; }

  /// Binds, with a bound on connections that this thread keeps from then on.
  void bind(zmq::socket_t& socket, const std::string& key, const std::string& endpoint) {
    auto bound = std::make_unique<ConnectionBound>(context_, socket, key, ended_);
    socket.bind(endpoint);
    bound->set_endpoint(socket.get(zmq::sockopt::last_endpoint));
    {
      const std::lock_guard lock(mutex_);
      bounds_.push_back(std::move(bound));
    }
    to_news_.send(zmq::message_t(), zmq::send_flags::none);
  }

 private:
  void run() noexcept {
    std::vector<ConnectionBound*> bounds;
    std::vector<zmq::pollitem_t> items = {{replies_.handle(), 0, ZMQ_POLLIN, 0},
                                          {news_.handle(), 0, ZMQ_POLLIN, 0}};
    for (bool over = false; !over;) {
      try {
        zmq::poll(items.data(), items.size(), std::chrono::milliseconds(-1));
        for (std::size_t i = 0; i < bounds.size(); ++i) {
          if (items[2 + i].revents != 0) bounds[i]->take_events();
        }
        if (items[0].revents != 0) answer_one();
        if (items[1].revents != 0) {
          bounds.push_back(next_bound(bounds.size()));
          items.push_back({bounds.back()->events().handle(), 0, ZMQ_POLLIN, 0});
        }
      } catch (const zmq::error_t& error) {
        over =
            error.num() == ETERM;  // anything else concerns one request; the peer's time runs out
      }
    }
    replies_.close();
  }

  ConnectionBound* next_bound(std::size_t known) {
    zmq::message_t message;
    [[maybe_unused]] const auto size = news_.recv(message);
    const std::lock_guard lock(mutex_);
    return bounds_[known].get();
  }

  void answer_one() {
    std::vector<zmq::message_t> request;
    do {
      zmq::message_t part;
      if (!replies_.recv(part)) return;
      request.push_back(std::move(part));
    } while (request.back().more());
    const bool admitted = is_admitted(request);
    const std::string id = request.size() > 1 ? request[1].to_string() : "";
    const std::string_view code = admitted ? "200" : "400";
    const std::string_view text = admitted ? "OK" : "not admitted";
    for (const std::string_view part :
         {std::string_view("1.0"), std::string_view(id), code, text, std::string_view()}) {
      replies_.send(zmq::buffer(part), zmq::send_flags::sndmore);  // the empty one: the user id
    }
    replies_.send(zmq::message_t(), zmq::send_flags::none);  // no metadata
  }

  std::atomic<std::uint64_t>& ended_;
  zmq::context_t context_{1};
  zmq::socket_t replies_;  ///< the thread's own once that runs
  zmq::socket_t news_;     ///< the thread's, too: a message for each new bound
  zmq::socket_t to_news_;
  std::mutex mutex_;  ///< of bounds_; each bound is the thread's
  std::vector<std::unique_ptr<ConnectionBound>> bounds_;
  std::thread thread_;
};

WireContext::WireContext() : handler_(std::make_unique<Handler>(ended_)) {}

WireContext::~WireContext() = default;

zmq::socket_t WireContext::socket(zmq::socket_type type, const std::string& domain) {
  zmq::socket_t socket(handler_->context(), type);
  socket.set(zmq::sockopt::zap_domain, domain);
  socket.set(zmq::sockopt::handshake_ivl, kHandshakeMs);
  return socket;
}

void WireContext::bind(zmq::socket_t& socket, const std::string& key, const std::string& endpoint) {
  if (config::is_named(endpoint) && runtime_directory_.empty()) {
    runtime_directory_ = make_runtime_directory();
  }
  const std::string whole = config::endpoint_in(runtime_directory_, endpoint);
  const auto file = config::socket_file(whole);
  try {
    if (file) locks_.emplace_back(*file);
    handler_->bind(socket, key, whole);
  } catch (const std::exception& error) {
    throw SocketError(key + ": cannot bind " + whole + ": " + error.what());
  }
  bound_[key] = socket.get(zmq::sockopt::last_endpoint);
  if (!file) return;
  // The umask may have closed it to the group. To write is to connect (unix(7)).
  constexpr mode_t kOwnerAndGroup = 0660;
  [[maybe_unused]] int refused = chmod(file->c_str(), kOwnerAndGroup);
  struct stat folder {};
  if (config::is_named(endpoint) && stat(runtime_directory_.c_str(), &folder) == 0) {
    refused = chown(file->c_str(), static_cast<uid_t>(-1), folder.st_gid);
  }
}

}  // namespace driftd::daemon
