#include "catalogue/verify.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "core/checksum.h"
#include "core/interrupts.h"
#include "core/text.h"
#include "poem/error.h"
#include "readers/decode.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

const char* const kPart = ".part";  // the extension of an interrupted download

// One folder: the files in it whose names the manifest knows, with their sizes (empty if a file cannot be
// read, for instance a dangling link), and its number of images.
struct Folder {
  std::map<std::string, std::optional<int64_t>> known;
  int64_t images = 0;
};
using Tree = std::map<fs::path, Folder>;  // by absolute path, so that a folder comes before its subfolders

std::set<std::string> known_names(const Manifest& manifest) {
  std::set<std::string> names;
  for (const KnownSet& set : manifest) {
    for (const KnownFile& file : set.downloads) names.insert({file.name, file.name + kPart});
    for (const KnownFile& file : set.unpacked) names.insert(file.name);
  }
  return names;
}

bool is_below(const fs::path& path, const fs::path& above) {  // or the same folder
  const fs::path relative = path.lexically_relative(above);
  return !relative.empty() && *relative.begin() != "..";
}

// Lists a folder and everything below it. Follows links, unless they lead back. Skips what cannot be listed,
// so that the rest is still found.
class Walk {
 public:
  explicit Walk(const Manifest& manifest) : names_(known_names(manifest)) {}

  Tree operator()(const fs::path& top) {
    if (const std::error_code code = enter(top)) {
      throw Error(top.string(), "cannot be listed: " + code.message(), "check its permissions");
    }
    return std::move(tree_);
  }

 private:
  std::error_code enter(const fs::path& path) {
    std::error_code code;
    const fs::path real = fs::canonical(path, code);
    if (code) return code;
    const auto leads_back = [&](const fs::path& from) { return is_below(from, real); };
    if (std::any_of(above_.begin(), above_.end(), leads_back)) return {};
    above_.push_back(real);
    tree_[path];
    for (auto entry = fs::directory_iterator(path, code); !code && entry != fs::directory_iterator();
         entry.increment(code)) {
      stop_if_interrupted();
      look_at(*entry);
    }
    above_.pop_back();
    return code;
  }

  void look_at(const fs::directory_entry& entry) {
    std::error_code unknown;
    if (entry.is_directory(unknown)) {
      if (const std::error_code code = enter(entry.path()))
        spdlog::warn("{}: cannot be listed: {}", entry.path().string(), code.message());
      return;
    }
    Folder& folder = tree_[entry.path().parent_path()];
    const std::string name = entry.path().filename().string();
    if (is_image_name(name) && entry.is_regular_file(unknown)) ++folder.images;
    if (names_.count(name) == 0) return;
    const auto size = entry.file_size(unknown);
    folder.known[name] = unknown ? std::nullopt : std::optional<int64_t>(size);
  }

  const std::set<std::string> names_;
  std::vector<fs::path> above_;  // the real paths of the current folder and those above it
  Tree tree_;
};

bool ends_with(const fs::path& path, const std::string& end) {
  const std::string text = path.generic_string(), tail = "/" + end;
  return text.size() >= tail.size() && text.compare(text.size() - tail.size(), tail.size(), tail) == 0;
}

std::string algorithm_of(const KnownFile& file) { return file.checksum.substr(0, file.checksum.find(':')); }

// What was checked in a file that has no fault.
std::string evidence(const KnownFile& file, int64_t bytes) {
  if (file.checksum.empty()) {
    return fmt::format("{} bytes, {}", bytes,
                       file.size_known() ? "checksum unknown" : "size and checksum unknown");
  }
#ifdef POEM_HAS_CRYPTO
  return fmt::format("{} bytes, {} correct", bytes, algorithm_of(file));
#else
  return fmt::format("{} bytes, {} not compared: poem was built without libcrypto", bytes,
                     algorithm_of(file));
#endif
}

Holding judge_download(const KnownFile& file, const fs::path& path, std::optional<int64_t> bytes) {
  Holding holding;
  const std::string fault = fault_of(file, path.string());
  holding.whole = fault.empty();
  holding.detail = holding.whole ? evidence(file, bytes.value_or(0)) : fault;
  return holding;
}

Holding judge_part(const KnownFile& file, std::optional<int64_t> bytes) {
  Holding holding;
  if (!bytes) {
    holding.detail = "cannot be read";
  } else {
    holding.detail = file.size_known() ? fmt::format("download stopped at {} of {} bytes", *bytes, file.most)
                                       : fmt::format("download stopped at {} bytes", *bytes);
  }
  return holding;
}

// The unpacked files of a set in one folder. If there are none, nothing is reported.
std::vector<Holding> judge_unpacked(const KnownSet& set, const fs::path& path, const Folder& folder) {
  std::vector<std::string> missing, faults;
  size_t present = 0;
  bool compared = true;
  for (const KnownFile& file : set.unpacked) {
    const auto found = folder.known.find(file.name);
    // If the exact size is unknown, a file outside the range belongs to another set with the same names.
    const bool here = found != folder.known.end();
    if (!here || (found->second && !file.size_known() && !file.size_fits(*found->second))) {
      missing.push_back(file.name);
      continue;
    }
    ++present;
    compared = compared && !file.checksum.empty();
    const std::string fault = fault_of(file, (path / file.name).string());
    if (!fault.empty()) faults.push_back(file.name + " " + fault);
  }
  if (present == 0) return {};
  Holding holding;
  holding.whole = missing.empty() && faults.empty();
  holding.detail = fmt::format("{} of {} files", present, set.unpacked.size());
  if (!compared) holding.detail += ", checksums unknown";
  if (!missing.empty()) holding.detail += ", missing " + listed(missing);
  if (!faults.empty()) holding.detail += ", damaged: " + listed(faults);
  return {holding};
}

Holding judge_images(const KnownSet& set, int64_t count) {
  Holding holding;
  holding.whole = count == set.images || count == set.subset;
  holding.detail = fmt::format("{} of {} images", count, set.images);
  if (count == set.subset) holding.detail += ", the number that the authors use";
  return holding;
}

// Everything found of one set, in the order of the tree.
class Search {
 public:
  Search(const Tree& tree, const KnownSet& set) : tree_(tree), set_(set) {}

  std::vector<Holding> run() {
    for (const auto& [path, folder] : tree_) {
      for (const KnownFile& file : set_.downloads) look_for(file, path, folder);
      for (const Holding& holding : judge_unpacked(set_, path, folder)) add(holding, path);
      count_images(path);
    }
    return std::move(found_);
  }

 private:
  void add(Holding holding, const fs::path& path) {
    holding.set = set_.name;
    holding.place = path.lexically_relative(tree_.begin()->first).string();
    found_.push_back(std::move(holding));
  }

  void look_for(const KnownFile& file, const fs::path& path, const Folder& folder) {
    if (const auto found = folder.known.find(file.name); found != folder.known.end()) {
      add(judge_download(file, path / file.name, found->second), path / file.name);
    }
    if (const auto part = folder.known.find(file.name + kPart); part != folder.known.end()) {
      add(judge_part(file, part->second), path / part->first);
    }
  }

  void count_images(const fs::path& path) {
    if (!counted_.empty() && is_below(path, counted_)) return;
    bool named = false;
    for (const std::string& end : set_.folders) named = named || ends_with(path, end);
    if (!named) return;
    int64_t count = 0;
    for (const auto& [other, folder] : tree_) {
      if (is_below(other, path)) count += folder.images;
    }
    if (count == 0) return;
    counted_ = path;
    add(judge_images(set_, count), path);
  }

  const Tree& tree_;
  const KnownSet& set_;
  fs::path counted_;  // the last folder whose images were counted, including those below it
  std::vector<Holding> found_;
};

}  // namespace

std::string fault_of(const KnownFile& file, const std::string& path) {
  std::error_code code;
  const auto bytes = static_cast<int64_t>(fs::file_size(path, code));
  if (code) {
    std::error_code unknown;
    const bool nowhere = code == std::errc::no_such_file_or_directory && fs::is_symlink(path, unknown);
    return nowhere ? "is a link to a file that does not exist" : "cannot be read: " + code.message();
  }
  if (::access(path.c_str(), R_OK) != 0) return fmt::format("cannot be read: {}", std::strerror(errno));
  if (!file.size_fits(bytes)) return fmt::format("has {} bytes, expected {}", bytes, file.most);
  if (file.checksum.empty()) return "";
  try {
    const auto actual = checksum(path, algorithm_of(file));
    return !actual || *actual == file.checksum ? ""
                                               : fmt::format("has {}, expected {}", *actual, file.checksum);
  } catch (const Error& error) {  // a damaged disk
    return error.what();
  }
}

std::vector<Holding> find_holdings(const std::string& folder, const Manifest& manifest) {
  if (!fs::is_directory(folder)) {
    throw Error(folder, fs::exists(folder) ? "is a file" : "there is no such folder", "name a folder");
  }
  const Tree tree = Walk(manifest)(fs::canonical(folder));
  std::vector<Holding> all;
  for (const KnownSet& set : manifest) {
    for (Holding& holding : Search(tree, set).run()) all.push_back(std::move(holding));
  }
  return all;
}

}  // namespace poem
