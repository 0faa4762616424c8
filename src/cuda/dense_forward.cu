#include <algorithm>

#include "cuda/launch.cuh"
#include "cuda/tile.cuh"

namespace poem::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kRows = 2 * 16;  // pixels a warp multiplies at a time
constexpr int kDepth = kTaps * kBottleneck;

// Rows of conv1's weights in shared memory: an odd multiple of 64 bytes apart, so that lanes meet no bank
// twice.
__host__ __device__ int weight_stride(int channels) {
  const int chunks = (channels + kChunk - 1) / kChunk;
  return (chunks | 1) * kChunk;
}

// relu(norm1(x)) · conv1ᵀ for 32 pixels a warp: lane 4g + t loads the channels 8t … 8t + 7 of a chunk of its
// rows.
__device__ void multiply_conv1(const Bf16* const (&rows)[4], int channels, const float* scale,
                               const float* shift, const Bf16* weight, float (&sum)[2][6][4]) {
  const int lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
  const int chunks = (channels + kChunk - 1) / kChunk, stride = weight_stride(channels);
  uint4 next[4];
#pragma unroll
  for (int r = 0; r < 4; ++r) next[r] = load_ahead(rows[r] + 8 * t);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    uint4 now[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) now[r] = next[r];
    const int channel = chunk * kChunk + 8 * t;
    if (chunk + 1 < chunks) {
#pragma unroll
      for (int r = 0; r < 4; ++r) next[r] = load_ahead(rows[r] + channel + kChunk);
    }
    float s[8], b[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) s[i] = scale[channel + i], b[i] = shift[channel + i];
    uint32_t a[4][4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      a[r][0] = activate(now[r].x, s[0], b[0], s[1], b[1]);
      a[r][1] = activate(now[r].y, s[2], b[2], s[3], b[3]);
      a[r][2] = activate(now[r].z, s[4], b[4], s[5], b[5]);
      a[r][3] = activate(now[r].w, s[6], b[6], s[7], b[7]);
    }
#pragma unroll
    for (int n = 0; n < 6; ++n) {
      const uint4 w = *reinterpret_cast<const uint4*>(weight + (8 * n + g) * stride + channel);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        multiply_add(sum[m][n], a[2 * m][0], a[2 * m + 1][0], a[2 * m][1], a[2 * m + 1][1], w.x, w.y);
        multiply_add(sum[m][n], a[2 * m][2], a[2 * m + 1][2], a[2 * m][3], a[2 * m + 1][3], w.z, w.w);
      }
    }
  }
}

// The 3×3 convolution of 32 pixels a warp, from a bordered tile. Of each 16 a lane gives ldmatrix one row:
// `at` is the tile's pixel left above it, half of the lanes 8 channels on.
__device__ void multiply_conv2(const Bf16* const (&at)[2], int row_stride, const Bf16* weight,
                               float (&sum)[2][2][4]) {
  const int lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
  for (int tap = 0; tap < kTaps; ++tap) {
    const int offset = tap / 3 * row_stride + tap % 3 * kMiddleStride;
#pragma unroll
    for (int part = 0; part < kBottleneck; part += 16) {
      uint32_t a[2][4];
      uint2 b[2];
#pragma unroll
      for (int m = 0; m < 2; ++m) load_matrices(a[m], at[m] + offset + part);
#pragma unroll
      for (int n = 0; n < 2; ++n)
        b[n] =
            *reinterpret_cast<const uint2*>(weight + (8 * n + g) * kDepth + tap * kBottleneck + part + 4 * t);
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int n = 0; n < 2; ++n)
          multiply_add(sum[m][n], a[m][0], a[m][1], a[m][2], a[m][3], b[n].x, b[n].y);
    }
  }
}

__device__ void load_norm(const Norm& norm, int channels, int padded, float* scale, float* shift) {
  for (int i = threadIdx.x; i < padded; i += blockDim.x) {
    const Affine a = i < channels ? affine(norm, i) : Affine{0, 0};
    scale[i] = a.scale;
    shift[i] = a.shift;
  }
}

// Weights to shared memory, asynchronously.
__device__ void copy_conv1(const Layer& layer, Bf16* to) {
  const int width = up_to(layer.channels, kChunk);
  copy_rows(to, weight_stride(layer.channels), layer.conv1, width, kBottleneck, width);
}
__device__ void copy_conv2(const Layer& layer, Bf16* to) {
  copy_rows(to, kDepth, layer.conv2, kDepth, kPadded, kDepth);
}

// Gives the 12 channels of a lane's four rows to `store(pixel, channel, first, second)`, two at a time.
template <class Store>
__device__ void for_new_channels(const float (&sum)[2][2][4], int pixel, Store store) {
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int n = 0; n < 2; ++n)
      if (8 * n + 2 * t < kGrowth) {
        store(pixel + 16 * m, 8 * n + 2 * t, sum[m][n][0], sum[m][n][1]);
        store(pixel + 16 * m + 8, 8 * n + 2 * t, sum[m][n][2], sum[m][n][3]);
      }
}

// conv2 of a bordered tile whose first pixel is `first`. `store(pixel, channel, first, second)` gets what
// comes out.
template <class Store>
__device__ void convolve_tile(const Tile& tile, const Places& places, const Bf16* inside, const Bf16* weight,
                              int first, int pixels, Store store) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int inner = tile.images * tile.rows * tile.width, row_stride = (tile.width + 2) * kMiddleStride;
  for (int begin = warp * kRows; begin < inner; begin += kWarps * kRows) {
    const Bf16* at[2];
    float sum[2][2][4] = {};
#pragma unroll
    for (int m = 0; m < 2; ++m)
      at[m] = inside + (places[min(begin + 16 * m + lane % 16, inner - 1)] - 1) * kMiddleStride - row_stride +
              lane / 16 * 8;
    multiply_conv2(at, row_stride, weight, sum);
    for_new_channels(sum, begin + lane / 4, [&](int pixel, int channel, float a, float b) {
      if (pixel < inner && first + pixel < pixels) store(first + pixel, channel, a, b);
    });
  }
}

__device__ void store_pair(const Block& block, int pixel, int channel, uint32_t pair) {
  *reinterpret_cast<uint32_t*>(block.x + static_cast<int64_t>(pixel) * block.stride + channel) = pair;
}

struct InferMemory {  // offsets of a thread block's shared memory in bytes
  int conv1, conv2, scale, shift, shift2, places, tile, bytes;
  InferMemory(int channels, const Tile& t) {
    const int padded = up_to(channels, kChunk);
    conv1 = 0;
    conv2 = conv1 + kBottleneck * weight_stride(channels) * 2;
    scale = conv2 + kConv2 * 2;
    shift = scale + padded * 4;
    shift2 = shift + padded * 4;
    places = shift2 + kBottleneck * 4;
    tile = places + Places::bytes(t);
    bytes = tile + t.bordered() * kMiddleStride * 2;
  }
};

__global__ void __launch_bounds__(kThreads, 2)
    infer_kernel(Block block, Layer layer, Tile tile, InferMemory memory, int pixels) {
  extern __shared__ __align__(16) char shared[];
  auto* conv1 = reinterpret_cast<Bf16*>(shared + memory.conv1);
  auto* conv2 = reinterpret_cast<Bf16*>(shared + memory.conv2);
  auto *scale = reinterpret_cast<float*>(shared + memory.scale),
       *shift = reinterpret_cast<float*>(shared + memory.shift),
       *shift2 = reinterpret_cast<float*>(shared + memory.shift2);
  auto* inside = reinterpret_cast<Bf16*>(shared + memory.tile);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, g = lane / 4, t = lane % 4;
  const int inner = tile.images * tile.rows * tile.width;

  copy_conv1(layer, conv1);
  copy_conv2(layer, conv2);
  load_norm(layer.norm1, layer.channels, up_to(layer.channels, kChunk), scale, shift);
  for (int i = threadIdx.x; i < kBottleneck; i += kThreads) shift2[i] = affine(layer.norm2, i).shift;
  const Places places(tile, shared + memory.places);
  clear(inside, tile.images * (tile.rows + 2) * (tile.width + 2) * kMiddleStride * 2);
  wait_for_copies();
  __syncthreads();

  for (int first = blockIdx.x * inner; first < pixels; first += gridDim.x * inner) {
    const Range need = range(tile, first);
    clear_outside<kMiddleStride>(tile, first, inside);
    for (int begin = need.begin + warp * kRows; begin < need.end; begin += kWarps * kRows) {
      const Bf16* rows[4];
      float sum[2][6][4] = {};
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int pixel = min(first + min(begin + 8 * r + g, need.end - 1), pixels - 1);
        rows[r] = block.x + static_cast<int64_t>(pixel) * block.stride;
      }
      multiply_conv1(rows, layer.channels, scale, shift, conv1, sum);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int pixel = begin + 8 * r + g;
        if (pixel >= need.end) continue;
        Bf16* to = inside + places[pixel] * kMiddleStride + 2 * t;
#pragma unroll
        for (int n = 0; n < 6; ++n) {
          const float *s = sum[r / 2][n] + r % 2 * 2, *b = shift2 + 8 * n + 2 * t;
          *reinterpret_cast<uint32_t*>(to + 8 * n) = pack(fmaxf(s[0] + b[0], 0.0f), fmaxf(s[1] + b[1], 0.0f));
        }
      }
    }
    __syncthreads();
    convolve_tile(tile, places, inside, conv2, first, pixels, [&](int pixel, int channel, float a, float b) {
      store_pair(block, pixel, layer.channels + channel, pack(a, b));
    });
    __syncthreads();
  }
}

__global__ void __launch_bounds__(kThreads, 2)
    conv1_kernel(Block block, Layer layer, Bf16* middle, Totals totals, int pixels) {
  extern __shared__ __align__(16) char shared[];
  const int padded = up_to(layer.channels, kChunk), warps = blockDim.x / kWarp;
  auto* conv1 = reinterpret_cast<Bf16*>(shared);
  auto* scale = reinterpret_cast<float*>(conv1 + kBottleneck * weight_stride(layer.channels));
  float* shift = scale + padded;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, g = lane / 4, t = lane % 4;
  copy_conv1(layer, conv1);
  load_norm(layer.norm1, layer.channels, padded, scale, shift);
  wait_for_copies();
  __syncthreads();

  float total[6][2] = {}, squares[6][2] = {};
  for (int begin = (blockIdx.x * warps + warp) * kRows; begin < pixels; begin += gridDim.x * warps * kRows) {
    const Bf16* rows[4];
    float sum[2][6][4] = {};
#pragma unroll
    for (int r = 0; r < 4; ++r)
      rows[r] = block.x + static_cast<int64_t>(min(begin + 8 * r + g, pixels - 1)) * block.stride;
    multiply_conv1(rows, layer.channels, scale, shift, conv1, sum);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int pixel = begin + 8 * r + g;
      if (pixel >= pixels) continue;
      Bf16* to = middle + static_cast<int64_t>(pixel) * kBottleneck + 2 * t;
#pragma unroll
      for (int n = 0; n < 6; ++n) {
        const uint32_t pair = pack(sum[r / 2][n][r % 2 * 2], sum[r / 2][n][r % 2 * 2 + 1]);
        *reinterpret_cast<uint32_t*>(to + 8 * n) = pair;
        total[n][0] += low(pair), total[n][1] += high(pair);
        squares[n][0] += low(pair) * low(pair), squares[n][1] += high(pair) * high(pair);
      }
    }
  }
  add_sums<0>(total, squares, kBottleneck, reinterpret_cast<float*>(shared), totals);
}

__global__ void __launch_bounds__(kThreads, 2)
    conv2_kernel(Block block, Layer layer, const Bf16* middle, Totals totals, Tile tile, int pixels) {
  extern __shared__ __align__(16) char shared[];
  auto* conv2 = reinterpret_cast<Bf16*>(shared);
  auto* scale = reinterpret_cast<float*>(conv2 + kConv2);
  float* shift = scale + kBottleneck;
  auto* inside = reinterpret_cast<Bf16*>(shift + kBottleneck);
  const int inner = tile.images * tile.rows * tile.width;
  const int bytes = tile.images * (tile.rows + 2) * (tile.width + 2) * kMiddleStride * 2;
  const Places places(tile, shared + kConv2 * 2 + 2 * kBottleneck * 4 + bytes);
  clear(inside, bytes);
  copy_conv2(layer, conv2);
  load_norm(layer.norm2, kBottleneck, kBottleneck, scale, shift);

  float total[2][2] = {}, squares[2][2] = {};
  for (int first = blockIdx.x * inner; first < pixels; first += gridDim.x * inner) {
    __syncthreads();
    copy_middle(tile, places, middle, first, pixels, inside);
    activate_middle(tile, places, first, pixels, scale, shift, inside);
    __syncthreads();
    convolve_tile(tile, places, inside, conv2, first, pixels, [&](int pixel, int channel, float a, float b) {
      const uint32_t pair = pack(a, b);
      store_pair(block, pixel, layer.channels + channel, pair);
      const int n = channel / 8;
      total[n][0] += low(pair), total[n][1] += high(pair);
      squares[n][0] += low(pair) * low(pair), squares[n][1] += high(pair) * high(pair);
    });
  }
  add_sums<0>(total, squares, kGrowth, reinterpret_cast<float*>(shared), totals);
}

}  // namespace

void infer_layer(const Block& block, const Layer& layer, cudaStream_t stream) {
  constexpr int kKeep = 32 * 1024;  // warps read parts of cache lines, and their other parts soon after
  const Tile tile = choose_tile(
      block, [&](const Tile& t) { return InferMemory(layer.channels, t).bytes; }, kKeep);
  const InferMemory memory(layer.channels, tile);
  allow_shared(infer_kernel, memory.bytes);
  const int grid = std::min(tile.tiles(block.pixels()), 2 * multiprocessors());
  infer_kernel<<<grid, kThreads, memory.bytes, stream>>>(block, layer, tile, memory, block.pixels());
  check_launch("infer_layer");
}

void forward_conv1(const Block& block, const Layer& layer, Bf16* middle, Sums sums, cudaStream_t stream) {
  const int bytes =
      kBottleneck * weight_stride(layer.channels) * 2 + 2 * std::max(up_to(layer.channels, kChunk), 48) * 4;
  allow_shared(conv1_kernel, bytes);
  // Few pixels: small thread blocks, so that every multiprocessor gets one.
  const int pixels = block.pixels(), warps = std::clamp(pixels / kRows / multiprocessors(), 2, kWarps);
  const int grid = std::min((pixels + warps * kRows - 1) / (warps * kRows), 2 * multiprocessors());
  const Totals totals{block.rows, {{sums.first, kBottleneck}, {sums.second, kBottleneck}, {}}};
  conv1_kernel<<<grid, warps * kWarp, bytes, stream>>>(block, layer, middle, totals, pixels);
  check_launch("forward_conv1");
  add_rows_up(totals, grid, stream);
}

void forward_conv2(const Block& block, const Layer& layer, const Bf16* middle, Sums sums,
                   cudaStream_t stream) {
  const auto bytes = [&](const Tile& t) {
    return kConv2 * 2 + 2 * kBottleneck * 4 + t.bordered() * kMiddleStride * 2 + Places::bytes(t);
  };
  const Tile tile = choose_tile(block, bytes);
  allow_shared(conv2_kernel, bytes(tile));
  const int pixels = block.pixels(), grid = std::min(tile.tiles(pixels), 2 * multiprocessors());
  const Totals totals{block.rows, {{sums.first, kGrowth}, {sums.second, kGrowth}, {}}};
  conv2_kernel<<<grid, kThreads, bytes(tile), stream>>>(block, layer, middle, totals, tile, pixels);
  check_launch("forward_conv2");
  add_rows_up(totals, grid, stream);
}

}  // namespace poem::cuda
