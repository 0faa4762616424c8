#include "plan/cost.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "mining/two_stages.h"
#include "poem/crops.h"
#include "poem/error.h"
#include "poem/mining.h"
#include "train/average.h"

namespace poem {
namespace {

thread_local double counted = 0;  // callbacks of LibTorch have no state of their own

// After a convolution or a matrix product: each number of the result took one multiplication per input.
void count_products(const at::RecordFunction& function, at::ObserverContext*) {
  const std::string name = function.name();
  const bool convolves = name == "aten::convolution", multiplies = name == "aten::linear";
  if (!convolves && !multiplies) return;
  const auto result = function.outputs();
  const auto inputs = function.inputs();
  if (result.empty() || !result[0].isTensor() || inputs.size() < 2 || !inputs[1].isTensor()) return;
  const at::Tensor weight = inputs[1].toTensor();
  counted += static_cast<double>(result[0].toTensor().numel()) *
             static_cast<double>(weight.numel() / weight.size(0));
}

double numbers(const Network::Named& tensors) {
  double count = 0;
  for (const auto& [name, tensor] : tensors) count += static_cast<double>(tensor.numel());
  return count;
}

// How messages travel: over the slowest link that some pair of devices needs.
struct Links {
  double bytes_per_second, latency;
};

Links links(const Machine& machine, int64_t devices) {
  const bool inside = devices <= machine.devices_per_host;
  const Links chosen =
      inside ? Links{machine.link, machine.link_latency} : Links{machine.host_link, machine.host_latency};
  if (devices > 1 && !(chosen.bytes_per_second > 0))
    throw Error(machine.name, fmt::format("has no speed of messages {} hosts", inside ? "inside" : "between"),
                fmt::format("measure it with poem bench on several processes, or give {} in the file",
                            inside ? "link_bytes_per_s" : "host_link_bytes_per_s"));
  return chosen;
}

// Every device ends up with the sum of all: a ring passes each byte twice.
void add_all_reduce(PhaseCost& phase, double bytes, double times, const Links& via, double devices) {
  if (devices == 1) return;
  const double sent = 2 * (devices - 1) / devices * bytes;
  phase.message_bytes += times * sent;
  phase.messages += times * (sent / via.bytes_per_second + 2 * std::log2(devices) * via.latency);
}

}  // namespace

double PhaseCost::seconds() const { return std::max(compute + messages, disk); }

std::string PhaseCost::limit() const {
  if (disk > compute + messages) return "disk";
  return messages > compute ? "messages" : "compute";
}

double multiply_adds(Network& network, int64_t side) {
  const at::NoGradGuard no_grad;
  counted = 0;
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(
          [](const at::RecordFunction&) { return std::unique_ptr<at::ObserverContext>(); }, count_products)
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION}));
  network.logits(network.features(at::zeros({1, network.spec().channels, side, side}, at::kByte)));
  at::removeCallback(handle);
  return counted;
}

Workload workload_of(const Config& config, Network& network, int64_t id_images) {
  network.train(false);
  Workload work;
  work.id_images = static_cast<double>(id_images);
  work.batch = static_cast<double>(config.train.batch);
  work.parameters = numbers(network.parameters());
  if (config.train.batch_norm == BatchStatistics::kGlobal) {
    const std::vector<at::Tensor> statistics = batch_norm_statistics(network);  // a mean and a variance each
    work.norms = static_cast<double>(statistics.size()) / 2;
    for (const at::Tensor& tensor : statistics) work.norm_channels += static_cast<double>(tensor.numel()) / 2;
  }
  work.features = static_cast<double>(network.feature_count());
  work.multiply_adds = multiply_adds(network, config.data.size);
  work.image_bytes = static_cast<double>(network.spec().channels * config.data.size * config.data.size);
  if (config.mining.miner == "none") return work;
  work.pool = static_cast<double>(config.mining.pool);
  work.outlier_batch = static_cast<double>(config.train.outlier_batch);
  MiningSettings mining = config.mining;
  if (mining.select == 0)
    mining.select = std::max<int64_t>(1, id_images * config.train.outlier_batch / config.train.batch);
  check_select(mining);
  work.select = static_cast<double>(mining.select);
  work.candidates = config.mining.candidates;
  if (work.candidates < 1)
    work.first_look = multiply_adds(network, config.data.size / 2) / work.multiply_adds;
  const std::unique_ptr<Miner> miner = make_miner(config.mining.miner);
  work.scored = miner->uses_features();
  work.posterior = miner->uses_posterior();
  if (!work.posterior) return work;
  const bool fresh = config.queue.features == QueueFeatures::kFresh;
  work.queued = work.id_images + work.select * (fresh ? static_cast<double>(config.queue.epochs) : 1);
  return work;
}

std::vector<PhaseCost> epoch_costs(const Workload& work, const Machine& machine, int64_t count) {
  constexpr double kIndex = 8, kCounts = 50e3, kDouble = 8, kFloat = 4;  // bytes
  const Links via = links(machine, count);
  const auto devices = static_cast<double>(count);
  const double hosts = std::ceil(devices / static_cast<double>(machine.devices_per_host));
  const NetworkSpeed speed = speed_for(machine, work.multiply_adds).speed;
  std::vector<PhaseCost> phases;

  if (work.pool > 0) {
    PhaseCost score{"score the pool"};
    const bool two_stages = work.candidates < 1;
    if (work.scored) {
      const double images = work.pool * scoring_work(work.candidates, work.first_look, work.pool);
      score.compute = images / (devices * speed.forward);
      const double reads = work.pool * scoring_work(work.candidates, 1, work.pool);  // candidates twice
      score.disk_bytes = reads * work.image_bytes / hosts;
    } else {  // random outliers: only those that are trained on are read
      score.disk_bytes = work.select * work.image_bytes / hosts;
    }
    score.disk = score.disk_bytes / machine.disk;
    phases.push_back(score);
    PhaseCost choose{"choose outliers"};
    if (count > 1) {  // counts of scores, then the numbers of the chosen ones (mining/top_n.h)
      choose.message_bytes = work.select * kIndex + kCounts;
      if (two_stages) choose.message_bytes += kCounts;  // of the first stage's scores
      choose.messages = choose.message_bytes / via.bytes_per_second + std::log2(devices) * via.latency;
      if (two_stages)  // what the first stage is fitted on
        add_all_reduce(choose, kDouble * (work.features + 1) * (work.features + 2), 1, via, devices);
    }
    phases.push_back(choose);
  }

  PhaseCost train{"train"};
  const double steps = std::ceil(work.id_images / work.batch);
  const double images = work.batch + work.outlier_batch;
  train.compute = steps * std::max(speed.step, images / (devices * speed.train));
  add_all_reduce(train, kFloat * work.parameters, steps, via, devices);
  if (work.norms > 0) {  // two sums per channel, forward and backward (dist/batch_norm.cpp)
    const double sums = 2 * work.norms;
    add_all_reduce(train, 4 * kDouble * work.norm_channels / sums, steps * sums, via, devices);
  }
  phases.push_back(train);

  if (work.posterior) {
    PhaseCost queue{"queue"};
    queue.compute = work.queued / (devices * speed.forward);
    add_all_reduce(queue, kDouble * work.features * (work.features + 1), 1, via, devices);
    phases.push_back(queue);
  }

  PhaseCost epoch{"epoch"};
  for (const PhaseCost& phase : phases) {
    epoch.compute += phase.seconds() - phase.messages;  // phases follow one another
    epoch.messages += phase.messages;
    epoch.message_bytes += phase.message_bytes;
    epoch.disk_bytes += phase.disk_bytes;
  }
  phases.push_back(epoch);
  return phases;
}

double device_memory(const Workload& work, int64_t devices) {
  constexpr double kFloat = 4, kDouble = 8, kDraws = 9;
  const double share = 1 / static_cast<double>(devices);
  // Weights, gradients and velocities; crops and scores of a device's part of the pool; the posterior.
  return 3 * kFloat * work.parameters + work.pool * share * (sizeof(Crop) + (3 + kDraws) * kFloat) +
         2 * work.select * sizeof(Crop) + (work.posterior ? 4 * kDouble * work.features * work.features : 0);
}

}  // namespace poem
