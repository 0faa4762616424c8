#include "dist/team.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <fstream>
#include <thread>

#include "core/interrupts.h"
#include "poem/error.h"

namespace poem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPoll(20);
constexpr std::chrono::seconds kAnswer(3);     // time for other ranks to say that they are alive
constexpr std::chrono::seconds kFarewell(10);  // time for them to notice that rank 0 ends

template <class Condition>
void wait_for(std::chrono::seconds most, Condition condition) {
  const auto end = Clock::now() + most;
  while (!condition() && Clock::now() < end) std::this_thread::sleep_for(kPoll);
}

// Where a rank runs.
struct Address {
  std::string host, process;
};

Address address_from(const std::string& text) {  // "HOST PROCESS"
  const auto space = text.rfind(' ');
  return {text.substr(0, space), space == std::string::npos ? "?" : text.substr(space + 1)};
}

// Whether it is a process of this machine that is neither gone nor a zombie.
bool runs_here(const Address& address) {
  if (address.host != host_name()) return false;
  std::ifstream status("/proc/" + address.process + "/stat");
  std::string text;
  std::getline(status, text);
  const auto state = text.rfind(')');  // PROCESS (NAME) STATE …
  return state != std::string::npos && text.find_first_of("ZX", state) != state + 2;
}

std::string key_of(const char* what, int rank) { return fmt::format("{}/{}", what, rank); }

constexpr const char *kHost = "host", *kLeft = "left", *kStuck = "stuck";

// Row i of the result is row i / size of rank i % size. The padding of shorter ranks lies behind `total`.
at::Tensor interleaved(const at::Tensor& gathered, int64_t total) {
  return gathered.transpose(0, 1).flatten(0, 1).narrow(0, 0, total);
}

struct Rows : torch::autograd::Function<Rows> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& own, int64_t total,
                            int64_t rank, int64_t size,
                            const std::function<at::Tensor(const at::Tensor&)>& gather) {
    context->saved_data["rank"] = rank;
    context->saved_data["size"] = size;
    const int64_t most = (total + size - 1) / size;
    return interleaved(gather(at::constant_pad_nd(own, {0, 0, 0, most - own.size(0)})), total);
  }

  static std::vector<at::Tensor> backward(torch::autograd::AutogradContext* context,
                                          const std::vector<at::Tensor>& gradients) {
    const int64_t rank = context->saved_data["rank"].toInt(), size = context->saved_data["size"].toInt();
    const int64_t total = gradients[0].size(0);
    return {gradients[0].slice(0, std::min(rank, total), total, size), {}, {}, {}, {}};
  }
};

}  // namespace

struct Team::State {
  State(std::unique_ptr<Channel> channel, const Place& place) : channel(std::move(channel)), place(place) {
    this->channel->write(key_of(kHost, place.rank), fmt::format("{} {}", host_name(), ::getpid()));
  }

  // Whoever waits for this rank learns that it has left. Rank 0 holds the table of texts, so it stays until
  // the others have left too.
  ~State() {
    try {
      channel->write(key_of(kLeft, place.rank), "");
      channel->close();
      if (place.rank > 0) return;
      wait_for(kFarewell, [&] {
        for (int rank = 0; rank < place.size; ++rank) {
          const bool lost = std::find(missing.begin(), missing.end(), rank) != missing.end();
          if (!lost && !channel->has(key_of(kLeft, rank))) return false;
        }
        return true;
      });
    } catch (const std::exception&) {  // rank 0 has gone: nobody is left to be told
    }
  }

  std::unique_ptr<Channel> channel;
  const Place place;
  int64_t bytes = 0;
  double waited = 0;
  std::vector<int> missing;  // ranks that cannot be reached
};

Team::Team() = default;
Team::Team(std::unique_ptr<Channel> channel, const Place& place)
    : state_(std::make_shared<State>(std::move(channel), place)) {}

int Team::rank() const { return state_ ? state_->place.rank : 0; }
int Team::size() const { return state_ ? state_->place.size : 1; }
int Team::local_size() const { return state_ ? state_->place.local_size : 1; }

std::function<void()> Team::start_sum(const at::Tensor& tensor) const {
  if (!state_) return [] {};
  try {
    const std::function<void()> wait = state_->channel->start_sum(tensor);
    return [team = *this, wait, bytes = static_cast<int64_t>(tensor.nbytes())] { team.timed(bytes, wait); };
  } catch (const std::exception& problem) {
    lost(problem);
  }
}

void Team::sum(const at::Tensor& tensor) const { start_sum(tensor)(); }

double Team::sum(double value) const {
  const at::Tensor total = at::full({}, value, at::kDouble);
  sum(total);
  return total.item<double>();
}

void Team::copy_first(const at::Tensor& tensor) const {
  const at::NoGradGuard no_grad;
  if (!first()) tensor.zero_();
  sum(tensor);
}

bool Team::any(bool value) const { return sum(value ? 1.0 : 0.0) > 0; }

Range Team::part(int64_t count) const { return {count * rank() / size(), count * (rank() + 1) / size()}; }

// Each rank writes its list to its place among zeros. Padding all lists to the longest would take G times the
// bytes where one rank has everything.
std::vector<int64_t> Team::joined(const std::vector<int64_t>& own) const {
  if (!state_) return own;
  const at::Tensor sizes = at::zeros({size()}, at::kLong);
  sizes[rank()].fill_(static_cast<int64_t>(own.size()));
  sum(sizes);
  const at::Tensor all = at::zeros({sizes.sum().item<int64_t>()}, at::kLong);
  const auto first = sizes.narrow(0, 0, rank()).sum().item<int64_t>();
  std::copy(own.begin(), own.end(), all.data_ptr<int64_t>() + first);
  sum(all);
  return {all.data_ptr<int64_t>(), all.data_ptr<int64_t>() + all.numel()};
}

at::Tensor Team::rows(const at::Tensor& own, int64_t total) const {
  if (!state_) return own;
  const std::function<at::Tensor(const at::Tensor&)> gather = [this](const at::Tensor& padded) {
    at::Tensor all;
    timed(static_cast<int64_t>(padded.nbytes()), [&] { all = state_->channel->gather(padded); });
    return all;
  };
  return Rows::apply(own, total, int64_t{rank()}, int64_t{size()}, gather);
}

std::vector<std::string> Team::texts(const std::string& topic, const std::string& own) const {
  if (!state_) return {own};
  std::vector<std::string> all(size());
  timed(static_cast<int64_t>(own.size()),
        [&] { state_->channel->write(key_of(topic.c_str(), rank()), own); });
  any(false);  // all have written it; fails at once if a rank has left, where read() would wait
  timed(0, [&] {
    for (int r = 0; r < size(); ++r) all[r] = state_->channel->read(key_of(topic.c_str(), r));
  });
  return all;
}

bool Team::says(const std::string& text) const {
  if (!state_) return true;
  try {
    return state_->channel->count("said/" + text) == 1;
  } catch (const std::exception&) {  // rank 0 has gone
    return rank() <= 1;
  }
}

int64_t Team::bytes_sent() const { return state_ ? state_->bytes : 0; }
double Team::seconds_waited() const { return state_ ? state_->waited : 0; }

void Team::timed(int64_t bytes, const std::function<void()>& exchange) const {
  const auto start = Clock::now();
  try {
    exchange();
  } catch (const std::exception& problem) {
    lost(problem);
  }
  state_->bytes += bytes;
  state_->waited += std::chrono::duration<double>(Clock::now() - start).count();
}

// Every rank that still runs says so. Those that neither do nor have left are the ones that are missing.
void Team::lost(const std::exception& problem) const {
  if (interrupted()) throw Interrupted();
  Channel& channel = *state_->channel;
  const std::string remedy = "see why, then continue from the checkpoint";
  std::vector<int> missing;
  try {
    channel.close();  // whoever waits for this rank need not wait longer
    channel.write(key_of(kStuck, rank()), "");
    wait_for(kAnswer, [&] {
      missing.clear();
      for (int r = 0; r < size(); ++r) {
        if (!channel.has(key_of(kStuck, r)) && !channel.has(key_of(kLeft, r))) missing.push_back(r);
      }
      return missing.empty();
    });
    if (missing.empty()) {
      for (int r = 0; r < size(); ++r) {
        if (channel.has(key_of(kLeft, r))) throw SaidElsewhere();
      }
      const std::string text = problem.what();  // a backtrace follows
      throw Error("job", fmt::format("the ranks lost each other: {}", text.substr(0, text.find('\n'))),
                  "check the network, then continue from the checkpoint");
    }
  } catch (const Error&) {
    throw;
  } catch (const SaidElsewhere&) {
    throw;
  } catch (const std::exception&) {  // the table is gone
    throw Error("rank 0", "has ended, or its machine cannot be reached", remedy);
  }
  state_->missing = missing;
  std::vector<std::string> suspects, busy;
  for (const int r : missing) {
    const std::string key = key_of(kHost, r);
    const Address address = address_from(channel.has(key) ? channel.read(key) : "?");
    (runs_here(address) ? busy : suspects)
        .push_back(fmt::format("rank {} (process {} on {})", r, address.process, address.host));
  }
  if (suspects.empty()) suspects = busy;
  throw Error(fmt::format("{}", fmt::join(suspects, ", ")), "was killed, hangs, or cannot be reached",
              remedy);
}

Team join(const Place& place, at::Device device, std::chrono::seconds timeout) {
  if (place.size == 1) return {};
  return Team(connect(place, device, timeout), place);
}

}  // namespace poem
