// Folders of JPEG and PNG files.
#include <algorithm>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/progress.h"
#include "data/decode.h"
#include "data/image_files.h"
#include "data/reader.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

bool is_folder(const std::string& path) { return fs::is_directory(path); }

bool hidden(const fs::path& path) {
  const std::string name = path.filename().string();
  return name[0] == '.' || name == "__MACOSX";
}

// Paths of all images below `folder`, sorted, so that the order does not depend on the file system.
std::vector<std::string> list_images(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code code;
  auto entry =
      fs::recursive_directory_iterator(folder, fs::directory_options::follow_directory_symlink, code);
  for (; !code && entry != fs::recursive_directory_iterator(); entry.increment(code)) {
    if (hidden(entry->path()))
      entry.disable_recursion_pending();
    else if (is_image_name(entry->path().string()) && !entry->is_directory())
      paths.push_back(entry->path().string());
  }
  if (code) throw Error(folder, "cannot be listed: " + code.message(), "check its permissions and links");
  std::sort(paths.begin(), paths.end());
  return paths;
}

Labels visit_part(const std::string& path, const ReadOptions& options, const Choose& choose,
                  const Sink& sink) {
  const std::vector<std::string> images = list_images(path);
  std::vector<std::string> names;
  for (const std::string& image : images) names.push_back(fs::path(image).lexically_relative(path).string());
  ImageFiles files(path, options, sink);
  const std::vector<int64_t> rows = choose(static_cast<int64_t>(images.size()), files.announce(names));
  Progress bar("reading " + path, static_cast<int64_t>(rows.size()), "images");
  for (const int64_t row : rows) {
    files.add(images[row], names[row]);
    bar.advance(1);
  }
  return files.finish();
}

Labels visit_folder(const std::string& path, const ReadOptions& options, const Sink& sink) {
  const Choose all = [](int64_t count, const Labels&) {
    std::vector<int64_t> rows(count);
    std::iota(rows.begin(), rows.end(), int64_t{0});
    return rows;
  };
  return visit_part(path, options, all, sink);
}

}  // namespace

extern const Reader folder_reader = {"a folder of .jpg, .jpeg or .png images (one sub-folder a class)",
                                     is_folder, visit_folder, nullptr, visit_part};

}  // namespace poem
