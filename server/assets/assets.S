/* The files of this folder as data; bundle made some of them whole. */
        .section .rodata

        .macro asset name, file
        .balign 16
        .globl \name
        .type \name, %object
\name:
        .incbin "\file"
        .byte 0
        .size \name, . - \name
        .endm

        asset page_index, "index.html"
        asset page_docs, "docs.html"
        asset page_openapi, "openapi.json"
        asset page_spec, "spec.json"
        asset page_policy, "policy"

        .section .note.GNU-stack, "", %progbits
