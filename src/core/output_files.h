// Output files that appear together, once all of them are complete.
//
//   OutputFiles out({"idx.npy", "post.npz"}, force);  // before the work: checks that they can be written
//   out.write("idx.npy", [&](const std::string& staged) { write_npy(staged, indices); });
//   out.write("post.npz", [&](const std::string& staged) { write_npz(staged, arrays); });
//   out.commit();
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace poem {

// An Error if `path` cannot be written: it exists (unless `force`), it is a folder, or its parent folder is
// missing or write-protected. For files that are written with AtomicFile instead of OutputFiles.
void check_output_file(const std::string& path, bool force);

class OutputFiles {
 public:
  // Empty paths are ignored. A path given twice, or one that fails check_output_file(), is a poem::Error.
  OutputFiles(const std::vector<std::string>& paths, bool force);
  ~OutputFiles();  // without commit(), removes what was staged
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;

  // `fill` writes the file under the temporary name `staged`; its Errors are reported for `path`.
  void write(const std::string& path, const std::function<void(const std::string& staged)>& fill) const;
  void commit();

 private:
  std::vector<std::string> paths_;
};

}  // namespace poem
