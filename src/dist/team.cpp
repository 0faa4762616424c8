#include "dist/team.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/interrupts.h"
#include "dist/deadline.h"
#include "poem/error.h"

namespace poem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPoll(20);
constexpr std::chrono::seconds kAnswer(3);     // time for other ranks, and for the table, to say anything
constexpr std::chrono::seconds kFarewell(10);  // time for them to notice that rank 0 ends

template <class Condition>
void wait_until(Clock::time_point end, Condition condition) {
  while (!condition() && Clock::now() < end) std::this_thread::sleep_for(kPoll);
}

// The table of texts, when it may not answer: rank 0 keeps it, and may hang. After the first call that failed
// it is not asked again.
class Table {
  // The answer to a question about the channel, which must own what it touches.
  template <class Question>
  auto ask(Question question) {
    if (gone_) throw std::runtime_error("the table is gone");
    try {
      return in_time(Clock::now() + kAnswer, [channel = channel_, question] { return question(*channel); });
    } catch (const std::exception&) {
      gone_ = true;
      throw;
    }
  }

 public:
  explicit Table(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}

  void write(const std::string& key, const std::string& text) {
    ask([key, text](Channel& channel) { channel.write(key, text); });
  }
  std::string read(const std::string& key) {
    return ask([key](Channel& channel) { return channel.read(key); });
  }
  bool has(const std::string& key) {
    return ask([key](Channel& channel) { return channel.has(key); });
  }
  int64_t count(const std::string& key) {
    return ask([key](Channel& channel) { return channel.count(key); });
  }

 private:
  std::shared_ptr<Channel> channel_;
  bool gone_ = false;
};

// Where a rank runs. A process's number means something only in its container (namespace).
struct Address {
  std::string host = "?", process = "?", container;
};

Address own_address() {
  std::error_code unknown;
  return {host_name(), std::to_string(::getpid()),
          std::filesystem::read_symlink("/proc/self/ns/pid", unknown).string()};
}

Address address_from(const std::string& text) {
  Address address;
  std::istringstream(text) >> address.host >> address.process >> address.container;
  return address;
}

std::string text_of(const Address& address) {
  return fmt::format("{} {} {}", address.host, address.process, address.container);
}

bool is_here(const Address& address) {
  const Address own = own_address();
  return address.host == own.host && address.container == own.container;
}

// Whether a process of this machine is neither gone nor a zombie.
bool runs(const std::string& process) {
  std::ifstream status("/proc/" + process + "/stat");
  std::string text;
  std::getline(status, text);
  const auto state = text.rfind(')');  // PROCESS (NAME) STATE …
  return state != std::string::npos && text.find_first_of("ZX", state) != state + 2;
}

std::string key_of(const char* what, int rank) { return fmt::format("{}/{}", what, rank); }

constexpr const char *kHost = "host", *kLeft = "left", *kStuck = "stuck", *kKilled = "killed";

// What is known of a rank that is waited for.
enum class Fate { kAnswered, kKilled, kRunsHere, kUnknown };

struct Suspect {
  int rank;
  Fate fate;
  Address address;
};

// Only on its own machine can be seen whether a process still runs. What is seen there goes into the table.
Suspect look_for(int rank, Table& table) {
  const auto answered = [&] { return table.has(key_of(kStuck, rank)) || table.has(key_of(kLeft, rank)); };
  Suspect suspect{rank, Fate::kAnswered, {}};
  if (answered()) return suspect;
  if (const std::string key = key_of(kHost, rank); table.has(key))
    suspect.address = address_from(table.read(key));
  const bool here = is_here(suspect.address);
  if (here && !runs(suspect.address.process)) {
    if (answered()) return suspect;  // it did so, and ended, since it was asked
    table.write(key_of(kKilled, rank), "");
  }
  suspect.fate = table.has(key_of(kKilled, rank)) ? Fate::kKilled : here ? Fate::kRunsHere : Fate::kUnknown;
  return suspect;
}

std::vector<Suspect> with_fate(const std::vector<Suspect>& suspects, Fate fate) {
  std::vector<Suspect> found;
  std::copy_if(suspects.begin(), suspects.end(), std::back_inserter(found),
               [&](const Suspect& suspect) { return suspect.fate == fate; });
  return found;
}

// In its first epoch a training has no checkpoint yet.
std::string then_go_on(const char* first) {
  return fmt::format("{}, then continue from the checkpoint, or start again if there is none", first);
}

std::string name_of(int rank, const Address& address) {
  return fmt::format("rank {} (process {} on {})", rank, address.process, address.host);
}

constexpr const char* kRuns = "runs, but does not answer";

// Names those of whom most is known: others may only be busy, and follow by themselves.
Error error_about(const std::vector<Suspect>& suspects) {
  const auto error = [](const std::vector<Suspect>& some, const char* one, const char* several) {
    std::vector<std::string> names;
    for (const auto& [rank, fate, address] : some) names.push_back(name_of(rank, address));
    return Error(fmt::format("{}", fmt::join(names, ", ")), some.size() == 1 ? one : several,
                 then_go_on("see why"));
  };
  if (const auto killed = with_fate(suspects, Fate::kKilled); !killed.empty())
    return error(killed, "was killed", "were killed");
  if (const auto silent = with_fate(suspects, Fate::kUnknown); !silent.empty()) {
    return error(silent, "has not answered: killed, hanging, busy, or out of reach",
                 "have not answered: killed, hanging, busy, or out of reach");
  }
  return error(suspects, kRuns, "run, but do not answer");
}

// Without the table only that is known of rank 0 which can be seen on its own machine, and nothing of the
// others: those that are gone may have said why. The connections of a process end shortly before it does.
Error error_without_table(const Place& place, const Address& rank0, Clock::time_point end) {
  const char* unknown = "has ended, hangs, or its machine cannot be reached";
  if (place.agent)
    return Error(fmt::format("torchrun at {}:{}", place.address, place.port), unknown, then_go_on("see why"));
  const bool here = is_here(rank0);
  if (here) wait_until(end, [&] { return !runs(rank0.process); });
  return Error(name_of(0, rank0),
               !here                 ? unknown
               : runs(rank0.process) ? kRuns
                                     : "has ended",
               then_go_on("see why"));
}

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
  State(std::unique_ptr<Channel> own_channel, const Place& place)
      : channel(std::move(own_channel)), table(channel), place(place) {}

  // Whoever waits for this rank learns that it has left. Rank 0 holds the table of texts, so it stays until
  // the others have left too.
  ~State() {
    try {
      table.write(key_of(kLeft, place.rank), "");
      close();
      if (place.rank == 0) wait_until(Clock::now() + kFarewell, [this] { return others_left(); });
    } catch (const std::exception&) {  // rank 0 has gone: nobody is left to be told
    }
    close();
    table = Table(nullptr);
    shortly([channel = std::move(channel)]() mutable { channel.reset(); });
  }

  // At most once. Sums that are on their way to a rank that hangs may end much later.
  void close() {
    if (!std::exchange(closed, true)) shortly([channel = channel] { channel->close(); });
  }

  bool others_left() {
    for (int rank = 0; rank < place.size; ++rank) {
      const bool lost = std::find(missing.begin(), missing.end(), rank) != missing.end();
      if (!lost && !table.has(key_of(kLeft, rank))) return false;
    }
    return true;
  }

  // Goes on alone if it takes longer, or if it fails.
  template <class Call>
  static void shortly(Call call) {
    try {
      in_time(Clock::now() + kAnswer, std::move(call));
    } catch (const std::exception&) {
    }
  }

  std::shared_ptr<Channel> channel;
  Table table;
  const Place place;
  Address rank0;  // where the table is
  bool closed = false;
  int64_t shares = 0;  // of bytes sent; `size` of them are one, so that sums need no fractions
  double waited = 0;
  std::vector<int> missing;  // ranks that cannot be reached
};

Team::Team() = default;
Team::Team(std::unique_ptr<Channel> channel, const Place& place)
    : state_(std::make_shared<State>(std::move(channel), place)) {
  timed(0, [this] {
    state_->channel->write(key_of(kHost, rank()), text_of(own_address()));
    state_->rank0 = address_from(state_->channel->read(key_of(kHost, 0)));
  });
}

int Team::rank() const { return state_ ? state_->place.rank : 0; }
int Team::size() const { return state_ ? state_->place.size : 1; }
int Team::local_size() const { return state_ ? state_->place.local_size : 1; }

std::function<void()> Team::start_sum(const at::Tensor& tensor) const {
  if (!state_) return [] {};
  // In a ring every byte of a sum travels 2·(G−1) times, as the others' parts of it and as the result.
  const int64_t shares = 2 * (size() - 1) * static_cast<int64_t>(tensor.nbytes());
  std::function<void()> wait;
  timed(shares, [&] { wait = state_->channel->start_sum(tensor); });  // which may wait for others, too
  return [team = *this, wait] { team.timed(0, wait); };
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
    const int64_t bytes = (size() - 1) * static_cast<int64_t>(padded.nbytes());  // to each of the others
    timed(size() * bytes, [&] { all = state_->channel->gather(padded); });
    return all;
  };
  return Rows::apply(own, total, int64_t{rank()}, int64_t{size()}, gather);
}

std::vector<std::string> Team::texts(const std::string& topic, const std::string& own) const {
  if (!state_) return {own};
  std::vector<std::string> all(size());
  timed(size() * static_cast<int64_t>(own.size()),
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
    return state_->table.count("said/" + text) == 1;
  } catch (const std::exception&) {  // rank 0 has gone
    return rank() <= 1 || state_->place.local_rank == 0;
  }
}

int64_t Team::bytes_sent() const { return state_ ? state_->shares / size() : 0; }
double Team::seconds_waited() const { return state_ ? state_->waited : 0; }

void Team::timed(int64_t shares, const std::function<void()>& exchange) const {
  const auto start = Clock::now();
  try {
    exchange();
  } catch (const std::exception& problem) {
    lost(problem);
  }
  state_->shares += shares;
  state_->waited += std::chrono::duration<double>(Clock::now() - start).count();
}

// Every rank that still runs says so. Those that neither do nor have left are the ones that are missing.
void Team::lost(const std::exception& problem) const {
  if (interrupted()) throw Interrupted();
  state_->close();  // whoever waits for this rank need not wait longer
  Table& table = state_->table;
  std::vector<Suspect> missing;
  bool left = false;
  const auto end = Clock::now() + kAnswer;
  try {
    table.write(key_of(kStuck, rank()), "");
    wait_until(end, [&] {
      missing.clear();
      for (int r = 0; r < size(); ++r) {
        if (const Suspect suspect = look_for(r, table); suspect.fate != Fate::kAnswered)
          missing.push_back(suspect);
      }
      return with_fate(missing, Fate::kKilled).size() == missing.size();
    });
    for (int r = 0; r < size(); ++r) left = left || table.has(key_of(kLeft, r));
  } catch (const std::exception&) {  // the table is gone
    if (interrupted()) throw Interrupted();
    throw error_without_table(state_->place, state_->rank0, end);
  }
  state_->missing.clear();
  for (const Suspect& suspect : missing) state_->missing.push_back(suspect.rank);
  if (!missing.empty()) throw error_about(missing);
  if (left) throw SaidElsewhere();
  const std::string text = problem.what();  // a backtrace follows
  throw Error("job", fmt::format("the ranks lost each other: {}", text.substr(0, text.find('\n'))),
              then_go_on("check the network"));
}

Team join(const Place& place, at::Device device, std::chrono::seconds timeout) {
  if (place.size == 1) return {};
  return Team(connect(place, device, timeout), place);
}

}  // namespace poem
