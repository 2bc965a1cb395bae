/* place.h - where in a translated sentence the marks of its source belong.
 *
 * Units of the translation (unit.h) know where in the source they come from. An element becomes the
 * range of units that come from within it, inside of its parent's and beside its siblings; a point
 * goes beside the unit of the word that it stood beside. A term takes the place of the units that
 * come from it, or where there are none stands like a point. What comes out is a tree again, in the
 * order of the translation. Any thread.
 */
#ifndef SERVER_CONTENT_PLACE_H
#define SERVER_CONTENT_PLACE_H

#include "content/finder.h"
#include "content/prose.h"
#include "content/unit.h"

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
    struct prose_sentence source;
    struct units units;       /* of its translation: what is cut, and alignments */
    struct finder finder;     /* of those units */
    struct place_node *nodes; /* owned; nodes[0] is the sentence, parents are before children */
    size_t n_nodes;
    uint32_t *order; /* owned: nodes by parent and key, without the sentence */
};

/* Fills nodes and units from the source and what is to be cut. False: no memory. */
bool place_marks(struct place *place);
void place_fini(struct place *place);

/* Where in `order` the children of a node begin, and how many there are. */
size_t place_children(const struct place *place, uint32_t parent, size_t *n);

#endif
