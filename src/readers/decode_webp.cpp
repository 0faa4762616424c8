// WebP, lossy and lossless, by libwebp.
#include <ATen/ATen.h>

#include <memory>
#include <string_view>

#include "readers/decode_formats.h"
#include "readers/exif.h"

#ifdef POEM_HAS_WEBP
#include <webp/decode.h>
#include <webp/demux.h>
#endif

namespace poem {

#ifdef POEM_HAS_WEBP

namespace {

using Demuxer = std::unique_ptr<WebPDemuxer, void (*)(WebPDemuxer*)>;

int orientation_of(const WebPDemuxer* file) {
  WebPChunkIterator chunk;
  if (WebPDemuxGetChunk(file, "EXIF", 1, &chunk) == 0) return 1;
  const int orientation =
      exif_orientation({reinterpret_cast<const char*>(chunk.chunk.bytes), chunk.chunk.size});
  WebPDemuxReleaseChunkIterator(&chunk);
  return orientation;
}

}  // namespace

DecodedImage decode_webp(const std::string& bytes) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(data, bytes.size(), &features) != VP8_STATUS_OK) throw Damage("its header is damaged");
  if (features.has_animation != 0) throw Damage("it is an animation");
  check_dimensions(static_cast<uint64_t>(features.width), static_cast<uint64_t>(features.height));
  const WebPData whole{data, bytes.size()};
  const Demuxer file(WebPDemux(&whole), WebPDemuxDelete);
  if (file == nullptr) throw Damage("it ends early or is damaged");
  const at::Tensor rows = at::empty({features.height, features.width, 3}, at::kByte);
  if (WebPDecodeRGBInto(data, bytes.size(), rows.data_ptr<uint8_t>(), rows.nbytes(), features.width * 3) ==
      nullptr)
    throw Damage("it ends early or is damaged");
  return {rows, orientation_of(file.get())};
}

#else

DecodedImage decode_webp(const std::string&) {
  throw Damage("it is WebP, and poem was built without libwebp (libwebp-dev)");
}

#endif

}  // namespace poem
