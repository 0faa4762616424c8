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

class OutputFiles {
 public:
  // Empty paths are left out. A path given twice, one that exists (unless `force`), a folder in its place and
  // a missing or write-protected parent folder are a poem::Error.
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
