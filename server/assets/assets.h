/* assets.h - the files that the program carries: pages for browsers and the description of its
 * interface.
 *
 * index.html is a template: `@{name}` stands for what api/page.c puts there. docs.html goes out as
 * it is. openapi.json is filled in with settings and models by api/openapi.c; spec.json is what
 * LibreTranslate has in its place. Texts, with a terminator at their ends. Read-only, any thread.
 */
#ifndef SERVER_ASSETS_ASSETS_H
#define SERVER_ASSETS_ASSETS_H

extern const char page_index[];
extern const char page_docs[];
extern const char page_openapi[];
extern const char page_spec[];

/* The Content-Security-Policy of the pages. */
extern const char page_policy[];

#endif
