// JPEG, by libjpeg.
#include <ATen/ATen.h>
#include <setjmp.h>
#include <stdio.h>  // jpeglib.h needs FILE and size_t

#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <string_view>

#include "readers/decode_formats.h"
#include "readers/exif.h"

namespace poem {
namespace {

constexpr int kExifMarker = JPEG_APP0 + 1;

// libjpeg reports errors through longjmp, which skips destructors. So the functions between setjmp and the
// library own nothing that needs one: state and buffers belong to the callers.

struct JpegState {
  jpeg_decompress_struct decoder{};
  jpeg_error_mgr errors{};
  jmp_buf leave;
  char message[JMSG_LENGTH_MAX] = "";
  ~JpegState() { jpeg_destroy_decompress(&decoder); }
};

[[noreturn]] void leave_jpeg(j_common_ptr decoder) {
  auto* state = static_cast<JpegState*>(decoder->client_data);
  decoder->err->format_message(decoder, state->message);
  longjmp(state->leave, 1);
}

// After a warning libjpeg continues and fills missing pixels with grey. So warnings count as errors, except
// those that leave the pixels intact.
void judge_jpeg_message(j_common_ptr decoder, int level) {
  if (level >= 0) return;  // a trace message
  switch (decoder->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
    case JWRN_TOO_MUCH_DATA:
      return;
    default:
      leave_jpeg(decoder);
  }
}

// Halves the image, up to three times, as long as its shorter side stays at least `size`. libjpeg then
// computes means of 2×2, 4×4 or 8×8 pixels from fewer frequencies, in less time.
void choose_scale(jpeg_decompress_struct* decoder, int64_t size) {
  const int64_t shorter = std::min(decoder->image_width, decoder->image_height);
  while (size > 0 && decoder->scale_denom < 8 && shorter >= 2 * decoder->scale_denom * size)
    decoder->scale_denom *= 2;
}

bool start_jpeg(JpegState* state, const std::string& bytes, int64_t size) {
  if (setjmp(state->leave)) return false;
  jpeg_create_decompress(&state->decoder);
  jpeg_mem_src(&state->decoder, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_save_markers(&state->decoder, kExifMarker, 0xffff);
  jpeg_read_header(&state->decoder, TRUE);
  const bool four = state->decoder.num_components == 4;
  state->decoder.out_color_space = four ? JCS_CMYK : JCS_RGB;
  choose_scale(&state->decoder, size);
  jpeg_calc_output_dimensions(&state->decoder);
  return true;
}

bool read_jpeg_rows(JpegState* state, uint8_t* pixels) {
  if (setjmp(state->leave)) return false;
  jpeg_start_decompress(&state->decoder);
  const size_t stride = size_t{state->decoder.output_width} * state->decoder.output_components;
  while (state->decoder.output_scanline < state->decoder.output_height) {
    JSAMPROW row = pixels + state->decoder.output_scanline * stride;
    jpeg_read_scanlines(&state->decoder, &row, 1);
  }
  jpeg_finish_decompress(&state->decoder);
  return true;
}

// H×W×4 → H×W×3. Adobe's programs store the inks inverted and say so with their marker.
at::Tensor cmyk_to_rgb(const at::Tensor& inks, bool inverted) {
  at::Tensor light = inks.to(at::kFloat);
  if (!inverted) light = 255 - light;
  return (light.narrow(2, 0, 3) * light.narrow(2, 3, 1) / 255).round_().to(at::kByte);
}

// XMP uses the same marker.
int orientation_of(const jpeg_decompress_struct& decoder) {
  for (auto marker = decoder.marker_list; marker != nullptr; marker = marker->next) {
    const std::string_view block(reinterpret_cast<const char*>(marker->data), marker->data_length);
    if (marker->marker == kExifMarker && block.substr(0, 4) == "Exif") return exif_orientation(block);
  }
  return 1;
}

}  // namespace

DecodedImage decode_jpeg(const std::string& bytes, int64_t size) {
  JpegState state;
  state.decoder.err = jpeg_std_error(&state.errors);
  state.decoder.client_data = &state;
  state.errors.error_exit = leave_jpeg;
  state.errors.emit_message = judge_jpeg_message;
  if (!start_jpeg(&state, bytes, size)) throw Damage(state.message);
  const jpeg_decompress_struct& decoder = state.decoder;
  check_dimensions(decoder.output_width, decoder.output_height);
  const int orientation = orientation_of(decoder);  // the markers go when the last row is read
  at::Tensor pixels =
      at::empty({decoder.output_height, decoder.output_width, decoder.out_color_components}, at::kByte);
  if (!read_jpeg_rows(&state, pixels.data_ptr<uint8_t>())) throw Damage(state.message);
  // After shrinking, the last row and column may stand for fewer pixels than the others, and would stretch
  // the picture.
  pixels = pixels.narrow(0, 0, decoder.image_height / decoder.scale_denom)
               .narrow(1, 0, decoder.image_width / decoder.scale_denom);
  return {pixels.size(2) == 4 ? cmyk_to_rgb(pixels, decoder.saw_Adobe_marker) : pixels, orientation};
}

}  // namespace poem
