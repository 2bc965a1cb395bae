/* place.h - where in a translated sentence the marks of its source belong.
 *
 * The target is cut into units: words, and characters that are none. Each knows by the alignments
 * where in the source it comes from. An element becomes the range of units that come from within
 * it, inside of its parent's and beside its siblings; a point goes beside the unit of the word that
 * it stood beside. A term takes the place of the units that come from it, or where there are none
 * stands like a point. What comes out is a tree again, in the order of the target. Any thread.
 */
#ifndef SERVER_CONTENT_PLACE_H
#define SERVER_CONTENT_PLACE_H

#include "content/prose.h"

struct place_unit {
    size_t begin, end;          /* in the target */
    size_t first_token, tokens; /* those of `alignments` that it has a part of */
    size_t bound;               /* where it surely comes from; SIZE_MAX: alignments tell */
    uint32_t owner;             /* the innermost node that has it; 0 is the sentence */
    uint32_t term, n_units;     /* units from here are the translation of term `term - 1` already */
    bool is_dropped;            /* a mask too many */
};

enum place_kind {
    PLACE_POINT,
    PLACE_ELEMENT,
    PLACE_UNIT /* stands in the place of units: a mask, a term */
};

struct place_node {
    enum place_kind kind;
    uint32_t mark;     /* its opening, if it has one in this sentence */
    uint32_t close;    /* mark; UINT32_MAX: none */
    bool has_open;     /* of elements: its opening tag is in this sentence */
    uint32_t parent;   /* 0: the sentence */
    size_t begin, end; /* units; of a point the gap before `begin` */
    bool is_left;      /* of a point: at the end of the unit before */
    size_t key;        /* orders siblings */
};

struct place {
    const struct prose *prose;
    size_t first_mark, end_mark; /* those within the sentence */
    struct acre_range source, target;
    const char *text; /* of the whole translation */
    const struct acre_alignment *alignments;
    size_t n_alignments;      /* of this sentence */
    struct place_unit *units; /* owned */
    size_t n_units;
    struct place_node *nodes; /* owned; nodes[0] is the sentence, parents are before children */
    size_t n_nodes;
    uint32_t *order; /* owned: nodes by parent and key, but for the sentence */
};

/* Fills units and nodes from what is above them. False: no memory. */
bool place_marks(struct place *place);
void place_fini(struct place *place);

/* Where in `order` the children of a node begin, and how many there are. */
size_t place_children(const struct place *place, uint32_t parent, size_t *n);

#endif
