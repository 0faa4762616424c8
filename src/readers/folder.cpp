// Image files: a folder of them, or one.
#include <algorithm>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "core/progress.h"
#include "poem/error.h"
#include "poem/reader.h"
#include "readers/decode.h"
#include "readers/image_files.h"
#include "readers/image_list.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

bool is_folder(const std::string& path) {
  std::error_code ignored;  // of a link that leads nowhere
  return fs::is_directory(path, ignored);
}

// Whether a link leads to a folder that contains it.
bool leads_back(const fs::path& link) {
  std::error_code ignored;
  for (fs::path above = link.parent_path();; above = above.parent_path()) {
    if (fs::equivalent(above, link, ignored)) return true;
    if (above == above.parent_path()) return false;
  }
}

// Names of all images below `folder`, sorted, so that the order does not depend on the file system. Other
// files and folders are passed to `files`. A link that leads nowhere is an image by its name, which cannot be
// read; one that leads back is left out, as its images are in the list already.
std::vector<std::string> list_images(const std::string& folder, ImageFiles& files) {
  std::vector<std::string> names;
  std::error_code code, ignored;
  const fs::path root = fs::canonical(folder, code);
  fs::recursive_directory_iterator entry;
  if (!code)
    entry = fs::recursive_directory_iterator(folder, fs::directory_options::follow_directory_symlink, code);
  for (; !code && entry != fs::recursive_directory_iterator(); entry.increment(code)) {
    const std::string name = entry->path().lexically_relative(folder).string();
    const fs::file_status status = entry->status(ignored);
    const bool link = entry->is_symlink(ignored), broken = link && !fs::exists(status);
    const bool skip = is_hidden(entry->path().filename().string()) ||
                      (link && fs::is_directory(status) && leads_back(root / name));
    if (skip || !fs::is_directory(status)) entry.disable_recursion_pending();
    if (skip) continue;
    if (fs::is_directory(status))
      files.add_folder(name);
    else if (is_image_name(name) && (broken || fs::is_regular_file(status)))  // not a pipe, which never ends
      names.push_back(name);
    else
      files.pass_over(name);
  }
  if (code) throw Error(folder, "cannot be listed: " + code.message(), "check its permissions and links");
  std::sort(names.begin(), names.end());
  return names;
}

Labels visit_part(const std::string& path, const ReadOptions& options, const Choose& choose,
                  const Sink& sink) {
  ImageFiles files(path, options, sink);
  const std::vector<std::string> names = list_images(path, files);
  for (const std::string& name : names) files.announce(name);
  const std::vector<int64_t> rows = choose(static_cast<int64_t>(names.size()), files.announced());
  Progress bar("reading " + path, static_cast<int64_t>(rows.size()), "images");
  for (const int64_t row : rows) {
    files.add((fs::path(path) / names[row]).string(), names[row]);
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

bool is_image(const std::string& path) { return !is_folder(path) && is_image_name(path); }

Labels visit_image(const std::string& path, const ReadOptions& options, const Sink& sink) {
  ImageFiles files(path, options, sink);
  files.add(path, fs::path(path).filename().string());
  return files.finish();
}

}  // namespace

Labels visit_files(const std::vector<std::string>& paths, const ReadOptions& options, const Sink& sink) {
  ImageFiles files(paths.size() == 1 ? paths[0] : "the list of images", options, sink);
  Progress bar("reading", static_cast<int64_t>(paths.size()), "images");
  for (const std::string& path : paths) {
    files.add(path, path);
    bar.advance(1);
  }
  return files.finish();
}

extern const Reader image_reader = {"a .jpg, .jpeg, .png, .webp or .bmp image", is_image, visit_image};
extern const Reader folder_reader = {"a folder of such images (one sub-folder per class)", is_folder,
                                     visit_folder, nullptr, visit_part};

}  // namespace poem
