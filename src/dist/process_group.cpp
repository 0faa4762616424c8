// The one file that knows c10d, LibTorch's distributed engine: Gloo between CPUs, NCCL between GPUs.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <stdexcept>
#include <thread>

#include "core/interrupts.h"
#include "core/runtime.h"
#include "dist/channel.h"
#include "dist/deadline.h"
#include "dist/route.h"
#include "dist/shared_memory.h"
#include "poem/error.h"
#include "poem/version.h"

#if defined(POEM_HAS_GLOO) || defined(POEM_HAS_NCCL)
#define POEM_HAS_C10D
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#endif
#ifdef POEM_HAS_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#endif
#ifdef POEM_HAS_NCCL
#include <ATen/cuda/CUDAContext.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

namespace poem {

#ifdef POEM_HAS_C10D
namespace {

using Clock = std::chrono::steady_clock;
using Timeout = std::chrono::milliseconds;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

// Waits on the CPU. A copy from the GPU would wait too, but would not notice that NCCL has lost a rank: after
// the timeout NCCL gives up, and the copy is of a sum that was never finished.
void finish(c10d::Work& work, Timeout timeout) {
  constexpr int kSpins = 1000;  // some milliseconds
  const auto end = Clock::now() + timeout * 9 / 10;
  for (int round = 0; !work.isCompleted(); ++round) {
    if (round < kSpins) {
      std::this_thread::yield();
      continue;
    }
    if (Clock::now() > end) throw std::runtime_error("no answer in time");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// c10d's own waits notice no signal, and some have no end if rank 0 hangs, which keeps the table. This one
// asks again and again, at first often.
void await(const StorePtr& store, const std::string& key, Clock::time_point end) {
  constexpr Timeout kLongest(200);
  const auto is_there = [store, key] { return store->check({key}); };
  for (Timeout pause(1); !in_time(end, is_there, stop_if_interrupted);
       pause = std::min(2 * pause, kLongest)) {
    stop_if_interrupted();
    if (Clock::now() > end) throw std::runtime_error("no answer in time");
    std::this_thread::sleep_for(pause);
  }
}

std::string text_of(const StorePtr& store, const std::string& key, Clock::time_point end) {
  await(store, key, end);
  const std::vector<uint8_t> text = in_time(
      end, [store, key] { return store->get(key); }, stop_if_interrupted);
  return {text.begin(), text.end()};
}

template <class Group>
void end_group(Group&) {}
#ifdef POEM_HAS_NCCL
// Kernels that wait for a rank that is gone would wait for ever. LibTorch 2.x also warns at exit of a group
// that was not told to end.
void end_group(c10d::ProcessGroupNCCL& group) {
  try {
    group.abort();
  } catch (const std::exception&) {  // it is given up anyway
  }
}
#endif

// `Group` is a ProcessGroup of c10d in LibTorch 1.13 and a Backend in 2.x, with the same calls.
template <class Group>
class GroupChannel : public Channel {
 public:
  // The group works on tensors on `device`; others travel through a copy there.
  GroupChannel(StorePtr store, c10::intrusive_ptr<Group> group, at::Device device, Timeout timeout)
      : store_(std::move(store)),
        group_(std::move(group)),
        device_(device),
        timeout_(timeout),
        size_(group_->getSize()) {}

  std::function<void()> start_sum(const at::Tensor& tensor) override {
    const at::Tensor there = tensor.to(device_).contiguous();
    std::vector<at::Tensor> tensors = {there};
    const auto work = std::make_shared<WorkPtr>(group().allreduce(tensors));
    sums_.erase(std::remove_if(sums_.begin(), sums_.end(), [](const auto& sum) { return sum.expired(); }),
                sums_.end());
    sums_.push_back(work);
    return [tensor, there, work, timeout = timeout_] {
      if (!*work) throw std::runtime_error("the connection was closed");
      if (!there.is_same(tensor)) finish(**work, timeout);
      (*work)->wait();
      if (!there.is_same(tensor)) tensor.copy_(there);
    };
  }

  at::Tensor gather(const at::Tensor& own) override {
    std::vector<at::Tensor> input = {own.to(device_).contiguous()};
    std::vector<std::vector<at::Tensor>> outputs(1);
    for (int i = 0; i < size_; ++i) outputs[0].push_back(at::empty_like(input[0]));
    const auto work = group().allgather(outputs, input);
    if (own.device() != input[0].device()) finish(*work, timeout_);
    work->wait();
    return at::stack(outputs[0]).to(own.device());
  }

  // Works hold the connections of their group, which end with the last of them.
  void close() override {
    const auto group = std::move(group_);
    for (const auto& sum : sums_) {
      if (const auto work = sum.lock()) work->reset();
    }
    if (group) end_group(*group);
  }

  void write(const std::string& key, const std::string& text) override {
    store_->set(key, std::vector<uint8_t>(text.begin(), text.end()));
  }
  std::string read(const std::string& key) override { return text_of(store_, key, Clock::now() + timeout_); }
  bool has(const std::string& key) override { return store_->check({key}); }
  int64_t count(const std::string& key) override { return store_->add(key, 1); }

 private:
  Group& group() {
    if (!group_) throw std::runtime_error("the connection was closed");
    return *group_;
  }

  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  StorePtr store_;
  c10::intrusive_ptr<Group> group_;
  std::vector<std::weak_ptr<WorkPtr>> sums_;  // that are waited for, or will be
  const at::Device device_;
  const Timeout timeout_;
  const int size_;
};

#ifdef POEM_HAS_GLOO
using c10d::ProcessGroupGloo;
using Listener = decltype(ProcessGroupGloo::createDeviceForHostname(""));

std::unique_ptr<Channel> gloo_channel(const StorePtr& store, int rank, int size, const Listener& listener,
                                      Timeout timeout) {
  const auto options = ProcessGroupGloo::Options::create(timeout);
  options->devices = {listener};
  // Waits for all others at the table, in c10d's way.
  const auto join = [=] { return c10::make_intrusive<ProcessGroupGloo>(store, rank, size, options); };
  return share_memory(
      std::make_unique<GroupChannel<ProcessGroupGloo>>(
          store, in_time(Clock::now() + timeout, join, stop_if_interrupted), at::kCPU, timeout),
      rank, size, timeout);
}
#endif

std::string first_line(const std::exception& problem) {
  const std::string text = problem.what();  // a backtrace follows
  return text.substr(0, text.find('\n'));
}

// c10d would write lines of its own about a port that is not.
bool is_free(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const bool bound = ::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  ::close(socket);
  return bound;
}

// Waits until all ranks have come here.
void gather_at(const StorePtr& store, const std::string& point, const Place& place, Timeout timeout) {
  const auto end = Clock::now() + timeout;
  const auto key = [&](int rank) { return fmt::format("{}/{}", point, rank); };
  store->set(key(place.rank), std::vector<uint8_t>());
  for (int rank = 0; rank < place.size; ++rank) await(store, key(rank), end);
}

// Rank 0 keeps the table until the others, who are about to end too, have read it, if they do so soon.
void part(const StorePtr& store, const Place& place) {
  constexpr Timeout kSoon = std::chrono::seconds(3);
  const std::string point = "parted";
  try {
    if (place.rank == 0) return gather_at(store, point, place, kSoon);
    store->set(fmt::format("{}/{}", point, place.rank), std::vector<uint8_t>());
  } catch (const std::exception&) {  // who has not come is not told
  }
}

// What all ranks must have in common, and how to correct it where they have not.
struct Fact {
  std::string text, remedy;
};

constexpr const char* kBetween = "; ";  // facts

// The i-th of the facts that a rank has said; the last one if they are fewer.
std::string fact_of(const std::string& said, size_t i) {
  size_t begin = 0;
  for (size_t end; i > 0 && (end = said.find(kBetween, begin)) != std::string::npos; --i)
    begin = end + std::strlen(kBetween);
  return said.substr(begin, said.find(kBetween, begin) - begin);
}

Error difference(const std::vector<Fact>& own, const std::string& first, int rank) {
  size_t i = 0;
  while (i + 1 < own.size() && own[i].text == fact_of(first, i)) ++i;
  return Error(fmt::format("rank {} on {}", rank, host_name()),
               fmt::format("{}, rank 0 {}", own[i].text, fact_of(first, i)), own[i].remedy);
}

// Every rank says its facts and waits for those of the others. If they differ, the first that does not say
// what rank 0 says tells the user, and all end. All facts are said at once, under the key that any poem
// writes first: a rank that waits for what another one never says would wait until the timeout.
void agree(const StorePtr& store, const std::vector<Fact>& facts, const Place& place, Timeout timeout) {
  const auto end = Clock::now() + timeout;
  const auto key = [](int rank) { return fmt::format("size/{}", rank); };
  std::string own;
  for (const Fact& fact : facts) own += (own.empty() ? "" : kBetween) + fact.text;
  store->set(key(place.rank), std::vector<uint8_t>(own.begin(), own.end()));
  std::string first;
  for (int rank = 0; rank < place.size; ++rank) {
    const std::string text = text_of(store, key(rank), end);
    if (rank == 0) first = text;
    if (text == first) continue;
    part(store, place);
    if (rank != place.rank) throw SaidElsewhere();
    throw difference(facts, first, rank);
  }
}

// A rank may come before the one that listens, and who listens may be another program, which never answers.
StorePtr open_table(const std::string& address, const c10d::TCPStoreOptions& options) {
  const auto open = [address, options] {
    const StorePtr table = c10::make_intrusive<c10d::TCPStore>(address, options);
    const std::string key = "poem";  // who answers to it is a table
    table->set(key, std::vector<uint8_t>());
    table->wait({key}, options.timeout);
    return table;
  };
  return in_time(Clock::now() + options.timeout, open, stop_if_interrupted);
}

// The table of texts that rank 0 keeps, or torchrun, once all ranks use it and are fit for each other. After
// a restart torchrun's table still has the texts of the processes before.
StorePtr meet(const Place& place, at::Device device, Timeout timeout, const std::string& build) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(place.port);
  options.isServer = place.rank == 0 && !place.agent;
  options.waitWorkers = false;
  options.timeout = timeout;
  const StorePtr store = c10::make_intrusive<c10d::PrefixStore>(fmt::format("poem/{}", place.attempt),
                                                                open_table(place.address, options));
  agree(store,
        {{"runs " + build, "start the same poem, with the same LibTorch, on all machines"},
         {fmt::format("is one of {} processes", place.size), "give all processes the same WORLD_SIZE"},
         {device.is_cuda() ? "computes on a GPU" : "computes on the CPU",
          "see with nvidia-smi whether each GPU works, or give all processes the same option device"}},
        place, timeout);
  return store;
}

// What each rank says of a topic.
std::vector<std::string> exchange(const StorePtr& store, const std::string& topic, const std::string& own,
                                  const Place& place, Timeout timeout) {
  const auto key = [&](int rank) { return fmt::format("{}/{}", topic, rank); };
  store->set(key(place.rank), std::vector<uint8_t>(own.begin(), own.end()));
  std::vector<std::string> all;
  for (int rank = 0; rank < place.size; ++rank)
    all.push_back(text_of(store, key(rank), Clock::now() + timeout));
  return all;
}

#ifdef POEM_HAS_GLOO
// Where a rank listens: at its own address, from which it reaches rank 0. c10d would take that of the
// machine's name, which on Debian is 127.0.1.1. On rank 0's own machine it may be such an address too; if
// other machines take part, it is then the one from which these are reached. A rank without an address says
// none.
std::string listening_address(const std::string& own, const std::vector<std::string>& all) {
  const auto other = std::find_if(all.begin(), all.end(), [](const std::string& address) {
    return !address.empty() && !is_loopback(address);
  });
  return is_loopback(own) && other != all.end() ? source_address(*other) : own;
}

// If it cannot listen, all ranks learn it: one that waits for its connection would do so until the timeout.
Listener listen(const StorePtr& store, const Place& place, Timeout timeout) {
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");  // as in PyTorch
  const std::string yes = "yes";
  std::string own;
  Listener listener;
  std::exception_ptr problem;
  try {
    own = source_address(place.address);
  } catch (const std::exception&) {
    if (interface == nullptr) problem = std::current_exception();
  }
  const auto addresses = exchange(store, "address", own, place, timeout);
  try {
    if (interface != nullptr)
      listener = ProcessGroupGloo::createDeviceForInterface(interface);
    else if (!problem)
      listener = ProcessGroupGloo::createDeviceForHostname(listening_address(own, addresses));
  } catch (const std::exception&) {
    problem = std::current_exception();
  }
  const auto all = exchange(store, "listens", problem ? "no" : yes, place, timeout);
  const auto good = std::count(all.begin(), all.end(), yes);
  if (good < place.size) part(store, place);
  if (problem) std::rethrow_exception(problem);
  if (good < place.size) throw SaidElsewhere();
  return listener;
}
#endif

#ifdef POEM_HAS_NCCL
// The GPU of each rank, as "HOST BUS".
std::vector<std::string> gpus_of(const StorePtr& store, const Place& place, at::Device device,
                                 Timeout timeout) {
  const cudaDeviceProp& gpu = *at::cuda::getDeviceProperties(device.index());
  return exchange(
      store, "gpu",
      fmt::format("{} {:x}:{:x}:{:x}", host_name(), gpu.pciDomainID, gpu.pciBusID, gpu.pciDeviceID), place,
      timeout);
}

// NCCL refuses two ranks on one GPU of one machine. All but the first of those that share a GPU therefore
// claim to be on a machine of their own, and NCCL sends their messages through sockets.
void allow_sharing(const std::vector<std::string>& gpus, int rank) {
  for (const std::vector<int>& ranks : sharers(gpus)) {
    if (rank == 0)
      spdlog::warn(
          "ranks {} share a GPU: they take turns and exchange messages through sockets, which is slower than "
          "one process per GPU",
          fmt::join(ranks, ", "));
    const auto own = std::find(ranks.begin(), ranks.end(), rank);
    if (own == ranks.begin() || own == ranks.end()) continue;
    ::setenv("NCCL_HOSTID", fmt::format("{}/{}", host_name(), own - ranks.begin()).c_str(), 0);
  }
}

std::unique_ptr<Channel> nccl_channel(const StorePtr& store, const Place& place, at::Device device,
                                      Timeout timeout) {
  using c10d::ProcessGroupNCCL;
  allow_sharing(gpus_of(store, place, device, timeout), place.rank);
  // A lost rank is an exception in this process, soon, instead of its end after a minute of notes for
  // developers.
  ::setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2", 0);
  ::setenv("TORCH_NCCL_DUMP_ON_TIMEOUT", "0", 0);
  ::setenv("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "250", 0);
  const auto options = ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  return std::make_unique<GroupChannel<ProcessGroupNCCL>>(
      store, c10::make_intrusive<ProcessGroupNCCL>(store, place.rank, place.size, options), device, timeout);
}
#endif

// NCCL between GPUs, Gloo between CPUs. Without NCCL, messages of GPUs travel through the CPU's memory.
std::unique_ptr<Channel> channel_for(const StorePtr& store, const Place& place,
                                     [[maybe_unused]] at::Device device, Timeout timeout) {
#ifdef POEM_HAS_NCCL
  if (device.is_cuda()) return nccl_channel(store, place, device, timeout);
#endif
#ifdef POEM_HAS_GLOO
  return gloo_channel(store, place.rank, place.size, listen(store, place, timeout), timeout);
#else
  throw Error("train", "this poem was built without Gloo: its processes need GPUs",
              "start one process, or build with Gloo's headers");
#endif
}

}  // namespace

std::string own_build() {
  // Raise it whenever ranks exchange something else, or in another order, before they compare their configs.
  constexpr int kProtocol = 2;
  return fmt::format("poem {} (LibTorch {}, protocol {})", version(), runtime().libtorch, kProtocol);
}

std::unique_ptr<Channel> connect(const Place& place, at::Device device, std::chrono::seconds timeout,
                                 const std::string& build) {
  const std::string meeting = fmt::format("{}:{}", place.address, place.port);
  if (place.rank == 0 && !place.agent && !is_free(place.port)) {
    throw Error(meeting, "the port is in use by another process",
                "set MASTER_PORT to a free port, the same for all processes");
  }
  const auto begin = Clock::now();
  StorePtr store;
  try {
    store = meet(place, device, timeout, build);
  } catch (const Error&) {
    throw;
  } catch (const SaidElsewhere&) {
    throw;
  } catch (const std::exception& e) {
    stop_if_interrupted();  // which may have been the reason
    const bool waited = Clock::now() - begin > Timeout(timeout) * 9 / 10;
    throw Error(
        meeting,
        waited ? fmt::format("the {} processes did not meet here within {} s", place.size, timeout.count())
               : fmt::format("rank {} cannot meet the others here: {}", place.rank, first_line(e)),
        "check that all were started, and MASTER_ADDR and MASTER_PORT");
  }
  try {
    std::unique_ptr<Channel> channel = channel_for(store, place, device, timeout);
    gather_at(store, "connected", place, timeout);  // none leaves while another still connects
    return channel;
  } catch (const Error&) {
    throw;
  } catch (const SaidElsewhere&) {
    throw;
  } catch (const std::exception& e) {
    stop_if_interrupted();
    throw Error(meeting,
                fmt::format("rank {} cannot reach the other processes: {}", place.rank, first_line(e)),
                "check the network; GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME names the interface to use");
  }
}

std::vector<std::function<std::unique_ptr<Channel>()>> connect_threads(
    [[maybe_unused]] int size, [[maybe_unused]] std::chrono::seconds timeout) {
#ifdef POEM_HAS_GLOO
  const StorePtr store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::function<std::unique_ptr<Channel>()>> channels;
  for (int rank = 0; rank < size; ++rank) {
    channels.push_back([=] {
      std::unique_ptr<Channel> channel =
          gloo_channel(store, rank, size, ProcessGroupGloo::createDeviceForHostname("127.0.0.1"), timeout);
      Place place;
      place.rank = rank;
      place.size = size;
      gather_at(store, "connected", place, timeout);
      return channel;
    });
  }
  return channels;
#else
  throw Error("threads", "this poem was built without Gloo", "build with Gloo's headers");
#endif
}

#else

std::string own_build() { return "poem without c10d"; }

std::unique_ptr<Channel> connect(const Place& place, at::Device, std::chrono::seconds, const std::string&) {
  throw Error("train",
              fmt::format("is one of {} processes, but this poem was built without c10d", place.size),
              "start one process, or build with a LibTorch that has c10d and with Gloo's headers");
}

std::vector<std::function<std::unique_ptr<Channel>()>> connect_threads(int, std::chrono::seconds) {
  throw Error("threads", "this poem was built without c10d", "build with Gloo's headers");
}

#endif

std::vector<std::vector<int>> sharers(const std::vector<std::string>& gpus) {
  std::map<std::string, std::vector<int>> ranks;
  for (size_t rank = 0; rank < gpus.size(); ++rank) ranks[gpus[rank]].push_back(static_cast<int>(rank));
  std::vector<std::vector<int>> shared;
  for (auto& [gpu, users] : ranks)
    if (users.size() > 1) shared.push_back(std::move(users));
  return shared;
}

}  // namespace poem
