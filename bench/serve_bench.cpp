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

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Seconds per image of the bare network.
double forward_seconds(Network& network, int64_t side, int64_t batch, int repeats) {
  const at::NoGradGuard no_grad;
  const at::Tensor images = random_bytes({batch, 3, side, side}, 1);
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
double slowest_percent(int tasks, double interval, const std::function<std::function<void()>()>& make_task) {
  constexpr int kThreads = 8;
  std::vector<double> times(static_cast<size_t>(tasks));
  const auto start = Clock::now() + std::chrono::milliseconds(500);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      const std::function<void()> task = make_task();
      task();  // the first one connects or warms up
      for (int i = t; i < tasks; i += kThreads) {
        const auto due =
            start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(i * interval));
        std::this_thread::sleep_until(due);
        task();
        times[static_cast<size_t>(i)] = seconds_since(due);
      }
    });
  for (std::thread& thread : threads) thread.join();
  const auto place = times.begin() + tasks * 99 / 100;
  std::nth_element(times.begin(), place, times.end());
  return *place;
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

std::function<void()> forward_task(Network& network, int64_t side) {
  use_threads_here(1);
  return [&network, image = random_bytes({1, 3, side, side}, 1)] {
    const at::NoGradGuard no_grad;
    keep(network.logits(network.features(image)));
  };
}

// A network, and how long to look at it.
struct Case {
  std::string network;
  Detector detector;
  int rounds, tasks;
};

void time_service(const Case& c, const std::string& photo) {
  const TemporaryFolder folder;
  c.detector.save(folder / "detector.safetensors");
  Network& network = *c.detector.network;
  Service service(folder / "detector.safetensors", at::kCPU, {});
  ServerOptions options;
  options.port = 0;
  Server server(service, options);
  server.start();
  const auto by_wrk = [&] { return seconds_by_wrk(folder, photo, server.port()); };
  by_wrk();  // warms up
  std::vector<double> request, bare_request, slowest, bare_slowest, bare_one;
  const int all_threads = at::get_num_threads();
  for (int round = 0; round < c.rounds; ++round) {
    request.push_back(by_wrk());
    bare_request.push_back(forward_seconds(network, c.detector.size, 64, 20));
    const double interval = 2 * request.back();
    slowest.push_back(slowest_percent(c.tasks, interval, [&] { return request_task(photo, server.port()); }));
    bare_slowest.push_back(
        slowest_percent(c.tasks, interval, [&] { return forward_task(network, c.detector.size); }));
    const double on_all_threads = forward_seconds(network, c.detector.size, 1, 100);
    use_threads_here(1);  // which may be faster
    bare_one.push_back(std::min(on_all_threads, forward_seconds(network, c.detector.size, 1, 100)));
    use_threads_here(all_threads);
  }
  hold(c.network + ": a JPEG of 64×64, 32 connections / bare forward of 64", median(request),
       median(bare_request), 1 / 0.7);
  hold(c.network + ": 99th percentile at half load / bare forward of 1", median(slowest), median(bare_one),
       3);
  fmt::print("  it would be {:.2f} ms if requests were bare forwards of 1\n", 1e3 * median(bare_slowest));
  server.stop();
}

}  // namespace

POEM_BENCH(serve) {
  const std::string photo = encode_jpeg(draw_photo(64, 64, 1), false, kCamera);
  set_up_service_memory(ServerOptions().connections);
  NetworkSpec paper;  // DenseNet-BC-100-12
  paper.classes = 10;
  Detector deep{make_network(paper, 1), make_score("energy"), 0, std::vector<std::string>(10, "class"), 32};
  for (size_t i = 0; i < deep.class_names.size(); ++i) deep.class_names[i] += std::to_string(i);
  deep.network->train(false);
  time_service({"smallest network", photo_detector(64), /*rounds=*/3, /*tasks=*/4000}, photo);
  time_service({"paper's network", deep, /*rounds=*/3, /*tasks=*/1000}, photo);
}

}  // namespace poem::bench
