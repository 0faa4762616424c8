// Output files that appear together, once all of them are complete.
//
//   OutputFiles out({"idx.npy", "post.npz"}, force);  // before the work: checks that they can be written
//   out.write("idx.npy", [&](const std::string& staged) { write_npy(staged, indices); });
//   out.write("post.npz", [&](const std::string& staged) { write_npz(staged, arrays); });
//   out.commit();
#pragma once
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "core/file.h"

namespace poem {

// An Error if `path` cannot be written: it exists (unless `force`), it is a folder, a device or a pipe, or
// its parent folder is missing or write-protected. For files that are written with AtomicFile instead of
// OutputFiles.
void check_output_file(const std::string& path, bool force);

class OutputFiles {
 public:
  // Empty paths are ignored. A path given twice, one that fails check_output_file(), or one that another
  // process writes, is a poem::Error. From now on other processes are kept from writing them.
  OutputFiles(const std::vector<std::string>& paths, bool force);
  ~OutputFiles();  // without commit(), removes what was staged
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;

  // `fill` writes the file under the temporary name `staged`; its Errors are reported for `path`.
  void write(const std::string& path, const std::function<void(const std::string& staged)>& fill) const;
  void commit();

 private:
  std::vector<std::string> paths_;
  std::list<AtomicFile> locks_;  // empty files that lock the paths
};

}  // namespace poem
