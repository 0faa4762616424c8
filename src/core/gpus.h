// The GPUs of this machine, and which of them a process sees.
//
//   const std::vector<std::string> gpus = visible_gpus();   // {"0", "1", "2", "3"}
//   children.start(…, {gpu_variable(gpus, job)});           // job 5 sees GPU 1
#pragma once
#include <string>
#include <vector>

namespace poem {

// As CUDA_VISIBLE_DEVICES names them. If it is not set, all whose files are in the folder `devices`: CUDA
// counts them from 0, although in a container a file keeps the number that it has on the machine. Does not
// start CUDA, which reads that variable only once.
std::vector<std::string> visible_gpus(const std::string& devices = "/dev");

// "CUDA_VISIBLE_DEVICES=NAME" for the `index`-th process, round and round. There must be a GPU.
std::string gpu_variable(const std::vector<std::string>& gpus, size_t index);

}  // namespace poem
