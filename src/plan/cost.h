// What an epoch costs on so many devices: time, messages, disk and memory, phase by phase. docs/scale.md has
// the formulas.
//
//   const Workload work = workload_of(config, *network, /*id_images=*/50000);
//   for (const PhaseCost& phase : epoch_costs(work, machine, 8)) print(phase.name, phase.seconds());
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "plan/machine.h"
#include "poem/config.h"
#include "poem/network.h"

namespace poem {

struct Workload {
  double id_images = 0, pool = 0, select = 0;
  double batch = 0, outlier_batch = 0;
  double queued = 0;  // images whose features the queue takes in an epoch
  double parameters = 0, features = 0;
  double norms = 0, norm_channels = 0;  // BatchNorms whose statistics the ranks exchange, and their channels
  double multiply_adds = 0;             // of one image, forward
  double image_bytes = 0;               // of one outlier on disk
  bool scored = false;                  // the miner scores the pool
  bool posterior = false;               // it draws from the posterior
  double candidates = 1;                // share of the pool that a first stage passes on; 1: one stage
  double first_look = 0;                // what the first stage takes of the network's work, per image
};

// `network`: one such as the config asks for. It computes one image. An Error if the config mines more
// outliers than its pool offers.
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

// Bytes of one device, the activations of a step not counted.
double device_memory(const Workload& work, int64_t devices);

}  // namespace poem
