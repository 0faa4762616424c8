#include "readers/survey.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <utility>

#include "core/memory.h"
#include "images/resize.h"
#include "readers/source.h"
#include "readers/world_source.h"

namespace poem {
namespace {

// If the source is a large world, names its beginning instead. Image i does not depend on their number.
void limit_drawing(Survey& survey) {
  const Source source = parse_source(survey.source, survey.folder);
  if (!is_drawn(source.place) || !source.whole()) return;
  const WorldSource world = parse_world(source.place);
  if (world.count <= kMostDrawn) return;
  survey.drawn_of = world.count;
  survey.source =
      fmt::format("{}:{}:{}:{}", world.flat ? "world2d" : "world", world.set, kMostDrawn, world.seed);
}

ReadOptions options_for(Survey& survey) {
  ReadOptions options;
  options.folder = survey.folder;
  options.any_size = true;
  options.skip_bad = true;
  options.on_bad = [&survey](const Error& problem) { survey.unreadable.push_back(problem); };
  return options;
}

void add_marks(Survey& survey, const at::Tensor& pixels) {
  const auto count = static_cast<size_t>(pixels.size(0));
  if (survey.marks.size() + count > survey.marks.capacity()) {
    const size_t room = 2 * survey.marks.size() + count;
    check_memory(survey.source, room * sizeof(Fingerprint), "check a part of it with #count=N");
    survey.marks.reserve(room);
  }
  const std::vector<Fingerprint> marks = fingerprints(pixels);
  survey.marks.insert(survey.marks.end(), marks.begin(), marks.end());
  survey.sizes[{pixels.size(1), pixels.size(2), pixels.size(3)}] += pixels.size(0);
}

}  // namespace

std::string Survey::class_name(int64_t image) const {
  if (!labels.labels.defined()) return "";
  return labels.class_names[static_cast<size_t>(labels.labels.data_ptr<int64_t>()[image])];
}

Survey survey(const std::string& name, const std::string& source, const std::string& folder) {
  Survey result;
  result.name = name;
  result.source = source;
  result.folder = folder;
  limit_drawing(result);
  try {
    result.labels = visit_images(result.source, options_for(result), [&](const at::Tensor& pixels) {
      if (pixels.scalar_type() != at::kByte)
        throw Error(source, "contains points, and only images can be checked", "leave it out");
      add_marks(result, pixels);
    });
  } catch (const Error&) {
    const bool none_can_be_read = result.marks.empty() && !result.unreadable.empty();
    if (!none_can_be_read) throw;  // else it is a set of 0 images, and its files are named
  }
  if (result.labels.labels.defined()) result.labels.labels = result.labels.labels.contiguous();
  return result;
}

std::map<int64_t, at::Tensor> pick_images(const Survey& survey, const std::set<int64_t>& images,
                                          int64_t size) {
  std::map<int64_t, at::Tensor> picked;
  int64_t first = 0;  // image of a block
  Survey again;       // takes what cannot be read, a second time
  again.folder = survey.folder;
  visit_images(survey.source, options_for(again), [&](const at::Tensor& pixels) {
    const int64_t end = first + pixels.size(0);
    for (auto image = images.lower_bound(first); image != images.end() && *image < end; ++image)
      picked[*image] = fit(pixels.narrow(0, *image - first, 1), size)[0].clone();
    first = end;
  });
  return picked;
}

}  // namespace poem
