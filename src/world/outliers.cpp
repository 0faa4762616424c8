// The outliers: families that are neither ID classes nor OOD test families. Some share parts with ID
// classes (wheels, hulls, roofs, crowns, handles), others share nothing. ImageNet relates to CIFAR in the
// same way.
#include <cmath>

#include "world/families.h"

namespace poem::world {
namespace {

constexpr float kTurn = 6.2831853f;

Colour pick(const Palette& c, int i) { return i % 3 == 0 ? c.main : i % 3 == 1 ? c.second : c.third; }

Point around(float radius, float angle) { return {radius * std::cos(angle), radius * std::sin(angle)}; }

// ---- objects ----

Sprite polygons(const Palette& c, Dice& d) {
  Sprite s;
  const int count = d.between(1, 3);
  for (int i = 0; i < count; ++i) {
    const Point p = d.point(-0.4f, 0.4f);
    const float radius = d.real(0.4f, 0.9f), turn = d.real(0, kTurn);
    s.push_back(regular(p, radius, d.between(3, 7), turn, pick(c, i)));
  }
  return s;
}

Sprite stars(const Palette& c, Dice& d) {
  const float inner = d.real(0.3f, 0.7f), turn = d.real(0, kTurn);
  const int spikes = d.between(4, 8);
  Sprite s = {star({0, 0}, 0.95f, inner, spikes, turn, c.main)};
  if (d.chance(0.5f)) s.push_back(star({0, 0}, 0.55f, inner, spikes, turn, c.second));
  return s;
}

Sprite strokes(const Palette& c, Dice& d) {  // letters of no alphabet
  Sprite s;
  const int count = d.between(2, 5);
  const float width = d.real(0.07f, 0.16f);
  Point from = d.point(-0.9f, 0.9f);
  for (int i = 0; i < count; ++i) {
    const Point to = d.point(-0.9f, 0.9f);
    s.push_back(line(from, to, width, c.main));
    from = d.chance(0.7f) ? to : d.point(-0.9f, 0.9f);
  }
  return s;
}

Sprite blobs(const Palette& c, Dice& d) {
  Sprite s;
  const int count = d.between(3, 8);
  for (int i = 0; i < count; ++i) {
    const Point p = d.point(-0.6f, 0.6f), radii = d.point(0.15f, 0.5f);
    s.push_back(ellipse(p, radii, d.chance(0.7f) ? c.main : c.second));
  }
  return s;
}

Sprite rings(const Palette& c, Dice& d) {
  Sprite s;
  const int count = d.between(1, 4);
  const bool centred = d.chance(0.5f);
  for (int i = 0; i < count; ++i) {
    const Point p = d.point(-0.5f, 0.5f);
    const float radius = d.real(0.25f, 0.85f), width = d.real(0.05f, 0.14f);
    s.push_back(ring(disc(centred ? Point{0, 0} : p, radius, pick(c, i)), width));
  }
  return s;
}

Sprite arrow(const Palette& c, Dice& d) {
  const float width = d.real(0.06f, 0.2f), head = d.real(0.3f, 0.6f), neck = d.real(0, 0.5f);
  Sprite s = {box({-0.3f, 0}, {0.6f, width}, c.main)};
  s.push_back(polygon({{neck, -head}, {0.95f, 0}, {neck, head}}, c.main));
  if (d.chance(0.3f)) s.push_back(polygon({{-neck, -head}, {-0.95f, 0}, {-neck, head}}, c.main));
  return s;
}

Sprite leaf(const Palette& c, Dice& d) {
  const float width = d.real(0.25f, 0.6f);
  Sprite s = {line({-0.95f, 0}, {0.7f, 0}, 0.05f, c.second)};
  s.push_back(polygon({{-0.6f, 0},
                       {-0.25f, -width},
                       {0.3f, -width * 0.8f},
                       {0.95f, 0},
                       {0.3f, width * 0.8f},
                       {-0.25f, width}},
                      c.main, 0.03f));
  s.push_back(line({-0.6f, 0}, {0.8f, 0}, 0.03f, c.second));
  const int veins = d.between(0, 3);
  for (int i = 0; i < veins; ++i) {
    const float x = -0.35f + 0.35f * static_cast<float>(i);
    for (float side : {-1.0f, 1.0f}) {
      s.push_back(line({x, 0}, {x + 0.25f, side * width * 0.7f}, 0.025f, c.second));
    }
  }
  return s;
}

Sprite flower(const Palette& c, Dice& d) {
  const int petals = d.between(4, 8);
  const float reach = d.real(0.35f, 0.5f), size = d.real(0.16f, 0.26f), turn = d.real(0, kTurn);
  const Point head = {d.real(-0.2f, 0.2f), -0.3f};
  Sprite s;
  if (d.chance(0.7f)) s.push_back(line(head, {d.real(-0.1f, 0.1f), 0.95f}, 0.045f, c.third));
  for (int i = 0; i < petals; ++i) {
    const Point p = around(reach, turn + kTurn * i / petals);
    s.push_back(line(head, {head.x + p.x, head.y + p.y}, size, c.main));
  }
  s.push_back(disc(head, d.real(0.15f, 0.28f), c.second));
  return s;
}

Sprite animal(const Palette& c, Dice& d) {
  const float body = d.real(0.2f, 0.36f), legs = d.real(0.3f, 0.6f), neck = d.real(0.1f, 0.6f);
  const float thick = d.real(0.05f, 0.1f), head = d.real(0.16f, 0.26f), back = -0.05f;
  Sprite s;
  for (float x : {-0.5f, -0.3f, 0.3f, 0.5f}) {
    s.push_back(line({x, back}, {x + d.real(-0.1f, 0.1f), back + body + legs}, thick, c.main));
  }
  s.push_back(line({0.5f, back}, {0.9f, d.real(-0.4f, 0.3f)}, 0.05f, c.main));
  s.push_back(ellipse({0, back}, {0.62f, body}, c.main));
  const Point nose = {-0.65f, back - neck};
  s.push_back(line({-0.45f, back}, nose, 0.12f, c.main));
  s.push_back(ellipse(nose, {head * 1.2f, head}, c.main));
  if (d.chance(0.6f)) {
    s.push_back(polygon({{nose.x, nose.y - head * 0.6f},
                         {nose.x + 0.1f, nose.y - head - 0.2f},
                         {nose.x + 0.2f, nose.y - head * 0.5f}},
                        c.main));
  }
  if (d.chance(0.5f)) s.push_back(ellipse({d.real(-0.2f, 0.3f), back}, {0.2f, body * 0.6f}, c.second));
  return s;
}

Sprite bird(const Palette& c, Dice& d) {
  const float span = d.real(0.3f, 0.8f), lift = d.real(-0.8f, 0.5f);
  Sprite s = {polygon({{0.35f, 0.1f}, {0.95f, d.real(-0.2f, 0.3f)}, {0.7f, 0.3f}}, c.main)};
  s.push_back(ellipse({0, 0.15f}, {0.5f, 0.25f}, c.main));
  s.push_back(disc({-0.5f, -0.1f}, 0.2f, c.main));
  s.push_back(polygon({{-0.65f, -0.15f}, {-0.95f, -0.05f}, {-0.65f, 0.02f}}, c.third));
  s.push_back(polygon({{-0.2f, 0.1f}, {0.3f, lift}, {span, lift * 0.8f}, {0.3f, 0.15f}}, c.second));
  if (d.chance(0.5f)) {
    for (float x : {-0.1f, 0.1f}) s.push_back(line({x, 0.3f}, {x, 0.7f}, 0.03f, c.third));
  }
  return s;
}

Sprite furniture(const Palette& c, Dice& d) {
  const float seat = d.real(-0.1f, 0.3f), half = d.real(0.45f, 0.8f), thick = d.real(0.05f, 0.1f);
  Sprite s;
  for (float x : {-half + thick, half - thick})
    s.push_back(box({x, (seat + 0.9f) / 2}, {thick, (0.9f - seat) / 2}, c.main));
  s.push_back(box({0, seat}, {half, thick * 1.5f}, c.main));
  const int kind = d.below(3);
  if (kind == 0) {  // chair
    s.push_back(box({half - thick, (seat - 0.85f) / 2}, {thick, (seat + 0.85f) / 2}, c.main));
    s.push_back(box({half - thick, -0.6f}, {thick * 1.5f, 0.25f}, c.second));
  } else if (kind == 1) {  // table with a lamp
    s.push_back(line({0, seat}, {0, -0.4f}, 0.05f, c.third));
    s.push_back(polygon({{-0.2f, -0.85f}, {0.2f, -0.85f}, {0.4f, -0.35f}, {-0.4f, -0.35f}}, c.second));
  } else {  // shelf
    for (float y : {-0.85f, -0.4f}) s.push_back(box({0, y}, {half, thick}, c.main));
    for (float x : {-half + thick, half - thick}) s.push_back(box({x, 0}, {thick, 0.88f}, c.main));
  }
  return s;
}

Sprite face(const Palette& c, Dice& d) {
  const float width = d.real(0.55f, 0.85f), eye = d.real(0.08f, 0.16f), apart = d.real(0.2f, 0.35f);
  const float mouth = d.real(0.15f, 0.4f), curve = d.real(-0.15f, 0.15f);
  Sprite s = {ellipse({0, 0}, {width, 0.85f}, c.main)};
  for (float x : {-apart, apart}) {
    s.push_back(disc({x, -0.2f}, eye, c.second));
    s.push_back(disc({x, -0.2f}, eye * 0.45f, c.fourth));
  }
  s.push_back(line({-mouth, 0.4f - curve}, {0, 0.4f + curve}, 0.05f, c.third));
  s.push_back(line({0, 0.4f + curve}, {mouth, 0.4f - curve}, 0.05f, c.third));
  return s;
}

Sprite cart(const Palette& c, Dice& d) {  // wheels, but no car
  const float wheel = d.real(0.25f, 0.42f), axle = d.real(0.4f, 0.6f), y = 0.45f;
  Sprite s;
  const bool spoked = d.chance(0.6f);
  for (float x : {-axle, axle}) {
    s.push_back(spoked ? ring(disc({x, y}, wheel, c.third), 0.05f) : disc({x, y}, wheel, c.third));
  }
  if (d.chance(0.5f)) {  // bicycle
    const Point saddle = {-0.15f, -0.3f}, bar = {0.35f, -0.4f};
    const Point crank = {0, y};
    for (auto [a, b] : {std::pair{Point{-axle, y}, saddle},
                        {saddle, bar},
                        {bar, Point{axle, y}},
                        {saddle, crank},
                        {crank, bar}}) {
      s.push_back(line(a, b, 0.05f, c.main));
    }
  } else {  // open wagon with a pole
    s.push_back(polygon({{-0.8f, -0.2f}, {0.7f, -0.2f}, {0.6f, 0.3f}, {-0.7f, 0.3f}}, c.main));
    s.push_back(line({0.6f, 0.1f}, {0.98f, -0.5f}, 0.05f, c.second));
  }
  return s;
}

Sprite bowl(const Palette& c, Dice& d) {  // a hull or a cup, but with the wrong things on it
  const float rim = d.real(-0.1f, 0.2f), foot = d.real(0.2f, 0.5f);
  Sprite s;
  const int fruits = d.between(0, 4);
  for (int i = 0; i < fruits; ++i) {
    const float x = d.real(-0.5f, 0.5f);
    s.push_back(disc({x, rim - 0.1f}, d.real(0.15f, 0.3f), pick(c, i + 1)));
  }
  s.push_back(polygon({{-0.85f, rim}, {0.85f, rim}, {foot, 0.7f}, {-foot, 0.7f}}, c.main, 0.03f));
  if (d.chance(0.5f)) s.push_back(box({0, 0.8f}, {foot * 0.8f, 0.1f}, c.second));
  return s;
}

Sprite tower(const Palette& c, Dice& d) {  // a roof on a post
  const float half = d.real(0.12f, 0.3f), roof = d.real(0.3f, 0.6f), eaves = d.real(-0.6f, -0.3f);
  Sprite s = {polygon({{-half * 0.7f, eaves}, {half * 0.7f, eaves}, {half, 0.95f}, {-half, 0.95f}}, c.main)};
  const int bands = d.between(0, 3);
  for (int i = 0; i < bands; ++i) {
    s.push_back(box({0, eaves + 0.3f + 0.4f * static_cast<float>(i)}, {half * 0.9f, 0.09f}, c.third));
  }
  s.push_back(polygon({{-roof, eaves}, {0, -0.98f}, {roof, eaves}}, c.second));
  return s;
}

Sprite tool(const Palette& c, Dice& d) {  // a shaft, but no key
  const float width = d.real(0.06f, 0.11f);
  Sprite s = {line({-0.4f, 0}, {0.9f, 0}, width, c.main)};
  const int kind = d.below(4);
  const float head = d.real(0.2f, 0.4f);
  if (kind == 0) s.push_back(box({-0.6f, 0}, {0.18f, head}, c.second));           // hammer
  if (kind == 1) s.push_back(ellipse({-0.6f, 0}, {0.35f, head * 0.7f}, c.main));  // spoon
  if (kind == 2) {                                                                // fork
    for (float y : {-0.2f, 0.0f, 0.2f}) s.push_back(line({-0.4f, y}, {-0.95f, y}, 0.05f, c.main));
    s.push_back(line({-0.4f, -0.2f}, {-0.4f, 0.2f}, 0.06f, c.main));
  }
  if (kind == 3) s.push_back(polygon({{-0.3f, 0}, {-0.95f, -head}, {-0.85f, head}}, c.second));  // axe
  return s;
}

Sprite bottle(const Palette& c, Dice& d) {
  const float half = d.real(0.22f, 0.45f), shoulder = d.real(-0.3f, 0.1f), neck = d.real(0.08f, 0.16f);
  Sprite s = {box({0, (shoulder + 0.9f) / 2}, {half, (0.9f - shoulder) / 2}, c.main, 0.05f)};
  s.push_back(polygon({{-half, shoulder + 0.05f},
                       {-neck, shoulder - 0.3f},
                       {neck, shoulder - 0.3f},
                       {half, shoulder + 0.05f}},
                      c.main));
  s.push_back(box({0, (shoulder - 1.2f) / 2}, {neck, (0.65f + shoulder) / 2}, c.main));
  s.push_back(box({0, -0.9f}, {neck + 0.04f, 0.08f}, c.third));
  if (d.chance(0.7f)) s.push_back(box({0, (shoulder + 0.9f) / 2}, {half * 0.95f, 0.2f}, c.second));
  return s;
}

Sprite umbrella(const Palette& c, Dice& d) {  // a cap, but no mushroom
  const float half = d.real(0.7f, 0.95f), brim = d.real(-0.2f, 0.1f), hook = d.real(0.1f, 0.2f);
  Sprite s = {line({0, brim}, {0, 0.75f}, 0.04f, c.second)};
  s.push_back(ring(disc({hook, 0.78f}, hook, c.second), 0.035f));
  s.push_back(dome({0, brim}, {half, d.real(0.4f, 0.7f)}, c.main));
  for (float k : {-0.66f, 0.0f, 0.66f}) s.push_back(disc({k * half, brim + 0.08f}, half * 0.3f, c.third));
  return s;
}

Sprite chimera(const Palette& c, Dice& d) {  // the lower half of one ID class under the upper half of another
  const int lower = d.below(4), upper = (lower + d.between(1, 3)) % 4;
  Sprite s;
  if (lower == 0) {
    for (float x : {-0.5f, 0.5f}) s.push_back(disc({x, 0.6f}, d.real(0.17f, 0.27f), c.third));
    s.push_back(line({-0.7f, 0.4f}, {0.7f, 0.4f}, 0.08f, c.second));
  }
  if (lower == 1)
    s.push_back(polygon({{-0.9f, 0.25f}, {0.9f, 0.25f}, {0.6f, 0.65f}, {-0.6f, 0.65f}}, c.second));
  if (lower == 2) s.push_back(box({0, 0.5f}, {0.6f, 0.35f}, c.second));
  if (lower == 3) s.push_back(box({0, 0.5f}, {0.14f, 0.45f}, c.second));
  if (upper == 0) s.push_back(polygon({{-0.7f, 0.2f}, {-0.4f, -0.4f}, {0.4f, -0.4f}, {0.7f, 0.2f}}, c.main));
  if (upper == 1) s.push_back(polygon({{0.05f, -0.9f}, {0.05f, 0.15f}, {0.7f, 0.15f}}, c.main));
  if (upper == 2) s.push_back(polygon({{-0.8f, 0.2f}, {0, -0.5f}, {0.8f, 0.2f}}, c.main));
  if (upper == 3) {
    for (float x : {-0.3f, 0.05f, 0.35f}) s.push_back(disc({x, d.real(-0.5f, -0.1f)}, 0.35f, c.main));
  }
  return s;
}

using Make = Sprite (*)(const Palette&, Dice&);
constexpr Make kMakers[] = {polygons,  stars, strokes, blobs, rings, arrow, leaf,   flower,   animal, bird,
                            furniture, face,  cart,    bowl,  tower, tool,  bottle, umbrella, chimera};
constexpr int kMakerCount = sizeof(kMakers) / sizeof(kMakers[0]);

int one_object(Canvas& canvas, Dice& d) {  // which of kMakers made it
  const Palette palette = choose_palette(canvas, d);
  const int maker = d.below(kMakerCount);
  const Sprite object = kMakers[maker](palette, d);
  paint_lit(canvas, object, throw_pose(d, 0.3f), d);
  return maker;
}

// ---- whole pictures ----

void stripes(Canvas& canvas, Dice& d) {  // in one direction only: crossed ones would be a woven texture
  const Palette c = choose_palette(canvas, d);
  const float turn = d.real(0, kTurn), gap = d.real(3, 9), share = d.real(0.2f, 0.4f);
  const bool alternating = d.chance(0.4f);
  int band = 0;
  for (float offset = -24; offset < 24; offset += gap, ++band) {
    const Colour colour = alternating && band % 2 == 1 ? c.second : c.main;
    paint(canvas, box({0, offset}, {30, gap * share}, colour), place({16, 16}, 1, turn));
  }
}

void spectra(Canvas& canvas, Dice& d) {  // noise, from clouds to salt
  const int cells = 1 << d.between(1, 4), octaves = d.between(1, 3);
  const Noise noise(cells, octaves, d);
  const Colour a = d.colour(), b = d.colour();
  const float gain = d.real(0.5f, 2);
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const float t = 0.5f + gain * noise.at((x + 0.5f) / kSide, (y + 0.5f) / kSide);
      canvas.pixels[y * kSide + x] = mix(a, b, t < 0 ? 0 : t > 1 ? 1 : t);
    }
  }
}

void nothing(Canvas&, Dice&) {}  // background and clutter alone

void crowd(Canvas& canvas, Dice& d) {
  const int count = d.between(8, 24);
  for (int i = 0; i < count; ++i) {
    const Colour colour = d.colour();
    const Point centre = d.point(0, 32);
    const float size = d.real(2, 7), turn = d.real(0, kTurn), inner = d.real(0.4f, 1);
    const int corners = d.between(3, 6);
    paint(canvas, d.chance(0.4f) ? disc({0, 0}, 1, colour) : star({0, 0}, 1, inner, corners, 0, colour),
          place(centre, size, turn));
  }
}

void collage(Canvas& canvas, Dice& d) {
  const int count = d.between(2, 5);
  for (int i = 0; i < count; ++i) {
    const Palette palette = choose_palette(canvas, d);
    const Sprite object = kMakers[d.below(kMakerCount)](palette, d);
    const Point centre = d.point(3, 29);
    const float size = d.real(4, 8), turn = d.real(-0.6f, 0.6f);
    paint_lit(canvas, object, place(centre, size, turn), d);
  }
}

}  // namespace

int draw_outlier(Canvas& canvas, Dice& dice) {
  using Draw = void (*)(Canvas&, Dice&);
  constexpr Draw pictures[] = {stripes, spectra, nothing, crowd, collage};
  constexpr int count = sizeof(pictures) / sizeof(pictures[0]);
  static_assert(kOutlierNames.size() == count + kMakerCount);
  const int family = dice.below(kMakerCount + count);
  if (family >= count) return count + one_object(canvas, dice);
  pictures[family](canvas, dice);
  return family;
}

}  // namespace poem::world
