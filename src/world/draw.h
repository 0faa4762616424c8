// A small anti-aliased painter: shapes by signed distance, value noise, and the background and camera that
// all sets of the embedded world share. Lengths are in frame units: the image is a frame of 32 × 32 units at
// any resolution of the canvas. Pixels are computed with + − × ÷ and square roots only, so compilers agree.
//
//   Canvas canvas;
//   paint_background(canvas, dice);
//   paint(canvas, {disc({0, 0}, 0.5f, dice.colour())}, throw_pose(dice, 0.4f));
//   photograph(canvas, dice, out);
#pragma once
#include <cstdint>
#include <vector>

#include "poem/random.h"

namespace poem::world {

constexpr int kSide = 32;

struct Point {
  float x, y;
};
struct Colour {  // 0 is black, 1 full
  float r, g, b;
};
Colour mix(Colour a, Colour b, float t);  // a at t = 0, b at t = 1
float triangle_wave(float t);             // period 1, −1 … 1

// Random choices. Make one call per statement or in braces, which are evaluated from left to right; the
// compiler chooses the order in which function arguments are evaluated.
class Dice {
 public:
  explicit Dice(Stream& stream) : stream_(stream) {}
  float real(float low, float high) { return low + (high - low) * static_cast<float>(stream_.uniform()); }
  int below(int n) { return static_cast<int>(stream_.below(n)); }
  int between(int low, int high) { return low + below(high - low + 1); }  // both ends included
  bool chance(float p) { return real(0, 1) < p; }
  float sign() { return chance(0.5f) ? 1.0f : -1.0f; }
  Point point(float low, float high) { return {real(low, high), real(low, high)}; }
  Colour colour();
  uint32_t bits() { return stream_.bits(); }

 private:
  Stream& stream_;
};

// One piece of an object, in object coordinates: about −1 … 1, y pointing down.
struct Part {
  enum Kind { kPolygon, kEllipse, kLine };
  Kind kind;
  std::vector<Point> points;  // polygon: corners; ellipse: centre and radii; line: the two ends
  float round;                // added around the shape (the radius of a line)
  float outline;              // > 0: only a band of this half-width along the edge
  Colour colour;
  float alpha = 1;
};
using Sprite = std::vector<Part>;

Part polygon(std::vector<Point> corners, Colour colour, float round = 0);
Part box(Point centre, Point half, Colour colour, float round = 0);
Part ellipse(Point centre, Point radii, Colour colour);
Part disc(Point centre, float radius, Colour colour);
Part line(Point from, Point to, float radius, Colour colour);
Part ring(Part part, float half_width);                                            // only its edge
Part regular(Point centre, float radius, int corners, float turn, Colour colour);  // a regular polygon
Part star(Point centre, float radius, float inner, int spikes, float turn, Colour colour);
Part dome(Point centre, Point radii, Colour colour);  // the upper half of an ellipse

// Maps object to frame coordinates: a linear map, a slight perspective and a position.
struct Pose {
  float xx, xy, yx, yy;  // frame = place + matrix · object
  Point place;
  Point tilt;  // perspective: object coordinates are divided by 1 − tilt · object
};
Pose place(Point centre, float size, float turn = 0);
// A random pose near the middle, with the size, stretch, shear, tilt and mirroring that every object gets.
Pose throw_pose(Dice& dice, float max_turn);

struct Canvas {
  int side = kSide;    // pixels
  float scale = 1;     // pixels per frame unit
  Point origin{0, 0};  // frame coordinates of the upper left corner
  std::vector<Colour> pixels = std::vector<Colour>(kSide * kSide);

  Point at(int x, int y) const { return {origin.x + (x + 0.5f) / scale, origin.y + (y + 0.5f) / scale}; }
};
Canvas enlarge(const Canvas& canvas, int factor);  // a 32×32 canvas, each pixel repeated
Canvas shrink(const Canvas& canvas);               // to 32×32, by area

// Four colours. The first differs from the mean of the canvas, so that what is drawn can be seen.
struct Palette {
  Colour main, second, third, fourth;
};
Palette choose_palette(const Canvas& canvas, Dice& dice);

void paint(Canvas& canvas, const Part& part, const Pose& pose);
void paint(Canvas& canvas, const Sprite& sprite, const Pose& pose);
// With the shading that objects get: light from a random side and sometimes a dark contour.
void paint_lit(Canvas& canvas, const Sprite& sprite, const Pose& pose, Dice& dice);

// Value noise on the unit square, about −1 … 1: `octaves` lattices, each twice as fine as the one before.
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

// The background of every image: gradient, noise or two halves, and clutter.
void paint_background(Canvas& canvas, Dice& dice);

// The camera of every image: light, exposure, colour cast, blur, sensor noise. Writes 3×32×32 bytes to `out`.
void photograph(Canvas& canvas, Dice& dice, uint8_t* out);

}  // namespace poem::world
