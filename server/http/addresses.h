/* addresses.h - how much each client address has of what all share.
 *
 * An IPv6 address counts by its first 64 bits, which is what one client is given. Loop thread only.
 */
#ifndef SERVER_HTTP_ADDRESSES_H
#define SERVER_HTTP_ADDRESSES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct addresses;

/* Connections are counted here, requests and bodies where those of all are. */
struct address {
    uint64_t key;
    size_t n_connections, n_awaited, bodies_bytes;
    struct address *next; /* in its bucket */
};

/* Tells clients apart; 0: it is no internet address. */
uint64_t address_id(const struct sockaddr *peer);

struct addresses *addresses_open(void); /* NULL: no memory */
void addresses_close(struct addresses *addresses);

/* Counts a connection from there; NULL: no memory, or `peer` is no internet address. */
struct address *addresses_enter(struct addresses *addresses, const struct sockaddr *peer);
void addresses_leave(struct addresses *addresses, struct address *address); /* may be NULL */

enum { ADDRESS_TEXT_BYTES = 48 };

/* As people write it; "local" of a socket in the file system. */
void address_text(const struct sockaddr *peer, char text[ADDRESS_TEXT_BYTES]);

/* Of an address_id(): tells it from others, and tells nothing else. Clients cannot choose theirs.
 */
uint64_t addresses_number(const struct addresses *addresses, uint64_t id);
size_t address_connections(const struct address *address); /* 0 of NULL */

#endif
