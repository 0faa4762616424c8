// Output files that appear together, once all of them are complete.
//
//   OutputFiles out({"idx.npy", "post.npz"}, force);  // before the work: they must be free to write
//   write_npy(out.staged("idx.npy"), indices);
//   write_npz(out.staged("post.npz"), arrays);
//   out.commit();
#pragma once
#include <string>
#include <vector>

namespace poem {

// An Error if `path` cannot be written: it exists (unless `force`), it is a folder, or its parent folder is
// missing or write-protected. For what is written by an AtomicFile alone.
void check_output_file(const std::string& path, bool force);

class OutputFiles {
 public:
  // Empty paths are left out. A path given twice, and what check_output_file() finds, is a poem::Error.
  OutputFiles(const std::vector<std::string>& paths, bool force);
  ~OutputFiles();  // without commit(), removes what was staged
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;

  std::string staged(const std::string& path) const { return path + ".part"; }  // where to write it meanwhile
  void commit();

 private:
  std::vector<std::string> paths_;
};

}  // namespace poem
