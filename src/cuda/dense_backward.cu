#include <algorithm>

#include "cuda/launch.cuh"
#include "cuda/tile.cuh"

namespace poem::cuda {
namespace {

constexpr int kThreads2 = kTaps * kWarp;  // a warp a tap of the 3×3 convolution

struct Memory2 {  // offsets of backward_conv2's shared memory in bytes
  int middle, gradient, weight, places, constants, bytes;
  explicit Memory2(const Tile& t) {
    middle = 0;
    gradient = middle + t.bordered() * kMiddleStride * 2;
    weight = gradient + t.bordered() * kOutStride * 2;
    places = weight + kConv2 * 2;
    constants = places + Places::bytes(t);
    bytes = constants + (4 * kBottleneck + 2 * kGrowth) * 4;
  }
};

// The gradient of the layer's own 12 channels, for a tile and its border.
__device__ void load_gradient(const Tile& tile, const Places& places, const Block& block, int channels,
                              const Bf16* gradient, int first, int pixels, const float* a, const float* b,
                              Bf16* to) {
  const Range r = range(tile, first);
  clear_outside<kOutStride>(tile, first, to);
  constexpr int kPairs = kGrowth / 2, kBatch = 2;
  const int count = (r.end - r.begin) * kPairs;
  for (int begin = threadIdx.x; begin < count; begin += kBatch * blockDim.x) {
    uint32_t x[kBatch], g[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const int i = begin + k * blockDim.x, pixel = first + r.begin + i / kPairs;
      if (i >= count || pixel >= pixels) continue;
      const int64_t at = static_cast<int64_t>(pixel) * block.stride + channels + i % kPairs * 2;
      x[k] = *reinterpret_cast<const uint32_t*>(block.x + at);
      g[k] = *reinterpret_cast<const uint32_t*>(gradient + at);
    }
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const int i = begin + k * blockDim.x, pixel = r.begin + i / kPairs, channel = i % kPairs * 2;
      if (i >= count) break;
      uint32_t out = 0;
      if (first + pixel < pixels)
        out = pack(low(g[k]) + low(x[k]) * a[channel] + b[channel],
                   high(g[k]) + high(x[k]) * a[channel + 1] + b[channel + 1]);
      *reinterpret_cast<uint32_t*>(to + places[pixel] * kOutStride + channel) = out;
    }
  }
}

// conv2: the gradient of its input through norm2's ReLU, with what norm2 needs summed; and of its weights.
__global__ void __launch_bounds__(kThreads2, 2)
    backward2_kernel(Block block, Layer layer, const Bf16* middle, const Bf16* gradient, Norm written,
                     Later later, Bf16* middle_gradient, Totals totals, Tile tile, Memory2 memory,
                     int pixels) {
  extern __shared__ __align__(16) char shared[];
  auto* active = reinterpret_cast<Bf16*>(shared + memory.middle);
  auto* dout = reinterpret_cast<Bf16*>(shared + memory.gradient);
  auto* weight = reinterpret_cast<Bf16*>(shared + memory.weight);  // 48 × (tap, 16)
  auto *scale = reinterpret_cast<float*>(shared + memory.constants), *shift = scale + kBottleneck,
       *mean = shift + kBottleneck, *inverse = mean + kBottleneck, *a = inverse + kBottleneck,
       *b = a + kGrowth;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, g = lane / 4, t = lane % 4;
  const int inner = tile.images * tile.rows * tile.width, width = tile.width + 2;
  const int bordered = tile.images * (tile.rows + 2) * width;

  int first = blockIdx.x * inner;
  const Places places(tile, shared + memory.places);
  clear(active, bordered * kMiddleStride * 2);
  clear(dout, bordered * kOutStride * 2);
  __syncthreads();
  copy_middle(tile, places, middle, first, pixels, active);
  constexpr int kWidth = kTaps * kPadded;
  copy_rows(weight, kWidth, layer.conv2_back, kWidth, kBottleneck, kWidth);
  for (int i = threadIdx.x; i < kBottleneck; i += blockDim.x) {
    const Moments m = moments(layer.norm2, i);
    mean[i] = m.mean;
    inverse[i] = m.inverse;
    scale[i] = layer.norm2.weight[i] * m.inverse;
    shift[i] = layer.norm2.bias[i] - m.mean * scale[i];
  }
  for (int i = threadIdx.x; i < kGrowth; i += blockDim.x) {
    const Correction c = correction(written, later, i);
    a[i] = c.a;
    b[i] = c.b;
  }
  __syncthreads();

  float bias_sum[6][2] = {}, weight_sum[6][2] = {}, weights[6][4] = {};
  const int tap_offset =
      warp / 3 * width + warp % 3 - width - 1;  // this warp's tap, from a pixel's own place
  while (first < pixels) {
    load_gradient(tile, places, block, layer.channels, gradient, first, pixels, a, b, dout);
    activate_middle(tile, places, first, pixels, scale, shift, active);
    __syncthreads();

    // d active = Σ over taps of dout at the pixel that the tap came from.
    for (int begin = warp * 16; begin < inner; begin += kTaps * 16) {
      float sum[6][4] = {};
      const Bf16* at = dout + places[min(begin + lane % 16, inner - 1)] * kOutStride + lane / 16 * 8;
      for (int tap = 0; tap < kTaps; ++tap) {
        uint32_t d[4];
        load_matrices(d, at + ((1 - tap / 3) * width + 1 - tap % 3) * kOutStride);
#pragma unroll
        for (int n = 0; n < 6; ++n) {
          const uint2 w =
              *reinterpret_cast<const uint2*>(weight + ((8 * n + g) * kTaps + tap) * kPadded + 4 * t);
          multiply_add(sum[n], d[0], d[1], d[2], d[3], w.x, w.y);
        }
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int pixel = begin + 8 * r + g;
        if (pixel >= inner || first + pixel >= pixels) continue;
        const int64_t row = static_cast<int64_t>(first + pixel) * kBottleneck + 2 * t;
#pragma unroll
        for (int n = 0; n < 6; ++n) {
          const int channel = 8 * n + 2 * t;
          const uint32_t y = *reinterpret_cast<const uint32_t*>(middle + row + 8 * n);
          const bool on0 = low(y) * scale[channel] + shift[channel] > 0,
                     on1 = high(y) * scale[channel + 1] + shift[channel + 1] > 0;
          const uint32_t d = pack(on0 ? sum[n][2 * r] : 0.0f, on1 ? sum[n][2 * r + 1] : 0.0f);
          *reinterpret_cast<uint32_t*>(middle_gradient + row + 8 * n) = d;
          bias_sum[n][0] += low(d);
          bias_sum[n][1] += high(d);
          weight_sum[n][0] += low(d) * (low(y) - mean[channel]) * inverse[channel];
          weight_sum[n][1] += high(d) * (high(y) - mean[channel + 1]) * inverse[channel + 1];
        }
      }
    }

    // d weights of this warp's tap: doutᵀ (12 × pixels) · active at the tap (pixels × 48). Rows of dout past
    // the last pixel are taken from the border, which is zero.
    const int matrix = lane / 8, row = lane % 8;
    for (int begin = 0; begin < inner; begin += 16) {
      const int pixel_a = begin + matrix / 2 * 8 + row, pixel_b = begin + matrix % 2 * 8 + row;
      uint32_t d[4];
      load_transposed(d, dout + (pixel_a < inner ? places[pixel_a] : 0) * kOutStride + matrix % 2 * 8);
      const Bf16* from =
          active + (places[min(pixel_b, inner - 1)] + tap_offset) * kMiddleStride + matrix / 2 * 8;
#pragma unroll
      for (int n = 0; n < 3; ++n) {
        uint32_t x[4];
        load_transposed(x, from + 16 * n);
        multiply_add(weights[2 * n], d[0], d[1], d[2], d[3], x[0], x[1]);
        multiply_add(weights[2 * n + 1], d[0], d[1], d[2], d[3], x[2], x[3]);
      }
    }
    __syncthreads();
    first += gridDim.x * inner;
    if (first < pixels) copy_middle(tile, places, middle, first, pixels, active);
  }

  // conv2's weights in shared memory have done their work.
  add_sums<1>(bias_sum, weight_sum, kBottleneck, reinterpret_cast<float*>(weight), totals);
#pragma unroll
  for (int n = 0; n < 6; ++n) {
    const int channel = 8 * n + 2 * t;
    totals.add_pair<0>((g * kTaps + warp) * kBottleneck + channel, weights[n][0], weights[n][1]);
    if (g + 8 < kGrowth)
      totals.add_pair<0>(((g + 8) * kTaps + warp) * kBottleneck + channel, weights[n][2], weights[n][3]);
  }
}

constexpr int kPixels1 = 64;  // of a tile

__host__ __device__ inline int row_stride1(int channels) { return (channels + 15) / 16 * 16 + 8; }

struct Memory1 {  // offsets of backward_conv1's shared memory in bytes
  int x, gradient, weight, dy, constants, bytes;
  explicit Memory1(int channels) {
    const int stride = row_stride1(channels);
    x = 0;
    gradient = x + kPixels1 * stride * 2;
    weight = gradient + kPixels1 * stride * 2;
    dy = weight + kBottleneck * stride * 2;
    constants = dy + kPixels1 * kMiddleStride * 2;
    bytes = constants + (4 * stride + 3 * kBottleneck) * 4;
  }
};

// d of norm2's input: BatchNorm's backward pass, d = g · a + y · b + c channel by channel.
__device__ void load_middle_gradient(const Bf16* middle, const Bf16* middle_gradient, int first, int pixels,
                                     const float* a, Bf16* to) {
  const float *b = a + kBottleneck, *c = b + kBottleneck;
  constexpr int kChannels = kBottleneck / 4, kParts = kChannels / 4;  // four threads a pixel
  if (threadIdx.x >= 4 * kPixels1) return;
  const int pixel = threadIdx.x / 4, start = threadIdx.x % 4 * kChannels;
  const bool inside = first + pixel < pixels;
  const int64_t at = static_cast<int64_t>(first + pixel) * kBottleneck + start;
  uint2 y[kParts], d[kParts];
#pragma unroll
  for (int i = 0; i < kParts; ++i) {
    if (!inside) continue;
    y[i] = *reinterpret_cast<const uint2*>(middle + at + 4 * i);
    d[i] = *reinterpret_cast<const uint2*>(middle_gradient + at + 4 * i);
  }
#pragma unroll
  for (int i = 0; i < kParts; ++i) {
    const int k = start + 4 * i;
    uint2 out = {0, 0};
    if (inside) {
      out.x = pack(low(d[i].x) * a[k] + low(y[i].x) * b[k] + c[k],
                   high(d[i].x) * a[k + 1] + high(y[i].x) * b[k + 1] + c[k + 1]);
      out.y = pack(low(d[i].y) * a[k + 2] + low(y[i].y) * b[k + 2] + c[k + 2],
                   high(d[i].y) * a[k + 3] + high(y[i].y) * b[k + 3] + c[k + 3]);
    }
    *reinterpret_cast<uint2*>(to + pixel * kMiddleStride + k) = out;
  }
}

// conv1: the gradient of its weights, and of its input through norm1's ReLU, added to the buffer with what
// norm1 needs summed. A warp owns every kWarps-th group of 8 channels, kGroups of them at most.
template <int kWarps, int kGroups>
__global__ void __launch_bounds__(kWarps* kWarp, 16 / kWarps)
    backward1_kernel(Block block, Layer layer, const Bf16* middle, const Bf16* middle_gradient,
                     NormGradient norm2, Bf16* gradient, Totals totals, Memory1 memory, int pixels) {
  extern __shared__ __align__(16) char shared[];
  const int channels = layer.channels, stride = row_stride1(channels), groups = (channels + 7) / 8;
  auto* x = reinterpret_cast<Bf16*>(shared + memory.x);
  auto* sum_of_x = reinterpret_cast<Bf16*>(shared + memory.gradient);
  auto* weight = reinterpret_cast<Bf16*>(shared + memory.weight);
  auto* dy = reinterpret_cast<Bf16*>(shared + memory.dy);
  auto *scale = reinterpret_cast<float*>(shared + memory.constants), *shift = scale + stride,
       *mean = shift + stride, *inverse = mean + stride, *middle_constants = inverse + stride;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, g = lane / 4, t = lane % 4;
  const int matrix = lane / 8, row = lane % 8;

  // Every thread has always the same pixels and channels of a tile to bring and to take back.
  const auto for_mine = [&](int first, auto f) {
    for (int pixel = warp; pixel < kPixels1; pixel += kWarps)
      for (int channel = 8 * lane; channel < channels; channel += 8 * kWarp)
        f(pixel * stride + channel, static_cast<int64_t>(first + pixel) * block.stride + channel,
          first + pixel < pixels);
  };
  const auto copy_tile = [&](int first) {
    for_mine(first, [&](int to, int64_t from, bool inside) {
      if (inside) {
        copy_async(x + to, block.x + from);
        copy_async(sum_of_x + to, gradient + from);
      } else {
        *reinterpret_cast<uint4*>(x + to) = {0, 0, 0, 0};
      }
    });
  };
  int first = blockIdx.x * kPixels1;
  copy_tile(first);
  copy_rows(weight, stride, layer.conv1, up_to(channels, kChunk), kBottleneck, 8 * groups);
  for (int i = threadIdx.x; i < stride; i += blockDim.x) {
    const bool real = i < channels;
    const Moments m = real ? moments(layer.norm1, i) : Moments{0, 0};
    mean[i] = m.mean;
    inverse[i] = m.inverse;
    scale[i] = real ? layer.norm1.weight[i] * m.inverse : 0.0f;
    shift[i] = real ? layer.norm1.bias[i] - m.mean * scale[i] : 0.0f;
  }
  for (int i = threadIdx.x; i < kBottleneck; i += blockDim.x) {
    const Moments m = moments(layer.norm2, i);
    const float a = layer.norm2.weight[i] * m.inverse, count = layer.norm2.count;
    const float slope = a * norm2.weight[i] / count * m.inverse;
    middle_constants[i] = a;
    middle_constants[kBottleneck + i] = -slope;
    middle_constants[2 * kBottleneck + i] = slope * m.mean - a * norm2.bias[i] / count;
  }
  __syncthreads();

  float weights[kGroups][3][4] = {}, bias_sum[kGroups][2] = {}, weight_sum[kGroups][2] = {};
  while (first < pixels) {
    load_middle_gradient(middle, middle_gradient, first, pixels, middle_constants, dy);
    wait_for_copies();
    __syncthreads();

    // d weights: dyᵀ (48 × pixels) · relu(norm1(x)) (pixels × channels).
#pragma unroll
    for (int begin = 0; begin < kPixels1; begin += 16) {
      uint32_t d[3][4];
#pragma unroll
      for (int m = 0; m < 3; ++m)
        load_transposed(d[m], dy + (begin + matrix / 2 * 8 + row) * kMiddleStride + 16 * m + matrix % 2 * 8);
#pragma unroll
      for (int j = 0; j < kGroups; ++j) {
        const int group = warp + kWarps * j;
        if (group >= groups) break;
        uint32_t raw[2];
        load_transposed(raw, x + (begin + lane % 16) * stride + 8 * group);
        const float s = scale[8 * group + g], b = shift[8 * group + g];
        const uint32_t b0 = activate(raw[0], s, b, s, b), b1 = activate(raw[1], s, b, s, b);
#pragma unroll
        for (int m = 0; m < 3; ++m) multiply_add(weights[j][m], d[m][0], d[m][1], d[m][2], d[m][3], b0, b1);
      }
    }
    __syncwarp();

    // d x = dy (pixels × 48) · conv1 (48 × channels), through ReLU and norm1's scale. It takes the place of
    // x.
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      const int group = warp + kWarps * j, channel = 8 * group + 2 * t;
      if (group >= groups) break;
      uint32_t w[4], w2[2];
      load_transposed(w, weight + lane * stride + 8 * group);
      load_transposed(w2, weight + (32 + lane % 16) * stride + 8 * group);
      const float s[2] = {scale[channel], scale[channel + 1]}, b[2] = {shift[channel], shift[channel + 1]};
      const float u[2] = {mean[channel], mean[channel + 1]}, v[2] = {inverse[channel], inverse[channel + 1]};
#pragma unroll
      for (int begin = 0; begin < kPixels1; begin += 16) {
        float sum[4] = {};
        uint32_t d[4];
        const Bf16* from = dy + (begin + matrix % 2 * 8 + row) * kMiddleStride + matrix / 2 * 8;
        load_matrices(d, from);
        multiply_add(sum, d[0], d[1], d[2], d[3], w[0], w[1]);
        load_matrices(d, from + 16);
        multiply_add(sum, d[0], d[1], d[2], d[3], w[2], w[3]);
        load_matrices(d, from + 32);
        multiply_add(sum, d[0], d[1], d[2], d[3], w2[0], w2[1]);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int at = (begin + 8 * r + g) * stride + channel;
          const uint32_t in = *reinterpret_cast<const uint32_t*>(x + at);
          auto* to = reinterpret_cast<uint32_t*>(sum_of_x + at);
          const float d0 = low(in) * s[0] + b[0] > 0 ? sum[2 * r] : 0.0f,
                      d1 = high(in) * s[1] + b[1] > 0 ? sum[2 * r + 1] : 0.0f;
          bias_sum[j][0] += d0;
          bias_sum[j][1] += d1;
          weight_sum[j][0] += d0 * (low(in) - u[0]) * v[0];
          weight_sum[j][1] += d1 * (high(in) - u[1]) * v[1];
          *to = pack(low(*to) + d0 * s[0], high(*to) + d1 * s[1]);
        }
      }
    }
    __syncthreads();

    // Behind the layer's channels a row is written as it was read: nobody needs those any more.
    for_mine(first, [&](int from, int64_t to, bool inside) {
      if (inside) *reinterpret_cast<uint4*>(gradient + to) = *reinterpret_cast<const uint4*>(sum_of_x + from);
    });
    first += gridDim.x * kPixels1;
    if (first < pixels) copy_tile(first);
  }

#pragma unroll
  for (int j = 0; j < kGroups; ++j) {
    const int group = warp + kWarps * j, channel = 8 * group + 2 * t;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float bias = add_rows(bias_sum[j][i]), slope = add_rows(weight_sum[j][i]);
      if (g == 0 && channel < channels) {
        totals.add<1>(channel + i, bias);
        totals.add<2>(channel + i, slope);
      }
    }
    if (channel >= channels) continue;
#pragma unroll
    for (int m = 0; m < 3; ++m) {
      totals.add_pair<0>((16 * m + g) * channels + channel, weights[j][m][0], weights[j][m][1]);
      totals.add_pair<0>((16 * m + g + 8) * channels + channel, weights[j][m][2], weights[j][m][3]);
    }
  }
}

}  // namespace

void backward_conv2(const Block& block, const Layer& layer, const Bf16* middle, const Bf16* gradient,
                    const Norm& written, const Later& later, Bf16* middle_gradient, NormGradient norm2,
                    float* conv2, cudaStream_t stream) {
  const Tile tile = choose_tile(block, [](const Tile& t) { return Memory2(t).bytes; });
  const Memory2 memory(tile);
  allow_shared(backward2_kernel, memory.bytes);
  const int pixels = block.pixels(), grid = std::min(tile.tiles(pixels), 2 * multiprocessors());
  const Totals totals{
      block.rows,
      {{conv2, kGrowth * kTaps * kBottleneck}, {norm2.bias, kBottleneck}, {norm2.weight, kBottleneck}}};
  backward2_kernel<<<grid, kThreads2, memory.bytes, stream>>>(block, layer, middle, gradient, written, later,
                                                              middle_gradient, totals, tile, memory, pixels);
  check_launch("backward_conv2");
  add_rows_up(totals, grid, stream);
}

void backward_conv1(const Block& block, const Layer& layer, const Bf16* middle, const Bf16* middle_gradient,
                    NormGradient norm2, Bf16* gradient, NormGradient norm1, float* conv1,
                    cudaStream_t stream) {
  const Memory1 memory(layer.channels);
  const int pixels = block.pixels(), groups = (layer.channels + 7) / 8;
  const Totals totals{
      block.rows,
      {{conv1, kBottleneck * layer.channels}, {norm1.bias, layer.channels}, {norm1.weight, layer.channels}}};
  const auto launch = [&](auto kernel, int warps) {
    allow_shared(kernel, memory.bytes);
    const int grid = std::min((pixels + kPixels1 - 1) / kPixels1, 16 / warps * multiprocessors());
    kernel<<<grid, warps * kWarp, memory.bytes, stream>>>(block, layer, middle, middle_gradient, norm2,
                                                          gradient, totals, memory, pixels);
    check_launch("backward_conv1");
    add_rows_up(totals, grid, stream);
  };
  switch ((groups + 7) / 8) {
    case 1:
      return launch(backward1_kernel<8, 1>, 8);
    case 2:
      return launch(backward1_kernel<8, 2>, 8);
    case 3:
      return launch(backward1_kernel<8, 3>, 8);
    case 4:
      return launch(backward1_kernel<8, 4>, 8);
    default:  // two thread blocks would not fit on a multiprocessor
      return launch(backward1_kernel<16, 3>, 16);
  }
}

}  // namespace poem::cuda
