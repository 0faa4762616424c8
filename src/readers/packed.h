// poem's packed file (.poem): all images of a source in one file, mapped instead of read. The layout is in
// docs/data.md.
//
//   PackedWriter writer("pool.poem");
//   writer.add(pixels);                    // as often as there are blocks
//   writer.finish(labels);                 // only now the file appears
//   ImageSet set = map_packed("pool.poem");
#pragma once
#include <string>
#include <vector>

#include "core/file.h"
#include "poem/images.h"
#include "poem/reader.h"

namespace poem {

class PackedWriter {
 public:
  explicit PackedWriter(const std::string& path);
  void add(const at::Tensor& pixels);    // uint8 n×C×H×W, contiguous; all blocks of one C×H×W
  int64_t finish(const Labels& labels);  // and names; returns the number of images

 private:
  AtomicFile file_;
  int64_t count_ = 0;
  std::vector<int64_t> shape_ = {0, 0, 0};  // C, H, W
};

// The pixels are a view of the mapped file, which stays mapped as long as the tensor lives; never write to
// it.
ImageSet map_packed(const std::string& path);

bool is_packed(const std::string& path);  // by its extension

// An Error if a packed file cannot be written there. `force` allows replacing a packed file, but no other
// file.
void check_packed_output(const std::string& path, bool force);

}  // namespace poem
