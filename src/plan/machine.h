// What a machine does per second: the constants of a plan. `poem bench` measures them, a JSON file keeps
// them.
//
//   const Machine machine = read_machine("machine.json");   // or "h200", which is built in
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace poem {

// One network on one device.
struct NetworkSpeed {
  std::string network;       // and the side of an image, for people
  double multiply_adds = 0;  // of one image, forward
  double forward = 0;        // images per second whose features are taken, the cutting of crops included
  double train = 0;          // images per second in training
  double step = 0;           // seconds of the smallest step
};

struct MeasuredEpoch {  // a point for the picture
  double pool = 0, seconds = 0;
  int64_t devices = 1;
};

struct Machine {
  std::string name;
  std::string note;  // what was measured, and where the rest comes from
  std::vector<NetworkSpeed> networks;
  int64_t devices_per_host = 1;
  double disk = 0;  // bytes per second that a host reads
  // Between two devices: bytes per second and seconds of a message. Inside a host, and between hosts. 0: not
  // known.
  double link = 0, link_latency = 0, host_link = 0, host_latency = 0;
  std::vector<MeasuredEpoch> epochs;
};

// The file of a machine, or the name of a built-in one. What is missing or impossible in it is an Error.
Machine read_machine(const std::string& path);
std::string to_json_text(const Machine& machine);

// The speed of a network with so many multiply-adds per image: the one that was measured with the same
// number, or the nearest one, its images per second scaled by the numbers.
struct SpeedEstimate {
  NetworkSpeed speed;
  bool scaled = false;
};
SpeedEstimate speed_for(const Machine& machine, double multiply_adds);

}  // namespace poem
