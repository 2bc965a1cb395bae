/* html.h - a picture of attention as a page for browsers.
 *
 * It stands by itself: no scripts, nothing from elsewhere, and it can be read as XML too. Main
 * thread.
 */
#ifndef SERVER_ATTENTION_HTML_H
#define SERVER_ATTENTION_HTML_H

#include <stdio.h>

#include "attention/picture.h"

void attention_html_write(const struct attention_picture *picture, FILE *out);

#endif
