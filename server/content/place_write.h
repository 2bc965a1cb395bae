/* place_write.h - writes a sentence's translation with the marks of its source where they belong
 * (place.h).
 */
#ifndef SERVER_CONTENT_PLACE_WRITE_H
#define SERVER_CONTENT_PLACE_WRITE_H

#include "content/place.h"
#include "content/writer.h"

/* Where terms and masks stand is noted, if the writer traces. */
void place_write(struct writer *writer, const struct place *place);

#endif
