"""What the fields of a request say of each other and JSON Schema does not: such are left out."""

import schemathesis


def number(body, name):
    value = body.get(name)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else 0


@schemathesis.hook
def filter_body(context, body):
    if not isinstance(body, dict):
        return True
    others = number(body, "alternatives")
    if number(body, "beam_size") and number(body, "beam_size") <= others:
        return False  # a search keeps at least as many hypotheses as it gives
    if others > 0 and body.get("stream"):
        return False  # alternatives are not streamed
    if body.get("format") == "html" and (body.get("sentences") or body.get("alignments")):
        return False  # of text alone
    return body.get("source") != "auto"  # of which a text may leave no idea
