// A small anti-aliased painter: shapes by signed distance, value noise, and the background and camera that
// all sets of the embedded world share. Lengths are in frame units: the 32×32 image is a frame of 32 units,
// whatever the resolution of the canvas. Only + − × ÷ and square roots touch pixels, so that compilers agree.
//
//   Canvas canvas;
//   paint_background(canvas, dice);
//   paint(canvas, {disc({0, 0}, 0.5f, dice.color())}, throw_pose(dice, 0.4f));
//   photograph(canvas, dice, out);
#pragma once
#include <cstdint>
#include <vector>

#include "core/random.h"

namespace poem::world {

constexpr int kSide = 32;

struct Point {
  float x, y;
};
struct Color {  // 0 is black, 1 full
  float r, g, b;
};
Color mix(Color a, Color b, float t);  // a at t = 0, b at t = 1
float triangle_wave(float t);          // period 1, −1 … 1

// Random choices. Calls must be sequenced by hand: the order of evaluation of function arguments is the
// compiler's, that of braces is left to right.
class Dice {
 public:
  explicit Dice(Stream& stream) : stream_(stream) {}
  float real(float low, float high) { return low + (high - low) * static_cast<float>(stream_.uniform()); }
  int below(int n) { return static_cast<int>(stream_.below(n)); }
  int between(int low, int high) { return low + below(high - low + 1); }  // both ends included
  bool chance(float p) { return real(0, 1) < p; }
  float sign() { return chance(0.5f) ? 1.0f : -1.0f; }
  Point point(float low, float high) { return {real(low, high), real(low, high)}; }
  Color color();
  uint32_t bits() { return stream_.bits(); }

 private:
  Stream& stream_;
};

// One piece of an object, in object coordinates: about −1 … 1, y pointing down.
struct Part {
  enum Kind { kPolygon, kEllipse, kLine };
  Kind kind;
  std::vector<Point> points;  // corners; centre and radii; two ends
  float round;                // added around the shape (the radius of a line)
  float outline;              // > 0: only a band of this half-width along the edge
  Color color;
  float alpha = 1;
};
using Sprite = std::vector<Part>;

Part polygon(std::vector<Point> corners, Color color, float round = 0);
Part box(Point centre, Point half, Color color, float round = 0);
Part ellipse(Point centre, Point radii, Color color);
Part disc(Point centre, float radius, Color color);
Part line(Point from, Point to, float radius, Color color);
Part ring(Part part, float half_width);                                          // only its edge
Part regular(Point centre, float radius, int corners, float turn, Color color);  // a regular polygon
Part star(Point centre, float radius, float inner, int spikes, float turn, Color color);
Part dome(Point centre, Point radii, Color color);  // the upper half of an ellipse

// Object to frame: a linear map, a slight perspective and a place.
struct Pose {
  float xx, xy, yx, yy;  // frame = place + matrix · object
  Point place;
  Point tilt;  // perspective: object coordinates are divided by 1 − tilt · object
};
Pose place(Point centre, float size, float turn = 0);
// Somewhere near the middle, with the size, stretch, shear, tilt and mirroring that every object gets.
Pose throw_pose(Dice& dice, float max_turn);

struct Canvas {
  int side = kSide;    // pixels
  float scale = 1;     // pixels a frame unit
  Point origin{0, 0};  // frame coordinates of the upper left corner
  std::vector<Color> pixels = std::vector<Color>(kSide * kSide);

  Point at(int x, int y) const { return {origin.x + (x + 0.5f) / scale, origin.y + (y + 0.5f) / scale}; }
};
Canvas enlarge(const Canvas& canvas, int factor);  // a 32×32 canvas, each pixel repeated
Canvas shrink(const Canvas& canvas);               // to 32×32, by area

// Four colours; the first is unlike the mean of the canvas, so that what is drawn can be seen.
struct Palette {
  Color main, second, third, fourth;
};
Palette choose_palette(const Canvas& canvas, Dice& dice);

void paint(Canvas& canvas, const Part& part, const Pose& pose);
void paint(Canvas& canvas, const Sprite& sprite, const Pose& pose);
// With the shading that objects get: a light from somewhere, at times a dark contour.
void paint_lit(Canvas& canvas, const Sprite& sprite, const Pose& pose, Dice& dice);

// Value noise on the unit square, about −1 … 1: `octaves` lattices, each twice as fine as the last.
class Noise {
 public:
  Noise(int cells, int octaves, Dice& dice);
  float at(float u, float v) const;

 private:
  struct Lattice {
    int cells;
    float weight;
    std::vector<float> values;
  };
  std::vector<Lattice> lattices_;
};

// What is behind everything: gradient, noise or two halves, and clutter.
void paint_background(Canvas& canvas, Dice& dice);

// What is in front of everything: light, exposure, colour cast, blur, sensor noise; then 3×32×32 bytes.
void photograph(Canvas& canvas, Dice& dice, uint8_t* out);

}  // namespace poem::world
