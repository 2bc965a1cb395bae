/* svg.h - a picture of attention as one SVG, for papers. It stands by itself. Main thread.
 */
#ifndef SERVER_ATTENTION_SVG_H
#define SERVER_ATTENTION_SVG_H

#include <stdio.h>

#include "attention/picture.h"

/* -1 without memory; then nothing is written. */
int attention_svg_write(const struct attention_picture *picture, FILE *out);

#endif
