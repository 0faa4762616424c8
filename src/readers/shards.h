// Packed files that are one source: a folder of shards with a list of them, or names with braces. The list is
// written last, so that a set of shards is always complete. Until then a file marks the folder as unfinished.
//
//   ShardedWriter writer("pool", bytes_per_shard, /*append=*/false);
//   writer.add(pixels);                       // as often as there are blocks
//   writer.finish(labels);                    // only now pool/shards.json lists them
//   shard_paths("pool");                      // pool/00000.poem, pool/00001.poem, …
//   shard_paths("pool-{00000..00127}.poem");
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/lock.h"
#include "poem/error.h"
#include "readers/packed.h"

namespace poem {

// A folder of shards: with a list of them, or with a first shard, or marked as unfinished.
bool is_shard_folder(const std::string& path);

// Whether this is a packed file, by its extension, or a folder of shards.
bool is_packed_source(const std::string& path);

// The packed files of a source: a folder of shards, a name with braces, or one file. A shard that is missing,
// or not the one that the list names, is an Error; with `missed` it is left out, and told.
std::vector<std::string> shard_paths(const std::string& source);
std::vector<std::string> shard_paths(const std::string& source,
                                     const std::function<void(const Error&)>& missed);

// An Error if shards cannot be written into this folder. `force` allows replacing shards, but nothing else. A
// folder without a list that is marked as unfinished may be written anew.
void check_shard_folder(const std::string& path, bool force);

class ShardedWriter {
 public:
  // Makes the folder. Shards that are there are kept (append) or replaced, in both cases when finish() is
  // done: until then, and if it is never called, the folder is what it was. What an unfinished writer left is
  // removed. No other file is replaced. With `append` the new shards have the size of those that are there,
  // whatever shard_bytes says.
  ShardedWriter(const std::string& folder, uint64_t shard_bytes, bool append);
  ~ShardedWriter();
  void add(const at::Tensor& pixels);    // uint8 n×C×H×W, contiguous; all blocks of one C×H×W
  int64_t finish(const Labels& labels);  // returns the number of images that were added

 private:
  struct Shard {
    std::string file;  // in the folder
    int64_t images;
    uint32_t checksum;
  };
  struct List {
    int64_t images_per_shard = 0;
    std::vector<Shard> shards;
  };
  friend std::vector<std::string> shard_paths(const std::string& source,
                                              const std::function<void(const Error&)>& missed);
  static List read_list(const std::string& folder);
  void write_list(const List& list) const;
  void remove_leftovers();               // of a writer that was killed
  std::string name(size_t shard) const;  // of the new shards

  std::string folder_;
  bool made_folder_, append_, done_ = false;
  std::unique_ptr<Lock> lock_;
  List old_;
  size_t first_ = 0;  // number of the first new shard
  uint64_t shard_bytes_;
  int64_t room_ = 0;  // images per shard
  std::vector<std::unique_ptr<PackedWriter>> writers_;
  size_t committed_ = 0;  // so many of the new shards have their names
};

// "a{00..02}.tar" → a00.tar, a01.tar, a02.tar; "{x,y}.tar" → x.tar, y.tar; several braces in all
// combinations, but no more than a million names. A text without braces, or that is a path as it stands, is
// one name.
std::vector<std::string> expand_braces(const std::string& text);

}  // namespace poem
