#include "readers/tar_images.h"

#include "poem/error.h"

#ifdef POEM_HAS_ARCHIVE
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/file.h"
#include "core/interrupts.h"
#include "core/mapped_file.h"
#include "core/progress.h"
#include "readers/archive.h"
#include "readers/archive_file.h"
#include "readers/decode.h"
#include "readers/image_files.h"
#include "readers/source.h"
#endif

namespace poem {

#ifdef POEM_HAS_ARCHIVE
namespace {

// Where the images of several tars are.
class TarIndex {
 public:
  TarIndex(const std::vector<std::string>& paths, ImageFiles& files) {
    for (const std::string& path : paths) {
      tars_.push_back({path, MappedFile(path), size()});
      add_entries(tars_.back(), files);
    }
    labels_ = files.announced();
  }

  int64_t size() const { return static_cast<int64_t>(offsets_.size()); }
  const Labels& labels() const { return labels_; }
  ImageNames take_names() { return std::move(names_); }

  // uint8 C×H×W. An image of another shape than `shape` is an Error, unless that is empty.
  at::Tensor decode(int64_t image, const ReadOptions& options, const std::vector<int64_t>& shape) const {
    const Tar& tar = tars_[tar_of(image)];
    const Archive file = open(tar, offsets_[static_cast<size_t>(image)]);
    archive_entry* const entry = next_entry(tar.path, file.get());
    const std::string where = tar.path + ":" + entry_name(entry);
    const at::Tensor pixels = decode_image(
        where, read_entry(tar.path, file.get(), entry), options.size,
        "replace the file, or in a config set data.skip_bad: true, which reads all images at the start",
        options.repeat_small);
    if (!shape.empty() && pixels.sizes() != shape)
      throw Error(where,
                  fmt::format("is {}×{} pixels, but the first image is {}×{}", pixels.size(1), pixels.size(2),
                              shape[1], shape[2]),
                  "in a config set outliers.fit: resize");
    return pixels;
  }

  // Where images (ascending) lie in memory, by tar: from the beginning of each to that of the next image, but
  // no more than most images have.
  std::vector<std::vector<Span>> spans(const std::vector<int64_t>& images) const {
    constexpr uint64_t kMost = 1 << 20;
    std::vector<std::vector<Span>> spans(tars_.size());
    for (const int64_t image : images) {
      const size_t tar = tar_of(image);
      const uint64_t begin = offsets_[static_cast<size_t>(image)], all = tars_[tar].file.size();
      const bool last = image + 1 == size() || tar_of(image + 1) != tar;
      const uint64_t end = std::min(last ? all : offsets_[static_cast<size_t>(image) + 1], begin + kMost);
      spans[tar].push_back({tars_[tar].file.data() + begin, tars_[tar].file.data() + end});
    }
    spans.erase(std::remove_if(spans.begin(), spans.end(), [](const auto& some) { return some.empty(); }),
                spans.end());
    return spans;
  }

 private:
  struct Tar {
    std::string path;
    MappedFile file;
    int64_t first;  // image
  };

  size_t tar_of(int64_t image) const {
    const auto after = std::upper_bound(tars_.begin(), tars_.end(), image,
                                        [](int64_t i, const Tar& tar) { return i < tar.first; });
    return static_cast<size_t>(after - tars_.begin()) - 1;
  }

  // From the entry that begins at this offset. libarchive reads its header, in whatever dialect of tar.
  static Archive open(const Tar& tar, uint64_t offset) {
    Archive file = new_archive();
    if (archive_read_open_memory(file.get(), tar.file.data() + offset, tar.file.size() - offset) !=
        ARCHIVE_OK)
      fail_as_archive(tar.path, file.get());
    return file;
  }

  void add_entries(const Tar& tar, ImageFiles& files) {
    const Archive file = open(tar, 0);
    constexpr int64_t kMega = 1000000;
    Progress bar("listing " + tar.path, static_cast<int64_t>(tar.file.size()) / kMega, "MB");
    int64_t shown = 0;
    uint64_t end = 0;
    while (archive_entry* entry = next_entry(tar.path, file.get())) {
      stop_if_interrupted();
      const int64_t begin = archive_filter_bytes(file.get(), -1);  // of the content
      bar.advance(begin / kMega - std::exchange(shown, begin / kMega));
      const std::string name = entry_name(entry);
      if (is_image_entry(tar.path, file.get(), entry, files)) {
        offsets_.push_back(static_cast<uint64_t>(archive_read_header_position(file.get())));
        names_.add(name);
        files.announce(name);
      }
      end = skip_entry(tar.path, name, file.get());
    }
    check_tar_end(tar.path, file.get(), end);
    files.leave_sample();
  }

  std::vector<Tar> tars_;
  std::vector<uint64_t> offsets_;  // of the entry of each image in its tar
  ImageNames names_;
  Labels labels_;
};

bool all_plain(const std::vector<std::string>& paths) {
  return std::all_of(paths.begin(), paths.end(), [](const std::string& path) {
    const InputFile file(path);
    std::string start(std::min<uint64_t>(file.size(), 512), '\0');
    file.read_at(0, start.data(), start.size());
    return is_plain_tar(start);
  });
}

// Decodes these images (ascending) on all threads. The first Error is thrown.
at::Tensor decode_some(const TarIndex& index, const std::vector<int64_t>& images,
                       const std::vector<int64_t>& shape, const ReadOptions& options) {
  const auto count = static_cast<int64_t>(images.size());
  at::Tensor pixels = at::empty({count, shape[0], shape[1], shape[2]}, at::kByte);
  for (const std::vector<Span>& spans : index.spans(images)) read_ahead(spans);
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const at::Tensor image = index.decode(images[static_cast<size_t>(i)], options, shape).contiguous();
      std::memcpy(pixels[i].data_ptr(), image.data_ptr(), image.nbytes());
    }
  });
  for (const std::vector<Span>& spans : index.spans(images)) let_go({spans.front().begin, spans.back().end});
  return pixels;
}

}  // namespace

std::shared_ptr<LazyImages> open_tars(const std::string& text, const ReadOptions& options) {
  constexpr uint64_t kMostBytes = uint64_t{256} << 20;
  const Source source = parse_source(text, options.folder);
  if (!source.whole() || options.skip_bad || !has_image_files(text, options) || !is_archive(source.place))
    return nullptr;
  const std::vector<std::string> paths = archive_paths(source.place);
  if (!all_plain(paths)) return nullptr;
  ImageFiles files(text, options, {});
  const auto index = std::make_shared<TarIndex>(paths, files);
  const std::vector<int64_t> shape = index->decode(0, options, {}).sizes().vec();
  const auto make = [index, shape, options](const std::vector<int64_t>& images, int64_t*) {
    return decode_some(*index, images, shape, options);
  };
  auto lazy =
      std::make_shared<LazyImages>(text, std::vector<int64_t>{index->size(), shape[0], shape[1], shape[2]},
                                   index->labels().class_names, make);
  lazy->describe(index->take_names(), index->labels().labels);
  lazy->keep_at_most(kMostBytes);
  return lazy;
}

#else

std::shared_ptr<LazyImages> open_tars(const std::string&, const ReadOptions&) { return nullptr; }

#endif

}  // namespace poem
