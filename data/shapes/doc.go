// Package shapes draws a picture set by code, so that a demo and tests need no download.
//
// Each picture is 64 × 64 RGB and shows one to three objects on a varying background with lines and noise. An object has a shape (circle, square,
// triangle, star, ring), a colour (red, green, blue, yellow) and perhaps a texture (striped, dotted, checkered). These are the 12 labels; a label
// is 1 where any object of the picture has it. They co-occur (circles are often red, stars yellow, squares blue, triangles green), a fifth of the objects is
// small, and small objects and rings have no texture.
//
// A picture is a function of (seed, index): [Draw] uses integers only, so every machine draws the same bytes. [New] gives a data set whose train, val and
// test pictures come from ranges of the index that never meet, whatever their sizes.
//
// All functions are safe for many goroutines.
package shapes
