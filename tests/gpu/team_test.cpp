// What a team computes on the GPU, where the backward pass runs in a thread of LibTorch. The other rank of
// this team has the same rows, so that its sums are known without a second process.
#include "dist/team.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <csignal>
#include <stdexcept>

#include "core/interrupts.h"
#include "dist/batch_norm.h"
#include "dist/gradients.h"
#include "expect_error.h"
#include "release_interrupts.h"

namespace poem {
namespace {

const at::Device kGpu(at::kCUDA, 0);

struct Twin {
  bool gone = false, left = false;  // cannot be reached; has said why it ended
};

class TwinChannel : public Channel {
 public:
  explicit TwinChannel(const Twin& twin) : twin_(twin) {}
  std::function<void()> start_sum(const at::Tensor& tensor) override {
    if (twin_.gone) throw std::runtime_error("nobody answers");
    tensor.mul_(2);
    return [] {};
  }
  at::Tensor gather(const at::Tensor& own) override { return at::stack({own, own}); }
  void close() override {}
  void write(const std::string&, const std::string&) override {}
  std::string read(const std::string&) override { return "elsewhere 1"; }
  bool has(const std::string& key) override { return key.back() == '0' || (key == "left/1" && twin_.left); }
  int64_t count(const std::string&) override { return 1; }

 private:
  const Twin& twin_;
};

Team team_with(const Twin& twin) {
  Place place;
  place.size = place.local_size = 2;
  return Team(std::make_unique<TwinChannel>(twin), place);
}

at::Tensor leaf(const at::Tensor& values) { return values.detach().clone().requires_grad_(); }

// Against LibTorch's own on the rows of both ranks.
TEST(GpuTeam, BatchNormSeesTheWholeBatch) {
  const Twin twin{false, true};
  const Team team = team_with(twin);
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      const auto random = [&] {
        return at::randn({6, 8, 5, 5}, at::TensorOptions(kGpu)).to(type).contiguous(format);
      };
      const at::Tensor x = (random() * 2 + 1).contiguous(format), slope = random();
      const at::Tensor weight = at::rand({8}, at::TensorOptions(kGpu)), bias = at::rand_like(weight);
      const at::Tensor mean = at::ones_like(weight), variance = at::ones_like(weight), mean2 = mean.clone(),
                       variance2 = variance.clone();
      const at::Tensor x1 = leaf(at::cat({x, x}).to(at::kFloat)), w1 = leaf(weight), b1 = leaf(bias);
      const at::Tensor y1 = at::batch_norm(x1, w1, b1, mean, variance, true, 0.1, 1e-5, false);
      (y1 * at::cat({slope, slope})).sum().backward();
      const at::Tensor x2 = leaf(x), w2 = leaf(weight), b2 = leaf(bias);
      const at::Tensor y2 = batch_norm(x2, w2, b2, mean2, variance2, 0.1, 1e-5, team);
      (y2 * slope).to(at::kFloat).sum().backward();
      const double most = type == at::kFloat ? 1e-4 : 3e-2;
      const auto close = [&](const at::Tensor& a, const at::Tensor& b) {
        return at::allclose(a.to(at::kFloat), b, most, most);
      };
      EXPECT_EQ(y2.scalar_type(), type);
      EXPECT_TRUE(close(y2, y1.narrow(0, 0, 6)));
      EXPECT_TRUE(close(x2.grad(), x1.grad().narrow(0, 0, 6)));
      EXPECT_TRUE(at::allclose(2 * w2.grad(), w1.grad(), most, 20 * most));
      EXPECT_TRUE(at::allclose(2 * b2.grad(), b1.grad(), most, 20 * most));
      EXPECT_TRUE(close(mean2, mean));
      EXPECT_TRUE(close(variance2, variance));
    }
  }
}

// An exception that LibTorch's thread does not pass on would end the process.
TEST(GpuTeam, ALostRankEndsTheBackwardPass) {
  const auto backward = [](Twin& twin) {
    const Team team = team_with(twin);
    const at::Tensor x = leaf(at::rand({4, 3, 2, 2}, at::TensorOptions(kGpu))),
                     w = leaf(at::ones({3}, x.options()));
    GradientSum gradients(team, {w});
    const at::Tensor y =
        batch_norm(x, w, at::zeros_like(w), at::zeros_like(w), at::ones_like(w), 0.1, 1e-5, team);
    twin.gone = true;
    y.sum().backward();
  };
  Twin silent;
  expect_error([&] { backward(silent); }, {"rank 1", "has not answered"});
  Twin other;
  other.left = true;
  EXPECT_THROW(backward(other), SaidElsewhere);
  other.gone = false;
  catch_interrupts();
  ::raise(SIGINT);
  EXPECT_THROW(backward(other), Interrupted);
  release_interrupts();
}

}  // namespace
}  // namespace poem
