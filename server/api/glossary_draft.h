/* glossary_draft.h - what a call of DeepL's says of a glossary: a name, and dictionaries with their
 * entries read. Reading takes long for many entries: any thread, one at a time.
 */
#ifndef SERVER_API_GLOSSARY_DRAFT_H
#define SERVER_API_GLOSSARY_DRAFT_H

#include "api/fields.h"
#include "serve/glossaries.h"

extern const char *const glossary_draft_fields[];

/* Refuses fields that no call has, as they are, before any of the rest is asked for: texts, and at
 * most GLOSSARY_MAX_PARTS dictionaries of texts. What else those have is left out, so that fields
 * which wait take as much as their texts. */
int glossary_draft_check(const struct fields *fields, struct srv_error *error);

struct glossary_draft {
    const char *name;            /* borrowed from the fields; NULL: none is given */
    struct glossary_part *parts; /* owned, their dictionaries too; no pair twice */
    size_t n_parts;
};
void glossary_draft_fini(struct glossary_draft *draft);

/* The pair alone, in lower case and without regions. */
int glossary_draft_pair(const struct fields *fields, struct glossary_part *part,
                        struct srv_error *error);

int glossary_draft_name(const struct fields *fields, bool is_required, struct glossary_draft *draft,
                        struct srv_error *error);

/* One dictionary, from the fields themselves. */
int glossary_draft_part(const struct fields *fields, struct glossary_draft *draft,
                        struct srv_error *error);

/* Those of the field `dictionaries`: at least one, if they are required, and at most `most`. */
int glossary_draft_parts(const struct fields *fields, bool is_required, size_t most,
                         struct glossary_draft *draft, struct srv_error *error);

/* Puts the entries of `before` in front of a part's own. Those of terms that it has, too, go. */
int glossary_draft_merge(struct glossary_part *part, const struct dictionary *before,
                         struct srv_error *error);

#endif
