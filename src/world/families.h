// The contents of the embedded world's sets. Every function but draw_procedural draws onto a canvas that
// already has its background; the camera is applied afterwards.
#pragma once
#include <array>

#include "world/draw.h"

namespace poem::world {

constexpr int kClasses = 8;
constexpr std::array<const char*, kClasses> kClassNames = {"car",  "boat", "house", "tree",
                                                           "fish", "mug",  "key",   "mushroom"};

Sprite make_object(int label, const Palette& palette, Dice& dice);
void draw_object(int label, Canvas& canvas, Dice& dice);

// Draws one of many families, all equally likely, and returns its index.
constexpr std::array<const char*, 24> kOutlierNames = {
    "stripes", "noise", "background", "crowd", "collage", "polygons", "stars",    "strokes",
    "blobs",   "rings", "arrow",      "leaf",  "flower",  "animal",   "bird",     "furniture",
    "face",    "cart",  "bowl",       "tower", "tool",    "bottle",   "umbrella", "chimera"};
int draw_outlier(Canvas& canvas, Dice& dice);

// Draws a picture of one of thirteen families that follow a rule and show no whole object, all equally
// likely. The canvas may be empty: families that need a background paint it. The family is the first draw
// from the dice, so `procedural_family` with fresh dice tells it without drawing.
constexpr std::array<const char*, 13> kProceduralNames = {
    "fractal", "julia",   "dead-leaves", "spectrum", "labyrinth", "contours", "voronoi",
    "gabor",   "ripples", "tangle",      "glyphs",   "automaton", "pieces"};
inline int procedural_family(Dice& dice) { return dice.below(static_cast<int>(kProceduralNames.size())); }
int draw_procedural(Canvas& canvas, Dice& dice);

void draw_digits(Canvas& canvas, Dice& dice);
void draw_textures(Canvas& canvas, Dice& dice);
void draw_scenes(Canvas& canvas, Dice& dice);
void draw_cropped(Canvas& canvas, Dice& dice);
void draw_resized(Canvas& canvas, Dice& dice);
void draw_patches(Canvas& canvas, Dice& dice);

}  // namespace poem::world
