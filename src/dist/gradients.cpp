#include "dist/gradients.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace poem {
namespace {

constexpr int64_t kBucket = 1 << 20;  // numbers: enough that a message's own cost does not matter

struct Bucket {
  std::vector<at::Tensor> leaves;
  size_t missing = 0;  // gradients that the backward pass has not computed yet
  at::Tensor flat;     // on its way to the other ranks
  std::function<void()> wait;
};

}  // namespace

struct GradientSum::Buckets {
  Buckets(const Team& team, const std::vector<at::Tensor>& leaves) : team(team) {
    int64_t room = 0;
    for (auto leaf = leaves.rbegin(); leaf != leaves.rend(); ++leaf) {
      if (room < leaf->numel() || !fits(*leaf)) {
        all.emplace_back();
        room = kBucket;
      }
      room -= leaf->numel();
      all.back().leaves.push_back(*leaf);
      watch(*leaf, all.size() - 1);
    }
    reset();
  }

  bool fits(const at::Tensor& leaf) const {
    const at::Tensor& first = all.back().leaves.front();
    return leaf.scalar_type() == first.scalar_type() && leaf.device() == first.device();
  }

  // Is told when the leaf's gradient is complete. The leaf itself does not keep the place where that happens
  // alive.
  void watch(const at::Tensor& leaf, size_t bucket) {
    using torch::autograd::variable_list;
    std::shared_ptr<torch::autograd::Node> place = torch::autograd::impl::grad_accumulator(leaf);
    place->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [this, bucket](const variable_list& outputs, const variable_list&) {
          --all[bucket].missing;
          send_complete();
          return outputs;
        }));
    places.push_back(std::move(place));
  }

  // In a fixed order, the same on all ranks.
  void send_complete() {
    while (sent < all.size() && all[sent].missing == 0) send(all[sent++]);
  }

  // A leaf that this rank's rows do not reach has no gradient here, but may have one elsewhere.
  void send(Bucket& bucket) {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> parts;
    for (at::Tensor& leaf : bucket.leaves) {
      if (!leaf.grad().defined()) leaf.mutable_grad() = at::zeros_like(leaf);
      parts.push_back(leaf.grad().reshape(-1));
    }
    bucket.flat = at::cat(parts);
    bucket.wait = team.start_sum(bucket.flat);
  }

  void finish() {
    const at::NoGradGuard no_grad;
    while (sent < all.size()) send(all[sent++]);
    for (Bucket& bucket : all) {
      bucket.wait();
      int64_t first = 0;
      for (at::Tensor& leaf : bucket.leaves) {
        leaf.mutable_grad().copy_(bucket.flat.narrow(0, first, leaf.numel()).view(leaf.sizes()));
        first += leaf.numel();
      }
    }
    reset();
  }

  void reset() {
    sent = 0;
    for (Bucket& bucket : all) {
      bucket.missing = bucket.leaves.size();
      bucket.flat.reset();
      bucket.wait = nullptr;
    }
  }

  const Team team;
  std::vector<Bucket> all;
  std::vector<std::shared_ptr<torch::autograd::Node>> places;
  size_t sent = 0;
};

GradientSum::GradientSum(const Team& team, std::vector<at::Tensor> leaves) {
  if (team.size() > 1) buckets_ = std::make_unique<Buckets>(team, leaves);
}
GradientSum::~GradientSum() = default;

void GradientSum::finish() {
  if (buckets_) buckets_->finish();
}

}  // namespace poem
