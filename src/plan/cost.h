// What an epoch costs on so many devices: time, messages, disk and memory, phase by phase. docs/scale.md has
// the formulas.
//
//   const Workload work = workload_of(config, *planned_network(config), /*id_images=*/50000);
//   for (const PhaseCost& phase : epoch_costs(work, machine, 8)) print(phase.name, phase.seconds());
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plan/machine.h"
#include "plan/outlier_source.h"
#include "poem/config.h"
#include "poem/network.h"

namespace poem {

struct Workload {
  double id_images = 0, pool = 0, select = 0;
  double batch = 0, outlier_batch = 0;
  double views = 1;                                   // crops per ID image in a step
  double pretrain = 0, epochs = 1, mined_epochs = 1;  // of a training; pre-training has no outliers
  double queued = 0;                                  // images whose features the queue takes in an epoch
  double weights = 0, trained = 0;  // numbers that the network has, and those that have gradients
  bool frozen = false;              // the backbone needs no pass backward
  bool averaged = false;            // train.average
  double features = 0, outputs = 0;
  double norms = 0, norm_channels = 0;  // BatchNorms, and their channels
  bool global_norms = false;            // the ranks exchange their statistics in every step
  double multiply_adds = 0;             // of one image, forward
  double id_bytes = 0;                  // of one ID image in memory
  std::vector<OutlierSource> sources;   // their shares add up to 1
  bool scored = false;                  // the miner scores the pool
  bool shared = true;                   // each device scores a part of it; otherwise each scores all of it
  bool posterior = false;               // the miner draws from the posterior
  double candidates = 1;                // share of the pool that a first stage passes on; 1: one stage
  double first_look = 0;                // what the first stage takes of the network's work, per image
  double selections = 0;                // how often the devices agree on the best of the pool, in an epoch
};

// The network that a config trains on images of so many classes.
std::unique_ptr<Network> planned_network(const Config& config, int64_t classes = 10);

// `network`: one such as the config asks for. It computes one image. Of the data, only the headers of packed
// outliers are read, if they exist. An Error if the config mines more outliers than its pool offers.
Workload workload_of(const Config& config, Network& network, int64_t id_images);

// Multiplications (each with an addition) of the convolutions and matrix products of one image, forward.
double multiply_adds(Network& network, int64_t side);

struct PhaseCost {
  std::string name;
  double compute = 0, messages = 0, disk = 0;  // seconds; reading goes on beside the rest
  double message_bytes = 0, disk_bytes = 0;    // of one device, of one host

  double seconds() const;
  std::string limit() const;  // what takes most of the time: compute, messages or disk
};

// The phases of an epoch after the first, the epoch itself last. An Error if the machine's links are not
// known and more than one device is asked for.
std::vector<PhaseCost> epoch_costs(const Workload& work, const Machine& machine, int64_t devices);

// Seconds of all epochs of a training.
double training_seconds(const Workload& work, const Machine& machine, int64_t devices);

// Bytes of one device and its process. The activations of a step and outliers that are held in memory are not
// counted.
double device_memory(const Workload& work, int64_t devices);

}  // namespace poem
