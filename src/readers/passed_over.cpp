#include "readers/passed_over.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <utility>

#include "core/text.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

std::string with_slash(const std::string& folder) { return folder.empty() ? "" : folder + "/"; }

// The leading folders ("a/b/") that two paths, both ending in a slash, share.
std::string shared_by(const std::string& a, const std::string& b) {
  const auto differs = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  const std::string same(a.begin(), differs);
  return same.substr(0, same.rfind('/') + 1);  // npos + 1 is 0
}

}  // namespace

void PassedOver::add_file(const std::string& name) {
  std::string extension = fs::path(name).extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  ++folders_[fs::path(name).parent_path().string()][extension];
}

void PassedOver::add_folder(const std::string& name) { folders_[name]; }

std::string PassedOver::to_text(const Extensions& extensions) {
  constexpr size_t kMost = 6;  // extensions that are named
  std::vector<std::pair<int64_t, std::string>> kinds;
  for (const auto& [extension, count] : extensions)
    kinds.emplace_back(-count, extension.empty() ? "without extension" : extension);
  std::sort(kinds.begin(), kinds.end());  // the most frequent first
  std::string text;
  int64_t others = 0;
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (i >= kMost)
      others -= kinds[i].first;
    else
      text += fmt::format("{}{} {}", i == 0 ? "" : ", ", -kinds[i].first, kinds[i].second);
  }
  return others == 0 ? text : fmt::format("{}, {} others", text, others);
}

std::string PassedOver::summary() const {
  Extensions all;
  int64_t files = 0;
  for (const auto& [folder, extensions] : folders_) {
    for (const auto& [extension, count] : extensions) {
      all[extension] += count;
      files += count;
    }
  }
  return files == 0 ? "" : fmt::format("{} file{}: {}", files, files == 1 ? "" : "s", to_text(all));
}

std::vector<std::string> PassedOver::empty_classes(const std::vector<std::string>& image_folders) const {
  const std::string shared = shared_folders(image_folders);
  std::set<std::string> classes;
  for (const std::string& folder : image_folders) classes.insert(class_of(folder, shared));
  std::map<std::string, Extensions> found;
  for (const auto& [folder, extensions] : folders_) {
    const std::string path = with_slash(folder);
    std::string above = shared;  // the folder that contains the class
    if (classes.size() == 1 && !starts_with(path, shared)) above = shared_by(path, shared);
    if (!starts_with(path, above) || path == above) continue;
    const std::string name = class_of(folder, above);
    if (above == shared && (classes.size() == 1 || classes.count(name) > 0)) continue;
    for (const auto& [extension, count] : extensions) found[above + name][extension] += count;
    found[above + name];
  }
  std::vector<std::string> texts;
  for (const auto& [name, extensions] : found)
    texts.push_back(fmt::format("{} ({})", name, extensions.empty() ? "empty" : to_text(extensions)));
  return texts;
}

std::string shared_folders(const std::vector<std::string>& image_folders) {
  // What the first and the last have in common, all have. Sorted with their slashes, as "a-b" comes between
  // "a" and "a/b".
  const auto [first, last] =
      std::minmax_element(image_folders.begin(), image_folders.end(),
                          [](const auto& a, const auto& b) { return with_slash(a) < with_slash(b); });
  return shared_by(with_slash(*first), with_slash(*last));
}

std::string class_of(const std::string& folder, const std::string& shared) {
  const std::string below = with_slash(folder).substr(shared.size());
  return below.substr(0, below.find('/'));
}

bool is_hidden(const std::string& file_name) {
  return file_name[0] == '.' || file_name == "__MACOSX" || file_name == "Thumbs.db" ||
         file_name == "desktop.ini";
}

}  // namespace poem
