#include "serve/batcher.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "poem/fit.h"
#include "poem/network.h"
#include "poem/scores.h"

namespace poem {
namespace {

// A small network with random weights: verdicts differ from image to image.
std::shared_ptr<const Detector> detector(double threshold = 0, int64_t size = 8) {
  NetworkSpec spec;
  spec.name = "wideresnet";
  spec.depth = 10;
  spec.width = 1;
  spec.classes = 3;
  Detector d;
  d.network = make_network(spec, /*seed=*/1);
  d.network->train(false);
  d.score = make_score("energy");
  d.threshold = threshold;
  d.class_names = {"a", "b", "c"};
  d.size = size;
  return std::make_shared<const Detector>(std::move(d));
}

at::Tensor images(int64_t count, uint64_t seed, int64_t size = 8) {
  at::manual_seed(seed);
  return at::randint(0, 256, {count, 3, size, size}, at::kByte);
}

void expect_same(const std::vector<Verdict>& got, const std::vector<Verdict>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].label, expected[i].label);
    EXPECT_NEAR(got[i].score, expected[i].score, 1e-4);
  }
}

TEST(Batcher, EveryRequestGetsItsOwnVerdicts) {
  const auto d = detector();
  Batcher batcher({16, 1000});
  std::vector<std::thread> clients;
  for (uint64_t i = 0; i < 12; ++i) {
    clients.emplace_back([&, i] {
      const at::Tensor pixels = at::randint(0, 256, {1 + static_cast<int64_t>(i % 5), 3, 8, 8}, at::kByte);
      auto verdicts = batcher.submit(d, pixels);
      ASSERT_TRUE(verdicts);
      expect_same(verdicts->get(), d->judge(pixels));
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(batcher.waiting(), 0);
}

TEST(Batcher, ManyThreadsGiveTheVerdictsOfOne) {
  const auto d = detector();
  Batcher batcher({64, 10000}, /*threads=*/3);
  std::vector<at::Tensor> pixels;
  std::vector<std::future<std::vector<Verdict>>> asked;
  for (uint64_t i = 0; i < 60; ++i) {
    pixels.push_back(
        images(i % 20 == 19 ? 500 : 1 + static_cast<int64_t>(i % 3), i));  // some get all threads
    asked.push_back(*batcher.submit(d, pixels.back()));
  }
  for (size_t i = 0; i < asked.size(); ++i) expect_same(asked[i].get(), d->judge(pixels[i]));
  EXPECT_EQ(batcher.waiting(), 0);
}

TEST(Batcher, AShortRequestIsNotHeldUpByALongOne) {
  const auto d = detector();
  Batcher batcher({64, 10000}, /*threads=*/2);
  const auto busy = batcher.submit(d, images(3000, 1));
  batcher.submit(d, images(1, 2))->get();
  EXPECT_EQ(busy->wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  batcher.judge(d, images(1, 3));
  EXPECT_EQ(busy->wait_for(std::chrono::seconds(0)), std::future_status::timeout);
}

TEST(Batcher, JudgesForManyThatWait) {
  const auto d = detector();
  Batcher batcher({16, 1000}, /*threads=*/2);
  std::vector<std::thread> clients;
  for (uint64_t i = 0; i < 6; ++i) {
    clients.emplace_back([&, i] {
      for (int64_t j = 0; j < 5; ++j) {
        const at::Tensor pixels = at::randint(0, 256, {1 + static_cast<int64_t>(i), 3, 8, 8}, at::kByte);
        const auto verdicts = batcher.judge(d, pixels);
        ASSERT_TRUE(verdicts);
        expect_same(*verdicts, d->judge(pixels));
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(batcher.waiting(), 0);
  EXPECT_LE(batcher.batches(), 30);
}

// Mahalanobis collects the outputs of all layers while the network runs.
TEST(Batcher, ThreadsDoNotMixTheLayersOfTheirImages) {
  Detector d = *detector();
  const ImageSet known = {"known", images(60, 1), at::arange(60) % 3, d.class_names},
                 held_out = {"held out", images(20, 2), at::arange(20) % 3, d.class_names};
  d.score = fit_scores({"mahalanobis"}, d, IdImages{known, held_out}).front();
  const auto shared = std::make_shared<const Detector>(std::move(d));
  Batcher batcher({4, 1000}, /*threads=*/3);
  std::vector<std::future<std::vector<Verdict>>> asked;
  for (uint64_t i = 0; i < 30; ++i) asked.push_back(*batcher.submit(shared, images(2, i)));
  for (uint64_t i = 0; i < 30; ++i) expect_same(asked[i].get(), shared->judge(images(2, i)));
}

TEST(Batcher, RequestsThatWaitShareAForwardPass) {
  const auto d = detector();
  Batcher batcher({64, 1000});
  auto first = batcher.submit(d, images(600, 1));  // keeps the network busy
  std::vector<std::future<std::vector<Verdict>>> others;
  for (uint64_t i = 0; i < 20; ++i) others.push_back(*batcher.submit(d, images(1, i)));
  for (auto& other : others) EXPECT_EQ(other.get().size(), 1u);
  EXPECT_EQ(first->get().size(), 600u);
  EXPECT_LE(batcher.batches(), 3);  // the first, perhaps one that began early, and the rest together
}

TEST(Batcher, AFewImagesShareAForwardPassHoweverLongItTakes) {
  constexpr int64_t kSize = 256;  // more than 4 ms per image
  const auto d = detector(0, kSize);
  Batcher batcher({64, 1000}, /*threads=*/2);
  batcher.judge(d, images(1, 1, kSize));  // tells how long an image takes
  std::vector<at::Tensor> pixels;
  for (uint64_t i = 0; i < 10; ++i) pixels.push_back(images(i < 2 ? 4 : 1, i, kSize));  // two make both busy
  std::vector<std::future<std::vector<Verdict>>> asked;
  for (const at::Tensor& request : pixels) asked.push_back(*batcher.submit(d, request));
  for (auto& verdicts : asked) verdicts.get();
  EXPECT_LE(batcher.batches(), 1 + 2 + 5);  // 4, 2, 1 and 1; one more if a thread was free early
}

TEST(Batcher, RefusesWhatDoesNotFitIntoTheQueue) {
  const auto d = detector();
  Batcher batcher({64, 10});
  auto busy = batcher.submit(d, images(2000, 1));  // an empty queue takes any request
  ASSERT_TRUE(busy);
  std::vector<std::future<std::vector<Verdict>>> accepted;
  int refused = 0;
  for (uint64_t i = 0; i < 20; ++i) {
    auto one = batcher.submit(d, images(1, i));
    if (one)
      accepted.push_back(std::move(*one));
    else
      ++refused;
  }
  EXPECT_GT(refused, 0);
  EXPECT_FALSE(batcher.judge(d, images(10, 1)));
  for (auto& one : accepted) EXPECT_EQ(one.get().size(), 1u);
  EXPECT_EQ(busy->get().size(), 2000u);
  EXPECT_TRUE(batcher.submit(d, images(10, 1)));  // there is room again
}

TEST(Batcher, DetectorsAreNotMixed) {
  const auto low = detector(-1e9), high = detector(1e9);
  Batcher batcher({64, 1000});
  auto busy = batcher.submit(low, images(300, 1));
  auto known = batcher.submit(low, images(3, 2)), unknown = batcher.submit(high, images(3, 2));
  for (const Verdict& v : known->get()) EXPECT_TRUE(v.known);
  for (const Verdict& v : unknown->get()) EXPECT_FALSE(v.known);
}

TEST(Batcher, WhatWaitsIsJudgedBeforeItEnds) {
  std::optional<std::future<std::vector<Verdict>>> last;
  {
    Batcher batcher({8, 1000});
    for (uint64_t i = 0; i < 30; ++i) last = batcher.submit(detector(), images(2, i));
  }
  EXPECT_EQ(last->get().size(), 2u);
}

// One worker has all threads and the other waits for one, although there is nothing left for it to do.
TEST(Batcher, EndsWhileOneRequestHasAllThreads) {
  const auto d = detector();
  for (int trial = 0; trial < 4; ++trial) {
    auto batcher = std::make_unique<Batcher>(Batcher::Limits{64, 10000}, /*threads=*/2);
    batcher->submit(d, images(200, 1))->get();                   // it learns how long they take
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until both threads are free
    auto busy = batcher->submit(d, images(5000, 2));
    while (batcher->waiting() > 0) std::this_thread::yield();
    std::promise<void> promise;
    const std::future<void> ended = promise.get_future();
    // A thread that can be left behind: a test that waited for it would not end either.
    std::thread([promise = std::move(promise), batcher = std::move(batcher)]() mutable {
      batcher.reset();
      promise.set_value();
    }).detach();
    ASSERT_EQ(ended.wait_for(std::chrono::seconds(20)), std::future_status::ready);
    EXPECT_EQ(busy->get().size(), 5000u);
  }
}

TEST(Batcher, AFailureReachesTheOneWhoAsked) {
  const auto d = detector();
  Batcher batcher({64, 1000});
  auto wrong = batcher.submit(d, at::zeros({1, 2, 8, 8}, at::kByte));  // two channels
  EXPECT_ANY_THROW(wrong->get());
  EXPECT_EQ(batcher.submit(d, images(1, 1))->get().size(), 1u);  // and the next one is judged
  EXPECT_ANY_THROW(batcher.judge(d, at::zeros({1, 2, 8, 8}, at::kByte)));
  EXPECT_EQ(batcher.judge(d, images(1, 1))->size(), 1u);
}

}  // namespace
}  // namespace poem
