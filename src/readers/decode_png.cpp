// PNG, by libpng, which reports errors through longjmp like libjpeg: decode_jpeg.cpp explains the
// consequences.
#include <ATen/ATen.h>
#include <png.h>
#include <setjmp.h>

#include <cstring>
#include <vector>

#include "readers/decode_formats.h"
#include "readers/exif.h"

namespace poem {
namespace {

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
  png_read_end(state->png, state->info);  // checks the last checksum; EXIF may stand behind the pixels
  return true;
}

int orientation_of(const PngState& state) {
#ifdef PNG_eXIf_SUPPORTED
  png_uint_32 size = 0;
  png_bytep block = nullptr;
  if (png_get_eXIf_1(state.png, state.info, &size, &block) != 0)
    return exif_orientation({reinterpret_cast<const char*>(block), size});
#endif
  return 1;
}

}  // namespace

DecodedImage decode_png(const std::string& bytes) {
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
  return {pixels, orientation_of(state)};
}

}  // namespace poem
