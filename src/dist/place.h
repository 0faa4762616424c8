// Which of several processes this one is, as its starter says: torchrun, mpirun, srun or poem launch.
//
//   const Place place = place_from(getenv);
//   if (place.size > 1) …
#pragma once
#include <functional>
#include <string>

namespace poem {

struct Place {
  int rank = 0, size = 1;              // among all processes of the job
  int local_rank = 0, local_size = 1;  // among those on this machine
  std::string address = "127.0.0.1";   // where rank 0 listens
  int port = 29500;
  bool agent = false;  // torchrun itself listens there, not rank 0
  int attempt = 0;     // how often torchrun has started the processes again
};

// Reads the variables of torchrun and poem launch (RANK, WORLD_SIZE, …), of Open MPI (OMPI_COMM_WORLD_RANK,
// …), and of Slurm (SLURM_PROCID, …; only in a step that srun started). MASTER_ADDR and MASTER_PORT say where
// rank 0 listens, or torchrun if TORCHELASTIC_USE_AGENT_STORE is True. Without them it is this machine, or
// the first machine of Slurm's job, and a port that follows from the job's number. Without any of these
// variables the process is alone. A value that is no number, or an impossible one, is an Error.
Place place_from(const std::function<const char*(const char*)>& variable);

std::string host_name();  // of this machine

}  // namespace poem
