#ifdef POEM_HAS_HTTPLIB
#include "serve/http_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <utility>

namespace poem {

using Clock = std::chrono::steady_clock;

namespace {

constexpr uint64_t kMostHead = 64 << 10, kMostLine = 8 << 10;  // bytes
constexpr uint64_t kChunked = std::numeric_limits<uint64_t>::max();

}  // namespace

// The two directions of a socket, as httplib reads and writes them. httplib waits for every read anew and
// reads lines of any length, byte by byte and into memory, so this is where a request has its limits.
class Connection : public httplib::Stream {
 public:
  Connection(socket_t socket, std::chrono::seconds silence) : socket_(socket), silence_(silence) {}
  std::string content_type;  // of the request that is read

  // Whether a request begins within this time.
  bool wait(std::chrono::seconds idle) const {
    return first_ < last_ || is_ready(POLLIN, Clock::now() + idle);
  }
  // The head may take as long as a client may be silent.
  void begin_head() {
    begin(true, kMostHead, silence_);
    refusal_.reset();
  }
  void begin_body(uint64_t most) {
    constexpr int kReads = 6;  // times the silence before one read
    begin(false, most, kReads * silence_);
  }
  const std::optional<Answer>& refusal() const { return refusal_; }  // why read() failed
  // Of the request; it would be taken for the next one.
  bool has_unread() const { return unread_ > 0 || refusal_; }

  // If not even the first line arrived, httplib does not answer.
  void send_refusal() {
    httplib::Stream::write(
        fmt::format("HTTP/1.1 {} Refused\r\nConnection: close\r\n"
                    "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                    refusal_->status, refusal_->body.size(), refusal_->body));
  }

  // Reads what the client still sends: the kernel resets a connection that is closed before, and the client
  // might lose the answer.
  void drain() {
    shutdown(socket_, SHUT_WR);
    const Clock::time_point end = Clock::now() + silence_;
    while (is_ready(POLLIN, end) && recv(socket_, buffer_.data(), buffer_.size(), 0) > 0) {
    }
  }

  ssize_t read(char* to, size_t size) override {
    if (refusal_) return -1;
    if (unread_ == 0) return refuse(in_head_ ? 431 : 413, fmt::format("is larger than {} bytes", most_));
    if (first_ == last_) {
      if (!flush()) return -1;  // the client may wait for it
      if (!is_ready(POLLIN, std::min(end_, Clock::now() + silence_)))
        return refuse(408, "took too long to arrive");
      const ssize_t received = recv(socket_, buffer_.data(), buffer_.size(), 0);
      if (received <= 0) return received;
      first_ = 0;
      last_ = static_cast<size_t>(received);
    }
    const size_t count = std::min({size, last_ - first_, static_cast<size_t>(unread_)});
    std::memcpy(to, buffer_.data() + first_, count);
    first_ += count;
    unread_ -= count;
    line_ = size > 1 || *to == '\n' ? 0 : line_ + 1;
    if (line_ > kMostLine)
      return refuse(in_head_ ? 431 : 400, fmt::format("has a line of more than {} bytes", kMostLine));
    return static_cast<ssize_t>(count);
  }

  // httplib writes the head and the body of an answer one after the other. They are sent together.
  ssize_t write(const char* from, size_t size) override {
    unsent_.append(from, size);
    return static_cast<ssize_t>(size);
  }

  // Sends all that was written.
  bool flush() {
    for (size_t sent = 0; sent < unsent_.size();) {
      if (!is_writable()) return false;
      const ssize_t count = send(socket_, unsent_.data() + sent, unsent_.size() - sent, MSG_NOSIGNAL);
      if (count < 0 && errno != EINTR) return false;
      sent += static_cast<size_t>(std::max<ssize_t>(count, 0));
    }
    unsent_.clear();
    return true;
  }

  bool is_readable() const override { return wait(silence_); }
  bool is_writable() const override { return is_ready(POLLOUT, Clock::now() + silence_); }
  void get_remote_ip_and_port(std::string&, int&) const override {}  // nobody asks
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }

 private:
  void begin(bool head, uint64_t most, std::chrono::seconds time) {
    in_head_ = head;
    unread_ = most_ = most;
    end_ = Clock::now() + time;
    line_ = 0;
  }
  ssize_t refuse(int status, const std::string& why) {
    refusal_ = problem(status, fmt::format("the {} {}", in_head_ ? "head of the request" : "body", why));
    return -1;
  }
  bool is_ready(short events, Clock::time_point end) const {
    while (true) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
      pollfd polled{socket_, events, 0};
      const int count = poll(&polled, 1, static_cast<int>(std::max<int64_t>(left, 0)));
      if (count >= 0 || errno != EINTR) return count > 0;
    }
  }

  const socket_t socket_;
  const std::chrono::seconds silence_;
  bool in_head_ = true;             // not in the body
  uint64_t most_ = 0, unread_ = 0;  // bytes that the head or the body may have, and may still have
  uint64_t line_ = 0;               // bytes that were read one by one since the last end of a line
  Clock::time_point end_;           // of the time for the head or the body
  std::optional<Answer> refusal_;   // why reading ended
  std::array<char, 4096> buffer_;   // httplib reads the head byte by byte
  size_t first_ = 0, last_ = 0;     // of the bytes in the buffer
  std::string unsent_;              // what httplib wrote
};

namespace {

thread_local Connection* served = nullptr;  // by this thread

// A thread for each connection, and a count of those that have one or wait for one.
class Threads : public httplib::TaskQueue {
 public:
  Threads(int threads, std::atomic<int64_t>& connections) : pool_(threads), connections_(connections) {}
  void enqueue(std::function<void()> connection) override {
    ++connections_;
    pool_.enqueue([this, connection = std::move(connection)] {
      connection();
      --connections_;
    });
  }
  void shutdown() override { pool_.shutdown(); }

 private:
  httplib::ThreadPool pool_;
  std::atomic<int64_t>& connections_;
};

}  // namespace

std::optional<uint64_t> body_bytes(const httplib::Request& request) {
  // httplib takes "Content-Length :" for another header, and others take it for this one.
  for (const auto& [name, value] : request.headers)
    if (name.find_first_of(" \t") != std::string::npos) return std::nullopt;
  const size_t lengths = request.get_header_value_count("Content-Length");
  if (request.has_header("Transfer-Encoding")) {
    const bool chunks = strcasecmp(request.get_header_value("Transfer-Encoding").c_str(), "chunked") == 0;
    return chunks && lengths == 0 ? std::optional(kChunked) : std::nullopt;
  }
  if (lengths == 0) return 0;
  const std::string text = request.get_header_value("Content-Length");
  for (size_t i = 1; i < lengths; ++i)
    if (request.get_header_value("Content-Length", i) != text) return std::nullopt;
  uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(bytes) : std::nullopt;
}

HttpServer::HttpServer(int connections) : threads_(connections) {
  new_task_queue = [this] { return new Threads(threads_, connections_); };
  set_keep_alive_max_count(1000);
  set_post_routing_handler([](const httplib::Request&, httplib::Response& response) {
    if (!served->has_unread()) return;
    response.headers.erase("Keep-Alive");
    response.headers.erase("Connection");
    response.set_header("Connection", "close");
  });
}

std::optional<Answer> HttpServer::refusal() { return served->refusal(); }

const std::string& HttpServer::content_type() { return served->content_type; }

void HttpServer::wind_down() {
  std::unique_lock<std::mutex> lock(mutex_);
  winding_down_ = true;
  ended_.wait(lock, [this] { return open_ == 0; });
}

bool HttpServer::process_and_close_socket(socket_t socket) {
  const bool counted = [this] {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!winding_down_) ++open_;
    return !winding_down_;
  }();
  Connection connection(socket, std::chrono::seconds(read_timeout_sec_));
  served = &connection;
  try {
    serve(connection);
  } catch (const std::exception& error) {  // after the handlers, for instance while the answer is written
    spdlog::error("a connection failed: {}", error.what());
  }
  served = nullptr;
  close(socket);
  if (counted) {
    const std::lock_guard<std::mutex> lock(mutex_);
    --open_;
    ended_.notify_all();
  }
  return true;
}

void HttpServer::serve(Connection& connection) {
  for (size_t left = keep_alive_max_count_; left > 0; --left) {
    if (!connection.wait(std::chrono::seconds(keep_alive_timeout_sec_))) return;
    connection.begin_head();
    const bool last = left == 1 || winding_down_ || connections_ > threads_;
    bool closes = false;
    const bool answered = process_request(connection, last, closes, [&](httplib::Request& request) {
      // httplib would cut parts out of every answer, however many and however often the same.
      request.ranges.clear();
      connection.content_type = request.get_header_value("Content-Type");
      request.headers.erase("Content-Type");
      // Chunks have sizes and ends beside what they carry.
      connection.begin_body(std::min(body_bytes(request).value_or(kChunked), 2 * payload_max_length_));
    });
    if (!answered && connection.refusal()) connection.send_refusal();
    const bool sent = connection.flush();
    if (connection.has_unread()) connection.drain();
    if (!answered || !sent || last || closes || connection.has_unread()) return;
  }
}

}  // namespace poem

#endif
