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
#include "poem/objective.h"
#include "train/average.h"
#include "train/memory.h"
#include "train/network_setup.h"

namespace poem {
namespace {

thread_local double counted = 0;  // callbacks of LibTorch have no state of their own

// A convolution or a matrix product that is being computed.
struct Product : at::ObserverContext {
  explicit Product(double n) : per_number(n) {}
  double per_number;  // of the result: one multiplication per input
};

// LibTorch shows the inputs only before it computes.
std::unique_ptr<at::ObserverContext> begin_product(const at::RecordFunction& function) {
  const std::string name = function.name();
  if (name != "aten::convolution" && name != "aten::linear") return nullptr;
  const auto inputs = function.inputs();
  if (inputs.size() < 2 || !inputs[1].isTensor()) return nullptr;
  const at::Tensor weight = inputs[1].toTensor();
  return std::make_unique<Product>(static_cast<double>(weight.numel() / weight.size(0)));
}

void count_product(const at::RecordFunction& function, at::ObserverContext* context) {
  const auto result = function.outputs();
  if (context == nullptr || result.empty() || !result[0].isTensor()) return;
  counted += static_cast<double>(result[0].toTensor().numel()) * static_cast<Product*>(context)->per_number;
}

// All of them are held, and those with gradients are summed (train/training_step.cpp).
void add_numbers(const Network& network, Workload& work) {
  for (const Network::Named& tensors : {network.parameters(), network.buffers()}) {
    for (const auto& [name, tensor] : tensors) {
      work.weights += static_cast<double>(tensor.numel());
      if (tensor.requires_grad()) work.trained += static_cast<double>(tensor.numel());
    }
  }
}

// How messages travel: over the slowest link that some pair of devices needs.
struct Links {
  double bytes_per_second, latency;
};

// A file of poem bench has as many devices per host as processes were measured there. One more may be meant
// for the same machine or for another one.
Error unknown_links(const Machine& machine, int64_t devices) {
  const std::string bench = fmt::format("run poem bench on {} processes of it", devices);
  if (devices <= machine.devices_per_host)
    return {machine.name, fmt::format("has no speed of messages inside a host, for {} devices", devices),
            bench + ", or give link_bytes_per_s in the file"};
  return {machine.name,
          fmt::format("has {} device{} per host and no speed of messages between hosts, for {} devices",
                      machine.devices_per_host, machine.devices_per_host == 1 ? "" : "s", devices),
          fmt::format("if one machine has {}, {}{}; if not, give host_link_bytes_per_s in the file", devices,
                      bench, machine.link > 0 ? " or raise devices_per_host in the file" : "")};
}

Links links(const Machine& machine, int64_t devices) {
  const bool inside = devices <= machine.devices_per_host;
  const Links chosen =
      inside ? Links{machine.link, machine.link_latency} : Links{machine.host_link, machine.host_latency};
  if (devices > 1 && !(chosen.bytes_per_second > 0)) throw unknown_links(machine, devices);
  return chosen;
}

constexpr double kFloat = 4, kNumber = 8;  // bytes; a number is a double or an int64_t

// What an epoch runs on.
struct Fleet {
  Fleet(const Workload& work, const Machine& machine, int64_t count)
      : devices(static_cast<double>(count)),
        hosts(std::ceil(devices / static_cast<double>(machine.devices_per_host))),
        disk(machine.disk),
        via(links(machine, count)),
        speed(speed_for(machine, work.multiply_adds).speed) {}

  double devices, hosts, disk;
  Links via;
  NetworkSpeed speed;
};

// Every device ends up with the sum of all. NCCL adds over two binary trees, in which each byte passes each
// device about twice, after log₂ G hops up and as many down.
void add_sums(PhaseCost& phase, double bytes, double times, const Fleet& fleet) {
  if (fleet.devices == 1) return;
  const double sent = 2 * (fleet.devices - 1) / fleet.devices * bytes;
  phase.message_bytes += times * sent;
  phase.messages +=
      times * (sent / fleet.via.bytes_per_second + 2 * std::log2(fleet.devices) * fleet.via.latency);
}

// Every device ends up with so many bytes, of which it had its part.
void add_gathers(PhaseCost& phase, double bytes, double times, const Fleet& fleet) {
  if (fleet.devices == 1) return;
  const double sent = (fleet.devices - 1) / fleet.devices * bytes;
  phase.message_bytes += times * sent;
  phase.messages +=
      times * (sent / fleet.via.bytes_per_second + std::log2(fleet.devices) * fleet.via.latency);
}

// The sum of the matrix, the vector and the count of a posterior (posterior/team_statistics.h).
void add_statistics(PhaseCost& phase, double features, const Fleet& fleet) {
  for (const double numbers : {features * features, features, 1.0})
    add_sums(phase, kNumber * numbers, 1, fleet);
}

double bytes_read(const Workload& work, double images) {
  double bytes = 0;
  for (const OutlierSource& source : work.sources) bytes += bytes_read(source, source.share * images);
  return bytes;
}

// The devices of a host read through one cache: where each scores all of the pool, it is read once.
PhaseCost score_phase(const Workload& work, const Fleet& fleet) {
  PhaseCost phase{"score the pool"};
  if (!work.scored) {  // random outliers: only those that are trained on are read
    phase.disk_bytes = bytes_read(work, work.select) / fleet.hosts;
  } else {
    const double images = work.pool * scoring_work(work.candidates, work.first_look, work.pool);
    phase.compute = images / ((work.shared ? fleet.devices : 1) * fleet.speed.forward);
    phase.disk_bytes = bytes_read(work, work.pool);
    if (work.candidates < 1)  // candidates and samples once more
      phase.disk_bytes += bytes_read(work, work.candidates * work.pool) +
                          bytes_read(work, two_stage_sample(work.pool) * work.pool);
    if (work.shared) phase.disk_bytes /= fleet.hosts;
  }
  phase.disk = phase.disk_bytes / fleet.disk;
  return phase;
}

// mining/shard.cpp: a selection sums counts of scores for each of three digits, and joins a list of ties.
// Then the numbers of the mined entries are joined, and the diagnostics are summed.
PhaseCost choose_phase(const Workload& work, const Fleet& fleet) {
  constexpr double kDigits = 3, kCounts = 2048 * kNumber, kDiagnostics = 21;
  PhaseCost phase{"choose outliers"};
  const auto add_lists = [&](double numbers, double times) {  // Team::joined(): sizes, then the list
    add_sums(phase, kNumber * fleet.devices, times, fleet);
    add_sums(phase, kNumber * numbers, times, fleet);
  };
  add_sums(phase, kCounts, kDigits * work.selections, fleet);
  add_lists(fleet.devices, work.selections);
  add_lists(work.select, 1);
  if (work.selections > 0) add_sums(phase, kNumber, kDiagnostics, fleet);
  if (work.candidates < 1) add_statistics(phase, work.features + 1, fleet);  // the first stage's fit
  return phase;
}

// Of a frozen backbone a step is little more than a pass forward, and one backward takes twice as long.
double step_seconds(double images, bool frozen, const NetworkSpeed& speed) {
  constexpr double kPasses = 3;
  return frozen ? std::max(speed.step / kPasses, images / speed.forward)
                : std::max(speed.step, images / speed.train);
}

PhaseCost train_phase(const Workload& work, const Fleet& fleet) {
  constexpr double kBucket = 1 << 20;  // dist/gradients.cpp
  PhaseCost phase{"train"};
  const double steps = std::ceil(work.id_images / work.batch);
  const double images = work.batch * work.views + work.outlier_batch;
  phase.compute = steps * step_seconds(images / fleet.devices, work.frozen, fleet.speed);
  const double buckets = std::ceil(work.trained / kBucket);
  add_sums(phase, kFloat * work.trained / buckets, steps * buckets, fleet);
  add_gathers(phase, kFloat * images * work.outputs, steps, fleet);  // the outputs of the whole batch
  add_sums(phase, kNumber, steps, fleet);                            // whether one is asked to stop
  if (work.norms == 0) return phase;
  const double channels = work.norm_channels / work.norms;
  if (!work.global_norms) {  // means and variances are averaged at the end
    add_sums(phase, kFloat * channels, 2 * work.norms, fleet);
  } else if (!work.frozen) {  // dist/batch_norm.cpp: two sums per channel and a count forward, two backward
    add_sums(phase, kNumber * (2 * channels + 1), steps * work.norms, fleet);
    add_sums(phase, kNumber * 2 * channels, steps * work.norms, fleet);
  }
  return phase;
}

PhaseCost queue_phase(const Workload& work, const Fleet& fleet) {
  PhaseCost phase{"queue"};
  phase.compute = work.queued / (fleet.devices * fleet.speed.forward);
  add_statistics(phase, work.features, fleet);
  return phase;
}

// How often mine() asks for the best of all devices: for those that are skipped, the mined and the random
// ones. With a posterior another draw chooses too, to be compared. In two stages there are also the
// candidates, the best of the second sample, and what both draws choose from this sample.
double selections(const MiningSettings& settings, bool posterior) {
  const double ranked = (settings.skip_count(static_cast<size_t>(settings.pool)) > 0 ? 1 : 0) +
                        (settings.select > settings.random_count() ? 1 : 0);
  const double random = settings.random_count() > 0 ? 1 : 0;
  if (settings.candidates < 1) return ranked + random + 2 + (posterior ? 2 * ranked : 0);
  return ranked + random + (posterior ? ranked : 0);
}

void add_mining(const Config& config, Network& network, Workload& work) {
  MiningSettings settings = config.mining;
  if (settings.select == 0)
    settings.select =
        std::max<int64_t>(1, std::llround(work.id_images) * config.train.outlier_batch / config.train.batch);
  check_select(settings);
  work.sources = outlier_sources(config, work.id_bytes);
  work.pool = static_cast<double>(settings.pool);
  work.select = static_cast<double>(settings.select);
  work.mined_epochs =
      settings.until > 0 ? std::min(work.epochs, static_cast<double>(settings.until)) : work.epochs;
  work.outlier_batch = static_cast<double>(config.train.outlier_batch);
  work.candidates = settings.candidates;
  if (work.candidates < 1)
    work.first_look = multiply_adds(network, config.data.size / 2) / work.multiply_adds;
  const PoolScoring scoring = scoring_of(settings);
  work.scored = scoring.features;
  work.shared = scoring.shared;
  work.posterior = scoring.posterior;
  if (work.shared) work.selections = selections(settings, work.posterior);
  if (!work.posterior) return;
  const bool fresh = config.queue.features == QueueFeatures::kFresh;
  work.queued = work.id_images + work.select * (fresh ? static_cast<double>(config.queue.epochs) : 1);
}

double pool_memory(const Workload& work, double devices) {
  std::vector<PoolPart> parts;
  for (const OutlierSource& source : work.sources)
    parts.push_back({std::round(work.pool * source.share), source.images});
  return pool_bytes(parts, {work.scored, work.shared, work.posterior, work.candidates}, devices);
}

}  // namespace

double PhaseCost::seconds() const { return std::max(compute + messages, disk); }

std::string PhaseCost::limit() const {
  if (disk > compute + messages) return "disk";
  return messages > compute ? "messages" : "compute";
}

double multiply_adds(Network& network, int64_t side) {
  const at::AutoGradMode gradients(true);  // without, layers choose other kernels, of other names
  network.train(false);                    // in training a frozen backbone has no gradients
  counted = 0;
  const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(begin_product, count_product)
                                                     .needsInputs(true)
                                                     .needsOutputs(true)
                                                     .scopes({at::RecordScope::FUNCTION}));
  network.logits(network.features(at::zeros({1, network.spec().channels, side, side}, at::kByte)));
  at::removeCallback(handle);
  return counted;
}

std::unique_ptr<Network> planned_network(const Config& config, int64_t classes) {
  const auto objective = make_objective(config.objective);
  const auto channels = static_cast<int64_t>(config.network.mean.size());
  const int64_t pixels = config.data.size * config.data.size;
  return training_network(config, network_spec(config, *objective, channels, pixels, classes));
}

Workload workload_of(const Config& config, Network& network, int64_t id_images) {
  Workload work;
  work.id_images = static_cast<double>(id_images);
  work.id_bytes = static_cast<double>(network.spec().channels * config.data.size * config.data.size);
  work.batch = static_cast<double>(config.train.batch);
  work.views = static_cast<double>(make_objective(config.objective)->views());
  work.pretrain = static_cast<double>(config.train.pretrain);
  work.epochs = static_cast<double>(config.train.epochs);
  add_numbers(network, work);
  work.frozen = config.train.freeze == Freeze::kBackbone;
  work.averaged = config.train.average > 0;
  work.global_norms = config.train.batch_norm == BatchStatistics::kGlobal;
  const std::vector<at::Tensor> statistics = batch_norm_statistics(network);  // a mean and a variance each
  work.norms = static_cast<double>(statistics.size()) / 2;
  for (const at::Tensor& tensor : statistics) work.norm_channels += static_cast<double>(tensor.numel()) / 2;
  work.features = static_cast<double>(network.feature_count());
  work.outputs = static_cast<double>(network.spec().classes);
  work.multiply_adds = multiply_adds(network, config.data.size);
  if (config.mining.miner == "none") return work;
  add_mining(config, network, work);
  return work;
}

std::vector<PhaseCost> epoch_costs(const Workload& work, const Machine& machine, int64_t devices) {
  const Fleet fleet(work, machine, devices);
  std::vector<PhaseCost> phases;
  if (work.pool > 0) phases = {score_phase(work, fleet), choose_phase(work, fleet)};
  phases.push_back(train_phase(work, fleet));
  if (work.posterior) phases.push_back(queue_phase(work, fleet));
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

double training_seconds(const Workload& work, const Machine& machine, int64_t devices) {
  const Fleet fleet(work, machine, devices);
  Workload alone = work;  // without outliers
  alone.outlier_batch = 0;
  return work.mined_epochs * epoch_costs(work, machine, devices).back().seconds() +
         (work.epochs - work.mined_epochs) * train_phase(work, fleet).seconds() +
         work.pretrain * train_phase(alone, fleet).seconds();
}

double device_memory(const Workload& work, int64_t devices) {
  // Weights, gradients and velocities; the average and the network that has it; ID images and their order;
  // the mined outliers; the posterior.
  const double copies = work.averaged ? 3 : 1;
  return kFloat * (copies * work.weights + 2 * work.trained) +
         work.id_images * (work.id_bytes + 2 * sizeof(Crop)) +
         pool_memory(work, static_cast<double>(devices)) + 2 * work.select * sizeof(Crop) +
         (work.posterior ? 4 * kNumber * work.features * work.features : 0);
}

}  // namespace poem
