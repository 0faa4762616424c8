#include "readers/shards.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "core/mapped_file.h"
#include "core/text.h"
#include "poem/error.h"
#include "readers/reader_tools.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

constexpr const char *kList = "shards.json", *kExtension = ".poem", *kKind = "poem shards";
constexpr const char* kTemporary = ".poem.tmp";  // of AtomicFile
constexpr const char* kMark = "unfinished";      // contains the number of the first new shard

std::string in(const std::string& folder, const std::string& file) {
  return (fs::path(folder) / file).string();
}

std::string shard_name(size_t number) { return fmt::format("{:05}{}", number, kExtension); }

std::optional<int64_t> shard_number(const std::string& file) { return number_in(file, "", kExtension); }

bool has_list(const std::string& folder) { return fs::exists(in(folder, kList)); }

bool is_unfinished(const std::string& folder) { return fs::exists(in(folder, kMark)); }

size_t number_of(const std::string& path, const char* extension = kExtension) {
  return static_cast<size_t>(*number_in(fs::path(path).filename().string(), "", extension));
}

[[noreturn]] void broken_list(const std::string& path) {
  throw Error(path, "is not a list of shards that poem wrote",
              "copy the folder again, or pack the source again");
}

Labels part_of(const Labels& labels, int64_t first, int64_t count) {
  Labels part{{}, labels.class_names};
  if (labels.labels.defined()) part.labels = labels.labels.narrow(0, first, count);
  std::vector<int64_t> images(static_cast<size_t>(labels.names.empty() ? 0 : count));
  std::iota(images.begin(), images.end(), first);
  part.names = labels.names.select(images);
  return part;
}

constexpr int64_t kMost = 1000000;  // names that braces stand for

// The texts that stand for "{…}": a range of whole numbers, padded with zeros as its first number is, or a
// list. Empty if it is neither.
std::vector<std::string> alternatives(const std::string& inside) {
  std::vector<std::string> texts;
  if (const size_t dots = inside.find(".."); dots != inside.npos) {
    const std::string first = inside.substr(0, dots);
    const auto from = parse_number<int64_t>(first), to = parse_number<int64_t>(inside.substr(dots + 2));
    if (!from || !to || *from < 0 || *to < *from || *to - *from >= kMost) return {};
    for (int64_t i = *from; i <= *to; ++i) texts.push_back(fmt::format("{:0{}}", i, first.size()));
    return texts;
  }
  if (inside.find(',') == inside.npos) return {};
  for (size_t start = 0; start <= inside.size();) {
    const size_t end = std::min(inside.find(',', start), inside.size());
    texts.push_back(inside.substr(start, end - start));
    start = end + 1;
  }
  return texts;
}

std::vector<std::string> expand(const std::string& text) {
  const size_t open = text.find('{'), close = text.find('}', open);
  if (open == text.npos || close == text.npos) return {text};
  const std::vector<std::string> middles = alternatives(text.substr(open + 1, close - open - 1));
  if (middles.empty())
    throw Error(text, fmt::format("'{}' is neither a range nor a list", text.substr(open, close - open + 1)),
                "write for instance {000..127} or {a,b}");
  const std::vector<std::string> rests = expand(text.substr(close + 1));
  if (middles.size() * rests.size() > kMost)
    throw Error(text, fmt::format("stands for more than {} names", kMost), "use fewer or smaller braces");
  std::vector<std::string> names;
  for (const std::string& middle : middles)
    for (const std::string& rest : rests) names.push_back(text.substr(0, open) + middle + rest);
  return names;
}

}  // namespace

std::vector<std::string> expand_braces(const std::string& text) {
  std::error_code ignored;
  return fs::exists(text, ignored) ? std::vector<std::string>{text} : expand(text);
}

bool is_shard_folder(const std::string& path) {
  return fs::is_directory(path) &&
         (has_list(path) || is_unfinished(path) || fs::exists(in(path, shard_name(0))));
}

bool is_packed_source(const std::string& path) { return is_packed(path) || is_shard_folder(path); }

ShardedWriter::List ShardedWriter::read_list(const std::string& folder) {
  const std::string path = in(folder, kList);
  const auto json = nlohmann::json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  List list;
  std::vector<Shard>& shards = list.shards;
  try {
    if (json.at("kind") != kKind || json.at("version") != 1) broken_list(path);
    list.images_per_shard = json.at("images_per_shard");
    for (const auto& shard : json.at("shards")) {
      shards.push_back({shard.at("file"), shard.at("images"), shard.at("checksum")});
      if (!shard_number(shards.back().file)) broken_list(path);
    }
  } catch (const nlohmann::json::exception&) {
    broken_list(path);
  }
  if (shards.empty() || list.images_per_shard < 1) broken_list(path);
  return list;
}

void ShardedWriter::write_list(const List& list) const {
  auto shards = nlohmann::json::array();
  for (const Shard& shard : list.shards)
    shards.push_back({{"file", shard.file}, {"images", shard.images}, {"checksum", shard.checksum}});
  const nlohmann::json json = {{"kind", kKind},
                               {"version", 1},
                               {"images_per_shard", list.images_per_shard},
                               {"shards", std::move(shards)}};
  write_file(in(folder_, kList), json.dump(1) + "\n");
}

namespace {

void check_shard(const std::string& path, int64_t images, uint32_t checksum) {
  if (!fs::exists(path))
    throw Error(path, fmt::format("is missing, but {} lists it", kList),
                "copy the folder again, or pack the source again");
  const PackedOutline outline = outline_packed(path);
  if (outline.count != images || outline.checksum != checksum)
    throw Error(path, fmt::format("is not the shard that {} lists", kList),
                "copy the folder again, or pack the source again");
}

}  // namespace

std::vector<std::string> shard_paths(const std::string& source,
                                     const std::function<void(const Error&)>& missed) {
  if (!fs::is_directory(source)) return expand_braces(source);
  if (!has_list(source))
    throw Error(source,
                fmt::format("has no {}{}", kList, is_unfinished(source) ? ": packing was not finished" : ""),
                is_unfinished(source) ? "pack the source again"
                                      : "copy the folder again, or name its files with braces");
  std::vector<std::string> paths;
  for (const auto& shard : ShardedWriter::read_list(source).shards) {
    const std::string path = in(source, shard.file);
    try {
      check_shard(path, shard.images, shard.checksum);
      paths.push_back(path);
    } catch (const Error& error) {
      missed(error);
    }
  }
  return paths;
}

std::vector<std::string> shard_paths(const std::string& source) {
  return shard_paths(source, [](const Error& error) { throw error; });
}

void check_shard_folder(const std::string& path, bool force) {
  if (fs::exists(path) && !fs::is_directory(path))
    throw Error(path, "is a file, and shards need a folder", "choose another name");
  if (has_list(path) || !is_unfinished(path)) check_output_folder(path, force, kList);
}

ShardedWriter::ShardedWriter(const std::string& folder, uint64_t shard_bytes, bool append)
    : folder_(folder), made_folder_(!fs::exists(folder)), append_(append), shard_bytes_(shard_bytes) {
  make_output_folder(folder);
  lock_ = std::make_unique<Lock>(folder);
  if (has_list(folder)) old_ = read_list(folder);
  if (const auto files = numbered_files(folder, "", kExtension); !files.empty())
    first_ = number_of(files.back()) + 1;
  if (is_unfinished(folder)) remove_leftovers();
  if (append) room_ = old_.images_per_shard;
}

void ShardedWriter::remove_leftovers() {
  const std::string mark = in(folder_, kMark);
  const auto first = parse_number<size_t>(read_file(mark));
  if (!first) throw Error(mark, "does not contain the number of a shard", "pack into another folder");
  first_ = *first;
  for (const Shard& shard : old_.shards) first_ = std::max(first_, number_of(shard.file) + 1);
  std::error_code ignored;  // a file that stays is replaced
  for (const char* extension : {kExtension, kTemporary})
    for (const std::string& path : numbered_files(folder_, "", extension))
      if (number_of(path, extension) >= first_) fs::remove(path, ignored);
}

ShardedWriter::~ShardedWriter() {
  if (done_) return;
  std::error_code ignored;
  for (size_t i = 0; i < committed_; ++i) fs::remove(in(folder_, name(i)), ignored);
  writers_.clear();  // with their temporary files
  fs::remove(in(folder_, kMark), ignored);
  lock_.reset();
  if (made_folder_) fs::remove(folder_, ignored);
}

std::string ShardedWriter::name(size_t shard) const { return shard_name(first_ + shard); }

// A full shard ends at a page, so that the pixels of the next one can follow it in memory.
void ShardedWriter::add(const at::Tensor& pixels) {
  if (pixels.size(0) == 0) return;
  if (room_ == 0) {
    const auto bytes = static_cast<uint64_t>(pixels[0].nbytes()),
               step = kPageBytes / std::gcd(kPageBytes, bytes);
    room_ = static_cast<int64_t>(std::max<uint64_t>(1, shard_bytes_ / bytes / step) * step);
    if (step * bytes > shard_bytes_)
      spdlog::warn("{}: each shard has {} images and {} bytes of pixels: with fewer it would not fill pages",
                   folder_, step, step * bytes);
  }
  for (int64_t first = 0; first < pixels.size(0);) {
    if (writers_.empty() || writers_.back()->count() == room_) {
      if (writers_.empty())
        write_file(in(folder_, kMark), std::to_string(first_));
      else
        writers_.back()->pause();
      writers_.push_back(std::make_unique<PackedWriter>(in(folder_, name(writers_.size()))));
    }
    const int64_t some = std::min(pixels.size(0) - first, room_ - writers_.back()->count());
    writers_.back()->add(pixels.narrow(0, first, some));
    first += some;
  }
}

int64_t ShardedWriter::finish(const Labels& labels) {
  List list{room_, append_ ? old_.shards : std::vector<Shard>{}};
  int64_t count = 0;
  for (size_t i = 0; i < writers_.size(); ++i) {
    PackedWriter& writer = *writers_[i];
    writer.complete(part_of(labels, count, writer.count()));
    writer.commit();
    ++committed_;
    count += writer.count();
    list.shards.push_back({name(i), writer.count(), writer.checksum()});
  }
  write_list(list);
  done_ = true;
  std::error_code ignored;
  if (!append_)
    for (const Shard& shard : old_.shards) fs::remove(in(folder_, shard.file), ignored);
  fs::remove(in(folder_, kMark), ignored);
  return count;
}

namespace {

ImageSet map_shards(const std::string& path) { return map_packed(shard_paths(path)); }

}  // namespace

extern const Reader packed_reader = {".poem packed file, or a folder of shards", is_packed_source, nullptr,
                                     map_shards};

}  // namespace poem
