// The eight ID classes. They share colours, backgrounds and parts (discs, boxes, triangles), so they differ
// only in the arrangement of the parts.
#include "world/families.h"

namespace poem::world {
namespace {

Sprite make_car(const Palette& c, Dice& d) {
  const float front = d.real(-0.75f, -0.2f), back = d.real(0.25f, 0.85f), roof = d.real(-0.55f, -0.25f);
  const float front_slope = d.real(0.05f, 0.35f), back_slope = d.real(0, 0.3f);
  const float wheel = d.real(0.17f, 0.27f), axle = d.real(0.45f, 0.64f), floor = d.real(0.35f, 0.45f);
  const float waist = d.real(-0.02f, 0.1f);
  Sprite s;
  s.push_back(polygon(
      {{front, waist + 0.05f}, {front + front_slope, roof}, {back - back_slope, roof}, {back, waist + 0.05f}},
      c.main, 0.03f));
  const float left = front + front_slope * 0.8f + 0.06f, right = back - back_slope * 0.8f - 0.06f;
  const float pillar = left + (right - left) * d.real(0.4f, 0.6f);
  const float sill = waist - 0.04f, lintel = roof + 0.08f;
  s.push_back(polygon(
      {{left - 0.04f, sill}, {left + 0.04f, lintel}, {pillar - 0.04f, lintel}, {pillar - 0.04f, sill}},
      c.second));
  if (d.chance(0.75f)) {
    s.push_back(polygon(
        {{pillar + 0.04f, sill}, {pillar + 0.04f, lintel}, {right - 0.03f, lintel}, {right + 0.03f, sill}},
        c.second));
  }
  s.push_back(polygon({{-0.95f, waist + d.real(0, 0.1f)}, {0.9f, waist}, {0.95f, floor}, {-0.95f, floor}},
                      c.main, 0.04f));
  for (float x : {-axle, axle}) {
    s.push_back(disc({x, floor}, wheel, c.third));
    s.push_back(disc({x, floor}, wheel * 0.45f, c.fourth));
  }
  return s;
}

Sprite make_boat(const Palette& c, Dice& d) {
  const float deck = d.real(0.15f, 0.35f), keel = d.real(0.55f, 0.75f);
  const float bow = d.real(0.4f, 0.75f), stern = d.real(0.55f, 0.85f), half = d.real(0.8f, 0.98f);
  Sprite s;
  if (d.chance(0.55f)) {  // sails
    const float mast = d.real(-0.15f, 0.2f), top = d.real(-0.98f, -0.75f), boom = deck - d.real(0.08f, 0.2f);
    const float reach = d.real(0.4f, 0.75f);
    s.push_back(polygon({{mast + 0.06f, top + 0.05f}, {mast + 0.06f, boom}, {mast + reach, boom}}, c.second));
    if (d.chance(0.6f)) {
      s.push_back(
          polygon({{mast - 0.06f, top + 0.15f}, {mast - 0.06f, boom}, {mast - reach * 0.8f, boom}}, c.third));
    }
    s.push_back(line({mast, top}, {mast, deck}, 0.035f, c.fourth));
  } else {  // cabin and funnel
    const float width = d.real(0.25f, 0.5f), top = deck - d.real(0.3f, 0.5f), x = d.real(-0.2f, 0.2f);
    const float funnel = x + d.real(-0.6f, 0.6f) * width, height = d.real(0.2f, 0.4f);
    s.push_back(box({funnel, top - height / 2}, {0.09f, height / 2 + 0.03f}, c.third));
    s.push_back(box({x, (top + deck) / 2}, {width, (deck - top) / 2 + 0.02f}, c.second));
    const float porthole = d.real(0.05f, 0.09f);
    for (float k : {-0.55f, 0.0f, 0.55f})
      s.push_back(disc({x + k * width, (top + deck) / 2}, porthole, c.fourth));
  }
  s.push_back(polygon({{-half, deck}, {half, deck}, {bow, keel}, {-stern, keel}}, c.main, 0.03f));
  if (d.chance(0.5f))
    s.push_back(line({-half * 0.9f, deck + 0.12f}, {half * 0.9f, deck + 0.12f}, 0.03f, c.third));
  return s;
}

Sprite make_house(const Palette& c, Dice& d) {
  const float half = d.real(0.5f, 0.75f), eaves = d.real(-0.25f, 0.1f), floor = d.real(0.65f, 0.9f);
  const float ridge = eaves - d.real(0.4f, 0.65f), overhang = d.real(0.05f, 0.2f),
              flat = d.real(0, 0.4f) * half;
  Sprite s;
  if (d.chance(0.5f)) {
    const float x = d.real(0.2f, 0.5f) * half * 1.2f;
    s.push_back(box({x, (eaves + ridge) / 2 - 0.05f}, {0.08f, 0.28f}, c.fourth));
  }
  s.push_back(box({0, (eaves + floor) / 2}, {half, (floor - eaves) / 2}, c.main));
  s.push_back(polygon({{-half - overhang, eaves}, {-flat, ridge}, {flat, ridge}, {half + overhang, eaves}},
                      c.second, 0.02f));
  const float door = d.real(-0.5f, 0.5f) * half, height = (floor - eaves) * d.real(0.4f, 0.6f);
  s.push_back(box({door, floor - height / 2}, {d.real(0.1f, 0.16f), height / 2}, c.third));
  const float pane = d.real(0.08f, 0.14f), row = eaves + d.real(0.15f, 0.3f);
  for (float x : {-0.6f, 0.6f}) {
    if (d.chance(0.8f)) s.push_back(box({x * half, row}, {pane, pane}, c.fourth));
  }
  return s;
}

Sprite make_tree(const Palette& c, Dice& d) {
  const float base = d.real(0.8f, 0.98f), width = d.real(0.07f, 0.15f), fork = d.real(0.1f, 0.4f);
  Sprite s;
  s.push_back(polygon(
      {{-width * 0.7f, fork - 0.3f}, {width * 0.7f, fork - 0.3f}, {width, base}, {-width, base}}, c.second));
  if (d.chance(0.5f)) {  // crown of leaves
    const int lobes = d.between(4, 7);
    for (int i = 0; i < lobes; ++i) {
      const Point p = {d.real(-0.4f, 0.4f), d.real(-0.65f, 0.05f)};
      s.push_back(disc(p, d.real(0.25f, 0.42f), mix(c.main, c.third, 0.25f * static_cast<float>(i % 2))));
    }
  } else {  // tiers
    const int tiers = d.between(2, 4);
    const float half = d.real(0.45f, 0.7f), top = d.real(-0.98f, -0.8f), step = (fork - top) / (tiers + 0.6f);
    for (int i = tiers - 1; i >= 0; --i) {
      const float y = top + i * step, w = half * (0.55f + 0.45f * (i + 1) / tiers);
      s.push_back(polygon({{0, y}, {w, y + 1.6f * step}, {-w, y + 1.6f * step}},
                          mix(c.main, c.third, 0.25f * static_cast<float>(i % 2))));
    }
  }
  return s;
}

Sprite make_fish(const Palette& c, Dice& d) {
  const float height = d.real(0.28f, 0.5f), tail = d.real(0.25f, 0.5f), notch = d.real(0.05f, 0.2f);
  const float body = d.real(0.55f, 0.7f), x = -0.2f;
  Sprite s;
  s.push_back(
      polygon({{x + body - 0.1f, 0}, {0.95f, -tail}, {0.95f - notch, 0}, {0.95f, tail}}, c.second, 0.02f));
  const float fin = d.real(0.12f, 0.35f), lean = d.real(0, 0.3f);
  s.push_back(polygon({{x - 0.25f, -height * 0.7f}, {x + lean, -height - fin}, {x + 0.35f, -height * 0.6f}},
                      c.second));
  if (d.chance(0.5f)) {
    s.push_back(polygon(
        {{x - 0.1f, height * 0.7f}, {x + lean, height + fin * 0.7f}, {x + 0.25f, height * 0.7f}}, c.second));
  }
  s.push_back(ellipse({x, 0}, {body, height}, c.main));
  const int stripes = d.chance(0.5f) ? d.between(1, 3) : 0;
  for (int i = 0; i < stripes; ++i) {
    const float at = x - 0.1f + 0.22f * static_cast<float>(i),
                h = height * (0.75f - 0.15f * static_cast<float>(i));
    s.push_back(line({at, -h}, {at, h}, 0.045f, c.third));
  }
  s.push_back(disc({x - body * 0.6f, -height * 0.25f}, d.real(0.07f, 0.11f), c.fourth));
  return s;
}

Sprite make_mug(const Palette& c, Dice& d) {
  const float half = d.real(0.4f, 0.6f), taper = d.real(0.75f, 1.05f), top = d.real(-0.7f, -0.4f);
  const float bottom = d.real(0.5f, 0.8f), lip = d.real(0.08f, 0.18f), handle = d.real(0.2f, 0.34f);
  const float middle = (top + bottom) / 2 + d.real(-0.1f, 0.05f), tall = d.real(1, 1.4f),
              band = d.real(0.05f, 0.09f);
  Sprite s;
  s.push_back(ring(ellipse({half * 0.95f, middle}, {handle, handle * tall}, c.main), band));
  s.push_back(
      polygon({{-half, top}, {half, top}, {half * taper, bottom}, {-half * taper, bottom}}, c.main, 0.04f));
  if (d.chance(0.5f)) {
    const float y = d.real(top + 0.3f, bottom - 0.2f);
    s.push_back(box({0, y}, {half * 0.95f, d.real(0.05f, 0.12f)}, c.third));
  }
  s.push_back(ellipse({0, top}, {half + 0.04f, lip}, c.second));
  s.push_back(ellipse({0, top + 0.02f}, {half - 0.06f, lip * 0.65f}, c.fourth));
  return s;
}

Sprite make_key(const Palette& c, Dice& d) {
  const float bow = d.real(0.27f, 0.4f), width = d.real(0.07f, 0.11f), shaft = d.real(0.055f, 0.09f);
  const float end = d.real(0.75f, 0.95f), x = -0.55f;
  Sprite s;
  const int shape = d.below(3);
  if (shape == 0) s.push_back(ring(disc({x, 0}, bow, c.main), width));
  if (shape == 1) s.push_back(ring(ellipse({x, 0}, {bow * 0.85f, bow * 1.2f}, c.main), width));
  if (shape == 2) s.push_back(ring(regular({x, 0}, bow * 1.15f, d.between(4, 6), 0, c.main), width));
  s.push_back(line({x + bow, 0}, {end, 0}, shaft, c.main));
  const int teeth = d.between(2, 3);
  for (int i = 0; i < teeth; ++i) {
    const float at = end - 0.05f - 0.2f * static_cast<float>(i), length = d.real(0.15f, 0.35f);
    s.push_back(box({at, length / 2}, {0.06f, length / 2 + 0.03f}, c.main));
  }
  if (d.chance(0.4f)) s.push_back(box({x + bow + 0.12f, 0}, {0.05f, shaft + 0.07f}, c.second));
  return s;
}

Sprite make_mushroom(const Palette& c, Dice& d) {
  const float brim = d.real(-0.1f, 0.15f), half = d.real(0.6f, 0.9f), height = d.real(0.5f, 0.85f);
  const float stem = d.real(0.14f, 0.28f), foot = stem * d.real(0.9f, 1.5f), base = d.real(0.7f, 0.92f);
  Sprite s;
  s.push_back(
      polygon({{-stem, brim - 0.1f}, {stem, brim - 0.1f}, {foot, base}, {-foot, base}}, c.second, 0.04f));
  if (d.chance(0.3f)) s.push_back(ellipse({0, brim + 0.25f}, {stem + 0.1f, 0.06f}, c.third));
  s.push_back(ellipse({0, brim}, {half, d.real(0.06f, 0.14f)}, c.fourth));
  s.push_back(dome({0, brim}, {half, height}, c.main));
  const int spots = d.below(5);
  for (int i = 0; i < spots; ++i) {
    const Point p = {d.real(-0.6f, 0.6f) * half, brim - d.real(0.15f, 0.6f) * height};
    s.push_back(disc(p, d.real(0.06f, 0.13f), c.third));
  }
  return s;
}

}  // namespace

Sprite make_object(int label, const Palette& palette, Dice& dice) {
  using Make = Sprite (*)(const Palette&, Dice&);
  constexpr Make makers[kClasses] = {make_car,  make_boat, make_house, make_tree,
                                     make_fish, make_mug,  make_key,   make_mushroom};
  return makers[label](palette, dice);
}

void draw_object(int label, Canvas& canvas, Dice& dice) {
  const Palette palette = choose_palette(canvas, dice);
  const Sprite object = make_object(label, palette, dice);
  paint_lit(canvas, object, throw_pose(dice, 0.3f), dice);
}

}  // namespace poem::world
