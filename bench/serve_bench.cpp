// poem serve beside the forward passes that it cannot do without: as many requests as it can answer, by wrk,
// and the time of single requests at half that load.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "../tests/encode_images.h"
#include "../tests/temporary_folder.h"
#include "compare.h"
#include "core/runtime.h"
#include "photos.h"
#include "serve/server.h"

namespace poem::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kSide = 64;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Seconds per image of the bare network.
double forward_seconds(Network& network, int64_t batch, int repeats) {
  const at::NoGradGuard no_grad;
  const at::Tensor images = random_bytes({batch, 3, kSide, kSide}, 1);
  std::vector<double> times;
  for (int i = 0; i <= repeats; ++i) {
    const auto start = Clock::now();
    keep(network.logits(network.features(images)));
    if (i > 0) times.push_back(seconds_since(start) / static_cast<double>(batch));  // the first one warms up
  }
  return median(std::move(times));
}

// Seconds per request, wrk's 32 connections together.
double seconds_by_wrk(const TemporaryFolder& folder, const std::string& photo, int port) {
  folder.put("photo.jpg", photo);
  folder.put("post.lua", fmt::format("wrk.method = 'POST'\nwrk.body = io.open('{}', 'rb'):read('*a')\n",
                                     folder / "photo.jpg"));
  const std::string command =
      fmt::format("wrk -t1 -c32 -d3s -s {} http://127.0.0.1:{}/v1/predict", folder / "post.lua", port);
  const std::unique_ptr<FILE, int (*)(FILE*)> out(popen(command.c_str(), "r"), pclose);
  std::string text;
  char part[512];
  while (const size_t size = std::fread(part, 1, sizeof part, out.get())) text.append(part, size);
  const std::string label = "Requests/sec:";
  const size_t at = text.find(label);
  if (at == std::string::npos || text.find("Non-2xx") != std::string::npos)
    throw std::runtime_error("wrk (of Debian's package wrk) says:\n" + text);
  return 1 / std::stod(text.substr(at + label.size()));
}

// The 99th percentile of the seconds from the time at which a task was due to its end. Tasks are due at equal
// intervals, whether earlier ones have ended or not; each thread makes itself one that it repeats.
double slowest_percent(double interval, const std::function<std::function<void()>()>& make_task) {
  constexpr int kThreads = 8, kTasks = 4000;
  std::vector<double> times(kTasks);
  const auto start = Clock::now() + std::chrono::milliseconds(500);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      const std::function<void()> task = make_task();
      task();  // the first one connects or warms up
      for (int i = t; i < kTasks; i += kThreads) {
        const auto due =
            start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(i * interval));
        std::this_thread::sleep_until(due);
        task();
        times[static_cast<size_t>(i)] = seconds_since(due);
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::nth_element(times.begin(), times.begin() + kTasks * 99 / 100, times.end());
  return times[kTasks * 99 / 100];
}

// A connection that sends the same request again and again, as wrk does. A whole HTTP client would take a
// share of the cores that counts beside the forward pass.
class Requester {
 public:
  Requester(const std::string& photo, int port)
      : request_(fmt::format("POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: image/jpeg\r\n"
                             "Content-Length: {}\r\n\r\n",
                             photo.size()) +
                 photo) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("the service does not answer");
  }
  ~Requester() { ::close(socket_); }
  Requester(const Requester&) = delete;
  Requester& operator=(const Requester&) = delete;

  void operator()() const {
    char answer[4096];  // is sent in one piece
    const bool sent =
        ::send(socket_, request_.data(), request_.size(), 0) == static_cast<ssize_t>(request_.size());
    const ssize_t size = sent ? ::recv(socket_, answer, sizeof answer, 0) : 0;
    const std::string_view text(answer, static_cast<size_t>(std::max<ssize_t>(size, 0)));
    if (text.rfind("HTTP/1.1 200", 0) != 0) throw std::runtime_error("a request was not answered");
  }

 private:
  const int socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
  const std::string request_;
};

std::function<void()> request_task(const std::string& photo, int port) {
  return [requester = std::make_shared<Requester>(photo, port)] { (*requester)(); };
}

std::function<void()> forward_task(Network& network) {
  use_threads_here(1);
  return [&network, image = random_bytes({1, 3, kSide, kSide}, 1)] {
    const at::NoGradGuard no_grad;
    keep(network.logits(network.features(image)));
  };
}

}  // namespace

POEM_BENCH(serve) {
  const TemporaryFolder folder;
  const Detector detector = photo_detector(kSide);
  detector.save(folder / "detector.safetensors");
  const std::string photo = encode_jpeg(draw_photo(kSide, kSide, 1), false, kCamera);
  Service service(folder / "detector.safetensors", at::kCPU, {});
  ServerOptions options;
  options.port = 0;
  set_up_service_memory(options.connections);
  Server server(service, options);
  server.start();
  const auto by_wrk = [&] { return seconds_by_wrk(folder, photo, server.port()); };
  by_wrk();  // warms up
  std::vector<double> request, bare_request, slowest, bare_slowest, bare_one;
  const int all_threads = at::get_num_threads();
  for (int round = 0; round < 3; ++round) {
    request.push_back(by_wrk());
    bare_request.push_back(forward_seconds(*detector.network, 64, 20));
    const double interval = 2 * request.back();
    slowest.push_back(slowest_percent(interval, [&] { return request_task(photo, server.port()); }));
    bare_slowest.push_back(slowest_percent(interval, [&] { return forward_task(*detector.network); }));
    const double on_all_threads = forward_seconds(*detector.network, 1, 100);
    use_threads_here(1);  // which may be faster
    bare_one.push_back(std::min(on_all_threads, forward_seconds(*detector.network, 1, 100)));
    use_threads_here(all_threads);
  }
  hold("serving JPEGs of 64×64 to 32 connections / bare forward of 64", median(request), median(bare_request),
       1 / 0.7);
  hold("99th percentile of a request at half load / bare forward of 1", median(slowest), median(bare_one), 3);
  fmt::print("  it would be {:.2f} ms if requests were bare forwards of 1\n", 1e3 * median(bare_slowest));
  server.stop();
}

}  // namespace poem::bench
