// Writes images as SVHN has them: a .mat file with X and y.
//
//   Mat{path}.write(images, labels);   // uint8 n×3×32×32; labels 1 … 10
#pragma once
#ifdef POEM_HAS_MATIO
#include <ATen/ATen.h>
#include <matio.h>

#include <string>

namespace poem {

struct Mat {
  std::string path;
  matio_compression compression = MAT_COMPRESSION_ZLIB;

  void write(const at::Tensor& images, const at::Tensor& y) const {
    mat_t* file = Mat_CreateVer(path.c_str(), nullptr, MAT_FT_MAT5);
    // Column-major X(h, w, c, n): the bytes of n×c×w×h.
    const at::Tensor bytes = images.transpose(2, 3).contiguous();
    size_t x_dims[4] = {static_cast<size_t>(images.size(2)), static_cast<size_t>(images.size(3)),
                        static_cast<size_t>(images.size(1)), static_cast<size_t>(images.size(0))};
    put(file, Mat_VarCreate("X", MAT_C_UINT8, MAT_T_UINT8, 4, x_dims, bytes.data_ptr(), 0));
    size_t y_dims[2] = {static_cast<size_t>(y.size(0)), 1};
    const bool real = y.scalar_type() == at::kDouble;
    put(file, Mat_VarCreate("y", real ? MAT_C_DOUBLE : MAT_C_UINT8, real ? MAT_T_DOUBLE : MAT_T_UINT8, 2,
                            y_dims, y.data_ptr(), 0));
    Mat_Close(file);
  }
  void put(mat_t* file, matvar_t* variable) const {
    Mat_VarWrite(file, variable, compression);
    Mat_VarFree(variable);
  }
};

}  // namespace poem
#endif
