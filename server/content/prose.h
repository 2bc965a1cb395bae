/* prose.h - what of a document is to be translated, and what stands in it that is not.
 *
 * A document (HTML, or text with placeholders) becomes a plain text for the engine and marks: tags,
 * placeholders and whatever else has its place in that text but no words for a translator. Each
 * mark is a range of the document and comes out of rendering (render.h) exactly once, byte by byte
 * as it was; the words around come from the translation, and what became of spellings. Marks at the
 * edge of a sentence or between sentences stay where they are; those within are placed by the
 * alignments of the engine.
 *
 * Time and memory grow with the bytes of the document alone, however deep it nests. Any thread, one
 * at a time; what was read is constant afterwards.
 */
#ifndef SERVER_CONTENT_PROSE_H
#define SERVER_CONTENT_PROSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "content/known.h"
#include "content/html_token.h" /* enum html_syntax */

enum prose_kind {
    PROSE_POINT, /* a place between characters */
    PROSE_TAG,   /* likewise: a tag without partner, which keeps its order among other tags */
    PROSE_OPEN,  /* where an element begins; its partner is the PROSE_CLOSE */
    PROSE_CLOSE,
    PROSE_APART,    /* a sign between sentences: in the text it is the end of a line */
    PROSE_MASK,     /* stands in the text as n bytes that translators copy, e.g. "X1" */
    PROSE_SPELLING, /* a letter that stands in the text as n bytes which models read: "'" for "ʼ" */
    PROSE_TERM,     /* n bytes of the text whose translation is known (terms.h) */
    PROSE_SECTION,  /* a CDATA section of XML begins whose text is markup, escaped as such, */
    PROSE_PLAIN,    /* or one whose text is plain: nothing in it is escaped */
    PROSE_SECTION_END
};

struct prose_mark {
    uint32_t at;         /* in `text` */
    uint32_t raw, n_raw; /* the range of the document; not of a term */
    uint32_t partner;    /* index of a mark; of a term: of `terms` */
    uint16_t n;          /* bytes of the text that stand for it */
    uint8_t kind;
    uint8_t glue; /* of a mask, which letters touch: see prose_mask() */
};

/* What a term is called in the translation. */
struct prose_term {
    const char *target; /* borrowed from a dictionary */
    uint32_t bytes;
    bool is_raised; /* its first letter is a capital because a sentence begins with it */
};

/* A line of the text that is the value of an attribute, which stands in the raw bytes of a mark. */
struct prose_value {
    uint32_t raw, n_raw; /* between its quotes */
    uint32_t at, n;      /* in `text` */
};

struct prose {
    const char *document; /* borrowed */
    size_t document_bytes;
    bool is_markup; /* lines of the text are its blocks; and it is escaped when it is rendered, */
    bool is_plain;  /* unless the document has no escapes */
    bool is_xml;    /* &nbsp; is no name there */
    char *text;     /* owned; what the engine is to translate. UTF-8 like the document */
    size_t text_bytes, text_capacity;
    struct prose_mark *marks; /* owned, in the order of the document */
    size_t n_marks, marks_capacity;
    struct prose_value *values; /* owned, in the order of the document */
    size_t n_values, values_capacity;
    struct prose_term *terms; /* owned */
    size_t terms_bytes;       /* of what they are called, together */
    size_t body_bytes;        /* of the text, before the values of attributes */
    uint32_t *breaks;         /* owned: blanks of the text that end a line of the document */
    size_t n_breaks, breaks_capacity;
    const char *line_end; /* static: of the document, whose lines are broken with it */
    char mask[4];         /* what masks begin with; "" if there are none */
    size_t n_masked;      /* marks up to the last mask */
    bool no_memory;
};

/* Letters that touch a placeholder would make another word of its mask. They are masked with it:
 * "{count}px" is a name and stays as it is. Where a tag is between them the text has a blank there,
 * which is of the mark and no part of the mask. */
enum { PROSE_GLUED_BEFORE = 1, PROSE_GLUED_AFTER = 2 };

/* Where in the text a mask stands; of other marks what `at` and `n` say. */
struct acre_range prose_mask(const struct prose_mark *mark);

/* A sentence of the text, and the marks that have their place within it. */
struct prose_sentence {
    const struct prose *prose;
    struct acre_range range;
    size_t first_mark, end_mark;
};

/* Of an element. */
struct prose_name {
    const char *text;
    size_t bytes;
};

/* What an HTML or XML document is read with. */
struct prose_markup {
    enum html_syntax syntax;          /* of a page, XHTML or XML */
    bool has_lines;                   /* ends of lines within its text end lines of the prose */
    bool with_attributes;             /* translate alt, title and placeholder, too */
    const struct prose_name *ignored; /* [n_ignored]: elements that are kept as they are */
    size_t n_ignored;
};

/* Text with placeholders; what the model cannot read is one, too, unless terms have it. Without
 * any, the prose has no marks: translate the text as it is. */
int prose_read_text(const char *document, size_t bytes, const struct known *known,
                    struct prose *prose, struct acre_err *err);

/* HTML as browsers read it, or XML. `document` is borrowed until prose_fini(). */
int prose_read_markup(const char *document, size_t bytes, const struct prose_markup *markup,
                      const struct known *known, struct prose *prose, struct acre_err *err);

/* The speech in subtitles, SubRip's or WebVTT's: numbers and times are marks. A speech is one
 * paragraph, whatever lines it stands in, and comes out in as many. */
int prose_read_subtitles(const char *document, size_t bytes, bool is_vtt, const struct known *known,
                         struct prose *prose, struct acre_err *err);
void prose_fini(struct prose *prose);

/* Where in the document a range of the text stands: of text only, no markup. A mask is its whole
 * placeholder. */
struct acre_range prose_in_document(const struct prose *prose, struct acre_range in_text);

/* ---- For readers of documents ---------------------------------------------------------------- */

/* Whole characters. */
void prose_add_text(struct prose *prose, const char *text, size_t bytes);

/* Returns its index. Points that follow each other in document and text become one. */
size_t prose_add_mark(struct prose *prose, enum prose_kind kind, size_t raw, size_t n_raw);

/* A sign with a sentence on each side of it: a PROSE_APART. Not in markup, whose lines are free. */
void prose_add_apart(struct prose *prose, size_t raw, size_t n_raw);

/* A letter whose place other characters take in the text, and in the translation what they become.
 */
void prose_add_spelling(struct prose *prose, size_t raw, size_t n_raw, const char *text);

/* Notes the value of an attribute, whose line of the text is still to come. */
void prose_add_value(struct prose *prose, size_t raw, size_t n_raw);

/* A line of the document ends at the blank that is written next. */
void prose_add_break(struct prose *prose);

/* A mark that masks raw bytes: "X1", or a place where the text has all names for masks. Begins as
 * zeros. */
struct prose_masks {
    unsigned prefix; /* which of those that masks may begin with */
    unsigned n;      /* in this sentence, so far */
};

/* Whether words of the text look like masks, also such as a tag parts in the document. All that was
 * added is gone then, and the document is to be read again, with other masks. */
bool prose_masks_fail(struct prose *prose, struct prose_masks *masks);
void prose_add_mask(struct prose *prose, struct prose_masks *masks, size_t raw, size_t n_raw);

/* The bytes of the character at `raw`, before `end` of the document, if it touches a mask and was
 * masked with it; 0: it is text. */
size_t prose_extend_mask(struct prose *prose, size_t raw, size_t end);

#endif
