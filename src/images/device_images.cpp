#include "images/device_images.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#ifdef POEM_HAS_CUDA
#include <ATen/Parallel.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <spdlog/spdlog.h>

#include <cstring>

#include "cuda/cut.h"
#include "images/filters.h"
#endif

namespace poem {
namespace {

// The pixels of these rows, ascending; rows that follow one another are one span.
std::vector<Span> spans_of(const at::Tensor& pixels, std::vector<int64_t> rows) {
  std::sort(rows.begin(), rows.end());
  const auto* start = static_cast<const uint8_t*>(pixels.data_ptr());
  const int64_t bytes = pixels.stride(0) * static_cast<int64_t>(pixels.element_size());
  std::vector<Span> spans;
  for (const int64_t row : rows) {
    const uint8_t* begin = start + row * bytes;
    if (spans.empty() || begin > spans.back().end) spans.push_back({begin, begin});
    spans.back().end = begin + bytes;
  }
  return spans;
}

}  // namespace

#ifdef POEM_HAS_CUDA
namespace {

at::Tensor to_gpu(const at::Tensor& tensor, at::Device device) {
  return tensor.pin_memory().to(device, /*non_blocking=*/true);
}

void cut_on_gpu(const at::Tensor& pixels, bool resize, const cuda::CutFilters& filters,
                const at::Tensor& places, const at::Tensor& out) {
  const auto channels = static_cast<int>(pixels.size(1)), height = static_cast<int>(pixels.size(2)),
             width = static_cast<int>(pixels.size(3));
  cuda::cut({pixels.data_ptr<uint8_t>(), channels, height, width, resize}, filters,
            to_gpu(places, pixels.device()).data_ptr<int32_t>(), places.size(0),
            static_cast<int>(out.size(2)), out.data_ptr<uint8_t>(), c10::cuda::getCurrentCUDAStream());
}

// Two pairs of buffers, used in turn: while the GPU works on the images of one, the next ones are gathered
// and copied on a stream of their own.
struct Streaming {
  Streaming(const ImageSet& set, at::Device device)
      : images(set), stream(c10::cuda::getStreamFromPool(false, device.index())) {
    constexpr int64_t kBytes = 32 << 20;  // of a buffer
    const auto shape = images.pixels.sizes();
    image_bytes = shape[1] * shape[2] * shape[3];
    room = std::clamp<int64_t>(kBytes / image_bytes, 1, shape[0]);
    for (Buffer& buffer : buffers) {
      const auto options = at::TensorOptions(at::kByte);
      const std::vector<int64_t> some = {room, shape[1], shape[2], shape[3]};
      const auto layout = images.pixels.strides();  // planes of rows or of columns
      buffer.pinned = at::empty_strided(some, layout, options.pinned_memory(true));
      buffer.on_gpu = at::empty_strided(some, layout, options.device(device));
      buffer.used.record(c10::cuda::getCurrentCUDAStream());
    }
  }

  // The images of at most `room` crops, in their order. used() tells when they have been read.
  at::Tensor bring(const Crop* crops, int64_t count) {
    Buffer& buffer = buffers[turn];
    buffer.copied.synchronize();  // its earlier content has been copied
    const auto* from = images.pixels.data_ptr<uint8_t>();
    auto* to = buffer.pinned.data_ptr<uint8_t>();
    at::parallel_for(0, count, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        std::memcpy(to + i * image_bytes, from + images.row(crops[i].image) * image_bytes, image_bytes);
    });
    const at::Tensor there = buffer.on_gpu.narrow(0, 0, count);
    {
      const c10::cuda::CUDAStreamGuard guard(stream);
      buffer.used.block(stream);
      there.copy_(buffer.pinned.narrow(0, 0, count), /*non_blocking=*/true);
      buffer.copied.record(stream);
    }
    buffer.copied.block(c10::cuda::getCurrentCUDAStream());
    return there.contiguous();
  }
  void used() {
    buffers[turn].used.record(c10::cuda::getCurrentCUDAStream());
    turn = 1 - turn;
  }

  struct Buffer {
    at::Tensor pinned, on_gpu;
    at::cuda::CUDAEvent copied, used;
  };
  const ImageSet& images;
  c10::cuda::CUDAStream stream;
  int64_t image_bytes = 0, room = 0;  // room: images per buffer
  Buffer buffers[2];
  int turn = 0;
};

// The filters of an augmentation, with their tables on the GPU.
struct Tables {
  Tables(const ImageSet& images, const Augmentation& a, at::Device device)
      : names(a.filters), size(a.size), resize(a.resize), filters(crop_filters(images, a)) {
    const auto count = static_cast<int64_t>(filters.taps().size());
    taps = at::empty({count, 3}, at::kInt);
    static_assert(sizeof(Filters::Taps) == 3 * sizeof(int32_t));
    std::memcpy(taps.data_ptr<int32_t>(), filters.taps().data(), count * sizeof(Filters::Taps));
    taps = taps.to(device);
    weights = at::tensor(filters.weights(), at::kInt).to(device);
  }
  bool fit(const Augmentation& a) const { return names == a.filters && size == a.size && resize == a.resize; }

  // int32 n×2: what the seeds of the crops draw.
  at::Tensor draw(const ImageSet& images, const Crop* crops, int64_t count) const {
    at::Tensor drawn = at::empty({count, 2}, at::kInt);
    auto* out = drawn.data_ptr<int32_t>();
    at::parallel_for(0, count, 1024, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Filters::Drawn one = filters.draw(crops[i].seed, is_repeated(images, crops[i].image));
        out[2 * i] = one.rows;
        out[2 * i + 1] = one.columns;
      }
    });
    return drawn;
  }
  cuda::CutFilters with(const at::Tensor& drawn) const {
    return {drawn.data_ptr<int32_t>(), taps.data_ptr<int32_t>(), weights.data_ptr<int32_t>(), Filters::kBits};
  }

  std::vector<Filter> names;
  int64_t size;
  bool resize;
  Filters filters;
  at::Tensor taps, weights;
};

}  // namespace

DeviceMemory device_memory(at::Device gpu) {
  const c10::cuda::CUDAGuard guard(gpu);
  size_t free = 0, total = 0;
  const cudaError_t status = cudaMemGetInfo(&free, &total);
  TORCH_CHECK(status == cudaSuccess, "cudaMemGetInfo: ", cudaGetErrorString(status));
  return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
}

// One image set.
class DeviceImages::Set {
 public:
  Set(const ImageSet& images, at::Device device, ImagePlace place);
  at::Tensor cut(const Crop* crops, int64_t count, const Augmentation& augmentation) const;
  const ImageSet* host() const { return resident_.defined() ? nullptr : &images_; }  // null: on the GPU

 private:
  const Tables* tables(const Augmentation& augmentation) const;

  const ImageSet& images_;
  at::Device device_;
  at::Tensor resident_;                     // on the GPU; undefined where there is no room
  std::unique_ptr<Streaming> streaming_;    // null where the pixels are resident, or on the CPU
  mutable std::unique_ptr<Tables> tables_;  // of the last augmentation with filters
};

DeviceImages::Set::Set(const ImageSet& images, at::Device device, ImagePlace place)
    : images_(images), device_(device) {
  if (!device.is_cuda() || !images.pixels.defined() || images.pixels.scalar_type() != at::kByte) return;
  const c10::cuda::CUDAGuard guard(device);
  const auto bytes = static_cast<int64_t>(images.pixels.nbytes()), free = device_memory(device).free;
  if (place == ImagePlace::kAuto && bytes <= free / 2) {
    resident_ = images.pixels.to(device).contiguous();
    return;
  }
  if (place == ImagePlace::kAuto)
    spdlog::info("{} takes {} MiB, the GPU has {} free: its images are streamed", images.name, bytes >> 20,
                 free >> 20);
  if (images.size() > 0) streaming_ = std::make_unique<Streaming>(images, device);
}

// Null if there is nothing to draw: the area mean is the only filter.
const Tables* DeviceImages::Set::tables(const Augmentation& a) const {
  if (a.filters == std::vector<Filter>{Filter::kArea}) return nullptr;
  if (tables_ == nullptr || !tables_->fit(a)) tables_ = std::make_unique<Tables>(images_, a, device_);
  return tables_.get();
}

at::Tensor DeviceImages::Set::cut(const Crop* crops, int64_t count, const Augmentation& a) const {
  if (!device_.is_cuda()) return poem::cut(images_, crops, count, a);
  const c10::cuda::CUDAGuard guard(device_);
  if (!only_moves(a) || (!resident_.defined() && streaming_ == nullptr))
    return poem::cut(images_, crops, count, a).pin_memory().to(device_, /*non_blocking=*/true);
  const at::Tensor places = crop_places(images_, crops, count, a);
  const at::Tensor out =
      at::empty({count, images_.channels(), a.size, a.size}, at::TensorOptions(at::kByte).device(device_));
  if (count == 0) return out;
  const bool resize = shrinks(images_, a);
  const Tables* filters = tables(a);
  const at::Tensor drawn =
      filters != nullptr ? to_gpu(filters->draw(images_, crops, count), device_) : at::Tensor();
  const auto chosen = [&](int64_t first) {
    return filters != nullptr ? filters->with(drawn.narrow(0, first, count - first)) : cuda::CutFilters{};
  };
  if (resident_.defined()) {
    cut_on_gpu(resident_, resize, chosen(0), places, out);
    return out;
  }
  for (int64_t first = 0; first < count; first += streaming_->room) {
    const int64_t some = std::min(streaming_->room, count - first);
    const at::Tensor pixels = streaming_->bring(crops + first, some), part = places.narrow(0, first, some);
    part.select(1, 0).copy_(at::arange(some, at::kInt));  // image i of the buffer is that of crop i
    cut_on_gpu(pixels, resize, chosen(first), part, out.narrow(0, first, some));
    streaming_->used();
  }
  return out;
}

#else

class DeviceImages::Set {
 public:
  Set(const ImageSet& images, at::Device, ImagePlace) : images_(images) {}
  at::Tensor cut(const Crop* crops, int64_t count, const Augmentation& augmentation) const {
    return poem::cut(images_, crops, count, augmentation);
  }
  const ImageSet* host() const { return &images_; }

 private:
  const ImageSet& images_;
};

DeviceMemory device_memory(at::Device) { return {0, 0}; }

#endif

DeviceImages::DeviceImages(const ImageSet& images, at::Device device, ImagePlace place) {
  sets_.push_back(std::make_unique<Set>(images, device, place));
}

DeviceImages::DeviceImages(const Mixture& images, at::Device device, ImagePlace place) : mixture_(&images) {
  for (const MixturePart& part : images.parts())
    sets_.push_back(std::make_unique<Set>(part.images, device, part.lazy ? ImagePlace::kStream : place));
}

at::Tensor DeviceImages::cut(const Crop* crops, int64_t count, const Augmentation& a) const {
  if (mixture_ == nullptr) return sets_[0]->cut(crops, count, a);
  return cut_by_part(*mixture_, crops, count, [&](size_t part, const Crop* own, int64_t size) {
    return sets_[part]->cut(own, size, a);
  });
}

std::vector<std::vector<Span>> DeviceImages::spans(const Crop* crops, int64_t count) const {
  std::vector<std::vector<int64_t>> rows(sets_.size());
  for (int64_t i = 0; i < count; ++i) {
    const Mixture::Place place =
        mixture_ == nullptr ? Mixture::Place{0, crops[i].image} : mixture_->find(crops[i].image);
    if (const ImageSet* images = sets_[place.part]->host())
      rows[place.part].push_back(images->row(place.image));
  }
  std::vector<std::vector<Span>> spans;
  for (size_t part = 0; part < rows.size(); ++part) {
    if (!rows[part].empty()) spans.push_back(spans_of(sets_[part]->host()->pixels, std::move(rows[part])));
  }
  return spans;
}

void DeviceImages::read_ahead(const Crop* crops, int64_t count) const {
  for (const auto& part : spans(crops, count)) poem::read_ahead(part);
}

void DeviceImages::let_go(const Crop* crops, int64_t count) const {
  // Otherwise what is needed next lies between them.
  const bool in_order =
      std::is_sorted(crops, crops + count, [](const Crop& a, const Crop& b) { return a.image < b.image; });
  for (const auto& part : spans(crops, count))
    poem::let_go({part.front().begin, part.back().end}, /*soon=*/!in_order);
}

DeviceImages::~DeviceImages() = default;

}  // namespace poem
