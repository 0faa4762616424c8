// JPEG, by libjpeg.
#include <ATen/ATen.h>
#include <setjmp.h>
#include <stdio.h>  // jpeglib.h needs FILE and size_t

#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "readers/decode_formats.h"
#include "readers/exif.h"

namespace poem {
namespace {

constexpr int kExifMarker = JPEG_APP0 + 1;
constexpr int kMostScans = 100;  // of a progressive file; others have about 10

// libjpeg reports errors through longjmp, which skips destructors. So the functions between setjmp and the
// library own nothing that needs one: state and buffers belong to the callers.

struct JpegState {
  jpeg_decompress_struct decoder{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
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

// Each scan passes over all coefficients, and a scan of a huge image may take a few bytes.
void count_scans(j_common_ptr decoder) {
  if (reinterpret_cast<j_decompress_ptr>(decoder)->input_scan_number <= kMostScans) return;
  auto* state = static_cast<JpegState*>(decoder->client_data);
  std::snprintf(state->message, sizeof state->message, "it has more than %d scans", kMostScans);
  longjmp(state->leave, 1);
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
  state->progress.progress_monitor = count_scans;
  state->decoder.progress = &state->progress;
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

// What the rows take while they are made and turned upright. If a file has several scans, libjpeg keeps all
// coefficients, and shrinks only in the end.
uint64_t memory_of(jpeg_decompress_struct& decoder) {
  uint64_t bytes = uint64_t{2} * decoder.out_color_components * decoder.output_width * decoder.output_height;
  if (!jpeg_has_multiple_scans(&decoder)) return bytes;
  for (int i = 0; i < decoder.num_components; ++i) {
    const jpeg_component_info& component = decoder.comp_info[i];
    bytes += sizeof(JBLOCK) * uint64_t{component.width_in_blocks} * component.height_in_blocks;
  }
  return bytes;
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
  jpeg_decompress_struct& decoder = state.decoder;
  check_dimensions(decoder.image_width, decoder.image_height, memory_of(decoder));
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
