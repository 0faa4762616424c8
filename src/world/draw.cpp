#include "world/draw.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace poem::world {
namespace {

constexpr float kPi = 3.14159265f;

Colour operator*(Colour c, float t) { return {c.r * t, c.g * t, c.b * t}; }

float dot(Point a, Point b) { return a.x * b.x + a.y * b.y; }
float length(Point a) { return std::sqrt(dot(a, a)); }
Point minus(Point a, Point b) { return {a.x - b.x, a.y - b.y}; }

float squared_to_segment(Point p, Point a, Point b) {
  const Point ab = minus(b, a), ap = minus(p, a);
  const float t = std::clamp(dot(ap, ab) / std::max(dot(ab, ab), 1e-9f), 0.0f, 1.0f);
  const Point d = {ap.x - t * ab.x, ap.y - t * ab.y};
  return dot(d, d);
}

float to_polygon(Point p, const std::vector<Point>& corners) {
  float nearest = 1e9f;
  bool inside = false;
  for (size_t i = 0, j = corners.size() - 1; i < corners.size(); j = i++) {
    const Point a = corners[i], b = corners[j];
    nearest = std::min(nearest, squared_to_segment(p, a, b));
    if ((a.y > p.y) != (b.y > p.y) && p.x < (b.x - a.x) * (p.y - a.y) / (b.y - a.y) + a.x) inside = !inside;
  }
  return inside ? -std::sqrt(nearest) : std::sqrt(nearest);
}

// Exact on the axes and near the edge, where it matters.
float to_ellipse(Point p, Point centre, Point radii) {
  const Point q = minus(p, centre);
  const Point scaled = {q.x / radii.x, q.y / radii.y};
  const float k = length(scaled);
  const float gradient = length({scaled.x / radii.x, scaled.y / radii.y});
  return gradient > 1e-6f ? k * (k - 1) / gradient : -std::min(radii.x, radii.y);
}

float distance(const Part& part, Point p) {
  float d;
  switch (part.kind) {
    case Part::kPolygon:
      d = to_polygon(p, part.points);
      break;
    case Part::kEllipse:
      d = to_ellipse(p, part.points[0], part.points[1]);
      break;
    default:
      d = std::sqrt(squared_to_segment(p, part.points[0], part.points[1]));
  }
  d -= part.round;
  return part.outline > 0 ? std::abs(d) - part.outline : d;
}

struct Bounds {
  float left, top, right, bottom;
};

Bounds bounds(const Part& part) {
  Bounds b{1e9f, 1e9f, -1e9f, -1e9f};
  if (part.kind == Part::kEllipse) {
    const Point c = part.points[0], r = part.points[1];
    b = {c.x - r.x, c.y - r.y, c.x + r.x, c.y + r.y};
  } else {
    for (Point p : part.points) {
      b = {std::min(b.left, p.x), std::min(b.top, p.y), std::max(b.right, p.x), std::max(b.bottom, p.y)};
    }
  }
  const float margin = part.round + part.outline;
  return {b.left - margin, b.top - margin, b.right + margin, b.bottom + margin};
}

Point to_frame(const Pose& pose, Point p) {
  const float k = std::max(0.3f, 1 - dot(pose.tilt, p));
  const Point q = {p.x / k, p.y / k};
  return {pose.place.x + pose.xx * q.x + pose.xy * q.y, pose.place.y + pose.yx * q.x + pose.yy * q.y};
}

// From frame back to object coordinates.
class Inverse {
 public:
  explicit Inverse(const Pose& pose) : place_(pose.place), tilt_(pose.tilt) {
    const float scale = 1 / (pose.xx * pose.yy - pose.xy * pose.yx);
    xx_ = pose.yy * scale;
    xy_ = -pose.xy * scale;
    yx_ = -pose.yx * scale;
    yy_ = pose.xx * scale;
  }
  Point operator()(Point p) const {
    const Point d = minus(p, place_);
    const Point q = {xx_ * d.x + xy_ * d.y, yx_ * d.x + yy_ * d.y};
    const float k = 1 / std::max(0.3f, 1 + dot(tilt_, q));
    return {q.x * k, q.y * k};
  }

 private:
  float xx_, xy_, yx_, yy_;
  Point place_, tilt_;
};

Bounds on_canvas(const Canvas& canvas, const Part& part, const Pose& pose) {
  const Bounds b = bounds(part);
  Bounds frame{1e9f, 1e9f, -1e9f, -1e9f};
  for (Point corner :
       {Point{b.left, b.top}, Point{b.right, b.top}, Point{b.left, b.bottom}, Point{b.right, b.bottom}}) {
    const Point p = to_frame(pose, corner);
    frame = {std::min(frame.left, p.x), std::min(frame.top, p.y), std::max(frame.right, p.x),
             std::max(frame.bottom, p.y)};
  }
  const auto limit = static_cast<float>(canvas.side);
  const auto pixel = [&](float x, float origin) {
    return std::clamp((x - origin) * canvas.scale, -2.0f, limit + 2);
  };
  return {pixel(frame.left, canvas.origin.x) - 1.5f, pixel(frame.top, canvas.origin.y) - 1.5f,
          pixel(frame.right, canvas.origin.x) + 1.5f, pixel(frame.bottom, canvas.origin.y) + 1.5f};
}

// `shade(p)` scales the colour at p in object coordinates.
template <class Shade>
void fill(Canvas& canvas, const Part& part, const Pose& pose, const Shade& shade) {
  const Inverse to_object(pose);
  const float pixels_a_unit = std::sqrt(std::abs(pose.xx * pose.yy - pose.xy * pose.yx)) * canvas.scale;
  const Bounds b = on_canvas(canvas, part, pose);
  const int left = std::max(0, static_cast<int>(b.left)), top = std::max(0, static_cast<int>(b.top));
  const int right = std::min(canvas.side - 1, static_cast<int>(b.right));
  const int bottom = std::min(canvas.side - 1, static_cast<int>(b.bottom));
  for (int y = top; y <= bottom; ++y) {
    for (int x = left; x <= right; ++x) {
      const Point p = to_object(canvas.at(x, y));
      const float cover = std::clamp(0.5f - distance(part, p) * pixels_a_unit, 0.0f, 1.0f) * part.alpha;
      if (cover <= 0) continue;
      Colour& pixel = canvas.pixels[y * canvas.side + x];
      pixel = mix(pixel, part.colour * shade(p), cover);
    }
  }
}

Part random_part(Dice& dice, Colour colour) {
  switch (dice.below(4)) {
    case 0: {
      const Point radii = dice.point(0.3f, 1);
      return ellipse({0, 0}, radii, colour);
    }
    case 1: {
      const Point half = dice.point(0.2f, 1);
      return box({0, 0}, half, colour);
    }
    case 2: {
      const Point a = dice.point(-1, 1), b = dice.point(-1, 1), c = dice.point(-1, 1);
      return polygon({a, b, c}, colour);
    }
    default: {
      const Point a = dice.point(-1, 1), b = dice.point(-1, 1);
      const float radius = dice.real(0.08f, 0.25f);
      return line(a, b, radius, colour);
    }
  }
}

void blur(std::vector<Colour>& pixels, float side_weight) {
  const auto pass = [&](int step, int across) {
    for (int i = 0; i < kSide; ++i) {
      Colour* p = &pixels[i * across];
      Colour last = p[0];
      for (int j = 0; j < kSide; ++j) {
        const Colour here = p[j * step], next = p[std::min(j + 1, kSide - 1) * step];
        p[j * step] = mix(here, mix(last, next, 0.5f), 2 * side_weight);
        last = here;
      }
    }
  };
  pass(1, kSide);
  pass(kSide, 1);
}

// The sum of the four bytes of one draw: nearly normal, with unit variance.
float grain(Dice& dice) {
  const uint32_t x = dice.bits();
  const uint32_t sum = (x & 255) + (x >> 8 & 255) + (x >> 16 & 255) + (x >> 24);
  return (static_cast<float>(sum) - 510) / 147.8f;
}

}  // namespace

Colour mix(Colour a, Colour b, float t) {
  return {a.r + (b.r - a.r) * t, a.g + (b.g - a.g) * t, a.b + (b.b - a.b) * t};
}

float triangle_wave(float t) {
  const float phase = t - std::floor(t);
  return phase < 0.5f ? 4 * phase - 1 : 3 - 4 * phase;
}

// Uniform hue, from grey to saturated and from dark to bright.
Colour Dice::colour() {
  const float hue = real(0, 6), saturation = real(0.05f, 0.85f), value = real(0.12f, 0.95f);
  const auto channel = [&](float offset) {
    float k = offset + hue;
    if (k >= 6) k -= 6;
    return value - value * saturation * std::clamp(std::min(k, 4 - k), 0.0f, 1.0f);
  };
  return {channel(5), channel(3), channel(1)};
}

Part polygon(std::vector<Point> corners, Colour colour, float round) {
  return {Part::kPolygon, std::move(corners), round, 0, colour};
}

Part box(Point c, Point half, Colour colour, float round) {
  const Point h = {std::max(half.x - round, 0.01f), std::max(half.y - round, 0.01f)};
  return polygon(
      {{c.x - h.x, c.y - h.y}, {c.x + h.x, c.y - h.y}, {c.x + h.x, c.y + h.y}, {c.x - h.x, c.y + h.y}},
      colour, round);
}

Part ellipse(Point centre, Point radii, Colour colour) {
  return {Part::kEllipse, {centre, radii}, 0, 0, colour};
}

Part disc(Point centre, float radius, Colour colour) { return ellipse(centre, {radius, radius}, colour); }

Part line(Point from, Point to, float radius, Colour colour) {
  return {Part::kLine, {from, to}, radius, 0, colour};
}

Part ring(Part part, float half_width) {
  part.outline = half_width;
  return part;
}

Part regular(Point centre, float radius, int corners, float turn, Colour colour) {
  std::vector<Point> points;
  for (int i = 0; i < corners; ++i) {
    const float angle = turn + 2 * kPi * i / corners;
    points.push_back({centre.x + radius * std::cos(angle), centre.y + radius * std::sin(angle)});
  }
  return polygon(std::move(points), colour);
}

Part star(Point centre, float radius, float inner, int spikes, float turn, Colour colour) {
  Part part = regular(centre, radius, 2 * spikes, turn, colour);
  for (size_t i = 1; i < part.points.size(); i += 2) {
    Point& p = part.points[i];
    p = {centre.x + (p.x - centre.x) * inner, centre.y + (p.y - centre.y) * inner};
  }
  return part;
}

Part dome(Point centre, Point radii, Colour colour) {
  std::vector<Point> points;
  for (int i = 0; i <= 8; ++i) {
    const float angle = kPi * (1 + i / 8.0f);
    points.push_back({centre.x + radii.x * std::cos(angle), centre.y + radii.y * std::sin(angle)});
  }
  return polygon(std::move(points), colour);
}

Pose place(Point centre, float size, float turn) {
  const float c = size * std::cos(turn), s = size * std::sin(turn);
  return {c, -s, s, c, centre, {0, 0}};
}

Pose throw_pose(Dice& dice, float max_turn) {
  const float turn = dice.real(-max_turn, max_turn), size = dice.real(10.5f, 15);
  const float stretch = dice.real(0.88f, 1.14f), shear = dice.real(-0.12f, 0.12f), mirror = dice.sign();
  const float slack = (18 - size) * 0.45f;  // small objects may be further from the middle
  const Point centre = dice.point(16 - slack, 16 + slack), tilt = dice.point(-0.1f, 0.1f);
  const float c = size * std::cos(turn), s = size * std::sin(turn);
  // rotation · shear · stretch · mirror
  const float a = stretch * mirror, d = 1 / stretch;
  return {c * a, (c * shear - s) * d, s * a, (s * shear + c) * d, centre, tilt};
}

Canvas enlarge(const Canvas& canvas, int factor) {
  const int side = kSide * factor;
  Canvas large{side, static_cast<float>(factor), canvas.origin, std::vector<Colour>(side * side)};
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      large.pixels[y * side + x] = canvas.pixels[y / factor * kSide + x / factor];
    }
  }
  return large;
}

Canvas shrink(const Canvas& canvas) {
  const int factor = canvas.side / kSide;
  Canvas small;
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      Colour sum{0, 0, 0};
      for (int v = 0; v < factor; ++v) {
        const Colour* row = &canvas.pixels[(y * factor + v) * canvas.side + x * factor];
        for (int u = 0; u < factor; ++u) sum = {sum.r + row[u].r, sum.g + row[u].g, sum.b + row[u].b};
      }
      small.pixels[y * kSide + x] = sum * (1.0f / static_cast<float>(factor * factor));
    }
  }
  return small;
}

Palette choose_palette(const Canvas& canvas, Dice& dice) {
  Colour mean{0, 0, 0};
  for (const Colour& c : canvas.pixels) mean = {mean.r + c.r, mean.g + c.g, mean.b + c.b};
  mean = mean * (1.0f / static_cast<float>(canvas.pixels.size()));
  Palette palette{dice.colour(), dice.colour(), dice.colour(), dice.colour()};
  const auto contrast = [&](Colour c) {
    return std::abs(c.r - mean.r) + std::abs(c.g - mean.g) + std::abs(c.b - mean.b);
  };
  for (int tries = 0; tries < 8 && contrast(palette.main) < 0.75f; ++tries) palette.main = dice.colour();
  return palette;
}

void paint(Canvas& canvas, const Part& part, const Pose& pose) {
  fill(canvas, part, pose, [](Point) { return 1.0f; });
}

void paint(Canvas& canvas, const Sprite& sprite, const Pose& pose) {
  for (const Part& part : sprite) paint(canvas, part, pose);
}

void paint_lit(Canvas& canvas, const Sprite& sprite, const Pose& pose, Dice& dice) {
  const Point light = dice.point(-0.3f, 0.3f);
  if (dice.chance(0.3f)) {
    const Colour ink = mix(dice.colour(), {0, 0, 0}, 0.7f);
    for (Part part : sprite) {
      part.colour = ink;
      (part.outline > 0 ? part.outline : part.round) += 0.07f;
      paint(canvas, part, pose);
    }
  }
  for (const Part& part : sprite) {
    fill(canvas, part, pose, [&](Point p) { return 1 + dot(light, p); });
  }
}

Noise::Noise(int cells, int octaves, Dice& dice) {
  float weight = 1;
  for (int i = 0; i < octaves; ++i, cells *= 2, weight *= 0.6f) {
    Lattice lattice{cells, weight, std::vector<float>((cells + 1) * (cells + 1))};
    for (float& value : lattice.values) value = dice.real(-1, 1);
    lattices_.push_back(std::move(lattice));
  }
}

float Noise::at(float u, float v) const {
  float sum = 0;
  for (const Lattice& lattice : lattices_) {
    const auto top = static_cast<float>(lattice.cells) - 0.001f;
    const float x = std::clamp(u * lattice.cells, 0.0f, top), y = std::clamp(v * lattice.cells, 0.0f, top);
    const int i = static_cast<int>(x), j = static_cast<int>(y);
    float s = x - static_cast<float>(i), t = y - static_cast<float>(j);
    s = s * s * (3 - 2 * s);
    t = t * t * (3 - 2 * t);
    const float* row = &lattice.values[j * (lattice.cells + 1) + i];
    const float* below = row + lattice.cells + 1;
    const float upper = row[0] + (row[1] - row[0]) * s, lower = below[0] + (below[1] - below[0]) * s;
    sum += lattice.weight * (upper + (lower - upper) * t);
  }
  return sum;
}

void paint_background(Canvas& canvas, Dice& dice) {
  const Colour first = dice.colour(), other = dice.colour();
  const Colour second = mix(first, other, dice.real(0.3f, 1));
  const Point slope = dice.point(-1, 1);
  const bool halves = dice.chance(0.25f);
  const float amplitude = dice.chance(0.6f) ? dice.real(0.05f, 0.5f) : 0;
  const int cells = dice.between(2, 6), octaves = dice.between(1, 3);
  const Noise noise(cells, octaves, dice);
  for (int y = 0; y < canvas.side; ++y) {
    for (int x = 0; x < canvas.side; ++x) {
      const float u = (x + 0.5f) / canvas.side, v = (y + 0.5f) / canvas.side;
      float t = slope.x * (u - 0.5f) + slope.y * (v - 0.5f);
      if (halves) t = std::clamp(t * 12, -0.4f, 0.4f);
      t += 0.5f + amplitude * noise.at(u, v);
      canvas.pixels[y * canvas.side + x] = mix(first, second, std::clamp(t, 0.0f, 1.0f));
    }
  }
  const int clutter = dice.below(4);
  const float extent = canvas.side / canvas.scale;
  for (int i = 0; i < clutter; ++i) {
    Part part = random_part(dice, mix(first, dice.colour(), 0.7f));
    part.alpha = dice.real(0.2f, 0.9f);
    const Point p = dice.point(0, extent);
    const float size = dice.real(1.5f, 5), turn = dice.real(-kPi, kPi);
    paint(canvas, part, place({canvas.origin.x + p.x, canvas.origin.y + p.y}, size, turn));
  }
}

void photograph(Canvas& canvas, Dice& dice, uint8_t* out) {
  const Point light = dice.point(-0.35f, 0.35f);
  const float exposure = dice.real(0.8f, 1.15f), contrast = dice.real(0.8f, 1.1f);
  const Colour cast = {dice.real(0.9f, 1.1f), dice.real(0.9f, 1.1f), dice.real(0.9f, 1.1f)};
  const float softness = dice.chance(0.6f) ? dice.real(0, 0.2f) : 0;
  const float sensor = dice.real(0, 0.035f);
  blur(canvas.pixels, softness);
  for (int i = 0; i < kSide * kSide; ++i) {
    const float x = (i % kSide) / 31.0f - 0.5f, y = (i / kSide) / 31.0f - 0.5f;
    const float gain = exposure * (1 + light.x * x + light.y * y);
    const Colour c = canvas.pixels[i];
    const float values[3] = {c.r * cast.r, c.g * cast.g, c.b * cast.b};
    for (int channel = 0; channel < 3; ++channel) {
      float value = 0.45f + contrast * (values[channel] * gain - 0.45f);
      value += sensor * grain(dice);
      out[channel * kSide * kSide + i] = static_cast<uint8_t>(std::clamp(value, 0.0f, 1.0f) * 255 + 0.5f);
    }
  }
}

}  // namespace poem::world
