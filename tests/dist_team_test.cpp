#include "dist/team.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <torch/version.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <future>
#include <map>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "core/interrupts.h"
#include "dist/batch_norm.h"
#include "dist/deadline.h"
#include "dist/gradients.h"
#include "dist/place.h"
#include "dist/route.h"
#include "dist/shared_memory.h"
#include "expect_error.h"
#include "release_interrupts.h"
#include "team_threads.h"

namespace poem {
namespace {

using Variables = std::map<std::string, std::string>;

Place place(const Variables& variables) {
  return place_from([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Place, IsAloneUnlessAStarterSaysOtherwise) {
  EXPECT_EQ(place({}).size, 1);
  EXPECT_EQ(place({{"RANK", "3"}}).size, 1) << "of how many?";
  EXPECT_EQ(place({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}).size, 1) << "a batch script, not a step";
}

TEST(Place, ReadsWhatStartersSay) {
  const Place torchrun = place({{"RANK", "5"},
                                {"WORLD_SIZE", "8"},
                                {"LOCAL_RANK", "1"},
                                {"LOCAL_WORLD_SIZE", "4"},
                                {"MASTER_ADDR", "node7"},
                                {"MASTER_PORT", "1234"}});
  EXPECT_EQ(torchrun.rank, 5);
  EXPECT_EQ(torchrun.size, 8);
  EXPECT_EQ(torchrun.local_rank, 1);
  EXPECT_EQ(torchrun.local_size, 4);
  EXPECT_EQ(torchrun.address, "node7");
  EXPECT_EQ(torchrun.port, 1234);
  EXPECT_FALSE(torchrun.agent);
  const Place restarted = place({{"RANK", "0"},
                                 {"WORLD_SIZE", "2"},
                                 {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                 {"TORCHELASTIC_RESTART_COUNT", "3"}});
  EXPECT_TRUE(restarted.agent);
  EXPECT_EQ(restarted.attempt, 3);

  const Variables mpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"PMIX_NAMESPACE", "job-1"}};
  Variables other = mpi;
  other["PMIX_NAMESPACE"] = "job-2";
  EXPECT_EQ(place(mpi).rank, 1);
  EXPECT_EQ(place(mpi).address, "127.0.0.1");
  EXPECT_NE(place(mpi).port, place(other).port) << "two jobs on one machine";

  const Place slurm = place({{"SLURM_PROCID", "2"},
                             {"SLURM_STEP_NUM_TASKS", "5"},
                             {"SLURM_LOCALID", "0"},
                             {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                             {"SLURM_STEP_NODELIST", "gpu[07-08,12]"},
                             {"SLURM_JOB_ID", "99"}});
  EXPECT_EQ(slurm.rank, 2);
  EXPECT_EQ(slurm.size, 5);
  EXPECT_EQ(slurm.local_size, 2);
  EXPECT_EQ(slurm.address, "gpu07");
}

// The size of this machine's share, of four machines with four processes, twice two, and one.
TEST(Place, ReadsWhatSlurmSaysOfUnevenMachines) {
  const int expected[] = {4, 2, 2, 1};
  for (int node = 0; node < 4; ++node) {
    const Place uneven = place({{"SLURM_PROCID", std::to_string(2 * node)},
                                {"SLURM_STEP_NUM_TASKS", "9"},
                                {"SLURM_LOCALID", "0"},
                                {"SLURM_STEP_TASKS_PER_NODE", "4,2(x2),1"},
                                {"SLURM_NODEID", std::to_string(node)},
                                {"SLURM_STEP_NODELIST", "gpu[1,3-5]"}});
    EXPECT_EQ(uneven.local_size, expected[node]) << node;
    EXPECT_EQ(uneven.address, "gpu1");
  }
  for (const char* list : {"", ",", "many", "2", "0"}) {
    const Place place_ = place({{"SLURM_PROCID", "0"},
                                {"SLURM_STEP_NUM_TASKS", "2"},
                                {"SLURM_STEP_TASKS_PER_NODE", list},
                                {"SLURM_NODEID", "7"}});
    EXPECT_EQ(place_.local_size, 1) << "a list that does not reach this machine: " << list;
  }
}

TEST(Place, FindsRanksThatShareAGpu) {
  using Groups = std::vector<std::vector<int>>;
  EXPECT_EQ(sharers({"a 1", "a 2", "b 1", "b 2"}), Groups());
  EXPECT_EQ(sharers({"a 1", "a 1"}), Groups({{0, 1}}));
  EXPECT_EQ(sharers({"a 1", "a 2", "a 1", "b 1", "a 2", "a 1"}), Groups({{0, 2, 5}, {1, 4}}));
}

TEST(Place, RefusesImpossibleValues) {
  expect_error([] { place({{"RANK", "2"}, {"WORLD_SIZE", "2"}}); }, {"RANK", "'2'", "0 to 1"});
  expect_error([] { place({{"RANK", "0"}, {"WORLD_SIZE", "two"}}); }, {"WORLD_SIZE", "'two'"});
  expect_error(
      [] {
        place({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "70000"}});
      },
      {"MASTER_PORT", "70000", "65535"});
}

TEST(Team, OfOneChangesNothing) {
  const Team team;
  const at::Tensor x = at::rand({5, 2});
  EXPECT_TRUE(team.rows(x, 5).is_same(x));
  EXPECT_EQ(team.joined({3, 1}), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(team.sum(2.5), 2.5);
  EXPECT_EQ(team.part(7).last, 7);
  EXPECT_EQ(team.bytes_sent(), 0);
}

class Teams : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Teams, testing::Values(1, 2, 3, 4));

TEST_P(Teams, SumAndJoin) {
  const int size = GetParam();
  as_team(size, [&](const Team& team) {
    const at::Tensor x = at::arange(6, at::kFloat).view({2, 3}).t() * (team.rank() + 1);  // not contiguous
    team.sum(x);
    EXPECT_TRUE(at::equal(x, at::arange(6, at::kFloat).view({2, 3}).t() * (size * (size + 1) / 2)));
    const at::Tensor own = at::full({2}, team.rank() + 5, at::kLong);
    team.copy_first(own);
    EXPECT_TRUE(at::equal(own, at::full({2}, 5, at::kLong)));
    EXPECT_TRUE(team.any(team.rank() == size - 1));
    EXPECT_FALSE(team.any(false));

    const std::vector<int64_t> list(team.rank(), team.rank());  // none, 1, 2 2, 3 3 3
    std::vector<int64_t> all;
    for (int r = 0; r < size; ++r) all.insert(all.end(), r, r);
    EXPECT_EQ(team.joined(list), all);
    EXPECT_EQ(team.texts("names", std::to_string(team.rank())).back(), std::to_string(size - 1));

    int64_t entries = 0;
    const Range part = team.part(10);
    for (int64_t i = part.first; i < part.last; ++i) entries += 1 << i;
    EXPECT_EQ(team.sum(static_cast<double>(entries)), 1023) << "every entry belongs to one rank";
    EXPECT_EQ(team.bytes_sent() > 0, size > 1);
  });
}

// Short messages go through shared memory, long ones through c10d, and a long one may be on its way
// meanwhile.
TEST_P(Teams, MessagesOfAllLengthsStayApart) {
  const int size = GetParam();
  as_team(size, [&](const Team& team) {
    const auto message = [&](int64_t length, int turn, int rank) {
      return at::arange(length, at::kDouble) + 10 * turn + rank;
    };
    for (int turn = 0; turn < 40; ++turn) {
      if (turn % size == team.rank()) std::this_thread::sleep_for(std::chrono::milliseconds(turn % 4));
      const at::Tensor on_its_way = message(20000, turn, team.rank());
      const std::function<void()> wait = team.start_sum(on_its_way);
      for (const int64_t length : {1, 8192, 8193}) {  // 8,192 are the most that shared memory takes
        const at::Tensor sum = message(length, turn, team.rank());
        at::Tensor expected = at::zeros_like(sum);
        for (int rank = 0; rank < size; ++rank) expected += message(length, turn, rank);
        team.sum(sum);
        ASSERT_TRUE(at::equal(sum, expected)) << length << " numbers, turn " << turn;
      }
      wait();
      ASSERT_EQ(on_its_way[7].item<double>(), size * (7 + 10 * turn) + size * (size - 1) / 2);
    }
  });
}

// Ranks may keep a tensor in different ways, and must still send it on the same way.
TEST_P(Teams, SumTensorsWhateverTheirStrides) {
  const int size = GetParam();
  const at::Tensor x = at::arange(6, at::kFloat).view({2, 3}), columns = x.t().contiguous().t();
  ASSERT_FALSE(columns.is_contiguous());
  as_team(size, [&](const Team& team) {
    const at::Tensor sum = (team.first() ? columns : x).clone();
    team.sum(sum);
    EXPECT_TRUE(at::equal(sum, x * size));
  });
}

// A rank may write its next message while others still read this one.
TEST_P(Teams, NoMessageTakesThePlaceOfOneThatIsStillRead) {
  const int size = GetParam();
  as_team(size, [&](const Team& team) {
    for (int turn = 0; turn < 1000; ++turn) {
      const at::Tensor sum = at::full({8192}, turn, at::kDouble);
      team.sum(sum);
      const auto [least, most] = at::aminmax(sum);
      ASSERT_EQ(least.item<double>(), turn * size);
      ASSERT_EQ(most.item<double>(), turn * size);
    }
  });
}

// By hand: of a sum each rank sends 2·(G−1)/G times the bytes, of gathered rows its own to every other rank.
TEST_P(Teams, CountTheBytesThatTheySend) {
  const int size = GetParam();
  as_team(size, [&](const Team& team) {
    team.sum(at::zeros({300}));
    EXPECT_EQ(team.bytes_sent(), 2 * (size - 1) * 1200 / size);
    int64_t before = team.bytes_sent();
    for (int i = 0; i < 3; ++i) team.sum(1.0);
    EXPECT_EQ(team.bytes_sent() - before, 2 * (size - 1) * 24 / size) << "one of them is not a whole number";
    before = team.bytes_sent();
    const bool last = team.rank() == size - 1;
    team.rows(at::zeros({last ? 4 : 5, 3}), 5 * size - 1);
    EXPECT_EQ(team.bytes_sent() - before, (size - 1) * 5 * 3 * 4) << "the last rank's rows are padded";
  });
}

// Counts the bytes that a rank gets.
class CountingChannel : public ChannelAround {
 public:
  CountingChannel(std::unique_ptr<Channel> channel, int64_t& bytes)
      : ChannelAround(std::move(channel)), bytes_(bytes) {}
  std::function<void()> start_sum(const at::Tensor& tensor) override {
    bytes_ += static_cast<int64_t>(tensor.nbytes());
    return ChannelAround::start_sum(tensor);
  }
  at::Tensor gather(const at::Tensor& own) override {
    at::Tensor all = ChannelAround::gather(own);
    bytes_ += static_cast<int64_t>(all.nbytes());
    return all;
  }

 private:
  int64_t& bytes_;
};

// Where one rank has everything, the others still get each entry once. Lists may also all be empty.
TEST(Team, JoinsListsAtTheCostOfTheirEntries) {
  constexpr int kSize = 3;
  constexpr int64_t kEntries = 1000;
  std::vector<int64_t> list(kEntries);
  std::iota(list.begin(), list.end(), int64_t{0});
  std::vector<int64_t> bytes(kSize);
  const auto work = [&](const Team& team) {
    EXPECT_EQ(team.joined(team.rank() == 1 ? list : std::vector<int64_t>()), list);
    EXPECT_EQ(bytes[team.rank()], 8 * (kEntries + kSize));
    EXPECT_TRUE(team.joined({}).empty());
  };
  as_team(kSize, work, [&](int rank, std::unique_ptr<Channel> channel) {
    return std::make_unique<CountingChannel>(std::move(channel), bytes[rank]);
  });
}

TEST_P(Teams, TextsAreSaidOnce) {
  std::atomic<int> said = 0;
  as_team(GetParam(), [&](const Team& team) { said += team.says("the disk is full"); });
  EXPECT_EQ(said, 1);
}

// Also of fewer rows than ranks.
TEST_P(Teams, RowsComeInTheOrderOfTheBatch) {
  const int size = GetParam();
  for (const int64_t total : {1, 2, 7, 12}) {
    const at::Tensor batch = at::rand({total, 3}), weights = at::rand({total, 3});
    as_team(size, [&](const Team& team) {
      const at::Tensor own =
          batch.slice(0, std::min<int64_t>(team.rank(), total), total, size).clone().requires_grad_();
      const at::Tensor rows = team.rows(own, total);
      EXPECT_TRUE(at::equal(rows.detach(), batch));
      (rows.square() * weights).sum().backward();
      const at::Tensor gradient =
          (2 * batch * weights).slice(0, std::min<int64_t>(team.rank(), total), total, size);
      EXPECT_TRUE(at::allclose(own.grad(), gradient));
    });
  }
}

// Leaves of more than one bucket, one that only one rank uses, and one of another type.
TEST_P(Teams, GradientsAreSummed) {
  const int size = GetParam();
  as_team(size, [&](const Team& team) {
    std::vector<at::Tensor> leaves;
    for (const int64_t length : {700000, 700000, 3, 5}) leaves.push_back(at::ones({length}));
    leaves.push_back(at::ones({2}, at::kDouble));
    for (at::Tensor& leaf : leaves) leaf.requires_grad_();
    GradientSum gradients(team, leaves);
    for (int step = 1; step <= 2; ++step) {
      at::Tensor loss = leaves[0].sum() + leaves[1].sum() * (team.rank() + 1) + leaves[4].sum() * step;
      if (team.rank() == size - 1) loss = loss + 7 * leaves[2].sum() + leaves[3].sum();
      loss.backward();
      gradients.finish();
      const double expected[] = {1.0 * size, size * (size + 1) / 2.0, 7, 1, 1.0 * size * step};
      for (size_t i = 0; i < leaves.size(); ++i) {
        EXPECT_TRUE(at::allclose(leaves[i].grad(), at::full_like(leaves[i], expected[i]))) << i;
        leaves[i].mutable_grad().reset();
      }
    }
  });
}

// Against LibTorch's own on the whole batch, also where a rank has no rows.
TEST_P(Teams, BatchNormSeesTheWholeBatch) {
  const int size = GetParam();
  for (const int64_t total : {3, 10}) {
    const at::Tensor x = at::randn({total, 4, 3, 3}) * 2 + 5, slope = at::randn({total, 4, 3, 3});
    const at::Tensor weight = at::rand({4}), bias = at::rand({4});
    const auto running = [] { return at::ones({4}); };
    const at::Tensor mean = running(), variance = running();
    const at::Tensor x1 = x.clone().requires_grad_(), w1 = weight.clone().requires_grad_(),
                     b1 = bias.clone().requires_grad_();
    const at::Tensor y1 = at::batch_norm(x1, w1, b1, mean, variance, true, 0.1, 1e-5, false);
    (y1 * slope).sum().backward();
    as_team(size, [&](const Team& team) {
      const auto own = [&](const at::Tensor& t) {
        return t.slice(0, std::min<int64_t>(team.rank(), total), total, size);
      };
      const at::Tensor x2 = own(x).clone().requires_grad_(), w2 = weight.clone().requires_grad_(),
                       b2 = bias.clone().requires_grad_();
      const at::Tensor mean2 = running(), variance2 = running();
      const at::Tensor y2 = batch_norm(x2, w2, b2, mean2, variance2, 0.1, 1e-5, team);
      (y2 * own(slope)).sum().backward();
      const auto close = [](const at::Tensor& a, const at::Tensor& b) {
        return at::allclose(a, b, 1e-4, 1e-5);
      };
      EXPECT_TRUE(close(y2.detach(), own(y1.detach())));
      EXPECT_TRUE(close(x2.grad(), own(x1.grad())));
      team.sum(w2.grad());
      team.sum(b2.grad());
      EXPECT_TRUE(close(w2.grad(), w1.grad()));
      EXPECT_TRUE(close(b2.grad(), b1.grad()));
      EXPECT_TRUE(close(mean2, mean));
      EXPECT_TRUE(close(variance2, variance));
    });
  }
}

TEST(Team, NamesARankThatIsGone) {
  const auto lose = [](bool closes, int64_t numbers) {
    const auto channels = connect_threads(2, std::chrono::seconds(20));
    std::thread other([&] {
      const auto channel = channels[1]();
      if (closes) channel->close();  // without a word
    });
    const Team team(channels[0](), thread_place(0, 2));
    expect_error([&] { team.sum(at::ones({numbers})); }, {"rank 1", "continue from the checkpoint"});
    other.join();
  };
  std::vector<std::thread> threads;  // each waits some seconds for an answer
  for (const bool closes : {true, false}) {
    for (const int64_t numbers : {3, 100000}) threads.emplace_back(lose, closes, numbers);
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Team, SeesThatARankIsGoneWhileAnotherIsBusy) {
  const auto channels = connect_threads(3, std::chrono::seconds(20));
  std::promise<void> seen;
  std::thread busy([&] {
    const auto channel = channels[0]();
    seen.get_future().wait();
  });
  std::thread gone([&] { channels[2](); });
  const auto channel = channels[1]();
  try {
    channel->start_sum(at::ones({3}));
    ADD_FAILURE() << "there was nobody to sum with";
  } catch (const std::exception& error) {
    EXPECT_STREQ(error.what(), "rank 2 has closed the connection");
  }
  seen.set_value();
  busy.join();
  gone.join();
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Of ranks on machines of their own.
class FarChannel : public ChannelAround {
 public:
  using ChannelAround::ChannelAround;
  void write(const std::string& key, const std::string& text) override {
    ChannelAround::write(key, key.rfind("host/", 0) == 0 ? "far-" + key.substr(5) + " 5" : text);
  }
};

// A rank that has noticed the loss ends its connections at once, those of sums that are on their way too, so
// that the ranks which wait for it notice as well and are not named instead of the lost one.
TEST(Team, NamesOnlyTheRankThatIsGoneOfFour) {
  constexpr int kSize = 4, kGone = 2;
  const auto channels = connect_threads(kSize, std::chrono::seconds(20));
  std::vector<std::string> messages(kSize);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kSize; ++rank) {
    threads.emplace_back([&, rank] {
      auto channel = std::make_unique<FarChannel>(channels[rank]());
      if (rank == kGone) return channel->write("host/2", "");
      const Team team(std::move(channel), thread_place(rank, kSize));
      const std::function<void()> first = team.start_sum(at::ones({100000})),
                                  second = team.start_sum(at::ones({100000}));
      try {
        first();
      } catch (const Error& error) {
        messages[rank] = error.where();
      } catch (const SaidElsewhere&) {
        messages[rank] = "said elsewhere";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int rank : {0, 1, 3}) EXPECT_EQ(messages[rank], "rank 2 (process 5 on far-2)") << rank;
}

// A sum waits for a rank that is busy, or hangs, and would end with the timeout.
TEST(Team, DoesNotWaitForABusyRankToNameOneThatIsGone) {
  const auto lose = [](int gone) {
    const auto channels = connect_threads(3, std::chrono::seconds(20));
    std::promise<void> seen;
    std::vector<std::thread> others;
    others.emplace_back([&] {
      const auto channel = channels[2 - gone]();
      if (gone == 2) channel->write("host/0", "far 5");
      seen.get_future().wait();
    });
    others.emplace_back([&] {
      const auto channel = channels[gone]();
      if (gone == 0) channel->write("host/0", "far 5");
    });
    EXPECT_LT(seconds_of([&] {
                const Team team(channels[1](), thread_place(1, 3));
                const std::function<void()> on_its_way = team.start_sum(at::ones({100000}));
                expect_error([&] { team.sum(1.0); }, {fmt::format("rank {}", gone)});
              }),
              15)
        << gone;
    seen.set_value();
    for (std::thread& other : others) other.join();
  };
  std::thread first(lose, 0);
  lose(2);
  first.join();
}

TEST(Connect, HeedsCtrlCWhileItWaitsForTheConnectionsOfOthers) {
  const auto channels = connect_threads(2, std::chrono::seconds(2));
  catch_interrupts();
  std::raise(SIGINT);
  EXPECT_THROW(channels[0](), Interrupted);
  release_interrupts();
}

TEST(InTime, ReturnsOrThrowsWhatTheCallDoes) {
  const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  EXPECT_EQ(in_time(soon, [] { return 3; }), 3);
  EXPECT_THROW(in_time(soon, [] { throw SaidElsewhere(); }), SaidElsewhere);
  const auto resource = std::make_shared<int>(0);
  in_time(soon, [resource = resource] {});
  EXPECT_EQ(resource.use_count(), 1) << "the call has ended with all that it owned";
}

TEST(InTime, LeavesACallAloneThatDoesNotEnd) {
  std::promise<void> end;
  const auto call = [end = end.get_future().share()] { end.wait_for(std::chrono::seconds(20)); };
  const auto now = std::chrono::steady_clock::now();
  EXPECT_LT(seconds_of([&] {
              EXPECT_THROW(in_time(now + std::chrono::milliseconds(50), call), std::runtime_error);
              EXPECT_THROW(in_time(now + std::chrono::seconds(20), call, [] { throw Interrupted(); }),
                           Interrupted);
            }),
            10);
  end.set_value();
}

// Carries texts only. `blind` finds no memory by its name.
class TextChannel : public ChannelAround {
 public:
  TextChannel(std::unique_ptr<Channel> channel, bool blind)
      : ChannelAround(std::move(channel)), blind_(blind) {}
  std::function<void()> start_sum(const at::Tensor&) override { throw std::runtime_error("far"); }
  at::Tensor gather(const at::Tensor&) override { throw std::runtime_error("far"); }
  void write(const std::string& key, const std::string& text) override {
    ChannelAround::write("again/" + key, text);  // the channel around which it is shares memory already
  }
  std::string read(const std::string& key) override {
    const std::string text = ChannelAround::read("again/" + key);
    return blind_ && text.rfind("/poem-", 0) == 0 ? "/poem-none" : text;
  }

 private:
  const bool blind_;
};

// Calls work(channel, rank) on three threads, with channels that share memory around `TextChannel`s.
void share_with_texts(int blind_rank, const std::function<void(Channel&, int)>& work) {
  const auto channels = connect_threads(3, std::chrono::seconds(20));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      auto texts = std::make_unique<TextChannel>(channels[rank](), rank == blind_rank);
      work(*share_memory(std::move(texts), rank, 3, std::chrono::seconds(20)), rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(SharedMemory, CarriesShortMessagesOnly) {
  constexpr int64_t kMost = 8192;
  share_with_texts(/*blind_rank=*/-1, [](Channel& channel, int rank) {
    EXPECT_THROW(channel.start_sum(at::ones({kMost + 1}, at::kDouble)), std::runtime_error);
    EXPECT_THROW(channel.gather(at::ones({kMost + 1}, at::kDouble)), std::runtime_error);
    const at::Tensor sum = at::full({kMost}, rank + 1, at::kDouble);
    channel.start_sum(sum)();
    EXPECT_TRUE(at::equal(sum, at::full({kMost}, 6, at::kDouble)));
    EXPECT_TRUE(at::equal(channel.gather(at::full({2}, rank)), at::arange(3).unsqueeze(1).expand({3, 2})));
    EXPECT_EQ(::shm_open(channel.read("memory").c_str(), O_RDWR, 0), -1) << "its name is gone";
  });
}

TEST(SharedMemory, IsUsedByAllRanksOrNone) {
  share_with_texts(/*blind_rank=*/1, [](Channel& channel, int) {
    EXPECT_THROW(channel.start_sum(at::ones({1})), std::runtime_error);
    EXPECT_THROW(channel.gather(at::ones({1})), std::runtime_error);
  });
}

TEST(Team, IsSilentAboutARankThatSaidWhyItEnded) {
  const auto channels = connect_threads(2, std::chrono::seconds(20));
  std::thread other([&] { Team(channels[1](), thread_place(1, 2)); });
  const Team team(channels[0](), thread_place(0, 2));
  EXPECT_THROW(team.sum(at::ones({3})), SaidElsewhere);
  other.join();
}

using Table = std::map<std::string, std::string>;

// Of a rank that reaches no other, and has this table of texts.
class BrokenChannel : public Channel {
 public:
  explicit BrokenChannel(Table& table) : table_(table) {}
  std::function<void()> start_sum(const at::Tensor&) override { throw std::runtime_error("no answer"); }
  at::Tensor gather(const at::Tensor&) override { throw std::runtime_error("no answer"); }
  void close() override {}
  void write(const std::string& key, const std::string& text) override { table_[key] = text; }
  std::string read(const std::string& key) override { return table_.at(key); }
  bool has(const std::string& key) override { return table_.count(key) > 0; }
  int64_t count(const std::string&) override { throw std::runtime_error("nobody counts"); }

 private:
  Table& table_;
};

// Two machines with three ranks each. The table went with rank 0, and rank 1 may have gone with it.
TEST(Team, SpeaksOnEveryMachineWithoutTheTable) {
  const bool expected[] = {true, true, false, true, false, false};
  for (int rank = 0; rank < 6; ++rank) {
    Place place = thread_place(rank, 6);
    place.local_rank = rank % 3;
    place.local_size = 3;
    Table table = {{"host/0", "far 5"}};
    for (int other = 0; other < 6; ++other) table[fmt::format("left/{}", other)] = "";
    EXPECT_EQ(Team(std::make_unique<BrokenChannel>(table), place).says("rank 0 has ended"), expected[rank])
        << rank;
  }
}

int ended_process() {
  const int child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

// How ranks of this machine say where they run.
std::string address_of(int process) {
  return fmt::format("{} {} {}", host_name(), process,
                     std::filesystem::read_symlink("/proc/self/ns/pid").string());
}

// What rank 2 of three says of ranks 0 and 1, which do not answer. `fill` gets the table.
std::string message_about(const std::function<void(Table&)>& fill, Table& table) {
  fill(table);
  const Team team(std::make_unique<BrokenChannel>(table), thread_place(2, 3));
  try {
    team.sum(1.0);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// A rank sees of its own machine who still runs, and reads the rest in the table.
TEST(Team, SaysOfRanksOnlyWhatIsKnown) {
  const int ended = ended_process();
  const std::string ended_here = address_of(ended), runs_here = address_of(::getpid());
  const std::string killed = fmt::format("(process {} on {})", ended, host_name());
  const std::string running = fmt::format("(process {} on {})", ::getpid(), host_name());
  const std::string remedy = " (see why, then continue from the checkpoint, or start again if there is none)";
  const std::vector<std::pair<std::function<void(Table&)>, std::string>> cases = {
      {[](Table& t) {
         t.insert({{"host/0", "far 5"}, {"host/1", "far 6"}});
       },
       "rank 0 (process 5 on far), rank 1 (process 6 on far): have not answered: killed, hanging, busy, or "
       "out "
       "of reach"},
      {[](Table& t) {
         t.insert({{"host/0", "far 5"}, {"stuck/0", ""}, {"host/1", "far 6"}});
       },
       "rank 1 (process 6 on far): has not answered: killed, hanging, busy, or out of reach"},
      {[&](Table& t) {
         t.insert({{"host/0", "far 5"}, {"host/1", ended_here}});
       },
       fmt::format("rank 1 {}: was killed", killed)},
      {[](Table& t) {
         t.insert({{"host/0", "far 5"}, {"killed/0", ""}, {"host/1", "far 6"}});
       },
       "rank 0 (process 5 on far): was killed"},
      {[&](Table& t) {
         t.insert({{"host/0", ended_here}, {"host/1", ended_here}});
       },
       fmt::format("rank 0 {}, rank 1 {}: were killed", killed, killed)},
      {[&](Table& t) {
         t.insert({{"host/0", "far 5"}, {"host/1", runs_here}});
       },
       "rank 0 (process 5 on far): has not answered: killed, hanging, busy, or out of reach"},
      {[&](Table& t) {
         t.insert({{"host/0", "far 5"}, {"stuck/0", ""}, {"host/1", runs_here}});
       },
       fmt::format("rank 1 {}: runs, but does not answer", running)},
  };
  std::vector<std::thread> threads;  // each waits some seconds for an answer
  for (const auto& [fill, expected] : cases)
    threads.emplace_back([&, fill = fill, expected = expected] {
      Table table;
      EXPECT_EQ(message_about(fill, table), expected + remedy);
    });
  for (std::thread& thread : threads) thread.join();
  Table told;
  message_about([&](Table& t) { t.insert({{"host/0", ended_here}, {"host/1", ended_here}}); }, told);
  EXPECT_EQ(told.count("killed/0") + told.count("killed/1"), 2) << "other machines see only the table";
}

// Of a rank that reaches no other. The table answers until the rank has joined, and neither the end of its
// connections nor its own comes before `end`.
class HangingChannel : public BrokenChannel {
 public:
  HangingChannel(Table& table, std::shared_future<void> end, std::shared_ptr<std::atomic<int>> asked)
      : BrokenChannel(table), end_(std::move(end)), asked_(std::move(asked)) {}
  ~HangingChannel() override { wait(); }
  void close() override { wait(); }
  void write(const std::string& key, const std::string& text) override {
    if (key.rfind("host/", 0) == 0) BrokenChannel::write(key, text);  // else sent, and not yet received
  }
  bool has(const std::string&) override {
    ++*asked_;
    wait();
    return false;
  }
  int64_t count(const std::string&) override { return has(""); }

 private:
  void wait() const { end_.wait_for(std::chrono::seconds(30)); }

  const std::shared_future<void> end_;
  const std::shared_ptr<std::atomic<int>> asked_;
};

// What rank 1 of two says of rank 0, which keeps the table and hangs.
std::string message_about_first(const std::string& address, bool agent, const std::shared_future<void>& end) {
  Table table = {{"host/0", address}};
  const auto asked = std::make_shared<std::atomic<int>>(0);
  Place place = thread_place(1, 2);
  place.agent = agent;
  std::string message;
  EXPECT_LT(seconds_of([&] {
              const Team team(std::make_unique<HangingChannel>(table, end, asked), place);
              try {
                team.sum(1.0);
              } catch (const Error& error) {
                message = error.what();
              }
              EXPECT_TRUE(team.says(message)) << "nobody else may";
            }),
            20);
  EXPECT_EQ(*asked, 1) << "once is enough";
  return message;
}

TEST(Team, EndsAndNamesRankZeroThatHangs) {
  const int ended = ended_process();
  const std::string remedy = " (see why, then continue from the checkpoint, or start again if there is none)";
  struct Case {
    std::string address;
    bool agent;
    std::string expected;
  };
  const std::vector<Case> cases = {
      {address_of(::getpid()), false,
       fmt::format("rank 0 (process {} on {}): runs, but does not answer", ::getpid(), host_name())},
      {address_of(ended), false, fmt::format("rank 0 (process {} on {}): has ended", ended, host_name())},
      {"far 5", false, "rank 0 (process 5 on far): has ended, hangs, or its machine cannot be reached"},
      {address_of(::getpid()), true,
       "torchrun at 127.0.0.1:29500: has ended, hangs, or its machine cannot be reached"},
  };
  std::promise<void> end;
  const std::shared_future<void> ends = end.get_future().share();
  std::vector<std::thread> threads;  // each waits some seconds for an answer
  for (const Case& one : cases) {
    threads.emplace_back(
        [&, one] { EXPECT_EQ(message_about_first(one.address, one.agent, ends), one.expected + remedy); });
  }
  for (std::thread& thread : threads) thread.join();
  end.set_value();
}

int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ::bind(socket, reinterpret_cast<sockaddr*>(&address), size);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(socket);
  return ntohs(address.sin_port);
}

// What becomes of ranks that meet, each with the number of ranks and the device that it was given, and with
// the build of the poem that it runs.
std::vector<std::string> outcomes_of(const std::vector<std::pair<int, at::Device>>& ranks,
                                     const std::vector<std::string>& builds = {}) {
  const int port = free_port();
  std::vector<std::string> outcomes(ranks.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back([&, rank] {
      Place place = thread_place(static_cast<int>(rank), ranks[rank].first);
      place.port = port;
      try {
        connect(place, ranks[rank].second, std::chrono::seconds(4),
                builds.empty() ? own_build() : builds[rank]);
        outcomes[rank] = "connected";
      } catch (const Error& error) {
        outcomes[rank] = error.what();
      } catch (const SaidElsewhere&) {
        outcomes[rank] = "said elsewhere";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

// One rank says so, the first that differs from rank 0. No GPU is used: they compare before.
TEST(Connect, RefusesRanksThatWereStartedInDifferentWays) {
  using Outcomes = std::vector<std::string>;
  const at::Device cpu(at::kCPU), gpu(at::kCUDA, 0);
  const std::string elsewhere = "said elsewhere", rank1 = fmt::format("rank 1 on {}: ", host_name());
  EXPECT_EQ(outcomes_of({{2, cpu}, {2, cpu}}), Outcomes({"connected", "connected"}));
  EXPECT_EQ(outcomes_of({{3, gpu}, {3, cpu}, {3, cpu}}),
            Outcomes({elsewhere,
                      rank1 + "computes on the CPU, rank 0 computes on a GPU (see with nvidia-smi whether "
                              "each GPU works, or give all processes the same option device)",
                      elsewhere}));
  EXPECT_EQ(outcomes_of({{2, cpu}, {3, cpu}}),
            Outcomes({elsewhere, rank1 + "is one of 3 processes, rank 0 is one of 2 processes (give all "
                                         "processes the same WORLD_SIZE)"}));
  EXPECT_EQ(outcomes_of({{3, cpu}, {2, cpu}, {3, cpu}})[1],
            rank1 +
                "is one of 2 processes, rank 0 is one of 3 processes (give all processes the same "
                "WORLD_SIZE)");
  EXPECT_EQ(outcomes_of({{2, cpu}, {2, cpu}}, {"poem 9.0.0 (A)", "poem 8.0.0 (B)"}),
            Outcomes({elsewhere, rank1 + "runs poem 8.0.0 (B), rank 0 runs poem 9.0.0 (A) (start the same "
                                         "poem, with the same LibTorch, on all machines)"}));
  EXPECT_EQ(outcomes_of({{3, cpu}, {2, gpu}, {3, cpu}}, {"poem A", "poem B", "poem A"})[1].find(
                rank1 + "runs poem B, rank 0 runs poem A ("),
            0u)
      << "the difference that explains the others";
}

// LibTorch 2.x tries again until the timeout, whatever the reason.
TEST(Connect, SaysWhyThePlaceCannotBeReached) {
  const std::string reason =
      TORCH_VERSION_MAJOR < 2 ? "rank 1 cannot meet the others here: " : "did not meet";
  Place place = thread_place(1, 2);
  place.address = "255.255.255.255";  // all machines
  place.port = free_port();
  expect_error([&] { connect(place, at::kCPU, std::chrono::seconds(3)); },
               {place.address, reason, "MASTER_ADDR"});
}

// tests/cli/hosts_test.sh has other machines.
TEST(Route, IsALoopbackToThisMachine) {
  for (const char* host : {"127.0.0.1", "127.0.1.1", "localhost"})
    EXPECT_TRUE(is_loopback(source_address(host))) << host;
  EXPECT_TRUE(is_loopback("::1"));
  EXPECT_FALSE(is_loopback("10.0.0.1"));
  EXPECT_FALSE(is_loopback("fe80::1"));
  EXPECT_THROW(source_address("no such host"), std::runtime_error);
}

}  // namespace
}  // namespace poem
