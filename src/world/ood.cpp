// The six OOD test families. The pool contains none of them.
#include <algorithm>
#include <cmath>

#include "world/families.h"

namespace poem::world {
namespace {

constexpr float kTurn = 6.2831853f;

float unit(float t) { return std::clamp(t, 0.0f, 1.0f); }

// ---- digits ----

// A digit as strokes between the corners of a 2×3 grid, as on a house number.
Sprite make_digit(int digit, float width, Colour colour) {
  const Point a{-0.4f, -0.8f}, b{0.4f, -0.8f}, c{-0.4f, 0}, e{0.4f, 0}, f{-0.4f, 0.8f}, g{0.4f, 0.8f};
  const std::pair<Point, Point> segments[] = {{a, b}, {a, c}, {b, e}, {c, e}, {c, f}, {e, g}, {f, g}};
  constexpr uint8_t lit[10] = {0b1110111, 0b0100100, 0b1011101, 0b1101101, 0b0101110,
                               0b1101011, 0b1111011, 0b0100101, 0b1111111, 0b1101111};
  Sprite s;
  for (int i = 0; i < 7; ++i) {
    if (lit[digit] >> i & 1) s.push_back(line(segments[i].first, segments[i].second, width, colour));
  }
  return s;
}

// ---- textures: each returns the share (0 … 1) of the colour that covers the background ----

struct Pattern {
  float scale, phase;
  const Noise& noise;
};

float weave(const Pattern& w, Point p) {
  const float x = p.x * w.scale, y = p.y * w.scale;
  const bool over = (static_cast<int>(std::floor(x)) + static_cast<int>(std::floor(y))) % 2 == 0;
  return 0.5f + (over ? 0.45f * triangle_wave(y) : -0.45f * triangle_wave(x));
}

float scales(const Pattern& w, Point p) {
  const float y = p.y * w.scale, row = std::floor(y);
  const float x = p.x * w.scale * 0.7f + (static_cast<int>(row) % 2 == 0 ? 0 : 0.5f);
  const float dx = x - std::floor(x) - 0.5f, dy = y - row;
  return unit(0.5f + 3 * (std::sqrt(dx * dx * 2 + dy * dy) - 0.75f) + 0.4f * dy);
}

float wood(const Pattern& w, Point p) {
  const float bend = w.noise.at(unit(p.x / 48 + 0.5f), unit(p.y / 48 + 0.5f));
  return 0.5f + 0.5f * triangle_wave(p.x * w.scale * 0.7f + 0.9f * bend + w.phase);
}

float marble(const Pattern& w, Point p) {
  const float bend = w.noise.at(unit(p.x / 48 + 0.5f), unit(p.y / 48 + 0.5f));
  const float vein = triangle_wave((p.x + p.y) * w.scale * 0.15f + 1.1f * bend + w.phase);
  return 1 - unit(std::abs(vein) * 2);
}

float bricks(const Pattern& w, Point p) {
  const float y = p.y * w.scale, row = std::floor(y);
  const float x = p.x * w.scale * 0.5f + (static_cast<int>(row) % 2 == 0 ? 0 : 0.5f);
  const float edge = std::min({x - std::floor(x), std::ceil(x) - x, (y - row) * 0.5f, (row + 1 - y) * 0.5f});
  const float tone = 0.25f * w.noise.at(unit(std::floor(x) / 16 + 0.5f), unit(row / 16 + 0.5f));
  return edge < 0.07f ? 1 : 0.2f + tone;
}

float dots(const Pattern& w, Point p) {
  const float x = p.x * w.scale, y = p.y * w.scale;
  const float dx = x - std::floor(x) - 0.5f, dy = y - std::floor(y) - 0.5f;
  return unit(0.5f + 6 * (std::sqrt(dx * dx + dy * dy) - 0.3f));
}

// ---- scenes ----

void buildings(Canvas& canvas, float horizon, Dice& d) {
  float x = d.real(-6, 0);
  while (x < 34) {
    const float width = d.real(3, 8), height = d.real(3, 14);
    const Colour wall = d.colour(), window = d.colour();
    paint(canvas, box({x + width / 2, horizon - height / 2}, {width / 2, height / 2 + 0.5f}, wall),
          place({0, 0}, 1));
    for (float v = horizon - height + 1.5f; v < horizon - 1; v += 2.5f) {
      for (float u = x + 1.2f; u < x + width - 0.8f; u += 2) {
        if (d.chance(0.7f)) paint(canvas, box({u, v}, {0.5f, 0.7f}, window), place({0, 0}, 1));
      }
    }
    x += width + d.real(0, 1.5f);
  }
}

void hills(Canvas& canvas, float horizon, Dice& d) {
  const int count = d.between(1, 4);
  for (int i = 0; i < count; ++i) {
    const Point centre = {d.real(-4, 36), horizon + d.real(0, 3)};
    const Point radii = {d.real(8, 20), d.real(3, 12)};
    const Colour colour = d.colour();
    paint(canvas,
          d.chance(0.5f) ? dome(centre, radii, colour)
                         : polygon({{centre.x - radii.x, centre.y},
                                    {centre.x, centre.y - radii.y},
                                    {centre.x + radii.x, centre.y}},
                                   colour),
          place({0, 0}, 1));
  }
}

// ---- interiors, in a room of 96×96 ----

void furnish(Canvas& canvas, Dice& d) {
  const Pose whole = place({0, 0}, 1);
  const float floor = d.real(55, 75), corner = d.real(20, 76), slope = d.real(-0.3f, 0.3f);
  const float left = floor + d.real(-8, 8), right = floor + slope * (96 - corner);
  const Colour wall = d.colour(), ground = d.colour();
  paint(canvas, polygon({{corner, 0}, {96, 0}, {96, right}, {corner, floor}}, wall), whole);
  paint(canvas, polygon({{0, left}, {corner, floor}, {96, right}, {96, 96}, {0, 96}}, ground), whole);
  const int things = d.between(8, 14);
  for (int i = 0; i < things; ++i) {
    const Colour colour = d.colour(), inner = d.colour();
    const Point centre = {d.real(0, 96), d.real(0, 96)}, half = {d.real(3, 16), d.real(3, 16)};
    const float frame = d.real(0.8f, 2.5f);
    const int kind = d.below(4);
    if (kind <= 1) paint(canvas, box(centre, half, colour), whole);  // cupboards, doors, cushions
    if (kind == 1) {                                                 // with a frame: windows, pictures
      paint(canvas, box(centre, {half.x - frame, half.y - frame}, inner), whole);
      paint(canvas, box(centre, {frame * 0.4f, half.y}, colour), whole);
    }
    if (kind == 2) paint(canvas, ellipse(centre, half, colour), whole);             // lamps, rugs
    if (kind == 3) paint(canvas, box(centre, {half.x * 2, frame}, colour), whole);  // shelves, rails
  }
}

}  // namespace

void draw_digits(Canvas& canvas, Dice& dice) {
  const Palette c = choose_palette(canvas, dice);
  const Pose pose = throw_pose(dice, 0.25f);
  if (dice.chance(0.7f)) paint(canvas, box({0, 0}, {2.5f, 1.1f}, c.second, 0.1f), pose);
  const float width = dice.real(0.09f, 0.17f), pitch = dice.real(1.05f, 1.35f);
  for (float offset : {-pitch, 0.0f, pitch}) {
    const int digit = dice.below(10);
    if (offset != 0 && dice.chance(0.3f)) continue;
    Sprite s = make_digit(digit, width, c.main);
    for (Part& part : s) {
      for (Point& p : part.points) p.x += offset;
    }
    paint_lit(canvas, s, pose, dice);
  }
}

void draw_textures(Canvas& canvas, Dice& dice) {
  using Texture = float (*)(const Pattern&, Point);
  constexpr Texture textures[] = {weave, scales, wood, marble, bricks, dots};
  const Texture texture = textures[dice.below(6)];
  const Palette c = choose_palette(canvas, dice);
  const Noise noise(3, 2, dice);
  const float period = dice.real(3, 9), turn = dice.real(0, kTurn), phase = dice.real(0, 1);
  const float sine = std::sin(turn), cosine = std::cos(turn);
  const Pattern w{1 / period, phase, noise};
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const float u = x - 15.5f, v = y - 15.5f;
      const float t = texture(w, {cosine * u - sine * v, sine * u + cosine * v});
      Colour& pixel = canvas.pixels[y * kSide + x];
      pixel = mix(pixel, c.main, t);
    }
  }
}

void draw_scenes(Canvas& canvas, Dice& dice) {
  const float horizon = dice.real(13, 24);
  const Colour sun = dice.colour(), ground = dice.colour();
  if (dice.chance(0.6f)) {
    const Point centre = {dice.real(2, 30), dice.real(1, horizon - 4)};
    paint(canvas, disc(centre, dice.real(1.5f, 4), sun), place({0, 0}, 1));
  }
  if (dice.chance(0.6f)) hills(canvas, horizon, dice);
  if (dice.chance(0.6f)) buildings(canvas, horizon, dice);
  paint(canvas, box({16, horizon + 20}, {30, 20}, ground), place({0, 0}, 1));
  if (dice.chance(0.5f)) {  // road or river
    const float far = dice.real(8, 24), near = dice.real(4, 28), width = dice.real(3, 9);
    const Colour road = dice.colour();
    paint(
        canvas,
        polygon({{far - 0.5f, horizon}, {far + 0.5f, horizon}, {near + width, 33}, {near - width, 33}}, road),
        place({0, 0}, 1));
  } else {  // furrows
    const Colour furrow = mix(ground, dice.colour(), 0.5f);
    const float gap = dice.real(2, 4);
    for (float y = horizon + 1.5f; y < 33; y += gap) {
      paint(canvas, box({16, y}, {20, 0.5f}, furrow), place({0, 0}, 1));
    }
  }
}

void draw_cropped(Canvas& canvas, Dice& dice) {
  canvas.origin = dice.point(0, 64);  // the background becomes the nearer wall
  furnish(canvas, dice);
  canvas.origin = {0, 0};
}

void draw_resized(Canvas& canvas, Dice& dice) {
  Canvas large = enlarge(canvas, 4);
  const int things = dice.between(35, 60);
  for (int i = 0; i < things; ++i) {
    const Colour colour = dice.colour();
    const Point centre = {dice.real(0, 32), dice.real(4, 32)};
    const float size = dice.real(0.7f, 2.6f), height = dice.real(0.6f, 2), turn = dice.real(-0.3f, 0.3f);
    const int kind = dice.below(4);
    const Pose pose = place(centre, size, turn);
    if (kind == 0) paint(large, ellipse({0, 0}, {1, height}, colour), pose);
    if (kind == 1) paint(large, box({0, 0}, {0.8f, height}, colour), pose);
    if (kind == 2) paint(large, line({0, -height}, {0, height}, 0.12f, colour), pose);
    if (kind == 3) {  // someone standing there
      paint(large, box({0, 0.2f}, {0.35f, 0.8f}, colour), pose);
      paint(large, disc({0, -0.9f}, 0.35f, dice.colour()), pose);
    }
  }
  canvas = shrink(large);
}

void draw_patches(Canvas& canvas, Dice& dice) {
  const int first = dice.below(kClasses), second = dice.below(kClasses);
  Canvas other = canvas;
  draw_object(first, canvas, dice);
  draw_object(second, other, dice);
  const Canvas sources[2] = {canvas, other};
  const int piece = dice.chance(0.5f) ? 8 : 16, grid = kSide / piece, places = grid * grid;
  for (int v = 0; v < grid; ++v) {
    for (int u = 0; u < grid; ++u) {
      const Canvas& source = sources[dice.below(2)];
      // Never the patch's own place, so that no object stays whole.
      const int from = (v * grid + u + dice.between(1, places - 1)) % places;
      const int x = from % grid * piece, y = from / grid * piece;
      for (int row = 0; row < piece; ++row) {
        std::copy_n(&source.pixels[(y + row) * kSide + x], piece,
                    &canvas.pixels[(v * piece + row) * kSide + u * piece]);
      }
    }
  }
}

}  // namespace poem::world
