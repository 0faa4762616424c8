#include "poem/read.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <utility>

#include "core/memory.h"
#include "images/resize.h"
#include "poem/error.h"
#include "readers/image_list.h"
#include "readers/reader_tools.h"
#include "readers/shards.h"
#include "readers/source.h"
#include "readers/world_source.h"

namespace poem {

// A path goes to the first reader that accepts it: those that were registered come first, and folders of
// images last, because they accept every folder.
extern const Reader packed_reader, tiny_reader, cifar_reader, mat_reader, idx_reader, npy_reader, npz_reader,
    sprites_reader, archive_reader, image_reader, folder_reader;

namespace {

const Reader* const kReaders[] = {&packed_reader,  &tiny_reader,  &cifar_reader, &mat_reader,
                                  &idx_reader,     &npy_reader,   &npz_reader,   &sprites_reader,
                                  &archive_reader, &image_reader, &folder_reader};

std::vector<Reader>& registered() {
  static std::vector<Reader> readers;
  return readers;
}

std::vector<const Reader*> all_readers() {
  std::vector<const Reader*> readers;
  for (const Reader& reader : registered()) readers.push_back(&reader);
  readers.insert(readers.end(), std::begin(kReaders), std::end(kReaders));
  return readers;
}

// `folder` is where relative paths start.
void check_exists(const std::string& path, const std::string& folder) {
  std::error_code code;
  if (std::filesystem::exists(path, code)) return;
  if (const auto names = expand_braces(path); names.front() != path) {
    for (const std::string& name : names) check_exists(name, folder);
    return;
  }
  const bool relative = !folder.empty() && path.rfind(folder, 0) == 0;
  throw Error(
      path, code ? code.message() : "there is no such file or folder",
      relative ? "check the path, and data.folder, which relative paths start from" : "check the path");
}

const Reader& find_reader(const std::string& path, const ReadOptions& options) {
  check_exists(path, options.folder);
  std::string known;
  for (const Reader* reader : all_readers()) {
    if (reader->accepts(path)) return *reader;
    known += fmt::format("{}{}", known.empty() ? "" : "; ", reader->kind);
  }
  throw Error(path, "has an unknown format", "known formats: " + known + "; world:SET; world2d:SET");
}

void check_options(const std::string& source, const ReadOptions& options) {
  constexpr int64_t kLargest = 4096;
  if (options.size < 0 || options.size > kLargest)
    throw Error(source, fmt::format("cannot be resized to {}", options.size),
                fmt::format("option size takes 1 to {}, or 0 to keep the source's size", kLargest));
}

// Resizes blocks, checks that all have the same shape, and passes them on.
class Fitting {
 public:
  Fitting(std::string source, int64_t size, Sink sink)
      : source_(std::move(source)), size_(size), sink_(std::move(sink)) {}

  void operator()(const at::Tensor& block) {
    const at::Tensor pixels = fit(block, size_);
    const std::vector<int64_t> shape = pixels.sizes().slice(1).vec();
    if (shape_.empty()) shape_ = shape;
    if (shape != shape_)
      throw Error(source_,
                  fmt::format("contains images of {}×{}×{} and of {}×{}×{}", shape_[0], shape_[1], shape_[2],
                              shape[0], shape[1], shape[2]),
                  "resize all with option size; in a config set outliers.fit: resize");
    sink_(pixels);
  }

 private:
  std::string source_;
  int64_t size_;
  Sink sink_;
  std::vector<int64_t> shape_;
};

constexpr const char* kTooLarge =
    "use a part of it with #count=N, or pack it into a file that need not fit: poem pack SRC OUT.poem";

// Collects blocks in one piece of memory: realloc moves large pieces by their pages, so images are never held
// twice, as they would be by concatenating at the end.
class Collector {
 public:
  explicit Collector(std::string source) : source_(std::move(source)) {}
  ~Collector() { std::free(memory_); }
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  void add(const at::Tensor& pixels) {
    const size_t bytes = pixels.nbytes();
    if (size_ + bytes > capacity_) reserve(std::max(size_ + bytes, capacity_ + capacity_ / 2));
    std::memcpy(memory_ + size_, pixels.data_ptr(), bytes);
    size_ += bytes;
    shape_ = pixels.sizes().vec();
    count_ += pixels.size(0);
  }

  int64_t count() const { return count_; }

  Sink sink() {
    return [this](const at::Tensor& pixels) { add(pixels); };
  }

  at::Tensor take() {
    reserve(size_);
    shape_[0] = count_;
    uint8_t* memory = std::exchange(memory_, nullptr);
    return at::from_blob(
        memory, shape_, [](void* p) { std::free(p); }, at::kByte);
  }

 private:
  void reserve(size_t bytes) {
    if (bytes > capacity_) check_memory(source_, bytes - size_, kTooLarge);
    auto* moved = static_cast<uint8_t*>(std::realloc(memory_, bytes));
    if (moved == nullptr) throw Error(source_, "does not fit into memory", kTooLarge);
    memory_ = moved;
    capacity_ = bytes;
  }

  std::string source_;
  uint8_t* memory_ = nullptr;
  size_t size_ = 0, capacity_ = 0;
  int64_t count_ = 0;
  std::vector<int64_t> shape_;
};

void check_not_empty(const std::string& source, int64_t count) {
  if (count == 0) throw Error(source, "contains no images", "check the path");
}

// The rows that the source selects from `count` images with these labels, found by selecting from a set in
// which every image is its own row number.
std::vector<int64_t> choose_rows(const Source& source, int64_t count, const Labels& labels) {
  ImageSet numbers{source.text, at::arange(count).view({count, 1, 1, 1}), labels.labels, labels.class_names};
  take_part(numbers, source);
  const auto* number = numbers.pixels.data_ptr<int64_t>();
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < numbers.size(); ++i) rows.push_back(number[numbers.row(i)]);
  return rows;
}

void check_labelled(const Source& source, const ReadOptions& options, const at::Tensor& labels) {
  if (!options.every_class || labels.defined()) return;
  throw Error(source.text, "has no labels, or a single class",
              "training needs one sub-folder (or label) per class");
}

// Visits only the images that the source selects, if the reader knows them before it decodes any; otherwise
// all. `numbers` gets those of the images that were selected, before the sink gets the first.
Labels visit(const Source& source, const Reader& reader, const ReadOptions& options, const Sink& sink,
             ImageNames& numbers) {
  if (source.whole() || !reader.visit_part) return reader.visit(source.place, options, sink);
  const Choose choose = [&](int64_t count, const Labels& labels) {
    const std::vector<int64_t> rows = choose_rows(source, count, labels);
    numbers = numbers.select(rows);
    return rows;
  };
  Labels labels = reader.visit_part(source.place, options, choose, sink);
  if (labels.names.empty()) labels.names = numbers;
  return labels;
}

Labels visit(const Source& source, const Reader& reader, const ReadOptions& options, const Sink& sink) {
  ImageNames numbers;
  return visit(source, reader, options, sink, numbers);
}

// Refuses a file without labels, or one too large for the memory, before it is read.
void check_outline(const Source& source, const Reader& reader, const ReadOptions& options) {
  if (!reader.outline) return;
  const Outline outline = reader.outline(source.place);
  check_labelled(source, options, outline.labels.labels);
  if (outline.shape.empty() || !source.whole()) return;
  const int64_t side = options.size, pixels = side > 0 ? side * side : outline.shape[1] * outline.shape[2];
  check_memory(source.text, static_cast<uint64_t>(outline.count * outline.shape[0] * pixels), kTooLarge);
}

ImageSet collect(const Source& source, const Reader& reader, const ReadOptions& options) {
  check_outline(source, reader, options);
  Collector collector(source.text);
  Labels labels = visit(source, reader, options, Fitting(source.text, options.size, collector.sink()));
  check_not_empty(source.text, collector.count());
  ImageSet set{source.text, collector.take(),       labels.labels, std::move(labels.class_names),
               {},          std::move(labels.names)};
  if (!reader.visit_part) take_part(set, source);
  return set;
}

// The images that the source selects. Drawn and mapped images still have their own size.
ImageSet open(const Source& source, const ReadOptions& options) {
  ImageSet set;
  if (is_drawn(source.place)) {
    set = draw_source(parse_world(source.place));
  } else {
    const Reader& reader = find_reader(source.place, options);
    if (!reader.map) return collect(source, reader, options);
    set = reader.map(source.place);
  }
  set.name = source.text;
  take_part(set, source);
  return set;
}

// Count, shape and labels of a source, from its headers if they suffice, otherwise from all images.
Outline make_outline(const Source& source, const Reader& reader, const ReadOptions& options) {
  Outline outline = reader.outline ? reader.outline(source.place) : Outline{};
  if (!outline.shape.empty()) {
    if (options.size > 0) outline.shape = {outline.shape[0], options.size, options.size};
    return outline;
  }
  outline.count = 0;
  outline.labels =
      visit(source, reader, options, Fitting(source.text, options.size, [&](const at::Tensor& pixels) {
              outline.count += pixels.size(0);
              outline.shape = pixels.sizes().slice(1).vec();
            }));
  return outline;
}

}  // namespace

void register_reader(const Reader& reader) {
  for (const Reader* other : all_readers()) {
    if (std::strcmp(other->kind, reader.kind) == 0)
      throw Error(reader.kind, "is registered already", "choose another kind");
  }
  registered().push_back(reader);
}

ImageSet outline_images(const std::string& text, const ReadOptions& options) {
  check_options(text, options);
  const Source source = parse_source(text, options.folder);
  const Reader* reader = is_drawn(source.place) ? nullptr : &find_reader(source.place, options);
  if (reader == nullptr || reader->map) return read_images(text, options);
  const Outline outline = make_outline(source, *reader, options);
  check_not_empty(text, outline.count);
  const at::Tensor zero = at::zeros({1, 1, 1, 1}, at::kByte);  // stands for every pixel
  ImageSet set{text, zero.expand({outline.count, 1, 1, 1}), outline.labels.labels,
               outline.labels.class_names};
  // A part that was visited needs no further selection.
  if (reader->outline || !reader->visit_part) take_part(set, source);
  set.pixels = zero.expand({set.size(), outline.shape[0], outline.shape[1], outline.shape[2]});
  set.left_out.clear();
  return set;
}

ImageSet read_images(const std::string& text, const ReadOptions& options) {
  check_options(text, options);
  const Source source = parse_source(text, options.folder);
  ImageSet set = name_if_out_of_memory(text, kTooLarge, [&] { return open(source, options); });
  check_labelled(source, options, set.labels);
  const int64_t size = options.size;
  const bool points = set.pixels.scalar_type() != at::kByte;  // points have no size
  if (points || size == 0 || (set.height() == size && set.width() == size)) return set;
  Collector collector(text);
  visit_in_blocks(set, Fitting(text, size, collector.sink()));
  set.pixels = collector.take();
  set.left_out.clear();
  return set;
}

void check_source(const std::string& text, const ReadOptions& options) {
  check_options(text, options);
  const Source source = parse_source(text, options.folder);
  if (!source.exclude.empty()) check_exists(source.exclude, options.folder);
  if (is_drawn(source.place)) {
    WorldSource one = parse_world(source.place);
    one.count = 1;
    draw_source(one);
  } else {
    find_reader(source.place, options);
  }
}

bool is_image_file(const std::string& text, const ReadOptions& options) {
  const Source source = parse_source(text, options.folder);
  if (is_drawn(source.place)) return false;
  const std::vector<const Reader*> readers = all_readers();
  return std::none_of(readers.begin(), readers.end(), [&](const Reader* reader) {
    return reader != &image_reader && reader->accepts(source.place);
  });
}

bool is_mapped(const std::string& text, const ReadOptions& options) {
  const Source source = parse_source(text, options.folder);
  return !is_drawn(source.place) && find_reader(source.place, options).map != nullptr;
}

bool has_image_files(const std::string& text, const ReadOptions& options) {
  const Source source = parse_source(text, options.folder);
  if (is_drawn(source.place)) return false;
  const Reader* reader = &find_reader(source.place, options);
  return reader == &image_reader || reader == &folder_reader || reader == &archive_reader;
}

Labels visit_images(const std::string& text, const ReadOptions& options, const Sink& sink) {
  check_options(text, options);
  const Source source = parse_source(text, options.folder);
  ImageNames names;  // of images that are not files
  int64_t count = 0, told = 0;
  ReadOptions telling = options;
  if (options.on_image) {
    telling.on_image = [&](const std::string& path, const Error* problem) {
      told += problem == nullptr;
      options.on_image(path, problem);
    };
  }
  const auto pass_on = [&](const at::Tensor& pixels) {
    count += pixels.size(0);
    for (; options.on_image && told < count; ++told)  // files are told by their reader
      options.on_image(source.place + ":" + names.title(told), nullptr);
    sink(pixels);
  };
  const Sink fitted = options.any_size ? Sink(pass_on) : Fitting(text, options.size, pass_on);
  const Reader* reader = is_drawn(source.place) ? nullptr : &find_reader(source.place, options);
  if (reader && reader->visit && (source.whole() || reader->visit_part)) {
    Labels labels = visit(source, *reader, telling, fitted, names);
    if (!options.on_image) check_not_empty(text, count);
    return labels;
  }
  telling.on_image = {};  // pass_on() tells of the images that are selected
  const ImageSet set = open(source, telling);
  names = set.names;
  visit_in_blocks(set, set.pixels.scalar_type() == at::kByte ? fitted : pass_on);
  return {set.labels, set.class_names, std::move(names)};
}

}  // namespace poem
