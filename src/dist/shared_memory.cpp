#include "dist/shared_memory.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>

namespace poem {
namespace {

using Clock = std::chrono::steady_clock;
using Timeout = std::chrono::milliseconds;

constexpr size_t kRoom = 64 << 10;  // bytes of a message; longer ones take the other channel

// What a rank has written. Message n has the slot n % 2: a rank writes it when it has read n − 1 from all, so
// all have written n − 1, and read n − 2 before.
struct alignas(64) Mailbox {
  std::atomic<uint64_t> written;  // the number of the last message
  std::atomic<bool> closed;
  alignas(64) uint8_t slots[2][kRoom];
};

// One mailbox per rank. Each rank locks its byte of the file; the system frees it when the rank ends.
class SharedMemory {
 public:
  // Creates memory of this name, or opens what another rank has created. It is zero at first.
  SharedMemory(const std::string& name, bool create, int rank, int size) : bytes_(size * sizeof(Mailbox)) {
    file_ = ::shm_open(name.c_str(), create ? O_RDWR | O_CREAT | O_EXCL : O_RDWR, 0600);
    if (file_ < 0 || (create && ::posix_fallocate(file_, 0, static_cast<off_t>(bytes_)) != 0)) return;
    struct flock own = byte_of(rank);
    if (::fcntl(file_, F_OFD_SETLK, &own) != 0) return;
    void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (memory != MAP_FAILED) boxes_ = static_cast<Mailbox*>(memory);
  }
  ~SharedMemory() {
    if (boxes_ != nullptr) ::munmap(boxes_, bytes_);
    if (file_ >= 0) ::close(file_);
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  bool good() const { return boxes_ != nullptr; }
  Mailbox& operator[](int rank) const { return boxes_[rank]; }
  bool runs(int rank) const {
    struct flock other = byte_of(rank);
    return ::fcntl(file_, F_OFD_GETLK, &other) != 0 || other.l_type != F_UNLCK;
  }

 private:
  static struct flock byte_of(int rank) {
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = rank;
    lock.l_len = 1;
    return lock;
  }

  const size_t bytes_;
  int file_ = -1;
  Mailbox* boxes_ = nullptr;
};

class SharedMemoryChannel : public Channel {
 public:
  SharedMemoryChannel(std::unique_ptr<Channel> far, std::unique_ptr<SharedMemory> memory, int rank, int size,
                      Timeout timeout)
      : far_(std::move(far)), memory_(std::move(memory)), rank_(rank), size_(size), timeout_(timeout) {}

  std::function<void()> start_sum(const at::Tensor& tensor) override {
    if (!fits(tensor)) return far_->start_sum(tensor);
    const std::vector<at::Tensor> all = exchange(tensor.contiguous());
    tensor.copy_(all[0]);
    for (int rank = 1; rank < size_; ++rank) tensor.add_(all[rank]);  // in one order, so equal everywhere
    return [] {};
  }

  at::Tensor gather(const at::Tensor& own) override {
    if (!fits(own)) return far_->gather(own);
    return at::stack(exchange(own.contiguous()));
  }

  void close() override {
    (*memory_)[rank_].closed = true;
    far_->close();
  }

  void write(const std::string& key, const std::string& text) override { far_->write(key, text); }
  std::string read(const std::string& key) override { return far_->read(key); }
  bool has(const std::string& key) override { return far_->has(key); }
  int64_t count(const std::string& key) override { return far_->count(key); }

 private:
  // What decides is the same on all ranks: not the strides, for instance.
  static bool fits(const at::Tensor& tensor) { return tensor.is_cpu() && tensor.nbytes() <= kRoom; }

  // The tensors of all ranks, in memory that the next call but one may overwrite.
  std::vector<at::Tensor> exchange(const at::Tensor& own) {
    ++message_;
    Mailbox& mine = (*memory_)[rank_];
    std::memcpy(mine.slots[message_ % 2], own.data_ptr(), own.nbytes());
    mine.written.store(message_, std::memory_order_release);
    std::vector<at::Tensor> all;
    for (int rank = 0; rank < size_; ++rank) {
      wait_for(rank);
      all.push_back(at::from_blob((*memory_)[rank].slots[message_ % 2], own.sizes(), own.options()));
    }
    return all;
  }

  // All ranks, so that one which waits for a busy rank does not wait in vain.
  void look_for_lost_ranks() const {
    for (int rank = 0; rank < size_; ++rank) {
      const Mailbox& box = (*memory_)[rank];
      const bool left = rank != rank_ && (box.closed || !memory_->runs(rank));
      // It may have written before it left.
      if (left && box.written.load(std::memory_order_acquire) < message_)
        throw std::runtime_error(fmt::format("rank {} has closed the connection", rank));
    }
  }

  // Ranks that share a batch come at almost the same time, so it yields at first and sleeps only later.
  void wait_for(int rank) const {
    constexpr int kYields = 2000,
                  kLooks = 100;  // about a millisecond; naps from look to look for a lost rank
    constexpr std::chrono::microseconds kNap(100);
    const Mailbox& box = (*memory_)[rank];
    const Clock::time_point end = Clock::now() + timeout_;
    for (int round = 0; box.written.load(std::memory_order_acquire) < message_; ++round) {
      if ((*memory_)[rank_].closed) throw std::runtime_error("the connection was closed");
      if (round < kYields) {
        std::this_thread::yield();
        continue;
      }
      if (round % kLooks == 0) look_for_lost_ranks();
      if (Clock::now() > end) throw std::runtime_error("no answer in time");
      std::this_thread::sleep_for(kNap);
    }
  }

  const std::unique_ptr<Channel> far_;  // for longer messages, and texts
  const std::unique_ptr<SharedMemory> memory_;
  const int rank_, size_;
  const Timeout timeout_;
  uint64_t message_ = 0;
};

// Removes a name at the end of its life. The memory itself stays for those who have opened it.
struct NameOfMemory {
  explicit NameOfMemory(std::string text) : name(std::move(text)) {}
  ~NameOfMemory() {
    if (!name.empty()) ::shm_unlink(name.c_str());
  }
  NameOfMemory(const NameOfMemory&) = delete;
  NameOfMemory& operator=(const NameOfMemory&) = delete;
  const std::string name;
};

std::string random_name() {
  std::random_device random;
  return fmt::format("/poem-{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

}  // namespace

std::unique_ptr<Channel> share_memory(std::unique_ptr<Channel> channel, int rank, int size, Timeout timeout) {
  const std::string topic = "memory", yes = "yes";
  const auto key = [&](int of) { return fmt::format("{}/{}", topic, of); };
  const std::string name = rank == 0 ? random_name() : channel->read(topic);
  auto memory = std::make_unique<SharedMemory>(name, /*create=*/rank == 0, rank, size);
  const NameOfMemory until_all_opened_it(rank == 0 ? name : "");
  if (rank == 0) channel->write(topic, name);
  channel->write(key(rank), memory->good() ? yes : "no");
  bool shared = true;
  for (int other = 0; other < size; ++other) shared = channel->read(key(other)) == yes && shared;
  if (!shared) return channel;
  return std::make_unique<SharedMemoryChannel>(std::move(channel), std::move(memory), rank, size, timeout);
}

}  // namespace poem
