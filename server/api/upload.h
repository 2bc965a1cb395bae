/* upload.h - a file that came with a call: its kind, the text in it, what its translation is
 * called.
 *
 * Kinds go by the name's extension. Nothing of a name is ever a path here: of the part behind the
 * last slash, what no file system minds is kept. Reading and making one may take long for a large
 * file, and any thread may do it; the rest is the loop's.
 */
#ifndef SERVER_API_UPLOAD_H
#define SERVER_API_UPLOAD_H

#include "api/blob.h"
#include "api/fields.h"
#include "content/charset.h"
#include "serve/translate.h"

enum { UPLOAD_NAME_BYTES = 192 };

struct upload_kind {
    const char *extension; /* ".txt" */
    const char *type;      /* for Content-Type */
    enum srv_format format;
};

/* Ends with one without extension. */
extern const struct upload_kind upload_kinds[];

struct upload {
    int rc; /* of opening: not 0 is that `error` says why nothing can be done with it */
    struct srv_error error;
    const struct upload_kind *kind;
    char name[UPLOAD_NAME_BYTES]; /* a valid file name, with the kind's extension as it came */
    struct charset_text text;
    size_t n_chars;
    bool keeps_ascii; /* its encoding is not known but for ASCII */
};

/* Reads what fields_read() found; the name may be in the field `filename`, too. NULL: no
 * memory. */
struct upload *upload_open(struct fields *fields);
void upload_close(struct upload *upload); /* NULL is allowed */

/* The file of a translation, for downloading; owned, NULL is no memory. Any thread. */
struct blob *upload_result(const struct upload *upload, const char *translation, size_t bytes,
                           const char *target);

/* "letter.txt" in "de" is "letter_de.txt". */
void upload_result_name(const struct upload *upload, const char *target,
                        char name[UPLOAD_NAME_BYTES]);

#endif
