#ifdef POEM_HAS_HTTPLIB
#include "serve/http_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <string>

#include "serve/service.h"

namespace poem {

using Clock = std::chrono::steady_clock;

// The two directions of a socket, as httplib reads and writes them.
class Connection : public httplib::Stream {
 public:
  Connection(socket_t socket, std::chrono::seconds silence) : socket_(socket), silence_(silence) {}

  // Whether a request begins within this time.
  bool wait(std::chrono::seconds idle) const {
    return first_ < last_ || is_ready(POLLIN, Clock::now() + idle);
  }
  // The head may take as long as a client may be silent.
  void begin_head() {
    head_end_ = Clock::now() + silence_;
    unread_ = std::numeric_limits<uint64_t>::max();
  }
  void begin_body(uint64_t bytes) {
    head_end_ = Clock::time_point::max();
    unread_ = bytes;
  }
  bool late() const { return late_; }              // the head was
  bool has_unread() const { return unread_ > 0; }  // of the request; it would be taken for the next one

  void refuse_late() {
    late_ = false;
    const std::string body = problem(408, "the head of the request took too long to arrive").body;
    httplib::Stream::write(
        fmt::format("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n"
                    "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                    body.size(), body));
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
    if (first_ == last_) {
      const Clock::time_point end = std::min(head_end_, Clock::now() + silence_);
      if (!is_ready(POLLIN, end)) {
        late_ = head_end_ != Clock::time_point::max();
        return -1;
      }
      const ssize_t received = recv(socket_, buffer_.data(), buffer_.size(), 0);
      if (received <= 0) return received;
      first_ = 0;
      last_ = static_cast<size_t>(received);
    }
    const size_t count = std::min(size, last_ - first_);
    std::memcpy(to, buffer_.data() + first_, count);
    first_ += count;
    unread_ -= std::min<uint64_t>(unread_, count);
    return static_cast<ssize_t>(count);
  }

  // Writes all. After a late head httplib's own answer would be that the request is malformed.
  ssize_t write(const char* from, size_t size) override {
    if (late_) return -1;
    for (size_t sent = 0; sent < size;) {
      if (!is_writable()) return -1;
      const ssize_t count = send(socket_, from + sent, size - sent, MSG_NOSIGNAL);
      if (count < 0 && errno != EINTR) return -1;
      sent += static_cast<size_t>(std::max<ssize_t>(count, 0));
    }
    return static_cast<ssize_t>(size);
  }

  bool is_readable() const override { return wait(silence_); }
  bool is_writable() const override { return is_ready(POLLOUT, Clock::now() + silence_); }
  void get_remote_ip_and_port(std::string&, int&) const override {}  // nobody asks
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }

 private:
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
  Clock::time_point head_end_ = Clock::time_point::max();  // the latest: no head is being read
  uint64_t unread_ = 0;                                    // bytes of the request
  bool late_ = false;
  std::array<char, 4096> buffer_;  // httplib reads the head byte by byte
  size_t first_ = 0, last_ = 0;    // of the bytes in the buffer
};

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
  serve(connection);
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
    const bool last = left == 1 || winding_down_;
    bool closes = false;
    const bool answered = process_request(connection, last, closes, [&](const httplib::Request& request) {
      connection.begin_body(request.has_header("Transfer-Encoding")
                                ? std::numeric_limits<uint64_t>::max()
                                : request.get_header_value<uint64_t>("Content-Length"));
    });
    if (connection.late()) connection.refuse_late();
    if (connection.has_unread()) connection.drain();
    if (!answered || last || closes || connection.has_unread()) return;
  }
}

}  // namespace poem

#endif
