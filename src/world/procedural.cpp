// Procedural outliers: pictures that follow a rule and show no object, but for one family of pasted pieces of
// other outliers. Fractals, dead leaves, spectral noise and the like are known to serve as outliers and as
// training images when no photos are at hand. They cover the whole frame, or lie on the background that all
// sets share. None of them is an OOD test family: no regular texture, no digit, no scene, and no piece of an
// ID image.
#include <algorithm>
#include <array>
#include <cmath>

#include "world/families.h"

namespace poem::world {
namespace {

constexpr float kTurn = 6.2831853f;

float unit(float t) { return std::clamp(t, 0.0f, 1.0f); }
float dot(Point a, Point b) { return a.x * b.x + a.y * b.y; }
Point direction(float angle) { return {std::cos(angle), std::sin(angle)}; }

// Two to four colours, each different enough from the one before to be seen beside it.
class Ramp {
 public:
  explicit Ramp(Dice& d, int most = 4) : count_(d.between(2, most)) {
    colours_[0] = d.colour();
    for (int i = 1; i < count_; ++i) {
      colours_[i] = d.colour();
      for (int tries = 0; tries < 8 && contrast(i) < 0.75f; ++tries) colours_[i] = d.colour();
    }
  }
  Colour at(float t) const {  // from the first colour at 0 to the last at 1
    const float x = unit(t) * static_cast<float>(count_ - 1);
    const int i = std::min(static_cast<int>(x), count_ - 2);
    return mix(colours_[i], colours_[i + 1], x - static_cast<float>(i));
  }
  Colour operator[](int i) const { return colours_[i % count_]; }

 private:
  float contrast(int i) const {
    const Colour a = colours_[i - 1], b = colours_[i];
    return std::abs(a.r - b.r) + std::abs(a.g - b.g) + std::abs(a.b - b.b);
  }
  int count_;
  std::array<Colour, 4> colours_;
};

// Sets every pixel to `colour_at(x, y)`; x and y are whole numbers.
template <class ColourAt>
void cover(Canvas& canvas, const ColourAt& colour_at) {
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) canvas.pixels[y * kSide + x] = colour_at(x, y);
  }
}

// ---- iterated function systems ----

struct Affine {
  float xx, xy, yx, yy;
  Point shift;
  float weight;  // how often the map is used, about its area

  Point operator()(Point p) const { return {xx * p.x + xy * p.y + shift.x, yx * p.x + yy * p.y + shift.y}; }
};

// Rotation · stretch · rotation. The stretches are scaled together so that the attractor is neither dust nor
// a filled square (Anderson and Farrell, "Improving Fractal Pre-training", 2022).
std::vector<Affine> random_system(Dice& d) {
  const int count = d.between(2, 4);
  std::vector<Point> stretch;
  float sum = 0;
  for (int i = 0; i < count; ++i) {
    const float large = d.real(0.4f, 1), small = large * d.real(0.2f, 1);
    stretch.push_back({large, small});
    sum += large + 2 * small;
  }
  const float scale = d.real(0.5f * (5 + count), 0.5f * (6 + count)) / sum;
  std::vector<Affine> maps;
  for (const Point s : stretch) {
    const Point p = direction(d.real(0, kTurn)), q = direction(d.real(0, kTurn));
    const float a = std::min(scale * s.x, 0.9f), b = std::min(scale * s.y, 0.9f) * d.sign();
    const Point shift = d.point(-1, 1);
    maps.push_back({p.x * a * q.x - p.y * b * q.y, -p.x * a * q.y - p.y * b * q.x,
                    p.y * a * q.x + p.x * b * q.y, -p.y * a * q.y + p.x * b * q.x, shift,
                    0.05f + a * std::abs(b)});
  }
  return maps;
}

void fractal(Canvas& canvas, Dice& d) {
  constexpr int kPoints = 2500, kDropped = 16;
  paint_background(canvas, d);
  const Palette palette = choose_palette(canvas, d);
  const Colour colours[4] = {palette.main, palette.second, palette.third, palette.fourth};
  const std::vector<Affine> maps = random_system(d);
  std::array<size_t, 64> lot;  // a map for each value of six random bits
  float total = 0, before = 0;
  for (const Affine& map : maps) total += map.weight;
  size_t drawn = 0;
  for (size_t i = 0; i < lot.size(); ++i) {
    while (drawn + 1 < maps.size() && 64 * (before + maps[drawn].weight) < (i + 0.5f) * total) {
      before += maps[drawn++].weight;
    }
    lot[i] = drawn;
  }
  std::vector<std::pair<Point, size_t>> points;
  points.reserve(kPoints);
  Point p{0, 0}, sum{0, 0}, squares{0, 0};
  for (int i = 0; i < kPoints + kDropped; ++i) {
    const size_t map = lot[d.bits() & 63];
    p = maps[map](p);
    if (i < kDropped) continue;
    points.emplace_back(p, map);
    sum = {sum.x + p.x, sum.y + p.y};
    squares = {squares.x + p.x * p.x, squares.y + p.y * p.y};
  }
  const Point mean = {sum.x / kPoints, sum.y / kPoints};
  const float spread = std::sqrt(
      std::max({squares.x / kPoints - mean.x * mean.x, squares.y / kPoints - mean.y * mean.y, 1e-4f}));
  const float size = d.real(6, 11) / spread;
  const Point centre = d.point(13, 19);
  std::array<float, kSide * kSide> hits{};
  std::array<Colour, kSide * kSide> ink{};
  for (const auto& [q, map] : points) {
    const float x = centre.x + (q.x - mean.x) * size, y = centre.y + (q.y - mean.y) * size;
    if (!(x >= 0 && x < kSide && y >= 0 && y < kSide)) continue;
    const int pixel = static_cast<int>(y) * kSide + static_cast<int>(x);
    hits[pixel] += 1;
    ink[pixel] = mix(ink[pixel], colours[map], 1 / hits[pixel]);
  }
  for (int i = 0; i < kSide * kSide; ++i) {
    canvas.pixels[i] = mix(canvas.pixels[i], ink[i], hits[i] / (hits[i] + 1));
  }
}

// ---- escape times of z² + c ----

void julia(Canvas& canvas, Dice& d) {
  constexpr int kSteps = 16;  // few, because rounding errors grow with each
  constexpr float kEscape = 4;
  const Point turn = direction(d.real(0, kTurn));
  const float outside = d.real(1, 1.25f);  // c a little outside the main cardioid of the Mandelbrot set
  const Point c = {outside * (turn.x / 2 - (turn.x * turn.x - turn.y * turn.y) / 4),
                   outside * (turn.y / 2 - turn.x * turn.y / 2)};
  const float extent = d.real(0.4f, 1.3f), bands = d.real(0.08f, 0.3f), phase = d.real(0, 1);
  const Point centre = d.point(-0.6f, 0.6f), axis = direction(d.real(0, kTurn));
  const Ramp ramp(d);
  const Colour inside = d.colour();
  cover(canvas, [&](int x, int y) {
    const Point p = {(x - 15.5f) / 16 * extent, (y - 15.5f) / 16 * extent};
    Point z = {centre.x + axis.x * p.x - axis.y * p.y, centre.y + axis.y * p.x + axis.x * p.y};
    for (int i = 0; i < kSteps; ++i) {
      z = {z.x * z.x - z.y * z.y + c.x, 2 * z.x * z.y + c.y};
      const float length = std::sqrt(dot(z, z));
      if (length < kEscape) continue;
      // Continuous: what escapes at kEscape now would have reached kEscape² in the next step.
      const float step = i + 1 - unit((length - kEscape) / (kEscape * kEscape - kEscape));
      return ramp.at(0.5f + 0.5f * triangle_wave(step * bands + phase));
    }
    return inside;
  });
}

// ---- dead leaves ----

// Shapes that hide one another, with density r⁻³ of the radius r: images of such scenes look alike at every
// scale, as photos do (Lee, Mumford and Huang, 2001).
void dead_leaves(Canvas& canvas, Dice& d) {
  paint_background(canvas, d);
  const float least = d.real(1.2f, 3), most = 16;
  const int shape = d.below(5), corners = d.between(3, 6);  // 4: all shapes
  const Ramp ramp(d);
  const bool free = d.chance(0.5f);
  const int count = static_cast<int>(500 / (least * least)) + 20;
  for (int i = 0; i < count; ++i) {
    const float share = d.real(0, 1) * (1 - least * least / (most * most));
    const float radius = least / std::sqrt(1 - share), turn = d.real(0, kTurn), aspect = d.real(0.4f, 1);
    const Colour colour = free ? d.colour() : ramp.at(d.real(0, 1));
    const Point centre = d.point(-2, 34);
    const int kind = shape < 4 ? shape : d.below(4);
    const Part part = kind == 0   ? disc({0, 0}, 1, colour)
                      : kind == 1 ? ellipse({0, 0}, {1, aspect}, colour)
                      : kind == 2 ? box({0, 0}, {1, aspect}, colour)
                                  : regular({0, 0}, 1, corners, 0, colour);
    paint(canvas, part, place(centre, radius, turn));
  }
}

// ---- random fields ----

// The inverse Fourier transform of 32×32 frequencies with the given amplitudes and random phases. Its real
// and its imaginary part are two independent fields of mean 0 and variance 1.
template <class Amplitude>
std::array<Point, kSide * kSide> random_fields(Dice& d, const Amplitude& amplitude) {
  struct Waves {  // wave k at place x: cosine and sine of 2π k x / 32
    float cosine[kSide][kSide], sine[kSide][kSide];
  };
  static const Waves waves = [] {
    Waves w;
    for (int k = 0; k < kSide; ++k) {
      for (int x = 0; x < kSide; ++x) {
        const Point p = direction(kTurn * static_cast<float>(k * x % kSide) / kSide);
        w.cosine[k][x] = p.x;
        w.sine[k][x] = p.y;
      }
    }
    return w;
  }();
  float power = 0;
  float rows[2][kSide][kSide] = {};  // real and imaginary part, transformed along x
  for (int v = 0; v < kSide; ++v) {
    for (int u = 0; u < kSide; ++u) {
      const uint32_t phase = d.bits() % kSide;
      const float a = u + v == 0 ? 0 : amplitude(u < 16 ? u : u - kSide, v < 16 ? v : v - kSide);
      power += a * a;
      const float re = a * waves.cosine[1][phase], im = a * waves.sine[1][phase];
      for (int x = 0; x < kSide; ++x) {
        rows[0][v][x] += re * waves.cosine[u][x] - im * waves.sine[u][x];
        rows[1][v][x] += re * waves.sine[u][x] + im * waves.cosine[u][x];
      }
    }
  }
  const float scale = std::sqrt(2 / std::max(power, 1e-12f));
  std::array<Point, kSide * kSide> fields{};
  for (int y = 0; y < kSide; ++y) {
    float re[kSide] = {}, im[kSide] = {};
    for (int v = 0; v < kSide; ++v) {
      const float c = scale * waves.cosine[v][y], s = scale * waves.sine[v][y];
      for (int x = 0; x < kSide; ++x) {
        re[x] += c * rows[0][v][x] - s * rows[1][v][x];
        im[x] += s * rows[0][v][x] + c * rows[1][v][x];
      }
    }
    for (int x = 0; x < kSide; ++x) fields[y * kSide + x] = {re[x], im[x]};
  }
  return fields;
}

void spectrum(Canvas& canvas, Dice& d) {  // amplitude 1/f^a, a from 0.5 to 2.5, sometimes along a direction
  const int halves = d.between(1, 5);
  const float stretch = d.chance(0.5f) ? 1 : d.real(1.5f, 4);
  const Point axis = direction(d.real(0, kTurn));
  const auto fields = random_fields(d, [&](int u, int v) {
    const float along = axis.x * u + axis.y * v, across = (axis.x * v - axis.y * u) * stretch;
    const float root = std::sqrt(std::sqrt(along * along + across * across));  // f^½
    float falling = 1;
    for (int i = 0; i < halves; ++i) falling *= root;
    return 1 / falling;
  });
  const Ramp ramp(d), other(d);
  const float gain = d.real(0.2f, 0.5f), tint = d.real(0.1f, 0.5f);
  cover(canvas, [&](int x, int y) {
    const Point t = fields[y * kSide + x];
    return mix(ramp.at(0.5f + gain * t.x), other.at(0.5f + gain * t.x), unit(0.5f + tint * t.y));
  });
}

void labyrinth(Canvas& canvas, Dice& d) {  // one wavelength in all directions, as on a zebra
  const float frequency = d.real(2.5f, 7), band = d.real(0.8f, 1.6f), level = d.real(-0.4f, 0.4f);
  const auto fields = random_fields(d, [&](int u, int v) {
    const float f = std::sqrt(static_cast<float>(u * u + v * v));
    return std::max(0.0f, 1 - std::abs(f - frequency) / band);
  });
  const Ramp ramp(d, 2);
  const Colour third = d.colour();
  const float edge = d.real(0.4f, 2.5f), tint = d.real(0, 0.3f);
  cover(canvas, [&](int x, int y) {
    const Point t = fields[y * kSide + x];
    return mix(ramp.at(0.5f + edge * (t.x - level)), third, unit(tint * std::abs(t.y)));
  });
}

void contours(Canvas& canvas, Dice& d) {  // of hills, as on a map
  const int cells = d.between(2, 5), octaves = d.between(1, 2), levels = d.between(3, 6);
  const Noise noise(cells, octaves, d);
  const Ramp ramp(d);
  const bool lines = d.chance(0.5f);
  const Colour ink = d.colour();
  cover(canvas, [&](int x, int y) {
    const float height = (0.5f + 0.6f * noise.at((x + 0.5f) / kSide, (y + 0.5f) / kSide)) * levels;
    const float level = std::floor(height), rest = height - level;
    const Colour colour = ramp.at(level / (levels - 1));
    return lines ? mix(ink, colour, unit(4 * std::min(rest, 1 - rest))) : colour;
  });
}

// ---- cells and waves ----

void voronoi(Canvas& canvas, Dice& d) {
  struct Cell {
    Point centre;
    Colour colour;
  };
  std::vector<Cell> cells(d.between(6, 40));
  const Ramp ramp(d);
  const bool free = d.chance(0.5f);
  for (Cell& cell : cells) {
    cell.centre = d.point(-2, 34);
    cell.colour = free ? d.colour() : ramp.at(d.real(0, 1));
  }
  const int metric = d.below(3);
  const float joint = d.chance(0.4f) ? d.real(0.5f, 1.5f) : 0, shade = d.real(-0.06f, 0.06f);
  const Colour mortar = d.colour();
  cover(canvas, [&](int x, int y) {
    float nearest = 1e9f, second = 1e9f;
    const Cell* owner = nullptr;
    for (const Cell& cell : cells) {
      const float dx = std::abs(x + 0.5f - cell.centre.x), dy = std::abs(y + 0.5f - cell.centre.y);
      const float distance = metric == 0 ? dx + dy : metric == 1 ? std::max(dx, dy) : dx * dx + dy * dy;
      second = std::min(second, std::max(distance, nearest));
      if (distance < nearest) {
        nearest = distance;
        owner = &cell;
      }
    }
    if (metric == 2) {
      nearest = std::sqrt(nearest);
      second = std::sqrt(second);
    }
    const float gain = std::max(0.0f, 1 + shade * nearest);
    const Colour c = {owner->colour.r * gain, owner->colour.g * gain, owner->colour.b * gain};
    return mix(c, mortar, unit(0.5f + joint - (second - nearest)) * (joint > 0));
  });
}

void gabor(Canvas& canvas, Dice& d) {  // gratings that fade out, of several directions
  paint_background(canvas, d);
  const int count = d.between(3, 10);
  for (int i = 0; i < count; ++i) {
    const Ramp ramp(d, 2);
    const Point centre = d.point(2, 30), axis = direction(d.real(0, kTurn));
    const float radius = d.real(5, 13), frequency = 1 / d.real(2.2f, 6), phase = d.real(0, 1);
    const auto first = [&](float c) { return std::max(0, static_cast<int>(c - radius)); };
    const auto last = [&](float c) { return std::min(kSide - 1, static_cast<int>(c + radius)); };
    for (int y = first(centre.y); y <= last(centre.y); ++y) {
      for (int x = first(centre.x); x <= last(centre.x); ++x) {
        const Point p = {x + 0.5f - centre.x, y + 0.5f - centre.y};
        const float window = std::max(0.0f, 1 - dot(p, p) / (radius * radius));
        Colour& pixel = canvas.pixels[y * kSide + x];
        pixel = mix(pixel, ramp.at(0.5f + triangle_wave(dot(p, axis) * frequency + phase)),
                    unit(1.6f * window * window));
      }
    }
  }
}

void ripples(Canvas& canvas, Dice& d) {  // around the nearest centre: waves that crossed would be woven
  std::vector<Point> centres(d.between(1, 5));
  for (Point& centre : centres) centre = d.point(0, 32);
  const float frequency = 1 / d.real(2.8f, 10), phase = d.real(0, 1), gain = d.real(0.5f, 1.2f);
  const Ramp ramp(d);
  cover(canvas, [&](int x, int y) {
    float nearest = 1e9f;
    for (const Point centre : centres) {
      const Point p = {x + 0.5f - centre.x, y + 0.5f - centre.y};
      nearest = std::min(nearest, dot(p, p));
    }
    return ramp.at(0.5f + gain * triangle_wave(std::sqrt(nearest) * frequency + phase));
  });
}

// ---- lines ----

void tangle(Canvas& canvas, Dice& d) {  // curves that wander about
  paint_background(canvas, d);
  const Palette c = choose_palette(canvas, d);
  const int curves = d.between(1, 4);
  for (int i = 0; i < curves; ++i) {
    const Colour colour = i == 0 ? c.main : i == 1 ? c.second : i == 2 ? c.third : c.fourth;
    const float radius = d.real(0.4f, 1.5f), swing = d.real(0.1f, 0.5f);
    Point from = d.point(4, 28);
    float heading = d.real(0, kTurn), bend = 0;
    const int steps = d.between(14, 36);
    for (int step = 0; step < steps; ++step) {
      bend = 0.8f * bend + d.real(-swing, swing);
      heading += bend;
      const Point way = direction(heading), to = {from.x + 2.2f * way.x, from.y + 2.2f * way.y};
      paint(canvas, line(from, to, radius, colour), place({0, 0}, 1));
      from = to;
      if (!(from.x > 0 && from.x < kSide && from.y > 0 && from.y < kSide)) from = d.point(4, 28);
    }
  }
}

// A letter of no alphabet on a grid of 3×3 places. Its first stroke is a diagonal, which no digit of the OOD
// test sets has.
Sprite make_glyph(float width, Colour colour, Dice& d) {
  const auto node = [](int i) { return Point{0.5f * (i % 3 - 1), static_cast<float>(i / 3 - 1)}; };
  const int diagonals[4][2] = {{0, 8}, {2, 6}, {0, 5}, {1, 6}};
  const auto& first = diagonals[d.below(4)];
  Sprite s = {line(node(first[0]), node(first[1]), width, colour)};
  int from = first[d.below(2)];
  const int more = d.between(1, 3);
  for (int i = 0; i < more; ++i) {
    const int to = (from + d.between(1, 8)) % 9;
    s.push_back(line(node(from), node(to), width, colour));
    from = to;
  }
  return s;
}

void glyphs(Canvas& canvas, Dice& d) {  // rows of small print
  paint_background(canvas, d);
  const Palette c = choose_palette(canvas, d);
  const float half = d.real(1.6f, 3), width = d.real(0.15f, 0.3f), leading = half * d.real(2.7f, 3.6f);
  std::vector<Sprite> alphabet(d.between(4, 9));
  for (Sprite& glyph : alphabet) glyph = make_glyph(width, c.main, d);
  const float turn = d.real(-0.3f, 0.3f), pitch = half * d.real(1.6f, 2);
  const Point axis = direction(turn);
  for (float v = -20 + d.real(0, leading); v < 20; v += leading) {
    for (float u = -20 + d.real(0, pitch); u < 20; u += pitch) {
      if (d.chance(0.2f)) continue;  // between words
      const Sprite& glyph = alphabet[d.below(static_cast<int>(alphabet.size()))];
      paint(canvas, glyph, place({16 + axis.x * u - axis.y * v, 16 + axis.y * u + axis.x * v}, half, turn));
    }
  }
}

// ---- cellular automata ----

void automaton(Canvas& canvas, Dice& d) {  // one row after another by an elementary rule
  // Rules without a regular pattern behind what they grow. The first twelve also grow from a single cell.
  constexpr std::array<uint8_t, 17> kRules = {18,  22,  30,  60, 90, 102, 110, 122, 126,
                                              146, 150, 182, 26, 45, 105, 106, 161};
  constexpr int kCells = 64;
  const bool single = d.chance(0.3f), across = d.chance(0.5f);
  const uint8_t rule = kRules[d.below(single ? 12 : static_cast<int>(kRules.size()))];
  const float size = d.real(1, 3);  // pixels per cell
  const int warm_up = single ? 0 : d.below(32);
  std::array<std::array<uint8_t, kCells>, kSide> rows;
  std::array<uint8_t, kCells> now{};
  if (single) now[static_cast<int>(d.real(0.3f, 0.7f) * kSide / size)] = 1;
  for (int x = 0; x < kCells && !single; ++x) now[x] = d.bits() & 1;
  for (int step = -warm_up; step < kSide; ++step) {
    if (step >= 0) rows[step] = now;
    const auto before = now;
    for (int x = 0; x < kCells; ++x) {
      const int left = before[(x + kCells - 1) % kCells], right = before[(x + 1) % kCells];
      now[x] = rule >> (4 * left + 2 * before[x] + right) & 1;
    }
  }
  const Ramp ramp(d, 2);
  const Colour born = d.chance(0.5f) ? d.colour() : ramp[1];  // cells that were 0 in the row before
  cover(canvas, [&](int x, int y) {
    const int u = static_cast<int>((across ? y : x) / size), v = static_cast<int>((across ? x : y) / size);
    const bool alive = rows[v][u] != 0;
    return !alive ? ramp[0] : v > 0 && rows[v - 1][u] == 0 ? born : ramp[1];
  });
}

// ---- collages ----

void pieces(Canvas& canvas, Dice& d) {  // of two outliers, cut out and pasted elsewhere
  std::array<Canvas, 2> sources;
  for (Canvas& source : sources) {
    paint_background(source, d);
    draw_outlier(source, d);
  }
  canvas = sources[0];
  const int count = d.between(6, 14);
  for (int i = 0; i < count; ++i) {
    const Canvas& source = sources[d.below(2)];
    const int width = d.between(4, 16), height = d.between(4, 16);
    const int from_x = d.below(kSide - width + 1), from_y = d.below(kSide - height + 1);
    const int to_x = d.below(kSide - width + 1), to_y = d.below(kSide - height + 1);
    const bool mirror = d.chance(0.5f), round = d.chance(0.3f);
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        const float u = (x + 0.5f) / width - 0.5f, v = (y + 0.5f) / height - 0.5f;
        if (round && u * u + v * v > 0.25f) continue;
        canvas.pixels[(to_y + y) * kSide + to_x + x] =
            source.pixels[(from_y + y) * kSide + from_x + (mirror ? width - 1 - x : x)];
      }
    }
  }
}

}  // namespace

int draw_procedural(Canvas& canvas, Dice& dice) {
  using Draw = void (*)(Canvas&, Dice&);
  constexpr Draw pictures[] = {fractal, julia,   dead_leaves, spectrum, labyrinth, contours, voronoi,
                               gabor,   ripples, tangle,      glyphs,   automaton, pieces};
  static_assert(kProceduralNames.size() == sizeof(pictures) / sizeof(pictures[0]));
  const int family = procedural_family(dice);
  pictures[family](canvas, dice);
  return family;
}

}  // namespace poem::world
