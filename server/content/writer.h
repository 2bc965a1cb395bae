/* writer.h - a document in the words of its translation, while it is written.
 *
 * Bytes of the document come as they are, words are escaped where it is markup; a term stands apart
 * from the words beside it, and a line of subtitles is broken into as many as it had. What can go
 * wrong is memory, a flag that is looked at when what was written is taken. Belongs to one render.
 */
#ifndef SERVER_CONTENT_WRITER_H
#define SERVER_CONTENT_WRITER_H

#include "content/prose.h"
#include "content/trace.h"

struct writer {
    const struct prose *prose;
    const struct acre_result *result; /* NULL: there is none, or sentences come one by one */
    const struct acre_hypothesis *hypothesis;
    char *text; /* owned */
    size_t bytes, capacity;
    size_t n_taken;    /* of the document: bytes before `text` */
    char last[2];      /* the end of those */
    size_t line;       /* of `text`: where this line of the prose, with its marks, begins */
    size_t next_break; /* of the prose's */
    bool is_section;   /* CDATA, of XML */
    bool is_plain;     /* nothing is escaped */
    bool is_value;     /* of an attribute: quotes are escaped, too */
    bool is_behind;    /* a term or a mask, from which the next word must stand apart */
    bool has_word;     /* at the end of what was taken */
    bool is_traced;
    struct trace trace; /* of the sentence at work */
    bool no_memory;
};

/* Words, escaped where the document is markup; those of a translation are traced. */
void writer_text(struct writer *writer, const char *text, size_t n);
void writer_words(struct writer *writer, const char *text, size_t first, size_t n);

/* The bytes of the document that a mark is; translated values take the place of those in them. */
void writer_raw(struct writer *writer, const struct prose_mark *mark);

/* A blank, if a word is before; and one before the next word, if that follows at once. */
void writer_stand_apart(struct writer *writer);
void writer_leave_apart(struct writer *writer);

/* A term as its dictionary has it, apart from words. What is raised gets a capital, unless its
 * first word has one somewhere. writer_reach_term() comes first. */
void writer_reach_term(struct writer *writer, const struct prose_mark *mark);
void writer_term(struct writer *writer, const struct prose_mark *mark, bool is_raised);

/* A line of the prose, which ends at `end`, gets as many lines as it had in the document. */
void writer_break_line(struct writer *writer, size_t end);

/* What was written, owned by the caller; NULL: no memory. */
char *writer_take(struct writer *writer);
void writer_fini(struct writer *writer);

#endif
