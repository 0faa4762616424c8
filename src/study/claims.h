// Which of several processes does what, on one machine or on several that share a folder.
//
//   Claims claims("runs/table/claims", text_of_the_study);
//   if (claims.take("energy-thompson-0")) …   // nobody else has it, or the process that had it is gone
//
// What a process has taken is a file, which it locks and touches every few seconds. The file counts until the
// process removes it. If the process was killed, the file counts until another process of the same machine
// finds it unlocked, or one of another machine finds that it was not touched for a minute.
//
//   FOLDER/workers/PROCESS   one per process
//   FOLDER/WHAT/0, 1, …      the last one says who has it: the process that had it before was killed
//   FOLDER/WHAT/failed       why the process that has it could not do it
#pragma once
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace poem {

class Claims {
 public:
  // An Error if a process works in the folder for another purpose.
  Claims(const std::string& folder, const std::string& purpose);
  ~Claims();  // releases everything
  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;

  bool alone() const;                  // no other process works here now
  bool take(const std::string& what);  // true if this process has it, now or from before
  void release(const std::string& what);

  // Tells the others, as long as this process has it, that it failed.
  void fail(const std::string& what, const std::string& why);
  std::optional<std::string> failure(const std::string& what) const;  // as another process tells

 private:
  class Beacon;
  std::string place(const std::string& what) const { return folder_ + "/" + what; }
  bool shines(const std::string& path) const;
  void touch();

  const std::string folder_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool ended_ = false;
  std::unique_ptr<Beacon> worker_;
  std::map<std::string, std::unique_ptr<Beacon>> taken_;
  std::thread toucher_;
};

}  // namespace poem
