// Writes what the readers read: JPEG files in memory (PNG: images/encode.h), and random images to put into
// them.
#pragma once
#include <ATen/ATen.h>
#include <stdio.h>  // jpeglib.h needs FILE

#include <jpeglib.h>

#include <string>

#include "images/encode.h"
#include "poem/random.h"

namespace poem {

// uint8 of the given shape, different for every seed.
inline at::Tensor random_bytes(at::IntArrayRef shape, uint64_t seed) {
  const at::Tensor bytes = at::empty(shape, at::kByte);
  Stream stream(seed, "test images");
  for (int64_t i = 0; i < bytes.numel(); ++i)
    bytes.data_ptr<uint8_t>()[i] = static_cast<uint8_t>(stream.below(256));
  return bytes;
}

// Almost without loss, or as cameras do: quality 90, colours at half the resolution.
enum JpegKind { kFine, kCamera };

// `rows` is H×W×C with 1 (grey), 3 (RGB) or 4 (CMYK) channels.
inline std::string encode_jpeg(const at::Tensor& rows, bool adobe = false, JpegKind kind = kFine) {
  jpeg_compress_struct encoder{};
  jpeg_error_mgr errors{};
  encoder.err = jpeg_std_error(&errors);
  jpeg_create_compress(&encoder);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&encoder, &memory, &size);
  encoder.image_width = static_cast<JDIMENSION>(rows.size(1));
  encoder.image_height = static_cast<JDIMENSION>(rows.size(0));
  encoder.input_components = static_cast<int>(rows.size(2));
  encoder.in_color_space = rows.size(2) == 1 ? JCS_GRAYSCALE : rows.size(2) == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&encoder);
  encoder.write_Adobe_marker = adobe;
  jpeg_set_quality(&encoder, kind == kFine ? 100 : 90, TRUE);
  for (int i = 0; kind == kFine && i < encoder.num_components;
       ++i)  // no chroma subsampling: colours stay sharp
    encoder.comp_info[i].h_samp_factor = encoder.comp_info[i].v_samp_factor = 1;
  jpeg_start_compress(&encoder, TRUE);
  const at::Tensor plain = rows.contiguous();
  while (encoder.next_scanline < encoder.image_height) {
    JSAMPROW row = plain.data_ptr<uint8_t>() + encoder.next_scanline * plain.size(1) * plain.size(2);
    jpeg_write_scanlines(&encoder, &row, 1);
  }
  jpeg_finish_compress(&encoder);
  std::string bytes(reinterpret_cast<char*>(memory), size);
  jpeg_destroy_compress(&encoder);
  free(memory);
  return bytes;
}

inline at::Tensor rows_of(const at::Tensor& planes) { return planes.permute({1, 2, 0}).contiguous(); }

}  // namespace poem
