#include "data/decode.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <setjmp.h>
#include <stdio.h>  // jpeglib.h needs FILE and size_t

#include <jerror.h>
#include <jpeglib.h>
#include <png.h>

#include <cstring>
#include <stdexcept>
#include <vector>

#include "core/error.h"
#include "data/reader.h"

namespace poem {
namespace {

// A damaged header can claim any size; nothing an image set holds comes near this.
constexpr uint64_t kMostPixels = uint64_t{1} << 28;

// What makes bytes no image.
struct Damage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Both libraries report errors by leaving through longjmp, so the functions between setjmp and the library's
// return hold nothing that needs a destructor: state and buffers belong to the callers.

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

// libjpeg goes on after warnings and fills what is missing with grey, so they count as errors, apart from
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

bool start_jpeg(JpegState* state, const std::string& bytes) {
  if (setjmp(state->leave)) return false;
  jpeg_create_decompress(&state->decoder);
  jpeg_mem_src(&state->decoder, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&state->decoder, TRUE);
  const bool four = state->decoder.num_components == 4;
  state->decoder.out_color_space = four ? JCS_CMYK : JCS_RGB;
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

void check_dimensions(uint64_t width, uint64_t height) {
  if (width * height > kMostPixels) throw Damage(fmt::format("it claims {}×{} pixels", height, width));
}

at::Tensor decode_jpeg(const std::string& bytes) {
  JpegState state;
  state.decoder.err = jpeg_std_error(&state.errors);
  state.decoder.client_data = &state;
  state.errors.error_exit = leave_jpeg;
  state.errors.emit_message = judge_jpeg_message;
  if (!start_jpeg(&state, bytes)) throw Damage(state.message);
  const jpeg_decompress_struct& decoder = state.decoder;
  check_dimensions(decoder.output_width, decoder.output_height);
  const at::Tensor pixels =
      at::empty({decoder.output_height, decoder.output_width, decoder.out_color_components}, at::kByte);
  if (!read_jpeg_rows(&state, pixels.data_ptr<uint8_t>())) throw Damage(state.message);
  return pixels.size(2) == 4 ? cmyk_to_rgb(pixels, decoder.saw_Adobe_marker) : pixels;
}

struct PngState {
  png_structp png = nullptr;
  png_infop info = nullptr;
  const std::string* bytes;
  size_t position = 0;
  std::string message;
  explicit PngState(const std::string& source) : bytes(&source) {}
  ~PngState() { png_destroy_read_struct(&png, &info, nullptr); }
};

void read_png_bytes(png_structp png, png_bytep to, size_t count) {
  auto* state = static_cast<PngState*>(png_get_io_ptr(png));
  if (state->bytes->size() - state->position < count) png_error(png, "premature end of PNG file");
  std::memcpy(to, state->bytes->data() + state->position, count);
  state->position += count;
}

[[noreturn]] void leave_png(png_structp png, png_const_charp message) {
  static_cast<PngState*>(png_get_error_ptr(png))->message = message;
  png_longjmp(png, 1);
}

void ignore_png_warning(png_structp, png_const_charp) {}  // about ancillary chunks: never about pixels

bool start_png(PngState* state) {
  if (setjmp(png_jmpbuf(state->png))) return false;
  png_set_read_fn(state->png, state, read_png_bytes);
  png_read_info(state->png, state->info);
  png_set_expand(state->png);
  png_set_scale_16(state->png);
  png_set_gray_to_rgb(state->png);
  png_set_strip_alpha(state->png);
  png_set_interlace_handling(state->png);
  png_read_update_info(state->png, state->info);
  return true;
}

bool read_png_rows(PngState* state, png_bytepp rows) {
  if (setjmp(png_jmpbuf(state->png))) return false;
  png_read_image(state->png, rows);
  png_read_end(state->png, nullptr);  // checks the last checksum
  return true;
}

at::Tensor decode_png(const std::string& bytes) {
  PngState state(bytes);
  state.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &state, leave_png, ignore_png_warning);
  if (state.png != nullptr) state.info = png_create_info_struct(state.png);
  if (state.info == nullptr) throw Damage("libpng cannot start");
  if (!start_png(&state)) throw Damage(state.message);
  const int64_t width = png_get_image_width(state.png, state.info),
                height = png_get_image_height(state.png, state.info);
  check_dimensions(width, height);
  const at::Tensor pixels = at::empty({height, width, 3}, at::kByte);
  std::vector<png_bytep> rows;
  for (int64_t y = 0; y < height; ++y) rows.push_back(pixels.data_ptr<uint8_t>() + y * width * 3);
  if (!read_png_rows(&state, rows.data())) throw Damage(state.message);
  return pixels;
}

at::Tensor decode(const std::string& bytes) {  // H×W×3
  if (bytes.compare(0, 2, "\xff\xd8") == 0) return decode_jpeg(bytes);
  if (bytes.compare(0, 4, "\x89PNG") == 0) return decode_png(bytes);
  throw Damage(bytes.empty() ? "it is empty" : "it is neither JPEG nor PNG");
}

}  // namespace

at::Tensor decode_image(const std::string& where, const std::string& bytes, const std::string& remedy) {
  try {
    return decode(bytes).permute({2, 0, 1}).contiguous();
  } catch (const Damage& damage) {
    throw Error(where, std::string("cannot be decoded: ") + damage.what(), remedy);
  }
}

bool is_image_name(const std::string& path) {
  return has_extension(path, ".jpg") || has_extension(path, ".jpeg") || has_extension(path, ".png");
}

}  // namespace poem
